"""Many agents, silent ones and slow ones, and rules that change under load. `make torture` has the whole sizes."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from rtmw.net.session.sockets import Backoff
from rtmw.relay import Frame
from rtmw.relay.frame import SIZE_OF_WELCOME, Hello, Welcome, address_of
from rtmw.relay.settings import read_relay
from tests.net.security.site import Site
from tests.relay.servers import SETTINGS, Peer, Relay, stamp
from tests.whole import sample

AGENTS: Final = len(sample(range(10_000), 500))
CERTIFIED: Final = len(sample(range(500), 80))
SILENT: Final = len(sample(range(1_000), 150))
"""More than may be pending at the door, in any case."""
SLOW: Final = 100
MEMORY_MOST: Final = 32 << 10
"""Bytes of the server for each agent that is connected."""
RELOADS: Final = len(sample(range(40), 6))
LOAD: Final = 100
"""Orders for each change of the rules, which comes in their middle."""
PAGE: Final = resource.getpagesize()


@contextmanager
def served(folder: Path, settings: str = SETTINGS) -> Iterator[Relay]:
    relay = Relay(folder, settings)
    relay.start()
    try:
        yield relay
    finally:
        relay.kill()


def memory(relay: Relay) -> int:
    """Bytes of its process."""
    assert relay.process is not None
    return int(Path(f"/proc/{relay.process.pid}/statm").read_text().split()[1]) * PAGE


def exchange(source: Peer, recipient: Peer) -> None:
    """An order, delivered with both receipts."""
    source.order(recipient.address, b"gate 12")
    came = recipient.take()
    assert came.data == b"gate 12"
    recipient.confirm(came)
    assert source.take().body == b""


# Proves R1, R10.
def test_plain_agents_cost_the_server_at_most_32_kib_each_and_each_is_reached(tmp_path: Path) -> None:
    names = [f"{number:04X}" for number in range(AGENTS)]
    listed = "".join(f'[[agent]]\nname = "{name}"\nfrom = "127.0.0.1"\n' for name in names)
    rules = f'[[allow]]\npeer = "agent:{names[0]}"\norder = ["*/I"]\n'
    with open_files(2 * AGENTS), served(tmp_path, f'[relay]\nlisten = ["127.0.0.1:0"]\n{listed}{rules}') as relay:
        first = Peer(relay, names[0])
        exchange(first, Peer(relay, names[1]))
        before = memory(relay)
        peers = [Peer(relay, name) for name in names[2:]]
        for peer in (peers[0], peers[len(peers) // 2], peers[-1]):
            exchange(first, peer)
        assert memory(relay) - before <= MEMORY_MOST * AGENTS


@contextmanager
def open_files(most: int) -> Iterator[None]:
    """That this process may have so many, and what it has anyway."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < most:
        pytest.skip(f"needs {most} open files, and the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, most + 1024)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Proves R10.
def test_agents_with_certificates_come_in_from_one_address_at_once(tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    names = [f"{number:04X}" for number in range(CERTIFIED)]
    listed = "".join(f'[[agent]]\nname = "{name}"\npeer = "rtmw://plant/desk"\n' for name in names)
    rules = '[[allow]]\npeer = "agent:*"\norder = ["*/I"]\n'
    relay_of_all = f'[relay]\nkeys = "{site.keys("rtmw://plant/hub")}"\nlisten = ["127.0.0.1:0"]\n{listed}{rules}'
    with served(tmp_path, relay_of_all) as relay:
        desk = site.node("rtmw://plant/desk").client_context()

        async def all_come() -> None:
            await left(await come(relay.port, names[0], desk))
            await sealed(relay)
            await left(await come(relay.port, names[0], desk))
            before = memory(relay)
            came = await asyncio.gather(*(come(relay.port, name, desk) for name in names))
            assert memory(relay) - before <= 3 * MEMORY_MOST * CERTIFIED
            assert [one.transport.is_closing() for one in came] == [False] * CERTIFIED
            for one in came:
                await left(one)

        asyncio.run(all_come())


async def sealed(relay: Relay) -> None:
    """The relay is at its first seal, of the row of an agent that has come: it loads numpy for that, 12 MiB."""
    assert relay.process is not None
    while "_multiarray_umath" not in Path(f"/proc/{relay.process.pid}/maps").read_text():
        await asyncio.sleep(0.02)


async def come(port: int, name: str, context: ssl.SSLContext) -> asyncio.StreamWriter:
    """As agents do: again and again, until the relay has welcomed it."""
    async for _ in Backoff(0.1, 1.0):
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="")
            try:
                writer.write(Hello(address_of(name), 100.0, 3).encode())
                Welcome.decode(await reader.readexactly(SIZE_OF_WELCOME))
            except (OSError, EOFError):
                await left(writer)
            else:
                return writer
    raise AssertionError("it tries for ever")


async def left(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


# Proves G333.
def test_connections_that_say_nothing_keep_nobody_out(tmp_path: Path) -> None:
    with served(tmp_path) as relay, ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", relay.port))) for _ in range(SILENT)]
        exchange(Peer(relay, "AODB"), Peer(relay, "GATE"))
        for one in silent[: SILENT // 2]:  # newer ones have taken their places at the door
            one.settimeout(60)
            assert one.recv(1) == b""


# Proves G333.
def test_a_program_that_sends_byte_by_byte_keeps_nobody_waiting(tmp_path: Path) -> None:
    frame = Frame("KEEP", "none", stamp(), "A", "I", bytes(25)).encode()
    with served(tmp_path) as relay, ExitStack() as stack:
        source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", relay.port))) for _ in range(SLOW)]
        for place in range(len(frame) - 1):
            for one in slow:
                try:
                    one.send(frame[place : place + 1])
                except OSError:  # it had to give way at the door
                    continue
            exchange(source, gate)
        patient = Peer(slow[-1], "KEEP", introduced=False)
        patient.socket.send(frame[-1:])
        exchange(source, patient)


# Proves G334, R11.
def test_each_row_names_the_rules_that_judged_it_also_while_they_change_under_load(tmp_path: Path) -> None:
    texts = [SETTINGS.replace('deny = ["GATE/D"]', f"priority = {priority}") for priority in (4, 5)]
    given, sent = dict[str, int](), 0
    with served(tmp_path) as relay:
        assert relay.process is not None
        source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
        threading.Thread(target=confirm_all, args=(gate,), daemon=True).start()
        for number in range(RELOADS):
            relay.file.write_text(texts[number % 2])
            given[read_relay(relay.file).rules.version] = 4 + number % 2
            for at in range(LOAD):
                if at == LOAD // 2:
                    relay.process.send_signal(signal.SIGHUP)
                source.order("GATE", b"gate 12")
            sent += LOAD
            for _ in range(LOAD):
                source.take()
            relay.until("settings read again")
        relay.end()
        rows = [row for row in relay.rows() if row.kind == "STORED"]
    assert len(rows) == sent
    assert {row.version for row in rows} >= set(given)
    assert all(row.priority == given.get(row.version, 3) for row in rows)


def confirm_all(gate: Peer) -> None:
    with suppress(OSError):  # the relay has ended
        for frame in gate.frames():
            gate.confirm(frame)
