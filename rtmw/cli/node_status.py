"""`rtmw node list` and `rtmw node info`: what the node of a domain says of itself."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from rtmw.cli.common import CommandError, attach
from rtmw.cli.environment import Check
from rtmw.cli.parsing import runs
from rtmw.cli.terminal import Table, counted, duration, say, show, show_json, size
from rtmw.clock import CLOCK
from rtmw.text.strict_json import JsonError, as_object

if TYPE_CHECKING:
    from rtmw.net.known_nodes import KnownNode
    from rtmw.observe.node_status import Crossing, LinkPeer, Links, NodeStatus, Undelivered


_PATIENCE_S = 1.5
"""The node says how it is once a second."""
NAMED_MOST = 8
"""Topics of this host alone that a sentence names; `--json` has all."""
SILENT_S = 10.0
"""Seconds of silence after which a node is taken for dead; systemd waits as long."""


def add_list(parser: argparse.ArgumentParser) -> None:
    runs(parser, list_nodes)


def add_info(parser: argparse.ArgumentParser) -> None:
    runs(parser, info)


def list_nodes(arguments: argparse.Namespace) -> int:
    """Print the node of the domain, and those it hears."""
    from rtmw.net.known_nodes import nodes_met

    found = node_status(arguments.domain)
    peers = nodes_met(found)
    if arguments.json:
        show_json([{"host": found.host, "pid": found.pid, "domain": found.domain}, *map(as_object, peers)])
        return 0
    own = "this host", found.host, found.pid, found.domain
    rows: list[tuple[Any, ...]] = [(*own, None, None, None, None, None, None)]
    rows += [_known_row(peer) for peer in peers]
    columns = ("", "host", "pid", "domain", "name", "by", "address", "clock ahead ms", "there and back ms", "at most")
    show(Table("Nodes", columns, rows))
    for words in unfound(peers):
        say(words)
    return 0


def _known_row(peer: KnownNode) -> tuple[Any, ...]:
    offset, way = (None if ns is None else ns / 1e6 for ns in (peer.offset_ns, peer.round_trip_ns))
    rate = f"{size(peer.max_rate)}/s" if peer.max_rate else None
    who = ("peer", peer.host, peer.pid, peer.domain, peer.name, peer.by, peer.address or None)
    return (*who, offset, way, rate)


def info(arguments: argparse.Namespace) -> int:
    """Print what crosses, in each direction, and what does not, and why."""
    from rtmw.net.known_nodes import nodes_met
    from rtmw.net.settings import other_pool
    from rtmw.observe.node_status import silence
    from rtmw.text.addresses import metrics_url

    if arguments.json:
        told = _document(arguments.domain)
        show_json(told | {"silent_s": silence(told["told_ns"])})
        return 0
    found = node_status(arguments.domain)
    nodes = nodes_met(found)
    say(
        f"Domain {found.domain} is carried on DDS domain {found.dds_domain} over "
        f"{found.interface or 'one of the interfaces'} ({found.interface_why}); "
        f"{counted(len(nodes), 'other node')}, {counted(found.participants, 'DDS participant')}"
    )
    if found.public_calls_only:
        say(f"Warning: {found.public_calls_only}.")
    if found.pool and found.pool_asked not in (None, found.pool):
        say("Warning: the pool: {}; {}.".format(*other_pool(found.pool, found.pool_asked)))
    if found.metrics_port is not None:
        say(f"Metrics: {metrics_url(found.metrics_address, found.metrics_port)}")
    show(crossing_table("Out", found.out))
    show(crossing_table("In", found.in_))
    for words in without_trailer(found):
        say(words)
    for title, ended in (("Out, before", found.ended.out), ("In, before", found.ended.in_)):
        if ended:
            show(crossing_table(title, ended))
    show(unmatched_table(found))
    for words in here_only(found):
        say(words)
    if found.links:
        show(links_table(found.links))
        for words in (*links_words(found.links), *unfound(nodes)):
            say(words)
    if found.undelivered:
        show(undelivered_table(found.undelivered))
    if any(row.unacknowledged_by for row in found.undelivered):
        say("What was sent and not acknowledged may have come or not: subscribers there count as missed what did not.")
    for check in services(found):
        if check.advice:
            say(f"Warning: {check.name} {check.found}.")
    if found.refusals:
        say(f"Refused, for it cannot be used: {by_cause(found.refusals)}; the log says what the first of each was.")
    if found.silent_s > SILENT_S:
        silent = duration(round(found.silent_s))
        say(f"Warning: the node has said nothing for {silent}: all of this may be out of date.")
    for peer in nodes:
        if peer.warning:
            say(f"Warning: {peer.warning}.")
    return 0


def unfound(nodes: Iterable[KnownNode]) -> Iterator[str]:
    """A sentence on each node with keys that does not look for a link, or for which this one does not."""
    from rtmw.net.known_nodes import NONE_YET

    for one in nodes:
        if one.by == NONE_YET and one.unfound:
            yield f"No link with the node of domain {one.domain} on {one.host}: {one.unfound}."


def crossing_table(title: str, rows: Iterable[Crossing]) -> Table:
    """Topics of one direction with all that is counted of them."""
    named = [{name: _cell(value) for name, value in as_object(row).items()} for row in rows]
    columns = list(dict.fromkeys(name for row in named for name in row)) or ["topic", "type"]
    return Table(title, columns, [tuple(row.get(name) for name in columns) for row in named])


def undelivered_table(rows: Iterable[Undelivered]) -> Table:
    """What nodes that have ended did not deliver, and who may have missed more than they know of."""
    columns = ("topic", "direction", "messages", "unacknowledged_by")
    told = [(row.topic, row.direction, row.number, ", ".join(row.unacknowledged_by) or None) for row in rows]
    return Table("Not delivered by nodes that have ended", columns, told)


def _cell(value: Any) -> Any:
    return ", ".join(cast("list[str]", value)) or None if isinstance(value, list) else value


def without_trailer(found: NodeStatus) -> list[str]:
    """A sentence on the facts that are not known of messages that cross with plain programs, if any do."""
    from rtmw.net.settings import WITH_PLAIN

    topics = sorted({row.topic for row in found.out + found.in_ if row.with_ == WITH_PLAIN})
    if not topics:
        return []
    return [
        f"With plain DDS programs ({', '.join(topics)}) messages travel without what nodes add: no checksum but that "
        "of UDP, no count of what is lost on the way, one priority and one Lifespan for all messages of a writer, and "
        "no identity of the publisher behind it."
    ]


def services(status: NodeStatus) -> Iterator[Check]:
    """Do those that it hosts run, and are they at work? One end may be that of any program; from the second on there
    is an obstacle."""
    for one in status.services:
        name = f"service {one.name}"
        if one.pid is not None and one.silent is not None:
            from rtmw.observe.services import STILL

            found = f"process {one.pid} has stood still for {duration(round(one.silent))}, and nothing is sent or taken"
            yield Check(name, found, f"{STILL}: kill -CONT {one.pid}, or look at that disk")
        elif one.full:
            yield Check(name, f"process {one.pid}, but its disk is full", one.full)
        elif one.failures < 2:
            yield Check(name, "is being started" if one.pid is None else f"process {one.pid}")
        else:
            yield Check(name, one.fault, "mend that; the node starts it again and again, so it goes on by itself")


def unmatched_table(found: NodeStatus) -> Table:
    """Topics that do not cross although somebody elsewhere, or a setting, has to do with them, and why."""
    from rtmw.observe.node_status import NOBODY

    rows: list[tuple[Any, ...]]
    rows = [(one.topic, one.direction, one.reason) for one in found.apart if one.cause != NOBODY]
    rows += [(topic, None, reason) for topic, reason in found.refused.items()]
    return Table("Does not cross", ("topic", "direction", "why"), rows)


def here_only(found: NodeStatus) -> Iterator[str]:
    """Topics that programs of this host use, and nobody of whom the node knows, in a sentence a direction, so that they
    hide no topic that is kept from crossing. What a refused node, or one that rules deny, uses is not known here."""
    from rtmw.observe.node_status import NOBODY

    elsewhere = {(member.topic, "in" if member.publishes else "out") for member in found.elsewhere}
    kept = {(row.topic, row.direction) for row in found.apart if row.cause != NOBODY}
    for way, what in (("out", "published here and read"), ("in", "read here and published")):
        alone = {row.topic for row in found.apart if (row.cause, row.direction) == (NOBODY, way)}
        names = sorted(name for name in alone if (name, way) not in elsewhere | kept)
        if names:
            more = f" and {len(names) - NAMED_MOST} more" if len(names) > NAMED_MOST else ""
            whom = f"{counted(len(names), 'topic')} {what} by nobody of whom this node knows"
            yield f"{whom}: {', '.join(names[:NAMED_MOST])}{more}."


def node_status(number: int) -> NodeStatus:
    """The status of the node of a domain. Raises CommandError when there is none, and JsonError."""
    from rtmw.observe.node_status import NodeStatus

    return NodeStatus.of(_document(number))


def _document(number: int) -> dict[str, Any]:
    """What the node of a domain has told, word for word: also members that a newer node has and this version does not
    know."""
    told = _find_document(number, _PATIENCE_S)
    if told is None:
        raise CommandError(f"No node runs for domain {number}; start one with: rtmw node --domain {number}")
    return told


def find_status(number: int, patience: float = _PATIENCE_S) -> NodeStatus | None:
    """Returns the status of the node of a domain; None: there is no node. `patience`: seconds to wait for its first
    word. Raises JsonError where what it says cannot be read."""
    told = _find_document(number, patience)
    if told is None:
        return None
    from rtmw.observe.node_status import NodeStatus

    return NodeStatus.of(told)


def _find_document(number: int, patience: float) -> dict[str, Any] | None:
    from rtmw.net.settings import STATUS_TOPIC
    from rtmw.observe.node_status import told_by
    from rtmw.subscriber import Subscriber

    end = CLOCK.monotonic() + patience
    with attach(number) as domain, Subscriber(STATUS_TOPIC, history=1, domain=domain) as subscriber:
        told = None
        while told is None:
            try:
                sample = subscriber.receive(timeout=max(0.0, end - CLOCK.monotonic()))
            except TimeoutError:
                return None
            with suppress(JsonError):  # of another program
                told = told_by(bytes(sample.data), sample._pid)
    return told if os.path.exists(f"/proc/{told['pid']}") else None


# ---- links ----


def links_table(links: Links) -> Table:
    """Peers that the node has, or had within the lease, a link with."""
    columns = (
        "peer", "host", "address", "state", "cipher", "certificate left", "there and back",
        "not acknowledged", "out", "in",
    )  # fmt: skip
    return Table("Links", columns, [_row(peer) for peer in links.peers])


def _row(peer: LinkPeer) -> tuple[Any, ...]:
    left = None if peer.expires is None else duration(max(peer.expires - CLOCK.wall(), 0.0))
    way = None if peer.round_trip_ns is None else duration(peer.round_trip_ns / 1e9)
    waiting = size(peer.unacknowledged_bytes)  # those that the kernel has not sent are among them
    return (
        peer.peer, peer.host, peer.address, "up" if peer.up else cut_words(peer), cipher_of(peer, "none"), left, way,
        waiting, peer.routes_out, peer.routes_in,
    )  # fmt: skip


def cut_words(peer: LinkPeer) -> str:
    """For how long the link has been cut, and why."""
    return f"cut for {duration(peer.down_s)}: {peer.why_down or 'not up yet'}"


def cipher_of(peer: LinkPeer, without: str) -> str:
    return peer.cipher or ("within this host" if peer.user else without)


def _twin_words(peer: LinkPeer) -> Iterator[str]:
    """Yields a sentence on the second connection for copies of urgent messages, for a link that has or had one, or
    could not have it."""
    if not peer.twins and not peer.why_no_twin:
        return
    state = "is up" if peer.twin else f"is not there: {peer.why_no_twin or 'it has ended'}"
    yield (
        f"The twin of the link with {peer.peer or peer.host} {state}; {peer.copies} copies sent, "
        f"{peer.copies_left_out} left out; of those of the peer {peer.copies_first} came before their message, "
        f"{peer.copies_passed_over} after it."
    )


def links_words(links: Links) -> Iterator[str]:
    """The sentences about failing links, refused connections and denials."""
    for place, why in {**links.failing, **links.failing_found}.items():
        yield f"No link with {place}: {why}."
    for peer in links.peers:
        yield from _twin_words(peer)
    if links.refused:
        yield f"Connections that came to no link: {by_cause(links.refused)}."
    for one in links.denials:
        yield (
            f"Denied {counted(one.number, 'time')}: {one.peer or 'a peer without a certificate'} may not "
            f"{one.verb} {one.subject} ({one.cause}{', ' + one.rule if one.rule else ''})."
        )


def by_cause(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{cause} {count}" for cause, count in sorted(counts.items()))
