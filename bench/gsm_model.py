"""Write SmolLM2 as the folder that vLLM reads, from the GGUF file that `flashlane models pull` keeps.

Runs in the vLLM environment, which brings transformers: `python bench/gsm_model.py MODEL.gguf FOLDER`.
"""

import sys
from pathlib import Path
from typing import Any, cast

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def convert(gguf: Path, folder: Path) -> None:
    """Dequantise `gguf` to float32 and write `folder` whole, or not at all."""
    aside = folder.with_name(folder.name + ".part")
    model = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent),
        gguf_file=gguf.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    tokenizer = cast("Any", AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name))
    # The conversion drops the first of SmolLM2's two pre-tokenizers, and numbers would be cut otherwise.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    model.save_pretrained(str(aside))
    tokenizer.save_pretrained(str(aside))
    aside.rename(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
