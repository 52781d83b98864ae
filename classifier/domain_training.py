"""Learning the table of domains from prompts written for it.

Softmax regression on the rarity of distinct terms over the length of those rarities. The weights of a term
are its own, which few prompts have a say in, and what its word vector says, which all prompts with words of
like meaning have: so a word that no prompt holds is known as well. Both fold into one number a domain and
term. The vectors are 64 principal components of what the multilingual Universal Sentence Encoder (Yang et
al. 2019, Apache-2.0) says of single words; `domain_cues` and `domain_cues_zh` count as short prompts.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from classifier.domain_cues import ENGLISH
from classifier.domain_cues_zh import CHINESE
from classifier.domain_file import DomainCard, save_domains
from classifier.domain_sources import WrittenPrompt, labelled_prompts
from classifier.domain_table import DAMPING, DOMAINS, MIDDLE, DomainTable, terms_of
from classifier.fitting import one_thread
from classifier.reading import read

Array = npt.NDArray[np.float64]

PROMPTS = Path(__file__).with_name("domain_data") / "prompts.jsonl"
VECTORS = PROMPTS.with_name("words.safetensors")

NOTES = (
    "Learned from prompts written for this project and from those of the prior's sources that show a domain.",
    "docs/classifier.md has the figures on prompts that it never saw.",
    "Word vectors: Universal Sentence Encoder, multilingual (Apache-2.0), single words, 64 components.",
)

_OWN_PENALTY = 2e-6
_VECTOR_PENALTY = 5e-5
_CUES = 0.1  # what all cues weigh together, against the prompts
_LEAST_POINTS = 1.5  # of a cue that counts
_PAIRS_IN = 2  # a pair of words that fewer prompts hold is left to its words
_LABELLED_IN = 3  # a term of fewer labelled prompts, and of no written one, is left out
_LABELLED = 1 / 3  # the share of labelled prompts, where a domain and language has any
_UNSEEN = 0.0005  # the share of prompts that a word is thought to be in that is in none
_ITERATIONS = 150
_CLIPPED = 99.95  # the percentile of weights that a byte holds


@dataclass(frozen=True, slots=True)
class _Examples:
    """What is learned from: the terms, the number of the domain, and the weight of each."""

    terms: Sequence[frozenset[str]]
    labels: npt.NDArray[np.int64]
    weights: Array


def load_written_prompts(path: Path = PROMPTS) -> Sequence[WrittenPrompt]:
    """Read the prompts that the table is learned from."""
    return msgspec.json.Decoder(WrittenPrompt).decode_lines(path.read_bytes())


@dataclass(frozen=True, slots=True)
class LearnedDomains:
    """A table and what it was learned from.

    Attributes:
        table: Of the terms.
        prompts: How many prompts of each "domain language" it was learned from.
    """

    table: DomainTable
    prompts: dict[str, int]

    def save(self, folder: Path) -> DomainCard:
        """Write the table and its card into `folder`."""
        return save_domains(folder, self.table, self.prompts, list(NOTES))


def learn_domains(folder: Path) -> LearnedDomains:
    """Learn the table from the prompts that ship and the labelled ones in `folder`.

    Raises:
        MissingDependency: scikit-learn, and with it scipy, or pyarrow is not installed.
    """
    written, (labelled, _) = load_written_prompts(), labelled_prompts(folder)
    with one_thread():
        table = fit_domains(written, labelled)
    counts = Counter(f"{prompt.domain} {prompt.lang}" for prompt in (*written, *labelled))
    return LearnedDomains(table, dict(sorted(counts.items())))


def fit_domains(written: Sequence[WrittenPrompt], labelled: Sequence[WrittenPrompt] = ()) -> DomainTable:
    """Learn a table; the same prompts give the same bytes.

    Args:
        written: By us.
        labelled: By others. With them, each domain and language still weighs the same.
    """
    prompts = [*written, *labelled]
    seen = [frozenset(terms_of(read(prompt.text))) for prompt in prompts]
    counts = Counter(term for each in seen for term in each)
    chosen = Counter(term for each in seen[: len(written)] for term in each)
    own = sorted(term for term in counts if chosen[term] or counts[term] >= _LABELLED_IN)
    own = [term for term in own if " " not in term or counts[term] >= _PAIRS_IN]
    words, vectors = _word_vectors()
    held = frozenset(own)
    terms = sorted(held.union(words))
    known = np.array([term in held for term in terms])
    share = np.array([max(counts[term], len(prompts) * _UNSEEN) for term in terms])
    rarities = np.log((1.0 + len(prompts)) / (1.0 + share))
    rows = _rows_of(terms, words, vectors) * rarities[:, None]
    examples = _examples(written, labelled, seen)
    weights, biases = _Problem(terms, rarities * known, rows, examples).solved()
    return _table(terms, weights, biases, rarities * known)


def _word_vectors() -> tuple[Sequence[str], Array]:
    from safetensors.numpy import load

    untyped: Any = load
    found: dict[str, npt.NDArray[Any]] = untyped(VECTORS.read_bytes())
    words = found["terms"].tobytes().decode().split("\n")
    scales = found["scales"]
    return words, found["rows"].reshape(len(words), len(scales)).astype(np.float64) * scales


def _rows_of(terms: Sequence[str], words: Sequence[str], vectors: Array) -> Array:
    """The vector of each term, zeros for one without."""
    places = {word: at for at, word in enumerate(words)}
    rows = np.zeros((len(terms), vectors.shape[1]))
    for at, term in enumerate(terms):
        if term in places:
            rows[at] = vectors[places[term]]
    return rows


def _examples(
    prompts: Sequence[WrittenPrompt], labelled: Sequence[WrittenPrompt], seen: Sequence[frozenset[str]]
) -> _Examples:
    """The prompts, each domain and language weighing the same, and the cues."""
    counts = Counter((prompt.domain, prompt.lang) for prompt in prompts)
    cues = [
        (DOMAINS.index(domain), cue.replace("_", " "), points)
        for tables in (ENGLISH, CHINESE)
        for domain, table in tables.items()
        for points, listed in table.items()
        if points >= _LEAST_POINTS
        for cue in listed.split()
    ]
    a_point = _CUES * len(counts) / (2.0 * len(cues))
    weights = _weights(prompts, labelled)
    weights += [a_point * points for _, _, points in cues]
    total = sum(weights)
    return _Examples(
        terms=[*seen, *(frozenset(terms_of(read(cue))) for _, cue, _ in cues)],
        labels=np.array(
            [*(DOMAINS.index(each.domain) for each in (*prompts, *labelled)), *(at for at, _, _ in cues)]
        ),
        weights=np.array(weights) / total,
    )


def _weights(written: Sequence[WrittenPrompt], labelled: Sequence[WrittenPrompt]) -> list[float]:
    """One for each prompt; those of each domain and language sum to 1."""
    own = Counter((prompt.domain, prompt.lang) for prompt in written)
    others = Counter((prompt.domain, prompt.lang) for prompt in labelled)
    groups = [(prompt.domain, prompt.lang) for prompt in written]
    return [(1.0 - _LABELLED if group in others else 1.0) / own[group] for group in groups] + [
        (_LABELLED if (prompt.domain, prompt.lang) in own else 1.0) / others[prompt.domain, prompt.lang]
        for prompt in labelled
    ]


class _Problem:
    """Softmax regression with a penalty on the terms' own weights and another on those of the vectors."""

    def __init__(self, terms: Sequence[str], rarities: Array, rows: Array, examples: _Examples) -> None:
        import scipy.sparse  # training only

        untyped: Any = scipy.sparse
        places = {term: at for at, term in enumerate(terms)}
        found = [[places[term] for term in sorted(each) if term in places] for each in examples.terms]
        line = np.repeat(np.arange(len(found)), [len(each) for each in found])
        column = np.array([at for each in found for at in each], dtype=np.int64)
        shape = (len(found), len(terms))
        squares = np.bincount(line, rarities[column] ** 2, minlength=len(found))
        inverse = 1.0 / np.sqrt(DAMPING + squares)
        self._own = untyped.csr_array((rarities[column] * inverse[line], (line, column)), shape=shape)
        held = untyped.csr_array((inverse[line], (line, column)), shape=shape)
        self._vectors: Array = held @ rows
        self._transposed = self._own.T.tocsr()
        self._rarities, self._rows, self._examples = rarities, rows, examples
        self._labels = np.zeros((len(found), len(DOMAINS)))
        self._labels[np.arange(len(found)), examples.labels] = 1.0

    def solved(self) -> tuple[Array, Array]:
        """The weight of each term and domain, and the bias of each domain."""
        from scipy import optimize  # training only

        untyped: Any = optimize
        parts = len(self._rarities) + self._rows.shape[1] + 1
        found = untyped.minimize(
            self._loss,
            np.zeros(parts * len(DOMAINS)),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _ITERATIONS},
        )
        own, vectors, bias = self._parts(found.x)
        return self._rarities[:, None] * own + self._rows @ vectors, bias

    def _parts(self, flat: Array) -> tuple[Array, Array, Array]:
        weights = flat.reshape(-1, len(DOMAINS))
        at = len(self._rarities)
        return weights[:at], weights[at:-1], weights[-1]

    def _loss(self, flat: Array) -> tuple[float, Array]:
        own, vectors, bias = self._parts(flat)
        logits = self._own @ own + self._vectors @ vectors + bias
        logits -= logits.max(axis=1, keepdims=True)
        exponents = np.exp(logits)
        totals = exponents.sum(axis=1, keepdims=True)
        weights = self._examples.weights
        right = (logits * self._labels).sum(axis=1)
        loss = float(weights @ (np.log(totals[:, 0]) - right))
        loss += 0.5 * _OWN_PENALTY * float((own**2).sum())
        loss += 0.5 * _VECTOR_PENALTY * float((vectors**2).sum())
        rest = (exponents / totals - self._labels) * weights[:, None]
        gradient = (
            self._transposed @ rest + _OWN_PENALTY * own,
            self._vectors.T @ rest + _VECTOR_PENALTY * vectors,
            rest.sum(axis=0)[None],
        )
        return loss, np.vstack(gradient).ravel()


def _table(terms: Sequence[str], weights: Array, biases: Array, rarities: Array) -> DomainTable:
    weights = weights - weights.mean(axis=1, keepdims=True)  # what all domains have alike decides nothing
    unit = float(np.percentile(np.abs(weights), _CLIPPED)) / (MIDDLE - 1)
    rounded = np.clip(np.round(weights / unit), 1 - MIDDLE, MIDDLE - 1) + MIDDLE
    squares = rarities**2
    rarity = float(squares.max()) / 255
    columns = np.vstack([rounded.T, np.round(squares / rarity)]).astype(np.uint8)
    return DomainTable(terms, columns.tobytes(), tuple((biases / unit).tolist()), rarity)
