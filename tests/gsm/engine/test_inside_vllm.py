"""The tests that need vLLM's classes run where vLLM is: in its own environment, in a process of its own."""

import os
import subprocess
from pathlib import Path

import pytest

from bench.gsm_server import ROOT, VLLM_ENV, what_is_missing

INSIDE = Path(__file__).parent / "inside"


@pytest.mark.timeout(600)
def test_the_engine_side_holds_against_vllms_own_classes() -> None:
    if (missing := what_is_missing()) is not None:
        if os.environ.get("FLASHLANE_REQUIRE_VLLM"):  # noqa: TID251 tells CI from a user's machine
            pytest.fail(missing)
        pytest.skip(missing)
    options = (
        "-c",
        os.devnull,
        "--confcutdir",
        str(INSIDE),
        "--rootdir",
        str(INSIDE),
        "-p",
        "no:cacheprovider",
        "-q",
    )
    done = subprocess.run(
        [VLLM_ENV / "bin" / "python", "-m", "pytest", *options, str(INSIDE)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{INSIDE}"},  # noqa: TID251 a child's
        cwd=INSIDE,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_installed_package_is_found_from_anywhere(tmp_path: Path) -> None:
    if (missing := what_is_missing()) is not None:
        pytest.skip(missing)
    done = subprocess.run(
        [VLLM_ENV / "bin" / "python", "-c", "import backends.gsm.engine.spec as spec; print(spec.__file__)"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},  # noqa: TID251 a child's
        capture_output=True,
        text=True,
        check=False,
    )

    assert str(VLLM_ENV.resolve()) in done.stdout, done.stderr
