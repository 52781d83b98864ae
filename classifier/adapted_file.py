"""An adapted model on disk: arrays in safetensors, everything else in a JSON card that holds their hash.

The prior is not copied. The card names the one that was adapted, and another is refused: the numbers that a
model was fitted to would not be those that it is served.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import safetensors

from classifier import model_files
from classifier.adapted import AdaptationReport, Adapted, Effects, PairModel, View
from classifier.calibration import Platt
from classifier.errors import EncoderUnavailable, ModelFileInvalid
from classifier.inputs import Array, Scale
from classifier.model_files import read_arrays
from classifier.prior_view import STARTS
from classifier.risk import Calibration
from classifier.second_stage import SecondStage, Weights
from classifier.surface import Space, Surface
from classifier.task_gains import Tally, TaskGains
from classifier.versions import ADAPTED_CARD as CARD_NAME
from classifier.vocabulary import Vocabulary

ARRAYS_NAME = "adapted.safetensors"
FORMAT = 3
_REMEDY = "make it again with `flashlane classifier adapt`, or go back with `flashlane classifier rollback`"
_SURFACES = ("gain", "flash_ok")
_CALIBRATION = ("scores", "flash", "standard")


class SurfaceCard(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one outcome that are no arrays; a tally is [pairs, sum]."""

    mean: float
    slopes: tuple[float, float]
    task_shrinkage: float
    everything: tuple[float, float]
    tasks: dict[str, tuple[float, float]]


class SecondCard(msgspec.Struct, frozen=True, kw_only=True):
    """The second stage, but for its arrays.

    Attributes:
        encoder: Name of the encoder whose vectors it needs.
        platt: As of the first stage.
    """

    encoder: str
    platt: tuple[float, float] | None


class AdaptedCard(msgspec.Struct, frozen=True, kw_only=True):
    """What an adapted model is.

    Attributes:
        format: Layout of the two files; a reader refuses one it does not know.
        version: Its name, unique to its arrays and its prior.
        prior: Version of the prior that was adapted.
        sha256: Hash of the safetensors file.
        created: When, as given by the caller (ISO 8601); "" when it was not.
        models: The pair of models that the pairs are of, as `flash+standard` by their served names; "" when
            the caller did not say.
        report: What adapting changed.
        platt: Slope and intercept of p_flash_ok; null while the pairs are too few.
        terms: What the pairs share; words of their prompts.
        gain: Of standard score - flash score.
        flash_ok: Of whether Flash's answer was good enough.
        second: What an encoder adds; null where there is none.
    """

    format: int
    version: str
    prior: str
    sha256: str
    created: str
    models: str
    report: AdaptationReport
    platt: tuple[float, float] | None
    terms: tuple[str, ...]
    gain: SurfaceCard
    flash_ok: SurfaceCard
    second: SecondCard | None = None


def save_adapted(
    folder: Path, adapted: Adapted, *, prior: str, created: str = "", models: str = ""
) -> AdaptedCard:
    """Write both files into `folder`, which must exist."""
    from safetensors.numpy import save as serialise  # only writing needs it

    content = serialise(dict(_arrays(adapted)))
    digest = hashlib.sha256(content).hexdigest()
    model = adapted.model
    card = AdaptedCard(
        format=FORMAT,
        version=f"{prior}+adapted-{FORMAT}-{digest[:8]}",
        prior=prior,
        sha256=digest,
        created=created,
        models=models,
        report=adapted.report,
        platt=_platt_card(adapted.platt),
        terms=model.view.vocabulary.terms,
        gain=_surface_card(model.gain),
        flash_ok=_surface_card(model.flash_ok),
        second=_second_card(adapted.second),
    )
    (folder / ARRAYS_NAME).write_bytes(content)
    (folder / CARD_NAME).write_bytes(msgspec.json.format(msgspec.json.encode(card), indent=2) + b"\n")
    return card


def load_adapted(folder: Path, *, prior: str, encoder: str | None = None) -> tuple[Adapted, AdaptedCard]:
    """Read and check both files.

    Args:
        folder: Of one version.
        prior: Version of the prior that it will be served with.
        encoder: Name of the encoder that it will be served with, "" for none; None when only the first stage
            is wanted.

    Raises:
        ModelFileInvalid: A file is missing, damaged, of another format or of another prior.
        EncoderUnavailable: It was fitted with another encoder.
    """
    card = load_card(folder)
    if card.prior != prior:
        raise ModelFileInvalid(
            f"{folder} was adapted from {card.prior}, and {prior} is installed: adapt again from the pairs "
            "with `flashlane classifier adapt`"
        )
    _check_encoder(folder, card, encoder)
    path = folder / ARRAYS_NAME
    content = read_arrays(path, card.sha256, card=CARD_NAME, remedy=_REMEDY)
    from safetensors.numpy import load as deserialise

    try:
        arrays: dict[str, Array] = deserialise(content)
        return _adapted(arrays, card), card
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise ModelFileInvalid(f"{path} lacks what an adapted model needs: {error}; {_REMEDY}") from error


def load_card(folder: Path) -> AdaptedCard:
    """The card of the version in `folder`.

    Raises:
        ModelFileInvalid: It is missing, damaged or of another format.
    """
    path = folder / CARD_NAME
    return model_files.load_card(
        path, AdaptedCard, format_=FORMAT, what="the card of an adapted model", remedy=_REMEDY
    )


def _arrays(adapted: Adapted) -> Mapping[str, Array]:
    model = adapted.model
    return {
        "scale_mean": model.view.scale.mean,
        "scale_factor": model.view.scale.factor,
        "starts_mean": model.view.starts_mean,
        "starts_deviation": model.view.starts_deviation,
        "centres": model.view.centres,
        "landmark_shapes": model.landmarks.shape,
        "landmark_topics": model.landmarks.topic,
        "quantiles": np.array(adapted.quantiles),
        **{f"calibration_{name}": getattr(adapted.calibration, name) for name in _CALIBRATION},
        "gain_shape_weights": model.gain.surface.shape_weights,
        "gain_topic_weights": model.gain.surface.topic_weights,
        "gain_term_weights": model.gain.surface.term_weights,
        "flash_ok_shape_weights": model.flash_ok.surface.shape_weights,
        "flash_ok_topic_weights": model.flash_ok.surface.topic_weights,
        "flash_ok_term_weights": model.flash_ok.surface.term_weights,
        **({} if adapted.second is None else _second_arrays(adapted.second)),
    }


def _second_arrays(second: SecondStage) -> Mapping[str, Array]:
    return {
        "second_mean": second.gain.mean,
        "second_gain": second.gain.slopes,
        "second_flash_ok": second.flash_ok.slopes,
        "second_quantiles": np.array(second.quantiles),
    }


def _adapted(arrays: Mapping[str, Array], card: AdaptedCard) -> Adapted:
    shapes, topics = arrays["landmark_shapes"], arrays["landmark_topics"]
    size, features = len(shapes), int(shapes.shape[1])
    _check(arrays, card, size, features)
    model = PairModel(
        view=View(
            scale=Scale(arrays["scale_mean"], arrays["scale_factor"]),
            starts_mean=arrays["starts_mean"],
            starts_deviation=arrays["starts_deviation"],
            centres=arrays["centres"],
            vocabulary=Vocabulary(card.terms),
        ),
        landmarks=Space(np.zeros((size, STARTS)), shapes, topics, np.zeros((size, 0)), [""] * size),
        gain=_effects(arrays, card.gain, "gain"),
        flash_ok=_effects(arrays, card.flash_ok, "flash_ok"),
    )
    calibration = Calibration(*(arrays[f"calibration_{name}"] for name in _CALIBRATION))
    return Adapted(
        model=model,
        quantiles=tuple(arrays["quantiles"].tolist()),
        platt=_platt(card.platt),
        report=card.report,
        calibration=calibration,
        second=None if card.second is None else _second(arrays, card.second),
    )


def _second(arrays: Mapping[str, Array], card: SecondCard) -> SecondStage:
    mean = arrays["second_mean"]
    for name in ("second_mean", "second_gain", "second_flash_ok"):
        if mean.ndim != 1 or arrays[name].shape != mean.shape or not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} is not a finite vector as long as the others")
    _check_quantiles(arrays["second_quantiles"])
    return SecondStage(
        encoder=card.encoder,
        gain=Weights(mean, arrays["second_gain"]),
        flash_ok=Weights(mean, arrays["second_flash_ok"]),
        quantiles=tuple(arrays["second_quantiles"].tolist()),
        platt=_platt(card.platt),
    )


def _check_encoder(folder: Path, card: AdaptedCard, encoder: str | None) -> None:
    if card.second is None or encoder is None or encoder == card.second.encoder:
        return
    found = f"the one here is {encoder}" if encoder else "none is configured"
    raise EncoderUnavailable(
        f"{folder} was adapted with the encoder {card.second.encoder}, and {found}: name that one in "
        "`encoder` of the configuration, or adapt again from the pairs with `flashlane classifier adapt`"
    )


def _check(arrays: Mapping[str, Array], card: AdaptedCard, size: int, features: int) -> None:
    topics = arrays["landmark_topics"].shape[1]
    shapes: dict[str, tuple[int, ...]] = {
        "scale_mean": (features,),
        "scale_factor": (features,),
        "landmark_topics": (size, topics),
        "starts_mean": (STARTS,),
        "starts_deviation": (STARTS,),
        **{f"{name}_{part}_weights": (size,) for name in _SURFACES for part in ("shape", "topic")},
        **{f"{name}_term_weights": (len(card.terms),) for name in _SURFACES},
        **{f"calibration_{name}": (card.report.pairs,) for name in _CALIBRATION},
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} is not a finite array of shape {shape}")
    if arrays["centres"].ndim != 2 or arrays["centres"].shape[1] != features + topics:
        raise ValueError("centres have another number of columns than the prompts")
    if any(
        arrays[f"calibration_{name}"].min() < 0.0 or arrays[f"calibration_{name}"].max() > 1.0
        for name in _CALIBRATION
    ):
        raise ValueError("the calibration is not within 0 and 1")
    _check_quantiles(arrays["quantiles"])


def _check_quantiles(quantiles: Array) -> None:
    if len(quantiles) < 2 or (np.diff(quantiles) <= 0.0).any():
        raise ValueError("quantiles do not increase")


def _platt(card: tuple[float, float] | None) -> Platt | None:
    return None if card is None else Platt(*card)


def _platt_card(platt: Platt | None) -> tuple[float, float] | None:
    return None if platt is None else (platt.slope, platt.intercept)


def _second_card(second: SecondStage | None) -> SecondCard | None:
    return None if second is None else SecondCard(encoder=second.encoder, platt=_platt_card(second.platt))


def _surface_card(effects: Effects) -> SurfaceCard:
    surface, tasks = effects.surface, effects.tasks
    return SurfaceCard(
        mean=surface.mean,
        slopes=(float(surface.slopes[0]), float(surface.slopes[1])),
        task_shrinkage=surface.task_shrinkage,
        everything=(tasks.everything.pairs, tasks.everything.total),
        tasks={name: (tally.pairs, tally.total) for name, tally in sorted(tasks.tasks.items())},
    )


def _effects(arrays: Mapping[str, Array], card: SurfaceCard, name: str) -> Effects:
    surface = Surface(
        mean=card.mean,
        slopes=np.array(card.slopes),
        shape_weights=arrays[f"{name}_shape_weights"],
        topic_weights=arrays[f"{name}_topic_weights"],
        term_weights=arrays[f"{name}_term_weights"],
        task_shrinkage=card.task_shrinkage,
    )
    tasks = {task: Tally(*tally) for task, tally in card.tasks.items()}
    return Effects(surface, TaskGains(tasks, Tally(*card.everything), card.task_shrinkage))
