"""What GSM in the engine counts, by the names on the engine's `/metrics` but for the `_total` of counters."""

from typing import Final

ON: Final = "vllm:gsm_on"
ASKED: Final = "vllm:gsm_asked_tokens"
REUSED: Final = "vllm:gsm_reused_tokens"
HEADS: Final = "vllm:gsm_reused_heads"
REBUILT: Final = "vllm:gsm_rebuilt_groups"
EVICTED: Final = "vllm:gsm_evicted_pages"
REFUSED: Final = "vllm:gsm_refused_pages"
SKIPPED: Final = "vllm:gsm_skipped_files"
GROUPS: Final = "vllm:gsm_held_groups"
HELD: Final = "vllm:gsm_held_bytes"
PEAK: Final = "vllm:gsm_peak_bytes"
PINNED: Final = "vllm:gsm_pinned_pages"

HOST: Final = "host"
DISK: Final = "disk"
