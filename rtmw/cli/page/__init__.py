"""A domain on a page, read-only: what `rtmw dashboard` serves. It looks on, and only while somebody asks.

    /               the page, and its two files
    /state.json     what is wrong, and what `top`, `graph`, `doctor`, `node info` and `transfers` say for programs
    /value.json     the last message of one topic, as a row that is open asks for it
    /graph.svg      the picture of `rtmw graph`
    /metrics        what `rtmw metrics` says

Whoever has the URL with its token reads all this; the token becomes a cookie with the first answer.
"""

from __future__ import annotations

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
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from rtmw import observe
from rtmw.cli import graph, node_doctor, top
from rtmw.cli.common import find_topic, look_at
from rtmw.cli.doctor import MOST_HOLDINGS, NEARLY_FULL, Examination
from rtmw.cli.environment import Check
from rtmw.cli.metrics import OfDomain
from rtmw.cli.node_status import status_seen
from rtmw.cli.terminal import counted
from rtmw.cli.topic import mismatches
from rtmw.cli.values import to_plain
from rtmw.clock import CLOCK
from rtmw.domain import Domain
from rtmw.errors import RtmwError
from rtmw.observe.logs import logs
from rtmw.observe.picture import picture
from rtmw.patterns import is_own
from rtmw.recording.versions import some
from rtmw.strict_json import as_json
from rtmw.types import from_description
from rtmw.types.text import content

if TYPE_CHECKING:
    from rtmw.net.http_server import Start

__all__ = ["Site"]

NEW_S: Final = 0.9
"""State that is not older is told again: all pages cost what one costs."""
SHARE: Final = 0.04
"""The share of one core that gathering may take: with very many topics state is older."""
STALE_S: Final = 10.0
"""Rates over a longer time say nothing about now: they are measured anew."""
FIRST_S: Final = 0.25
DOCTOR_S: Final = 10.0
LOOKING: Final = ("rtmw foxglove", "rtmw topic", "rtmw trace", "rtmw record")
"""Commands that take what comes."""
RECENT_S: Final = 60.0
"""Seconds for which a drop is told, so that a burst of a moment is seen, too."""
VALUE_MOST: Final = 1 << 16
"""Bytes of a value that are decoded for a row."""
RAW_MOST: Final = 512
"""Bytes without a type that are shown."""
_FILES: Final = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js"}
_KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_HEADERS: Final = (
    ("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
_PICTURE: Final = (("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"), *_HEADERS[1:])
"""A picture has its colours in itself."""


# ---- what is told ----


class State:
    """The documents about a domain, gathered when somebody asks. For the threads of a server."""

    def __init__(self, number: int) -> None:
        self.number, self._lock = number, threading.Lock()
        self._meter, self._measured = observe.Meter(), float("-inf")
        self._told, self._until = b"", float("-inf")
        self._drops: list[tuple[float, str, Counter[str]]] = []
        self._examined: dict[str, Any] = {}
        self._examined_at = float("-inf")

    def told(self) -> bytes:
        """The document, as JSON."""
        with self._lock:
            if CLOCK.monotonic() >= self._until:
                begun = time.thread_time()
                self._told = as_bytes(self._document())
                self._until = CLOCK.monotonic() + max(NEW_S, (time.thread_time() - begun) / SHARE)
            return self._told

    def _document(self) -> dict[str, Any]:
        head = {"domain": self.number, "host": socket.gethostname(), "time": CLOCK.wall()}
        try:
            with look_at(self.number) as domain:
                return head | {"absent": ""} | self._of_domain(domain)
        except RtmwError as error:
            self._measured = self._examined_at = float("-inf")
            self._drops.clear()
            return head | {"absent": str(error)}

    def _of_domain(self, domain: Domain) -> dict[str, Any]:
        views, activity = self._activity(domain)
        status, core = status_seen(domain), observe.transfers(domain)
        whole, doctor = observe.graph(views), self._doctor()
        found = [*_of_topics(views), *self._of_drops(activity), *_of_doctor(doctor), *_of_transfers(core)]
        if status is not None:
            try:
                found += _of_node(node_doctor.checks(self.number, status, logs(domain)))
                whole = graph.across(views, status)
            except (LookupError, TypeError, ValueError):
                found.append(
                    ("node", "node", "it says what another version of rtmw says: start it again with this one")
                )
        return {
            "problems": [{"kind": kind, "about": about, "why": why} for kind, about, why in found],
            "top": [top.record(topic) for topic in activity],
            "graph": [graph.record(edge) for edge in whole.edges],
            "doctor": doctor,
            "node": status,
            "transfers": core,
        }

    def _activity(self, domain: Domain) -> tuple[list[observe.TopicView], list[observe.TopicActivity]]:
        views, now = observe.topics(domain), CLOCK.monotonic()
        if now - self._measured > STALE_S:
            self._meter = observe.Meter()
            self._meter.read(views, now)
            CLOCK.sleep(FIRST_S)
            views, now = observe.topics(domain), CLOCK.monotonic()
        self._measured = now
        return views, self._meter.read(views, now)

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

    def _doctor(self) -> dict[str, Any]:
        if CLOCK.monotonic() - self._examined_at > DOCTOR_S:
            found = Examination.of(self.number).document()
            self._examined = found | {"holdings": found["holdings"][:MOST_HOLDINGS]}
            self._examined_at = CLOCK.monotonic()
        return self._examined

    def picture(self) -> bytes:
        """Who talks to whom. RtmwError: there is no domain."""
        with self._lock, look_at(self.number) as domain:
            views, status = observe.topics(domain), status_seen(domain)
        whole = graph.across(views, status) if status else observe.graph(views)
        return picture(whole, f"Domain {self.number}").encode()

    def value(self, topic: str) -> dict[str, Any]:
        """The last message in the queues of a topic, decoded. RtmwError: there is no domain, or topic."""
        with self._lock, look_at(self.number) as domain:
            find_topic(domain, self.number, topic)
            found = max(observe.queue(domain, topic, VALUE_MOST), key=lambda one: one.source_time_ns, default=None)
            types = dict(observe.types_in_use(domain, topic))
        if found is None:
            return {"topic": topic, "value": None, "words": "no message lies in its queues"}
        about: dict[str, Any] = {
            "topic": topic,
            "type": found.type_name,
            "size": found.size,
            "priority": found.priority,
        }
        about["age"] = max(0.0, (CLOCK.wall_ns() - found.source_time_ns) / 1e9)
        if len(found.preview) < found.size:
            return about | {"value": None, "words": f"{found.size} bytes are too many to show"}
        try:
            description = types.get(found.type_name)
            decode = from_description(description).decode if description else None
            value = found.preview[:RAW_MOST] if decode is None else content(found.type_name, decode(found.preview))
            return about | {"value": to_plain(value), "words": ""}
        except Exception as error:  # whatever another program has published
            return about | {"value": None, "words": f"it cannot be decoded: {error}"}


Problem = tuple[str, str, str]
"""Kind, what it is about, and the reason in words."""


def _of_topics(views: Sequence[observe.TopicView]) -> Iterator[Problem]:
    for view in views:
        for words in mismatches(view):
            yield "unmatched", view.name, words
        service, _, reply = view.name.rpartition("/reply/")
        if _is_deserted(view) and (not service or reply == "server"):
            gone = f"nobody serves {service} any more" if service else "its publishers are gone"
            yield "silent", view.name, f"{gone}; {_names(view.subscribers)} still there"
        late = sum(one.deadlines_missed for one in view.subscribers)
        if late:
            yield "deadline", view.name, f"{counted(late, 'deadline')} missed by its subscribers of now"


def _names(subscribers: Sequence[observe.SubscriberView]) -> str:
    names = sorted({f"{observe.program(one.process)} ({one.pid})" for one in subscribers})
    return f"{some(names)} {'is' if len(names) == 1 else 'are'}"


def _is_deserted(view: observe.TopicView) -> bool:
    """Are its publishers gone, while a program waits for more? Commands that look on wait for nothing."""
    if is_own(view.name) or view.publishers or not view.published:
        return False
    return any(not observe.program(one.process).startswith(LOOKING) for one in view.subscribers)


def _of_doctor(found: dict[str, Any]) -> Iterator[Problem]:
    for table in found["tables"]:
        if table.share_of_all >= NEARLY_FULL:
            share = f"{100 * table.share_of_all:.0f} % of what all may use"
            yield "full", f"the table of {table.name}", f"{share}; rtmw doctor says by whom"
    for words in found["books"].problems if found["books"] else ():
        yield "books", "the books", words
    yield from _told("relay", found["relay"])


def _of_node(checks: Iterable[Check]) -> Iterator[Problem]:
    """What the node's doctor finds; of mere remarks only that keys end soon."""
    yield from _told("node", (one for one in checks if one.kind == "fault" or one.name == "keys"))


def _told(kind: str, checks: Iterable[Check]) -> Iterator[Problem]:
    return ((kind, one.name, f"{one.found}; {one.advice}") for one in checks if one.advice)


def _of_transfers(core: observe.TransferActivity | None) -> Iterator[Problem]:
    if core is not None and core.counters.dead:
        yield "transfers", "transfers", f"{counted(core.counters.dead, 'dead letter')}: rtmw transfers"


def as_bytes(document: dict[str, Any]) -> bytes:
    return as_json(document, to_plain).encode()


# ---- who is answered ----


class Site:
    """Answers requests, of whoever has the token, for a name or address of this host."""

    def __init__(self, number: int) -> None:
        self.token, self._state = secrets.token_urlsafe(24), State(number)
        self._cookie = ""
        self._names = {"localhost", socket.gethostname().lower(), socket.getfqdn().lower()}

    def is_at(self, port: int) -> None:
        """Cookies do not know ports, so their names do."""
        self._cookie = f"rtmw-{port}"

    def answer(self, request: dict[str, Any], start: Start) -> Iterable[bytes]:
        """The WSGI application."""
        query = parse_qs(request.get("QUERY_STRING", ""))
        if (refusal := self._refusal(request, query)) is not None:
            return _say(start, *refusal)
        if "token" in query:
            cookie = f"{self._cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
            start("303 See Other", [("Location", "/"), ("Set-Cookie", cookie), *_HEADERS])
            return []
        try:
            answer = self._page(request, query, start)
        except RtmwError as error:
            answer = _say(start, HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        return answer if request["REQUEST_METHOD"] == "GET" else []

    def _page(self, request: dict[str, Any], query: dict[str, list[str]], start: Start) -> Iterable[bytes]:
        path = request["PATH_INFO"]
        if path in _FILES:
            name = _FILES[path]
            content = files(__name__).joinpath(name).read_bytes()
            return _give(request, start, content, f"{_KINDS[name.rpartition('.')[2]]}; charset=utf-8")
        if path == "/state.json":
            return _give(request, start, self._state.told(), "application/json")
        if path == "/value.json":
            value = self._state.value(query.get("topic", [""])[0])
            return _give(request, start, as_bytes(value), "application/json")
        if path == "/graph.svg":
            return _give(request, start, self._state.picture(), "image/svg+xml", _PICTURE)
        if path == "/metrics":
            from rtmw.net.http_server import as_text

            text = as_text(OfDomain(self._state.number)).encode()
            return _give(request, start, text, "text/plain; version=0.0.4; charset=utf-8")
        if path == "/favicon.ico":
            start("204 No Content", [*_HEADERS])
            return []
        return _say(start, HTTPStatus.NOT_FOUND, "there is no such page")

    def _refusal(self, request: dict[str, Any], query: dict[str, list[str]]) -> tuple[HTTPStatus, str] | None:
        if not self._is_ours(request.get("HTTP_HOST", "")):
            return HTTPStatus.MISDIRECTED_REQUEST, "ask by an address of this host, or its name"
        if request["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, "the dashboard only shows: GET, HEAD"
        cookies = dict(part.strip().partition("=")[::2] for part in request.get("HTTP_COOKIE", "").split(";"))
        said = query["token"][0] if "token" in query else cookies.get(self._cookie, "")
        if not secrets.compare_digest(said.encode(), self.token.encode()):
            return HTTPStatus.FORBIDDEN, "open the URL that rtmw dashboard has printed: it has a token"
        return None

    def _is_ours(self, host: str) -> bool:
        """A page of somebody else, whose name was made to mean this host, says its own name."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            return bool(ip_address(name))
        except ValueError:
            return name in self._names


def _say(start: Start, status: HTTPStatus, words: str) -> Iterable[bytes]:
    start(f"{status.value} {status.phrase}", [("Content-Type", "text/plain; charset=utf-8"), *_HEADERS])
    return [f"{words}\n".encode()]


def _give(
    request: dict[str, Any], start: Start, content: bytes, kind: str, headers: Sequence[tuple[str, str]] = _HEADERS
) -> Iterable[bytes]:
    more = [("Content-Type", kind), *headers]
    if "gzip" in request.get("HTTP_ACCEPT_ENCODING", ""):
        content = gzip.compress(content, 1)
        more.append(("Content-Encoding", "gzip"))
    start("200 OK", [*more, ("Content-Length", str(len(content)))])
    return [content]
