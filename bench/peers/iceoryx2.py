"""iceoryx2: a service of byte slices, written and read by raw pointer (its fastest way), with an event service to wake.

The receiver sleeps in its listener. Messages of one channel have one size here, so a slice is loaned at that size.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import iceoryx2 as iox2

from bench.peers import Channel, Receiver, Sender

DEEP, SHALLOW = 1024, 16
MOST_BYTES = 64 << 20
"""Of a publisher's memory; its queues are made shorter for larger messages."""

iox2.set_log_level(iox2.LogLevel.Fatal)


@cache
def node() -> Any:
    """One a process."""
    return iox2.NodeBuilder.new().signal_handling_mode(iox2.SignalHandlingMode.Disabled).create(iox2.ServiceType.Ipc)


@cache
def service(channel: Channel) -> Service:
    return Service(channel)


class Service:
    """The two services of a channel, as both sides open them."""

    def __init__(self, channel: Channel) -> None:
        name = iox2.ServiceName.new(channel.name)
        depth = max(2, min(DEEP if channel.reliable else SHALLOW, MOST_BYTES // channel.size))
        self.messages = (
            node()
            .service_builder(name)
            .publish_subscribe(iox2.Slice[ctypes.c_uint8])
            .enable_safe_overflow(not channel.reliable)
            .subscriber_max_buffer_size(depth)
            .max_subscribers(max(2, channel.readers))
            .max_publishers(1)
            .open_or_create()
        )
        self.events = node().service_builder(name).event().open_or_create() if channel.waits else None


def sender(channel: Channel) -> Sender:
    services = service(channel)
    strategy = iox2.BackpressureStrategy
    publisher = (
        services.messages.publisher_builder()
        .initial_max_slice_len(channel.size)
        .backpressure_strategy(strategy.RetryUntilDelivered if channel.reliable else strategy.DiscardData)
        .create()
    )
    notifier = services.events.notifier_builder().create() if services.events else None
    lend, size, move, word = publisher.loan_slice_uninit, channel.size, ctypes.memmove, ctypes.c_int64

    def send(body: bytes) -> None:
        block = lend(size)
        move(block.payload_ptr, body, size)
        block.assume_init().send()

    def loan(stamp: int) -> None:
        block = lend(size)
        word.from_address(block.payload_ptr).value = stamp
        block.assume_init().send()

    if notifier is None:
        return Sender(send, loan, kept=(services, publisher))
    notify = notifier.notify

    def send_and_wake(body: bytes) -> None:
        send(body)
        notify()

    return Sender(send_and_wake, kept=(services, publisher, notifier))


def receiver(channel: Channel) -> Receiver:
    services = service(channel)
    subscriber = services.messages.subscriber_builder().create()
    listener = services.events.listener_builder().create() if services.events else None
    take, word, size = subscriber.receive, ctypes.c_int64, channel.size

    def receive() -> Any:
        assert listener is not None
        while (sample := take()) is None:
            listener.blocking_wait()
        return sample

    def read(sample: Any) -> tuple[int, ...]:
        return (word.from_address(sample.payload_ptr).value,)

    def copy(sample: Any, to: memoryview) -> None:
        ctypes.memmove((ctypes.c_char * size).from_buffer(to), sample.payload_ptr, size)

    return Receiver(take, receive, read, copy, kept=(services, subscriber, listener))
