"""What type checkers must infer for users of rtmw. Checked by test_typing.py, and never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, assert_type

import msgspec
import numpy as np
import pydantic
from cyclonedds.idl import IdlStruct
from numpy.typing import NDArray

import rtmw


@dataclass
class Speed(IdlStruct):
    rpm: float


@dataclass
class Plain:
    pump: rtmw.int32
    load: rtmw.float32
    note: str | None = None


class Struct(msgspec.Struct):
    pump: rtmw.uint8


class Model(pydantic.BaseModel):
    pump: rtmw.int64


def classes(log: rtmw.Log[Plain]) -> None:
    assert_type(rtmw.Publisher("t", Plain), rtmw.Publisher[Plain])
    assert_type(rtmw.Publisher("t", Struct), rtmw.Publisher[Struct])
    assert_type(rtmw.Publisher("t", Model), rtmw.Publisher[Model])
    assert_type(rtmw.Publisher("chatter", str), rtmw.Publisher[str])
    assert_type(rtmw.Publisher("settings", dict, history=1), rtmw.Publisher[dict[str, Any]])
    assert_type(rtmw.Subscriber("t", Plain).receive().value.pump, int)
    assert_type(rtmw.Subscriber("t", Plain).receive().value.load, float)
    assert_type(rtmw.Subscriber("t", Struct).receive().value.pump, int)
    assert_type(rtmw.Subscriber("t", Model).receive().value, Model)
    assert_type(rtmw.Subscriber("chatter", str).receive().value, str)
    assert_type(rtmw.Subscriber("settings", dict).receive().value, dict[str, Any])
    assert_type(rtmw.Log("log/", dict), rtmw.Log[dict[str, Any]])
    log.append(Plain(1, 0.5))


def publishers(domain: rtmw.Domain) -> None:
    assert_type(rtmw.Publisher("t"), rtmw.Publisher[bytes])
    assert_type(rtmw.Publisher("t", bytes, priority=3, domain=domain), rtmw.Publisher[bytes])
    assert_type(rtmw.Publisher("t", Speed, domain=7, lifetime=None), rtmw.Publisher[Speed])
    assert_type(rtmw.Publisher("t", np.float32), rtmw.Publisher[NDArray[np.float32]])
    assert_type(rtmw.Publisher("t", np.dtype(np.int16)), rtmw.Publisher[NDArray[np.int16]])


def publishing(publisher: rtmw.Publisher[Speed]) -> None:
    assert_type(publisher.publish(Speed(1.0), priority=7, lifetime=1, valid_until=None), bool)
    assert_type(publisher.publish_many(Speed(number) for number in range(3)), int)
    assert_type(publisher.wait_for_subscribers(2, timeout=1.0), bool)
    assert_type(publisher.subscribers, int)
    assert_type(publisher.stats(), rtmw.PublisherStats)
    assert_type(publisher.stats().refused, tuple[str, ...])
    with publisher.loan(100, priority=1) as loan:
        assert_type(loan, rtmw.Loan)
        assert_type(loan.publish(), bool)
        np.frombuffer(loan.data, np.uint8)[:] = 1
    with publisher as same:
        assert_type(same, rtmw.Publisher[Speed])


def subscribers() -> None:
    assert_type(rtmw.Subscriber("t"), rtmw.Subscriber[bytes])
    assert_type(rtmw.Subscriber("t", Speed, deadline=0.5), rtmw.Subscriber[Speed])
    assert_type(rtmw.Subscriber("t", np.float64, history=3), rtmw.Subscriber[NDArray[np.float64]])
    assert_type(rtmw.Subscriber("t", rtmw.ANY), rtmw.Subscriber[Any])


def reading(subscriber: rtmw.Subscriber[Speed]) -> None:
    assert_type(subscriber.take(), rtmw.Sample[Speed] | None)
    assert_type(subscriber.take_many(3), list[rtmw.Sample[Speed]])
    assert_type(subscriber.receive(timeout=1.0), rtmw.Sample[Speed])
    assert_type(subscriber.receive().value, Speed)
    assert_type(subscriber.receive().value.rpm, float)
    assert_type(iter(subscriber), Iterator[rtmw.Sample[Speed]])
    assert_type(subscriber.fileno(), int)
    assert_type(subscriber.stats(), rtmw.SubscriberStats)
    assert_type(subscriber.listen(lambda sample: sample.value.rpm), rtmw.Listener[Speed])
    for sample in subscriber:
        assert_type(sample.value, Speed)
    with subscriber as same:
        assert_type(same, rtmw.Subscriber[Speed])


async def awaiting(subscriber: rtmw.Subscriber[Speed]) -> None:
    async for sample in subscriber:
        assert_type(sample, rtmw.Sample[Speed])
    assert_type(await anext(subscriber), rtmw.Sample[Speed])
    iterator: AsyncIterator[rtmw.Sample[Speed]] = subscriber
    del iterator


def samples(sample: rtmw.Sample[Speed]) -> None:
    assert_type(sample.data, memoryview)
    assert_type(sample.topic, str)
    assert_type(sample.type_name, str)
    assert_type(sample.sequence, int)
    assert_type(sample.priority, int)
    assert_type(sample.source_time_ns, int)
    assert_type(sample.expires_ns, int | None)
    assert_type(sample.publisher, int)


def waiting(first: rtmw.Subscriber[Speed], second: rtmw.Subscriber[bytes]) -> None:
    assert_type(rtmw.WaitSet(first, second).wait(timeout=None), list[rtmw.Subscriber[Any]])


def profiles() -> None:
    assert_type(rtmw.Publisher("t", Speed, **rtmw.profiles.SIGNAL.publisher), rtmw.Publisher[Speed])
    assert_type(rtmw.Subscriber("t", Speed, **rtmw.profiles.SIGNAL.subscriber), rtmw.Subscriber[Speed])


def tables(recording: rtmw.Recording) -> None:
    assert_type(str(recording.planned("t", start="2026-11-22", columns=["rpm"])), str)
    assert_type(recording.planned().read.chunks, int)
    assert_type(recording.to_arrow("t", end=5, typed=False).num_rows, Any)
    assert_type(recording.to_polars("t").height, int)
