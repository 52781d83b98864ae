"""Profiles of engines: the knobs of a server, and the ones that ship.

A profile is plain data. `backends.engines.vllm` and `backends.engines.llama` make a command of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from backends.errors import ProfileInvalid

Device = Literal["gpu", "cpu"]
Speculation = Literal["none", "dspark", "ngram"]
KvOffload = Literal["none", "host", "gsm"]

REBUILD_THRESHOLD: Final = 0.3
REBUILD_THRESHOLD_QUANTISED: Final = 0.2
"""Of GSM: a quantised cache is less exact, so less of a changed group is reused."""

_QUANTISED: Final = ("fp8", "int8", "fp4", "int4", "turboquant", "ultraquant")
"""Marks in the names of vLLM's KV dtypes that hold fewer than 16 bits a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmProfile:
    """A vLLM server.

    Attributes:
        name: As `flashlane engine` is given it.
        about: One line on what it is for.
        model: A model on the Hugging Face Hub, or a folder.
        served_name: The `model` that requests name.
        device: What it computes on.
        dtype: Of the weights at work; "auto" takes the model's own.
        tensor_parallel: GPUs that share each layer.
        tokenizer_mode: vLLM's `--tokenizer-mode`; "" leaves it.
        tool_parser: vLLM's `--tool-call-parser`; "" turns tool calls by `auto` off.
        reasoning_parser: vLLM's `--reasoning-parser`; "" for a model that does not think.
        quantization: vLLM's `--quantization`; "" takes the model's own.
        kv_dtype: vLLM's `--kv-cache-dtype`; "auto" takes the model's own.
        max_model_len: Longest input plus output, tokens; 0 takes the model's own.
        max_num_seqs: Most sequences in a step; vLLM queues the rest.
        chunked_prefill: Whether a long prompt is read in pieces between the tokens of others. Off, it is read
            at one go, so a step has to hold `max_model_len` tokens: then that must be stated.
        max_num_batched_tokens: Most tokens in a step; 0 leaves it to vLLM, or takes `max_model_len`.
        gpu_memory_utilization: Share of a GPU's memory for weights and KV cache.
        kv_gib: On a CPU: memory for the KV cache, GiB.
        block_size: Tokens a block of the KV cache; 0 leaves it to vLLM.
        kv_offload: Where blocks of a preempted or an idle sequence go: nowhere (vLLM computes them again), to
            host memory by vLLM, or to GSM's tiers.
        offload_gib: Of host memory, for `kv_offload`.
        gsm_group_size: Tokens a group; a multiple of the block.
        gsm_disk: Folder of GSM's tier on disk; "" for none.
        gsm_disk_gib: Bound of that folder.
        priority_scheduling: Whether requests with a smaller `priority` go first, and preempt.
        prompt_tokens_details: Whether `cached_tokens` is told; without it no hit rate is known.
        kv_events: Port on which changes of the prefix cache are told (ZMQ); 0 for none.
        speculation: How tokens are drafted.
        draft_tokens: Most tokens in a draft.
        eager: Whether to skip CUDA graphs and compilation.
    """

    name: str
    about: str
    model: str
    served_name: str
    device: Device = "gpu"
    dtype: str = "auto"
    tensor_parallel: int = 1
    tokenizer_mode: str = ""
    tool_parser: str = ""
    reasoning_parser: str = ""
    quantization: str = ""
    kv_dtype: str = "auto"
    max_model_len: int = 0
    max_num_seqs: int = 256
    chunked_prefill: bool = True
    max_num_batched_tokens: int = 0
    gpu_memory_utilization: float = 0.85
    kv_gib: int = 2
    block_size: int = 0
    kv_offload: KvOffload = "none"
    offload_gib: float = 64.0
    gsm_group_size: int = 512
    gsm_disk: str = ""
    gsm_disk_gib: float = 0.0
    priority_scheduling: bool = True
    prompt_tokens_details: bool = True
    kv_events: int = 5557
    speculation: Speculation = "none"
    draft_tokens: int = 5
    eager: bool = False

    def __post_init__(self) -> None:
        """Look at what belongs together.

        Raises:
            ValueError: Two knobs contradict each other.
        """
        if not self.chunked_prefill and not self.max_model_len:
            raise ValueError("chunked_prefill is off, so max_model_len has to be stated: a step must hold it")
        whole = max(self.max_model_len, 1) if not self.chunked_prefill else 1
        if self.max_num_batched_tokens and self.max_num_batched_tokens < max(whole, self.max_num_seqs):
            raise ValueError(
                f"max_num_batched_tokens is {self.max_num_batched_tokens}; it has to be "
                f"{max(whole, self.max_num_seqs)} or more"
            )
        if not 0.0 < self.gpu_memory_utilization <= 1.0:
            raise ValueError(
                f"gpu_memory_utilization is {self.gpu_memory_utilization}; it is a share in (0, 1]"
            )
        if self.block_size and self.gsm_group_size % self.block_size:
            raise ValueError(
                f"gsm_group_size is {self.gsm_group_size}, no multiple of block_size {self.block_size}"
            )
        if bool(self.gsm_disk) != (self.gsm_disk_gib > 0.0):
            raise ValueError("gsm_disk and gsm_disk_gib go together: a folder, and a bound for it")

    @property
    def rebuild_threshold(self) -> float:
        """GSM's: which share of a group may have changed for its head to be reused."""
        quantised = any(mark in self.kv_dtype for mark in _QUANTISED)
        return REBUILD_THRESHOLD_QUANTISED if quantised else REBUILD_THRESHOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaProfile:
    """A llama.cpp server, which Flashlane brings along.

    Attributes:
        name: As `flashlane engine` is given it.
        about: One line on what it is for.
        model: A model of `flashlane models list`, or the path of a GGUF file.
        served_name: The `model` that requests name.
        max_model_len: Longest input plus output of one request, tokens.
        max_num_seqs: Requests at once.
        threads: Of computation; 0 takes half of the cores.
        cache_mib: Memory for the KV cache of prompts that left their slot.
        speculation: How tokens are drafted.
        draft_tokens: Most tokens in a draft.
    """

    name: str
    about: str
    model: str
    served_name: str
    max_model_len: int = 4096
    max_num_seqs: int = 2
    threads: int = 0
    cache_mib: int = 256
    speculation: Literal["none", "ngram"] = "none"
    draft_tokens: int = 8


EngineProfile = VllmProfile | LlamaProfile

_FLASH: Final = VllmProfile(
    name="flash-throughput",
    about="DeepSeek-V4.1-Flash for many requests at once: no speculation, the whole context",
    model="deepseek-ai/DeepSeek-V4.1-Flash",
    served_name="deepseek-v4.1-flash",
    tensor_parallel=4,
    tokenizer_mode="deepseek_v41",
    tool_parser="deepseek_v41",
    reasoning_parser="deepseek_v41",
    kv_offload="gsm",
)

_ALL: Final[tuple[EngineProfile, ...]] = (
    replace(
        _FLASH,
        name="flash-latency",
        about="DeepSeek-V4.1-Flash for few chats at once: DSpark speculation, prompts read at one go",
        speculation="dspark",
        max_num_seqs=16,
        chunked_prefill=False,
        max_model_len=32768,
    ),
    _FLASH,
    VllmProfile(
        name="standard",
        about="a strong model on GPUs; give yours: --set model=NAME",
        model="Qwen/Qwen3-32B",
        served_name="standard",
        tensor_parallel=4,
        tool_parser="hermes",
        reasoning_parser="qwen3",
        max_model_len=32768,
    ),
    VllmProfile(
        name="vllm-cpu",
        about="vLLM's CPU build with a small model, for tests and trials; n-gram speculation",
        model="HuggingFaceTB/SmolLM2-135M-Instruct",
        served_name="smollm2-135m-instruct",
        device="cpu",
        dtype="float32",
        max_model_len=2048,
        max_num_seqs=8,
        block_size=128,
        speculation="ngram",
        eager=True,
    ),
    LlamaProfile(
        name="llama-cpp",
        about="llama.cpp with a small model, which needs no GPU and no other installation",
        model="smollm2-135m-instruct",
        served_name="smollm2-135m-instruct",
    ),
)

PROFILES: Final[Mapping[str, EngineProfile]] = MappingProxyType({profile.name: profile for profile in _ALL})
"""By name."""


def profile_of(name: str, settings: Sequence[str] = ()) -> EngineProfile:
    """Return a profile that ships, with some knobs set otherwise.

    Args:
        name: Of the profile.
        settings: "KNOB=VALUE", the last one of a knob wins.

    Raises:
        ProfileInvalid: There is no such profile or knob, or a value does not fit.
    """
    profile = PROFILES.get(name)
    if profile is None:
        raise ProfileInvalid(f"there is no profile {name!r}; there are: {', '.join(PROFILES)}")
    knobs = [field.name for field in fields(profile) if field.name not in {"name", "about"}]
    given: dict[str, str] = {}
    for setting in settings:
        knob, equals, value = setting.partition("=")
        if not equals:
            raise ProfileInvalid(f"{setting!r} is no setting; write KNOB=VALUE")
        if knob not in knobs:
            raise ProfileInvalid(f"{name} has no knob {knob!r}; it has: {', '.join(knobs)}")
        given[knob] = value
    try:
        return msgspec.convert({**asdict(profile), **given}, type(profile), strict=False)
    except msgspec.ValidationError as error:
        raise ProfileInvalid(f"{name}: {error}") from error
