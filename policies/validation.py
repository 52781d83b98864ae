"""What is wrong with a YAML file, said so that the reader knows what to change."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import cast

from pydantic import BaseModel, ValidationError


def describe(error: ValidationError, root: type[BaseModel]) -> list[str]:
    """Turn a Pydantic error into lines `path: what is wrong`, with a guess for a mistyped key."""
    schema = root.model_json_schema()
    lines: list[str] = []
    for fault in error.errors(include_url=False, include_input=False):
        location = fault["loc"]
        where = ".".join(str(part) for part in location) or "the file"
        if fault["type"] == "extra_forbidden":
            lines.append(f"{where}: {unknown_name(str(location[-1]), _keys_at(location[:-1], schema))}")
        else:
            lines.append(f"{where}: {fault['msg']}.")
    return lines


def unknown_name(name: str, known: Iterable[str]) -> str:
    """Say that a name is not known, with a guess or the names that are."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    return f"unknown name {name!r}; " + (
        f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names) or 'none'}."
    )


def _keys_at(location: tuple[int | str, ...], schema: Mapping[str, object]) -> set[str]:
    """Return the keys that a JSON schema knows at a place; empty when the place is a free mapping."""
    nodes = [schema]
    for part in location:
        nodes = [_step(node, part) for parent in nodes for node in _alternatives(parent, schema)]
    found: set[str] = set()
    for parent in nodes:
        for node in _alternatives(parent, schema):
            found.update(_mapping(node.get("properties")))
    return found


def _alternatives(node: Mapping[str, object], schema: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Follow `$ref` and `anyOf` to the schemas that may hold here."""
    reference = node.get("$ref")
    if isinstance(reference, str):
        definitions = _mapping(schema.get("$defs"))
        return _alternatives(_mapping(definitions.get(reference.rpartition("/")[2])), schema)
    choices = node.get("anyOf")
    if isinstance(choices, list):
        return [n for c in cast("list[object]", choices) for n in _alternatives(_mapping(c), schema)]
    return [node]


def _step(node: Mapping[str, object], part: int | str) -> Mapping[str, object]:
    if isinstance(part, int):
        return _mapping(node.get("items"))
    properties, patterns = _mapping(node.get("properties")), _mapping(node.get("patternProperties"))
    free = next(iter(patterns.values()), node.get("additionalProperties"))
    return _mapping(properties.get(part, free))


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
