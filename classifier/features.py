"""The features of a pending task: one bounded pass over its text, plain Python, about 30 numbers."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log1p

from classifier.lexicon import (
    CHINESE_CUES,
    CHINESE_TERMS,
    CUE_NAMES,
    ENGLISH_CUES,
    ENGLISH_PAIR_CUES,
    SCRIPT_CUES,
    SCRIPT_TERMS,
)
from classifier.reading import Reading
from classifier.text import Marks, count_signs, numbers_and_long_words

TEXT_FEATURES = (
    "words",
    "chars",
    "sentences",
    "longest_sentence",
    "numbers",
    "operators",
    "brackets",
    "nesting",
    "commas",
    "code",
    "latex",
    "long_words",
    "word_length",
    "distinct_words",
    "ends_in_question",
    "options",
    "asks",
    *CUE_NAMES,
    "quotes",
    "numeric_options",
    "rarity",
)
"""Features that heads may weigh."""

CONTEXT_FEATURES = ("topics", "chinese", "other_script", "tools", "attachments", "depth", "carried")
"""Features that no head weighs: the labelled prompts say nothing of most of them beyond their source.

`topics` and `other_script` are weighed by fixed rules instead (`classifier.scoring`).
"""

FEATURE_NAMES = (*TEXT_FEATURES, *CONTEXT_FEATURES)

# A full stop ends a sentence before white space only. The pattern begins with one set of characters, not with
# a choice of two, so that it is searched for by that set.
_SENTENCE = re.compile(r"[.!?。！？；;\n](?:(?<![.!?])|(?!\S))")
_BRACKET = re.compile(r"[()\[\]{}（）]")
_NO_ASCII_BRACKET = bytes(code for code in range(256) if chr(code) not in "()[]{}")
_LIST_ITEM = re.compile(r"\s*(?:\d{1,2}[.)、]|[-*•]|[（(][a-zA-Z0-9一二三四五六][)）])")
_OTHER_OPERATOR = re.compile("[×÷≤≥≠∑∫√±∈≡]")
_CODE_MARKS = Marks(
    "```",
    "def ",
    "return",
    "==",
    "()",
    "import ",
    "#include",
    "=>",
    "Traceback",
    "};",
    "</",
    "SELECT ",
    "::",
)
_MAX_CUES = 4  # a cue counts this often at most, so that stuffing a prompt with it gains little
_DIGIT = re.compile(r"\d")
_OPENING = frozenset("([{（")
_CUE_PLACES = {name: at for at, name in enumerate(CUE_NAMES)}
_NEGATION = _CUE_PLACES["negation"]
_ENGLISH = {word: _CUE_PLACES[name] for word, name in ENGLISH_CUES.items()}
_ENGLISH_PAIRS = {pair: _CUE_PLACES[name] for pair, name in ENGLISH_PAIR_CUES.items()}
_PAIRS = frozenset(_ENGLISH_PAIRS)
_CHINESE = {term: _CUE_PLACES[name] for term, name in CHINESE_CUES.items()}
_SCRIPTS = {term: _CUE_PLACES[name] for term, name in SCRIPT_CUES.items()}
_LOGS = tuple(log1p(count) for count in range(_MAX_CUES + 1))


def extract(
    reading: Reading,
    looked_up: tuple[float, float] = (0.0, 0.0),
    *,
    tool_count: int = 0,
    attachments: int = 0,
    depth: int = 1,
) -> dict[str, float]:
    """The features of a reading by name; see `values_of`."""
    values = values_of(reading, looked_up, tool_count=tool_count, attachments=attachments, depth=depth)
    return dict(zip(FEATURE_NAMES, values, strict=True))


def values_of(
    reading: Reading,
    looked_up: tuple[float, float] = (0.0, 0.0),
    *,
    tool_count: int = 0,
    attachments: int = 0,
    depth: int = 1,
) -> Sequence[float]:
    """The features of a reading.

    Counts are log1p of the count, shares are in [0, 1].

    Args:
        reading: Of the pending task.
        looked_up: What `Lsa.look_up` says of it.
        tool_count: Tools on offer.
        attachments: Of the pending turn.
        depth: Turns of the conversation.

    Returns:
        A value for each of FEATURE_NAMES, in that order; all finite.
    """
    stem, words, signs = reading.stem, reading.words, reading.signs
    characters, count = max(len(stem), 1), max(len(words), 1)
    sentences, longest = _sentences(stem)
    opened, nesting = _nesting(stem, signs)
    numbers, long_words = numbers_and_long_words(stem)
    return (
        log1p(reading.units),  # words
        log1p(reading.length),  # chars
        log1p(sentences),  # sentences
        # A sentence's length is taken in the words that its share of the characters stands for.
        log1p(longest * reading.units / characters),  # longest_sentence
        log1p(numbers),  # numbers
        log1p(_operators(stem, signs)),  # operators
        log1p(opened),  # brackets
        float(min(nesting, 5)),  # nesting
        log1p(_commas(stem, signs)),  # commas
        log1p(_CODE_MARKS.count(stem, signs)),  # code
        log1p(count_signs(signs, b"$\\")),  # latex
        long_words / count,  # long_words
        min(len("".join(words)) / count, 12.0),  # word_length
        len(reading.distinct) / count if words else 1.0,  # distinct_words
        float(stem.rstrip().endswith(("?", "？", "؟"))),  # ends_in_question
        float(reading.options),  # options
        log1p(_asks(stem, signs)),  # asks
        *_cues(reading),
        log1p(count_signs(signs, b"\"'")),  # quotes
        _numeric_options(reading) if reading.options else 0.0,  # numeric_options
        *looked_up,  # rarity, topics
        reading.chinese / characters,  # chinese
        min(1.0, reading.other / max(len(stem) - reading.chinese, 1) * 1.2),  # other_script
        log1p(max(tool_count, 0)),  # tools
        log1p(max(attachments, 0)),  # attachments
        log1p(max(depth, 0)),  # depth
        float(reading.carried),  # carried
    )


def _sentences(stem: str) -> tuple[int, int]:
    """How many there are, and the characters of the longest."""
    lengths = [len(part) for part in _SENTENCE.split(stem) if part and not part.isspace()]
    return len(lengths), max(lengths, default=0)


def _operators(stem: str, signs: bytes) -> int:
    found = count_signs(signs, b"+*=^<>")
    return found if stem.isascii() else found + len(_OTHER_OPERATOR.findall(stem))


def _commas(stem: str, signs: bytes) -> int:
    found = count_signs(signs, b",;")
    return found if stem.isascii() else found + stem.count("，") + stem.count("、")


def _numeric_options(reading: Reading) -> float:
    """The share of the lines of the options that hold a digit."""
    lines = [line for line in reading.text[len(reading.stem) :].split("\n") if line.strip()]
    return sum([_DIGIT.search(line) is not None for line in lines]) / max(len(lines), 1)


def _asks(stem: str, signs: bytes) -> int:
    """Question marks and list items."""
    items = list(filter(_LIST_ITEM.match, stem.split("\n")))
    return count_signs(signs, b"?") + stem.count("？") + len(items)


def _nesting(stem: str, signs: bytes) -> tuple[int, int]:
    """How many brackets open, and how deep they go."""
    brackets = signs.translate(None, _NO_ASCII_BRACKET).decode()
    if "（" in stem or "）" in stem:
        brackets = _BRACKET.findall(stem)
    depth = deepest = opened = 0
    for bracket in brackets:
        if bracket in _OPENING:
            opened += 1
            depth += 1
            deepest = max(deepest, depth)
        elif depth:
            depth -= 1
    return opened, deepest


def _cues(reading: Reading) -> list[float]:
    """A value for each of CUE_NAMES."""
    counts = [0] * len(CUE_NAMES)
    words = reading.words
    for word in filter(_ENGLISH.__contains__, words):
        counts[_ENGLISH[word]] += 1
    if not _PAIRS.isdisjoint(reading.pairs):
        for pair in filter(_PAIRS.__contains__, pairwise(words)):
            counts[_ENGLISH_PAIRS[pair]] += 1
    if reading.chinese:
        for term in CHINESE_TERMS.find(reading.stem):
            counts[_CHINESE[term]] += 1
        counts[_NEGATION] += reading.stem.count("不")  # too frequent for a term of one character
    if reading.scripts:
        for term in SCRIPT_TERMS.find(reading.stem.lower()):
            counts[_SCRIPTS[term]] += 1
    return [_LOGS[min(found, _MAX_CUES)] if found else 0.0 for found in counts]


def ordered(features: Mapping[str, float]) -> list[float]:
    """The values of `features` in the order of FEATURE_NAMES."""
    return [features[name] for name in FEATURE_NAMES]
