"""rtmw itself. Nothing lost is RELIABLE with a deep queue; else everything is as it comes."""

from __future__ import annotations

import rtmw
from bench.peers import PATIENCE, STAMP, Channel, Receiver, Sender, read_stamp

DEEP = 4096


def reliability(channel: Channel) -> rtmw.Reliability:
    return rtmw.Reliability.RELIABLE if channel.reliable else rtmw.Reliability.ADAPTIVE


def sender(channel: Channel) -> Sender:
    publisher = rtmw.Publisher(
        channel.name, domain=channel.domain, reliability=reliability(channel), max_blocking=PATIENCE
    )
    lend, size, write = publisher.loan, channel.size, STAMP.pack_into

    def loan(stamp: int) -> None:
        block = lend(size)
        write(block, 0, stamp)
        block.publish()

    return Sender(publisher.publish, loan, publisher.publish_many, kept=publisher)


def receiver(channel: Channel) -> Receiver:
    subscriber = rtmw.Subscriber(
        channel.name,
        domain=channel.domain,
        reliability=reliability(channel),
        depth=DEEP if channel.reliable else 64,
        spin=channel.spin,
    )

    def copy(sample: rtmw.Sample[bytes], to: memoryview) -> None:
        to[:] = sample.data

    return Receiver(subscriber.take, subscriber.receive, read_stamp, copy, subscriber.take_many, kept=subscriber)
