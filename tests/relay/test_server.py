"""The relay as a process: real sockets, foreign agents, SIGKILL, and the record of it all (R1 to R4, R7 to R10)."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import rtmw
from rtmw.relay import Form, Frame, Row, Splitter
from rtmw.relay.server import TURN
from rtmw.relay.store import Store
from tests.cli.command import Run
from tests.cli.conftest import run
from tests.conftest import free_number
from tests.net.hosts import Host, wait_until
from tests.relay.servers import ALONE, PATIENCE, SETTINGS, Peer, Relay, stamp

__all__ = ["run"]

FOREIGN = Path(__file__).parent / "foreign"


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    made = Relay(tmp_path)
    made.start()
    yield made
    made.kill()


def kinds(relay: Relay) -> list[str]:
    beside = ("CONNECTED", "GONE", "DROPPED", "CHECKPOINT", "SIGNER", "SEAL")
    return [row.kind for row in relay.rows() if row.kind not in beside]


# Proves R1, R3, R4, R5.
def test_an_order_is_stored_sent_confirmed_and_on_record(relay: Relay) -> None:
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    sent = source.order("GATE", b"CA981 gate 12")
    came = gate.take()
    assert came == sent
    assert came.checksum == sent.checksum
    gate.confirm(came)
    receipt = source.take()
    assert (receipt.type, receipt.source, receipt.body) == (b"A", b"GATE", b"")
    assert receipt.answers == (sent.stamp, sent.checksum)
    assert relay.end() == 0
    rows = {row.kind: row for row in relay.rows()}
    assert kinds(relay) == ["STORED", "SENT", "DELIVERED"]
    stored = rows["STORED"]
    assert (stored.source, stored.destination, stored.body, stored.priority) == ("AODB", "GATE", b"CA981 gate 12", 3)
    assert stored.rule.endswith("line 24")
    assert stored.at <= rows["SENT"].at <= rows["DELIVERED"].at


# Proves R8.
def test_who_does_not_confirm_is_told_to_the_source_after_t2_and_n2(relay: Relay) -> None:
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    sent = source.order("GATE", b"gate 12")
    assert [gate.take() for _ in range(3)] == [sent] * 3
    alert = source.take()
    assert (alert.type, alert.command, alert.answers[0]) == (b"A", b"!", sent.stamp)
    assert alert.body == b"GATE: UNCONFIRMED, no receipt within 0.6 s"
    gate.confirm(sent)
    assert source.take().body == b"", "it was late, and corrects the alert"
    relay.end()
    assert kinds(relay) == ["STORED", "SENT", "SENT", "SENT", "UNCONFIRMED", "LATE"]


# Proves R8.
def test_an_order_for_an_agent_that_was_never_there_is_safe_to_replace(relay: Relay) -> None:
    source = Peer(relay, "AODB")
    source.order("GATE", b"gate 12")
    assert source.take().body.startswith(b"GATE: UNDELIVERED")


# Proves G319, R8.
def test_an_order_that_comes_again_has_one_effect_and_its_last_answer_again(relay: Relay) -> None:
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    sent = source.order("GATE", b"gate 12")
    gate.confirm(gate.take())
    first = source.take()
    source.send(sent)
    again = source.take()
    assert (again.data, again.body) == (first.data, b"")
    source.order("GATE", b"gate 13")
    assert gate.take().data == b"gate 13"


# Proves R2.
def test_what_the_rules_forbid_is_refused_in_words_and_on_record(relay: Relay) -> None:
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    source.order("GATE", b"x", "D")
    assert source.take().body == b"a rule denies it"
    source.order("NONE", b"x")
    assert source.take().body == b"there is no address NONE"
    gate.order("KEEP", b"x")
    assert gate.take().body == b"no rule allows this peer to order it"
    gate.send(Frame("AODB", "GATE", stamp(), "O", "I", b"forged"))
    assert gate.take().body == b"its source is AODB, and the connection is of GATE"
    relay.end()
    assert kinds(relay) == ["REFUSED"] * 4


@pytest.mark.parametrize("answered", [False, True])
# Proves G319, R9.
def test_a_relay_that_is_killed_goes_on_from_its_record(relay: Relay, answered: bool) -> None:
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    sent = source.order("GATE", b"gate 12")
    came = gate.take()
    if answered:
        gate.confirm(came)
        source.take()
    relay.kill()
    relay.start()
    gate = Peer(relay, "GATE")
    if not answered:
        assert gate.take() == sent
        gate.confirm(came)
    source = Peer(relay, "AODB", introduced=False)
    source.send(sent)
    assert source.take().body == b""


def test_orders_for_an_agent_that_keeps_them_wait_for_it_over_a_kill(relay: Relay) -> None:
    source = Peer(relay, "AODB")
    sent = [source.order("KEEP", b"%d" % number) for number in range(5)]
    source.order("GATE", b"to see that the others are stored")
    source.take()
    relay.kill()
    relay.start()
    keep = Peer(relay, "KEEP")
    for one in sent:
        assert keep.take() == one
        keep.confirm(one)


# Proves R3, R5.
def test_a_group_has_one_receipt_when_all_have_confirmed(relay: Relay) -> None:
    source, gate, keep = Peer(relay, "AODB"), Peer(relay, "GATE"), Peer(relay, "KEEP")
    source.order("ALL", b"evacuate")
    gate.confirm(gate.take())
    came = keep.take()
    source.order("GATE", b"later")
    gate.confirm(gate.take())
    assert source.take().source == b"GATE"
    keep.confirm(came)
    assert source.take().source == b"ALL "


# Proves R6.
def test_an_answer_with_content_needs_no_rule_and_counts_as_the_receipt(relay: Relay) -> None:
    source, keep = Peer(relay, "AODB"), Peer(relay, "KEEP")
    sent = source.order("KEEP", b"where?")
    came = keep.take()
    keep.send(Frame("KEEP", "AODB", stamp(), "A", "U", came.stamp + came.checksum + b"at gate 12"))
    seen = [source.take(), source.take()]
    assert sorted(one.body for one in seen) == [b"", b"at gate 12"]
    answer = next(one for one in seen if one.body)
    assert answer.answers == (sent.stamp, sent.checksum)
    source.confirm(answer)
    assert keep.take().body == b""


# Proves R2.
def test_an_agent_above_its_rate_is_not_read_from(tmp_path: Path) -> None:
    relay = Relay(tmp_path, SETTINGS.replace("deny =", "max_orders = 5\ndeny ="))
    relay.start()
    try:
        source = Peer(relay, "AODB")
        source.socket.sendall(b"".join(source.made("KEEP", b"%d" % number).encode() for number in range(12)))
        keep = Peer(relay, "KEEP")
        got = list[bytes]()
        while len(got) < 12:
            keep.confirm(came := keep.take())
            got += [came.data] * (came.data not in got)  # a receipt that was late on a busy machine: it came again
        assert got == [b"%d" % number for number in range(12)]
        relay.end()
        stored = [row.at for row in relay.rows() if row.kind == "STORED"]
        assert stored[11] - stored[5] >= 0.9e9, "five at once, and then one each 200 ms"
    finally:
        relay.kill()


# Proves G332.
def test_an_agent_that_sends_without_end_leaves_others_their_turns(relay: Relay) -> None:
    flooding, source = Peer(relay, "GATE"), Peer(relay, "AODB")
    source.order("NONE", b"x")
    assert source.take().body, "both are known"
    frames = b"".join(flooding.made("AODB", b"x").encode() for _ in range(5000))
    assert relay.process is not None
    relay.process.send_signal(signal.SIGSTOP)
    flooding.socket.setblocking(False)
    assert flooding.socket.send(frames) > 20 * TURN * len(frames) // 5000
    source.order("NONE", b"y")
    relay.process.send_signal(signal.SIGCONT)
    assert next(one for one in source.frames() if one.type == b"A").body == b"there is no address NONE"
    relay.kill()
    found = [row.kind for row in relay.rows() if row.kind in ("STORED", "REFUSED")]
    assert found.index("REFUSED", 1) < 4 * TURN


@pytest.mark.parametrize("is_order", [True, False])
# Proves G327.
def test_what_is_refused_or_dropped_comes_at_the_rate_of_the_agent_too(tmp_path: Path, is_order: bool) -> None:
    relay = Relay(tmp_path, SETTINGS.replace("deny =", "max_orders = 5\ndeny ="))
    relay.start()
    try:
        source = Peer(relay, "AODB", introduced=False)
        made = [source.made("NONE", b"%d" % number) for number in range(12)]
        sent = made if is_order else [Frame("AODB", "GATE", stamp(), "A", "I", bytes(25)) for _ in made]
        source.socket.sendall(b"".join(one.encode() for one in sent))
        source.order("NONE", b"the last")
        while source.take().answers[0] in [one.stamp for one in made]:
            pass
        relay.end()
        at = [row.at for row in relay.rows() if row.kind == ("REFUSED" if is_order else "DROPPED")]
        assert at[11] - at[5] >= 0.9e9, "five at once, and then one each 200 ms"
    finally:
        relay.kill()


# Proves G327.
def test_a_flood_of_refused_frames_has_few_rows_that_count_them_all_and_an_alarm(relay: Relay) -> None:
    source, flood = Peer(relay, "AODB"), 3000
    source.socket.sendall(b"".join(source.made("NONE", b"x").encode() for _ in range(flood)))

    def all_are_told() -> bool:
        causes = [row.cause for row in relay.rows() if row.kind in ("REFUSED", "DROPPED", "CONNECTED")]
        counted = sum(int(cause.split()[0]) for cause in causes if "more frames" in cause)
        return counted + sum("more frames" not in cause for cause in causes) == flood + 2  # it said who it is, too

    wait_until(all_are_told, "each frame has a row or is counted in one")
    relay.end()
    rows = [row for row in relay.rows() if row.kind in ("REFUSED", "DROPPED", "ALARM")]
    assert len(rows) < flood / 3
    answered = {frame.answers[0] for frame in source.frames()}
    refused = {row.head[8:30] for row in rows if row.kind == "REFUSED"}
    assert answered == refused, "what has no row may be stored when it comes again, so its source is told nothing yet"
    (alarm,) = [row for row in rows if row.kind == "ALARM"]
    assert (alarm.source, alarm.cause) == ("AODB", "more than 50 of its frames a second are refused or dropped")


# Proves G336.
def test_a_record_that_is_removed_while_the_relay_runs_ends_it_with_the_reason(relay: Relay) -> None:
    record = relay.folder / "relay" / "record"
    while record.exists():  # the relay may put a file into it meanwhile
        shutil.rmtree(record, ignore_errors=True)
    assert "record was removed or moved while the relay ran" in relay.until("was removed")
    assert relay.process is not None
    assert relay.process.wait(PATIENCE) == 1


@pytest.mark.parametrize("is_whole", [False, True], ids=["the folder is there", "nothing is there"])
def test_no_relay_begins_a_record_where_one_was_lost(relay: Relay, is_whole: bool) -> None:
    Peer(relay, "AODB").order("KEEP", b"kept")
    record, begun = relay.folder / "relay" / "record", relay.folder / "relay" / "begun"
    wait_until(begun.exists, "it is noted that there is a record")
    relay.kill()
    elsewhere = relay.folder / "elsewhere"
    shutil.move(record, elsewhere)
    if not is_whole:
        record.mkdir()
    with pytest.raises(rtmw.LogError, match="is missing or empty, and a relay has kept orders here: move it back"):
        Store(relay.folder / "relay", 60.0)
    assert is_whole is not record.exists()
    shutil.rmtree(record, ignore_errors=True)
    shutil.move(elsewhere, record)
    relay.start()
    assert "STORED" in {row.kind for row in relay.rows()}


def test_the_log_says_at_start_and_reload_what_is_most_likely_not_meant(tmp_path: Path) -> None:
    relay = Relay(tmp_path, SETTINGS.replace('t1 = "2s"', 't1 = "100ms"'))
    relay.start()
    try:
        words = "an agent gives up after T1·(N1+1) = 0.4 s, and the server after T2·(N2+1) = 0.6 s: the first must"
        assert words in relay.until("an agent gives up")
        relay.file.write_text(relay.file.read_text().replace("KEEP/*", "NONE/*"))
        assert relay.process is not None
        relay.process.send_signal(signal.SIGHUP)
        said = relay.until("relay settings that are others")
        assert said.endswith("others: rules\n")
        assert "order to NONE: there is no agent and no subject of this name" in relay.until("order to NONE")
        text = (
            relay.file.read_text()
            .replace('"GATE"\nfrom', '"GATE"\nwindow = 3\nfrom')
            .replace("[[subject]]", '[[agent]]\nname = "MORE"\nuid = 1\n\n[[subject]]')
        )
        relay.file.write_text(text.replace("127.0.0.1:0", "127.0.0.1:1").replace('t2 = "200ms"', 't2 = "20ms"'))
        relay.process.send_signal(signal.SIGHUP)
        said = relay.until("relay settings that are others")
        assert said.endswith("others: agent GATE, agent MORE, listen, t2\n")
        assert relay.until("takes effect") == "listen: takes effect when the relay is started again\n"
    finally:
        relay.kill()


def test_a_connection_that_reads_nothing_is_ended_whatever_waits_for_it(relay: Relay) -> None:
    source = Peer(relay, "AODB")
    refused = source.made("NONE", bytes(100)).encode()
    source.socket.settimeout(0.2)
    with suppress(OSError):
        for _ in range(100_000):
            source.socket.sendall(refused)
    relay.until("it does not read what is sent to it")
    again = Peer(relay, "AODB")
    again.order("NONE", b"x")
    assert again.take().body == b"there is no address NONE"
    relay.end()
    assert sum("does not read" in line for line in relay.lines) == 1


def test_a_stream_is_held_behind_an_order_that_failed_until_that_is_confirmed(tmp_path: Path) -> None:
    text = SETTINGS.replace('name = "GATE"\n', 'name = "GATE"\non_failure = "hold"\n')
    relay = Relay(tmp_path, text)
    relay.start()
    try:
        source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
        first = source.order("GATE", b"first")
        assert source.take().body.startswith(b"GATE: UNCONFIRMED")
        source.order("GATE", b"second")
        assert source.take().body == b"GATE: UNDELIVERED, held behind order 1, which has failed"
        gate.confirm(first)
        assert source.take().body == b""
        for _ in range(3):
            assert gate.take() == first
        third = source.order("GATE", b"third")
        assert gate.take() == third
    finally:
        relay.kill()


def test_the_time_of_an_order_goes_on_over_a_kill(tmp_path: Path) -> None:
    relay = Relay(tmp_path, SETTINGS.replace("n2 = 2", "n2 = 1000").replace('t1 = "2s"', 't1 = "500s"'))
    relay.start()
    try:
        source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
        sent = source.order("GATE", b"x")
        assert gate.take() == sent
        relay.kill()
        relay.file.write_text(SETTINGS)
        time.sleep(0.5)  # longer than T2·(N2+1) less one try
        relay.start()
        source = Peer(relay, "AODB", introduced=False)
        source.send(sent)
        assert source.take().body == b"GATE: UNCONFIRMED, no receipt within 0.6 s"
        relay.end()
        (end,) = [row for row in relay.rows() if row.kind == "UNCONFIRMED"]
        assert end.tries == 1
    finally:
        relay.kill()


def test_a_record_that_was_salvaged_is_read_and_rows_about_nothing_are_counted(relay: Relay) -> None:
    relay.end()
    with rtmw.Log(relay.folder / "relay" / "record", Row) as log:
        log.append(Row("DELIVERED", 1, order=7, recipient="GATE"))
    relay.start()
    assert "1 row of the record are about orders" in relay.until("about orders")
    relay.end()
    with rtmw.Log(relay.folder / "relay" / "record", Row) as log:
        log.append(Row("STORED", 1, order=8, head=b"abc"))
    with pytest.raises(AssertionError, match=r"is none of a relay: .* restore the folder from a copy"):
        relay.start()


def test_garbage_is_counted_and_ends_the_connection_after_sixteen_places(relay: Relay) -> None:
    source = Peer(relay, "AODB")
    source.socket.sendall(b"garbage\n" * 16)
    source.order("GATE", b"gate 12")
    assert source.take().body.startswith(b"GATE: UNDELIVERED")
    source.socket.sendall(b"garbage\n")
    assert source.is_closed()
    assert "17 × another header" in relay.until("is closed")


# Proves R10.
def test_a_newer_connection_takes_over_and_two_that_fight_are_an_alarm(relay: Relay) -> None:
    peers = [Peer(relay, "GATE") for _ in range(7)]
    assert all(one.is_closed() for one in (*peers[:5], peers[6]))
    relay.until("a connection of GATE is closed: a newer connection of this agent takes over")
    relay.until("a connection of GATE is closed: another connection of this agent stays for a minute")
    Peer(relay, "AODB").order("GATE", b"x")
    assert peers[5].take().data == b"x"
    relay.end()
    assert "ALARM" in kinds(relay)


def test_a_place_where_no_agent_is_and_a_source_that_is_not_there_are_closed(tmp_path: Path) -> None:
    relay = Relay(tmp_path, SETTINGS.replace('from = "127.0.0.1"', 'from = "127.0.0.9"'))
    relay.start()
    try:
        assert Peer(relay, "AODB", introduced=False).is_closed()
        relay.until("no agent of the settings connects from there")
    finally:
        relay.kill()
    relay = Relay(tmp_path)
    relay.start()
    try:
        assert Peer(relay, "NONE").is_closed()
        relay.until("its first frame is of NONE, who is not there")
    finally:
        relay.kill()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Relay]:
    made = Relay(tmp_path, ALONE)
    made.start()
    yield made
    made.kill()


# Proves R10.
def test_the_kernel_says_who_is_at_a_unix_socket(alone: Relay) -> None:
    source, keep = Peer(alone.unix(), "AODB"), Peer(alone, "KEEP", introduced=False)
    source.order("KEEP", b"x")
    keep.confirm(keep.take())
    assert source.take().body == b""
    assert Peer(alone.unix(), "KEEP").is_closed()


@contextmanager
def dialling(folder: Path) -> Iterator[tuple[Relay, socket.socket]]:
    """A relay that connects to KEEP, and where it does so."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)
        place = f"127.0.0.1:{listening.getsockname()[1]}"
        relay = Relay(folder, SETTINGS.replace('name = "KEEP"\nfrom = "127.0.0.1"', f'name = "KEEP"\ndial = "{place}"'))
        relay.start()
        try:
            yield relay, listening
        finally:
            relay.kill()


# Proves R10.
def test_the_relay_dials_an_agent_when_something_waits_for_it(tmp_path: Path) -> None:
    with dialling(tmp_path) as (relay, listening):
        source = Peer(relay, "AODB")
        sent = source.order("KEEP", b"x")
        keep = Peer(listening.accept()[0], "KEEP", introduced=False)
        assert keep.take() == sent
        keep.confirm(sent)
        assert source.take().body == b""


def test_an_agent_that_keeps_its_orders_is_dialled_again_while_one_waits(tmp_path: Path) -> None:
    with dialling(tmp_path) as (relay, listening):
        sent = Peer(relay, "AODB").order("KEEP", b"x")
        listening.accept()[0].close()
        relay.kill()
        relay.start()
        listening.accept()[0].close()
        assert Peer(listening.accept()[0], "KEEP", introduced=False).take() == sent


# Proves R6.
def test_values_of_frames_that_the_settings_choose_are_those_of_all_agents(tmp_path: Path) -> None:
    relay = Relay(tmp_path, SETTINGS.replace("[relay]\n", '[relay]\nheader = 126\norder = "0"\nanswer = "1"\n'))
    relay.start()
    try:
        form = Form(header=126, order=b"0", answer=b"1")
        source, gate = socket.create_connection(("127.0.0.1", relay.port)), Peer(relay, "GATE", introduced=False)
        with source:
            source.settimeout(PATIENCE)
            gate.splitter = Splitter(form=form)
            gate.socket.sendall(Frame("GATE", "none", stamp(), "1", "I", bytes(25)).encode(form=form))
            source.sendall(Frame("AODB", "GATE", stamp(), "0", "I", b"x").encode(form=form))
            gate.socket.sendall(gate.take().receipt(stamp(), form).encode(form=form))
            said = Splitter(form=form)
            while not (frames := said.feed(source.recv(65536))):
                pass
            assert (frames[0].type, frames[0].body) == (b"1", b"")
            source.sendall(Frame("AODB", "GATE", stamp(), "0", "!", b"x").encode(form=form))
            while not (frames := said.feed(source.recv(65536))):
                pass
            assert frames[0].body == b"its command is that of alerts"
    finally:
        relay.kill()


def test_other_settings_hold_from_sighup_on_and_wrong_ones_change_nothing(relay: Relay) -> None:
    source, gate = Peer(relay, "AODB"), Peer(relay, "GATE")
    assert relay.process is not None
    relay.file.write_text(SETTINGS.replace('"GATE/*", ', ""))
    relay.process.send_signal(signal.SIGHUP)
    relay.until("settings read again")
    source.order("GATE", b"x")
    assert source.take().body == b"no rule allows this peer to order it"
    relay.file.write_text(SETTINGS.replace("t2 =", "t3 ="))
    relay.process.send_signal(signal.SIGHUP)
    assert "line 4: [relay] has no t3" in relay.until("the settings stay as they are")
    relay.file.write_text(SETTINGS)
    relay.process.send_signal(signal.SIGHUP)
    relay.until("settings read again")
    source.order("GATE", b"y")
    assert gate.take().data == b"y"


@pytest.fixture(params=["c", "py"])
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The command of an agent that was written from the page alone."""
    if request.param == "py":
        return [sys.executable, str(FOREIGN / "agent.py")]
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(tmp_path / "agent")]
    subprocess.run([compiler, *flags, str(FOREIGN / "agent.c")], check=True, timeout=PATIENCE)
    return [str(tmp_path / "agent")]


# Proves R1.
def test_foreign_sources_have_their_receipts_and_alerts(relay: Relay, foreign: list[str]) -> None:
    gate, command = Peer(relay, "GATE"), [*foreign, str(relay.port), "AODB", "GATE"]
    sender = subprocess.Popen([*command, "20"], stdout=subprocess.PIPE, text=True)
    for number in range(20):
        came = gate.take()
        assert came.data == b"order %d" % number
        gate.confirm(came)
    assert sender.communicate(timeout=PATIENCE)[0] == "delivered 20\n"
    gate.close()
    said = subprocess.run([*command, "1"], capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    assert said.startswith("failed: GATE: UNDELIVERED")


# Proves R1.
def test_foreign_recipients_confirm_what_they_got(alone: Relay, foreign: list[str]) -> None:
    source, command = Peer(alone.unix(), "AODB"), [*foreign, str(alone.port), "KEEP", "AODB"]
    source.order("KEEP", b"first")
    receiver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert source.take().body == b""
        source.order("KEEP", b"second")
        assert source.take().body == b""
    finally:
        receiver.kill()
    assert receiver.communicate()[0] == "got first\ngot second\n"


def test_a_node_serves_a_relay_and_starts_it_again_when_it_dies(domain_id: int, tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text('serve = ["relay"]\ndata = "data"\n' + ALONE)
    relay, host = Relay(tmp_path, (tmp_path / "node.toml").read_text()), Host(domain_id, free_number(), tmp_path)
    try:
        host.start("--config", str(relay.file))
        pids = set[int]()
        for _ in range(2):
            wait_until(lambda: served(host) not in (None, *pids), "the node says so")  # the one before is gone, then
            wait_until(lambda: is_there(relay), "the relay listens")
            source, keep = Peer(relay.unix(), "AODB"), Peer(relay.unix(), "GATE")
            source.order("GATE", b"x")
            keep.confirm(keep.take())
            assert source.take().body == b""
            pids.add(pid := served(host) or 0)
            os.kill(pid, signal.SIGKILL)
            assert source.is_closed()
        assert len(pids) == 2
    finally:
        host.end()


def served(host: Host) -> int | None:
    """The process of its relay."""
    (row,) = host.info()["services"]
    found: int | None = row["pid"]
    return found


def is_there(relay: Relay) -> bool:
    try:
        relay.unix().close()
    except OSError:
        return False
    return True


def test_a_node_that_serves_no_relay_says_what_its_tables_are_for(run: Run, tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text(SETTINGS)
    status, _, said = run("node", "check", str(tmp_path / "node.toml"))
    assert status == 1
    assert 'relay is of a relay, and this node serves none; add serve = ["relay"]' in said
    (tmp_path / "node.toml").write_text('serve = ["relay"]\ndata = "data"\n' + SETTINGS.replace("t2", "t3"))
    assert "line 6: [relay] has no t3" in run("node", "check", str(tmp_path / "node.toml"))[2]
