"""A sentence encoder of a few kilobytes: an ONNX file of one layer, written by hand, and its tokenizer."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_FLOAT, _INT64 = 1, 7
_OPSET = 13


def write_tiny_encoder(
    folder: Path, words: Sequence[str], vectors: npt.NDArray[np.float32], *, token_ids: str = "input_ids"
) -> Path:
    """Write an encoder that gives each word a vector and a text their mean, its two marks counted in.

    Args:
        folder: Made when it is not there.
        words: W of them; all others are unknown, with a vector of ones.
        vectors: (W, E).
        token_ids: Name of the model's first input.

    Returns:
        The .onnx file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: at for at, word in enumerate(("[UNK]", "[CLS]", "[SEP]", *words))}
    marks = [{"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]")]
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [marks[0], {"Sequence": {"id": "A", "type_id": 0}}, marks[1]],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                name: {"id": name, "ids": [vocabulary[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")
            },
        },
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    table = np.vstack([np.ones((1, vectors.shape[1])), np.zeros((2, vectors.shape[1])), vectors])
    file = folder / "model.onnx"
    file.write_bytes(_model(table.astype("<f4"), token_ids))
    return file


def _model(table: npt.NDArray[np.float32], token_ids: str) -> bytes:
    """ModelProto of onnx.proto: rows of a table, looked up by token id."""
    rows, size = table.shape
    node = _text(1, "table") + _text(1, token_ids) + _text(2, "last_hidden_state") + _text(4, "Gather")
    weights = _number(1, rows) + _number(1, size) + _number(2, _FLOAT) + _text(8, "table")
    weights += _field(9, table.tobytes())
    graph = _field(1, node) + _text(2, "tiny") + _field(5, weights)
    for name in (token_ids, "attention_mask"):
        graph += _field(11, _value(name, _INT64, ("batch", "sequence")))
    graph += _field(12, _value("last_hidden_state", _FLOAT, ("batch", "sequence", size)))
    return _number(1, 8) + _field(8, _text(1, "") + _number(2, _OPSET)) + _field(7, graph)


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    sizes = b"".join(
        _field(1, _text(2, size) if isinstance(size, str) else _number(1, size)) for size in shape
    )
    return _text(1, name) + _field(2, _field(1, _number(1, kind) + _field(2, sizes)))


def _text(field: int, text: str) -> bytes:
    return _field(field, text.encode())


def _field(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2, *_varint(len(content))]) + content


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3, *_varint(value)])


def _varint(value: int) -> Iterator[int]:
    while value > 127:
        yield value & 127 | 128
        value >>= 7
    yield value
