"""The HTTP server of a node's metrics and health. Clients that dawdle cost it a bounded number of threads."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, exposition

from rtmw.errors import RtmwError

_CLIENTS_MOST = 16
"""At a time. One more, and the oldest is cut off."""
_SILENT_S = 5.0
"""A client that says nothing for so long is cut off."""
_STALE_S = 5.0
"""A node says once a second how it is; one that has not for so long is not well."""


class _Handler(WSGIRequestHandler):
    timeout = _SILENT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._clients: dict[int, Any] = {}
        """In the order in which they came."""
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._clients) >= _CLIENTS_MOST:
                _cut_off(self._clients.pop(next(iter(self._clients))))
            self._clients[id(request)] = request
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._clients.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """It has gone, or was cut off: nothing to be said of it."""


def _cut_off(request: socket.socket) -> None:
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has gone


Start = Callable[[str, list[tuple[str, str]]], Any]


class MetricsServer:
    """Serves /metrics, and /health: 200 while the node says how it is, else 503."""

    def __init__(self, address: str, port: int, registry: CollectorRegistry) -> None:
        """`port` 0: any that is free. Raises RtmwError when it cannot be had."""
        self.told = 0.0
        """CLOCK_MONOTONIC, seconds, when the node last said how it is."""
        self._metrics: Any = cast("Any", exposition).make_wsgi_app(registry)
        try:
            self._server = _Server((address, port))
        except OSError as error:
            why = error.strerror or os.strerror(error.errno or 0)
            raise RtmwError(
                f"metrics_port {port} of {address} cannot be used: {why}; choose another, or 0, or another address"
            ) from error
        self._server.set_app(self._answer)
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="rtmw metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: dict[str, Any], start: Start) -> Iterable[bytes]:
        if request["PATH_INFO"] != "/health":
            answer: Iterable[bytes] = self._metrics(request, start)
            return answer
        silent = time.monotonic() - self.told
        is_well = silent < _STALE_S
        status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
        start(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"ok\n" if is_well else f"the node has said nothing for {silent:.0f} s\n".encode()]
