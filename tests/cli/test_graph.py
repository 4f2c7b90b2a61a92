"""`rtmw graph`: as text, for graphviz, and as a picture."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from rtmw import Reliability, observe
from rtmw.cli.graph import across, dot, lines, record
from rtmw.observe.node_status import Crossing, Member, NodeStatus
from rtmw.observe.picture import HEIGHT, picture
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
        "host": None,
        "does": "subscribes",
        "topic": "pump/speed",
        "type": "bytes",
        "reliability": "RELIABLE",
        "matched": False,
        "apart": None,
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


STATUS = NodeStatus(
    pid=30,
    told_ns=1,
    host="here",
    out=(Crossing("pump/speed", "bytes", readers=3), Crossing("secret", "bytes", readers=0)),
    elsewhere=tuple(
        Member(host, number, 22, program, name, publishes, "bytes", "ADAPTIVE")
        for host, number, program, name, publishes in (
            ("far", 3, "archive", "pump/speed", False),
            ("here", 7, "logger", "pump/speed", False),
            ("here", None, "scope", "pump/speed", False),
            ("far", 3, "weather", "sky", True),
            ("far", 3, "archive", "secret", False),
        )
    ),
)
NODE = replace(SUBSCRIBER, pid=30, identity=30 << 32, process="rtmw node")
ACROSS = across(
    [
        topic(subscribers=(SUBSCRIBER, NODE)),
        topic("secret", subscribers=()),
        topic("rtmw/node", publishers=(PUBLISHER,)),
    ],
    STATUS,
)


def test_in_place_of_the_node_stand_those_on_other_hosts() -> None:
    assert list(lines(ACROSS, "Domain 3")) == [
        "Domain 3: 3 topics, 6 processes",
        "pump/speed  (bytes), crosses hosts",
        "  <- pump (11)  ADAPTIVE",
        "  -> panel (22)  ADAPTIVE",
        "  -> archive (22) on far  ADAPTIVE",
        "  -> logger (22) on domain 7  ADAPTIVE",
        "  -> scope (22) on DDS  ADAPTIVE",
        "secret  (bytes)",
        "  <- pump (11)  ADAPTIVE, meets nobody",
        "  -> archive (22) on far  ADAPTIVE, meets nobody: nothing of it crosses, and `rtmw node info` says why",
        "sky  (bytes)",
        "  <- weather (22) on far  ADAPTIVE",
    ]


def test_dot_has_a_box_a_host_and_two_lines_around_topics_that_cross() -> None:
    text = "\n".join(dot(ACROSS, "Domain 3"))
    assert 'label="far"; style=dashed;' in text
    assert '"topic pump/speed" -> "far 22" [label=ADAPTIVE];' in text
    assert '"topic pump/speed" [shape=ellipse, label="pump/speed", peripheries=2];' in text
    assert '"topic sky" [shape=ellipse, label="sky"];' in text
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tplain"], input=text, capture_output=True, text=True, timeout=60, check=True)


def test_the_picture_tells_programs_of_other_hosts_apart() -> None:
    root = ElementTree.fromstring(picture(ACROSS, "Domain 3"))
    far = [group for group in root.iter(f"{SVG}g") if any(r.attrib.get("class") == "card far" for r in group)]
    assert {group.findtext(f"{SVG}title") for group in far} == {
        "archive, pid 22 · far",
        "logger, pid 22 · domain 7",
        "scope, pid 22 · DDS",
        "weather, pid 22 · far",
    }
    assert "on another host" in {text.text for text in root.iter(f"{SVG}text")}
    alone = ElementTree.fromstring(picture(GRAPH, "Domain 3"))
    assert "on another host" not in {text.text for text in alone.iter(f"{SVG}text")}


def test_a_domain_where_nobody_is_still_has_a_picture() -> None:
    root = ElementTree.fromstring(picture(observe.graph([]), "Domain 3"))
    assert root.attrib["aria-label"] == "Domain 3: 0 topics, 0 processes"


def test_one_of_something_is_counted_as_one() -> None:
    alone = observe.graph([topic(subscribers=())])
    assert next(lines(alone, "Domain 3")) == "Domain 3: 1 topic, 1 process"
    label = ElementTree.fromstring(picture(alone, "Domain 3")).attrib["aria-label"]
    assert label == "Domain 3: 1 topic, 1 process"
