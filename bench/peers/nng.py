"""pynng: Pub0 and Sub0 over a Unix socket. It has no setting with which nothing is lost: what is lost is reported."""

from __future__ import annotations

import pynng

from bench.peers import Channel, Receiver, Sender

DEEP, SHALLOW = 4096, 64


def sender(channel: Channel) -> Sender:
    depth = DEEP if channel.reliable else SHALLOW
    publisher = pynng.Pub0(listen=f"ipc://{channel.place}/{channel.name}", send_buffer_size=depth)
    return Sender(publisher.send, kept=publisher)


def receiver(channel: Channel) -> Receiver:
    depth = DEEP if channel.reliable else SHALLOW
    subscriber = pynng.Sub0(topics=b"", recv_buffer_size=depth, recv_max_size=0)
    subscriber.dial(f"ipc://{channel.place}/{channel.name}", block=False)
    receive, nothing = subscriber.recv, pynng.TryAgain

    def take() -> bytes | None:
        try:
            return receive(block=False)
        except nothing:
            return None

    return Receiver(take, receive, kept=subscriber)
