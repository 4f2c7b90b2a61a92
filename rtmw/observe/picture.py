"""The picture of `rtmw graph`: publishers on the left, topics in the middle, subscribers on the right, as SVG.

A process that does both stands on both sides, so that everything flows from left to right. Rows are ordered so that few
lines cross: each moves to the mean place of those that it is joined to, a few times over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rtmw.observe.views import TopicView, program
from rtmw.qos import Reliability
from rtmw.text.units import counted
from rtmw.text.visible import markup, visible

if TYPE_CHECKING:
    from rtmw.observe.graph import Edge, Graph, Process

WIDTH, HEIGHT = 230.0, 46.0
"""Size of a card, in pixels."""
GAP, ROW, MARGIN, HEAD, FOOT = 150.0, 66.0, 28.0, 74.0, 52.0
"""Between columns, from row to row, around it all, above the columns, and below them."""
LETTERS, SMALL_LETTERS = 27, 33
"""The number of letters that fit into a card."""
HUES = ("#3b82f6", "#14b8a6", "#ea580c", "#8b5cf6", "#d97706", "#0ea5e9", "#ec4899", "#65a30d")
"""Colours of topics, used in turn; each stands out from a light and a dark background."""
STYLE = """
  text { font-family: ui-sans-serif, system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: #111827; }
  .ground { fill: #f8fafc; } .card { fill: #ffffff; stroke: #cbd5e1; }
  .far { fill: #eef2ff; stroke: #818cf8; stroke-dasharray: 5 3; }
  .title { font-size: 17px; font-weight: 600; } .head { font-size: 12px; letter-spacing: .04em; }
  .name { font-size: 14px; font-weight: 500; } .head, .small { fill: #64748b; } .small { font-size: 11.5px; }
  .edge { fill: none; stroke-width: 1.8; stroke-opacity: .85; } .RELIABLE { stroke-width: 3; }
  .TIMELY { stroke-dasharray: 7 4; } .unmatched { stroke: #dc2626; stroke-dasharray: 1.5 4; stroke-linecap: round; }
  .legend { stroke: #64748b; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e7eb; } .ground { fill: #0f172a; } .card { fill: #1e293b; stroke: #475569; }
    .far { fill: #1e1b4b; stroke: #6366f1; }
    .head, .small { fill: #94a3b8; } .legend { stroke: #94a3b8; } .unmatched { stroke: #f87171; }
  }
"""


@dataclass(frozen=True)
class Card:
    """A box with two lines of text."""

    key: tuple[str, object]
    name: str
    small: str
    far: bool = False
    """On another host."""


@dataclass(frozen=True)
class Drawing:
    """Where each card is."""

    columns: tuple[tuple[Card, ...], ...]
    links: tuple[tuple[Card, Card, Edge], ...]
    rows: int

    def left(self, card: Card) -> float:
        """Edge of the card on the left."""
        column = next(at for at, cards in enumerate(self.columns) if card in cards)
        return MARGIN + column * (WIDTH + GAP)

    def top(self, card: Card) -> float:
        """Upper edge of the card; a short column stands in the middle."""
        cards = next(cards for cards in self.columns if card in cards)
        share = self.rows / len(cards)
        return HEAD + (cards.index(card) + 0.5) * share * ROW - HEIGHT / 2


def picture(graph: Graph, title: str) -> str:
    """The SVG document."""
    drawing = _drawing(graph)
    width, height = 2 * MARGIN + 3 * WIDTH + 2 * GAP, HEAD + drawing.rows * ROW + FOOT
    counts = f"{counted(len(graph.topics), 'topic')}, {counted(len(graph.processes), 'process')}"
    hue = {topic.name: HUES[at % len(HUES)] for at, topic in enumerate(graph.topics)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{markup(title)}: {counts}">',
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{width:g}" height="{height:g}" rx="10"/>',
        f'<text class="title" x="{MARGIN:g}" y="32">{markup(title)}</text>',
        f'<text class="small" x="{width - MARGIN:g}" y="32" text-anchor="end">{counts}</text>',
        *_heads(),
        *_curves(drawing, hue),
        *(_card(drawing, card, hue) for cards in drawing.columns for card in cards),
        *_legend(height - FOOT / 2 + 4, any(process.host for process in graph.processes)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _drawing(graph: Graph) -> Drawing:
    topics = {topic.name: _topic_card(topic, topic.name in graph.crossing) for topic in graph.topics}
    sides: dict[tuple[bool, Process], Card] = {}
    for edge in graph.edges:
        sides.setdefault((edge.publishes, edge.process), _process_card(edge.process, edge.publishes))
    links: list[tuple[Card, Card, Edge]] = []
    for edge in graph.edges:
        process_card, topic_card = sides[edge.publishes, edge.process], topics[edge.topic]
        ends = (process_card, topic_card) if edge.publishes else (topic_card, process_card)
        links.append((*ends, edge))
    left = [card for (publishes, _), card in sides.items() if publishes]
    right = [card for (publishes, _), card in sides.items() if not publishes]
    columns = _untangled([left, list(topics.values()), right], links)
    return Drawing(columns, tuple(links), max(1, *(len(cards) for cards in columns)))


def _topic_card(topic: TopicView, crosses: bool) -> Card:
    return Card(("topic", topic.name), topic.name, ", ".join(topic.types) + (" · crosses hosts" if crosses else ""))


def _process_card(process: Process, publishes: bool) -> Card:
    place = f" · {process.host}" if process.host else ""
    key = ("publisher" if publishes else "subscriber", process)
    return Card(key, program(process.name), f"pid {process.pid}{place}", bool(process.host))


def _untangled(columns: list[list[Card]], links: Sequence[tuple[Card, Card, Edge]]) -> tuple[tuple[Card, ...], ...]:
    joined: dict[Card, list[Card]] = {}
    for one, other, _ in links:
        joined.setdefault(one, []).append(other)
        joined.setdefault(other, []).append(one)
    for _ in range(4):
        for at in (0, 2, 1):
            place = {card: (row + 0.5) / len(cards) for cards in columns for row, card in enumerate(cards)}
            columns[at].sort(key=lambda card: _mean([place[other] for other in joined.get(card, [card])]))
    return tuple(tuple(cards) for cards in columns)


def _mean(places: Sequence[float]) -> float:
    return sum(places) / len(places)


def _heads() -> Iterator[str]:
    for column, head in enumerate(("PUBLISH", "TOPICS", "SUBSCRIBE")):
        x = MARGIN + column * (WIDTH + GAP) + WIDTH / 2
        yield f'<text class="head" x="{x:g}" y="62" text-anchor="middle">{head}</text>'


def _curves(drawing: Drawing, hue: dict[str, str]) -> Iterator[str]:
    for one, other, edge in drawing.links:
        x0, y0 = drawing.left(one) + WIDTH, _port(drawing, one, other, leaving=True)
        x1, y1 = drawing.left(other), _port(drawing, other, one, leaving=False)
        middle = (x0 + x1) / 2
        kind = edge.reliability.name if edge.matched else "unmatched"
        stroke = f' stroke="{hue[edge.topic]}"' if edge.matched else ""
        does = "publishes on" if edge.publishes else "subscribes to"
        place = f" on {edge.process.host}" if edge.process.host else ""
        who = f"{program(edge.process.name)} ({edge.process.pid}){place}"
        told = f"{who} {does} {edge.topic}, {edge.reliability.name}"
        told += "" if edge.matched else ": meets nobody of its type and reliability"
        path = f"M{x0:.1f} {y0:.1f} C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
        yield f'<path class="edge {kind}"{stroke} d="{path}"><title>{markup(told)}</title></path>'


def _port(drawing: Drawing, card: Card, other: Card, leaving: bool) -> float:
    """Height at which the line between two cards touches the first: lines of one side stand apart, in order."""
    others = {b if a == card else a for a, b, _ in drawing.links if (a if leaving else b) == card}
    ordered = sorted(others, key=drawing.top)
    return drawing.top(card) + HEIGHT * (ordered.index(other) + 1) / (len(ordered) + 1)


def _card(drawing: Drawing, card: Card, hue: dict[str, str]) -> str:
    x, y = drawing.left(card), drawing.top(card)
    is_topic = card.key[0] == "topic"
    corner = HEIGHT / 2 if is_topic else 8
    stroke = f' style="stroke: {hue[card.name]}; stroke-width: 2"' if is_topic else ""
    return (
        f"<g><title>{markup(card.name)}, {markup(card.small)}</title>"
        f'<rect class="{"card far" if card.far else "card"}"{stroke} x="{x:.1f}" y="{y:.1f}" '
        f'width="{WIDTH:g}" height="{HEIGHT:g}" rx="{corner:g}"/>'
        f'<text class="name" x="{x + WIDTH / 2:.1f}" y="{y + 20:.1f}" text-anchor="middle">'
        f"{markup(_cut(visible(card.name), LETTERS))}</text>"
        f'<text class="small" x="{x + WIDTH / 2:.1f}" y="{y + 36:.1f}" text-anchor="middle">'
        f"{markup(_cut(visible(card.small), SMALL_LETTERS))}</text></g>"
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _legend(y: float, has_far: bool) -> Iterator[str]:
    x = MARGIN
    kinds = [(item.name, f"legend {item.name}") for item in reversed(Reliability)]
    for name, kind in [*kinds, ("meets nobody", "unmatched")]:
        yield f'<path class="edge {kind}" d="M{x:g} {y - 4:g} h34"/>'
        yield f'<text class="small" x="{x + 42:g}" y="{y:g}">{name}</text>'
        x += 150
    if has_far:
        yield f'<rect class="card far" x="{x:g}" y="{y - 12:g}" width="34" height="16" rx="4"/>'
        yield f'<text class="small" x="{x + 42:g}" y="{y:g}">on another host</text>'
