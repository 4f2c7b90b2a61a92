"""pyzmq: PUB and SUB over a Unix socket; nothing lost is XPUB_NODROP, with which the sender waits."""

from __future__ import annotations

import zmq

from bench.peers import Channel, Receiver, Sender

DEEP, SHALLOW = 4096, 64

_context = zmq.Context.instance()


def socket(kind: int, channel: Channel) -> zmq.Socket[bytes]:
    made = _context.socket(kind)
    made.linger = 0
    made.set_hwm(DEEP if channel.reliable or channel.readers == 1 else SHALLOW)
    return made


def sender(channel: Channel) -> Sender:
    publisher = socket(zmq.XPUB, channel)
    publisher.setsockopt(zmq.XPUB_NODROP, int(channel.reliable))
    publisher.bind(f"ipc://{channel.place}/{channel.name}")
    return Sender(publisher.send, kept=publisher)


def receiver(channel: Channel) -> Receiver:
    subscriber = socket(zmq.SUB, channel)
    subscriber.connect(f"ipc://{channel.place}/{channel.name}")
    subscriber.setsockopt(zmq.SUBSCRIBE, b"")
    receive, nothing, at_once = subscriber.recv, zmq.Again, zmq.NOBLOCK

    def take() -> bytes | None:
        try:
            return receive(at_once)
        except nothing:
            return None

    return Receiver(take, receive, kept=subscriber)
