"""An engine without a model: answers every GET with 200, and misbehaves when asked to.

Run by its path. The files named on the command line are its strings: while HANG is there it answers
nothing, while BROKEN is there it exits with code 3 at its start.
"""

import argparse
import http.server
import signal
import sys
import threading
from pathlib import Path


class Handler(http.server.BaseHTTPRequestHandler):
    hang: Path

    def do_GET(self) -> None:
        if self.hang.exists():
            threading.Event().wait()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--hang", type=Path, required=True)
    parser.add_argument("--broken", type=Path, required=True)
    parser.add_argument("--stubborn", action="store_true", help="take no notice of SIGTERM")
    options = parser.parse_args()
    if options.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.broken.exists():
        sys.stdout.write("the fake engine is broken\n")
        sys.exit(3)
    handler = type("FakeHandler", (Handler,), {"hang": options.hang})
    with http.server.ThreadingHTTPServer(("127.0.0.1", options.port), handler) as server:
        server.daemon_threads = True
        server.serve_forever()


if __name__ == "__main__":
    main()
