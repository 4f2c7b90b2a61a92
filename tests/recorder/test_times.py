"""Times of messages that are none."""

from __future__ import annotations

import ctypes
from pathlib import Path

import rtmw
from rtmw.shm import _core
from tests.recorder.files import messages_of


class MessageQos(ctypes.Structure):
    """`rtmw_message_qos` of rtmw.h."""

    _fields_ = (
        ("priority", ctypes.c_int),
        ("lifetime_ns", ctypes.c_uint64),
        ("expires_ns", ctypes.c_uint64),
        ("source_time_ns", ctypes.c_uint64),
        ("publisher", ctypes.c_uint64),
    )


class PublisherQos(ctypes.Structure):
    """`rtmw_publisher_qos` of rtmw.h."""

    _fields_ = (
        ("reliability", ctypes.c_int),
        ("priority", ctypes.c_uint8),
        ("depth", ctypes.c_uint32),
        ("history", ctypes.c_uint32),
        ("lifetime_ns", ctypes.c_uint64),
    )


def publish_with(domain: int, topic: str, payload: bytes, qos: MessageQos) -> None:
    """As a program in C may: with any times."""
    core = ctypes.CDLL(_core.__file__)
    region, publisher = ctypes.c_void_p(), ctypes.c_void_p()
    own = PublisherQos(1, 0, 64, 0, 0)
    assert core.rtmw_attach(domain, ctypes.byref(region)) == 0
    try:
        assert core.rtmw_publisher_open(region, topic.encode(), None, ctypes.byref(own), ctypes.byref(publisher)) == 0
        assert core.rtmw_publish(publisher, payload, ctypes.c_uint64(len(payload)), ctypes.byref(qos)) == 0
    finally:
        core.rtmw_detach(region)


def test_times_that_no_clock_shows_do_not_make_a_recording_unreadable(domain: rtmw.Domain, tmp_path: Path) -> None:
    with rtmw.Recorder("a", tmp_path / "run", domain=domain) as recorder:
        qos = MessageQos(priority=-1, expires_ns=(1 << 64) - 1, source_time_ns=(1 << 64) - 5)
        publish_with(domain.id, "a", b"from nowhere", qos)
    (message,) = messages_of(recorder.paths)
    assert message.payload == b"from nowhere"
    assert message.publish_time == message.log_time
    assert message.expires == 0
