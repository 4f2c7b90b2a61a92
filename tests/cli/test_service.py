"""`rtmw service`: which services there are, and a request by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rtmw
from rtmw.cli import main
from rtmw.requests import wire
from tests.bus import LONG
from tests.requests.common import Goal, Step, client, double, service, steps

pytestmark = pytest.mark.usefixtures("domain")


def test_list_shows_services_with_their_servers_types_and_clients(
    domain_id: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with service(double, "arm/move"), service(steps, "gate"), client("arm/move") as caller:
        assert caller.wait(LONG)
        assert main(["service", "list", "--domain", str(domain_id), "--json"]) == 0
        rows = {row["service"]: row for row in json.loads(capsys.readouterr().out)}
        assert set(rows) == {"arm/move", "gate"}
        row = rows["arm/move"]
        assert (row["request"], row["reply"], row["clients"], row["waiting"]) == ("Goal", "Step", 1, 0)
        assert rows["gate"]["clients"] == 0
        assert main(["service", "list", "--domain", str(domain_id)]) == 0
        assert "2 services" in capsys.readouterr().out


def test_call_prints_each_reply_without_the_classes(domain_id: int, capsys: pytest.CaptureFixture[str]) -> None:
    with service(steps):
        assert main(["service", "call", "arm", '{"count": 2, "pause": 0}', "--domain", str(domain_id), "--json"]) == 0
        assert capsys.readouterr().out == '{"number": 0}\n{"number": 1}\n'
        assert main(["service", "call", "arm", '{"count": 1, "pause": 0}', "--domain", str(domain_id)]) == 0
        assert capsys.readouterr().out == "number: 0\n---\n"


def test_list_counts_neither_a_replay_as_server_nor_a_recorder_as_client(
    domain_id: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def listed() -> list[dict[str, Any]]:
        assert main(["service", "list", "--domain", str(domain_id), "--json"]) == 0
        rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return rows

    reply: Any = wire.envelope("Reply", Step).kind
    with rtmw.Publisher(wire.server_topic("arm"), reply), rtmw.Subscriber(wire.request_topic("arm"), rtmw.ANY):
        assert listed() == []
    with service(double), rtmw.Subscriber(wire.reply_topic("arm", 7), rtmw.ANY):
        assert [row["clients"] for row in listed()] == [0]


@pytest.mark.parametrize(
    ("kind", "text", "printed"),
    [
        (dict, '{"a": [1]}', '{"a": [1]}'),
        (dict, "3", "3"),
        (str, '"x"', '"x"'),
        (str, "abc", '"abc"'),
        (str, "3", '"3"'),
        (bytes, "abc", '"abc"'),
    ],
)
def test_call_takes_and_shows_json_and_text(
    domain_id: int, capsys: pytest.CaptureFixture[str], kind: Any, text: str, printed: str
) -> None:
    with rtmw.Service("echo", lambda value: value, request=kind, reply=kind):
        assert main(["service", "call", "echo", text, "--domain", str(domain_id), "--json"]) == 0
        assert capsys.readouterr().out == f"{printed}\n"
        assert main(["service", "list", "--domain", str(domain_id), "--json"]) == 0
        row = json.loads(capsys.readouterr().out)[0]
        assert (row["request"], row["reply"]) == (kind.__name__, kind.__name__)


def test_what_goes_wrong_is_said_in_a_sentence(domain_id: int, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(goal: Goal) -> None:
        raise ValueError("no")

    def said(*words: str) -> str:
        assert main(["service", "call", *words, "--domain", str(domain_id)]) == 1
        return capsys.readouterr().err

    assert "nobody serves it here; it has no services." in said("arm", "1")
    with service(broken):
        assert "nobody serves it here; did you mean arm?" in said("amr", "1")
        assert "it has arm." in said("gate/7", "1")
        assert "is no JSON" in said("arm", "{")
        assert "Goal" in said("arm", "3")
        assert "pause" in said("arm", '{"count": 1}')
        assert "ValueError: no" in said("arm", '{"count": 1, "pause": 0}')
