"""`rtmw node doctor`: is there anything in the way between this host and the others?"""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rtmw.cli.common import look_at
from rtmw.cli.environment import CHECK_COLUMNS, UNKNOWN_MOST, Check, add_strict, not_looked_up, status_of, verdict
from rtmw.cli.node_status import NAMED_MOST, SILENT_S, by_cause, cipher_of, cut_words, find_status, services
from rtmw.cli.parsing import add_place, runs
from rtmw.cli.terminal import Table, counted, duration, say, show, show_json, size
from rtmw.clock import CLOCK
from rtmw.errors import DomainNotFound, RtmwError
from rtmw.net.settings import other_pool
from rtmw.observe.services import LogsActivity, logs
from rtmw.text.addresses import place_to_listen, place_to_reach, unix_path
from rtmw.text.strict_json import JsonError

if TYPE_CHECKING:
    from rtmw.net.known_nodes import KnownNode
    from rtmw.net.security.tables import Link
    from rtmw.net.settings import Settings
    from rtmw.observe.node_status import (
        Hearing,
        Keys,
        LinkPeer,
        Links,
        NodeStatus,
        Patterns,
        Standstill,
        TurnedAwayAddress,
        Undelivered,
    )


INTERFACES = Path("/sys/class/net")
RECEIVE_LIMIT = Path("/proc/sys/net/core/rmem_max")
GIVEN_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The ports that the kernel gives to programs that ask for any port; RESERVED_PORTS are excepted."""
RESERVED_PORTS = Path("/proc/sys/net/ipv4/ip_local_reserved_ports")
ENOUGH_BYTES = 4 << 20
"""Bytes of a receive buffer that suffice: a fragmented megabyte, and what comes while it is read."""
LOOPBACK = "lo"
QUIET_S = 2.5
"""Nodes are to be heard once a second."""
DEAF_S = 5.0
"""A node tells each second whom it hears; of one that has just come, it takes two to know."""
RECENT_S = 3600.0
"""Seconds for which it is told that something has stood still."""
UP, MULTICAST = 0x1, 0x1000
"""Flags of a network interface (netdevice(7))."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, doctor)
    add_strict(parser)
    add_place(parser, "look at the replicated logs of the node there, [log] listen, not at a domain")


def doctor(arguments: argparse.Namespace) -> int:
    """Print the examination, and how many faults and remarks it has; the status is that of `status_of`."""
    place = ",".join(arguments.node or ())
    of: dict[str, Any] = {"node": place} if place else {"domain": arguments.domain}
    if place:
        from rtmw.cli.log_replica import ask_place

        found = [*replicated(ask_place(arguments, ask="logs"))]
    else:
        found = [*_of_domain(arguments.domain)]
    told = verdict(found)
    if arguments.json:
        show_json({**of, "well": not told["faults"], **told, "checks": found})
    else:
        title = f"The node of domain {arguments.domain}" if not place else f"The node at {place}"
        show(Table(title, CHECK_COLUMNS, [check.row() for check in found]))
        say(f"{counted(told['faults'], 'fault')}, {counted(told['remarks'], 'remark')}.")
    return status_of(told, arguments.strict)


def _of_domain(number: int) -> Iterator[Check]:
    try:
        status, said = _status(number)
    except JsonError as error:
        yield unreadable(error)
        yield receive_buffer()
    else:
        yield from checks(number, status, said)


def unreadable(error: Exception) -> Check:
    """Stands for all that the node would tell."""
    return Check("node", str(error), "another version of rtmw may say so: start it with this one")


def _status(number: int) -> tuple[NodeStatus | None, LogsActivity | None]:
    """What the node and its service of logs say. Raises JsonError."""
    try:
        with look_at(number) as domain:
            return find_status(number), logs(domain)
    except DomainNotFound:
        return None, None


def replicated(told: Mapping[str, Any]) -> Iterator[Check]:
    """What is at risk of the replicated logs of a node. `told`: as of LogsActivity."""
    for name, why in told["troubles"].items():
        yield Check(f"log {name}", f"is not served: {why}", "mend that, and start the node again")
    for row in told["logs"]:
        own = f"{row['role']} of epoch {row['epoch']}, {len(row['in_sync'])} of {len(row['members'])} in sync"
        yield Check(f"log {row['name']}", own)
        for words, advice, is_remark in row["own"] + row["risks"]:
            yield Check(f"log {row['name']}", words, advice, is_remark)


def checks(number: int, status: NodeStatus | None, said: LogsActivity | None = None) -> Iterator[Check]:
    """All checks of what the node says of itself, and its logs; None: there is no node."""
    from rtmw.net.known_nodes import nodes_met

    if status is None:
        yield Check("node", "none runs", f"start one: rtmw node --domain {number}")
        yield receive_buffer()
        return
    yield node(status)
    if status.cut_off:
        advice = "give the interface an address, or let the name be found; the node goes on by itself"
        yield Check("network", status.cut_off, advice)
    if status.public_calls_only:
        advice = "until that is installed, topics cross at a lower rate"
        yield Check("DDS library", status.public_calls_only, advice, remark=True)
    for name in (status.interface or "").split(", "):
        yield interface(name, status.interface_why, status.multicast)
    yield from datagrams(status)
    yield from pool(status)
    yield receive_buffer()
    yield ports(status.dds_domain)
    if status.patterns:
        yield from ways(status.patterns, status.interface)
    if status.keys:
        yield keys(status.keys)
    yield from services(status)
    if said is not None:
        yield from replicated(said.told)
    yield peers(status)
    if status.links:
        yield from examined(status.links)
    for one in status.hearing:
        yield hearing(one, status.dds_domain)
    for peer in nodes_met(status):
        yield from way(peer)
        yield clock(peer)
    if status.standstills:
        yield from standstills(status.standstills.rows)
    yield from undelivered(status.undelivered)
    if status.refusals:
        yield Check("samples refused", f"{by_cause(status.refusals)}; the log says what the first of each was")
    yield from topics(status)


def node(status: NodeStatus) -> Check:
    """Does it say how it is?"""
    if is_stopped(status.pid):
        found = f"process {status.pid} is stopped, and carries nothing"
        return Check("node", found, f"what follows is out of date; continue it: kill -CONT {status.pid}")
    if status.silent_s <= SILENT_S:
        return Check("node", f"process {status.pid}, DDS domain {status.dds_domain}")
    found = f"process {status.pid} has said nothing for {duration(round(status.silent_s))}"
    return Check("node", found, "what follows may be out of date; continue it if it was stopped, or start it again")


def pool(status: NodeStatus) -> Iterator[Check]:
    """Is it as large as the settings ask for? Where they ask for none, any is right."""
    has, asked = status.pool, status.pool_asked
    if has is not None and asked is not None:
        yield Check("pool", size(has)) if has == asked else Check("pool", *other_pool(has, asked))


def ways(patterns: Patterns, interface: str | None) -> Iterator[Check]:
    """Yields by which way topics may cross, and to whom. `interface`: None where it is not known."""
    named = ", ".join(patterns.dds)
    by_link = f"all but {named}" if named else "all"
    yield Check("topics by link only", "none" if "*" in patterns.dds else by_link)
    yield Check("topics by DDS, in clear", _within(patterns.dds, ("*",)))
    everybody = "every program of this host" if interface == LOOPBACK else f"everybody on {interface or 'the network'}"
    read, published = (_within(patterns.dds, allowed) for allowed in (patterns.out, patterns.in_))
    yield Check(f"topics open to {everybody}", f"to read: {read}; to publish: {published}")


def _within(patterns: tuple[str, ...], others: tuple[str, ...]) -> str:
    """Topics that fit one of both, in words."""
    if not patterns or not others:
        return "none"
    narrow = [", ".join(one) for one in (patterns, others) if "*" not in one]
    return " within ".join(narrow) or "all"


def keys(own: Keys) -> Check:
    """Can they be used, and for long enough?"""
    if own.expires is None:
        return Check("keys", "cannot be used", own.warning or "")
    now = CLOCK.wall()
    found = f"{own.name}, serial {own.serial}, expire in {duration(max(own.expires - now, 0.0))}"
    advice = f"{own.warning}: rtmw node keys renew" if own.warning else ""
    return Check("keys", found, advice, remark=own.expires > now)


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by SIGSTOP, a terminal or a debugger."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP))
    except psutil.Error:
        return False


def interface(name: str, why: str, multicast: bool, folder: Path = INTERFACES) -> Check:
    """Is it up, and can it multicast, where that is used? `name`: empty, where it is not known."""
    if not name:
        return Check("interface", why)
    try:
        flags = int((folder / name / "flags").read_text(), 16)
    except (OSError, ValueError):
        return Check("interface", f"{name} is gone", "bring it back, or start the node with another --interface")
    if not flags & UP:
        return Check("interface", f"{name} is down", f"ip link set {name} up")
    if multicast and name != LOOPBACK and not flags & MULTICAST:
        advice = f"ip link set {name} multicast on, or name the other hosts with --peers"
        return Check("interface", f"{name} has no multicast", advice)
    return Check("interface", f"{name}: {why}")


def datagrams(status: NodeStatus, folder: Path = INTERFACES) -> Iterator[Check]:
    """Do those of DDS leave in one frame each? Not if the MTU of an interface was made smaller after the node began."""
    from rtmw.net.dds.network import datagram_size

    if status.datagram == 0:  # an older node, or one that has not joined
        return
    if status.datagram is None:
        yield Check("datagrams", "as large as CYCLONEDDS_URI says")
        return
    advice = ""
    for name in (status.interface or "").split(", "):
        with suppress(OSError, ValueError):  # in a network namespace of the node's own
            mtu = int((folder / name / "mtu").read_text())
            if datagram_size([mtu], is_ipv6=False) < status.datagram:
                advice = f"the MTU of {name} is {mtu} now, so IP divides them: start the node again"
    yield Check("datagrams", f"{status.datagram:,} bytes at most", advice, remark=True)


def receive_buffer(limit: Path = RECEIVE_LIMIT) -> Check:
    """How much may wait in the kernel? The datagrams of a large message come at once."""
    try:
        most = int(limit.read_text())
    except (OSError, ValueError):
        return Check("receive buffer", "the kernel does not say")  # as in network namespaces
    if most >= ENOUGH_BYTES:
        return Check("receive buffer", f"up to {size(most)}")
    advice = "large messages lose fragments and are sent again; sysctl -w net.core.rmem_max=16777216"
    return Check("receive buffer", f"up to {size(most)}", advice, remark=True)


def ports(dds_domain: int, given: Path = GIVEN_PORTS, reserved: Path = RESERVED_PORTS) -> Check:
    """May other programs be given the UDP ports of this DDS domain?"""
    from rtmw.net.dds.wire import udp_ports

    name, own = "UDP ports", udp_ports(dds_domain)
    if not own:
        return Check(name, f"there are none of DDS domain {dds_domain}", "that is no DDS domain: start the node again")
    found = f"{own[0]} to {own[-1]}, of DDS domain {dds_domain}"
    try:
        first, last = map(int, given.read_text().split())
        kept = [_span(text) for text in reserved.read_text().strip().split(",") if text]
    except (OSError, ValueError):
        return Check(name, found)
    if not first <= own[0] <= last or any(own[0] in span and own[-1] in span for span in kept):  # those used first
        return Check(name, found)
    advice = (
        f"the kernel gives {first} to {last} to any program, so a node may find them taken when it starts; use another "
        f"--dds-domain, or sysctl -w net.ipv4.ip_local_reserved_ports={own[0]}-{own[-1]}"
    )
    return Check(name, found, advice, remark=True)


def _span(text: str) -> range:
    """`7` or `7-9`."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def peers(status: NodeStatus) -> Check:
    """Is anybody there?"""
    from rtmw.net.known_nodes import nodes_met

    nodes, others = len(nodes_met(status)), status.participants - len(status.peers)
    found = f"{counted(nodes, 'node')}, {counted(max(others, 0), 'other DDS participant')}"
    if status.participants or status.links:
        return Check("peers", found)
    if status.interface == LOOPBACK and status.multicast:
        advice = "loopback reaches this host only; start the node with --interface or --peers"
    else:
        advice = f"start a node there, on DDS domain {status.dds_domain}; name it with --peers if multicast is blocked"
    return Check("peers", found, advice, remark=True)


def hearing(one: Hearing, dds_domain: int) -> Check:
    """Do we hear it, and does it hear us?"""
    from rtmw.net.dds.wire import udp_ports

    ports = udp_ports(dds_domain)
    open_ports = f"UDP ports {ports[0]} to {ports[-1]}" if ports else "UDP ports"
    if one.silent_s is None:
        advice = f"start a node there, on DDS domain {dds_domain}; let {open_ports} through, both ways"
        return Check(f"peer {one.host}", "no node and no DDS program is heard there", advice)
    name = f"node on {one.host}, domain {one.domain}"
    if one.silent_s > QUIET_S:
        advice = "it stands still or was killed, or nothing arrives from there: run rtmw node doctor there, too"
        return Check(name, f"nothing heard for {duration(round(one.silent_s))}", advice)
    if one.deaf_s is not None and one.deaf_s > DEAF_S:
        advice = f"from here to there nothing arrives: look for what drops {open_ports} on the way, and at the route"
        return Check(name, f"heard, but it has heard nothing from here for {duration(round(one.deaf_s))}", advice)
    return Check(name, "heard, and hears this node")


def way(peer: KnownNode) -> Iterator[Check]:
    """Does nothing cross, or in clear, because one of the two has no keys? Is a link missing?"""
    from rtmw.net.known_nodes import NONE_YET

    name = f"topics of {peer.host}, domain {peer.domain}"
    if peer.why:
        yield Check(name, f"{peer.by}: {peer.why}", peer.advice, remark=True)
    elif peer.by == NONE_YET:
        why = f"; {peer.unfound}" if peer.unfound else ""
        advice = "rtmw node info says why tries failed; both need rules for each other, and to find or connect"
        yield Check(name, f"both have keys, and there is no link: nothing crosses{why}", advice, remark=True)


def clock(peer: KnownNode) -> Check:
    """Do its clock and ours agree well enough?"""
    name = f"clock of {peer.host}, domain {peer.domain}"
    if peer.offset_ns is None or peer.round_trip_ns is None:
        return Check(name, "not measured yet")
    found = f"{peer.offset_ns / 1e6:+.3g} ms, there and back {peer.round_trip_ns / 1e6:.3g} ms"
    return Check(name, found, peer.warning or "", remark=True)


def standstills(rows: Iterable[Standstill]) -> Iterator[Check]:
    """What has stood still lately, and was made anew."""
    for row in rows:
        ago = CLOCK.monotonic() - row.at
        if ago > RECENT_S:
            continue
        times = "once" if row.times == 1 else f"{row.times} times"
        way = "to" if row.direction == "out" else "from"
        missing = f"; {counted(row.missing, 'message')} had not come" if row.missing else ""
        found = f"stood still {times} {way} {row.peer}, and was made anew {duration(ago)} ago{missing}"
        advice = (
            "somebody may send datagrams in the name of nodes: look at who reaches these UDP ports; links with keys "
            "(rtmw node keys) cannot be forged"
        )
        yield Check(row.topic, found, advice, remark=True)


def undelivered(rows: Iterable[Undelivered]) -> Iterator[Check]:
    """What nodes that ended lately did not deliver."""
    recent = [row for row in rows if CLOCK.monotonic() - row.at <= RECENT_S]
    if not recent:
        return
    ago = duration(max(1, round(CLOCK.monotonic() - max(row.at for row in recent))))
    named = ", ".join(f"{row.topic} ({row.direction}, {row.number})" for row in recent[-NAMED_MOST:])
    more = f" and {counted(len(recent) - NAMED_MOST, 'topic')} more" if len(recent) > NAMED_MOST else ""
    found = f"have not delivered all messages, the last one {ago} ago: {named}{more}"
    advice = (
        "subscribers count what they missed (rtmw doctor); end a node while those that it sends to are at work, for "
        "within 3 s they have to acknowledge what it has sent"
    )
    yield Check("nodes that ended", found, advice, remark=True)


def topics(status: NodeStatus) -> Iterator[Check]:
    """Yields the topics whose two sides do not fit. That nobody else uses a topic, or that a pattern keeps it here,
    is no fault."""
    for one in status.apart:
        if one.cause in ("type", "qos"):
            way = "published here" if one.direction == "out" else "wanted here"
            yield Check(one.topic, way, one.reason)
    for topic, reason in status.refused.items():
        yield Check(topic, "refused", reason)


# ---- links, also for `rtmw node check` ----

_OPENSSL: Final = "OpenSSL of links"


def examined(links: Links) -> Iterator[Check]:
    """Yields the checks of links for the doctor."""
    for place, why in links.failing.items():
        yield Check(f"link with {place}", "there is none", f"{why}; the node tries it again and again")
    for place, why in links.failing_found.items():
        advice = "a node there is announced over DDS, maybe by a stranger; it is tried again, more and more seldom"
        yield Check(f"link with {place}", f"there is none: {why}", advice, remark=True)
    if links.openssl:
        yield Check(_OPENSSL, links.openssl)
    yield from _listening(filter(unix_path, links.ports))
    if links.refused:
        yield Check("connections refused", by_cause(links.refused))
    yield from map(_turned_away, links.turned_away)
    for peer in links.peers:
        name = f"link with {peer.peer or peer.host}"
        if peer.up:
            cipher = cipher_of(peer, "no TLS: anybody on the way may read and change it")
            yield Check(name, f"up, {cipher}, {counted(peer.routes_out, 'topic')} out, {peer.routes_in} in")
            if peer.denied:
                yield _denied(peer)
            yield from _beyond(peer)
        else:
            yield Check(name, cut_words(peer), _where_to_look(peer))


def _denied(peer: LinkPeer) -> Check:
    """Topics that do not cross by rules of the peer. That may be meant so: it is no fault by itself."""
    uses = {"publish": "published here", "subscribe": "wanted here"}
    counts = ", ".join(f"{row.topics} {uses.get(row.verb, row.verb)} ({row.cause})" for row in peer.denied)
    return Check(f"topics that {peer.peer or peer.host} denies", f"{counts}; rtmw node info names them")


def _beyond(peer: LinkPeer) -> Iterator[Check]:
    """A peer that asks for more of this host than it may take."""
    found = [
        f"{use.what}: {use.taken} of {use.most} taken, {use.refused} more refused" for use in peer.budget if use.refused
    ]
    if found:
        advice = "it was told so, and harms itself only; where it is meant to have more, raise max_… of [link] here"
        yield Check(f"budget of {peer.peer or peer.host}", "; ".join(found), advice, remark=True)


def _turned_away(one: TurnedAwayAddress) -> Check:
    """Somebody who wanted a link lately, and got none."""
    times = "once" if one.count == 1 else f"{one.count} times"
    causes = f" ({by_cause(one.causes)})" if len(one.causes) > 1 else ""
    last = f"the last time {duration(one.ago_s)} ago ({one.cause}): {one.why}"
    found = f"refused {times}{causes}, {last}"
    advice = "if a peer is there, look at rtmw node doctor there, too; if a stranger is, keep it from the port"
    return Check(f"connections from {one.address}", found, advice, remark=True)


def _where_to_look(peer: LinkPeer) -> str:
    """A peer that has said why it ends the link was reached."""
    from rtmw.net.link.linked import TOLD

    if peer.down_code == TOLD:
        return "what the peer says is the reason; see rtmw node doctor there"
    between = "does the node of that user run? See" if peer.user else "look at the network between the two, and at"
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


def checked(settings: Settings, path: Path, ports: Container[str]) -> Iterator[Check]:
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
