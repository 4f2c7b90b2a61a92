"""`rtmw graph`: as text, for graphviz, and as a picture."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from rtmw import Reliability, observe
from rtmw.cli.graph import dot, lines, record
from rtmw.cli.picture import HEIGHT, picture
from tests.cli.views import PUBLISHER, SUBSCRIBER, topic

APART = replace(
    SUBSCRIBER, pid=23, identity=23 << 32, process="python -u <re>corder.py --all", reliability=Reliability.RELIABLE
)
GRAPH = observe.graph([topic(subscribers=(SUBSCRIBER, APART)), topic("silent", publishers=(), subscribers=())])
SVG = "{http://www.w3.org/2000/svg}"


def many(count: int) -> observe.Graph:
    """So many topics, each of two publishers and two subscribers."""
    return observe.graph(
        [
            topic(
                f"t{number}",
                publishers=tuple(replace(PUBLISHER, pid=pid) for pid in (number, number + 1)),
                subscribers=tuple(replace(SUBSCRIBER, pid=pid) for pid in (number, count - number)),
            )
            for number in range(count)
        ]
    )


def test_the_text_names_who_publishes_then_who_subscribes_and_who_meets_nobody() -> None:
    assert list(lines(GRAPH, "Domain 3")) == [
        "Domain 3: 2 topics, 3 processes",
        "pump/speed  (bytes)",
        "  <- pump (11)  ADAPTIVE",
        "  -> panel (22)  ADAPTIVE",
        "  -> <re>corder.py (23)  RELIABLE, meets nobody",
        "silent  (bytes)",
    ]


def test_the_record_for_programs_says_what_each_process_does() -> None:
    assert record(GRAPH.edges[2]) == {
        "pid": 23,
        "process": APART.process,
        "does": "subscribes",
        "topic": "pump/speed",
        "type": "bytes",
        "reliability": "RELIABLE",
        "matched": False,
    }


def test_dot_is_what_graphviz_reads() -> None:
    text = "\n".join(dot(GRAPH, "Domain 3"))
    assert 'p11 -> "topic pump/speed" [label=ADAPTIVE];' in text
    assert '"topic pump/speed" -> p23 [label=RELIABLE, style=dashed, color=red];' in text
    if shutil.which("dot"):
        done = subprocess.run(["dot", "-Tplain"], input=text, capture_output=True, text=True, timeout=60, check=True)
        assert sum(line.startswith("edge") for line in done.stdout.splitlines()) == 3


def test_the_picture_has_a_card_a_topic_and_a_side_of_a_process_and_a_line_an_edge() -> None:
    root = ElementTree.fromstring(picture(GRAPH, "Domain 3"))
    cards = [group.find(f"{SVG}title") for group in root.iter(f"{SVG}g")]
    assert [card.text for card in cards if card is not None] == [
        "pump, pid 11",
        "pump/speed, bytes",
        "silent, bytes",
        "panel, pid 22",
        "<re>corder.py, pid 23",
    ]
    told = [path.find(f"{SVG}title") for path in root.iter(f"{SVG}path")]
    assert [title.text for title in told if title is not None] == [
        "pump (11) publishes on pump/speed, ADAPTIVE",
        "panel (22) subscribes to pump/speed, ADAPTIVE",
        "<re>corder.py (23) subscribes to pump/speed, RELIABLE: meets nobody of its type and reliability",
    ]


@pytest.mark.parametrize("count", [1, 2, 7, 30])
def test_cards_of_the_picture_lie_inside_it_and_apart_from_each_other(count: int) -> None:
    root = ElementTree.fromstring(picture(many(count), "Domain 3"))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [rect.attrib for rect in root.iter(f"{SVG}rect") if rect.attrib["class"] == "card"]
    places = [(float(box["x"]), float(box["y"]), float(box["width"])) for box in boxes]
    assert len(places) == len(set(places)) >= 3 * count
    for x, y, wide in places:
        assert 0 < x < x + wide < width
        assert 0 < y < y + HEIGHT < height
    for column in {x for x, _, _ in places}:
        rows = sorted(y for x, y, _ in places if x == column)
        assert all(below - above > HEIGHT for above, below in itertools.pairwise(rows))


def test_a_domain_where_nobody_is_still_has_a_picture() -> None:
    root = ElementTree.fromstring(picture(observe.graph([]), "Domain 3"))
    assert root.attrib["aria-label"] == "Domain 3: 0 topics, 0 processes"
