"""Splitting text into words and signs.

All of it works on the ASCII bytes of a text, through 256-byte tables: a translation, a split or a count of
bytes is one loop in C, many times faster than a regular expression or a walk in Python.
"""

import re
import string
import unicodedata

_WORD = (string.ascii_letters + string.digits + "-").encode()
_BETWEEN = bytes(code for code in range(33, 127) if code not in _WORD) + string.whitespace.encode()
_BREAKS = _BETWEEN + bytes(range(0x1C, 0x20))  # what `str.split` takes for white space as well
_LOWER = bytes(range(256)).lower().translate(bytes.maketrans(_BREAKS, b" " * len(_BREAKS)))
_MASK = bytes(
    ord(" ") if code in _BREAKS else ord("0") if code in string.digits.encode() else ord("x")
    for code in range(256)
)  # a byte for each character: of a break, of a digit, of anything else in a word
_NO_SIGN = bytes(code for code in range(256) if chr(code) not in string.punctuation)
_LONG = b" " + b"x" * 9


_FOLDABLE = re.compile("[\u00c0-\u024f\u1e00-\u1eff\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]")
_MARKS = re.compile("[\u0300-\u036f]+")
_LETTERS = str.maketrans(
    {"ß": "ss", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ø": "o", "æ": "ae", "œ": "oe", "\u0131": "i"}
)


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is written as one string."""
    return frozenset(text.split())


def folded(text: str) -> str:
    """`text` with Latin letters that have accents, or are of full width, as ASCII letters."""
    if text.isascii() or not _FOLDABLE.search(text):
        return text
    return _MARKS.sub("", unicodedata.normalize("NFKD", text.translate(_LETTERS)))


def ascii_words(text: str) -> list[str]:
    """Lower-cased words of ASCII letters, digits and hyphens; everything else parts words."""
    return text.encode("ascii", "replace").translate(_LOWER).decode("ascii").split()


def numbers_and_long_words(text: str) -> tuple[int, int]:
    """How many of `ascii_words` end in a digit, and how many have more than eight characters."""
    mask = b" %b " % text.encode("ascii", "replace").translate(_MASK)
    return mask.count(b"0 "), mask.replace(b"0", b"x").count(_LONG)


def ascii_signs(text: str) -> bytes:
    """The ASCII punctuation of `text`, in order, with everything between left out.

    A prompt has few of them, so what is looked for in them is found, or found missing, at once.
    """
    return text.encode("ascii", "ignore").translate(None, _NO_SIGN)


def count_signs(signs: bytes, kinds: bytes) -> int:
    """How many of `signs` are one of `kinds`."""
    return len(signs) - len(signs.translate(None, kinds))


class Marks:
    """Strings to count in a text.

    A mark with punctuation that is rare in prose is looked for only where a text has that punctuation.
    """

    __slots__ = ("_plain", "_sign", "_signed")

    def __init__(self, *marks: str) -> None:
        signs = {mark: ascii_signs(mark) for mark in marks}
        self._plain = tuple(mark for mark in marks if signs[mark] in {b"", b"."})
        self._signed = tuple((mark, signs[mark]) for mark in marks if mark not in self._plain)
        self._sign = re.compile(b"|".join(re.escape(sign) for _, sign in self._signed))

    def count(self, text: str, signs: bytes) -> int:
        """How often they occur in `text`, whose `ascii_signs` are `signs`."""
        found = sum(map(text.count, self._plain))
        if self._sign.search(signs):
            found += sum([text.count(mark) for mark, sign in self._signed if sign in signs])
        return found
