"""Sentence encoders, for the optional second stage of an adapted model (`classifier.second_stage`).

* A path of an .onnx file: it runs on onnxruntime, without torch. Its tokenizer.json lies beside it, or in the
  folder above, as in the repositories of Hugging Face.
* Anything else is what sentence-transformers takes: a folder, or the name of a model. That needs torch.

The name of an encoder is a hash of its weights, wherever they lie: what was learned on the vectors of one
means nothing on those of another.
"""

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from classifier.errors import EncoderUnavailable, MissingDependency

Vector = npt.NDArray[np.float32]

MAX_CHARS = 2048
MAX_TOKENS = 128
"""What is looked at of a text; twice the tokens take twice the time."""

_OTHER_INPUTS = (("attention_mask", np.ones), ("token_type_ids", np.zeros))
_REMEDY = "give the path of an .onnx file, or a model of sentence-transformers"


class Encoder(Protocol):
    """Turns texts into vectors. Safe to share between threads."""

    @property
    def name(self) -> str:
        """Unique to its weights."""
        ...

    def encode(self, text: str) -> Vector:
        """(E,) of length 1, always the same for a text."""
        ...


def load_encoder(model: str) -> Encoder:
    """Load an encoder.

    Args:
        model: Path of an .onnx file, or a folder or name that sentence-transformers knows.

    Raises:
        EncoderUnavailable: There is none, or it cannot be used; says why.
        MissingDependency: What runs it is not installed.
    """
    path = Path(model)
    encoder = OnnxEncoder(path) if path.suffix == ".onnx" else SentenceEncoder(model)
    try:
        vector = encoder.encode("Is this a sentence encoder?")
    except Exception as error:
        raise EncoderUnavailable(
            f"encoder {model}: it cannot encode a sentence: {error}; {_REMEDY}"
        ) from error
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise EncoderUnavailable(f"encoder {model}: what it makes of a sentence is no vector; {_REMEDY}")
    return encoder


class OnnxEncoder:
    """A transformer on onnxruntime: the mean over its last hidden states, on one thread."""

    __slots__ = ("_others", "_session", "_tokenizer", "name")

    def __init__(self, file: Path) -> None:
        """Load `file` and the tokenizer that belongs to it.

        Raises:
            EncoderUnavailable: A file is missing or damaged, or the model takes other inputs.
            MissingDependency: onnxruntime is not installed.
        """
        runtime = _imported("onnxruntime", f"encoder {file}", "pip install flashlane[encoder]")
        from tokenizers import Tokenizer

        tokenizer_file = _tokenizer_beside(file)
        try:
            weights = file.read_bytes()
            tokenizer: Any = Tokenizer.from_file(str(tokenizer_file))
            tokenizer.no_padding()
            tokenizer.enable_truncation(max_length=MAX_TOKENS)
            options = runtime.SessionOptions()
            options.intra_op_num_threads = 1
            options.log_severity_level = 3  # errors only
            self._session = runtime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise EncoderUnavailable(f"encoder {file}: it cannot be loaded: {error}; {_REMEDY}") from error
        self._tokenizer = tokenizer
        inputs = {each.name for each in self._session.get_inputs()}
        if not {"input_ids"} <= inputs <= {"input_ids", *dict(_OTHER_INPUTS)}:
            raise EncoderUnavailable(
                f"encoder {file}: it takes {', '.join(sorted(inputs))}, which is no transformer over "
                f"token ids; {_REMEDY}"
            )
        self._others = [each for each in _OTHER_INPUTS if each[0] in inputs]
        digest = hashlib.sha256(weights)
        digest.update(tokenizer_file.read_bytes())
        self.name = f"onnx@{digest.hexdigest()[:12]}"

    def encode(self, text: str) -> Vector:
        """(E,) of length 1."""
        ids = np.array([self._tokenizer.encode(text[:MAX_CHARS]).ids], dtype=np.int64)
        more = {name: fill(ids.shape, dtype=np.int64) for name, fill in self._others}
        states: Sequence[npt.NDArray[np.float32]] = self._session.run(None, {"input_ids": ids, **more})
        return _unit(states[0][0].mean(axis=0))


class SentenceEncoder:
    """A model of sentence-transformers, on the CPU."""

    __slots__ = ("_model", "name")

    def __init__(self, model: str) -> None:
        """Load `model`, a folder or a name.

        Raises:
            EncoderUnavailable: There is no such model.
            MissingDependency: sentence-transformers is not installed.
        """
        library = _imported("sentence_transformers", f"encoder {model}", "pip install sentence-transformers")
        try:
            self._model: Any = library.SentenceTransformer(model, device="cpu")
        except Exception as error:
            raise EncoderUnavailable(f"encoder {model}: it cannot be loaded: {error}; {_REMEDY}") from error
        self._model.max_seq_length = min(self._model.max_seq_length or MAX_TOKENS, MAX_TOKENS)
        weights: Mapping[str, Any] = self._model.state_dict()
        digest = hashlib.sha256()
        for name in sorted(weights):
            digest.update(name.encode())
            digest.update(weights[name].numpy().tobytes())
        self.name = f"sentence-transformers@{digest.hexdigest()[:12]}"

    def encode(self, text: str) -> Vector:
        """(E,) of length 1."""
        found: npt.NDArray[np.float32] = self._model.encode(text[:MAX_CHARS], show_progress_bar=False)
        return _unit(found)


def encode_all(encoder: Encoder, texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """(N, E) of N texts, one after the other; (0, 0) for none."""
    return np.array([encoder.encode(text) for text in texts], dtype=np.float64).reshape(len(texts), -1)


def _tokenizer_beside(file: Path) -> Path:
    for folder in (file.parent, file.parent.parent):
        if (folder / "tokenizer.json").is_file():
            return folder / "tokenizer.json"
    raise EncoderUnavailable(
        f"encoder {file}: there is no tokenizer.json beside it or in the folder above; put the model's there"
    )


def _imported(module: str, what: str, command: str) -> Any:  # noqa: ANN401 - it ships no types, or is absent
    """A heavy library that only those with an encoder need."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependency(f"{what} needs {module}: {command}") from error


def _unit(vector: npt.NDArray[np.float32]) -> Vector:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), dtype=np.float32)
