"""The pages of one request, in the order of its tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from vllm.v1.kv_offload.base import OffloadKey, ReqContext, get_offload_group_idx


@dataclass(frozen=True, slots=True)
class PageShape:
    """How tokens fall into pages and groups.

    Attributes:
        page_tokens: Tokens a page, by vLLM's KV cache group (set of layers).
        group_size: Tokens a GSM group, a multiple of each of them.
    """

    page_tokens: Mapping[int, int]
    group_size: int

    @property
    def group_pages(self) -> int:
        """Pages of a whole group, of all sets of layers."""
        return sum(map(self.pages_per_group, self.page_tokens))

    def pages_per_group(self, layers: int) -> int:
        """Return how many pages of a set of layers make a GSM group."""
        return self.group_size // self.page_tokens[layers]


@dataclass(slots=True)
class RequestChain:
    """Every page that a request could have so far; vLLM appends to it as tokens come.

    Attributes:
        shape: How tokens fall into pages.
        pages: Names of pages by set of layers, from the first token on.
        index: Of each page in its list.
        tails: Names of ends within a page, which vLLM has for recurrent layers; each with the number of whole
            pages before it.
        kept: Pages that this request put or found in the host tier.
        ended: By set of layers, the index from which on this request's pages are no longer kept.
    """

    shape: PageShape
    pages: dict[int, list[OffloadKey]] = field(default_factory=dict[int, list[OffloadKey]])
    index: dict[OffloadKey, int] = field(default_factory=dict[OffloadKey, int])
    tails: dict[OffloadKey, int] = field(default_factory=dict[OffloadKey, int])
    kept: set[OffloadKey] = field(default_factory=set[OffloadKey])
    ended: dict[int, int] = field(default_factory=dict[int, int])

    @classmethod
    def of(cls, request: ReqContext, shape: PageShape) -> "RequestChain":
        """Return the chain of `request`, brought up to date."""
        chain = request.get_state(cls)
        if chain is None:
            chain = cls(shape)
            request.set_state(chain)
        chain.follow(request)
        return chain

    def follow(self, request: ReqContext) -> None:
        """Take in what vLLM has named since."""
        # vLLM shows the place of a page whose name one has, but not the names; they stand in this dict in the
        # order in which they were made.
        places = request._offload_key_positions  # the pinned range of versions has it
        for key, end in islice(places.items(), len(self.index) + len(self.tails), None):
            layers = get_offload_group_idx(key)
            page_tokens = self.shape.page_tokens[layers]
            pages = self.pages.setdefault(layers, [])
            if end == (len(pages) + 1) * page_tokens:
                self.index[key] = len(pages)
                pages.append(key)
            else:
                self.tails[key] = end // page_tokens

    def before(self, key: OffloadKey) -> int:
        """Return how many pages are before `key`."""
        return self.index[key] if key in self.index else self.tails[key]

    def end(self, key: OffloadKey) -> int:
        """Return how many tokens of the sequence there are up to the end of `key`'s page."""
        return (self.before(key) + 1) * self.shape.page_tokens[get_offload_group_idx(key)]

    def parent(self, key: OffloadKey) -> OffloadKey | None:
        """Return the page before `key`; None for the first."""
        before = self.before(key)
        return self.pages[get_offload_group_idx(key)][before - 1] if before else None

    def group(self, key: OffloadKey) -> int:
        """Return the number of the GSM group that `key` is in, from 0 on."""
        return self.before(key) // self.shape.pages_per_group(get_offload_group_idx(key))

    def group_pages(self, key: OffloadKey) -> Sequence[OffloadKey]:
        """Return the pages of this request in the GSM group of `key`; fewer than the group's at its end."""
        layers = get_offload_group_idx(key)
        size = self.shape.pages_per_group(layers)
        begin = self.index[key] // size * size
        return self.pages[layers][begin : begin + size]
