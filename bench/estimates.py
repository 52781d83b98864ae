"""What an estimate costs, by the clock and on the CPU, and which of the slow ones were preempted.

python -m bench.estimates [CALLS]
"""

import gc
import random
import resource
import string
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from classifier.model import Classifier
from classifier.types import Conversation, Turn

PROMPTS = 50
SLOW_MS = 3.0
_ENGLISH = [
    "Prove",
    "that",
    "every",
    "bounded",
    "monotone",
    "sequence",
    "of",
    "real",
    "numbers",
    "converges,",
    "and",
    "estimate",
    "the",
    "rate",
    "when",
    "f(x)",
    "=",
    "3x^2",
    "+",
    "1.",
]


@dataclass(frozen=True, slots=True)
class Call:
    """One estimate: milliseconds by the clock and on the CPU, and how often it was preempted."""

    wall: float
    cpu: float
    preempted: int


def english(rng: random.Random, chars: int) -> str:
    """Return prose of about so many characters, half of it words that come once."""
    words = [
        rng.choice(_ENGLISH) if rng.random() < 0.5 else "".join(rng.choices(string.ascii_lowercase, k=6))
        for _ in range(chars // 6)
    ]
    return " ".join(words)


def chinese(rng: random.Random, chars: int) -> str:
    """Return so many Chinese characters with commas."""
    return "".join(chr(rng.randint(0x4E00, 0x6FFF)) if rng.random() < 0.95 else "，" for _ in range(chars))


def timed(classifier: Classifier, conversations: Sequence[Conversation], calls: int) -> list[Call]:
    """Estimate one conversation after the other, again and again."""
    found: list[Call] = []
    for number in range(calls):
        conversation = conversations[number % len(conversations)]
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        classifier.estimate(conversation)
        cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw - switches
        found.append(Call(wall / 1e6, cpu / 1e6, switches))
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the values lie."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def main() -> None:
    """Print a line a kind of prompt, with the garbage collector on and off."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    rng, classifier = random.Random(7), Classifier.load()  # noqa: S311 - makes prompts
    kinds = {
        "300 tokens": [english(rng, 1200) for _ in range(PROMPTS)],
        "32K tokens, English": [english(rng, 131_072) for _ in range(PROMPTS)],
        "32K tokens, Chinese": [chinese(rng, 40_000) for _ in range(PROMPTS)],
    }
    print("ms: p50 / p99 / most; slow: calls over 3 ms by the clock, those of them that were preempted")
    for name, texts in kinds.items():
        conversations = [Conversation(turns=[Turn("user", text)]) for text in texts]
        timed(classifier, conversations, PROMPTS)
        for collected in (True, False):
            gc.enable() if collected else gc.disable()
            before = sum(each["collections"] for each in gc.get_stats())
            found = timed(classifier, conversations, calls)
            runs = sum(each["collections"] for each in gc.get_stats()) - before
            slow = [call for call in found if call.wall > SLOW_MS]
            print(
                f"{name:20} gc {'on ' if collected else 'off'}  clock {_three([call.wall for call in found])}"
                f"  CPU {_three([call.cpu for call in found])}  collections {runs}"
                f"  slow {len(slow)}, {sum(call.preempted > 0 for call in slow)}"
            )


def _three(values: Sequence[float]) -> str:
    return f"{percentile(values, 0.5):.2f} / {percentile(values, 0.99):.2f} / {max(values):.2f}"


if __name__ == "__main__":
    main()
