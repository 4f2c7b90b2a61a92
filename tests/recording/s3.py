"""An S3 server on loopback, of moto, which can be made to fail, and which says what was asked of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from rtmw.recording import places

BUCKET = "plant"


@dataclass
class Server:
    """`status` and `cut` hold for all requests that read an object from now on; `delay` in seconds."""

    asked: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Method, path and range of each request."""
    conditions: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Method, path and `If-None-Match` of each."""
    status: str = ""
    cut: bool = False
    delay: float = 0.0
    failing_writes: int = 0
    """So many requests that write are answered with 503."""
    lost_answers: int = 0
    """So many requests that complete an object do so, and are answered with 503."""

    def __post_init__(self) -> None:
        self._app: Any = DomainDispatcherApplication(create_backend_app)
        self._http = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._lock = threading.Lock()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def reads(self) -> list[str]:
        """Ranges of the objects that were read."""
        return [span for method, _, span in self.asked if method == "GET" and span]

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        method, span = environ["REQUEST_METHOD"], environ.get("HTTP_RANGE", "")
        with self._lock:
            self.asked.append((method, environ["PATH_INFO"], span))
            self.conditions.append((method, environ["PATH_INFO"], environ.get("HTTP_IF_NONE_MATCH", "")))
            fails = method in ("PUT", "POST") and self.failing_writes > 0
            self.failing_writes -= fails
        if fails or (span and self.status):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("503 Service Unavailable" if fails else self.status, [("Content-Length", "0")])
            return [b""]
        if method == "POST" and "uploadId=" in environ["QUERY_STRING"] and self.lost_answers:
            self.lost_answers -= 1
            b"".join(self._app(environ, lambda *_: None))
            start("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
        if span:
            time.sleep(self.delay)
        if not (span and self.cut):
            return self._app(environ, start)
        return self._shortened(environ, start)

    def _shortened(self, environ: dict[str, Any], start: Any) -> Iterator[bytes]:
        """The head of an answer, and half of its body."""
        told = list[Any]()
        body = b"".join(self._app(environ, lambda *head: told.extend(head)))
        start(*told[:2])
        yield body[: len(body) // 2]


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """With an empty bucket, and the environment that leads to it."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    server = Server()
    for name, value in {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    urlopen(Request(f"{server.url}/moto-api/reset", method="POST")).close()  # moto has one memory a process
    places._system.cache_clear()
    from pyarrow.fs import FileSystem

    system, _ = FileSystem.from_uri(f"s3://{BUCKET}?allow_bucket_creation=true")
    system.create_dir(BUCKET)
    try:
        yield server
    finally:
        places._system.cache_clear()
        server.stop()


def put(source: Path, name: str) -> str:
    """The URI of a file that was copied into the bucket."""
    from pyarrow.fs import FileSystem

    uri = f"s3://{BUCKET}/{name}"
    system, inside = FileSystem.from_uri(uri)
    with system.open_output_stream(inside) as stream:
        stream.write(source.read_bytes())
    return uri
