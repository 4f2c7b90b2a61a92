"""`rtmw graph`: who talks to whom, as text, for graphviz, or as a picture."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rtmw import observe
from rtmw.cli.common import CommandError, attach
from rtmw.cli.picture import picture
from rtmw.cli.show import program, show_json
from rtmw.observe import Edge, Graph


def graph(arguments: argparse.Namespace) -> int:
    """Print the graph, or write its picture to a file."""
    with attach(arguments.domain) as domain:
        found = observe.graph(observe.topics(domain))
    title = f"Domain {arguments.domain}"
    if arguments.svg:
        _write(arguments.svg, picture(found, title))
    if arguments.json:
        show_json([record(edge) for edge in found.edges])
    elif arguments.dot:
        print("\n".join(dot(found, title)))
    elif not arguments.svg:
        print("\n".join(lines(found, title)))
    return 0


def _write(name: str, content: str) -> None:
    try:
        Path(name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{name} cannot be written: {error.strerror}.") from error
    print(f"Wrote {name}.")


def record(edge: Edge) -> dict[str, object]:
    """An edge for programs."""
    return {
        "pid": edge.process.pid,
        "process": edge.process.name,
        "does": "publishes" if edge.publishes else "subscribes",
        "topic": edge.topic,
        "type": edge.type_name,
        "reliability": edge.reliability.name,
        "matched": edge.matched,
    }


def lines(graph: Graph, title: str) -> Iterator[str]:
    """A paragraph a topic: who publishes, then who subscribes."""
    yield f"{title}: {len(graph.topics)} topics, {len(graph.processes)} processes"
    for topic in graph.topics:
        yield f"{topic.name}  ({', '.join(topic.types) or 'no type yet'})"
        for edge in (*graph.edges_of(topic.name, True), *graph.edges_of(topic.name, False)):
            arrow, told = "<-" if edge.publishes else "->", "" if edge.matched else ", meets nobody"
            yield f"  {arrow} {program(edge.process.name)} ({edge.process.pid})  {edge.reliability.name}{told}"


def dot(graph: Graph, title: str) -> Iterator[str]:
    """For graphviz: `rtmw graph --dot | dot -Tsvg`."""
    yield f"digraph {_quoted(title)} {{"
    yield "  rankdir=LR; node [fontname=sans-serif]; edge [fontname=sans-serif, fontsize=9];"
    for process in graph.processes:
        label = _quoted(f"{program(process.name)}\\n{process.pid}")
        yield f"  p{process.pid} [shape=box, style=rounded, label={label}];"
    for topic in graph.topics:
        yield f"  {_quoted('topic ' + topic.name)} [shape=ellipse, label={_quoted(topic.name)}];"
    for edge in graph.edges:
        node, topic_node = f"p{edge.process.pid}", _quoted("topic " + edge.topic)
        ends = f"{node} -> {topic_node}" if edge.publishes else f"{topic_node} -> {node}"
        style = "" if edge.matched else ", style=dashed, color=red"
        yield f"  {ends} [label={edge.reliability.name}{style}];"
    yield "}"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
