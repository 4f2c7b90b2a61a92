"""MCAP's conformance suite, read: every feature may be there or not, and the content is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmw.recording import Channel, Recording, Schema
from rtmw.recording.tools.check import check
from tests.recording.variants import CONTENTS, PAYLOAD, Content, Variant, name_of, variants

EXAMPLE = Schema(1, "Example", "c", b"\4\5\6")


def read(path: Path, content: Content) -> None:
    with Recording(path) as recording:
        assert recording.complete
        found = [(m.log_time, m.publish_time, m.sequence) for m in recording.messages()]
        assert found == list(content.messages)
        assert all(m.payload == PAYLOAD for m in recording.messages())
        assert recording.schemas == ({1: EXAMPLE} if content.schema else {})
        assert [channel.topic for channel in recording.channels.values()] == ["example"] * bool(content.channel)
        assert [recording.attachment(a) for a in recording.attachments] == [PAYLOAD] * bool(content.attachment)
        assert recording.metadata == ((("myMetadata", {"foo": "bar"}),) if content.metadata else ())


def test_there_are_as_many_variants_as_in_the_suite() -> None:
    assert [len(list(variants(content))) for content in CONTENTS.values()] == [6, 14, 14, 154, 74, 154]


@pytest.mark.parametrize("name", CONTENTS)
def test_every_variant_is_read(tmp_path: Path, name: str) -> None:
    content = CONTENTS[name]
    for features in variants(content):
        path = tmp_path / f"{name_of(name, features)}.mcap"
        path.write_bytes(Variant(content, features).make())
        read(path, content)


@pytest.mark.parametrize("name", CONTENTS)
def test_a_check_finds_no_problem_in_any_variant(tmp_path: Path, name: str) -> None:
    content = CONTENTS[name]
    for features in variants(content):
        path = tmp_path / f"{name_of(name, features)}.mcap"
        path.write_bytes(Variant(content, features).make())
        assert check(path).problems == []


def test_a_channel_keeps_its_metadata(tmp_path: Path) -> None:
    path = tmp_path / "one.mcap"
    path.write_bytes(Variant(CONTENTS["OneMessage"], frozenset({"ch", "mx", "pad"})).make())
    with Recording(path) as recording:
        assert recording.channels == {1: Channel(1, "example", 1, "a", {"foo": "bar"})}
