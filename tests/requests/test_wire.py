"""docs/requests.md, the golden messages, and what both sides send say the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw.requests import wire
from rtmw.types import from_description
from tests.bus import LONG

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "requests.md"
GOLDEN = Path(__file__).parent / "golden"


@dataclass
class Goal:
    steps: rtmw.int32


REQUEST, REPLY = wire.envelope("Request", Goal), wire.envelope("Reply", Goal)
JSON = wire.envelope("Reply", dict)
MESSAGES = {
    "request": (REQUEST, (0x0123456789ABCDEF, 1, 0, "", Goal(3))),
    "cancel": (REQUEST, (0x0123456789ABCDEF, 1, wire.CANCEL, "", None)),
    "reply": (REPLY, (0x0123456789ABCDEF, 1, 0, "", Goal(4))),
    "last": (REPLY, (0x0123456789ABCDEF, 1, wire.LAST, "", None)),
    "failed": (REPLY, (0x0123456789ABCDEF, 1, wire.LAST | wire.FAILED, "ValueError: no", None)),
    "server": (REPLY, (0x0FEDCBA987654321, 0, wire.SERVER, "arm.py (pid 7) on plant", None)),
    "json": (JSON, (0x0123456789ABCDEF, 2, wire.LAST, "", JSON.packed({"a": [1]}))),
}


@pytest.mark.parametrize("name", MESSAGES)
# Proves G93.
def test_a_message_has_the_bytes_of_its_golden_file(name: str) -> None:
    envelope, message = MESSAGES[name]
    golden = bytes.fromhex((GOLDEN / f"{name}.hex").read_text())
    assert bytes(envelope.kind.encode(message)) == golden
    assert envelope.kind.decode(golden) == message
    assert wire.head_of(memoryview(golden)) == (*message[:3], len(message[3]) + 1)


def test_a_program_without_the_class_reads_the_members_that_the_page_names() -> None:
    kind = from_description(REPLY.kind.description)
    assert kind.decode is not None
    read = kind.decode(bytes.fromhex((GOLDEN / "reply.hex").read_text()))
    text = PAGE.read_text()
    for member in ("client", "call", "flags", "error", "value"):
        assert hasattr(read, member)
        assert f"| `{member}` |" in text
    assert (kind.name, read.value.steps) == ("rtmw::Reply_Goal", 4)


def test_the_page_has_the_flags() -> None:
    text = PAGE.read_text()
    for name in ("CANCEL", "LAST", "FAILED", "SERVER"):
        assert f"| {getattr(wire, name)} {name} |" in text


@pytest.mark.usefixtures("domain")
def test_a_call_has_the_messages_that_the_page_says() -> None:
    seen = list[tuple[str, int, int]]()

    def note(sample: rtmw.Sample[Any]) -> None:
        seen.append((sample.value.error, sample.value.call, sample.value.flags))

    def steps(goal: Goal) -> Any:
        return (Goal(number) for number in range(goal.steps))

    with (
        rtmw.Service("arm", steps, request=Goal, reply=Goal),
        rtmw.Client("arm", request=Goal, reply=Goal) as client,
        rtmw.Subscriber("arm/request", rtmw.ANY) as requests,
    ):
        assert client.call(Goal(0 + 1), timeout=LONG) == Goal(0)
        first = requests.receive(timeout=LONG)
        assert first.value.client == first.publisher
        with rtmw.Subscriber(f"arm/reply/{first.publisher:x}", rtmw.ANY) as replies:
            assert client.call(Goal(2), timeout=LONG) == Goal(1)
            for _ in range(3):
                note(replies.receive(timeout=LONG))
    assert seen == [("", 2, 0), ("", 2, 0), ("", 2, wire.LAST)]


@pytest.mark.usefixtures("domain")
@pytest.mark.parametrize("type", [Goal, dict, str], ids=str)
def test_a_value_that_cannot_travel_is_refused_in_the_words_of_its_own_type(type: Any) -> None:
    wrong: Any = {Goal: Goal("x"), dict: {"a": object()}, str: 5}[type]  # type: ignore[arg-type]
    with (
        rtmw.Service("arm", lambda value: value, request=type, reply=type),
        rtmw.Client("arm", request=type, reply=type) as client,
        pytest.raises(rtmw.TypeMismatch) as caught,
    ):
        client.call(wrong, timeout=LONG)
    assert "Request" not in str(caught.value)
