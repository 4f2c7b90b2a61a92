"""An HTTP server for what only shows something: WSGI, in threads. Slow clients cost it a bounded number of them.

`MetricsServer` shows metrics as text, and whether the node is well.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, exposition
from prometheus_client.registry import Collector

from rtmw.errors import RtmwError
from rtmw.net.process import hold_signals

__all__ = ["HttpServer", "Start"]


Start = Callable[[str, list[tuple[str, str]]], Any]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]
"""A WSGI application (PEP 3333)."""

_CLIENTS_MOST = 16
"""Clients that may be connected at a time. One more, and the oldest is cut off."""
_SILENT_S = 5.0
"""A client that says nothing for so long is cut off."""


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
        """Clients that are connected, in the order in which they came."""
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._clients) >= _CLIENTS_MOST:
                _cut_off(self._clients.pop(next(iter(self._clients))))
            self._clients[id(request)] = request
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        hold_signals()
        super().process_request_thread(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._clients.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: the client has gone, or was cut off."""


def _cut_off(request: socket.socket) -> None:
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has gone


class HttpServer:
    """Answers in threads from the first moment until `close`."""

    def __init__(self, address: str, port: int, app: App, what: str) -> None:
        """`port` 0: any that is free. `app`: called in threads of the server. `what`: it serves, for the error. Raises
        RtmwError when the port cannot be had."""
        try:
            self._server = _Server((address, port))
        except OSError as error:
            why = error.strerror or os.strerror(error.errno or 0)
            raise RtmwError(
                f"{what} cannot be served at port {port} of {address}: {why}; choose another port (0: any), or address"
            ) from error
        self._server.set_app(app)
        self.port: int = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name=f"rtmw {what}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Threads that are at an answer end by themselves."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def as_text(collector: Collector) -> str:
    """Metrics in the text format of Prometheus."""
    text: bytes = cast("Any", exposition).generate_latest(_registry(collector))
    return text.decode()


def _registry(collector: Collector) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(collector)
    return registry


class MetricsServer(HttpServer):
    """Serves /metrics, and /health: 200 while all is well, else 503."""

    def __init__(self, address: str, port: int, collector: Collector, fault: Callable[[], str]) -> None:
        """`fault`: what is wrong, empty while all is well; called in threads of the server, as the collector is. The
        rest as HttpServer."""
        self._fault = fault
        self._metrics: Any = cast("Any", exposition).make_wsgi_app(_registry(collector))
        super().__init__(address, port, self._answer, "metrics")

    def _answer(self, request: dict[str, Any], start: Start) -> Iterable[bytes]:
        if request["PATH_INFO"] != "/health":
            answer: Iterable[bytes] = self._metrics(request, start)
            return answer
        fault = self._fault()
        status = HTTPStatus.SERVICE_UNAVAILABLE if fault else HTTPStatus.OK
        start(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{fault or 'ok'}\n".encode()]
