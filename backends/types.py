"""Values of the backends: who can answer, what is asked, what comes back.

What every request makes is a Struct: a frozen dataclass takes ten times as long.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import msgspec

CHAT_PATH = "/v1/chat/completions"
COMPLETIONS_PATH = "/v1/completions"
EMBEDDINGS_PATH = "/v1/embeddings"


class ReplicaKind(StrEnum):
    """How a replica is reached."""

    OPENAI = "openai"  # an OpenAI-compatible HTTP server: vLLM, SGLang, llama.cpp
    LITELLM = "litellm"  # a provider, by litellm


class EngineFlavour(StrEnum):
    """What runs behind an OpenAI-compatible URL; it decides which private fields may be sent."""

    GENERIC = "openai"
    VLLM = "vllm"
    SGLANG = "sglang"
    LLAMA_CPP = "llama.cpp"


class Thinking(StrEnum):
    """How a model's thinking is controlled."""

    DEEPSEEK = "deepseek"  # by its rules, in the words of each engine
    NONE = "none"  # nothing is said of it, and reasoning of earlier turns is not sent
    PASSTHROUGH = "passthrough"  # what clients say of it travels on as it came


@dataclass(frozen=True, slots=True)
class Replica:
    """One server that can answer for a model.

    Attributes:
        name: Unique within the configuration, "model/pool/index"; stands in headers, metrics and records.
        kind: How it is reached.
        target: Base URL without "/v1" ("http://host:8000"); with litellm another address of the provider
            or "".
        upstream_model: The `model` the server is asked for; with litellm "provider/model".
        flavour: What runs there.
        api_key: Sent to the server; None when it needs none. Never logged.
        login: User and password for HTTP's Basic scheme, encoded; sent where there is no key. Never logged.
        kv_events: Where it publishes its KV events, "tcp://host:5557"; None where it does not.
        kv_replay: Where it sends again those that were missed; None where it does not.
    """

    name: str
    kind: ReplicaKind
    target: str
    upstream_model: str
    flavour: EngineFlavour = EngineFlavour.GENERIC
    api_key: str | None = field(default=None, repr=False)
    login: str | None = field(default=None, repr=False)
    kv_events: str | None = None
    kv_replay: str | None = None


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a model's engines are waited for, in seconds.

    Attributes:
        connect: For TCP and TLS.
        peek: For the first token of a stream before its status goes out without it; until then an
            error becomes a status, or another replica is tried.
        first_token: From the request to the first token of a stream.
        idle: Between two pieces of a stream, comments included.
        total: For a whole answer; None sets no bound to a stream, and `PLAIN_SECONDS` to a plain answer.
    """

    connect: float = 5.0
    peek: float = 5.0
    first_token: float = 300.0
    idle: float = 120.0
    total: float | None = None

    def for_plain(self) -> float:
        """Return the bound of a plain answer."""
        return PLAIN_SECONDS if self.total is None else self.total


PLAIN_SECONDS = 600.0
DEFAULT_TIMEOUTS = Timeouts()


@dataclass(frozen=True, slots=True)
class Discovery:
    """Replicas that are found, not listed: all that an address stands for at a time.

    Attributes:
        kind: Who is asked: the name's addresses, or Kubernetes for the endpoints of a service.
        template: What each of them is like; its target holds the name that is looked up. What is
            found takes its place there, and in the addresses of its KV events.
    """

    kind: Literal["dns", "kubernetes"]
    template: Replica


@dataclass(frozen=True, slots=True)
class Pool:
    """Replicas alike.

    Attributes:
        name: Unique within its model.
        role: What the pool is tuned for.
        replicas: Those that are listed; at least one where nothing is discovered.
        speculation: Whether its engines run with speculative decoding.
        max_concurrency: Most requests at once over the pool; None leaves it to the engine.
        timeouts: Of its replicas.
        thinking: Of its model.
        context: Longest input plus output that it takes, tokens; None for that of its model.
        discoveries: Where further replicas are found.
    """

    name: str
    role: Literal["latency", "throughput", "any"]
    replicas: Sequence[Replica]
    speculation: bool = False
    max_concurrency: int | None = None
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    thinking: Thinking = Thinking.PASSTHROUGH
    context: int | None = None
    discoveries: Sequence[Discovery] = ()


class InferenceRequest(msgspec.Struct, frozen=True):
    """One request as the engine shall get it.

    Attributes:
        path: Endpoint below the base URL, one of the paths above.
        body: JSON, ready to send; `model` is already the upstream's name.
        stream: Whether an event stream is asked for.
        headers: Extra headers to send (trace context); no credentials.
        patience: Seconds to wait for the status.
    """

    path: str
    body: bytes
    stream: bool
    headers: Mapping[str, str]
    patience: float = PLAIN_SECONDS


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one answer, as the engine counted them.

    Attributes:
        prompt: Input tokens, cached ones included.
        cached: Input tokens served from the engine's prefix cache.
        completion: Output tokens, reasoning included.
        estimated: True when the engine did not say and we counted.
    """

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    estimated: bool = False
