"""What operators of a relay see and do (R11): at a socket where the kernel says who they are, and in its record."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

import rtmw
from rtmw.observe.services import RELAY_EVENTS, RelayActivity
from rtmw.observe.services import relay as observe_relay
from rtmw.relay import Frame
from rtmw.relay.frame import Hello, Kind, Packet, Stamps
from rtmw.relay.machine import SKEW_S, Machine, Seldom
from rtmw.relay.operation import NoAnswer, ask
from rtmw.relay.policy import Policy
from rtmw.relay.server import Server
from rtmw.relay.settings import Agent
from rtmw.relay.settings import Relay as Settings
from rtmw.relay.state import State
from tests.cli.command import Run
from tests.cli.conftest import run
from tests.net.hosts import wait_until
from tests.relay import world
from tests.relay.servers import SETTINGS, Peer, Relay

__all__ = ["run"]

QUICK = 'data = "."\n' + SETTINGS
PATIENT = QUICK.replace('t2 = "200ms"', 't2 = "1000s"').replace('t1 = "2s"', 't1 = "9000s"')
"""A try lasts for longer than any test."""


Operate = Callable[..., dict[str, Any]]


def operator(run: Run, relay: Relay) -> Operate:
    """Runs a command of `rtmw relay`: its status, and what it says to programs."""

    def call(*words: str) -> dict[str, Any]:
        status, out, err = run("relay", *words, "--file", str(relay.file), "--json")
        assert out, err
        return {"status": status, "said": json.loads(out)}

    return call


@pytest.fixture
def operate(run: Run, relay: Relay) -> Operate:
    return operator(run, relay)


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    made = Relay(tmp_path, PATIENT)
    made.start()
    yield made
    made.kill()


def test_agents_and_queue_say_who_is_there_and_what_waits_by_priority(relay: Relay, operate: Operate, run: Run) -> None:
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    for number in range(3):
        source.order("KEEP", b"%d" % number)
    source.order("GATE", b"x")
    gate.take()
    rows = {row["agent"]: row for row in operate("agents")["said"]["rows"]}
    assert [rows[name]["connected"] for name in ("AODB", "GATE", "KEEP")] == ["yes", "yes", "no"]
    assert [rows[name]["waiting"] for name in ("AODB", "GATE", "KEEP")] == [0, 1, 3]
    assert (rows["GATE"]["in_flight"], rows["GATE"]["tries"], rows["KEEP"]["in_flight"]) == (1, 1, 0)
    assert rows["KEEP"]["oldest"] <= rows["GATE"]["oldest"]
    queue = operate("queue", "KEEP")["said"]
    assert [(row["order"], row["state"]) for row in queue["rows"]] == [(one, "not connected") for one in (1, 2, 3)]
    status, out, _ = run("relay", "queue", "--data", str(relay.folder))
    assert status == 0
    assert out.startswith("4 orders\nThe oldest of priority 3 is order 1 for KEEP, ")
    assert "sent, not confirmed" in out
    assert "no" in run("relay", "agents", "--data", str(relay.folder))[1]


# Proves G324, R11.
def test_what_is_held_is_not_sent_until_it_is_released_also_over_a_kill(relay: Relay, operate: Operate) -> None:
    assert operate("hold", "GATE")["said"]["done"]
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    source.order("GATE", b"x")
    wait_until(lambda: bool(operate("queue", "GATE")["said"]["rows"]), "the order comes")
    assert operate("queue", "GATE")["said"]["rows"][0]["state"] == "held by an operator"
    relay.kill()
    relay.start()
    gate = Peer(relay, "GATE")
    again = operate("hold", "GATE")
    assert (again["status"], again["said"]["words"]) == (1, "GATE is held already")
    assert operate("agents")["said"]["rows"][1]["held"] == ["GATE"]
    assert operate("queue", "GATE")["said"]["rows"][0]["state"] == "held by an operator"
    assert operate("release", "GATE")["said"]["words"] == "GATE is released"
    assert gate.take().data == b"x"
    relay.end()
    acts = [(row.cause, row.uid) for row in relay.rows() if row.kind == "ACT"]
    assert acts == [("hold GATE", os.getuid()), ("release GATE", os.getuid())]


def test_a_stream_is_held_and_others_go_on(relay: Relay, operate: Operate) -> None:
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    source.order("GATE", b"1")
    gate.confirm(gate.take())
    operate("hold", "AODB:GATE")
    source.order("GATE", b"2")
    source.order("ALL", b"3")
    assert gate.take().data == b"3", "the stream to the group is another one"
    operate("release", "AODB:GATE")
    assert gate.take().data == b"2"
    refused = operate("hold", "AODB:NONE")
    assert refused["said"] == {
        "done": False, "words": "AODB:NONE is no agent of the settings, and no stream SOURCE:DESTINATION of theirs"
    }  # fmt: skip
    assert "nothing of KEEP is held" in operate("release", "KEEP")["said"]["words"]


def test_what_is_held_gives_its_place_in_the_window_to_another_stream(tmp_path: Path, run: Run) -> None:
    relay = Relay(tmp_path, PATIENT.replace('name = "GATE"\n', 'name = "GATE"\nwindow = 1\n'))
    relay.start()
    try:
        source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
        gate.socket.settimeout(5.0)
        source.order("GATE", b"1")
        assert gate.take().data == b"1"
        source.order("ALL", b"2")
        operate = operator(run, relay)
        assert operate("queue", "GATE")["said"]["rows"][1]["state"] == "waited behind others"
        assert operate("hold", "AODB:GATE")["said"]["done"]
        assert gate.take().data == b"2"
    finally:
        relay.kill()


def test_an_order_that_is_dropped_ends_and_its_source_is_told(relay: Relay, operate: Operate) -> None:
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    source.order("GATE", b"1")
    gate.take()
    source.order("KEEP", b"2")
    words = [operate("drop", number)["said"]["words"] for number in "12"]
    assert words == [f"order {number} has ended, of AODB, which is told" for number in "12"]
    uid = os.getuid()
    said = [source.take().body.decode(), source.take().body.decode()]
    assert said == [f"GATE: UNCONFIRMED, dropped by uid {uid}", f"KEEP: UNDELIVERED, dropped by uid {uid}"]
    again = operate("drop", "1")
    assert (again["status"], again["said"]["words"]) == (1, "order 1 is not open: rtmw relay show 1 says how it ended")
    with pytest.raises(NoAnswer, match="the relay knows no drop 999"):
        ask(relay.folder / "relay", "drop", "9" * 5000)
    assert operate("agents")["status"] == 0, "a number without end harms nobody"


def test_an_order_is_sent_again_before_its_time(relay: Relay, operate: Operate) -> None:
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    sent = source.order("GATE", b"1")
    assert gate.take() == sent
    assert operate("resend", "1")["said"]["words"] == "order 1 is sent again to GATE"
    assert gate.take() == sent
    source.order("GATE", b"2")
    source.order("KEEP", b"3")
    words = [operate("resend", number)["said"]["words"] for number in "23"]
    assert ["waited behind others" in words[0], "KEEP: not connected" in words[1]] == [True, True]


def test_an_order_that_failed_goes_once_more_under_another_number_and_corrects_what_was_said(
    tmp_path: Path, run: Run
) -> None:
    relay = Relay(tmp_path, QUICK)
    relay.start()
    try:
        operate, source = operator(run, relay), Peer(relay, "AODB")
        sent = source.order("GATE", b"1")
        assert source.take().body.startswith(b"GATE: UNDELIVERED")
        relay.kill()
        relay.start()
        gate, source = Peer(relay, "GATE"), Peer(relay, "AODB")
        said = operate("requeue", "1")["said"]["words"]
        assert said == "order 1 goes to GATE as order 2: out of order, behind what waits"
        assert gate.take() == sent
        gate.confirm(sent)
        assert source.take().body == b"", "the receipt corrects the alert"
        source.send(sent)
        assert source.take().body == b"", "an order that comes again has the answer of the newest"
        assert "has not failed: all confirmed it" in operate("requeue", "2")["said"]["words"]
        assert "is not known any more, or a later one" in operate("requeue", "1")["said"]["words"]
        relay.kill()
        relay.start()
        assert operate("queue")["said"]["rows"] == []
    finally:
        relay.kill()


# Proves R4.
def test_show_has_every_row_of_an_order_its_times_and_its_text_also_without_a_server(
    relay: Relay, operate: Operate, run: Run
) -> None:
    relay.kill()
    relay.file.write_text(PATIENT.replace('name = "AODB"\n', 'name = "AODB"\ncharset = "gbk"\n'))
    relay.start()
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    source.order("GATE", "登机口 12".encode("gbk"))
    gate.confirm(gate.take())
    source.take()
    for _ in range(2):
        said = operate("show", "1")["said"]
        assert said["text"] == "登机口 12"
        assert [row["kind"] for row in said["rows"]] == ["STORED", "SENT", "DELIVERED"]
        assert said["rows"][0]["rule"].endswith("line 26")
        (part,) = said["recipients"]
        assert (part["recipient"], part["state"]) == ("GATE", "DELIVERED")
        assert part["stored"] <= part["sent"] <= part["answered"]
        assert len(part["received"]) == 22
        assert part["received"] == part["received"].strip()
        relay.kill()
    status, out, _ = run("relay", "show", "1", "--file", str(relay.file))
    assert status == 0
    assert "Data: 登机口 12" in out
    assert "line 26" in out
    status, _, said = run("relay", "show", "7", "--data", str(relay.folder))
    assert status == 1
    assert "has no order 7" in said


def test_without_a_server_the_error_says_what_to_do(run: Run, tmp_path: Path) -> None:
    for words in (("agents",), ("queue",), ("hold", "GATE"), ("drop", "1")):
        status, _, said = run("relay", *words, "--data", str(tmp_path))
        assert status == 1
        assert "no relay runs in" in said
        assert "rtmw node --config FILE" in said
    (tmp_path / "node.toml").write_text(SETTINGS)
    assert "says no data" in run("relay", "agents", "--file", str(tmp_path / "node.toml"))[2]
    assert "has no record" in run("relay", "show", "1", "--data", str(tmp_path))[2]


# Proves G324.
def test_only_the_owner_of_the_folder_and_root_may_ask(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to be another user")
    monkeypatch.chdir(relay.folder / "relay")  # the folders above it may let nobody else in
    try:
        os.seteuid(65534)
        with pytest.raises(NoAnswer, match="lets in its owner and root"):
            ask(Path(), "agents")
        os.seteuid(0)
        (relay.folder / "relay").chmod(0o755)
        os.seteuid(65534)
        for words in (("agents",), ("hold", "GATE")):
            with pytest.raises(NoAnswer, match="answers uid 0, who owns its folder, and root; uid 65534 is neither"):
                ask(Path(), *words)
        os.seteuid(0)
        os.chown(relay.folder / "relay", 65534, 65534)
        os.seteuid(65534)
        assert ask(Path(), "hold", "GATE")["done"]
    finally:
        os.seteuid(0)
    relay.end()
    assert [row.uid for row in relay.rows() if row.kind == "ACT"] == [65534]


def test_what_is_no_question_harms_nobody(relay: Relay, operate: Operate) -> None:
    lines = b"", b"no json\n", b"[]\n", b'{"verb": "drop", "whom": "\xc2\xb2"}\n', b"[" * 60_000 + b"\n", b"[" * 100_000
    for line in lines:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(relay.folder / "relay" / "operator.sock"))
            sock.sendall(line)
            sock.shutdown(socket.SHUT_WR)
            sock.settimeout(20)
            sock.recv(65536)
        assert operate("queue")["status"] == 0


def test_the_socket_of_operators_is_made_again_where_it_was_removed(relay: Relay, operate: Operate) -> None:
    (relay.folder / "relay" / "operator.sock").unlink()
    relay.until("operator.sock was removed, and is there again")
    assert operate("queue")["status"] == 0


def test_check_lists_the_orders_of_a_record_that_other_rules_would_judge_otherwise(
    relay: Relay, run: Run, tmp_path: Path
) -> None:
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    source.order("GATE", b"(tell :content x)", "U")
    gate.confirm(gate.take())
    source.take()
    for to, data, command in (
        ("KEEP", b"stays", "I"),
        ("GATE", b"(ask)", "D"),
        ("NONE", b"x", "I"),
        ("KEEP", b"y", "!"),
    ):
        source.order(to, data, command)
    while source.take().body != b"its command is that of alerts":
        pass
    gate.order("KEEP", bytes(50))
    assert gate.take().body == b"no rule allows this peer to order it"
    assert run("relay", "check", str(relay.file), "--on", str(tmp_path))[0] == 0
    text = PATIENT.replace('deny = ["GATE/D"]', 'deny = ["GATE/U/tell"]')
    text += '[[allow]]\npeer = "agent:GATE"\norder = ["KEEP/*"]\nmax_size = 49\n'
    (tmp_path / "other.toml").write_text(text)
    status, out, _ = run("relay", "check", str(tmp_path / "other.toml"), "--on", str(tmp_path), "--json")
    changed = json.loads(out)["changed"]
    assert status == 1
    assert [(row["order"], row["to"], row["command"], row["was"], row["would be"]) for row in changed] == [
        (1, "GATE", "U", "allowed", "a rule denies it"), (None, "GATE", "D", "a rule denies it", "allowed")
    ]  # fmt: skip
    (tmp_path / "other.toml").write_text(text.replace("max_size = 49", "max_size = 50"))
    _, out, _ = run("relay", "check", str(tmp_path / "other.toml"), "--on", str(tmp_path))
    assert "3 verdicts of 5 would change" in out
    relay.kill()
    assert run("relay", "check", str(relay.file), "--on", str(tmp_path))[0] == 0
    assert "has no record" in run("relay", "check", str(relay.file), "--on", str(tmp_path / "none"))[2]


# Proves G331.
def test_a_relay_says_what_waits_and_its_alarms_on_the_bus_in_metrics_and_to_the_doctor(
    domain_id: int, run: Run, tmp_path: Path
) -> None:
    relay = Relay(tmp_path, PATIENT.replace("[relay]\n", "[relay]\nmax_waiting = 2\n"))
    relay.domain = domain_id
    with rtmw.Domain(domain_id) as domain, rtmw.Subscriber(RELAY_EVENTS, domain=domain) as events:
        relay.start()
        try:
            source = Peer(relay, "AODB", introduced=False)
            source.send(Frame("AODB", "KEEP", Stamps()(), "O", "I", b"0"))
            for number in range(2):
                source.order("KEEP", b"%d" % number)
            assert source.take().body == b"KEEP has no room for more orders that wait"
            source.send(Frame("AODB", "KEEP", Stamps()(), "O", "I", b"1"))
            assert source.take().body == b"KEEP has no room for more orders that wait"
            event = json.loads(bytes(next(iter(events)).value))
            assert (event["agent"], event["cause"]) == (
                "KEEP", "orders for it are refused: as many wait as max_waiting says"
            )  # fmt: skip
            wait_until(lambda: (said := observed(domain_id)) is not None and "ALARM" in said.rows, "it says so")
            told = observed(domain_id)
            assert told is not None
            assert (told.rows["STORED"], told.rows["REFUSED"], told.full, told.stands_still) == (2, 2, "", False)
            agents = {one.name: one for one in told.agents}
            assert (agents["KEEP"].waiting, agents["KEEP"].connected, agents["AODB"].connected) == (2, False, True)
            assert agents["AODB"].skew is not None
            assert -60 <= agents["AODB"].skew <= 60
            status, out, _ = run("metrics")
            assert status == 0
            assert f'rtmw_relay_waiting_orders{{agent="KEEP",domain="{domain_id}"}} 2.0' in out
            assert f'rtmw_relay_rows_total{{domain="{domain_id}",kind="ALARM"}} 1.0' in out
            _, out, _ = run("doctor")
            assert f"process {told.pid}, 2 orders waiting, 1 alarm" in out
        finally:
            relay.kill()


def test_agents_named_by_the_settings_get_alarms_as_orders_of_the_relay(tmp_path: Path) -> None:
    of_relay = '[relay]\nmax_waiting = 1\nalarms_to = ["KEEP", "GATE"]\n'
    relay = Relay(tmp_path, PATIENT.replace("[relay]\n", of_relay))
    relay.start()
    try:
        source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
        for number in range(2):
            source.order("KEEP", b"%d" % number)
        told = gate.take()
        cause = "KEEP: orders for it are refused: as many wait as max_waiting says"
        assert (told.source, told.command, told.data) == (b"RLAY", b"A", f"alarm: {cause}".encode())
        gate.confirm(told)
        wait_until(lambda: [row.kind for row in relay.rows()].count("DELIVERED") == 1, "it has its end")
        assert [row.kind for row in relay.rows()].count("ALARM") == 1, "the order for KEEP, which is full, raises none"
    finally:
        relay.kill()


def observed(number: int) -> RelayActivity | None:
    with rtmw.Domain(number, observe=True) as domain:
        return observe_relay(domain)


# Proves G329.
def test_an_act_that_nobody_answered_may_be_done_and_is_done_once_when_it_is_asked_again(
    relay: Relay, run: Run, operate: Operate, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Peer(relay, "AODB")
    source.order("KEEP", b"1")
    wait_until(lambda: operate("queue")["said"]["rows"] != [], "it waits")
    assert operate("drop", "1")["said"]["done"]
    assert relay.process is not None
    for words in (("hold", "GATE"), ("requeue", "1")):
        with monkeypatch.context() as patience:
            patience.setattr("rtmw.relay.operation._PATIENCE_S", 0.1)
            relay.process.send_signal(signal.SIGSTOP)
            status, _, said = run("relay", *words, "--file", str(relay.file))
            unanswered = run("relay", "queue", "--file", str(relay.file))[0]
        relay.process.send_signal(signal.SIGCONT)
        assert (status, unanswered) == (3, 1)
        assert f"it may have done this, or do it yet; say rtmw relay {' '.join(words)} again" in said
        again = operate(*words)
        assert again["status"] == 1, again["said"]
    assert [row["order"] for row in operate("queue")["said"]["rows"]] == [2]
    relay.end()
    assert [row.cause for row in relay.rows() if row.kind == "ACT"] == ["drop 1", "hold GATE", "requeue 1"]


def test_what_is_not_there_is_said_in_words(operate: Operate, run: Run, relay: Relay) -> None:
    status, _, said = run("relay", "queue", "NOBO", "--file", str(relay.file))
    assert (status, "the settings have no agent NOBO" in said) == (1, True)
    for verb in ("drop", "resend", "requeue"):
        assert operate(verb, "99999")["said"] == {
            "done": False, "words": "there is no order 99999: the last one that was stored is 0"
        }  # fmt: skip


def test_agents_shows_subscriptions(tmp_path: Path, run: Run) -> None:
    subject = '[[subject]]\naddress = "FLTS"\n[[allow]]\npeer = "agent:*"\nfollow = ["FLTS"]\n'
    relay = Relay(tmp_path, PATIENT.replace('absent = "keep"', 'absent = "keep"\nfollows = ["FLTS"]') + subject)
    relay.start()
    try:
        gate = Peer(relay, "GATE")
        gate.order("FLTS", b"(subscribe :from AODB)")
        assert gate.take().body == b""
        rows = {row["agent"]: row["follows"] for row in operator(run, relay)("agents")["said"]["rows"]}
        assert rows == {"AODB": [], "GATE": ["FLTS (AODB * *)"], "KEEP": ["FLTS"]}
    finally:
        relay.kill()


def test_what_a_relay_says_of_itself_costs_by_what_has_changed(domain_id: int, tmp_path: Path) -> None:
    names = [f"{number:04X}" for number in range(2000)]
    settings = Settings(agents=tuple(Agent(name, name.encode(), "127.0.0.1") for name in names))
    with rtmw.Domain(domain_id):
        server = Server(tmp_path, settings, domain_id)
        try:

            def calls() -> int:
                asked = Counter[str]()
                sys.setprofile(lambda frame, event, _: asked.update([frame.f_code.co_name] if event == "call" else []))
                server.operation.say()
                sys.setprofile(None)
                return asked["_agent"]

            assert calls() == len(names)
            assert calls() == 0
            server.machine.connected(1, names[7])
            assert calls() == 1
            told = observe_relay(rtmw.Domain(domain_id, observe=True))
            assert told is not None
            assert len(told.agents) == 256
        finally:
            server.close()


BEGAN: Final = 1_700_000_000


class Clocked:
    """A source with a hello, at a machine without I/O, `connected` at 0; times are in seconds."""

    def __init__(self, *, is_own: bool = True) -> None:
        self.machine = Machine(Policy(world.relay()), State(), Stamps(), world.World(0))
        self.is_own = is_own
        self.connects(0)

    def connects(self, now: float) -> None:
        self._at(now)
        self.machine.connected(1, "A3", Hello(b"A3  ", 10.0, 3) if self.is_own else None)
        self.machine.done()

    def _at(self, now: float) -> None:
        self.machine.time(now, round((BEGAN + now) * 1e9))

    def sends(self, now: float, stamped: float, kind: Kind = Kind.ORDER) -> int | None:
        """What is said of its clock when this has come."""
        self._at(now)
        stamp = f"{datetime.fromtimestamp(BEGAN + stamped, UTC):%Y%m%d%H%M%S.%f0}".encode()
        to, data = ("B4", b"x") if kind is Kind.ORDER else ("A3", bytes(25))
        self.machine.arrived(1, Packet(kind, Frame("A3", to, stamp, "O", "I", data)))
        self.machine.done()
        skew = self.machine.lines["A3"].skew
        return None if skew is None else round(skew)


def test_an_order_that_waited_for_its_relay_or_is_sent_again_says_nothing_of_a_clock() -> None:
    source = Clocked()
    assert source.sends(0.1, -68.8) is None
    assert source.sends(0.1, -800) is None, "nor is it of another time zone"
    assert source.sends(20, 20) == 0
    assert source.sends(30, 20) == 0, "behind T1 again"
    source.connects(40)
    assert source.sends(41, 20) == 0
    assert source.sends(20 + SKEW_S + 1, 30) == 0
    assert Clocked().sends(0.1, -0.1) == 0, "nor did this one wait for long"


def test_a_clock_that_is_slow_or_fast_shows_and_so_does_that_it_was_set_right() -> None:
    slow, fast = Clocked(), Clocked()
    assert slow.sends(60, -60) is None
    assert slow.sends(121, 1) == -120
    assert slow.sends(130, 10) == -120
    assert slow.sends(140, 140) == 0
    assert fast.sends(0.1, 120) == 120
    assert fast.sends(60, 179) == 120
    assert fast.sends(SKEW_S, SKEW_S) == 120
    assert fast.sends(SKEW_S + 1, SKEW_S + 1) == 0
    assert Clocked().sends(1, -119, Kind.RECEIPT) == -120, "it has just left"
    assert Clocked(is_own=False).sends(1, 3600) == -1, "of another time zone"


def test_what_is_seldom_told_is_counted_meanwhile() -> None:
    seldom = Seldom[str](60.0)
    assert [seldom.missed("a", now) for now in (100.0, 101.0, 159.0, 160.0, 161.0, 220.0)] == [
        0,
        None,
        None,
        2,
        None,
        1,
    ]
    assert seldom.missed("b", 161.0) == 0
