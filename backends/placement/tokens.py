"""Tokenising prompts that begin as earlier ones did, without tokenising their beginning again.

A tokenizer cuts a text at its special tokens before anything else, so a text that is cut just before one is
made of the same tokens as its two parts. What is known of a beginning is kept under the hash of it.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from backends.gsm.naming import name_groups

MEMORY_BYTES = 64 * 1024 * 1024
"""Most that is kept of beginnings."""

_PER_TOKEN, _PER_NAME, _PER_ENTRY = 36, 57, 300
"""About what they take, bytes."""


class _Known(NamedTuple):
    """A beginning: the names of its whole groups, and the tokens after them."""

    names: tuple[bytes, ...]
    tail: tuple[int, ...]

    def size(self) -> int:
        return _PER_ENTRY + _PER_NAME * len(self.names) + _PER_TOKEN * len(self.tail)


class PrefixTokenizer:
    """A tokenizer that remembers beginnings. It may be used from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Wrap a tokenizer."""
        self._tokenizer = tokenizer
        special = [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special]
        self._cuts = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))) or r"(?!)")
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self.encoded_characters = 0

    @classmethod
    def load(cls, folder: Path) -> "PrefixTokenizer":
        """Read `tokenizer.json` of a folder.

        Raises:
            ValueError: There is none, or it is no tokenizer.
        """
        file = folder / "tokenizer.json"
        try:
            return cls(Tokenizer.from_file(str(file)))
        except Exception as error:
            raise ValueError(f"{file}: no tokenizer can be read from it ({error})") from error

    def name(
        self, text: str, group_tokens: int, root: bytes, *, add_special_tokens: bool = False
    ) -> tuple[Sequence[bytes], int]:
        """Return the names of a text's whole groups, and how many tokens it has.

        Args:
            text: The whole prompt.
            group_tokens: Tokens a group.
            root: The name before the first group.
            add_special_tokens: Whether the tokenizer adds its own at the ends, which a template has done.
        """
        if add_special_tokens:
            self.encoded_characters += len(text)
            tokens = self._tokenizer.encode(text).ids
            return name_groups(tokens, group_tokens, root), len(tokens)
        cuts = [match.start() for match in self._cuts.finditer(text) if match.start()]
        keys = _keys(text, cuts, root + group_tokens.to_bytes(4, "little"))
        at, known = self._longest(keys)
        begin = cuts[at - 1] if at else 0
        # The last cuts are where the next turn goes on; the first one is where other conversations may.
        for index in sorted({1, len(cuts) - 1, len(cuts)}):
            if at < index <= len(cuts):
                known = self._go_on(known, text[begin : cuts[index - 1]], group_tokens, root)
                begin, at = cuts[index - 1], index
                self._remember(keys[index - 1], known)
        whole = self._go_on(known, text[begin:], group_tokens, root)
        return whole.names, len(whole.names) * group_tokens + len(whole.tail)

    def _go_on(self, known: _Known, text: str, group_tokens: int, root: bytes) -> _Known:
        self.encoded_characters += len(text)
        tokens = [*known.tail, *self._tokenizer.encode(text, add_special_tokens=False).ids]
        names = name_groups(tokens, group_tokens, known.names[-1] if known.names else root)
        return _Known((*known.names, *names), tuple(tokens[len(names) * group_tokens :]))

    def _longest(self, keys: Sequence[bytes]) -> tuple[int, _Known]:
        """Return how many cuts lie in the longest beginning that is known, and what is known of it."""
        with self._lock:
            for index in range(len(keys), 0, -1):
                known = self._known.get(keys[index - 1])
                if known is not None:
                    self._known.move_to_end(keys[index - 1])
                    return index, known
        return 0, _Known((), ())

    def _remember(self, key: bytes, known: _Known) -> None:
        with self._lock:
            before = self._known.pop(key, None)
            self._bytes += known.size() - (before.size() if before else 0)
            self._known[key] = known
            while self._bytes > MEMORY_BYTES:
                self._bytes -= self._known.popitem(last=False)[1].size()


def _keys(text: str, cuts: Sequence[int], seed: bytes) -> list[bytes]:
    """Return the hash of the text up to each cut."""
    digest, keys, begin = blake2b(seed, digest_size=16), list[bytes](), 0
    for cut in cuts:
        digest.update(text[begin:cut].encode("utf-8", "surrogatepass"))
        keys.append(digest.copy().digest())
        begin = cut
    return keys
