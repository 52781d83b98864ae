"""`flashlane engine`: write, check and run the command of an engine from its profile."""

import asyncio
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from backends.engines.llama import LlamaOptions, llama_spec
from backends.engines.process import SupervisedProcess
from backends.engines.profiles import PROFILES, EngineProfile, LlamaProfile, VllmProfile, profile_of
from backends.engines.types import EngineState, ProcessSpec
from backends.engines.vllm import EngineCommand, check_flags, vllm_command, vllm_spec
from backends.errors import EngineFailed, ProfileInvalid
from backends.models.store import ModelStore
from gateway import server
from gateway.cli.console import errors_end_the_command
from gateway.settings import Settings

FLAGS_AT = 3
"""Where a vLLM command's flags begin: after the Python and `-m MODULE`."""


def engine(
    name: Annotated[str | None, typer.Argument(help="A profile; all are listed when left out.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KNOB=VALUE", help="Set a knob otherwise.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where a vLLM server listens; llama.cpp is for this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    python: Annotated[
        str | None, typer.Option(help="Of vLLM's environment; FLASHLANE_ENGINE_PYTHON, else python3.")
    ] = None,
    *,
    show: Annotated[bool, typer.Option("--print", help="Write the command and its environment.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Ask the installed vLLM about every flag.")] = False,
) -> None:
    """Run an engine from a profile, and keep it running until Ctrl-C."""
    with errors_end_the_command():
        if name is None:
            for profile in PROFILES.values():
                print(f"{profile.name:18}{profile.about}")
            return
        profile, found = profile_of(name, settings or ()), Settings.from_env()
        where = python or found.engine_python
        if show:
            print(_as_shell(_command(profile, found, where, host, port)))
        elif check:
            print(asyncio.run(_checked(profile, where)))
        else:
            server.set_up_logging(verbose=True)
            asyncio.run(_run(profile, _spec(profile, found, where, host, port), where))


def _command(profile: EngineProfile, settings: Settings, python: str, host: str, port: int) -> EngineCommand:
    if isinstance(profile, VllmProfile):
        return vllm_command(profile, python=python, host=host, port=port)
    return EngineCommand(tuple(_spec(profile, settings, python, host, port).argv))


def _as_shell(command: EngineCommand) -> str:
    """Return a command as a shell takes it, a flag a line."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in command.env.items()]
    first, *rest = [shlex.quote(word) for word in command.argv]
    program = " ".join([first, *rest[: FLAGS_AT - 1]])
    return " \\\n  ".join([*variables, program, *rest[FLAGS_AT - 1 :]])


def _spec(profile: EngineProfile, settings: Settings, python: str, host: str, port: int) -> ProcessSpec:
    log_file = settings.state_dir / "logs" / f"{profile.name}-{port}.log"
    if isinstance(profile, VllmProfile):
        return vllm_spec(profile, python=python, host=host, port=port, log_file=log_file)
    return _llama(profile, settings, port, log_file)


def _llama(profile: LlamaProfile, settings: Settings, port: int, log_file: Path) -> ProcessSpec:
    store = ModelStore(settings.models_dir)
    options = LlamaOptions(
        context=profile.max_model_len,
        slots=profile.max_num_seqs,
        threads=profile.threads or None,
        cache_mib=profile.cache_mib,
        chat_template=store.chat_template(profile.model),
        draft_tokens=profile.draft_tokens if profile.speculation == "ngram" else 0,
    )
    return llama_spec(profile.served_name, store.locate(profile.model), port, log_file, options)


async def _checked(profile: EngineProfile, python: str) -> str:
    """Return a line that says that all is well.

    Raises:
        ProfileInvalid: With every flag that the installed vLLM does not take.
    """
    if not isinstance(profile, VllmProfile):
        return f"{profile.name}: llama.cpp comes with Flashlane, there is nothing to check"
    report = await check_flags(vllm_command(profile).argv[FLAGS_AT:], python)
    if report.troubles:
        lines = [f"  {found.flag}: {found.trouble}" for found in report.troubles]
        raise ProfileInvalid(
            "\n".join([f"vLLM {report.version} does not take the profile {profile.name}:", *lines])
        )
    return f"{profile.name}: vLLM {report.version} takes all {report.flags} flags"


async def _run(profile: EngineProfile, spec: ProcessSpec, python: str) -> None:
    """Keep an engine running until a signal; a command that vLLM does not take is explained by flag.

    Raises:
        EngineFailed: It did not start, or kept dying.
        ProfileInvalid: It did not start, and this is why.
    """
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    engine = SupervisedProcess(spec)
    print(f"starting {spec.name}; its log is {spec.log_file}", file=sys.stderr, flush=True)
    started = asyncio.ensure_future(_start(engine, profile, python))
    stop = asyncio.ensure_future(stopping.wait())
    ended = asyncio.ensure_future(engine.wait_for(lambda now: now.state is EngineState.FAILED))
    try:
        await asyncio.wait({started, stop}, return_when=asyncio.FIRST_COMPLETED)
        if started.done():
            started.result()
            print(f"ready at http://127.0.0.1:{spec.port}/v1", flush=True)
            await asyncio.wait({ended, stop}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        tasks = (started, stop, ended)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await engine.stop()
    if engine.status.state is EngineState.FAILED:
        raise EngineFailed(engine.status.last_error or f"{spec.name} is down for good")


async def _start(engine: SupervisedProcess, profile: EngineProfile, python: str) -> None:
    """Return when an engine has started.

    Raises:
        ProfileInvalid: It did not, for flags that this vLLM does not take.
        EngineFailed: It did not, for another reason.
    """
    try:
        await engine.start()
    except EngineFailed:
        if isinstance(profile, VllmProfile):
            await _checked(profile, python)
        raise
