"""Links of a node, as `rtmw node info`, `doctor` and `check` show them."""

from __future__ import annotations

import os
import socket
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rtmw.addresses import place_to_listen, place_to_reach, unix_path
from rtmw.cli.environment import UNKNOWN_MOST, Check, not_looked_up
from rtmw.cli.terminal import Table, counted, duration, size
from rtmw.clock import CLOCK
from rtmw.errors import RtmwError

if TYPE_CHECKING:
    from rtmw.net.security.tables import Link
    from rtmw.net.settings import Settings

_OPENSSL: Final = "OpenSSL of links"


def links_table(links: dict[str, Any]) -> Table:
    """Peers that the node has, or had within the lease, a link with."""
    columns = (
        "peer", "host", "address", "state", "cipher", "certificate left", "there and back",
        "not acknowledged", "out", "in",
    )  # fmt: skip
    return Table("Links", columns, [_row(peer) for peer in links["peers"]])


def _row(peer: dict[str, Any]) -> tuple[Any, ...]:
    state = "up" if peer["up"] else f"cut for {duration(peer['down_s'])}: {peer['why_down'] or 'not up yet'}"
    left = None if peer["expires"] is None else duration(max(peer["expires"] - CLOCK.wall(), 0.0))
    way = None if peer["round_trip_ns"] is None else duration(peer["round_trip_ns"] / 1e9)
    waiting = size(peer["unacknowledged_bytes"])  # those that the kernel has not sent are among them
    return (
        peer["peer"], peer["host"], peer["address"], state, cipher_of(peer, "none"), left, way, waiting,
        peer["routes_out"], peer["routes_in"],
    )  # fmt: skip


def cipher_of(peer: dict[str, Any], without: str) -> str:
    return str(peer["cipher"] or ("within this host" if peer["user"] else without))


def _twin_words(peer: dict[str, Any]) -> Iterator[str]:
    """Yields a sentence on the second connection for copies of urgent messages, for a link that has or had one, or
    could not have it."""
    if not peer.get("twins") and not peer.get("why_no_twin"):
        return
    state = "is up" if peer["twin"] else f"is not there: {peer['why_no_twin'] or 'it has ended'}"
    yield (
        f"The twin of the link with {peer['peer'] or peer['host']} {state}; {peer['copies']} copies sent, "
        f"{peer['copies_left_out']} left out; of those of the peer {peer['copies_first']} came before their message, "
        f"{peer['copies_passed_over']} after it."
    )


def links_words(links: dict[str, Any]) -> Iterator[str]:
    """The sentences about failing links, refused connections and denials."""
    for place, why in {**links["failing"], **links.get("failing_found", {})}.items():
        yield f"No link with {place}: {why}."
    for peer in links["peers"]:
        yield from _twin_words(peer)
    if links["refused"]:
        yield f"Connections that came to no link: {by_cause(links['refused'])}."
    for row in links["denials"]:
        yield (
            f"Denied {counted(row['number'], 'time')}: {row['peer'] or 'a peer without a certificate'} may not "
            f"{row['verb']} {row['subject']} ({row['cause']}{', ' + row['rule'] if row['rule'] else ''})."
        )


def by_cause(counts: dict[str, int]) -> str:
    return ", ".join(f"{cause} {count}" for cause, count in sorted(counts.items()))


def examined(links: dict[str, Any]) -> Iterator[Check]:
    """Yields the checks of links for the doctor."""
    for place, why in links["failing"].items():
        yield Check(f"link with {place}", "there is none", f"{why}; the node tries it again and again")
    for place, why in links.get("failing_found", {}).items():
        advice = "a node there is announced over DDS, maybe by a stranger; it is tried again, more and more seldom"
        yield Check(f"link with {place}", f"there is none: {why}", advice, remark=True)
    if links.get("openssl"):
        yield Check(_OPENSSL, links["openssl"])
    yield from _listening(filter(unix_path, links["ports"]))
    if links.get("refused"):
        yield Check("connections refused", by_cause(links["refused"]))
    for one in links["turned_away"]:
        yield _turned_away(one)
    for peer in links["peers"]:
        name = f"link with {peer['peer'] or peer['host']}"
        if peer["up"]:
            cipher = cipher_of(peer, "no TLS: anybody on the way may read and change it")
            yield Check(name, f"up, {cipher}, {counted(peer['routes_out'], 'topic')} out, {peer['routes_in']} in")
            if peer["denied"]:
                yield _denied(peer)
            yield from _beyond(peer)
        else:
            found = f"cut for {duration(peer['down_s'])}: {peer['why_down'] or 'not up yet'}"
            yield Check(name, found, _where_to_look(peer))


def _denied(peer: dict[str, Any]) -> Check:
    """Topics that do not cross by rules of the peer. That may be meant so: it is no fault by itself."""
    uses = {"publish": "published here", "subscribe": "wanted here"}
    counts = ", ".join(f"{row['topics']} {uses[row['verb']]} ({row['cause']})" for row in peer["denied"])
    return Check(f"topics that {peer['peer'] or peer['host']} denies", f"{counts}; rtmw node info names them")


def _beyond(peer: dict[str, Any]) -> Iterator[Check]:
    """A peer that asks for more of this host than it may take."""
    found = [row for row in peer.get("budget", ()) if row["refused"]]
    if found:
        words = "{what}: {taken} of {most} taken, {refused} more refused"
        advice = "it was told so, and harms itself only; where it is meant to have more, raise max_… of [link] here"
        name = f"budget of {peer['peer'] or peer['host']}"
        yield Check(name, "; ".join(words.format(**row) for row in found), advice, remark=True)


def _turned_away(one: dict[str, Any]) -> Check:
    """Somebody who wanted a link lately, and got none. `one`: a row of TurnedAway."""
    times = "once" if one["count"] == 1 else f"{one['count']} times"
    counts = one.get("causes", {})
    causes = f" ({by_cause(counts)})" if len(counts) > 1 else ""
    last = f"the last time {duration(one['ago_s'])} ago ({one['cause']}): {one['why']}"
    found = f"refused {times}{causes}, {last}"
    advice = "if a peer is there, look at rtmw node doctor there, too; if a stranger is, keep it from the port"
    return Check(f"connections from {one['address']}", found, advice, remark=True)


def _where_to_look(peer: dict[str, Any]) -> str:
    """A peer that has said why it ends the link was reached."""
    from rtmw.net.link.linked import TOLD

    if peer["down_code"] == TOLD:
        return "what the peer says is the reason; see rtmw node doctor there"
    between = "does the node of that user run? See" if peer["user"] else "look at the network between the two, and at"
    return f"{between} rtmw node doctor there"


def _listening(places: Iterable[str]) -> Iterator[Check]:
    """Unix sockets of a node that runs: is each file still there?"""
    for place in places:
        path = unix_path(place) or ""
        if os.path.exists(path) or not os.access(os.path.dirname(path), os.X_OK):
            yield Check("links are accepted at", f"{place}, the kernel says which user connects")
        else:
            advice = (
                f"nobody can connect there any more: start the node again, and do not clean {os.path.dirname(path)}"
            )
            yield Check("links are accepted at", f"{place}, but somebody has removed that file", advice)


def checked(settings: Settings, path: Path, ports: dict[str, int]) -> Iterator[Check]:
    """Yields the checks of links for `rtmw node check`. `ports`: where a node that runs listens."""
    link = settings.link
    if not link.may_link:
        return
    if link.keys:
        yield _openssl(link.openssl, path)
    yield from listening(link, path, "link", ports)
    if link.is_found and all(map(unix_path, link.listen)):
        yield Check("links are accepted at", "a free port at each address that DDS uses, with TLS: other nodes find it")
    if not settings.allow.rules:
        words = 'nobody may have a link: write an [[allow]] with peer = "rtmw://…"'
        yield Check("rules of peers", "none", words) if link.is_used else Check("rules of peers", f"none, so {words}")
    yield from connecting(link, path, "link")


def _how(link: Link) -> str:
    return "with TLS" if link.keys else "without TLS: anybody on the way may read, change and send"


def listening(link: Link, path: Path, table: str, ports: Container[str]) -> Iterator[Check]:
    """Can others connect where this table, [link] or [log], says? `ports`: where a node that runs listens."""
    from rtmw.net.settings import place_of

    for place in link.listen:
        advice = "" if place in ports else why_not(place)
        how = "the kernel says which user connects" if unix_path(place) else _how(link)
        if advice:
            advice = f"{place_of(path, 'listen', table)}: {advice}"
        yield Check(f"{table}s are accepted at", f"{place}, {how}", advice)


def connecting(link: Link, path: Path, table: str) -> Iterator[Check]:
    """Can the hosts be found to which this table says that the node connects?"""
    from rtmw.net.settings import place_of

    said_at, unknown = place_of(path, "connect", table), 0  # once: to find it, the file is read
    for number, place in enumerate(link.connect):
        if unknown >= UNKNOWN_MOST:
            yield not_looked_up(f"further {table}", len(link.connect) - number, said_at)
            return
        if unix_path(place):
            yield Check(f"{table} with {place}", "the kernel says which user listens there")
            continue
        host, port = place_to_reach(place)
        try:
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            unknown += 1
            advice = f"{said_at}: the host {host!r} cannot be found: {error}"
            yield Check(f"{table} with {place}", "not found", advice)
        else:
            yield Check(f"{table} with {place}", _how(link))


def _openssl(library: str, path: Path) -> Check:
    """Can the OpenSSL that the settings name be had?"""
    from rtmw.net.link.library import openssl
    from rtmw.net.settings import place_of

    try:
        return Check(_OPENSSL, openssl(library))
    except RtmwError as error:
        return Check(_OPENSSL, "there is none", f"{place_of(path, 'openssl', 'link')}: {error}")


def why_not(place: str) -> str:
    """Why nothing can listen there; empty: it can."""
    path = unix_path(place)
    if path is not None:
        from rtmw.net.link.places import why_not

        why = why_not(path)
        return f"{place} cannot be had: {why}" if why else ""
    host, port = place_to_listen(place)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, port))
        except OSError as error:
            return f"{place} cannot be had: {error.strerror}"
    return ""
