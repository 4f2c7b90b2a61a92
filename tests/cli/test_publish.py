"""`rtmw topic pub` on real domains: as which type it publishes, and what it refuses."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pytest

import rtmw
from rtmw import observe
from tests.cli.command import Run
from tests.types import postponed_classes as classes
from topics import telemetry


def test_pub_publishes_text_as_bytes(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("hello", domain=domain) as subscriber:
        status, out, _ = run("topic", "pub", "hello", "wörld", "--priority", "5", "--count", "3", "--rate", "1000")
        assert (status, out) == (0, "published 3 on hello for 1 subscriber\n")
        samples = subscriber.take_many(10)
        assert [(sample.value, sample.priority) for sample in samples] == [("wörld".encode(), 5)] * 3


def test_pub_publishes_on_no_topic_of_rtmw_itself(run: Run, domain: rtmw.Domain) -> None:
    status, out, err = run("topic", "pub", "rtmw/transfer/core", "hello")
    assert (status, out) == (1, "")
    assert "choose another name" in err
    assert not observe.topics(domain)


def test_pub_publishes_an_object_of_a_type(run: Run, domain: rtmw.Domain) -> None:
    with telemetry.CPU.subscriber(domain=domain) as subscriber:
        run("topic", "pub", "telemetry/cpu", '{"host": "pump", "cores": [1, 2]}', "--type", "topics.telemetry:Cpu")
        assert subscriber.receive(5).value == telemetry.Cpu(host="pump", cores=[1.0, 2.0])


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "tests.types.postponed_classes:Outer",
            '{"inner": {"number": 1}, "more": [{"number": 2}], "maybe": {"number": 3}, "hue": "BLUE"}',
            classes.Outer(classes.Inner(1), [classes.Inner(2)], classes.Inner(3), classes.Hue.BLUE),
        ),
        (
            "tests.types.postponed_classes:ModelOuter",
            '{"inner": {"number": 1}}',
            classes.ModelOuter(inner=classes.ModelInner(number=1)),
        ),
        (
            "tests.types.postponed_classes:StructOuter",
            '{"inner": {"number": 1}, "number": 9}',
            classes.StructOuter(classes.StructInner(1), 9),
        ),
        ("builtins:str", '"hello"', "hello"),
        ("builtins:dict", '{"limit": [3]}', {"limit": [3]}),
        ("str", "hello", "hello"),
        ("dict", '{"limit": [3]}', {"limit": [3]}),
    ],
)
def test_pub_publishes_a_plain_class_a_text_or_json(
    run: Run, domain: rtmw.Domain, name: str, text: str, expected: object
) -> None:
    with rtmw.Subscriber("t", type(expected), domain=domain) as subscriber:
        assert run("topic", "pub", "t", text, "--type", name)[0] == 0
        assert subscriber.receive(5).value == expected
        assert run("topic", "pub", "t", text)[0] == 0
        assert subscriber.receive(5).value == expected


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (str, "hi there", "hi there"),
        (str, '"hi\\n"', "hi\n"),
        (str, '{"data": "hi"}', '{"data": "hi"}'),
        (str, "5", "5"),
        (str, "[" * 100_000, "[" * 100_000),
        (dict, '{"a": 1}', {"a": 1}),
        (dict, '"hi"', "hi"),
        (dict, '{"text": "{bad"}', {"text": "{bad"}),
    ],
    ids=lambda value: str(value)[:20],
)
def test_pub_publishes_text_or_a_json_value_where_the_topic_carries_one(
    run: Run, domain: rtmw.Domain, kind: Any, text: str, expected: object
) -> None:
    with rtmw.Subscriber("t", kind, domain=domain) as subscriber:
        assert run("topic", "pub", "t", text) == (0, "published 1 on t for 1 subscriber\n", "")
        assert subscriber.receive(5).value == expected


@pytest.mark.parametrize("text", ["{bad", "hi", "NaN", "[" * 100_000], ids=lambda text: text[:9])
def test_pub_refuses_what_is_no_json_where_the_topic_carries_json(run: Run, domain: rtmw.Domain, text: str) -> None:
    with rtmw.Subscriber("t", dict, domain=domain) as subscriber:
        status, out, err = run("topic", "pub", "t", text)
        assert (status, out, len(err.splitlines())) == (1, "", 1), err
        assert "rtmw.Json" in err
        assert subscriber.take() is None


def test_pub_refuses_a_class_that_cannot_travel(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("topic", "pub", "t", "{}", "--type", "tests.types.postponed_classes:Tree")
    assert ended.value.code == 2
    assert "Tree.children[]: Tree would contain itself" in capsys.readouterr().err


def test_pub_publishes_json_as_the_type_that_the_topic_carries(run: Run, domain: rtmw.Domain) -> None:
    plain = '{"host": "pump", "source": "cpu", "severity": "WARNING", "text": "hot", "value": 2, "threshold": 1.5}'
    expected = telemetry.Alarm(
        host="pump", source="cpu", severity=telemetry.Severity.WARNING, text="hot", value=2.0, threshold=1.5
    )
    with rtmw.Subscriber("t", telemetry.Alarm, domain=domain) as subscriber:
        assert run("topic", "pub", "t", plain, "--history", "1") == (0, "published 1 on t for 1 subscriber\n", "")
        assert subscriber.receive(5).value == expected
    status, _, err = run("topic", "pub", "t", plain)
    assert (status, "no JSON" in err) == (0, False), "its queue still holds a message of that type"
    assert observe.topics(domain)[0].types == ("telemetry.Alarm",)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("hello", "t carries telemetry.Cpu, and 'hello' is no JSON: Expecting value"),
        ('{"a": 1}', "there is no a; there are host, percent"),
        ('{"host": "pump"}', "not set"),
        ("7", "expected an object of telemetry.Cpu, found 7"),
    ],
)
def test_pub_refuses_what_is_not_of_the_type_that_the_topic_carries(
    run: Run, domain: rtmw.Domain, value: str, said: str
) -> None:
    with rtmw.Publisher("t", telemetry.Cpu, domain=domain):
        status, out, err = run("topic", "pub", "t", value)
        assert (status, out, said in err) == (1, "", True), err
        (view,) = observe.topics(domain)
        assert (view.types, view.published) == (("telemetry.Cpu",), 0)


def test_pub_says_which_member_has_a_value_that_does_not_fit(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("t", np.dtype(np.int16), domain=domain) as subscriber:
        assert run("topic", "pub", "t", "[1, 2]")[0] == 0
        assert subscriber.receive(5).value.tolist() == [1, 2]
        status, _, err = run("topic", "pub", "t", "[1, 70000]")
        assert (status, "no such array can be made" in err) == (1, True)


@pytest.mark.parametrize("number", ["Infinity", "-1e999", "NaN", "1.5"])
def test_pub_refuses_a_number_that_is_not_whole_for_a_whole_one(run: Run, domain: rtmw.Domain, number: str) -> None:
    value = f'{{"host": "pump", "context_switches": {number}}}'
    status, out, err = run("topic", "pub", "t", value, "--type", "topics.telemetry:Cpu")
    assert (status, out, "context_switches" in err) == (1, "", True), err
    assert [view.published for view in observe.topics(domain)] in ([], [0])


def test_pub_publishes_bytes_on_a_typed_topic_only_if_told_to(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t", telemetry.Cpu, domain=domain), rtmw.Subscriber("t", domain=domain) as subscriber:
        status, _, err = run("topic", "pub", "t", "{}")
        assert status == 1
        assert "t carries 2 types" in err
        assert "--type" in err
        assert run("topic", "pub", "t", "{}", "--bytes")[0] == 0
        assert subscriber.receive(5).value == b"{}"


def test_pub_says_what_is_wrong_with_the_object(run: Run) -> None:
    status, _, err = run("topic", "pub", "t", '{"hots": "pump"}', "--type", "topics.telemetry:Cpu")
    assert status == 1
    assert "This is no Cpu: Cpu has no field hots" in err


def test_pub_waits_for_subscribers_and_says_if_there_are_none(run: Run) -> None:
    status, _, err = run("topic", "pub", "lonely", "x", "--wait", "1", "--timeout", "0.1")
    assert status == 1
    assert "lonely has 0 of 1 subscribers after 0.1 s; nothing was published." in err


def test_pub_ends_with_status_1_if_messages_were_refused(run: Run, domain: rtmw.Domain) -> None:
    reliable = rtmw.Reliability.RELIABLE
    with rtmw.Subscriber("full", domain=domain, reliability=reliable, depth=2):
        status, out, told = run(
            *("topic", "pub", "full", "x", "--count", "5", "--rate", "10000", "--reliability", "RELIABLE", "--json")
        )
        assert status == 1
        assert f"(pid {os.getpid()}): 2 messages unread, and its depth is 2" in told
        found = json.loads(out)
        assert (found["published"], found["refused"]) == (2, 3)


def test_pub_warns_when_nobody_gets_what_it_publishes(run: Run, domain: rtmw.Domain, domain_id: int) -> None:
    said = f"rtmw: no subscriber of t in domain {domain_id} is matched"
    status, out, err = run("topic", "pub", "t", "x")
    assert (status, out) == (0, "published 1 on t for 0 subscribers\n")
    assert err == f"{said}; rtmw topic info t shows who is there.\n"
    with rtmw.Subscriber("t", telemetry.Cpu, domain=domain):
        status, out, err = run("topic", "pub", "t", "x", "--bytes", "--json")
    assert (status, json.loads(out)["subscribers"]) == (0, 0)
    assert err.startswith(f"{said}:\n  subscriber of process ")
    assert "its type is telemetry.Cpu, this one's bytes" in err
