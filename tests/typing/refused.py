"""What type checkers must refuse: each line marked `# refused` is one error. Checked by test_typing.py, never run."""

from __future__ import annotations

from dataclasses import dataclass

from cyclonedds.idl import IdlStruct

import rtmw


@dataclass
class Speed(IdlStruct):
    rpm: float


def misuse(publisher: rtmw.Publisher[Speed], subscriber: rtmw.Subscriber[Speed], raw: rtmw.Subscriber[bytes]) -> None:
    publisher.publish(b"bytes")  # refused
    publisher.publish(Speed(1.0), 3)  # refused
    publisher.publish(Speed(1.0), urgency=3)  # refused
    publisher.publish_many([1, 2])  # refused
    rtmw.Publisher("t", Speed, 3)  # refused
    rtmw.Publisher("t", str).publish(b"bytes")  # refused
    rtmw.Publisher("t", dict).publish("text")  # refused
    rtmw.Publisher("t", Speed, deadline=1.0)  # refused
    rtmw.Subscriber("t", Speed, lifetime=1.0)  # refused
    rtmw.WaitSet(publisher)  # refused
    print(subscriber.take().value)  # refused
    print(subscriber.receive().value.rpms)  # refused
    subscriber.listen(lambda sample: sample.value.rpms)  # refused
    print(raw.receive().value.rpm)  # refused
    subscriber.receive().sequence = 5  # refused


def tables(recording: rtmw.Recording) -> None:
    recording.to_arrow("t", until=3)  # refused
    recording.to_pandas("t", start=3.0)  # refused
    recording.to_polars(5)  # refused
