"""The shipped weights on disk: arrays in safetensors, everything else in a JSON model card beside them."""

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import safetensors

from classifier.errors import ModelFileInvalid
from classifier.features import FEATURE_NAMES
from classifier.lsa import DIMENSIONS, Lsa
from classifier.model_files import load_card, read_arrays
from classifier.scoring import Head, Prior, Ranker, Standard

ARRAYS_NAME = "prior.safetensors"
CARD_NAME = "prior.json"
FORMAT = 2
_REMEDY = "reinstall flashlane, or make new weights with `flashlane classifier train`"
_untyped: Any = safetensors  # its functions carry no types

_HEADS = ("weak_fails", "strong_succeeds", "demanding", "failure")
_SHAPES = {
    **dict.fromkeys(_HEADS, len(FEATURE_NAMES) + 1),
    "gain": 2,
    "length": 2,
    "centre": len(FEATURE_NAMES),
    "quantiles": None,
    "lsa_rarities": None,
    "lsa_scales": DIMENSIONS,
    "lsa_gains": None,
    "lsa_neutral": 1,
}
_BYTES = {"lsa_terms": "U8", "lsa_rows": "I8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What the weights are, where they come from, and how good they are.

    Attributes:
        format: Layout of the two files; a reader refuses one it does not know.
        version: Name of these weights, unique to their content.
        sha256: Hash of the safetensors file.
        features: Names of the features, in the order of the weights.
        sources: One entry a source: name, licences, number of prompts.
        reference: What the reference distribution is made of: part -> share.
        figures: Leave-one-source-out figures, as `flashlane classifier eval --json` prints them.
        training_command: What made the files.
        notes: What a user should know before trusting a score.
    """

    format: int
    version: str
    sha256: str
    features: list[str]
    sources: list[dict[str, Any]]
    reference: dict[str, float]
    figures: dict[str, Any]
    training_command: str
    notes: list[str] = field(default_factory=list[str])


def save(folder: Path, prior: Prior, card: Mapping[str, Any]) -> ModelCard:
    """Write both files into `folder`; `card` holds every field that does not follow from the arrays."""
    import numpy as np  # only writing needs it; a gateway starts without
    from safetensors.numpy import save as serialise

    tensors: dict[str, Any] = {
        name: np.array(values, dtype=np.float64) for name, values in _arrays(prior).items()
    }
    tensors["lsa_terms"] = np.frombuffer("\n".join(prior.lsa.terms).encode(), dtype=np.uint8)
    tensors["lsa_rows"] = np.frombuffer(prior.lsa.rows, dtype=np.int8)
    content = serialise(tensors)
    digest = hashlib.sha256(content).hexdigest()
    written = ModelCard(
        format=FORMAT,
        version=f"prior-{FORMAT}-{digest[:8]}",
        sha256=digest,
        features=list(FEATURE_NAMES),
        **card,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ARRAYS_NAME).write_bytes(content)
    (folder / CARD_NAME).write_bytes(msgspec.json.format(msgspec.json.encode(written), indent=2) + b"\n")
    return written


def load(folder: Path) -> tuple[Prior, ModelCard]:
    """Read and check both files.

    Raises:
        ModelFileInvalid: A file is missing, damaged, does not belong to the other, or is of another format.
    """
    card = _load_card(folder / CARD_NAME)
    path = folder / ARRAYS_NAME
    content = read_arrays(path, card.sha256, card=CARD_NAME, remedy=_REMEDY)
    try:
        found: dict[str, dict[str, Any]] = dict(_untyped.deserialize(content))
        blobs = {name: _bytes(found.pop(name), dtype) for name, dtype in _BYTES.items() if name in found}
        tensors = {name: _floats(tensor) for name, tensor in found.items()}
    except (safetensors.SafetensorError, ValueError) as error:
        raise ModelFileInvalid(f"{path} is not a safetensors file of ours: {error}; {_REMEDY}") from error
    _check(path, tensors, blobs)
    return _prior(tensors, _lsa(path, tensors, blobs)), card


def _load_card(path: Path) -> ModelCard:
    card = load_card(path, ModelCard, format_=FORMAT, what="a model card", remedy=_REMEDY)
    if tuple(card.features) != FEATURE_NAMES:
        raise ModelFileInvalid(f"{path} lists other features than this version computes; {_REMEDY}")
    return card


def _floats(tensor: Mapping[str, Any]) -> tuple[float, ...]:
    if tensor["dtype"] != "F64":
        raise ValueError(f"dtype {tensor['dtype']}")
    values = array("d")
    values.frombytes(bytes(tensor["data"]))
    return tuple(values)


def _bytes(tensor: Mapping[str, Any], dtype: str) -> bytes:
    if tensor["dtype"] != dtype:
        raise ValueError(f"dtype {tensor['dtype']}")
    return bytes(tensor["data"])


def _heads(ranker: Ranker) -> tuple[Head, ...]:
    """In the order of _HEADS."""
    return (ranker.weak_fails, ranker.strong_succeeds, ranker.demanding, ranker.failure)


def _arrays(prior: Prior) -> dict[str, Sequence[float]]:
    ranker, lsa = prior.ranker, prior.lsa
    heads = zip(_HEADS, _heads(ranker), strict=True)
    return {
        **{name: (*head.weights, head.bias) for name, head in heads},
        "gain": (ranker.gain.mean, ranker.gain.deviation),
        "length": (ranker.length.mean, ranker.length.deviation),
        "centre": prior.centre,
        "quantiles": prior.quantiles,
        "lsa_rarities": lsa.rarities,
        "lsa_scales": lsa.scales,
        "lsa_gains": lsa.gains,
        "lsa_neutral": (lsa.neutral,),
    }


def _check(path: Path, tensors: Mapping[str, Sequence[float]], blobs: Mapping[str, bytes]) -> None:
    for name, length in _SHAPES.items():
        if name not in tensors or (length is not None and len(tensors[name]) != length):
            raise ModelFileInvalid(f"{path} lacks the array {name!r} of the right length; {_REMEDY}")
    for name in _BYTES:
        if name not in blobs:
            raise ModelFileInvalid(f"{path} lacks the array {name!r}; {_REMEDY}")
    table = tensors["quantiles"]
    if len(table) < 2 or any(low >= high for low, high in pairwise(table)):
        raise ModelFileInvalid(f"{path} has quantiles that do not increase; {_REMEDY}")


def _lsa(path: Path, tensors: Mapping[str, tuple[float, ...]], blobs: Mapping[str, bytes]) -> Lsa:
    text = blobs["lsa_terms"].decode("utf-8", "replace")
    terms = tuple(text.split("\n")) if text else ()
    rarities, gains, rows = tensors["lsa_rarities"], tensors["lsa_gains"], blobs["lsa_rows"]
    if not len(terms) == len(rarities) == len(gains) == len(rows) / DIMENSIONS:
        raise ModelFileInvalid(f"{path} has a table of terms whose parts differ in length; {_REMEDY}")
    return Lsa(
        terms=terms,
        rarities=rarities,
        rows=rows,
        scales=tensors["lsa_scales"],
        gains=gains,
        neutral=tensors["lsa_neutral"][0],
    )


def _prior(tensors: Mapping[str, tuple[float, ...]], lsa: Lsa) -> Prior:
    weak_fails, strong_succeeds, demanding, failure = (
        Head(tensors[name][:-1], tensors[name][-1]) for name in _HEADS
    )
    ranker = Ranker(
        weak_fails=weak_fails,
        strong_succeeds=strong_succeeds,
        demanding=demanding,
        failure=failure,
        gain=Standard(*tensors["gain"]),
        length=Standard(*tensors["length"]),
    )
    return Prior(ranker=ranker, quantiles=tensors["quantiles"], centre=tensors["centre"], lsa=lsa)
