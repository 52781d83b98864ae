"""The shipped files are checked before they are believed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from classifier.errors import ModelFileInvalid
from classifier.features import FEATURE_NAMES
from classifier.model import SHIPPED, Classifier
from classifier.weights_file import ARRAYS_NAME, CARD_NAME, load, save


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in (ARRAYS_NAME, CARD_NAME):
        shutil.copy(SHIPPED / name, tmp_path / name)
    return tmp_path


def edit_card(folder: Path, **changes: Any) -> None:
    card = json.loads((folder / CARD_NAME).read_bytes())
    (folder / CARD_NAME).write_text(json.dumps(card | changes))


def refusal(folder: Path) -> str:
    with pytest.raises(ModelFileInvalid) as refused:
        Classifier.load(folder)
    message = str(refused.value)
    assert "flashlane classifier train" in message
    return message


@pytest.mark.parametrize("name", [ARRAYS_NAME, CARD_NAME])
def test_a_missing_file_is_named(copy: Path, name: str):
    (copy / name).unlink()
    assert str(copy / name) in refusal(copy)


def test_truncated_arrays_are_refused_by_name(copy: Path):
    path = copy / ARRAYS_NAME
    path.write_bytes(path.read_bytes()[:-100])
    assert str(path) in refusal(copy)


def test_one_changed_byte_is_noticed(copy: Path):
    path = copy / ARRAYS_NAME
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert "sha256" in refusal(copy)


def test_arrays_that_are_no_safetensors_are_refused_even_with_the_right_hash(copy: Path):
    (copy / ARRAYS_NAME).write_bytes(b"")
    edit_card(copy, sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    assert ARRAYS_NAME in refusal(copy)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"format": 1}', b"\xff\xfe"])
def test_a_card_that_is_none_is_refused(copy: Path, content: bytes):
    (copy / CARD_NAME).write_bytes(content)
    assert CARD_NAME in refusal(copy)


def test_a_newer_format_is_refused(copy: Path):
    edit_card(copy, format=3)
    assert "format 3" in refusal(copy)


def test_weights_for_other_features_are_refused(copy: Path):
    edit_card(copy, features=["moon_phase", *FEATURE_NAMES[1:]])
    assert "features" in refusal(copy)


def test_what_is_saved_is_loaded(tmp_path: Path):
    prior, card = load(SHIPPED)
    save(tmp_path, prior, {"sources": [], "reference": {}, "figures": {}, "training_command": ""})
    again, new_card = load(tmp_path)
    assert again == prior
    assert new_card.version == card.version


def test_the_card_says_where_the_weights_come_from():
    _, card = load(SHIPPED)
    assert card.training_command.startswith("flashlane classifier train")
    assert all(source["licences"] for source in card.sources)
    macro = card.figures["macro"]
    assert macro["apgr"] > macro["length"]["apgr"] > macro["random"]["apgr"]
    assert macro["apgr_weighted"] > macro["length"]["apgr_weighted"]


def test_the_files_are_small():
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 2_000_000


def test_serving_imports_neither_numpy_nor_scikit_learn():
    code = (
        "import sys; from classifier.model import Classifier; Classifier.load();"
        "print(sorted({'numpy', 'sklearn', 'torch', 'pickle'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "numpy" not in found.stdout
    assert "sklearn" not in found.stdout
    assert "torch" not in found.stdout
