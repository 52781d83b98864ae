"""The classifier as the gateway uses it: load once, estimate per request."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from classifier import weights_file
from classifier.domains import domain_of
from classifier.features import FEATURE_NAMES, values_of
from classifier.lsa import Lsa
from classifier.reading import read_task
from classifier.scoring import Prior, reference_cut
from classifier.types import ComplexityEstimate, Conversation
from classifier.weights_file import ModelCard

SHIPPED = Path(__file__).with_name("weights")


class Classifier:
    """Ranks requests by the gain expected from the standard model.

    Immutable; safe to share between threads.
    """

    __slots__ = ("_prior", "card")

    def __init__(self, prior: Prior, card: ModelCard) -> None:
        self._prior = prior
        self.card = card

    @classmethod
    def load(cls, path: Path | None = None) -> "Classifier":
        """Load the weights in the folder `path`, or the shipped ones.

        Raises:
            ModelFileInvalid: A file is missing, damaged, or of another format; the message names it and
                the remedy.
        """
        return cls(*weights_file.load(SHIPPED if path is None else path))

    def estimate(self, conversation: Conversation) -> ComplexityEstimate:
        """Estimate a request.

        Never raises, whatever the text; its time is bounded for any length of the turns.
        """
        reading = read_task(conversation.turns)
        values = values_of(
            reading,
            self._prior.lsa.look_up(reading),
            tool_count=conversation.tool_count,
            attachments=conversation.attachments,
            depth=conversation.depth,
        )
        return ComplexityEstimate(
            score=self._prior.score(values),
            p_flash_ok=None,
            domain=domain_of(reading),
            task=task_name(conversation.system, conversation.tools),
            model_version=self.card.version,
            features=dict(zip(FEATURE_NAMES, values, strict=True)),
        )

    @property
    def lsa(self) -> Lsa:
        """The table of terms, for those who fit models of their own on it."""
        return self._prior.lsa

    def weak_failure(self, features: Mapping[str, float]) -> float:
        """P(weak model fails) for the features of an estimate, in (0, 1).

        Not a part of the score and not calibrated: a place to start from when learning your own models.
        """
        return self._prior.ranker.failure.probability([features[name] for name in self.card.features])

    def reference_cut(self, share: float) -> float:
        """The score above which `share` of the reference traffic lies.

        Where a cut starts, before there is traffic.

        Raises:
            ValueError: `share` is not in [0, 1].
        """
        return reference_cut(share)

    def contributions(self, features: Mapping[str, float]) -> Mapping[str, float]:
        """By how much each feature of an estimate moves its score, against the median of the reference.

        The scorer is not additive, so these do not sum to the score.
        """
        values: Sequence[float] = [features[name] for name in self.card.features]
        return self._prior.contributions(values)


def task_name(system: str, tools: bytes) -> str:
    """The name of a recurring task: 16 hex digits for its system prompt and tools, "" when it has neither."""
    if not system and not tools:
        return ""
    encoded = system.encode("utf-8", "surrogatepass")
    size = len(encoded).to_bytes(8, "big")  # keeps "ab" + "c" apart from "a" + "bc"
    return hashlib.blake2b(b"".join((size, encoded, tools)), digest_size=8).hexdigest()
