"""The classifier as the gateway uses it: load once, estimate per request."""

import copy
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from classifier import weights_file
from classifier.domains import domain_of, shipped_table
from classifier.features import FEATURE_NAMES, values_of
from classifier.lsa import Lsa
from classifier.prior_scorer import PriorScorer
from classifier.reading import read_task
from classifier.scoring import Prior, reference_cut
from classifier.task_gains import TaskGains
from classifier.types import ComplexityEstimate, Conversation
from classifier.versions import current_folder, is_adapted, is_versions_folder
from classifier.weights_file import ModelCard

if TYPE_CHECKING:  # imports numpy, which the prior alone does without
    from classifier.adapted import Adapted
    from classifier.adapted_scorer import AdaptedScorer
    from classifier.encoders import Vector

SHIPPED = Path(__file__).with_name("weights")


class Classifier:
    """Ranks requests by the gain expected from the standard model.

    Immutable; safe to share between threads.
    """

    __slots__ = ("_scorer", "adapted", "card", "prior", "version")

    def __init__(
        self,
        prior: Prior,
        card: ModelCard,
        *,
        adapted: "Adapted | None" = None,
        version: str = "",
    ) -> None:
        self.prior = prior
        self.card = card
        self.adapted = adapted
        self.version = version or card.version
        self._scorer: AdaptedScorer | PriorScorer | None
        shipped_table()  # now, rather than while the first request waits
        self._scorer = None if adapted is None else _scorer_of(prior, adapted)

    @classmethod
    def load(cls, path: Path | None = None, *, encoder: str | None = None) -> "Classifier":
        """Load the weights in the folder `path`, or the shipped ones.

        A folder that `flashlane classifier adapt` made is served on top of the shipped weights, in its
        current version; a folder of one version, in that one.

        Args:
            path: The folder.
            encoder: Name of the encoder that `refine` will get vectors of, "" for none; None when it is not
                called.

        Raises:
            ModelFileInvalid: A file is missing, damaged, or of another format; the message names it and
                the remedy.
            EncoderUnavailable: The version needs another encoder than that.
        """
        if path is None:
            return cls(*weights_file.load(SHIPPED))
        if is_versions_folder(path):
            path = current_folder(path)
        if not is_adapted(path):
            return cls(*weights_file.load(path))
        from classifier.adapted_file import load_adapted  # numpy: the prior alone starts without

        shipped = cls.load()
        adapted, card = load_adapted(path, prior=shipped.card.version, encoder=encoder)
        return shipped.with_adapted(adapted, card.version)

    def with_adapted(self, adapted: "Adapted", version: str) -> "Classifier":
        """The same prior, adapted to pairs."""
        return Classifier(self.prior, self.card, adapted=adapted, version=version)

    def with_gains(self, gains: TaskGains) -> "Classifier":
        """The same, moved by what tasks gained since it was fitted: the `excess` of pairs it did not see.

        Gains that it had before in this way are replaced.
        """
        other = copy.copy(self)
        other._scorer = (self._scorer or PriorScorer(self.prior)).with_gains(gains)
        return other

    def excess(self, conversation: Conversation, gain: float) -> tuple[str, float]:
        """The task of a pair, and by how much its gain is above what is expected of the prompt alone.

        Both are to be counted by task, for this version only.

        Args:
            conversation: What both models were asked.
            gain: Standard score - flash score, in [-1, 1].
        """
        estimate = self.estimate(conversation, with_domain=False)
        scorer = self._scorer or PriorScorer(self.prior)
        return scorer.excess(estimate.values, read_task(conversation.turns), estimate.task, gain)

    def estimate(self, conversation: Conversation, *, with_domain: bool = True) -> ComplexityEstimate:
        """Estimate a request.

        Never raises, whatever the text; its time is bounded for any length of the turns.

        Args:
            conversation: Of the request.
            with_domain: Whether its domain is wanted, which takes an eighth of the time.
        """
        reading = read_task(conversation.turns)
        values = values_of(
            reading,
            self.prior.lsa.look_up(reading),
            tool_count=conversation.tool_count,
            attachments=conversation.attachments,
            depth=conversation.depth,
        )
        task = _task_of(conversation)
        if self._scorer is None:
            score, p_flash_ok = self.prior.score(values), None
        else:
            score, p_flash_ok = self._scorer.estimate(values, reading, task)
        return ComplexityEstimate(
            score=score,
            p_flash_ok=p_flash_ok,
            domain=domain_of(reading) if with_domain else "",
            task=task,
            model_version=self.version,
            names=FEATURE_NAMES,
            values=values,
        )

    @property
    def has_second_stage(self) -> bool:
        """Whether the vector of an encoder would change a score."""
        return self.adapted is not None and self.adapted.second is not None

    def refine(
        self, estimate: ComplexityEstimate, conversation: Conversation, encode: Callable[[str], "Vector"]
    ) -> ComplexityEstimate:
        """The estimate of the second stage; that of the first where there is no second.

        Args:
            estimate: Of the same conversation.
            conversation: What is estimated.
            encode: Of the encoder that the version names.
        """
        scorer = self._scorer
        if scorer is None or isinstance(scorer, PriorScorer) or not self.has_second_stage:
            return estimate
        reading = read_task(conversation.turns)
        vector = encode(reading.text)
        score, p_flash_ok = scorer.refined(estimate.values, reading, estimate.task, vector)
        return msgspec.structs.replace(estimate, score=score, p_flash_ok=p_flash_ok)

    @property
    def lsa(self) -> Lsa:
        """The table of terms, for those who fit models of their own on it."""
        return self.prior.lsa

    def weak_failure(self, features: Mapping[str, float]) -> float:
        """P(weak model fails) for the features of an estimate, in (0, 1).

        Not a part of the score and not calibrated: a place to start from when learning your own models.
        """
        return self.prior.ranker.failure.probability([features[name] for name in self.card.features])

    def reference_cut(self, share: float) -> float:
        """The score above which `share` of the reference traffic lies.

        Where a cut starts, before there is traffic.

        Raises:
            ValueError: `share` is not in [0, 1].
        """
        return reference_cut(share)

    def contributions(
        self, features: Mapping[str, float], conversation: Conversation | None = None
    ) -> Mapping[str, float]:
        """By how much each feature of an estimate moves its score, against its median in the reference.

        The scorer is not additive, so these do not sum to the score. An adapted model's score is also moved
        by the prior, its topic and its task, as against none: "prior", "topic" and "task".

        Args:
            features: Of the estimate.
            conversation: What was estimated; an adapted model needs it.
        """
        values: Sequence[float] = [features[name] for name in self.card.features]
        if self._scorer is None or conversation is None:
            return self.prior.contributions(values)
        return self._scorer.contributions(values, read_task(conversation.turns), _task_of(conversation))


def _scorer_of(prior: Prior, adapted: "Adapted") -> "AdaptedScorer":
    from classifier.adapted_scorer import AdaptedScorer  # numpy: the prior alone starts without

    return AdaptedScorer(prior, adapted)


def _task_of(conversation: Conversation) -> str:
    if conversation.task:
        return conversation.task
    system, tools = conversation.system, conversation.tools
    name = _remembered_task_name if len(system) + len(tools) <= _SHORT else task_name
    return name(system, tools, conversation.key, conversation.endpoint)


def task_name(system: str, tools: bytes, key: str = "", endpoint: str = "") -> str:
    """The name of a recurring task: 16 hex digits for system prompt and tools, key and endpoint.

    "" without system prompt and tools: a key alone says too little, and such prompts fall into clusters.
    """
    if not system and not tools:
        return ""
    parts = [text.encode("utf-8", "surrogatepass") for text in (system, key, endpoint)]
    sized = [size for part in parts for size in (len(part).to_bytes(8, "big"), part)]  # keeps ab+c from a+bc
    return hashlib.blake2b(b"".join((*sized, tools)), digest_size=8).hexdigest()


_SHORT = 4096  # characters; a longer prompt is not worth its place in memory
_remembered_task_name = functools.lru_cache(maxsize=1024)(task_name)  # an application sends the same ones
