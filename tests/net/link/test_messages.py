"""Controls of a link: as docs/formats/link-control.md says, and nothing else is read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmw.net.link import messages
from rtmw.net.link.messages import (
    MOST,
    TEXT_MOST,
    WANTED_MOST,
    Answer,
    Hello,
    Interest,
    Open,
    Using,
    Wanted,
    pack,
    read,
)
from rtmw.net.session.errors import Violation
from rtmw.qos import Reliability

GOLDEN = (Path(__file__).with_name("golden") / "controls.jsonl").read_bytes().splitlines()
PAGE = (Path(__file__).parents[3] / "docs" / "formats" / "link-control.md").read_text()


@pytest.mark.parametrize("line", GOLDEN, ids=lambda line: json.loads(line)["is"])
def test_a_control_of_version_1_is_read_and_written_as_it_always_was(line: bytes) -> None:
    message = read(line)
    assert message is not None
    assert pack(message) == line


@pytest.mark.parametrize("kind", messages._KINDS)
def test_the_page_names_the_fields_of_each_control(kind: str) -> None:
    part = PAGE.partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (`.*?`) \| .* \|$", part, re.MULTILINE)
    told = [name for row in lines for name in re.findall(r"`(\w+)`", row)]
    fields = [*messages._FORMS[messages._KINDS[kind]]]
    of = {"interest": Wanted, "programs": Using}.get(kind)
    rows = [*messages._FORMS[of]] if of else []
    assert told[: len(fields + rows)] == fields + rows


def test_a_newer_version_may_say_more() -> None:
    older = read(GOLDEN[0])
    assert isinstance(older, Hello)
    assert (older.kernel, older.twin) == ("", False), "a hello of before has neither"
    assert read(b'{"is":"answer","route":1,"cause":"","why":"","since":5}') == Answer(1, "", "")
    assert read(b'{"is":"tomorrow","what":[1,2]}') is None


def _changed(**values: Any) -> bytes:
    row = json.loads(GOLDEN[6]) | values
    return json.dumps({key: value for key, value in row.items() if value != "missing"}).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 5000, "not JSON"),
        (b"[]", "does not say what it is"),
        (b'{"is":5}', "does not say what it is"),
        (b" " * (MOST + 1), "at most 16000 are read"),
        (_changed(route=0), "route is 0; it must be a whole number from 1"),
        (_changed(route=True), "route is True"),
        (_changed(route=1 << 32), "a whole number from 1 to 4294967295"),
        (_changed(priority=8), "from 0 to 7"),
        (_changed(topic="\ud800"), "at most 1024 characters"),
        (_changed(topic=""), "topic is ''; it must be a name"),
        (_changed(topic="x" * (TEXT_MOST + 1)), "at most 1024 characters"),
        (_changed(reliability="BEST"), "one of TIMELY, ADAPTIVE, RELIABLE"),
        (_changed(description="%%"), "description"),
        (_changed(description="A" * 12000), "at most 8000 bytes"),
        (_changed(lifetime_ns=-1), "lifetime_ns"),
        (_changed(depth="missing"), "it has no depth"),
        (b'{"is":"interest","topic":"a","wanted":[5]}', "5 is no object"),
        (b'{"is":"interest","topic":"a","wanted":%s}' % json.dumps([{}] * (WANTED_MOST + 1)).encode(), "at most 12"),
        (b'{"is":"answer","route":NaN,"cause":"","why":""}', "route is nan"),
    ],
)
def test_what_is_no_control_is_refused_in_words(data: bytes, words: str) -> None:
    with pytest.raises(Violation, match=re.escape(words)):
        read(data)


_WANTED = st.builds(
    Wanted,
    st.none() | st.integers(0, (1 << 64) - 1),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=127),
    st.sampled_from(Reliability),
    *[st.integers(0, (1 << 32) - 1)] * 2,
    *[st.integers(0, (1 << 63) - 1)] * 2,
)
_TOPIC = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=255)


@given(st.builds(Interest, _TOPIC, st.lists(_WANTED, max_size=WANTED_MOST).map(tuple)))
def test_whatever_is_wanted_fits_into_a_control_and_is_read_as_it_was_said(interest: Interest) -> None:
    data = pack(interest)
    assert len(data) <= MOST
    assert read(data) == interest


@given(_TOPIC, st.binary(max_size=8000))
def test_whatever_type_is_opened_fits_into_a_control(topic: str, description: bytes) -> None:
    message = Open(1, topic, Reliability.RELIABLE, 7, 64, 0, 0, description)
    data = pack(message)
    assert len(data) <= MOST
    assert read(data) == message


@given(st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_no_bytes_do_harm(data: bytes | str) -> None:
    try:
        read(data.encode() if isinstance(data, str) else data)
    except Violation:
        return
