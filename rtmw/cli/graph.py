"""`rtmw graph`: who talks to whom, as text, for graphviz, or as a picture."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rtmw import observe
from rtmw.cli.common import CommandError, attach, look_at
from rtmw.cli.node_status import find_status
from rtmw.cli.parsing import runs
from rtmw.cli.terminal import counted, say, show_json, warn
from rtmw.errors import LimitReached, RtmwError
from rtmw.observe import Edge, Graph, Process, TopicView
from rtmw.observe.picture import picture
from rtmw.observe.views import NODE_TOPIC
from rtmw.qos import Reliability
from rtmw.text.strict_json import JsonError
from rtmw.text.visible import visible

if TYPE_CHECKING:
    from rtmw.observe.node_status import Member, NodeStatus


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, graph)
    parser.add_argument("--dot", action="store_true", help="print it for graphviz")
    parser.add_argument("--svg", metavar="FILE", help="write it as a picture")


def graph(arguments: argparse.Namespace) -> int:
    """Print the graph, or write its picture to a file."""
    with look_at(arguments.domain) as domain:
        views, core = observe.topics(domain), observe.transfers(domain)
    transfers = transfer_edges(_members(arguments.domain), views) if core is not None else []
    all_hosts = _of_all_hosts(arguments.domain, views, transfers)
    found = observe.graph(views, transfers) if all_hosts is None else all_hosts
    title = f"Domain {arguments.domain}"
    if arguments.svg:
        _write(arguments.svg, picture(found, title))
        if not arguments.json:
            say(f"Wrote {arguments.svg}.")
    if arguments.json:
        show_json([record(edge) for edge in found.edges])
    elif arguments.dot:
        say(*dot(found, title))
    elif not arguments.svg:
        say(*lines(found, title))
    return 0


def _of_all_hosts(number: int, views: list[TopicView], transfers: Sequence[Edge]) -> Graph | None:
    """None: there is no node, or what it says cannot be shown, which is said."""
    if not any(view.name == NODE_TOPIC and view.publishers for view in views):
        return None
    try:
        status = find_status(number)
        if status is None:
            return None
        found = across(views, status, transfers)
    except LimitReached as error:
        warn(f"Other hosts are not shown, for what the node says needs a place in the domain: {error}")
        return None
    except JsonError as error:
        warn(f"Other hosts are not shown: {error}")
        return None
    if status.elsewhere_untold:
        warn(f"{status.elsewhere_untold} further endpoints on other hosts are not shown")
    return found


def _members(number: int) -> list[dict[str, Any]]:
    """Senders and inboxes, as the core of transfers knows them."""
    from rtmw.transfer.client.viewer import Viewer

    try:
        with attach(number) as domain, Viewer(domain) as viewer:
            members: list[dict[str, Any]] = viewer.show("members")
    except (RtmwError, TimeoutError) as error:
        warn(f"Transfers are not shown: {error}")
        return []
    return [member for member in members if member["pid"] != os.getpid()]


def transfer_edges(members: Sequence[dict[str, Any]], views: Sequence[TopicView]) -> list[Edge]:
    """A service stands between its senders and its inboxes as a topic does."""
    programs = {one.pid: one.process for view in views for one in view.publishers}
    edges: list[Edge] = []
    for member in members:
        pid: int = member["pid"]
        process = Process(pid, programs.get(pid) or str(member["name"]))
        is_sender = member["role"] == "sender"
        for written in member["to"] if is_sender else [member["name"]]:
            receiver, at, node = written.partition("@")
            name = f"transfers to {receiver.partition('/')[0]}{at}{node}"
            edges.append(Edge(process, name, is_sender, Reliability.RELIABLE, "transfer"))
    return edges


def across(views: list[TopicView], status: NodeStatus, transfers: Sequence[Edge] = ()) -> Graph:
    """The graph of all hosts, by what the node says of itself; in place of the node, those for whom it stands. Raises
    JsonError for a reliability that this version does not know."""
    node = status.pid
    here = [
        replace(
            view,
            publishers=tuple(one for one in view.publishers if one.pid != node),
            subscribers=tuple(one for one in view.subscribers if one.pid != node),
        )
        for view in views
        if view.name != NODE_TOPIC
    ]
    names = {name.replace(".", "::"): name for view in views for name in view.types}
    elsewhere = [_elsewhere(member, status.host, names) for member in status.elsewhere]
    carried = {(row.topic, False) for row in status.out if row.ends} | {
        (row.topic, True) for row in status.in_ if row.ends
    }
    elsewhere = [edge if (edge.topic, edge.publishes) in carried else _kept_apart(edge) for edge in elsewhere]
    return observe.graph(here, [*elsewhere, *transfers])


def _kept_apart(edge: Edge) -> Edge:
    """Nothing of its topic crosses: rules, dds_topics, or its offer keep it back."""
    return edge if edge.apart else replace(edge, apart="nothing of it crosses, and `rtmw node info` says why")


def _elsewhere(member: Member, here: str, names: dict[str, str]) -> Edge:
    """`names`: of types here, as DDS writes them."""
    place = member.host
    if place == here or not place:
        place = "DDS" if member.domain is None else f"domain {member.domain}"
    process = Process(member.pid, member.program, place)
    kind = names.get(member.type.replace(".", "::"), member.type)
    if member.reliability not in Reliability.__members__:
        raise JsonError(f"{member.program} uses {member.topic} with {member.reliability!r:.40}: that is no reliability")
    return Edge(process, member.topic, member.publishes, Reliability[member.reliability], kind, apart=member.apart)


def _write(name: str, content: str) -> None:
    try:
        Path(name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{name} cannot be written: {error.strerror}.") from error


def record(edge: Edge) -> dict[str, object]:
    """An edge for programs."""
    return {
        "pid": edge.process.pid,
        "process": edge.process.name,
        "host": edge.process.host or None,
        "does": "publishes" if edge.publishes else "subscribes",
        "topic": edge.topic,
        "type": edge.type_name,
        "reliability": edge.reliability.name,
        "matched": edge.matched,
        "apart": edge.apart or None,
    }


def lines(graph: Graph, title: str) -> Iterator[str]:
    """A paragraph a topic: who publishes, then who subscribes."""
    yield f"{title}: {counted(len(graph.topics), 'topic')}, {counted(len(graph.processes), 'process')}"
    for topic in graph.topics:
        crosses = ", crosses hosts" if topic.name in graph.crossing else ""
        yield f"{topic.name}  ({', '.join(topic.types) or 'no type yet'}){crosses}"
        for edge in (*graph.edges_of(topic.name, True), *graph.edges_of(topic.name, False)):
            arrow = "<-" if edge.publishes else "->"
            told = "" if edge.matched else f", meets nobody{f': {edge.apart}' if edge.apart else ''}"
            place = f" on {edge.process.host}" if edge.process.host else ""
            who = f"{observe.program(edge.process.name)} ({edge.process.pid}){place}"
            yield f"  {arrow} {who}  {edge.reliability.name}{told}"


def dot(graph: Graph, title: str) -> Iterator[str]:
    """Yields the lines of the graph for graphviz: `rtmw graph --dot | dot -Tsvg`."""
    yield f"digraph {_quoted(title)} {{"
    yield "  rankdir=LR; node [fontname=sans-serif]; edge [fontname=sans-serif, fontsize=9];"
    for at, host in enumerate(dict.fromkeys(process.host for process in graph.processes)):
        if host:
            yield f"  subgraph cluster_{at} {{ label={_quoted(host)}; style=dashed;"
        for process in graph.processes:
            if process.host == host:
                label = _quoted(observe.program(process.name), str(process.pid))
                yield f"  {_node(process)} [shape=box, style=rounded, label={label}];"
        if host:
            yield "  }"
    for topic in graph.topics:
        lines = ", peripheries=2" if topic.name in graph.crossing else ""
        yield f"  {_quoted('topic ' + topic.name)} [shape=ellipse, label={_quoted(topic.name)}{lines}];"
    for edge in graph.edges:
        node, topic_node = _node(edge.process), _quoted("topic " + edge.topic)
        ends = f"{node} -> {topic_node}" if edge.publishes else f"{topic_node} -> {node}"
        style = "" if edge.matched else ", style=dashed, color=red"
        yield f"  {ends} [label={edge.reliability.name}{style}];"
    yield "}"


def _node(process: Process) -> str:
    return _quoted(f"{process.host} {process.pid}") if process.host else f"p{process.pid}"


def _quoted(*lines: str) -> str:
    """A string of graphviz, which reads a backslash, a quotation mark and the entities of HTML in it."""
    escaped = (visible(line).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for line in lines)
    return '"' + "\\n".join(escaped) + '"'
