"""A fixed fast upstream (nginx) and a load (wrk), both from the distribution's packages."""

import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

GATEWAY_CORE = "0"
LOAD_CORE = "1"

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "bench",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Paris."}, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 60,
        "completion_tokens": 3,
        "total_tokens": 63,
        "prompt_tokens_details": {"cached_tokens": 32},
    },
}


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of wrk saw.

    Attributes:
        rate: Requests a second.
        p50: Median latency, milliseconds.
        p99: Latency, milliseconds.
        cpu: Time of a processor that the server spent on a request, microseconds; NaN where none says so.
    """

    rate: float
    p50: float
    p99: float
    cpu: float


def need(*programs: str) -> None:
    """End with the remedy when a program is not installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        sys.exit(f"The bench needs {', '.join(missing)}. Install it: apt-get install {' '.join(missing)}")


def pinned(core: str) -> list[str]:
    """Return what keeps a command on one core, where the system can."""
    return ["taskset", "-c", core] if shutil.which("taskset") else []


@contextmanager
def nginx(folder: Path, port: int) -> Generator[str]:
    """Serve the fixed answer; yields its base URL."""
    body = json.dumps(ANSWER, separators=(",", ":"))
    config = f"""
        daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
        events {{ worker_connections 1024; }}
        http {{
            access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
            client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
            uwsgi_temp_path {folder}; scgi_temp_path {folder};
            server {{
                listen 127.0.0.1:{port} backlog=1024;
                location / {{ default_type application/json; return 200 '{body}'; }}
            }}
        }}
    """
    file = folder / "nginx.conf"
    file.write_text(config)
    with process([*pinned(LOAD_CORE), "nginx", "-p", str(folder), "-c", str(file)]):
        url = f"http://127.0.0.1:{port}"
        wait_for(url)
        yield url


@contextmanager
def process(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Generator[int]:
    """Run a command for as long as the block lasts; yields its process id."""
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as child:
        try:
            yield child.pid
        finally:
            child.terminate()
            child.wait(timeout=30)


def wait_for(url: str, seconds: float = 60) -> None:
    """Wait until a server answers, with whatever status."""
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(url, timeout=1).close()  # noqa: S310 - a loopback URL of ours
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > end:
                sys.exit(f"{url} did not answer within {seconds:g} s")
            time.sleep(0.05)
        else:
            return


def wrk(url: str, script: Path, *, concurrency: int, seconds: int, server: int | None = None) -> Load:
    """Run wrk once.

    Args:
        url: Where to.
        script: What to send, as `post_script` wrote it.
        concurrency: Connections, each with a request under way.
        seconds: How long.
        server: Id of the process that answers.

    Raises:
        SystemExit: An answer was not 200.
    """
    command = [*pinned(LOAD_CORE), "wrk", "-t1", f"-c{concurrency}", f"-d{seconds}s", "--latency"]
    before = processor_seconds(server)
    out = subprocess.run(
        [*command, "-s", str(script), url], capture_output=True, text=True, check=True
    ).stdout
    spent = processor_seconds(server) - before
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    if failed:
        sys.exit(f"{failed[1]} answers of {url} were not 200:\n{out}")
    return Load(
        rate=float(_find(r"Requests/sec:\s+([\d.]+)", out)),
        p50=_milliseconds(_find(r"50%\s+([\d.]+\w+)", out)),
        p99=_milliseconds(_find(r"99%\s+([\d.]+\w+)", out)),
        cpu=1e6 * spent / int(_find(r"(\d+) requests in", out)),
    )


def processor_seconds(process_id: int | None) -> float:
    """Return what a process has used of a processor, all threads; NaN where there is no /proc."""
    stat = Path(f"/proc/{process_id}/stat")
    if process_id is None or not stat.exists():
        return math.nan
    fields = stat.read_text().rpartition(")")[2].split()  # the name before it may hold blanks; see proc(5)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def post_script(file: Path, body: object, headers: Mapping[str, str]) -> Path:
    """Write the wrk script that posts a JSON body."""
    lines = ['wrk.method = "POST"', f"wrk.body = [==[{json.dumps(body)}]==]"]
    lines += [f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items()]
    file.write_text("\n".join(lines))
    return file


def median(loads: Sequence[Load]) -> Load:
    """Return the medians of several runs."""
    return Load(
        statistics.median(load.rate for load in loads),
        statistics.median(load.p50 for load in loads),
        statistics.median(load.p99 for load in loads),
        statistics.median(load.cpu for load in loads),
    )


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        sys.exit(f"wrk printed nothing like {pattern!r}:\n{text}")
    return found[1]


def _milliseconds(text: str) -> float:
    for unit, factor in {"us": 0.001, "ms": 1.0, "s": 1000.0}.items():
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    sys.exit(f"wrk printed a latency that is none: {text}")
