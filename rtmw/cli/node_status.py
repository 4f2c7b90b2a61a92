"""`rtmw node list` and `rtmw node info`: what the node of a domain says of itself."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtmw.cli.common import CommandError, attach
from rtmw.cli.environment import Check
from rtmw.cli.parsing import runs
from rtmw.cli.terminal import Table, counted, duration, say, show, show_json, size
from rtmw.clock import CLOCK
from rtmw.observe.services import STILL, service_fault

if TYPE_CHECKING:
    from rtmw.domain import Domain


_PATIENCE_S = 1.5
"""The node says how it is once a second."""
_NOBODY = "nobody"
"""The cause of a topic that nobody elsewhere uses (find_mismatches)."""
NAMED_MOST = 8
"""Topics of this host alone that a sentence names; `--json` has all."""
MOST_BYTES = 1 << 20
"""Bytes of a status, at most."""
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
        show_json([{name: found[name] for name in ("host", "pid", "domain")}, *peers])
        return 0
    own = ("this host", found["host"], found["pid"], found["domain"])
    rows: list[tuple[Any, ...]] = [(*own, None, None, None, None, None, None)]
    for peer in peers:
        offset, way = (None if peer[name] is None else peer[name] / 1e6 for name in ("offset_ns", "round_trip_ns"))
        rate = f"{size(peer['max_rate'])}/s" if peer.get("max_rate") else None
        who = ("peer", peer["host"], peer["pid"], peer["domain"], peer["name"], peer["by"], peer["address"] or None)
        rows.append((*who, offset, way, rate))
    columns = ("", "host", "pid", "domain", "name", "by", "address", "clock ahead ms", "there and back ms", "at most")
    show(Table("Nodes", columns, rows))
    for words in unfound(peers):
        say(words)
    return 0


def info(arguments: argparse.Namespace) -> int:
    """Print what crosses, in each direction, and what does not, and why."""
    from rtmw.net.known_nodes import nodes_met
    from rtmw.net.settings import other_pool
    from rtmw.text.addresses import metrics_url

    found = node_status(arguments.domain)
    if arguments.json:
        show_json(found)
        return 0
    nodes = nodes_met(found)
    say(
        f"Domain {found['domain']} is carried on DDS domain {found['dds_domain']} over "
        f"{found['interface'] or 'one of the interfaces'} ({found['interface_why']}); "
        f"{counted(len(nodes), 'other node')}, {counted(found['participants'], 'DDS participant')}"
    )
    if found.get("public_calls_only"):
        say(f"Warning: {found['public_calls_only']}.")
    if found.get("pool_asked") not in (None, found.get("pool")):
        say("Warning: the pool: {}; {}.".format(*other_pool(found["pool"], found["pool_asked"])))
    if found["metrics_port"] is not None:
        say(f"Metrics: {metrics_url(found['metrics_address'], found['metrics_port'])}")
    show(crossing_table("Out", found["out"]))
    show(crossing_table("In", found["in"]))
    for words in without_trailer(found):
        say(words)
    for title, way in (("Out, before", "out"), ("In, before", "in")):
        if found["ended"][way]:
            show(crossing_table(title, found["ended"][way]))
    show(unmatched_table(found))
    for words in here_only(found):
        say(words)
    if found.get("links"):
        show(links_table(found["links"]))
        for words in (*links_words(found["links"]), *unfound(nodes)):
            say(words)
    if found.get("undelivered"):
        show(crossing_table("Not delivered by nodes that have ended", found["undelivered"]))
    for check in services(found):
        if check.advice:
            say(f"Warning: {check.name} {check.found}.")
    if found["refusals"]:
        say(f"Refused, for it cannot be used: {by_cause(found['refusals'])}; the log says what the first of each was.")
    if found["silent_s"] > SILENT_S:
        silent = duration(round(found["silent_s"]))
        say(f"Warning: the node has said nothing for {silent}: all of this may be out of date.")
    for peer in nodes:
        if peer["warning"]:
            say(f"Warning: {peer['warning']}.")
    return 0


def unfound(nodes: list[dict[str, Any]]) -> Iterator[str]:
    """A sentence on each node with keys that does not look for a link, or for which this one does not."""
    from rtmw.net.known_nodes import NONE_YET

    for one in nodes:
        if one["by"] == NONE_YET and one.get("unfound"):
            yield f"No link with the node of domain {one['domain']} on {one['host']}: {one['unfound']}."


def crossing_table(title: str, rows: list[dict[str, Any]]) -> Table:
    """Topics of one direction with all that is counted of them."""
    columns = list(dict.fromkeys(name for row in rows for name in row)) or ["topic", "type"]
    return Table(title, columns, [tuple(row.get(name) for name in columns) for row in rows])


def without_trailer(found: dict[str, Any]) -> list[str]:
    """A sentence on the facts that are not known of messages that cross with plain programs, if any do."""
    from rtmw.net.settings import WITH_PLAIN

    topics = sorted({row["topic"] for row in found["out"] + found["in"] if row["with"] == WITH_PLAIN})
    if not topics:
        return []
    return [
        f"With plain DDS programs ({', '.join(topics)}) messages travel without what nodes add: no checksum but that "
        "of UDP, no count of what is lost on the way, one priority and one Lifespan for all messages of a writer, and "
        "no identity of the publisher behind it."
    ]


def services(status: dict[str, Any]) -> Iterator[Check]:
    """Do those that it hosts run, and are they at work? One end may be that of any program; from the second on there
    is an obstacle."""
    for one in status.get("services", []):
        name, pid = f"service {one['name']}", one["pid"]
        if pid is not None and one.get("silent") is not None:
            found = f"process {pid} has stood still for {duration(round(one['silent']))}, and nothing is sent or taken"
            yield Check(name, found, f"{STILL}: kill -CONT {pid}, or look at that disk")
            continue
        if one.get("full"):
            yield Check(name, f"process {pid}, but its disk is full", one["full"])
            continue
        if one["failures"] < 2:
            yield Check(name, "is being started" if pid is None else f"process {pid}")
            continue
        yield Check(name, service_fault(one), "mend that; the node starts it again and again, so it goes on by itself")


def unmatched_table(found: dict[str, Any]) -> Table:
    """Topics that do not cross although somebody elsewhere, or a setting, has to do with them, and why."""
    rows = [(one["topic"], one["direction"], one["reason"]) for one in found["apart"] if one["cause"] != _NOBODY]
    rows += [(topic, None, reason) for topic, reason in found["refused"].items()]
    return Table("Does not cross", ("topic", "direction", "why"), rows)


def here_only(found: dict[str, Any]) -> Iterator[str]:
    """Topics that programs of this host use, and nobody of whom the node knows, in a sentence a direction, so that they
    hide no topic that is kept from crossing. What a refused node, or one that rules deny, uses is not known here."""
    elsewhere = {(row["topic"], "in" if row["publishes"] else "out") for row in found.get("elsewhere", ())}
    kept = {(row["topic"], row["direction"]) for row in found["apart"] if row["cause"] != _NOBODY}
    for way, what in (("out", "published here and read"), ("in", "read here and published")):
        alone = {row["topic"] for row in found["apart"] if (row["cause"], row["direction"]) == (_NOBODY, way)}
        names = sorted(name for name in alone if (name, way) not in elsewhere | kept)
        if names:
            more = f" and {len(names) - NAMED_MOST} more" if len(names) > NAMED_MOST else ""
            whom = f"{counted(len(names), 'topic')} {what} by nobody of whom this node knows"
            yield f"{whom}: {', '.join(names[:NAMED_MOST])}{more}."


def node_status(number: int) -> dict[str, Any]:
    """The status of the node of a domain; CommandError when there is none."""
    status = find_status(number)
    if status is None:
        raise CommandError(f"No node runs for domain {number}; start one with: rtmw node --domain {number}")
    return status


def find_status(number: int, patience: float = _PATIENCE_S) -> dict[str, Any] | None:
    """Returns the status of the node of a domain; None: there is no node. `patience`: seconds to wait for its first
    word.

    `silent_s` is added: for how long it has said nothing, which it does once a second, with the time of a clock that
    nobody sets.
    """
    from rtmw.net.settings import STATUS_TOPIC
    from rtmw.subscriber import Subscriber

    end = CLOCK.monotonic() + patience
    with attach(number) as domain, Subscriber(STATUS_TOPIC, history=1, domain=domain) as subscriber:
        status = None
        while status is None:
            try:
                sample = subscriber.receive(timeout=max(0.0, end - CLOCK.monotonic()))
                status = _status_in(bytes(sample.data), sample._pid)
            except TimeoutError:
                return None
        status["silent_s"] = max(0.0, (CLOCK.monotonic_ns() - status["told_ns"]) / 1e9)
    return status if Path(f"/proc/{status['pid']}").exists() else None


def status_seen(domain: Domain) -> dict[str, Any] | None:
    """Returns the status of the node of a domain that is only observed; None: there is no node, or it has said
    nothing yet."""
    from rtmw import observe
    from rtmw.net.settings import STATUS_TOPIC

    for message in reversed(observe.queue(domain, STATUS_TOPIC, MOST_BYTES)):
        status = _status_in(message.preview, message.publisher)
        if status is not None and Path(f"/proc/{status['pid']}").exists():
            return status | {"silent_s": max(0.0, (CLOCK.monotonic_ns() - status["told_ns"]) / 1e9)}
    return None


def _status_in(data: bytes, pid: int) -> dict[str, Any] | None:
    """What a node has said of itself; None: the message is of another program."""
    try:
        status: dict[str, Any] = json.loads(data)
        return status if status["pid"] == pid and status["told_ns"] >= 0 else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


# ---- links ----


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
