"""`rtmw topic echo` on real domains: what it prints, and when it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rtmw
from rtmw import observe
from tests.child import Spawn
from tests.cli.command import Run
from topics import telemetry


def test_echo_prints_messages_with_their_fields_decoded_without_the_class(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("cpu", telemetry.Cpu, domain=domain, history=4) as publisher:
        publisher.publish(telemetry.Cpu(host="pump", percent=12.5, cores=[1.0, 24.0]))
        status, out, _ = run("topic", "echo", "cpu", "--count", "1", "--timeout", "5")
        assert status == 0
        assert "host: pump" in out
        assert "cores: [1, 24]" in out
        status, out, _ = run("topic", "echo", "cpu", "--count", "1", "--timeout", "5", "--json")
        message = json.loads(out)
        assert (message["topic"], message["sequence"] >= 0) == ("cpu", True)
        assert message["value"]["cores"] == [1.0, 24.0]


def test_echo_picks_a_field_and_filters(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("cpu", telemetry.Cpu, domain=domain, history=16) as publisher:
        for percent in (1.0, 60.0, 2.0, 70.0):
            publisher.publish(telemetry.Cpu(host="pump", percent=percent))
        chosen = ("--history", "16", "--count", "2", "--timeout", "5", "--filter", "percent > 50", "--field", "percent")
        _, out, _ = run("topic", "echo", "cpu", *chosen)
        assert [line for line in out.splitlines() if not line.startswith(("#", "-"))] == ["60", "70"]
        status, _, err = run("topic", "echo", "cpu", "--field", "speed", "--timeout", "5")
        assert status == 1
        assert "has no field speed; it has host, percent" in err


def shown(out: str) -> list[str]:
    return [line for line in out.splitlines() if not line.startswith(("#", "-"))]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (str, "hi there", ["hi there"]),
        (dict, {"n": 3, "names": ["a", "b"]}, ["n: 3", "names: [a, b]"]),
        (dict, [1, 2], ["[1, 2]"]),
        (dict, {}, ["{}"]),
    ],
    ids=str,
)
def test_echo_shows_texts_and_json_values_themselves(
    run: Run, domain: rtmw.Domain, kind: Any, value: Any, told: list[str]
) -> None:
    with rtmw.Publisher("t", kind, domain=domain, history=1) as publisher:
        publisher.publish(value)
        assert shown(run("topic", "echo", "t", "--count", "1")[1]) == told
        assert json.loads(run("topic", "echo", "t", "--count", "1", "--json")[1])["value"] == value


def test_echo_shows_json_of_any_depth(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("t", dict, domain=domain, history=1) as publisher:
        for depth in (100, 101, 300, 450):
            deep: Any = 1
            for _ in range(depth):
                deep = {"a": deep} if depth % 2 else [deep]
            publisher.publish(deep)
            for form in ((), ("--json",)):
                assert run("topic", "echo", "t", "--count", "1", *form)[::2] == (0, "")


def test_echo_picks_and_filters_members_of_json_values_and_the_data_of_texts(run: Run, domain: rtmw.Domain) -> None:
    with (
        rtmw.Publisher("settings", dict, domain=domain, history=9) as settings,
        rtmw.Publisher("chatter", str, domain=domain, history=9) as chatter,
    ):
        values: list[Any] = ["none", {"m": 1}, {"n": 1}, {"n": 2}]
        settings.publish_many(values)
        chosen = ("--history", "9", "--count", "1", "--timeout", "5")
        assert shown(run("topic", "echo", "settings", *chosen, "--filter", "n > 1", "--field", "n")[1]) == ["2"]
        chatter.publish_many(["a", "b"])
        assert shown(run("topic", "echo", "chatter", *chosen, "--filter", "data == b")[1]) == ["b"]
        assert shown(run("topic", "echo", "chatter", *chosen, "--field", "data")[1]) == ["a"]


def test_echo_gives_up_after_the_timeout(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("silent", domain=domain):
        status, _, err = run("topic", "echo", "silent", "--timeout", "0.1")
    assert status == 1
    assert "No message to show came on silent within 0.1 s." in err


def test_echo_of_a_domain_that_does_not_exist_does_not_make_it(run: Run, domain_id: int) -> None:
    status, _, err = run("topic", "echo", "t", "--timeout", "0.1")
    assert (status, len(err.splitlines())) == (1, 1)
    assert f"domain {domain_id} does not exist" in err
    assert "--wait waits for the topic." in err
    status, _, err = run("topic", "echo", "t", "--wait", "--timeout", "0.1")
    assert (status, err) == (1, f"rtmw: There is no domain {domain_id} after 0.1 s.\n")
    status, _, err = run("topic", "echo", "t*", "--wait", "--timeout", "0.1")
    assert (status, err) == (1, f"rtmw: There is no topic t* in domain {domain_id} after 0.1 s.\n")
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, create=False)


def test_echo_of_a_pattern_prints_the_messages_of_all_its_topics(run: Run, domain: rtmw.Domain) -> None:
    publishers = [rtmw.Publisher(f"pump/{number}", domain=domain, history=1) for number in range(3)]
    for publisher in publishers:
        publisher.publish(b"x")
    status, out, err = run("topic", "echo", "pump/+", "-n", "3", "--json", "--wait")
    assert (status, err) == (0, "")
    assert sorted(json.loads(line)["topic"] for line in out.splitlines()) == ["pump/0", "pump/1", "pump/2"]
    status, out, err = run("topic", "echo", "fan/#", "--timeout", "0.1")
    assert (status, out) == (1, "")
    assert "No topic of domain" in err
    assert "--wait waits for the topic." in err


def test_echo_of_what_is_no_pattern_is_refused(run: Run, domain_id: int) -> None:
    status, out, err = run("topic", "echo", "pump/#/x", "--wait")
    assert (status, out) == (1, "")
    assert "has to be the last level" in err


def test_echo_of_a_mistyped_name_does_not_make_the_topic(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("pump/speed", domain=domain):
        status, _, err = run("topic", "echo", "pump/sped", "--timeout", "0.1")
        assert status == 1
        assert "did you mean pump/speed? --wait waits for the topic." in err
        assert [view.name for view in observe.topics(domain)] == ["pump/speed"]


def test_echo_waits_for_a_topic_and_its_domain_if_told_to(run: Run, domain_id: int, spawn: Spawn) -> None:
    child = spawn(
        """
        import sys, rtmw
        sys.stdin.readline()
        with rtmw.Publisher("late", history=1) as publisher:
            publisher.publish(b"here")
            sys.stdin.readline()
        """
    )
    child.send()
    status, out, _ = run("topic", "echo", "late", "--wait", "--count", "1", "--timeout", "60")
    assert (status, "here" in out) == (0, True)


def test_echo_with_a_filter_that_no_message_can_pass_says_which_fields_there_are(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("cpu", telemetry.Cpu, domain=domain, history=4) as publisher:
        publisher.publish(telemetry.Cpu(host="pump"))
        for wrong, said in (("speed > 5", "has no field speed; it has host, percent"), ("host > 5", "'pump' as host")):
            status, out, err = run("topic", "echo", "cpu", "--filter", wrong)
            assert (status, out) == (1, "")
            assert said in err


def test_echo_with_a_filter_for_one_of_several_types_shows_that_one(run: Run, domain: rtmw.Domain) -> None:
    with (
        rtmw.Publisher("both", telemetry.Disk, domain=domain, history=4) as other,
        rtmw.Publisher("both", telemetry.Cpu, domain=domain, history=4) as publisher,
    ):
        other.publish_many([telemetry.Disk(host="tank")] * 2)
        publisher.publish(telemetry.Cpu(host="pump", percent=60.0))
        status, out, err = run("topic", "echo", "both", "--history", "9", "--filter", "percent > 5", "--count", "1")
        assert (status, "host: pump" in out, "tank" in out) == (0, True, False)
        assert len(err.splitlines()) == 1
        assert "messages of type telemetry" in err
        assert "has no field percent" in err
