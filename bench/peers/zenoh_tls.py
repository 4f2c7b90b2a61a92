"""zenoh as between two hosts that trust nobody else: peer to peer over TLS, with certificates of both."""

from __future__ import annotations

import os
from pathlib import Path

from bench.certificates import AUTHORITY, CERTIFICATE, KEY
from bench.peers import Channel, Receiver, Sender
from bench.peers import zenoh as common
from bench.peers.zenoh_tcp import endpoint
from bench.stage import CERTIFICATES


def settings() -> dict[str, object]:
    folder = Path(os.environ[CERTIFICATES])
    certificate, key = str(folder / CERTIFICATE), str(folder / KEY)
    return {
        "transport/link/tls": {
            "root_ca_certificate": str(folder / AUTHORITY),
            "listen_certificate": certificate,
            "listen_private_key": key,
            "connect_certificate": certificate,
            "connect_private_key": key,
            "enable_mtls": True,
        }
    }


TLS = common.Way(lambda channel: endpoint(channel, "tls"), shared_memory=False, settings=settings)


def sender(channel: Channel) -> Sender:
    publisher = common.copier(channel, TLS)
    return Sender(publisher.put, kept=publisher)


def receiver(channel: Channel) -> Receiver:
    return common.receiver(channel, TLS)
