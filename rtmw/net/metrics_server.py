"""Metrics as text, and the HTTP server of metrics and health."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, cast

from prometheus_client import CollectorRegistry, exposition
from prometheus_client.registry import Collector

from rtmw.net.http_server import HttpServer, Start


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
