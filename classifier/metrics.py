"""How well scores rank prompts by the gain of the stronger model.

The cost-quality curve and the figures read off it are RouteLLM's (Ong et al. 2024, arXiv:2406.18665): going
down the ranking, the share of prompts sent to the strong model against the share of the performance gap
recovered. APGR is the area under that curve (0.5 for a random ranking), CPT(x) the share of calls to the
strong model that recovers x of the gap. RouteLLM reads the curve off ten bins; this is the exact curve.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_TIE_BREAKS = 3


@dataclass(frozen=True, slots=True)
class CurveFigures:
    """Figures of one ranking of one pair of models.

    Attributes:
        apgr: Area under the curve of recovered gap.
        cpt50: Percentage of calls to the strong model that recovers half of the gap.
        cpt80: The same for four fifths.
    """

    apgr: float
    cpt50: float
    cpt80: float


def cost_quality_curve(scores: Array, weak: Array, strong: Array, seed: int = 0) -> tuple[Array, Array]:
    """The exact curve: shares of calls to the strong model, and the share of the gap recovered at each.

    Ties are broken at random, by `seed`. Both arrays have a value more than there are prompts.
    """
    gaps = strong - weak
    ties = np.random.default_rng(seed).random(len(gaps))
    recovered = np.concatenate([[0.0], np.cumsum(gaps[np.lexsort((ties, -scores))])]) / gaps.sum()
    return np.arange(len(gaps) + 1) / len(gaps), recovered


def curve_figures(scores: Array, weak: Array, strong: Array) -> CurveFigures:
    """Rank by `scores`, highest first, and read the figures off the exact curve.

    Args:
        scores: (N,) what ranks; ties are broken at random, and averaged over a few draws.
        weak: (N,) outcomes of the weak model.
        strong: (N,) outcomes of the strong model; their mean must be above that of `weak`.
    """
    found = np.zeros(3)
    for seed in range(_TIE_BREAKS):
        share, recovered = cost_quality_curve(scores, weak, strong, seed)
        area = np.sum((recovered[1:] + recovered[:-1]) / 2.0) / len(weak)
        reached = [share[np.argmax(recovered >= part)] for part in (0.5, 0.8)]
        found += np.array([area, 100.0 * reached[0], 100.0 * reached[1]])
    apgr, cpt50, cpt80 = (found / _TIE_BREAKS).tolist()
    return CurveFigures(apgr, cpt50, cpt80)


def binned_figures(scores: Array, weak: Array, strong: Array, bins: int = 10) -> CurveFigures:
    """The same figures as RouteLLM's own harness reads them: off the edges of ten equally filled bins.

    A prompt goes to the strong model when its score is at least a bin's edge (above it, at the last one).
    Ties are broken by noise far below any difference that matters: it has no bins with equal edges.
    """
    scores = scores + np.random.default_rng(0).random(len(scores)) * 1e-9
    edges = np.quantile(scores, np.linspace(0.0, 1.0, bins + 1))
    chosen = [scores >= edge for edge in edges[:-1]] + [scores > edges[-1]]
    shares = np.array([100.0 * strongly.mean() for strongly in chosen])
    quality = np.array([np.where(strongly, strong, weak).mean() for strongly in chosen])
    order = np.argsort(shares)
    shares, quality = shares[order], quality[order]
    low, high = float(weak.mean()), float(strong.mean())
    cpt50, cpt80 = (float(np.interp(low + part * (high - low), quality, shares)) for part in (0.5, 0.8))
    width = float(shares[-1] - shares[0]) / 100.0
    area = float(np.sum((quality[1:] + quality[:-1]) / 2.0 * np.diff(shares))) / 100.0
    return CurveFigures((area - low * width) / ((high - low) * width), cpt50, cpt80)


def auc(scores: Array, positive: npt.NDArray[np.bool_]) -> float | None:
    """Area under the ROC curve, by ranks (ties count half); None when all are of one kind."""
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        return None
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
    return float((ranks[positive].sum() - positives * (positives + 1) / 2.0) / (positives * negatives))
