"""A control store in etcd, over the JSON gateway of its version 3 (`/v3/kv/…`), with the standard library.

    rtmw/state/LOG                        the state; its mod_revision is the version
    rtmw/slice/LOG/00000000000000012288   a slice

A transaction whose answer was lost may still be on its way. So the read that settles it writes the state once more,
under the version that the lost one compares: from then on that one is refused. Only the first change of a log, which
compares that there is no value, may still come behind a read that has shown none.
"""

from __future__ import annotations

import json
import ssl
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import chain
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

from rtmw.replica.control.store import REFUSED, TIMEOUT_S, Changed, Outcome, Slices, Store, StoreFault, Value
from rtmw.text.units import size

QUOTA: Final = 2 << 30
"""Bytes that etcd keeps by default; beyond them it takes nothing but reads and deletions."""
_TIGHT: Final = 0.75
_LOOK_S: Final = 10.0
"""Seconds between two looks at the size of its database."""
_FREE: Final = "free it with `etcdctl defrag`, and then `etcdctl alarm disarm` if it has raised an alarm"
_FULL: Final = "database space exceeded"
_THREADS: Final = 4
_STATE, _SLICE, _DIGITS = "rtmw/state/", "rtmw/slice/", 20


class EtcdStore(Store):
    """`endpoints`: addresses of one cluster, such as https://a:2379. `tls`: the context for https. `quota`: bytes that
    etcd may keep, as its own settings say."""

    def __init__(
        self, endpoints: Sequence[str], tls: ssl.SSLContext | None = None, *,
        timeout: float = TIMEOUT_S, quota: int = QUOTA,
    ) -> None:  # fmt: skip
        super().__init__(_THREADS, timeout)
        self.where = f"control store etcd at {', '.join(endpoints)}"
        self._endpoints, self._tls, self._quota = list(endpoints), tls, quota
        self._first = 0
        """Index, modulo the number of endpoints, of the one that is asked first: the last one that has answered."""
        self._idle: dict[str, list[HTTPConnection]] = {endpoint: [] for endpoint in endpoints}
        self._unsettled: dict[str, int] = {}
        """By log: the last version that a change without an answer compares."""
        self._looks = 0.0

    async def change(self, log: str, version: int, state: bytes, slices: Slices) -> Changed:
        """Changes the state as `Store.change` says, and remembers a change whose outcome is not known."""
        is_known = False
        try:
            done = await super().change(log, version, state, slices)
            is_known = done.outcome is not Outcome.UNKNOWN or _FULL in self.fault
            return done
        finally:
            if not is_known:
                self._unsettled[log] = max(version, self._unsettled.get(log, 0))

    # ---- in threads ----

    def _read(self, log: str, slices: bool) -> Value:
        wanted = [_on("request_range", _STATE + log)]
        if slices:
            wanted.append(_on("request_range", f"{_SLICE}{log}/", f"{_SLICE}{log}0"))
        while True:
            done = self._request("kv/txn", {"success": wanted})
            states, *more = [one["response_range"].get("kvs", ()) for one in done["responses"]]
            held = Value(int(states[0]["mod_revision"]), b64decode(states[0].get("value", ""))) if states else Value()
            if not held.version or self._unsettled.get(log) != held.version:
                kvs = more[0] if more else ()
                return held._replace(
                    slices={int(b64decode(kv["key"])[-_DIGITS:]): b64decode(kv.get("value", "")) for kv in kvs}
                )
            self._transact(log, held.version, [_put(_STATE + log, held.state)])  # refused: one of both was applied

    def _change(self, log: str, version: int, state: bytes, slices: Slices) -> Changed:
        new = [_put(_slice(log, start), data) for start, data in slices.items() if data is not None]
        first, end = f"{_SLICE}{log}/", f"{_SLICE}{log}0"
        parts = [(first, _slice(log, min(slices))), (_slice(log, max(slices)) + "/", end)] if slices else [(first, end)]
        gone = [_on("request_delete_range", *part) for part in parts]
        self._look(is_due=bool(new or self.tight))
        done = self._transact(log, version, [_put(_STATE + log, state), *new, *gone])
        if not done.get("succeeded"):
            return REFUSED
        revision = int(done["header"]["revision"])
        if any(int(one.get("response_delete_range", {}).get("deleted", 0)) for one in done["responses"]):
            with suppress(RuntimeError):  # closed meanwhile
                self._threads.submit(self._compact, revision)
        return Changed(Outcome.APPLIED, revision)

    def _transact(self, log: str, version: int, requests: Sequence[Any]) -> dict[str, Any]:
        compare = {"key": _text(_STATE + log), "target": "MOD", "result": "EQUAL", "mod_revision": version}
        return self._request("kv/txn", {"compare": [compare], "success": requests}, is_change=True)

    def _compact(self, revision: int) -> None:
        """The history of what was trimmed gives its room back. Another program may have compacted further."""
        with suppress(StoreFault):
            self._request("kv/compaction", {"revision": revision})

    def _look(self, *, is_due: bool) -> None:
        """How full it is, now and then."""
        if is_due and monotonic() >= self._looks:
            self._looks = monotonic() + _LOOK_S
            status = self._request("maintenance/status", {})
            used, is_full = int(status.get("dbSize", 0)), "NOSPACE" in str(status.get("errors", ""))
            is_tight = is_full or used > _TIGHT * self._quota
            self.tight = f"etcd has {size(used)} of {size(self._quota)}; {_FREE}" if is_tight else ""

    def _request(self, path: str, body: Mapping[str, Any], *, is_change: bool = False) -> dict[str, Any]:
        """Its answer, from the first endpoint that has one. A change that may have been sent is not sent again."""
        data, until, why, is_sent = json.dumps(body).encode(), monotonic() + self.timeout, "", False
        for _ in self._endpoints:
            endpoint, connection = self._endpoints[self._first % len(self._endpoints)], None
            try:
                connection = self._connected(endpoint)
                is_sent = True
                answer = _answer(connection, path, data)
                self._idle[endpoint].append(connection)
                return answer
            except (OSError, HTTPException, ValueError, StoreFault) as error:
                if connection is not None:
                    connection.close()
                self._first += 1
                why = f"{endpoint}: {_words(error)}"
            if (is_change and is_sent) or monotonic() > until:
                break
        if _FULL in why:
            self.tight = f"etcd has reached its quota; {_FREE}"
        raise StoreFault(why)

    def _connected(self, endpoint: str) -> HTTPConnection:
        with suppress(IndexError):  # another thread may have taken the last one
            return self._idle[endpoint].pop()
        url, wait = urlsplit(endpoint), self.timeout / len(self._endpoints)
        made = HTTPConnection(url.hostname or "", url.port, timeout=wait)
        if url.scheme == "https":
            made = HTTPSConnection(url.hostname or "", url.port, timeout=wait, context=self._tls)
        made.connect()
        return made

    def close(self) -> None:
        """Closes the store. Requests on their way end within the timeout."""
        self._threads.shutdown(cancel_futures=True)
        for connection in chain(*self._idle.values()):
            connection.close()


def _words(error: Exception) -> str:
    """Who is refused for its certificate hears an alert, or only the end: of TLS 1.3 the handshake was over before."""
    words = str(error) or type(error).__name__
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
        words += "; it may want a certificate (cert and key of [control]) from an authority that it trusts"
    return words


def _answer(connection: HTTPConnection, path: str, data: bytes) -> dict[str, Any]:
    """Raises OSError, HTTPException, ValueError; StoreFault for what it says of an error."""
    connection.request("POST", f"/v3/{path}", data, {"Content-Type": "application/json"})
    response = connection.getresponse()
    said = response.read()
    if response.status == 404:
        raise StoreFault("it has no JSON gateway of version 3 (/v3/kv): rtmw needs etcd 3.4 or later")
    found: dict[str, Any] = json.loads(said)
    if not isinstance(found, dict) or "header" not in found:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise StoreFault(f"HTTP {response.status}: {said[:200].decode(errors='replace').strip()}")
    return found


def _on(request: str, key: str, end: str = "") -> dict[str, Any]:
    """A request about a key, or the keys from there to before `end`."""
    return {request: {"key": _text(key), **({"range_end": _text(end)} if end else {})}}


def _put(key: str, value: bytes) -> dict[str, Any]:
    return {"request_put": {"key": _text(key), "value": b64encode(value).decode()}}


def _slice(log: str, start: int) -> str:
    return f"{_SLICE}{log}/{start:0{_DIGITS}}"


def _text(key: str) -> str:
    return b64encode(key.encode()).decode()
