"""A small tokenizer and chat template, as the files of a model are."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if loop.first and tools %}{{ tools | tojson }}\n{% endif %}"
    "{{ message.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
TEXT = ["The quick brown fox jumps over the lazy dog, again and again.", "机器学习是人工智能的一个分支。" * 3]


def trained() -> Tokenizer:
    """Return a tokenizer of bytes and some merges, with the marks of a chat."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    trainer = BpeTrainer(vocab_size=500, initial_alphabet=ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(TEXT * 20, trainer)
    marks = [AddedToken("<|im_start|>"), AddedToken("<|im_end|>")]
    tokenizer.add_special_tokens(marks)  # pyright: ignore[reportUnknownMemberType]
    return tokenizer


def write_model(folder: Path, template: str = TEMPLATE) -> Path:
    """Write the files of a model; return the folder."""
    folder.mkdir(exist_ok=True)
    trained().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return folder


def tokens_of(tokenizer: Tokenizer, body: Mapping[str, Any]) -> Sequence[int]:
    """Return the tokens of a chat as an engine with `TEMPLATE` reads it; written out by hand."""
    text = ""
    for index, message in enumerate(body["messages"]):
        tools = (
            json.dumps(body["tools"], ensure_ascii=False) + "\n" if index == 0 and body.get("tools") else ""
        )
        text += f"<|im_start|>{message['role']}\n{tools}{message['content']}<|im_end|>\n"
    return tokenizer.encode(text + "<|im_start|>assistant\n", add_special_tokens=False).ids
