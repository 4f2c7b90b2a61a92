"""`rtmw dashboard`: a domain on a page, read-only. It looks on, and only while somebody asks.

    /               the page, and its files
    /state.json     what is wrong, and what `top`, `graph`, `doctor`, `node info` and `transfers` say for programs: each
                    fact that the page shows, once; with ?whole=1, all that they say
    /value.json     the endpoints and the last message of one topic, as a row that is open asks for them
    /graph.svg      the picture of `rtmw graph`
    /metrics        what `rtmw metrics` says

Whoever has the URL with its token reads all this; the token becomes a cookie with the first answer.
"""

from __future__ import annotations

import argparse
import gzip
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from importlib.resources import files
from ipaddress import ip_address
from mimetypes import guess_type
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from rtmw import observe
from rtmw.cli import graph, node_doctor, top
from rtmw.cli.common import CommandError, find_topic, look_at, place_of
from rtmw.cli.doctor import NEARLY_FULL, Examination
from rtmw.cli.environment import Check
from rtmw.cli.metrics import OfDomain, serve
from rtmw.cli.parsing import add_listen, runs
from rtmw.cli.terminal import counted
from rtmw.cli.topic import mismatches
from rtmw.cli.values import to_plain
from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.errors import RtmwError
from rtmw.observe.node_status import NodeStatus, silence, told_last
from rtmw.observe.picture import picture
from rtmw.observe.services import logs
from rtmw.recording.versions import some
from rtmw.text.addresses import bracketed, parts
from rtmw.text.patterns import is_own
from rtmw.text.strict_json import JsonError, as_json
from rtmw.types import from_description
from rtmw.types.text import content

if TYPE_CHECKING:
    from rtmw.net.http_server import HttpServer, Start

NEW_S: Final = 0.9
"""State that is not older is told again: all pages cost what one costs."""
SHARE: Final = 0.04
"""The share of one core that gathering may take: with very many topics state is older."""
STALE_S: Final = 10.0
"""Rates over a longer time say nothing about now: they are measured anew."""
FIRST_S: Final = 0.25
LOOKING: Final = ("rtmw foxglove", "rtmw topic", "rtmw trace", "rtmw record")
"""Commands that take what comes."""
RECENT_S: Final = 60.0
"""Seconds for which a drop is told, so that a burst of a moment is seen, too."""
VALUE_MOST: Final = 1 << 16
"""Bytes of a value that are decoded for a row."""
RAW_MOST: Final = 512
"""Bytes without a type that are shown."""
_FILES: Final = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js", "/icon.svg": "icon.svg"}
_JSON: Final = "application/json"
_SVG: Final = "image/svg+xml"
_COLUMNS: Final = ("topic", "rate", "bytes", "p50", "p99", "queued", "publishers", "subscribers", "behind", "dropped")
"""What the page shows of a topic."""
_POLICY: Final = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_SVG_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""A picture has its colours in itself."""
_SAFE: Final = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, dashboard, json=False)
    warning = "listen on an address that other hosts reach: whoever has the URL reads, and it is not encrypted"
    add_listen(parser, "where the page is served, until SIGINT or SIGTERM", 9466, warning)


def dashboard(arguments: argparse.Namespace) -> int:
    """Serve the page until SIGINT or SIGTERM, also of a domain that does not exist yet."""
    reads = "without encryption, and whoever has the URL reads all topics"
    address, port = place_of(arguments, reads, "listen at 127.0.0.1 and forward the port with ssh")

    def begin() -> tuple[HttpServer, str]:
        from rtmw.net.http_server import HttpServer

        site = Site(arguments.domain)
        server = HttpServer(address, port, site.answer, "the dashboard")
        place = f"http://{bracketed(address)}:{server.port}/?token={site.token}"
        return server, f"the dashboard of domain {arguments.domain} is at {place}"

    return serve(begin)


# ---- what is told ----


class State:
    """The documents about a domain, gathered when somebody asks. For the threads of a server."""

    def __init__(self, number: int) -> None:
        self.number, self._lock = number, threading.Lock()
        self._meter, self._measured = observe.Meter(), float("-inf")
        self._seen, self._told, self._until = dict[str, Any](), b"", float("-inf")
        self._drops: list[tuple[float, str, Counter[str]]] = []

    def told(self, whole: bool = False) -> bytes:
        """The documents, as JSON: what the page shows of them, or all."""
        with self._lock:
            if CLOCK.monotonic() >= self._until:
                begun = time.thread_time()
                self._seen = self._documents()
                self._told = as_json(_short(self._seen), _plain).encode()
                self._until = CLOCK.monotonic() + max(NEW_S, (time.thread_time() - begun) / SHARE)
            return as_json(self._seen, _plain).encode() if whole else self._told

    def graph(self) -> Any:
        """Who talks to whom, an observe.Graph. RtmwError: there is no domain."""
        self.told()
        if self._seen["absent"]:
            raise CommandError(self._seen["absent"])
        return self._seen["graph"]

    def _documents(self) -> dict[str, Any]:
        head = {"domain": self.number, "host": socket.gethostname(), "time": CLOCK.wall()}
        try:
            with look_at(self.number) as domain:
                return head | {"absent": ""} | self._of_domain(domain)
        except RtmwError as error:
            self._measured = float("-inf")
            self._drops.clear()
            return head | {"absent": str(error)}

    def _of_domain(self, domain: Domain) -> dict[str, Any]:
        if CLOCK.monotonic() - self._measured > STALE_S:
            self._meter.read(observe.topics(domain), CLOCK.monotonic())
            CLOCK.sleep(FIRST_S)
        views, self._measured = observe.topics(domain), CLOCK.monotonic()
        activity, whole = self._meter.read(views, self._measured), observe.graph(views)
        doctor, core = Examination.of(self.number), observe.transfers(domain)
        found = [*_of_topics(views), *self._of_drops(activity), *_of_services(doctor, core)]
        node: dict[str, Any] | None = None
        try:
            node = told_last(domain)
            if node is not None:
                node["silent_s"], status = silence(node["told_ns"]), NodeStatus.of(node)
                checks = node_doctor.checks(self.number, status, logs(domain))
                found += _told("node", (one for one in checks if one.kind == "fault" or one.name == "keys"))
                whole = graph.across(views, status)
        except (JsonError, LookupError) as error:
            found += _told("node", [node_doctor.unreadable(error)])
        told = {"top": activity, "graph": whole, "doctor": doctor, "node": node, "transfers": core}
        return told | {"problems": [{"kind": kind, "about": about, "why": why} for kind, about, why in found]}

    def _of_drops(self, activity: Sequence[observe.TopicActivity]) -> Iterator[Problem]:
        now = CLOCK.monotonic()
        self._drops += [(now, one.topic, Counter(one.dropped)) for one in activity if one.dropped]
        self._drops = [row for row in self._drops if now - row[0] < RECENT_S]
        lately: dict[str, Counter[str]] = {}
        for _, topic, dropped in self._drops:
            lately.setdefault(topic, Counter()).update(dropped)
        for topic, dropped in lately.items():
            del dropped["thinned"]
            if dropped:
                yield "drops", topic, f"{top.drops(dropped)} in the last minute"

    def value(self, topic: str) -> dict[str, Any]:
        """Who uses a topic, and the last message in its queues, decoded. RtmwError: there is no domain, or topic."""
        endpoints = [graph.record(edge) for edge in self.graph().edges if edge.topic == topic]
        with look_at(self.number) as domain:
            find_topic(domain, self.number, topic)
            found = max(observe.queue(domain, topic, VALUE_MOST), key=lambda one: one.source_time_ns, default=None)
            types = dict(observe.types_in_use(domain, topic))
        about: dict[str, Any] = {"topic": topic, "endpoints": endpoints, "value": None, "words": ""}
        if found is None:
            return about | {"words": "no message lies in its queues"}
        age = max(0.0, (CLOCK.wall_ns() - found.source_time_ns) / 1e9)
        about |= {"type": found.type_name, "size": found.size, "priority": found.priority, "age": age}
        if len(found.preview) < found.size:
            return about | {"words": f"{found.size} bytes are too many to show"}
        try:
            description = types.get(found.type_name)
            decode = from_description(description).decode if description else None
            value = found.preview[:RAW_MOST] if decode is None else content(found.type_name, decode(found.preview))
            return about | {"value": to_plain(value)}
        except Exception as error:  # whatever another program has published
            return about | {"words": f"it cannot be decoded: {error}"}


def _plain(value: Any) -> Any:
    """A part of the documents as the commands print it."""
    if isinstance(value, observe.TopicActivity):
        return top.record(value)
    if isinstance(value, observe.Graph):
        return [graph.record(edge) for edge in value.edges]
    return value.document() if isinstance(value, Examination) else to_plain(value)


def _short(seen: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of the documents. It asks for the endpoints of a topic when a row is open."""
    if seen["absent"]:
        return seen
    whole, node = seen["graph"], seen["node"]
    numbers = {program: number for number, program in enumerate(whole.processes)}
    edges = [(numbers[edge.process], edge.topic, edge.publishes, edge.matched) for edge in whole.edges]
    return {name: part for name, part in seen.items() if name != "doctor"} | {
        "top": {"columns": _COLUMNS, "rows": [_row(topic) for topic in seen["top"]]},
        "graph": {"programs": [*numbers], "edges": edges},
        "node": node and {name: node.get(name) for name in ("host", "pid", "links")},
    }


def _row(topic: observe.TopicActivity) -> tuple[Any, ...]:
    """The cells of _COLUMNS. Four figures are more than people read."""
    rates = (topic.messages_per_s, topic.bytes_per_s, topic.latency.percentile(50), topic.latency.percentile(99))
    shown = [None if number is None else float(f"{number:.4g}") for number in rates]
    behind = topic.behind and {"pid": topic.behind.pid, "messages": topic.behind.behind}
    return topic.topic, *shown, topic.queued, topic.publishers, len(topic.subscribers), behind, topic.dropped


Problem = tuple[str, str, str]
"""Kind, what it is about, and the reason in words."""


def _of_topics(views: Sequence[observe.TopicView]) -> Iterator[Problem]:
    for view in views:
        for words in mismatches(view):
            yield "unmatched", view.name, words
        service, _, reply = view.name.rpartition("/reply/")
        is_ended = view.published and not view.publishers and not is_own(view.name)
        waiting = [(observe.program(one.process), one.pid) for one in view.subscribers] if is_ended else []
        if (not service or reply == "server") and any(not program.startswith(LOOKING) for program, _ in waiting):
            gone = f"nobody serves {service} any more" if service else "its publishers are gone"
            names = sorted({f"{program} ({pid})" for program, pid in waiting})
            yield "silent", view.name, f"{gone}; {some(names)} {'is' if len(names) == 1 else 'are'} still there"
        late = sum(one.deadlines_missed for one in view.subscribers)
        if late:
            yield "deadline", view.name, f"{counted(late, 'deadline')} missed by its subscribers of now"


def _of_services(doctor: Examination, core: observe.TransferActivity | None) -> Iterator[Problem]:
    for table in doctor.findings.tables if doctor.findings else ():
        if table.share_of_all >= NEARLY_FULL:
            share = f"{100 * table.share_of_all:.0f} % of what all may use"
            yield "full", f"the table of {table.name}", f"{share}; rtmw doctor says by whom"
    for words in doctor.findings.books.problems if doctor.findings else ():
        yield "books", "the books", words
    yield from _told("relay", doctor.orders)
    if core is not None and core.counters.dead:
        yield "transfers", "transfers", f"{counted(core.counters.dead, 'dead letter')}: rtmw transfers"


def _told(kind: str, checks: Iterable[Check]) -> Iterator[Problem]:
    return ((kind, one.name, f"{one.found}; {one.advice}") for one in checks if one.advice)


# ---- who is answered ----


class _Refused(Exception):
    """Why there is no answer: a status, and words."""


class Site:
    """Answers requests, of whoever has the token, for a name or address of this host."""

    def __init__(self, number: int) -> None:
        self.token, self._state = secrets.token_urlsafe(24), State(number)
        self._names = {"localhost", socket.gethostname().lower(), socket.getfqdn().lower()}

    def answer(self, request: dict[str, Any], start: Start) -> Iterable[bytes]:
        """The WSGI application."""
        query = parse_qs(request.get("QUERY_STRING", ""))
        cookie = f"rtmw-{request['SERVER_PORT']}"  # cookies do not know ports, so their names do
        status = HTTPStatus.OK
        try:
            self._check(request, query, cookie)
            if "token" in query:
                value = f"{cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
                start("303 See Other", [("Location", "/"), ("Set-Cookie", value), *_SAFE.items()])
                return []
            content, kind = self._content(request["PATH_INFO"], query)
        except (_Refused, RtmwError) as error:
            status, words = error.args if isinstance(error, _Refused) else (HTTPStatus.SERVICE_UNAVAILABLE, error)
            content, kind = f"{words}\n".encode(), "text/plain; charset=utf-8"
        policy = _SVG_POLICY if kind == _SVG else _POLICY
        headers = [("Content-Type", kind), ("Content-Security-Policy", policy), *_SAFE.items()]
        if "gzip" in request.get("HTTP_ACCEPT_ENCODING", ""):
            content = gzip.compress(content, 1)
            headers.append(("Content-Encoding", "gzip"))
        start(f"{status.value} {status.phrase}", [*headers, ("Content-Length", str(len(content)))])
        return [content] if request["REQUEST_METHOD"] == "GET" else []

    def _check(self, request: dict[str, Any], query: dict[str, list[str]], cookie: str) -> None:
        if not self._is_ours(request.get("HTTP_HOST", "")):
            raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, "ask by an address of this host, or its name")
        if request["REQUEST_METHOD"] not in ("GET", "HEAD"):
            raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, "the dashboard only shows: GET, HEAD")
        cookies = dict(part.strip().partition("=")[::2] for part in request.get("HTTP_COOKIE", "").split(";"))
        said = query["token"][0] if "token" in query else cookies.get(cookie, "")
        if not secrets.compare_digest(said.encode(), self.token.encode()):
            raise _Refused(HTTPStatus.FORBIDDEN, "open the URL that rtmw dashboard has printed: it has a token")

    def _is_ours(self, host: str) -> bool:
        """A page of somebody else, whose name was made to mean this host, says its own name."""
        try:
            name, _ = parts(host)
            return name.lower() in self._names or bool(ip_address(name))
        except ValueError:
            return False

    def _content(self, path: str, query: dict[str, list[str]]) -> tuple[bytes, str]:
        """What lies there, and its kind."""
        match path:
            case "/state.json":
                return self._state.told("whole" in query), _JSON
            case "/value.json":
                return as_json(self._state.value(query.get("topic", [""])[0]), _plain).encode(), _JSON
            case "/graph.svg":
                return picture(self._state.graph(), f"Domain {self._state.number}").encode(), _SVG
            case "/metrics":
                from rtmw.net.http_server import as_text

                return as_text(OfDomain(self._state.number)).encode(), "text/plain; version=0.0.4; charset=utf-8"
            case _ if path in _FILES:
                file = files(__name__).joinpath(_FILES[path])
                return file.read_bytes(), guess_type(file.name)[0] or ""
            case _:
                raise _Refused(HTTPStatus.NOT_FOUND, "there is no such page")
