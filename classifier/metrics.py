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


def curve_figures(scores: Array, weak: Array, strong: Array) -> CurveFigures:
    """Rank by `scores`, highest first, and read the figures off the exact curve.

    Args:
        scores: (N,) what ranks; ties are broken at random, and averaged over a few draws.
        weak: (N,) outcomes of the weak model.
        strong: (N,) outcomes of the strong model; their mean must be above that of `weak`.
    """
    gaps = strong - weak
    share = np.arange(len(gaps) + 1) / len(gaps)
    found = np.zeros(3)
    for seed in range(_TIE_BREAKS):
        ties = np.random.default_rng(seed).random(len(gaps))
        recovered = np.concatenate([[0.0], np.cumsum(gaps[np.lexsort((ties, -scores))])]) / gaps.sum()
        area = np.sum((recovered[1:] + recovered[:-1]) / 2.0) / len(gaps)
        reached = [share[np.argmax(recovered >= part)] for part in (0.5, 0.8)]
        found += np.array([area, 100.0 * reached[0], 100.0 * reached[1]])
    apgr, cpt50, cpt80 = (found / _TIE_BREAKS).tolist()
    return CurveFigures(apgr, cpt50, cpt80)


def auc(scores: Array, positive: npt.NDArray[np.bool_]) -> float | None:
    """Area under the ROC curve, by ranks (ties count half); None when all are of one kind."""
    positives = int(positive.sum())
    negatives = len(positive) - positives
    if not positives or not negatives:
        return None
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
    return float((ranks[positive].sum() - positives * (positives + 1) / 2.0) / (positives * negatives))
