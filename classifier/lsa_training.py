"""Fitting the table of `classifier.lsa`: terms, their rarities, the truncated SVD, and the ridge on top.

Every source weighs the same, whatever its size. The ridge predicts the gain of the strong model, weak failure
plus strong success, centred within each source: what a topic adds, not what a source is like.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from classifier.errors import MissingDependency
from classifier.fitting import standard
from classifier.lsa import DAMPING, DIMENSIONS, UNKNOWN, Lsa

Array = npt.NDArray[np.float64]

_MOST_TERMS = 8192
_FEWEST_PROMPTS = 4  # a term of fewer prompts names them rather than a topic
_LONGEST_TERM = 24
_ITERATIONS = 4
_RIDGE = 100.0
_LEVELS = 127  # a row is kept in signed bytes


@dataclass(frozen=True, slots=True)
class Corpus:
    """The prompts of one source, for the table.

    Attributes:
        terms: The distinct terms of each prompt.
        gains: (prompts,) weak failure plus strong success.
    """

    terms: Sequence[frozenset[str]]
    gains: Array


def fit_lsa(corpora: Sequence[Corpus]) -> Lsa:
    """Fit the table on `corpora`; deterministic.

    Raises:
        MissingDependency: scikit-learn is not installed.
    """
    terms, shares = _vocabulary(corpora)
    rarities = np.minimum(-np.log(np.maximum(shares, 1e-9)), UNKNOWN).round(4)
    weights = np.concatenate([np.full(len(each.gains), 1.0 / len(each.gains)) for each in corpora])
    weights *= len(weights) / weights.sum()
    matrix = _weighed(corpora, terms, rarities)
    rows, scales = _in_bytes(_components(matrix, weights))
    gains = _ridge(matrix, rows * scales, corpora, weights) * rarities
    return Lsa(
        terms=tuple(terms),
        rarities=tuple(rarities.tolist()),
        rows=rows.astype(np.int8).tobytes(),
        scales=tuple(scales.tolist()),
        gains=tuple(gains.round(6).tolist()),
        neutral=_neutral(corpora, dict(zip(terms, rarities.tolist(), strict=True))),
    )


def _vocabulary(corpora: Sequence[Corpus]) -> tuple[list[str], Array]:
    """The terms of most prompts, and the share of prompts that each is in."""
    prompts: Counter[str] = Counter()
    shares: dict[str, float] = {}
    for corpus in corpora:
        counts = Counter(term for each in corpus.terms for term in each)
        prompts.update(counts)
        for term, count in counts.items():
            shares[term] = shares.get(term, 0.0) + count / len(corpus.terms) / len(corpora)
    usable = [
        term
        for term, count in prompts.items()
        if count >= _FEWEST_PROMPTS and len(term) <= _LONGEST_TERM and not term.isdigit()
    ]
    terms = sorted(usable, key=lambda term: (-round(shares[term], 12), term))[:_MOST_TERMS]
    return terms, np.array([shares[term] for term in terms], dtype=np.float64)


def _weighed(corpora: Sequence[Corpus], terms: Sequence[str], rarities: Array) -> Any:  # noqa: ANN401 - scipy
    """(prompts, T) sparse: the rarities of each prompt's terms over their damped length."""
    from scipy import sparse  # heavy, and needed for training only

    untyped: Any = sparse
    places = {term: at for at, term in enumerate(terms)}
    starts: list[int] = [0]
    columns: list[int] = []
    values: list[float] = []
    for corpus in corpora:
        for each in corpus.terms:
            found = sorted(places[term] for term in each if term in places)
            weights = rarities[found]
            columns += found
            values += (weights / np.sqrt(DAMPING + (weights**2).sum())).tolist()
            starts.append(len(columns))
    return untyped.csr_matrix((values, columns, starts), shape=(len(starts) - 1, len(terms)))


def _components(matrix: Any, weights: Array) -> Array:  # noqa: ANN401 - scipy
    """(T, DIMENSIONS) right singular vectors, zeros where the data has fewer."""
    try:
        from sklearn.utils import extmath  # heavy, and needed for training only
    except ImportError as error:
        raise MissingDependency(
            'scikit-learn is not installed; run: pip install "flashlane[train]"'
        ) from error
    found = np.zeros((matrix.shape[1], DIMENSIONS))
    if 0 in matrix.shape:
        return found
    weighed = matrix.multiply(np.sqrt(weights)[:, None]).tocsr()
    rank = min(DIMENSIONS, *matrix.shape)
    untyped: Any = extmath
    _, _, vectors = untyped.randomized_svd(weighed, rank, n_iter=_ITERATIONS, random_state=0)
    found[:, : len(vectors)] = vectors.T
    return found


def _in_bytes(components: Array) -> tuple[Array, Array]:
    """Whole numbers within +-_LEVELS and the (DIMENSIONS,) scales that bring them back."""
    scales = np.abs(components).max(axis=0, initial=0.0) / _LEVELS
    scales = np.where(scales > 1e-12, scales, 1.0).round(9)
    return np.clip((components / scales).round(), -_LEVELS, _LEVELS), scales


def _ridge(matrix: Any, rows: Array, corpora: Sequence[Corpus], weights: Array) -> Array:  # noqa: ANN401 - scipy
    """(T,) the ridge from topics to the centred gain, folded and in standard deviations of its output."""
    topics = np.asarray(matrix @ rows)
    means = np.vstack([np.tile(part.mean(axis=0), (len(part), 1)) for part in _parts(topics, corpora)])
    target = np.concatenate([each.gains - each.gains.mean() for each in corpora])
    deviation = topics.std(axis=0)
    deviation = np.where(deviation > 1e-9, deviation, 1.0)
    scaled = (topics - means) / deviation
    left = (scaled * weights[:, None]).T @ scaled + _RIDGE * np.eye(DIMENSIONS)
    solved = np.linalg.solve(left, (scaled * weights[:, None]).T @ target) / deviation
    spread = standard(topics @ solved, weights).deviation
    return rows @ solved / spread


def _parts(values: Array, corpora: Sequence[Corpus]) -> list[Array]:
    return np.split(values, np.cumsum([len(each.gains) for each in corpora])[:-1])


def _neutral(corpora: Sequence[Corpus], rarities: dict[str, float]) -> float:
    """The mean over sources of the usual rarity of the rarest word of a prompt in ASCII."""
    means: list[float] = []
    for corpus in corpora:
        tops = [
            max(
                (rarities.get(term, UNKNOWN) for term in each if term.isascii() and term.isalpha()),
                default=0.0,
            )
            for each in corpus.terms
        ]
        known = [top for top in tops if top]
        if known:
            means.append(sum(known) / len(known))
    return round(sum(means) / len(means), 4) if means else UNKNOWN
