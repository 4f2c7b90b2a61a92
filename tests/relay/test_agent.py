"""`rtmw.Agent` beside real relays (R1, R7, R9): what becomes of an order, over losses, kills and cuts."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from decimal import Decimal
from pathlib import Path

import pytest

import rtmw
from rtmw import DispatchState
from rtmw.relay.agent import Entry
from rtmw.relay.frame import Frame, Kind, Packet, Stamps, Welcome, encode
from tests.net.hosts import wait_until
from tests.net.security.site import Site
from tests.page import programs
from tests.ports import free_port
from tests.relay.servers import PATIENCE, SETTINGS, Cut, Peer, Relay, Silent
from tests.whole import IS_WHOLE

AT_ONE_SOCKET = SETTINGS.replace('from = "127.0.0.1"', f"uid = {os.getuid()}")
"""So the place of the relay is the same over restarts."""
KILLS = 12 if IS_WHOLE else 2
PATIENT = AT_ONE_SOCKET.replace('t1 = "2s"', 't1 = "120s"').replace('t2 = "200ms"', 't2 = "20s"')


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """Of all tests that leave nothing open in it."""
    made = Relay(tmp_path_factory.mktemp("relay"), AT_ONE_SOCKET)
    made.start()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """The same, and its T2 is never over within a test."""
    made = Relay(tmp_path_factory.mktemp("patient"), PATIENT)
    made.start()
    yield made
    made.kill()


@pytest.fixture
def agent() -> Iterator[Callable[..., rtmw.Agent]]:
    with ExitStack() as stack:

        def make(relay: Relay, address: str, **options: object) -> rtmw.Agent:
            made = rtmw.Agent(address, server=f"unix:{relay.folder}/relay.sock", **options)  # type: ignore[arg-type]
            return stack.enter_context(made)

        yield make


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Relay]:
    """One that the test starts and kills."""
    made = Relay(tmp_path, PATIENT)
    yield made
    made.kill()


Make = Callable[..., rtmw.Agent]


def take(agent: rtmw.Agent, count: int) -> list[rtmw.Order]:
    """The next ones; each is over when this returns."""
    return list(itertools.islice(agent, count))


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Silent]:
    made = Silent(tmp_path)
    yield made
    made.close()


# Proves R1, R3.
def test_an_order_is_given_taken_confirmed_and_answered(relay: Relay, agent: Make) -> None:
    source, gate = agent(relay, "AODB"), agent(relay, "GATE")
    sent = source.send("GATE", b"CA981\ngate 12\0", command="U")
    (order,) = take(gate, 1)
    assert (order.id, order.sender, order.command, order.body) == (sent.id, "AODB", "U", b"CA981\ngate 12\0")
    assert (order.redelivered, order.answers, order.stamp.decode()) == (False, None, sent.id.partition("/")[2])
    assert sent.wait(PATIENCE) is DispatchState.DELIVERED
    answered = order.answer(b"at the\ngate")
    (answer,) = take(source, 1)
    assert (answer.answers, answer.sender, answer.body) == (sent.id, "GATE", b"at the\ngate")
    assert answered.wait(PATIENCE) is DispatchState.DELIVERED


def test_what_becomes_of_an_order_is_its_state_and_the_cause_is_in_words(relay: Relay, agent: Make) -> None:
    source = agent(relay, "AODB")
    denied, unknown = source.send("GATE", b"x", command="D"), source.send("NONE", b"x")
    assert (denied.wait(PATIENCE), denied.cause) == (DispatchState.REFUSED, "a rule denies it")
    assert (unknown.wait(PATIENCE), unknown.cause) == (DispatchState.REFUSED, "there is no address NONE")
    absent = source.send("GATE", b"x")
    assert absent.wait(PATIENCE) is DispatchState.UNDELIVERED
    assert absent.cause == "GATE: UNDELIVERED, not connected"
    brief = source.send("KEEP", b"x", lifetime=0.2)
    wait_until(lambda: brief.state is not DispatchState.WAITING, "stored")
    assert brief.wait(PATIENCE) is DispatchState.EXPIRED
    group = source.send("ALL", b"x", lifetime=1.5)
    assert group.wait(PATIENCE) is DispatchState.UNDELIVERED
    assert "KEEP: EXPIRED" in group.cause
    assert source.alerts() == []
    counted = source.stats()
    assert (counted["sent"], counted["REFUSED"], counted["UNDELIVERED"], counted["EXPIRED"]) == (5, 2, 2, 1)


def test_an_order_for_who_is_away_is_stored_and_delivered_when_he_comes(relay: Relay, agent: Make) -> None:
    source = agent(relay, "AODB", t1=0.2, n1=1)
    sent = source.send("KEEP", b"later")
    wait_until(lambda: sent.state is DispatchState.STORED, "the agent hears of it")
    with pytest.raises(TimeoutError, match=r"order AODB/\S+ is STORED after 0.5 s; it goes on"):
        sent.wait(0.5)  # longer than T1·(N1+1), which has stopped
    assert [order.body for order in take(agent(relay, "KEEP"), 1)] == [b"later"]
    assert sent.wait(PATIENCE) is DispatchState.DELIVERED
    assert source.stats()["frames"] == 1


# Proves G325.
def test_a_late_receipt_corrects_what_was_told(relay: Relay, agent: Make) -> None:
    source, gate = agent(relay, "AODB"), agent(relay, "GATE")
    sent = source.send("GATE", b"x")
    assert sent.wait(PATIENCE) is DispatchState.UNCONFIRMED  # it is there, and the program does not take it
    assert sent.cause == "GATE: UNCONFIRMED, no receipt within 0.6 s"
    take(gate, 1)
    wait_until(lambda: sent.state is DispatchState.DELIVERED, "the agent hears of it")
    assert source.stats()["late DELIVERED"] == 1
    assert gate.stats()["duplicates"] == 2, "that came again, and were not handed out again"


# Proves G325, R3, R7.
def test_what_is_not_answered_is_sent_again_n1_times_and_then_unanswered(silent: Silent) -> None:
    with rtmw.Agent("AODB", server=silent.place, t1=0.1, n1=2) as source:
        sent = source.send("GATE", b"x")
        connection = silent.accept()
        packets = list(itertools.islice(silent.packets(connection), 3))
        assert sent.wait(PATIENCE) is DispatchState.UNANSWERED
        assert sent.cause == "the relay has not answered within 0.3 s, and may have it"
        assert packets == [packets[0]] * 3, "with one id"
        receipt = packets[0].frame.receipt(b"%022d" % 1)
        connection.sendall(encode(Packet(Kind.RECEIPT, receipt)))
        wait_until(lambda: sent.state is DispatchState.DELIVERED, "the agent hears of it")
        connection.close()


def test_an_order_that_never_left_expires_and_one_of_which_t1_is_short_is_an_alert(silent: Silent) -> None:
    with rtmw.Agent("AODB", server="127.0.0.1:1", t1=0.1) as source:
        assert source.send("GATE", b"x", lifetime=0.05).wait(PATIENCE) is DispatchState.EXPIRED
    silent.welcome = Welcome(5.0, 3, 1 << 20)
    with rtmw.Agent("AODB", server=silent.place, t1=5.0) as source:
        silent.accept().close()
        wait_until(lambda: "alerts" in source.stats(), "the agent hears of it")
        assert source.alerts()[0].startswith("this agent gives up after T1·(N1+1) = 20 s, and its relay after")


def test_a_lifetime_of_a_century_or_more_is_none(relay: Relay, agent: Make) -> None:
    source = agent(relay, "AODB")
    sent = [source.send("GATE", b"x", lifetime=lifetime) for lifetime in (math.inf, 1e14)]
    take(agent(relay, "GATE"), 2)
    assert {one.wait(PATIENCE) for one in sent} == {DispatchState.DELIVERED}


def test_a_body_that_the_relay_does_not_take_is_refused_by_the_agent(silent: Silent) -> None:
    silent.welcome = Welcome(0.001, 0, 10)
    with rtmw.Agent("AODB", server=silent.place) as source:
        sent = source.send("GATE", b"eleven byte")
        silent.accept().close()
        assert sent.wait(PATIENCE) is DispatchState.REFUSED
        assert sent.cause == "its relay takes 10 bytes at most"


# Proves R3.
def test_a_thousand_orders_are_in_flight_and_come_once_and_in_their_order(patient: Relay, agent: Make) -> None:
    source, takers = agent(patient, "AODB"), [agent(patient, name) for name in ("GATE", "KEEP")]
    began = time.monotonic()
    sent = [source.send(name, b"%d" % number) for number in range(500) for name in ("GATE", "KEEP")]
    assert time.monotonic() - began < PATIENCE, "no send waits"

    async def all_of_them() -> set[DispatchState]:
        return set(await asyncio.gather(*sent))

    with ThreadPoolExecutor(2) as pool:
        taken = [pool.submit(take, one, 500) for one in takers]
        assert asyncio.run(all_of_them()) == {DispatchState.DELIVERED}
        for one in taken:
            assert [order.body for order in one.result(PATIENCE)] == [b"%d" % number for number in range(500)]


def test_tasks_send_await_and_iterate(relay: Relay) -> None:
    place = f"unix:{relay.folder}/relay.sock"

    async def main() -> None:
        async with rtmw.Agent("AODB", server=place) as source, rtmw.Agent("GATE", server=place) as gate:
            sent = [source.send("GATE", b"%d" % number) for number in range(3)]
            async for order in gate:
                if order.body == b"2":
                    break
            assert [await one for one in sent] == [DispatchState.DELIVERED] * 3
            waiting = asyncio.ensure_future(anext(aiter(gate)))
            await asyncio.sleep(0)
            await asyncio.to_thread(gate.close)
            with pytest.raises(StopAsyncIteration):
                await waiting

    asyncio.run(main())


# Proves G325.
def test_a_relay_that_is_killed_costs_no_order_and_doubles_none(mortal: Relay, agent: Make) -> None:
    mortal.start()
    source, gate = agent(mortal, "AODB", t1=60.0), agent(mortal, "GATE")
    bodies = list[bytes]()
    taker = threading.Thread(target=lambda: bodies.extend(order.body for order in take(gate, 40)))
    taker.start()
    sent = list[rtmw.Dispatch]()
    for part in range(2):
        sent += [source.send("GATE", b"%d" % (20 * part + number)) for number in range(20)]
        wait_until(lambda part=part: source.stats().get("connected", 0) > part, "the agent hears of it")
        mortal.kill()
        mortal.start()
    assert {one.wait(PATIENCE) for one in sent} == {DispatchState.DELIVERED}
    taker.join(PATIENCE)
    assert bodies == [b"%d" % number for number in range(40)]
    wait_until(lambda: source.stats()["connected"] == 3, "it is there again")


@pytest.mark.parametrize("whose", ["source", "recipient"])
# Proves G325, R9.
def test_a_connection_cut_at_any_byte_costs_nothing_and_doubles_nothing(
    patient: Relay, agent: Make, whose: str
) -> None:
    far, near = ("AODB", "GATE") if whose == "source" else ("GATE", "AODB")
    agents = {near: agent(patient, near, t1=30.0)}
    for bytes in (1, 30, 51, 90, 102, 110, 160, 175, 190):
        cut = Cut(patient, bytes)
        with rtmw.Agent(far, server=cut.place, t1=30.0) as agents[far]:
            sent = [agents["AODB"].send("GATE", b"%d" % number) for number in range(3)]
            assert [order.body for order in take(agents["GATE"], 3)] == [b"0", b"1", b"2"]
            assert [one.wait(PATIENCE) for one in sent] == [DispatchState.DELIVERED] * 3
            assert len(agents["GATE"]._came) == 0
        assert cut.was_cut
        cut.close()


SENDING = """\
import sys
import rtmw

with rtmw.Agent("AODB", server=sys.argv[1], folder=sys.argv[2]) as agent:
    first = int(sys.argv[4])
    for number in range(first, first + int(sys.argv[3])):
        agent.send("GATE", str(number).encode())
        print(number, flush=True)
    sys.stdin.read()
"""
TAKING = """\
import sys
import rtmw

with rtmw.Agent("GATE", server=sys.argv[1], folder=sys.argv[2]) as agent:
    for order in agent:
        print(order.body.decode(), int(order.redelivered), flush=True)
        if order.body == sys.argv[3].encode():
            sys.stdin.read()
"""


class Program:
    """A process that ends with its test; its lines as they come."""

    def __init__(self, text: str, *arguments: object) -> None:
        command = [sys.executable, "-c", text, *map(str, arguments)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._lines = self._process.stdout

    def lines(self, count: int) -> list[str]:
        return [line.strip() for line in itertools.islice(self._lines, count)]

    def kill(self) -> list[str]:
        """The lines that are left."""
        self._process.kill()
        found = self._lines.read().splitlines()
        self._process.communicate()
        return found

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


# Proves G326.
def test_orders_of_an_agent_that_was_killed_are_sent_by_the_next_one_once(mortal: Relay, agent: Make) -> None:
    place, folder = f"unix:{mortal.folder}/relay.sock", mortal.folder / "AODB"
    with Program(SENDING, place, folder, 30, 0) as killed:  # before there is a relay
        assert killed.lines(20) == [str(number) for number in range(20)]
        told = 20 + len(killed.kill())
    mortal.start()
    gate = agent(mortal, "GATE")
    with rtmw.Agent("AODB", server=place, folder=folder) as source:
        last = source.send("GATE", b"last")
        bodies = list[bytes]()
        for order in gate:
            bodies.append(order.body)
            if order.body == b"last":
                break
        assert last.wait(PATIENCE) is DispatchState.DELIVERED
    assert bodies[-1] == b"last"
    assert len(bodies) > told
    assert bodies[:-1] == [b"%d" % number for number in range(len(bodies) - 1)]


# Proves G326, R3.
def test_orders_that_an_agent_has_not_handled_come_again_behind_a_kill_and_say_so(patient: Relay, agent: Make) -> None:
    place, folder = f"unix:{patient.folder}/relay.sock", patient.folder / "GATE"
    source = agent(patient, "AODB")
    with Program(TAKING, place, folder, 2) as killed:
        sent = [source.send("GATE", b"%d" % number) for number in range(5)]
        assert killed.lines(3) == ["0 0", "1 0", "2 0"]
        assert [one.wait(PATIENCE) for one in sent] == [DispatchState.DELIVERED] * 5, "they are in the log of the agent"
    with rtmw.Agent("GATE", server=place, folder=folder) as gate:
        orders = take(gate, 3)
        assert [order.body for order in orders] == [b"2", b"3", b"4"]
        assert [order.redelivered for order in orders] == [True] * 3
        orders[-1].answer(b"done")
        assert take(source, 1)[0].body == b"done"
    with rtmw.Agent("GATE", server=place, folder=folder) as gate:
        sent = [source.send("GATE", b"new")]
        assert [(order.body, order.redelivered) for order in take(gate, 1)] == [(b"new", False)]


def test_what_becomes_of_an_order_of_an_earlier_process_is_an_alert(relay: Relay, tmp_path: Path) -> None:
    place, folder = f"unix:{relay.folder}/relay.sock", tmp_path / "AODB"
    with rtmw.Agent("AODB", server="127.0.0.1:1", folder=folder) as source:
        lost = source.send("GATE", b"x", command="D")
    with pytest.raises(rtmw.ClosedError, match=r"order AODB/\S+ is WAITING, and its agent was closed"):
        lost.wait()
    with rtmw.Agent("AODB", server=place, folder=folder) as source:
        wait_until(lambda: "alerts" in source.stats(), "the agent hears of it")
        assert source.alerts() == [f"{lost.id}: a rule denies it"]
        assert source.alerts() == []
    with rtmw.Agent("AODB", server=place, folder=folder) as source:
        assert source.send("GATE", b"x", command="D").wait(PATIENCE) is DispatchState.REFUSED
        assert source.stats()["frames"] == 1, "what has ended is not sent again"


def test_an_order_of_an_earlier_process_whose_lifetime_is_over_is_asked_for(relay: Relay, tmp_path: Path) -> None:
    """That process may have sent it, so nobody but the relay knows what became of it."""
    with rtmw.Agent("AODB", server="127.0.0.1:1", folder=tmp_path / "AODB") as source:
        lost = source.send("KEEP", b"x", lifetime=0.3)
    with rtmw.Agent("AODB", server=f"unix:{relay.folder}/relay.sock", folder=tmp_path / "AODB") as source:
        wait_until(lambda: "alerts" in source.stats(), "the relay says so")
        assert source.alerts() == [f"{lost.id}: KEEP: EXPIRED, its lifetime is over"]


def test_what_a_program_does_not_take_is_not_confirmed_without_end(
    patient: Relay, agent: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtmw.relay.agent.AHEAD", 2)
    source, gate = agent(patient, "AODB"), agent(patient, "GATE", folder=tmp_path / "GATE")
    sent = [source.send("GATE", b"%d" % number) for number in range(5)]
    wait_until(lambda: len(gate._held) == 1, "the third one has come")
    assert [one.state.name for one in sent] == ["DELIVERED"] * 2 + ["WAITING"] * 3
    assert [order.body for order in take(gate, 5)] == [b"%d" % number for number in range(5)]
    assert [one.wait(PATIENCE).name for one in sent] == ["DELIVERED"] * 5


def test_what_a_program_never_takes_is_bounded_in_memory(
    relay: Relay, agent: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtmw.relay.agent.AHEAD_MOST", 2)
    source, gate = agent(relay, "AODB"), agent(relay, "GATE")
    sent = list[rtmw.Dispatch]()
    for number in range(3):
        sent.append(source.send("GATE", b"%d" % number))
        assert sent[-1].wait(PATIENCE) is DispatchState.UNCONFIRMED
    assert (len(gate._came), gate.stats()["not taken"] > 0) == (2, True)
    assert [order.body for order in take(gate, 2)] == [b"0", b"1"]
    wait_until(lambda: [one.state.name for one in sent[:2]] == ["DELIVERED"] * 2, "they are confirmed late")
    assert sent[2].state is DispatchState.UNCONFIRMED


def test_orders_are_handed_out_as_they_came_however_slowly_they_are_taken(
    tmp_path: Path, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtmw.relay.agent.AHEAD", 2)
    bodies = [b"%03d" % number for number in range(300)]
    with rtmw.Agent("AODB", server=silent.place, folder=tmp_path / "AODB") as gate, silent.accept() as relay:
        for body in bodies:
            relay.sendall(encode(Packet(Kind.ORDER, Frame("GATE", "AODB", b"%022d" % int(body), "O", "I", body))))
        assert [order.body for order in take(gate, len(bodies))] == bodies


def test_an_agent_whose_log_has_failed_ends_and_one_whose_disk_is_full_goes_on(
    mortal: Relay, agent: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = [rtmw.LogFull("3 bytes are free"), rtmw.LogFailed("the disk is gone", 0, 0)]

    def fail(*_: object) -> None:
        raise errors[0]

    mortal.start()
    source, gate = agent(mortal, "AODB"), agent(mortal, "GATE", folder=tmp_path / "GATE")
    assert gate._log is not None
    monkeypatch.setattr(gate._log, "append", fail)
    source.send("GATE", b"x")
    wait_until(lambda: "not logged: the disk is full" in gate.stats(), "it has no room")
    errors.pop(0)
    source.send("ALL", b"another stream")
    with pytest.raises(rtmw.ClosedError, match="its agent has failed: the disk is gone"):
        next(iter(gate))


def test_what_has_expired_before_there_was_a_relay_takes_no_memory(tmp_path: Path) -> None:
    with rtmw.Agent("AODB", server=f"unix:{tmp_path}/none.sock") as source:
        kept = source.send("GATE", b"kept")
        sent = [source.send("GATE", b"x", lifetime=0.01) for _ in range(100)]
        assert {one.wait(PATIENCE) for one in sent} == {DispatchState.EXPIRED}
        wait_until(lambda: len(source._lanes[b"GATE"].waiting) < 3, "they are forgotten")
        assert kept.state is DispatchState.WAITING


def test_what_nobody_needs_goes_from_the_log_and_what_is_open_stays(
    patient: Relay, agent: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtmw.relay.agent.TRIM_AFTER", 8)
    monkeypatch.setattr("rtmw.relay.agent.SEGMENT", "64K")
    gate, folder = agent(patient, "GATE"), tmp_path / "AODB"

    def deliver(source: rtmw.Agent, count: int) -> None:
        sent = [source.send("GATE", bytes(8192)) for _ in range(count)]
        take(gate, count)
        assert {one.wait(PATIENCE) for one in sent} == {DispatchState.DELIVERED}

    place = f"unix:{patient.folder}/relay.sock"
    with rtmw.Agent("AODB", server=place, folder=folder) as source:
        deliver(source, 20)
        kept = source.send("KEEP", b"kept")
        deliver(source, 20)
    with rtmw.Log(folder, Entry) as log:
        rows = [(record.position, record.value) for record in log.read()]
    assert rows[0][0] > 0
    assert sum(row.kind == "ORDER" for _, row in rows) < 30
    with rtmw.Agent("AODB", server=place, folder=folder) as source:
        assert [dispatch.id for dispatch in source._open.values()] == [kept.id]
        (order,) = take(agent(patient, "KEEP"), 1)
        assert order.id == kept.id


def test_a_folder_is_of_one_agent_and_of_one_process(tmp_path: Path) -> None:
    with rtmw.Agent("AODB", server="127.0.0.1:1", folder=tmp_path / "a") as source:
        source.send("GATE", b"x")
        with pytest.raises(rtmw.LogLocked):
            rtmw.Agent("AODB", server="127.0.0.1:1", folder=tmp_path / "a")
    with pytest.raises(rtmw.LogError, match="this folder is of agent AODB, and not of GATE"):
        rtmw.Agent("GATE", server="127.0.0.1:1", folder=tmp_path / "a")


# Proves R6.
def test_stamps_increase_though_the_clock_of_an_earlier_process_was_ahead() -> None:
    stamps = Stamps()
    assert stamps() < stamps()
    stamps.follow(b"20991231235959.9999999")
    assert [stamps(), stamps()] == [b"21000101000000.0000000", b"21000101000000.0000001"]
    stamps.follow(b"2026-11-29 13:44:12.12")
    assert stamps() == b"21000101000000.0000002"


# Proves R10.
def test_a_relay_connects_to_an_agent_that_listens(tmp_path: Path) -> None:
    port = free_port()
    dialled = AT_ONE_SOCKET.replace(f'name = "GATE"\nuid = {os.getuid()}', f'name = "GATE"\ndial = "127.0.0.1:{port}"')
    relay = Relay(tmp_path, dialled.replace('t2 = "200ms"', 't2 = "5s"'))
    relay.start()
    try:
        with (
            rtmw.Agent("GATE", listen=f"127.0.0.1:{port}") as gate,
            rtmw.Agent("AODB", server=f"unix:{tmp_path}/relay.sock") as source,
        ):
            sent = source.send("GATE", b"a\nb")
            assert take(gate, 1)[0].body == b"a\nb"
            assert sent.wait(PATIENCE) is DispatchState.DELIVERED
    finally:
        relay.kill()


def test_agents_with_certificates_connect_or_are_dialled_and_others_are_not_heard(tmp_path: Path) -> None:
    site, port = Site(tmp_path / "site"), free_port()
    (tmp_path / "relay").mkdir()
    relay = Relay(
        tmp_path / "relay",
        f"""\
[relay]
keys = "{site.keys("rtmw://plant/hub")}"
listen = ["127.0.0.1:0"]

[[agent]]
name = "AODB"
peer = "rtmw://plant/aodb"

[[agent]]
name = "GATE"
peer = "rtmw://plant/gate"
dial = "127.0.0.1:{port}"

[[allow]]
peer = "agent:AODB"
order = ["GATE/I"]
""",
    )
    relay.start()
    place = f"127.0.0.1:{relay.port}"
    try:
        with (
            rtmw.Agent("GATE", listen=f"127.0.0.1:{port}", keys=site.keys("rtmw://plant/gate")) as gate,
            rtmw.Agent("AODB", server=place, keys=site.keys("rtmw://plant/aodb")) as source,
            rtmw.Agent("AODB", server=place) as stranger,
            rtmw.Agent("AODB", server=place, keys=site.keys("rtmw://plant/other")) as other,
        ):
            sent = source.send("GATE", b"a\nb")
            assert take(gate, 1)[0].body == b"a\nb"
            assert sent.wait(PATIENCE) is DispatchState.DELIVERED
            for one in (stranger, other):
                wait_until(lambda one=one: any("ended" in what for what in one.stats()), "it is turned away")
                assert "connected" not in one.stats()
    finally:
        relay.kill()


def test_an_agent_follows_a_subject_until_it_says_otherwise_and_a_denial_is_an_alert(tmp_path: Path) -> None:
    subject = """
[[subject]]
address = "FLTS"

[[allow]]
peer = "agent:AODB"
order = ["FLTS/*"]

[[allow]]
peer = "agent:GATE"
follow = ["FLTS"]
"""
    relay = Relay(tmp_path, PATIENT + subject)
    relay.start()
    try:
        place = f"unix:{tmp_path}/relay.sock"
        with rtmw.Agent("AODB", server=place) as source, rtmw.Agent("KEEP", server=place, t1=60.0) as denied:
            denied.subscribe("FLTS")
            wait_until(lambda: "alerts" in denied.stats(), "it is told")
            assert denied.alerts()[0].endswith(" to FLTS: no rule allows this peer to follow it")
            with rtmw.Agent("GATE", server=place) as gate:
                gate.subscribe("FLTS", command="U")
                wait_until(lambda: any(row.kind == "FOLLOWED" for row in relay.rows()), "it follows")
                for command, body in (("I", b"not this"), ("U", b"this")):
                    assert source.send("FLTS", body, command=command).wait(PATIENCE) is DispatchState.DELIVERED
                (order,) = take(gate, 1)
                assert (order.sender, order.to, order.body) == ("AODB", "FLTS", b"this")
                gate.unsubscribe("FLTS", command="U")
                wait_until(lambda: any(row.kind == "UNFOLLOWED" for row in relay.rows()), "it follows no more")
    finally:
        relay.kill()


def test_an_agent_and_a_foreign_program_speak_through_one_relay(tmp_path: Path, agent: Make) -> None:
    settings = AT_ONE_SOCKET.replace(f'name = "GATE"\nuid = {os.getuid()}', 'name = "GATE"\nfrom = "127.0.0.1"')
    relay = Relay(tmp_path, settings.replace('t2 = "200ms"', 't2 = "5s"'))
    relay.start()
    try:
        source, gate = agent(relay, "AODB"), Peer(relay, "GATE")
        sent = source.send("GATE", b"gate 12")
        came = gate.take()
        gate.send(Frame(b"GATE", b"AODB", b"2026-11-29 13:44:12.12", b"A", b"I", came.stamp + came.checksum + b"done"))
        assert sent.wait(PATIENCE) is DispatchState.DELIVERED
        (answer,) = take(source, 1)
        assert (answer.answers, answer.body) == (sent.id, b"done")
        gate.confirm(answer._frame)
    finally:
        relay.kill()


def test_bad_arguments_are_errors_in_words(tmp_path: Path) -> None:
    for arguments, words in (
        ({"address": "GATES"}, "'GATES' is no address: it has 1 to 4 ASCII characters"),
        ({"address": b"GAT"}, "it has four bytes"),
        ({"address": 7}, "address is of int; it is text, such as 'AODB', or four bytes"),
        ({"server": None}, "an agent needs server='127.0.0.1:7460' or 'unix:relay.sock'"),
        ({"server": "127.0.0.1"}, "server='127.0.0.1' is neither HOST:PORT, such as 127.0.0.1:7460, nor unix:PATH"),
        ({"server": "relay.sock"}, "server='relay.sock' is neither HOST:PORT, such as 127.0.0.1:7460, nor unix:PATH"),
        ({"server": 7460}, "server=7460 is not possible"),
        ({"listen": "gate:1"}, "'gate:1' is not ADDRESS:PORT"),
        ({"t1": 0}, "t1=0 is not possible"),
        ({"t1": math.inf}, "t1=inf is not possible; an order is sent again after so many seconds"),
        ({"n1": -1}, "n1=-1 is not possible"),
        ({"n1": 2**40}, "n1=1099511627776 is not possible; it is a number from 0 to 1000"),
        ({"keys": tmp_path}, "node.pem"),
    ):
        with pytest.raises((rtmw.RtmwError, ValueError, TypeError), match=words):
            rtmw.Agent(**{"address": "AODB", "server": "127.0.0.1:1", **arguments})  # type: ignore[arg-type]
    with rtmw.Agent("AODB", server="127.0.0.1:1", t1=Decimal("0.5")) as agent:  # type: ignore[arg-type]
        for given, words in (
            ({"to": "GATES"}, "'GATES' is no address"),
            ({"body": "text"}, "body is of str; an order carries bytes, so encode it"),
            ({"body": bytes((1 << 20) + 1)}, "body has 1048577 bytes; an order carries 1048576 at most"),
            ({"command": "II"}, "command='II' is not possible; it is one ASCII character"),
            ({"priority": 8}, "priority=8 is not possible; it is a number from 0 to 7"),
            ({"lifetime": 0}, "lifetime=0 is not possible"),
        ):
            with pytest.raises((rtmw.RtmwError, ValueError, TypeError), match=words):
                agent.send(**{"to": "GATE", "body": b"x", **given})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="subject is of int"):
            agent.subscribe(7)  # type: ignore[arg-type]
        assert agent.stats().get("sent") is None
        assert agent.send("GATE", b"x", lifetime=Decimal("0.01")).wait(PATIENCE) is DispatchState.EXPIRED  # type: ignore[arg-type]
    for use in (lambda: agent.send("GATE", b"x"), lambda: agent.subscribe("FLTS")):
        with pytest.raises(rtmw.ClosedError, match=r"<rtmw.Agent AODB> is used after its end: its agent was closed"):
            use()
    assert list(agent) == []
    agent.close()


def test_close_is_bounded_and_wakes_who_waits(tmp_path: Path, silent: Silent) -> None:
    agent = rtmw.Agent("AODB", server=silent.place)
    sent = agent.send("GATE", bytes(1 << 20))
    connection = silent.accept()  # and reads nothing more
    ended = list[object]()

    def wait() -> None:
        with suppress(rtmw.ClosedError):
            sent.wait()
        ended.extend(agent)
        ended.append("closed")

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: "frames" in agent.stats(), "the agent hears of it")
    agent.close()
    thread.join(PATIENCE)
    assert ended == ["closed"]
    assert not agent._thread.is_alive()
    connection.close()


def test_a_wait_is_interrupted_by_a_signal_and_goes_on_later(relay: Relay, agent: Make) -> None:
    source = agent(relay, "AODB")
    sent = source.send("KEEP", b"x")
    wait_until(lambda: sent.state is DispatchState.STORED, "the agent hears of it")
    timer = threading.Timer(0.1, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sent.wait(PATIENCE)
    take(agent(relay, "KEEP"), 1)
    assert sent.wait(PATIENCE) is DispatchState.DELIVERED


def test_a_child_of_fork_is_told_that_the_agent_is_not_its_own(patient: Relay, agent: Make) -> None:
    source, gate = agent(patient, "AODB"), agent(patient, "GATE")
    sent = source.send("GATE", b"x")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for use in (lambda: source.send("GATE", b"y"), lambda: next(iter(gate)), lambda: sent.wait(1)):
                with pytest.raises(rtmw.ForkedError, match="was made before fork"):
                    use()
            source.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert take(gate, 1)[0].body == b"x"
    assert sent.wait(PATIENCE) is DispatchState.DELIVERED


def test_a_child_of_fork_keeps_no_place_where_its_parent_listened(tmp_path: Path) -> None:
    place = f"127.0.0.1:{random.randrange(20_000, 30_000)}"  # below those that the system hands out
    ours, its = socket.socketpair()
    agent = rtmw.Agent("AODB", listen=place)
    child = os.fork()
    if child == 0:
        ours.close()
        its.send(b"x")
        its.recv(1)  # up to the end of the test
        os._exit(0)
    with ours, its:
        ours.recv(1)
        agent.close()
        rtmw.Agent("AODB", listen=place).close()
    os.waitpid(child, 0)


CLOSED_BY_A_HANDLER = """\
import signal
import rtmw

agent = rtmw.Agent("AODB", server="127.0.0.1:1")
signal.signal(signal.SIGUSR1, lambda *_: agent.close())
with agent._lock:  # as in the middle of a send
    signal.raise_signal(signal.SIGUSR1)
print(agent._thread.is_alive())
"""


def test_a_handler_of_a_signal_may_close_an_agent_whatever_the_thread_is_at_that_it_interrupts() -> None:
    command = [sys.executable, "-c", CLOSED_BY_A_HANDLER]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout == "False\n"


WITHOUT_CERTIFICATES = """\
import sys

sys.modules["cryptography"] = None  # as Python has what cannot be imported
import rtmw

with rtmw.Agent("AODB", server=sys.argv[1]) as agent:
    print(agent.send("KEEP", b"x", lifetime=0.2).wait(60).name)
try:
    rtmw.Agent("AODB", server=sys.argv[1], keys=".")
except rtmw.NotInstalled as error:
    print(error)
"""


def test_without_keys_an_agent_needs_no_package_of_certificates(relay: Relay) -> None:
    command = [sys.executable, "-c", WITHOUT_CERTIFICATES, f"127.0.0.1:{relay.port}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert ran.stdout.startswith("EXPIRED\n")
    assert "pip install 'rtmw[link]'" in ran.stdout


def test_the_program_of_the_page_runs_with_the_settings_of_the_page(mortal: Relay) -> None:
    page = Path(__file__).parents[2] / "docs" / "relay.md"
    settings = page.read_text().partition("```toml\n")[2].partition("```")[0]
    mortal.file.write_text(settings.replace("127.0.0.1:7460", "127.0.0.1:0").replace("1000", str(os.getuid()), 2))
    mortal.start()
    (text,) = (text for text in programs(page) if "rtmw.Agent" in text)
    ran = subprocess.run(
        [sys.executable, "-c", text], cwd=mortal.folder, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert ran.stdout == "AODB b'CA981 to gate 12' DispatchState.DELIVERED b'done'\n"


# Proves G326.
def test_kills_of_both_agents_lose_nothing_and_double_nothing_unsaid(mortal: Relay) -> None:
    """Whatever was sent is handled; what is handled twice says the second time that it comes again."""
    mortal.start()
    place, ours, theirs = f"unix:{mortal.folder}/relay.sock", mortal.folder / "AODB", mortal.folder / "GATE"
    sent, handled = list[str](), list[str]()
    for kill in range(KILLS):
        with (
            Program(TAKING, place, theirs, "none") as taking,
            Program(SENDING, place, ours, 100, 1000 * kill) as sending,
        ):
            sent += sending.lines(5 + 7 * kill)
            handled += taking.lines(3 + 2 * kill)
            sent += sending.kill()
            handled += taking.kill()
    with (
        rtmw.Agent("AODB", server=place, folder=ours) as source,
        rtmw.Agent("GATE", server=place, folder=theirs) as gate,
    ):
        last = source.send("GATE", b"last")
        for order in gate:
            handled.append(f"{order.body.decode()} {int(order.redelivered)}")
            if order.body == b"last":
                break
        assert last.wait(PATIENCE) is DispatchState.DELIVERED
    new = [line for line in handled if line.endswith(" 0")]
    assert len(new) == len(set(new))
    assert set(sent) <= {line.split()[0] for line in handled}
