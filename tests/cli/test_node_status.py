"""`rtmw node info` hears nodes alone: what other programs say on their topic is passed over."""

from __future__ import annotations

import json
import os

import pytest

import rtmw
from rtmw.cli.node_status import find_status
from rtmw.clock import CLOCK
from rtmw.net.settings import STATUS_TOPIC
from rtmw.publisher import OwnPublisher


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
        assert found["pid"] == os.getpid()
