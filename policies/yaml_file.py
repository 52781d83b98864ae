"""YAML files read safely, and edited without losing their comments."""

import io
import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

NEW_FILE_MODE = 0o644
"""Of a file that is not there yet; what we write holds no secret, and a gateway may run as another user."""


class YamlInvalid(Exception):
    """The file cannot be read, or is not YAML; the message names it and the place."""


def read_yaml(path: Path) -> object:
    """Return what a file holds, as plain dicts, lists and scalars.

    Raises:
        YamlInvalid: It cannot be read, or is not YAML.
    """
    try:
        text = path.read_text("utf-8")
        return cast("object", _yaml("safe").load(text))
    except (OSError, UnicodeDecodeError) as error:
        raise YamlInvalid(f"{path}: cannot be read: {error}.") from error
    except YAMLError as error:
        raise YamlInvalid(f"{path}: is not valid YAML: {_place(error)}.") from error


def read_for_edit(path: Path) -> dict[str, Any]:
    """Return a mapping that keeps the comments and the order of its file; change it and `write_yaml` it."""
    return cast("dict[str, Any]", _yaml("rt").load(path.read_text("utf-8")))


def write_yaml(path: Path, data: dict[str, Any]) -> None:
    """Write a mapping, whole or not at all: readers see the old file or the new one."""
    out = io.StringIO()
    _yaml("rt").dump(data, out)
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode if path.exists() else NEW_FILE_MODE
    with NamedTemporaryFile(
        "w", dir=path.parent, prefix=".", suffix=".tmp", delete=False, encoding="utf-8"
    ) as new:
        new.write(out.getvalue())
        new.flush()
        os.fchmod(new.fileno(), mode)
        os.fsync(new.fileno())
    Path(new.name).replace(path)


def _yaml(kind: str) -> Any:  # noqa: ANN401 - ruamel's types are partial
    yaml: Any = YAML(typ=kind, pure=True)
    yaml.preserve_quotes = True
    yaml.width = 1000
    return yaml


def _place(error: YAMLError) -> str:
    """Return what is wrong and where, in one line; values may be secrets, and are left out."""
    mark: Any = getattr(error, "problem_mark", None)
    problem: Any = getattr(error, "problem", None) or str(error).splitlines()[0]
    problem = str(problem).partition(" with value ")[0]
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else str(problem)
