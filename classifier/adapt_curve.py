"""How good adaptation is with so many pairs: many random draws of the pairs, tested on all other prompts.

Every pair of models of a source is a tenant of its own. A draw takes n of its prompts with their outcomes,
adapts the prior to them, and ranks the rest. The prior is one that never saw the source when labelled data to
train it on is given, else the one that is measured.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from classifier.adaptation import (
    FLASH_OK,
    Evidence,
    Numbers,
    expected,
    fit,
    folds_of,
    out_of_fold,
    vectors_of,
)
from classifier.calibration import calibration_error, fit_platt
from classifier.dataset import Source as TrainingSource
from classifier.encoders import Encoder
from classifier.features import FEATURE_NAMES, values_of
from classifier.figures import PairRows, mean_known
from classifier.inputs import Array
from classifier.lsa import terms_of
from classifier.measured import Source
from classifier.metrics import auc, curve_figures
from classifier.prior_view import PriorView
from classifier.reading import read_task
from classifier.scoring import Prior
from classifier.second_stage import fit_weights
from classifier.training import distinct, featurise, own_prompts
from classifier.training import fit as fit_prior_parts

SIZES = (0, 50, 100, 200, 500, 1000)
DRAWS = 20
CALIBRATED_DRAWS = 2
"""Draws that are calibrated as well, which takes six fits each."""

MIN_PROMPTS = 1000
"""A source with fewer prompts is left out: too few would remain to test on."""

MIN_TESTED = 100

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Means over draws and pairs of models; pairs weigh by their gap in apgr_weighted only.

    Attributes:
        apgr: As everywhere.
        apgr_weighted: Likewise.
        weak_failure_auc: Of the expected flash_ok; of the score without pairs.
        ece: Calibration error of p_flash_ok, as it would be stated; None without pairs.
    """

    apgr: float
    apgr_weighted: float
    weak_failure_auc: float | None
    ece: float | None

    def as_json(self) -> dict[str, float | None]:
        """Plain values, rounded."""
        return {
            "apgr": round(self.apgr, 4),
            "apgr_weighted": round(self.apgr_weighted, 4),
            "weak_failure_auc": None if self.weak_failure_auc is None else round(self.weak_failure_auc, 4),
            "ece": None if self.ece is None else round(self.ece, 4),
        }


Curve = Mapping[int, CurvePoint]


@dataclass(frozen=True, slots=True)
class _Draw:
    gap: float
    apgr: float
    weak_failure_auc: float | None
    ece: float | None


def adapt_curves(
    prior: Prior,
    sources: Sequence[Source],
    training: Sequence[TrainingSource] = (),
    *,
    encoder: Encoder | None = None,
    sizes: Sequence[int] = SIZES,
    draws: int = DRAWS,
    progress: Progress = lambda _: None,
) -> Mapping[str, Curve]:
    """Source -> figures at each number of pairs, where the source has enough prompts for it.

    Args:
        prior: What is adapted.
        sources: What is adapted to; those with fewer than MIN_PROMPTS prompts are left out.
        training: Labelled prompts that a prior is trained on for each source, without the source itself.
        encoder: Its vectors are the second stage of every draw, whether they help or not.
        sizes: Numbers of pairs.
        draws: Of the pairs, for each size and each pair of models.
        progress: Told what is being worked on.
    """
    priors = _Priors(training) if training else None
    found: dict[str, Curve] = {}
    for source in sources:
        if len(source.conversations) < MIN_PROMPTS:
            continue
        progress(source.name)
        view = PriorView(prior if priors is None else priors.without(source.name))
        bare = _bare(view, source, encoder)
        points: dict[int, CurvePoint] = {}
        for size in sizes:
            progress(f"{source.name}, {size} pairs")
            if made := _draws(bare, source.pairs, size, draws):
                points[size] = _point(made)
        found[source.name] = points
    return found


def five_fold(
    prior: Prior,
    sources: Sequence[Source],
    training: Sequence[TrainingSource] = (),
    *,
    repeats: int = 4,
    progress: Progress = lambda _: None,
) -> Mapping[str, float]:
    """Source -> APGR after adapting to four fifths of it, on the other fifth; mean over folds and pairs.

    Args:
        prior: As of `adapt_curves`.
        sources: Likewise.
        training: Likewise.
        repeats: Of the division into folds.
        progress: Told what is being worked on.
    """
    priors = _Priors(training) if training else None
    found: dict[str, float] = {}
    for source in sources:
        progress(f"{source.name}, five folds")
        bare = _bare(PriorView(prior if priors is None else priors.without(source.name)), source)
        areas = [
            area
            for number, pair in enumerate(source.pairs)
            for repeat in range(repeats)
            for area in _fold_areas(bare, pair, np.random.default_rng([number, repeat]))
        ]
        if areas:
            found[source.name] = float(np.mean(areas))
    return found


def _fold_areas(bare: Evidence, pair: PairRows, rng: np.random.Generator) -> list[float]:
    """APGR of each fifth of a pair of models, after adapting to the others."""
    evidence = replace(bare.take(pair.rows), flash=pair.weak, standard=pair.strong)
    folds = folds_of(evidence, rng)
    gains, _ = out_of_fold(evidence, folds, rng)
    held = [folds == fold for fold in np.unique(folds)]
    return [
        curve_figures(gains[rows], pair.weak[rows], pair.strong[rows]).apgr
        for rows in held
        if pair.strong[rows].mean() > pair.weak[rows].mean()
    ]


def macro(curves: Mapping[str, Curve]) -> Curve:
    """The mean over sources at each number of pairs that all of them reach."""
    sizes = [size for size in SIZES if curves and all(size in curve for curve in curves.values())]
    return {
        size: CurvePoint(
            apgr=float(np.mean([curve[size].apgr for curve in curves.values()])),
            apgr_weighted=float(np.mean([curve[size].apgr_weighted for curve in curves.values()])),
            weak_failure_auc=mean_known([curve[size].weak_failure_auc for curve in curves.values()]),
            ece=mean_known([curve[size].ece for curve in curves.values()]),
        )
        for size in sizes
    }


class _Priors:
    """Priors that did not see one source, nor a prompt of it elsewhere."""

    def __init__(self, training: Sequence[TrainingSource]) -> None:
        self._matrices = [featurise(source) for source in training]
        self._own = own_prompts()

    def without(self, name: str) -> Prior:
        left_out = [key for matrix in self._matrices if matrix.name == name for key in matrix.keys]
        others = [matrix for matrix in self._matrices if matrix.name != name]
        fitted = fit_prior_parts(distinct(others, unlike=left_out), self._own)
        nothing = (0.0,) * len(FEATURE_NAMES)
        return Prior(ranker=fitted.ranker, quantiles=(0.0, 1.0), centre=nothing, lsa=fitted.lsa)


def _bare(view: PriorView, source: Source, encoder: Encoder | None = None) -> Evidence:
    """Every prompt of `source`, without outcomes."""
    readings = [read_task(conversation.turns) for conversation in source.conversations]
    look_up = view.prior.lsa.look_up
    values = [
        values_of(reading, look_up(reading), tool_count=conversation.tool_count)
        for reading, conversation in zip(readings, source.conversations, strict=True)
    ]
    size = len(values)
    return Evidence(
        values=np.array(values),
        topics=np.array([view.topic(reading) for reading in readings]),
        starts=np.array([view.starts(row) for row in values]),
        terms=[terms_of(reading) for reading in readings],
        tasks=[conversation.task for conversation in source.conversations],
        flash=np.zeros(size),
        standard=np.zeros(size),
        prompts=np.arange(size),
        vectors=vectors_of(encoder, readings),
        encoder="" if encoder is None else encoder.name,
    )


def _draws(bare: Evidence, pairs: Sequence[PairRows], size: int, draws: int) -> list[_Draw]:
    found: list[_Draw] = []
    for number, pair in enumerate(pairs):
        if len(pair.rows) < size + MIN_TESTED:
            continue
        for draw in range(draws if size else 1):
            rng = np.random.default_rng([number, draw, size])
            order = rng.permutation(len(pair.rows))
            calibrated = draw < CALIBRATED_DRAWS
            found.append(_one_draw(bare, pair, order, size, rng=rng, calibrated=calibrated))
    return found


def _one_draw(
    bare: Evidence, pair: PairRows, order: Numbers, size: int, *, rng: np.random.Generator, calibrated: bool
) -> _Draw:
    """Adapt to the first `size` of `order`, test on the others."""
    taken, rest = order[:size], order[size:]
    tested = bare.take(pair.rows[rest])
    weak, strong = pair.weak[rest], pair.strong[rest]
    if not size:
        gains, flash_ok, ece = tested.starts[:, 0], -tested.starts[:, 1], None
    else:
        known = bare.take(pair.rows[taken])
        evidence = replace(known, flash=pair.weak[taken], standard=pair.strong[taken])
        model = fit(evidence, rng)
        gains, flash_ok = expected(model, tested)
        ece = None
        if evidence.encoder:
            more = _second_stage(evidence, tested, rng)
            gains, flash_ok = gains + more[0], flash_ok + more[1]
        elif calibrated:
            ece = _calibration(evidence, flash_ok, weak, rng)
    return _Draw(
        gap=pair.gap,
        apgr=curve_figures(gains, weak, strong).apgr,
        weak_failure_auc=auc(-flash_ok, weak < 0.5),
        ece=ece,
    )


def _second_stage(evidence: Evidence, tested: Evidence, rng: np.random.Generator) -> tuple[Array, Array]:
    """What vectors add to the gain and the flash_ok of each tested prompt."""
    gains, flash_ok = out_of_fold(evidence, folds_of(evidence, rng), rng)
    left = (evidence.gain - gains, evidence.flash_ok - flash_ok)
    gain, ok = (fit_weights(evidence.vectors, each, rng).of(tested.vectors) for each in left)
    return gain, ok


def _calibration(evidence: Evidence, flash_ok: Array, weak: Array, rng: np.random.Generator) -> float:
    """The error that a probability would have, stated or not."""
    _, held = out_of_fold(evidence, folds_of(evidence, rng), rng)
    platt = fit_platt(held, evidence.flash_ok)
    return calibration_error(platt.probabilities(flash_ok), weak >= FLASH_OK)


def _point(draws: Sequence[_Draw]) -> CurvePoint:
    return CurvePoint(
        apgr=float(np.mean([draw.apgr for draw in draws])),
        apgr_weighted=float(np.average([draw.apgr for draw in draws], weights=[draw.gap for draw in draws])),
        weak_failure_auc=mean_known([draw.weak_failure_auc for draw in draws]),
        ece=mean_known([draw.ece for draw in draws]),
    )
