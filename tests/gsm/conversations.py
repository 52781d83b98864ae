"""Made-up traffic: conversations that grow turn by turn, some of them for long, over a few system prompts."""

import random
from heapq import heappop, heappush

from backends.gsm.traces import TracedRequest


def conversations(seed: int, count: int) -> list[TracedRequest]:
    """Return the requests of `count` conversations in the order of time.

    Four in ten end after a turn; who has had more turns is likelier to come back. A request ends with a group
    that is not full yet, so the next turn has another one there, as in a real trace.
    """
    chance = random.Random(seed)
    ids = iter(range(10_000_000))
    prompts = [[next(ids) for _ in range(length)] for length in (1, 2, 6)]
    due: list[tuple[float, int, int, list[int]]] = []
    for number in range(count):
        heappush(due, (chance.uniform(0, count / 3), number, 1, list(chance.choice(prompts))))
    requests: list[TracedRequest] = []
    while due:
        at, number, turn, history = heappop(due)
        history = history + [next(ids) for _ in range(chance.randint(1, 12))]
        groups = (*history, next(ids))
        requests.append(TracedRequest(at, 512 * len(groups) - 200, 100, groups))
        if turn < 12 and chance.random() < 1 - 0.6 / turn:
            heappush(due, (at + 40 + chance.expovariate(1 / 60), number, turn + 1, history))
    return requests
