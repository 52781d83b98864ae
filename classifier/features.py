"""The features of a pending task: one bounded pass over its text, plain Python, about 30 numbers."""

import math
import re
from collections.abc import Mapping

from classifier.lexicon import (
    CHINESE_CUES,
    CHINESE_TERMS,
    CUE_NAMES,
    ENGLISH_CUES,
    ENGLISH_PAIR_CUES,
    PAIR_STARTS,
)
from classifier.reading import Reading

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
)
"""Features that the heads weigh."""

CONTEXT_FEATURES = ("chinese", "other_script", "tools", "attachments", "depth", "carried")
"""Features that are reported, not weighed: the labelled prompts say nothing of them beyond their source.

`other_script` is weighed by a fixed rule instead (`classifier.model`).
"""

FEATURE_NAMES = (*TEXT_FEATURES, *CONTEXT_FEATURES)

_SENTENCE = re.compile(r"[.!?](?=\s|$)|[。！？；;\n]")
_BRACKET = re.compile(r"[()\[\]{}（）]")
_LIST_ITEM = re.compile(r"\s*(?:\d{1,2}[.)、]|[-*•]|[（(][a-zA-Z0-9一二三四五六][)）])")
_OPERATORS = "+*=^<>×÷≤≥≠∑∫√±∈≡"
_CODE_MARKS = (
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
_OPENING = frozenset("([{（")


def extract(
    reading: Reading, *, tool_count: int = 0, attachments: int = 0, depth: int = 1
) -> dict[str, float]:
    """The features of a reading.

    Counts are log1p of the count, shares are in [0, 1].

    Returns:
        A value for each of FEATURE_NAMES, in that order; all finite.
    """
    words = reading.words
    values = _shape(reading)
    values.update(_marks(reading.stem))
    count = len(words)
    values["numbers"] = math.log1p(sum(1 for word in words if "0" <= word[-1] <= "9"))
    values["long_words"] = sum(1 for word in words if len(word) > 8) / count if count else 0.0
    values["word_length"] = min(sum(map(len, words)) / count, 12.0) if count else 0.0
    values["distinct_words"] = len(set(words)) / count if count else 1.0
    values["ends_in_question"] = float(reading.stem.rstrip().endswith(("?", "？")))
    values["options"] = float(reading.options)
    values.update(_cues(reading))
    values["chinese"] = reading.chinese / max(len(reading.stem), 1)
    values["other_script"] = min(1.0, reading.other / max(len(reading.stem) - reading.chinese, 1) * 1.2)
    values["tools"] = math.log1p(max(tool_count, 0))
    values["attachments"] = math.log1p(max(attachments, 0))
    values["depth"] = math.log1p(max(depth, 0))
    values["carried"] = float(reading.carried)
    return {name: values[name] for name in FEATURE_NAMES}


def _shape(reading: Reading) -> dict[str, float]:
    stem = reading.stem
    log = math.log1p
    sentences = [len(part) for part in _SENTENCE.split(stem) if part.strip()]
    # A sentence's length is taken in the words that its share of the characters stands for.
    longest = max(sentences, default=0) * reading.units / max(len(stem), 1)
    return {
        "words": log(reading.units),
        "chars": log(reading.length),
        "sentences": log(len(sentences)),
        "longest_sentence": log(longest),
        "asks": log(
            stem.count("?") + stem.count("？") + sum(1 for line in stem.split("\n") if _LIST_ITEM.match(line))
        ),
    }


def _marks(stem: str) -> dict[str, float]:
    log = math.log1p
    brackets, nesting = _nesting(stem)
    operators = _OPERATORS[:6] if stem.isascii() else _OPERATORS
    return {
        "operators": log(sum(map(stem.count, operators))),
        "brackets": log(brackets),
        "nesting": float(min(nesting, 5)),
        "commas": log(stem.count(",") + stem.count("，") + stem.count("、") + stem.count(";")),
        "code": log(sum(map(stem.count, _CODE_MARKS))),
        "latex": log(stem.count("$") + stem.count("\\")),
    }


def _nesting(stem: str) -> tuple[int, int]:
    depth = deepest = opened = 0
    if "(" not in stem and "[" not in stem and "{" not in stem and "（" not in stem:
        return 0, 0
    for bracket in _BRACKET.findall(stem):
        if bracket in _OPENING:
            opened += 1
            depth += 1
            deepest = max(deepest, depth)
        elif depth:
            depth -= 1
    return opened, deepest


def _cues(reading: Reading) -> dict[str, float]:
    counts: dict[str, int] = dict.fromkeys(CUE_NAMES, 0)
    words = reading.words
    lookup = ENGLISH_CUES.get
    for word in words:
        if (name := lookup(word)) is not None:
            counts[name] += 1
    for at, word in enumerate(words[:-1]):
        if word in PAIR_STARTS and (name := ENGLISH_PAIR_CUES.get((word, words[at + 1]))) is not None:
            counts[name] += 1
    if reading.chinese:
        for term in CHINESE_TERMS.find(reading.stem):
            counts[CHINESE_CUES[term]] += 1
    return {name: math.log1p(min(found, _MAX_CUES)) for name, found in counts.items()}


def ordered(features: Mapping[str, float]) -> list[float]:
    """The values of `features` in the order of FEATURE_NAMES."""
    return [features[name] for name in FEATURE_NAMES]
