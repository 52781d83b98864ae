"""Made-up traffic of one kind each: what an order of eviction may meet, and where a clever one may fail."""

import random
from collections.abc import Callable, Iterator
from itertools import accumulate, count

from backends.gsm.traces import TracedRequest
from tests.gsm.conversations import conversations


def scan(seed: int) -> list[TracedRequest]:
    """Nothing comes twice."""
    chance, ids = random.Random(seed), count()
    return [_request(_new(ids, chance.randint(1, 30))) for _ in range(1500)]


def loop(seed: int) -> list[TracedRequest]:
    """The same documents, 2,500 groups of them, again and again in the same order."""
    chance, ids = random.Random(seed), count()
    documents = [_new(ids, chance.randint(1, 30)) for _ in range(160)]
    return [_request(documents[number % len(documents)]) for number in range(1600)]


def zipf(seed: int) -> list[TracedRequest]:
    """Documents, the n-th of which is asked for 1 / n as often as the first."""
    chance, ids = random.Random(seed), count()
    documents = [_new(ids, chance.randint(1, 30)) for _ in range(600)]
    weights = list(accumulate(1 / number for number in range(1, 601)))
    return [
        _request((*document, next(ids)))
        for document in chance.choices(documents, cum_weights=weights, k=2500)
    ]


def chat(seed: int) -> list[TracedRequest]:
    """Conversations that grow."""
    return conversations(seed, 700)


def recent(seed: int) -> list[TracedRequest]:
    """Each document is asked for several times within a short while, then never again: as LRU thinks."""
    chance, ids = random.Random(seed), count()
    live = [_new(ids, chance.randint(5, 30)) for _ in range(40)]
    requests: list[TracedRequest] = []
    for _ in range(2000):
        place = chance.randrange(len(live))
        if chance.random() < 0.2:
            live[place] = _new(ids, chance.randint(5, 30))
        requests.append(_request((*live[place], next(ids))))
    return requests


def drift(seed: int) -> list[TracedRequest]:
    """Popular documents for a long time; then they are never asked for again, and others come and go."""
    return [*zipf(seed), *_renumbered(recent(seed + 1))]


def drift_back(seed: int) -> list[TracedRequest]:
    """Documents that come and go; then popular ones."""
    return [*recent(seed), *_renumbered(zipf(seed + 1))]


def mixed(seed: int) -> list[TracedRequest]:
    """Conversations and documents, a scan of single questions between them."""
    chance = random.Random(seed)
    kinds = [chat(seed), _renumbered(zipf(seed + 1)), _renumbered(scan(seed + 2), 2)]
    order = [kind for kind, requests in enumerate(kinds) for _ in requests]
    chance.shuffle(order)
    left = [iter(requests) for requests in kinds]
    return [next(left[kind]) for kind in order]


Pattern = Callable[[int], list[TracedRequest]]
PATTERNS: tuple[Pattern, ...] = (
    scan,
    loop,
    zipf,
    chat,
    recent,
    drift,
    drift_back,
    mixed,
)


def _new(ids: Iterator[int], length: int) -> tuple[int, ...]:
    return tuple(next(ids) for _ in range(length))


def _request(groups: tuple[int, ...]) -> TracedRequest:
    return TracedRequest(0.0, 512 * len(groups), 1, groups)


def _renumbered(requests: list[TracedRequest], part: int = 1) -> list[TracedRequest]:
    """Give groups ids that no other part has."""
    return [_request(tuple(group + part * 10_000_000_000 for group in each.groups)) for each in requests]
