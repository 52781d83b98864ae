"""Adapting the prior to pairs of one's own: a light refit, out of fold, refused when the pairs say nothing.

`adapt` is a function of values, without files or clocks: a command calls it, and a quality loop may.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from classifier.adapted import (
    AdaptationReport,
    Adapted,
    Effects,
    Interval,
    PairModel,
    SecondStageReport,
    View,
)
from classifier.calibration import Platt, calibration_error, enough_to_calibrate, fit_platt
from classifier.comparison import Numbers, compare
from classifier.encoders import Encoder, encode_all
from classifier.errors import AdaptationRefused
from classifier.features import values_of
from classifier.figures import MIN_GAP
from classifier.inputs import Array, Scale, fit_scale, k_means
from classifier.lsa import terms_of
from classifier.metrics import auc
from classifier.pairs import Pair, distinct_prompts
from classifier.prior_view import PriorView
from classifier.reading import Reading, read
from classifier.risk import Calibration
from classifier.scoring import Prior, rank_in
from classifier.second_stage import SecondStage, added_out_of_fold, fit_weights
from classifier.surface import Slopes, Space, choose_landmarks, find_ratios, fit_surface
from classifier.task_gains import TaskGains
from classifier.vocabulary import shared_terms

MIN_PAIRS = 50
"""Fewer are refused: they move the ranking less than they scatter it (docs/classifier.md)."""

MIN_INFORMATIVE = 5
"""Pairs on which the two models differ that it takes."""

LIKELY = 0.75
LEAST_DIFFERENCE = 0.005
"""What is better than the prior: APGR by so much, and at all in this share of the bootstrap resamples."""

FLASH_OK = 0.5
"""Score from which an answer of Flash counts as good enough."""

CLUSTERS = 16
FOLDS = 5
GAIN_SLOPES = (0.1, 0.0)
FLASH_OK_SLOPES = (0.0, -0.12)
"""Deviations of an outcome for one of the raw score and one of P(weak model fails), over other sources."""

_QUANTILES = 101


@dataclass(frozen=True, slots=True)
class Evidence:
    """Pairs as numbers.

    Attributes:
        values: (N, features).
        topics: (N, D) what each is about.
        starts: (N, STARTS) what the prior says of each.
        terms: The distinct terms of each.
        tasks: N names; "" for none.
        flash: (N,) in [0, 1].
        standard: (N,) in [0, 1].
        prompts: (N,) equal for pairs of one prompt.
        vectors: (N, E) by a sentence encoder; E is 0 without one.
        encoder: Its name; "" for none.
    """

    values: Array
    topics: Array
    starts: Array
    terms: Sequence[Collection[str]]
    tasks: Sequence[str]
    flash: Array
    standard: Array
    prompts: Numbers
    vectors: Array
    encoder: str = ""

    @property
    def gain(self) -> Array:
        """(N,) in [-1, 1]."""
        return self.standard - self.flash

    @property
    def flash_ok(self) -> npt.NDArray[np.bool_]:
        """(N,) whether Flash's answer was good enough."""
        return self.flash >= FLASH_OK

    def distinct_terms(self) -> list[Collection[str]]:
        """The terms of each prompt, once for all pairs of it."""
        return [self.terms[row] for row in np.unique(self.prompts, return_index=True)[1].tolist()]

    def take(self, rows: Numbers) -> "Evidence":
        """The pairs at these places."""
        places: list[int] = rows.tolist()
        return Evidence(
            values=self.values[rows],
            topics=self.topics[rows],
            starts=self.starts[rows],
            terms=[self.terms[row] for row in places],
            tasks=[self.tasks[row] for row in places],
            flash=self.flash[rows],
            standard=self.standard[rows],
            prompts=self.prompts[rows],
            vectors=self.vectors[rows],
            encoder=self.encoder,
        )


def adapt(
    prior: Prior,
    pairs: Sequence[Pair],
    *,
    encoder: Encoder | None = None,
    traffic: Array | None = None,
    seed: int = 0,
) -> Adapted:
    """Adapt `prior` to `pairs` of one pair of models.

    Args:
        prior: What is adapted.
        pairs: With outcomes of the same two models; labels of other models damage the ranking.
        encoder: Its vectors are tried as a second stage, which is kept where it ranks held-out pairs better
            than the first, which has to be better than the prior by itself.
        traffic: Further prompts without outcomes, (M, features + D), for better clusters.
        seed: Of folds, landmarks and resamples; the same pairs and seed give the same model.

    Raises:
        AdaptationRefused: The pairs say nothing, or nothing that the prior did not say; the message says why.
    """
    return adapt_evidence(observe(PriorView(prior), pairs, encoder), traffic=traffic, seed=seed)


def adapt_evidence(evidence: Evidence, *, traffic: Array | None = None, seed: int = 0) -> Adapted:
    """The same, on evidence that was gathered already."""
    _refuse_without_signal(evidence)
    rng = np.random.default_rng(seed)
    model = fit(evidence, rng, traffic)
    folds = folds_of(evidence, rng)
    gains, flash_ok = out_of_fold(evidence, folds, rng, traffic)
    report = _report(evidence, gains, flash_ok, folds, rng)
    if not _is_better(report.difference, report.better):
        raise AdaptationRefused(
            f"{report.pairs} pairs give no better ranking than the prior: APGR {report.after.value:.3f} "
            f"against {report.before.value:.3f} on held-out pairs, better in {report.better:.0%} of the "
            f"resamples ({LIKELY:.0%} are asked for); collect more pairs, or name their tasks"
        )
    quantiles = _quantiles_of(gains)
    scores = np.array([rank_in(quantiles, gain) for gain in gains.tolist()])
    calibration = Calibration(scores, evidence.flash, evidence.standard)
    adapted = Adapted(model, quantiles, calibrate(evidence, flash_ok), report, calibration)
    if not evidence.encoder:
        return adapted
    return _with_second_stage(adapted, evidence, (gains, flash_ok), folds, rng)


def _with_second_stage(
    adapted: Adapted, evidence: Evidence, first: tuple[Array, Array], folds: Numbers, rng: np.random.Generator
) -> Adapted:
    """The same with what vectors add to what the first stage expects, out of fold, if they do."""
    gains, flash_ok = first
    left_gain, left_ok = evidence.gain - gains, evidence.flash_ok - flash_ok
    both = gains + added_out_of_fold(evidence.vectors, left_gain, folds, rng)
    found = compare(gains, both, evidence.gain, evidence.prompts, folds=folds, rng=rng)
    kept = _is_better(found.difference, found.better)
    report = SecondStageReport(evidence.encoder, found.difference, found.better, kept)
    adapted = replace(adapted, report=replace(adapted.report, second_stage=report))
    if not kept:
        return adapted
    both_ok = flash_ok + added_out_of_fold(evidence.vectors, left_ok, folds, rng)
    second = SecondStage(
        encoder=evidence.encoder,
        gain=fit_weights(evidence.vectors, left_gain, rng),
        flash_ok=fit_weights(evidence.vectors, left_ok, rng),
        quantiles=_quantiles_of(both),
        platt=calibrate(evidence, both_ok),
    )
    return replace(adapted, second=second)


def _is_better(difference: Interval, better: float) -> bool:
    return better >= LIKELY and difference.value >= LEAST_DIFFERENCE


def _quantiles_of(gains: Array) -> tuple[float, ...]:
    table = np.quantile(gains, np.linspace(0.0, 1.0, _QUANTILES))
    return tuple((table + 1e-9 * np.arange(_QUANTILES)).tolist())  # strictly increasing


def observe(view: PriorView, pairs: Sequence[Pair], encoder: Encoder | None = None) -> Evidence:
    """Compute what `adapt` learns from."""
    readings = [read(pair.prompt) for pair in pairs]
    look_up = view.prior.lsa.look_up
    values = [
        values_of(reading, look_up(reading), tool_count=pair.tool_count)
        for reading, pair in zip(readings, pairs, strict=True)
    ]
    return Evidence(
        values=np.array(values, dtype=np.float64),
        topics=np.array([view.topic(reading) for reading in readings]),
        starts=np.array([view.starts(row) for row in values]),
        terms=[terms_of(reading) for reading in readings],
        tasks=[pair.task for pair in pairs],
        flash=np.array([pair.flash for pair in pairs]),
        standard=np.array([pair.standard for pair in pairs]),
        prompts=np.array(distinct_prompts(pairs), dtype=np.int64),
        vectors=vectors_of(encoder, readings),
        encoder="" if encoder is None else encoder.name,
    )


def vectors_of(encoder: Encoder | None, readings: Sequence[Reading]) -> Array:
    """(N, E) of N prompts; (N, 0) without an encoder."""
    if encoder is None:
        return np.zeros((len(readings), 0))
    return encode_all(encoder, [reading.text for reading in readings])


def fit(evidence: Evidence, rng: np.random.Generator, traffic: Array | None = None) -> PairModel:
    """Fit gain and flash_ok, without asking whether that is any better than the prior."""
    scale = fit_scale(evidence.values)
    view = View(
        scale=scale,
        starts_mean=evidence.starts.mean(axis=0),
        starts_deviation=np.maximum(evidence.starts.std(axis=0), 1e-9),
        centres=_centres(evidence, scale, traffic, rng),
        vocabulary=shared_terms(evidence.distinct_terms()),
    )
    space = _space(view, evidence)
    landmarks = choose_landmarks(space, rng)
    return PairModel(
        view=view,
        landmarks=landmarks,
        gain=_effects(space, evidence.gain, landmarks, GAIN_SLOPES, rng),
        flash_ok=_effects(space, evidence.flash_ok.astype(np.float64), landmarks, FLASH_OK_SLOPES, rng),
    )


def folds_of(evidence: Evidence, rng: np.random.Generator) -> Numbers:
    """The fold of each pair; pairs of one prompt share it."""
    return rng.integers(0, FOLDS, size=int(evidence.prompts.max()) + 1)[evidence.prompts]


def out_of_fold(
    evidence: Evidence, fold: Numbers, rng: np.random.Generator, traffic: Array | None = None
) -> tuple[Array, Array]:
    """The expected gain and flash_ok of each pair, by a model that saw no pair of its prompt."""
    gains, flash_ok = np.zeros(len(fold)), np.zeros(len(fold))
    for at in range(FOLDS):
        rest, held = np.flatnonzero(fold != at), np.flatnonzero(fold == at)
        if not len(held) or not len(rest):
            continue
        model = fit(evidence.take(rest), rng, traffic)
        gains[held], flash_ok[held] = expected(model, evidence.take(held))
    return gains, flash_ok


def expected(model: PairModel, evidence: Evidence) -> tuple[Array, Array]:
    """(N,) the gain and the flash_ok that `model` expects."""
    space = _space(model.view, evidence)
    return model.expected(model.gain, space), model.expected(model.flash_ok, space)


def _space(view: View, evidence: Evidence) -> Space:
    return view.space(evidence.values, evidence.topics, evidence.starts, evidence.terms, evidence.tasks)


def calibrate(evidence: Evidence, flash_ok: Array) -> Platt | None:
    """The way from expected flash_ok, out of fold, to a probability; None while the pairs are too few."""
    return fit_platt(flash_ok, evidence.flash_ok) if enough_to_calibrate(evidence.flash_ok) else None


def _effects(
    space: Space, outcome: Array, landmarks: Space, slopes: Slopes, rng: np.random.Generator
) -> Effects:
    surface = fit_surface(space, outcome, landmarks, slopes, find_ratios(space, outcome, slopes, rng))
    left = outcome - surface.of(space, landmarks)
    tasks = TaskGains(shrinkage=surface.task_shrinkage)
    return Effects(surface, tasks.added(zip(space.tasks, left.tolist(), strict=True)))


def _centres(evidence: Evidence, scale: Scale, traffic: Array | None, rng: np.random.Generator) -> Array:
    """Clusters for prompts without a task; of no use when every pair has one."""
    rows = np.hstack([scale.shape(evidence.values), evidence.topics])
    if all(evidence.tasks):
        return np.zeros((0, rows.shape[1]))
    if traffic is not None and len(traffic):
        size = evidence.values.shape[1]
        more = np.hstack([scale.shape(traffic[:, :size]), traffic[:, size:]])
        rows = np.vstack([rows, more])
    return k_means(rows, CLUSTERS, rng)


def _report(
    evidence: Evidence, gains: Array, flash_ok: Array, folds: Numbers, rng: np.random.Generator
) -> AdaptationReport:
    found = compare(evidence.starts[:, 0], gains, evidence.gain, evidence.prompts, folds=folds, rng=rng)
    platt = calibrate(evidence, flash_ok)
    return AdaptationReport(
        pairs=len(gains),
        tasks=len({task for task in evidence.tasks if task}),
        gap=float(evidence.gain.mean()),
        before=found.before,
        after=found.after,
        difference=found.difference,
        better=found.better,
        flash_auc=auc(flash_ok, evidence.flash_ok),
        calibration_error=None
        if platt is None
        else calibration_error(platt.probabilities(flash_ok), evidence.flash_ok),
    )


def _refuse_without_signal(evidence: Evidence) -> None:
    prompts = len(np.unique(evidence.prompts))
    if prompts < MIN_PAIRS:
        raise AdaptationRefused(f"{prompts} prompts with pairs are too few; collect at least {MIN_PAIRS}")
    informative = int(np.count_nonzero(np.abs(evidence.gain) > 1e-9))
    if informative < MIN_INFORMATIVE or float(evidence.gain.std()) < 1e-6:
        raise AdaptationRefused(
            f"the gain hardly varies: the two models differ on {informative} of {len(evidence.gain)} pairs; "
            "there is nothing to rank by, so keep the prior"
        )
    if float(evidence.gain.mean()) < MIN_GAP:
        raise AdaptationRefused(
            f"the standard model is better by {evidence.gain.mean():+.3f} on average, less than {MIN_GAP}: "
            "there is no gap to recover; send everything to flash, or compare other models"
        )
