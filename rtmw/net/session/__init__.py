"""Authenticated sessions between nodes: streams of bytes with credit, acknowledgement, priority, resume after a cut.

Carrier (asyncio: sockets, TLS, timers) ─► Session, Stream             what services use
   └─ Meetings: which connection carries which session                 no I/O
         └─ Core: one session; step(event, now) -> effects             no I/O
              ├─ state: streams, controls, credit, and the program's requests
              └─ frames, hello                                         bytes: docs/formats/session.md

async with Carrier(uuid4(), identity=Identity.load("keys/")) as carrier:
    session = await carrier.connect("hub.plant", 7447)
    async with session.open("log orders", priority=3, position=lsn) as stream:
        await stream.write(records)
        await stream.reached(lsn + len(records), durable=True)
"""

from __future__ import annotations

from rtmw.net.session.carrier import Carrier
from rtmw.net.session.errors import Code
from rtmw.net.session.hello import Hello, Terms
from rtmw.net.session.session import Session, Stream

__all__ = ["Carrier", "Code", "Hello", "Session", "Stream", "Terms"]
