"""The map of the code says what is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateway", "classifier", "backends", "policies")
DOCUMENTS = sorted(["README.md", *(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md"))])
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
STORY = re.findall(r"^\| \w+ \| (.+?) \| ", ARCHITECTURE.partition("## Packages")[0], re.MULTILINE)


def defined() -> set[str]:
    """Return the names of all classes and functions."""
    files = [path for package in PACKAGES for path in ROOT.glob(f"{package}/**/*.py")]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    return {
        node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_a_document_names_are_there(document: str):
    text = (ROOT / document).read_text()
    roots = "|".join([*PACKAGES, "tests", "bench", "deploy", "examples", "docs"])
    links = re.findall(r"\]\(([^):#]+)(?:#[^)]*)?\)", text)
    missing = {path for path in links if not (ROOT / document).parent.joinpath(path).exists()}
    missing |= {path for path in re.findall(rf"`((?:{roots})/[\w./-]*)`", text) if not (ROOT / path).exists()}
    assert not missing


def test_steps_of_a_request_are_functions_that_are_there():
    steps = [name for step in STORY for name in re.findall(r"`([A-Za-z_][A-Za-z_.]*)`", step)]
    assert len(steps) > 20
    assert {part for name in steps for part in name.split(".")} <= defined()
