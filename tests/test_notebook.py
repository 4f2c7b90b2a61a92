"""What a notebook shows of an object: HTML that a parser reads, in which no text is markup."""

from __future__ import annotations

import base64
import dataclasses
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import rtmw
from rtmw.notebook import ShownByFields, table
from rtmw.types import ANY
from tests.recordings import Maker, numbered

EVIL = "<script>alert('x')</script>&\"\u202e\x1b[2J"
SHOWN = "<script>alert('x')</script>&\"\\u202e\\x1b[2J"
"""The same as people see it."""


@dataclass
class Note:
    text: str
    level: float


class Page(HTMLParser):
    """The rows of a table, and every tag that there was. Each tag has to be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.text = ""
        self.attributes: list[tuple[str, str | None]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag != "img":
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def page(shown: Any) -> Page:
    found = Page(shown if isinstance(shown, str) else shown._repr_html_())
    assert found.tags <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "img"}
    return found


def test_no_text_of_others_is_markup_or_steers_the_page() -> None:
    found = page(table(EVIL, [EVIL], [[EVIL], [1]], [EVIL]))
    assert found.rows == [[SHOWN], [SHOWN], ["1"]]
    assert found.text.count(SHOWN) == 4


def test_a_sample_is_shown_with_its_members(domain: rtmw.Domain) -> None:
    with (
        rtmw.Subscriber("<i>note", ANY, domain=domain) as subscriber,
        rtmw.Publisher("<i>note", Note, domain=domain, priority=3, lifetime=60.0) as publisher,
    ):
        publisher.publish(Note(EVIL, 1.5))
        (sample,) = subscriber.take_many(1)
        found = page(sample)
        assert found.text.startswith("Sample of <i>note")
        assert found.rows[0] == ["type", sample.type_name]
        assert found.rows[1:3] == [["sequence", "1"], ["priority", "3"]]
        assert found.rows[5:] == [[".text", SHOWN], [".level", "1.5"]]
        assert found.rows[3][1].endswith(" UTC")
        sample.release()


def test_a_sample_of_bytes_is_shown_shortened_and_a_released_one_says_so(domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("t", domain=domain) as subscriber, rtmw.Publisher("t", domain=domain) as publisher:
        publisher.publish(b"<b>" * 100_000)
        sample = subscriber.take()
        assert sample is not None
        html = sample._repr_html_()
        assert len(html) < 2000
        assert page(html).rows[-1][0] == "value"
        sample.release()
        assert "the sample was released" in page(sample).text


def test_each_class_of_statistics_is_shown_by_its_fields(domain: rtmw.Domain, tmp_path: Path) -> None:
    with (
        rtmw.Log(tmp_path / "log") as log,
        rtmw.Recorder("t", tmp_path / "run", domain=domain) as recorder,
        rtmw.Subscriber("t", domain=domain) as subscriber,
        rtmw.Publisher("t", domain=domain) as publisher,
    ):
        publisher.publish(b"1")
        subscriber.receive(10)
        for stats in (publisher.stats(), subscriber.stats(), recorder.stats(), log.stats()):
            assert isinstance(stats, ShownByFields)
            found = page(stats)
            assert found.text.startswith(type(stats).__name__)
            assert [row[0] for row in found.rows] == [field.name for field in dataclasses.fields(stats)]
        assert page(subscriber.stats()).rows[0] == ["received", "1"]
        assert dict(page(subscriber.stats()).rows)["latency"].startswith("p50 ")


@pytest.mark.parametrize("name", ["InboxStats", "LogStats", "PublisherStats", "RecorderStats", "ReplayStats"])
def test_what_stats_gives_has_html(name: str) -> None:
    assert issubclass(getattr(rtmw, name), ShownByFields)
    assert issubclass(rtmw.SenderStats, ShownByFields)


def test_a_log_is_shown_also_once_it_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "<b>log"
    with rtmw.Log(folder) as log:
        log.append(b"1")
        found = page(log)
        assert found.text.startswith(f"Log {folder}")
        rows = dict(row for row in found.rows)
        assert rows["records"] == "1"
        assert rows["persist_queue"].startswith("records ")
        assert "PersistQueue(" not in found.text
    assert "used after close()" in page(log).text


def test_recordings_are_shown_with_topics_span_and_what_is_missing(tmp_path: Path) -> None:
    with Maker(tmp_path / "<i>a.mcap") as maker:
        channel = maker.channel("<script>")
        for number in range(3):
            maker.write(channel, number * 10**9, b"x")
        maker.writer.missed(channel, 1, 1234)
    numbered(tmp_path / "b.mcap", ["y"], 10)
    data = (tmp_path / "b.mcap").read_bytes()
    (tmp_path / "b.mcap").write_bytes(data[:-20])
    (tmp_path / "c.mcap").write_bytes(b"no recording")
    with rtmw.Recordings(tmp_path, strict=False) as both, rtmw.Recording(tmp_path / "<i>a.mcap") as one:
        found = page(both)
        assert found.rows[0] == ["topic", "type", "messages", "per second", "missing", "not decoded"]
        assert [row[:3] for row in found.rows[1:]] == [["<script>", "bytes", "3"], ["y", "bytes", "10"]]
        assert found.rows[1][4].startswith("1,234 ")
        assert found.text.startswith(f"Recordings {tmp_path}")
        assert "13 messages in 2 files" in found.text
        assert "from 2023-11-14 22:13:20 UTC to 2023-11-14 22:13:22 UTC" in found.text
        assert "b.mcap is not complete" in found.text
        assert f"left out: {tmp_path / 'c.mcap'}" in found.text
        assert page(one).text.startswith(f"Recording {tmp_path / '<i>a.mcap'}")
    assert "closed" in page(one).text
    with rtmw.Recording(tmp_path / "<i>a.mcap") as fresh:
        pass
    assert "is closed" in page(fresh).text


def test_a_graph_is_shown_as_its_picture_which_styles_nothing_else(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("<script>", domain=domain), rtmw.Subscriber("<script>", domain=domain):
        graph = rtmw.observe.graph(rtmw.observe.topics(domain))
    found = page(graph)
    assert found.tags == {"img"}
    head, _, data = (dict(found.attributes)["src"] or "").partition(",")
    assert head == "data:image/svg+xml;base64"
    picture = ElementTree.fromstring(base64.b64decode(data))
    assert "<script>" in [element.text for element in picture.iter() if element.tag.endswith("}text")]
    assert not [element for element in picture.iter() if element.tag.endswith("script")]
