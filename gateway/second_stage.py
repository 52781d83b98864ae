"""The second stage of the classifier: a sentence encoder in a few threads of its own, beside the event loop.

A request waits for it for a bounded time. When that has passed, or all threads are at work, the score of the
first stage stands.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal

from classifier.model import Classifier
from classifier.types import ComplexityEstimate, Conversation

if TYPE_CHECKING:  # numpy: who has no encoder starts without
    from classifier.encoders import Encoder

log = logging.getLogger(__name__)

Outcome = Literal["used", "late", "full", "failed"]
"""What became of one request that has a second stage."""


class SecondStage:
    """An encoder with its threads."""

    def __init__(
        self, encoder: "Encoder", *, budget: float, workers: int, count: Callable[[Outcome], None]
    ) -> None:
        """Start no thread before it is needed.

        Args:
            encoder: Of all versions that have a second stage.
            budget: Seconds that a request waits.
            workers: Threads; as many requests are encoded at once, and none waits for a free one.
            count: Told what became of each request.
        """
        self.encoder_name = encoder.name
        self._encode = encoder.encode
        self._budget = budget
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="encoder")
        self._free = workers
        self._count = count

    async def refine(
        self, classifier: Classifier, conversation: Conversation, estimate: ComplexityEstimate
    ) -> ComplexityEstimate:
        """Return the estimate of both stages; that of the first when the second is not there in time."""
        if self._free == 0:
            self._count("full")
            return estimate
        self._free -= 1
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, classifier.refine, estimate, conversation, self._encode
        )
        work.add_done_callback(self._finished)
        await asyncio.wait({work}, timeout=self._budget)  # a thread cannot be stopped: late work goes on
        if not work.done():
            self._count("late")
            return estimate
        if work.exception() is not None:
            self._count("failed")
            return estimate
        self._count("used")
        return work.result()

    def _finished(self, work: "asyncio.Future[ComplexityEstimate]") -> None:
        self._free += 1
        if not work.cancelled() and (error := work.exception()) is not None:
            log.error("The encoder %s failed", self.encoder_name, exc_info=error)

    def close(self) -> None:
        """End the threads once their work is done."""
        self._threads.shutdown(wait=True, cancel_futures=True)
