"""A host on which every name that others choose means harm: topics, types, programs, peers, letters, files, keys."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mcap.writer import Writer

import rtmw
from rtmw.net.dds.own_topics import Beacon
from tests.child import Child
from tests.conftest import free_number
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.stranger import beacon, stranger_in

EVIL = "\x1b]0;x\x07\x1b[31m\n\r\x7f\x9b2J\u202e\u2066\u200b\ufeff\u2028\u3164<script>\"'\\&$x$"
"""It steers terminals, ends lines, turns the direction of reading, hides, and closes quotes of other languages."""
TOPIC = "evil\u202e\u2066\u200b\x9b2J\u3164\"'\\<script>&$x$"
"""As much of that as the name of a topic may have."""
STUCK = TOPIC + "/stuck"
MEMBER = "x\u202e\u200b<b>"
SHOWN = "\\u202e"
"""A part of each of them, as people may see it."""
FOLDER = "evil\x1b[31m\n\u202e\u200b"

PROGRAM = """
    import json
    import logging
    import time
    import rtmw

    topic, stuck = json.loads(input())
    server = rtmw.Service(topic, lambda value: value)
    kept = rtmw.Subscriber(stuck, bytes, depth=1, reliability=rtmw.Reliability.RELIABLE)
    publisher, reader = rtmw.Publisher(topic, bytes, history=4), rtmw.Subscriber(topic, bytes)
    with rtmw.Publisher(stuck, bytes, reliability=rtmw.Reliability.RELIABLE) as first:
        first.publish(b"unread")
    logging.getLogger(topic).addHandler(rtmw.LogHandler(topic + "/lines"))
    logging.getLogger(topic).error("text \\x1b[31m\\u202e\\n%s", topic, exc_info=ValueError(topic))
    print("ready", flush=True)
    while True:
        publisher.publish("text \\x1b[31m\\u202e\\n---".encode())
        time.sleep(0.02)
"""


@dataclass(frozen=True)
class World:
    """Where everything is."""

    number: int
    folder: Path
    """Its name is hostile, too."""
    recording: Path
    log: Path
    settings: Path
    wait_heard: Callable[[], None]
    """A stranger calls itself a node, and is heard."""


@contextmanager
def hostile_world(folder: Path) -> Iterator[World]:
    """A domain with a node and a core of transfers, another node, a stranger on the network, a program, and files."""
    evil = folder / FOLDER
    evil.mkdir()
    recording, log, settings = evil / "evil\u202e.mcap", evil / "log", folder / "n.toml"
    write_recording(recording)
    write_log(log)
    settings.write_text(f"topics_out = [{json.dumps(TOPIC)}]\npeers = ['127.0.0.1']\ninterface = 'lo'\n")
    with ExitStack() as stack:
        host = Host(free_number(), free_number(), folder)
        stack.callback(host.end)
        host.start("--serve", "transfer", "--data", str(folder / "data"))
        other = Host(free_number(), host.dds_domain, folder)
        stack.callback(other.end)
        other.start()
        env = {**os.environ, "RTMW_DOMAIN": str(host.number), "PYTHONPATH": str(host.code)}
        child = Child(PROGRAM, evil / "evil\x1b[31m\u202e.py", env)
        stack.callback(child.end)
        child.send(json.dumps([TOPIC, STUCK]))
        assert child.line() == "ready"
        stranger = stack.enter_context(stranger_in(host.dds_domain))
        again = stranger.tell("rtmw/node", Beacon, beacon(7, EVIL.replace("\n", "")))

        def is_heard() -> bool:
            again()
            return any(SHOWN in peer["host"] for peer in host.info()["peers"])

        heard = partial(wait_until, is_heard, "the stranger is not heard")
        send_letters(host.domain, evil)
        yield World(host.number, evil, recording, log, settings, heard)


def write_recording(path: Path) -> None:
    """A recording of another program, which holds all that MCAP allows."""
    schema = json.dumps({"type": "object", "properties": {MEMBER: {"type": "number"}, "n": {"type": "number"}}})
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start(profile=EVIL, library=EVIL)
        kind = writer.register_schema("type" + EVIL, "jsonschema", schema.encode())
        channel = writer.register_channel("topic" + EVIL, "json", kind, metadata={EVIL: EVIL})
        broken = writer.register_channel("broken" + EVIL, "json", kind)
        for turn in range(20):
            at = 10**18 + turn * 10**8
            writer.add_message(channel, at, json.dumps({MEMBER: 1.5, "n": turn}).encode(), at, turn)
        writer.add_message(broken, at, b'{"n": "' + EVIL.encode(), at, 0)
        writer.add_attachment(at, at, "attached" + EVIL, "text/plain", b"hello")
        writer.add_metadata("data" + EVIL, {EVIL: EVIL})
        writer.finish()


def write_log(path: Path) -> None:
    with rtmw.Log(path) as log:
        log.append(EVIL.encode(), key=EVIL, id=EVIL)


def send_letters(domain: rtmw.Domain, folder: Path) -> None:
    """One is refused, for a reason that its receiver chose; two of files wait."""
    with (
        rtmw.Sender("gauge", domain=domain, wait=PATIENCE) as sender,
        rtmw.Inbox("ingest", domain=domain, wait=PATIENCE) as inbox,
    ):
        sent = sender.send("ingest", b"poison", delivery=rtmw.Delivery.LOG)
        letter = inbox.take(PATIENCE)
        assert letter is not None
        letter.refuse(EVIL)
        wait_until(lambda: sent.has_ended, "the letter has ended")
        for number in range(2):
            file = folder / f"sent{number}\u202e.bin"
            file.write_bytes(b"data")
            sender.send("files", rtmw.File(file, file.name), delivery=rtmw.Delivery.LOG)
