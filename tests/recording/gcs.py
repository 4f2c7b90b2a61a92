"""A server of gs:// on loopback: gcp-storage-emulator, in a process of its own.

PyArrow holds the interpreter while it waits for gs://, so that a server in the same process could not answer.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rtmw.recording import places

ROOT = "gs://anonymous@plant"
"""Without credentials: the server asks for none."""


@contextmanager
def gcs_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """With an empty bucket, and the environment that leads to it."""
    command = [sys.executable, "-m", "tests.recording.gcs"]
    root = Path(__file__).parents[2]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True, "cwd": root}
    with subprocess.Popen(command, **pipes) as server:
        assert server.stdout is not None
        monkeypatch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", f"http://127.0.0.1:{int(server.stdout.readline())}")
        places._system.cache_clear()
        try:
            yield server
        finally:
            places._system.cache_clear()
            server.kill()


def serve() -> None:
    """Says its port, and serves. The emulator's own server has one thread: who reads two objects would wait for it."""
    from gcp_storage_emulator.handlers import buckets
    from gcp_storage_emulator.server import RequestHandler
    from gcp_storage_emulator.storage import Storage

    storage: Any = Storage(use_memory_fs=True)
    buckets.create_bucket("plant", storage)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(RequestHandler, storage))
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve()
