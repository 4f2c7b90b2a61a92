"""`rtmw node info` hears nodes alone: what other programs say on their topic is passed over."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import rtmw
from rtmw.cli.node_status import find_status
from rtmw.clock import CLOCK
from rtmw.net.settings import STATUS_TOPIC
from rtmw.observe.services import COUNTERS_TOPIC, transfers
from rtmw.publisher import OwnPublisher
from tests.cli.command import Run


def document(pid: int) -> bytes:
    return json.dumps({"pid": pid, "told_ns": CLOCK.monotonic_ns()}).encode()


@pytest.mark.parametrize(
    "odd", [b"hello", b"", b"\xff", b"7", b"{}", b"[" * 5000, b'{"pid": null, "told_ns": 1}', None]
)
def test_what_no_node_has_said_of_itself_is_passed_over(domain: rtmw.Domain, odd: bytes | None) -> None:
    with OwnPublisher(STATUS_TOPIC, domain=domain, history=1) as stranger:
        stranger.publish(document(os.getppid()) if odd is None else odd)
        assert find_status(domain.id, 0.05) is None
        stranger.publish(document(os.getpid()))
        found = find_status(domain.id, 0.05)
        assert found is not None
        assert found.pid == os.getpid()


def test_messages_that_were_not_delivered_are_shown_with_who_has_not_acknowledged(
    run: Run, domain: rtmw.Domain
) -> None:
    rows = [
        {"topic": "slow", "direction": "out", "messages": 3, "unacknowledged_by": ["far", "near"]},
        {"topic": "none", "direction": "out", "messages": 0, "unacknowledged_by": ["far"]},
        {"topic": "full", "direction": "in", "messages": 2, "unacknowledged_by": []},
    ]
    told = {"pid": os.getpid(), "told_ns": CLOCK.monotonic_ns(), "undelivered": rows}
    with OwnPublisher(STATUS_TOPIC, domain=domain, history=1) as node:
        node.publish(json.dumps(told).encode())
        status, out, _ = run("node", "info", "--domain", str(domain.id))
    assert status == 0
    assert re.search(r"slow +out +at least 3 +far, near\nnone +out +not known +far\nfull +in +2 +-\n", out)
    assert "What was sent and not acknowledged may have come or not" in out


def test_a_document_that_is_damaged_is_an_error_that_says_where_and_of_a_newer_node_is_read(
    run: Run, domain: rtmw.Domain
) -> None:
    told = {"pid": os.getpid(), "told_ns": CLOCK.monotonic_ns(), "newer": {"what": "ever"}, "rules": {"newer": 1}}
    asked = "node", "info", "--domain", str(domain.id)
    with OwnPublisher(STATUS_TOPIC, domain=domain, history=1) as node:
        node.publish(json.dumps(told).encode())
        assert run(*asked)[0] == 0
        assert json.loads(run(*asked, "--json")[1])["newer"] == {"what": "ever"}
        node.publish(json.dumps(told | {"participants": "many"}).encode())
        status, _, err = run(*asked)
    assert status == 1
    assert "participants in the document of the node is 'many'; it has to be a whole number" in err


def test_a_document_that_does_not_fit_is_a_fault_for_doctors_and_a_warning_for_graphs(
    run: Run, domain: rtmw.Domain, tmp_path: Path
) -> None:
    own: dict[str, object] = {"pid": os.getpid(), "told_ns": CLOCK.monotonic_ns(), "host": "here"}
    (tmp_path / "node.toml").write_text('dds_domain = 4\ninterface = "lo"\n')
    odd = {"host": "far", "domain": 7, "pid": 8, "program": "p", "topic": "t", "publishes": True, "type": "*"}
    of_domain = "--domain", str(domain.id)
    with OwnPublisher(STATUS_TOPIC, domain=domain, history=1) as node:
        node.publish(json.dumps(own | {"since": float("inf")}).encode())
        words = "since in the document of the node is inf; it has to be a number of less than 2^64"
        for asked in (("node", "doctor", *of_domain), ("node", "check", str(tmp_path / "node.toml"))):
            status, out, err = run(*asked, "--json")
            (check,) = (one for one in json.loads(out)["checks"] if one["name"] == "node")
            assert (status, err, check["found"]) == (1, "", words)
            assert check["advice"] == "another version of rtmw may say so: start it with this one"
        node.publish(json.dumps(own | {"elsewhere": [odd | {"reliability": "ODD"}]}).encode())
        status, _, err = run("graph", *of_domain)
        assert (status, "Other hosts are not shown: p uses t with 'ODD': that is no reliability" in err) == (0, True)
        node.publish(json.dumps(own | {"dds_domain": 1 << 40}).encode())
        status, out, err = run("node", "doctor", *of_domain, "--json")
        assert (status, err) == (1, "")
        assert f"there are none of DDS domain {1 << 40}" in out


def test_times_that_no_clock_tells_are_those_of_another_program(domain: rtmw.Domain) -> None:
    with (
        OwnPublisher(STATUS_TOPIC, domain=domain, history=1) as node,
        OwnPublisher(COUNTERS_TOPIC, domain=domain, history=1) as core,
    ):
        node.publish(json.dumps({"pid": os.getpid(), "told_ns": 10**400}).encode())
        core.publish(json.dumps({"told_ns": 10**400}).encode())
        assert find_status(domain.id, 0.05) is None
        assert transfers(domain) is None
