"""Topics are meant by name or by pattern, wherever recordings are made, cut and played, and by nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

import rtmw
from rtmw.net.settings import Settings
from rtmw.recording.tools.copying import Section, cut
from rtmw.recording.writer import RecordingWriter
from rtmw.text.patterns import is_meant, topics_of


@pytest.mark.parametrize(
    ("topic", "wanted", "answer"),
    [
        ("pump/1", "pump/1", True),
        ("pump/1", "pump/*", True),
        ("pump/1", "Pump/*", False),
        ("pump[1]", "pump[1]", True),
        ("pump1", "pump[1]", True),
        ("höhe über null", "höhe*", True),
    ],
)
def test_a_topic_is_meant_by_its_name_and_by_patterns(topic: str, wanted: str, answer: bool) -> None:
    assert is_meant(topic, wanted) is answer
    assert topics_of(wanted, ()).take(topic) is answer
    assert Settings(topics_out=(wanted,)).leaves(topic) is answer


@pytest.mark.usefixtures("domain")
def test_a_topic_whose_name_looks_like_a_pattern_can_be_cut_out_and_played(tmp_path: Path) -> None:
    path, part = tmp_path / "a.mcap", tmp_path / "part.mcap"
    with RecordingWriter(path) as writer:
        for topic in ("pump[1]", "river"):
            writer.write(writer.channel(topic, 0, "application/octet-stream", {}), b"", log_time=1, publish_time=1)
    assert cut(path, part, Section(topics=("pump[1]",))).messages == 1
    with rtmw.Replay(path, topics="pump[1]", remap={"pump[1]": "pump/1"}) as replay:
        assert replay.topics == ("pump/1",)
