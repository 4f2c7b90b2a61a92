"""cyclonedds-python on the loopback interface alone, without multicast. A body is an array of bytes of fixed size.

Its wheel has no shared-memory plugin: bodies go through UDP on loopback.
"""

from __future__ import annotations

import os
from dataclasses import make_dataclass
from functools import cache
from typing import Any

from bench.peers import Channel, Receiver, Sender, read_stamp

CONFIGURATION = """<CycloneDDS><Domain><General>
<Interfaces><NetworkInterface name="lo" multicast="false"/></Interfaces><AllowMulticast>false</AllowMulticast>
<MaxMessageSize>65500B</MaxMessageSize><FragmentSize>65000B</FragmentSize></General>
<Discovery><ParticipantIndex>auto</ParticipantIndex><Peers><Peer Address="127.0.0.1"/></Peers></Discovery>
<Internal><SocketReceiveBufferSize min="default" max="4MiB"/></Internal>
<Tracing><Verbosity>none</Verbosity></Tracing></Domain></CycloneDDS>"""

os.environ["CYCLONEDDS_URI"] = CONFIGURATION

from cyclonedds.core import ReadCondition, SampleState, WaitSet  # noqa: E402 (reads the variable)
from cyclonedds.domain import DomainParticipant  # noqa: E402
from cyclonedds.idl import IdlStruct, types  # noqa: E402
from cyclonedds.pub import DataWriter  # noqa: E402
from cyclonedds.qos import Policy, Qos  # noqa: E402
from cyclonedds.sub import DataReader  # noqa: E402
from cyclonedds.topic import Topic  # noqa: E402
from cyclonedds.util import duration  # noqa: E402

DEEP, SHALLOW = 512, 16
A_SECOND = duration(seconds=1)


@cache
def participant(domain: int) -> Any:
    return DomainParticipant(domain)


@cache
def body_type(size: int) -> Any:
    member = types.array[types.uint8, size]
    return make_dataclass(f"Body{size}", [("body", member)], bases=(IdlStruct,), namespace={"__module__": __name__})


def quality(channel: Channel) -> Qos:
    if not channel.reliable:
        return Qos(Policy.Reliability.Reliable(duration(seconds=10)), Policy.History.KeepLast(SHALLOW))
    limits = Policy.ResourceLimits(DEEP, 1, DEEP)
    return Qos(Policy.Reliability.Reliable(duration(seconds=10)), Policy.History.KeepAll, limits)


def topic(channel: Channel) -> Any:
    return Topic(participant(channel.domain), channel.name, body_type(channel.size), qos=quality(channel))


def sender(channel: Channel) -> Sender:
    kind = body_type(channel.size)
    writer = DataWriter(participant(channel.domain), topic(channel), qos=quality(channel))
    write = writer.write

    def send(body: bytes) -> None:
        write(kind(body))

    return Sender(send, kept=writer)


def receiver(channel: Channel) -> Receiver:
    reader = DataReader(participant(channel.domain), topic(channel), qos=quality(channel))
    condition = ReadCondition(reader, SampleState.Any)
    waiting = WaitSet(participant(channel.domain))
    waiting.attach(condition)
    take_some, wait = reader.take, waiting.wait

    def take() -> Any:
        for sample in take_some(1):
            if sample.sample_info.valid_data:
                return sample
        return None

    def receive() -> Any:
        while (sample := take()) is None:
            wait(A_SECOND)
        return sample

    def read(sample: Any) -> tuple[int, ...]:
        return read_stamp(sample.body)

    return Receiver(take, receive, read, kept=(reader, waiting, condition))
