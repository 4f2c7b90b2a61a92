"""What bounds a core that programs use: many transfers, old and large transactions, full disks, clocks, pids."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest

import rtmw
from rtmw import Delivery, Level, TransferState
from rtmw.transfer.client.viewer import Viewer
from tests import namespaces
from tests.transfer.core_process import CHANGED, PATIENCE, CoreProcess

MANY = 10_000


def memory(pid: int) -> int:
    """Bytes of a process that lie in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def take(inbox: rtmw.Inbox) -> rtmw.Letter:
    letter = inbox.take(PATIENCE)
    assert letter is not None
    return letter


# Proves T11.
def test_t11_ten_thousand_parked_transfers_are_listed_kept_and_handed_over_in_order(
    core: CoreProcess, domain: rtmw.Domain
) -> None:
    body = bytes(200)

    async def send_all(sender: rtmw.Sender) -> None:
        for begin in range(0, MANY, 500):
            numbers = range(begin, begin + 500)
            await asyncio.gather(
                *(sender.send_async("ingest", b"%05d" % one + body, delivery=Delivery.LOG) for one in numbers)
            )

    before = memory(core.process.pid)
    with rtmw.Sender("gauge") as sender:
        asyncio.run(send_all(sender))
    grown = memory(core.process.pid) - before
    assert grown < MANY * 8192, f"{grown // MANY} bytes for each transfer"
    with Viewer(domain) as viewer:
        listings = list[float]()
        for _ in range(4):
            begun = time.monotonic()
            found = viewer.show("transfers")
            listings.append(time.monotonic() - begun)
        assert (len(found["transfers"]), found["counters"]["parked"], found["more"]) == (MANY, MANY, 0)
        assert len(viewer.show("queues")["items"]) == MANY
    core.kill()
    core.start()
    core.wait_until_ready()
    with rtmw.Inbox("ingest") as inbox:
        begun = time.monotonic()
        seen = [int(take(inbox).body[:5]) for _ in range(MANY)]
        assert min(listings) < 2 * (time.monotonic() - begun), "to list them takes twice as long as to take them"
    assert seen == list(range(MANY))


def test_limits_of_the_settings_hold_and_are_read_again(tmp_path: Path, domain: rtmw.Domain) -> None:
    config = tmp_path / "node.toml"
    config.write_text("[transfer.limits]\nparked = 2\n")
    core = CoreProcess(domain.id, tmp_path / "core", config=config)
    core.start()
    try:
        core.wait_until_ready()
        with rtmw.Sender("gauge") as sender:
            for body in (b"1", b"2"):
                sender.send("ingest", body)
            with pytest.raises(rtmw.TransferRefused, match="2"):
                sender.send("ingest", b"3")
            config.write_text("[transfer.limits]\nparked = 3\n")
            core.process.send_signal(signal.SIGHUP)
            end = time.monotonic() + PATIENCE
            while not is_accepted(sender, b"3"):
                assert time.monotonic() < end, "the settings are not read again"
            with pytest.raises(rtmw.TransferRefused, match="3"):
                sender.send("ingest", b"4")
    finally:
        core.end()


def is_accepted(sender: rtmw.Sender, body: bytes) -> bool:
    try:
        sender.send("ingest", body)
    except rtmw.TransferRefused:
        return False
    return True


# Proves T10.
def test_t10_what_a_transaction_takes_behind_a_savepoint_is_back_in_its_place_after_the_rollback(
    sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    sent = [sender.send("ingest", name, delivery=Delivery.LOG) for name in (b"a", b"b", b"c")]

    def take_in(txn: rtmw.Transaction) -> tuple[bytes, int]:
        letter = txn.take(inbox)
        assert letter is not None
        with pytest.raises(ValueError, match="has taken this letter"):
            letter.consume()
        return letter.body, letter.redelivered

    with sender.transaction() as txn:
        assert take_in(txn) == (b"a", 0)
        half = txn.savepoint("half")
        assert take_in(txn) == (b"b", 0)
        txn.send("ingest", b"never")
        txn.rollback(half)
        assert take_in(txn) == (b"b", 1)
    assert sent[0].wait(Level.CONSUMED, PATIENCE)
    assert sent[1].wait(Level.CONSUMED, PATIENCE)
    txn = sender.transaction()
    assert take_in(txn) == (b"c", 0)
    txn.abort()
    letter = take(inbox)
    assert (letter.body, letter.redelivered) == (b"c", 1)
    letter.consume()
    assert inbox.take(0) is None


def events_of(domain: rtmw.Domain) -> list[tuple[str, str, str]]:
    with Viewer(domain) as viewer:
        return [(one["what"], one["sender"], one["cause"]) for one in viewer.show("transfers")["events"]]


def test_t10_a_transaction_that_is_open_for_too_long_is_undone_with_an_event(
    core: CoreProcess, domain: rtmw.Domain
) -> None:
    core.kill()
    core.start(CHANGED, "--age", "0.3")
    core.wait_until_ready()
    with rtmw.Sender("gauge") as sender, rtmw.Inbox("ingest") as inbox:
        txn = sender.transaction()
        txn.send("ingest", b"never")
        event = next(sender.events())
        assert (event.state, event.cause) == (None, f"transaction {txn.number} was undone: AGE")
        with pytest.raises(rtmw.TransferError, match="undone, because it was open for too long"):
            txn.commit()
        assert inbox.take(0) is None
    assert ("UNDONE", "gauge", "AGE") in events_of(domain)


def test_t10_a_transaction_that_becomes_too_large_is_undone_with_an_event(
    core: CoreProcess, domain: rtmw.Domain
) -> None:
    core.kill()
    core.start(CHANGED, "--bytes", "100000")
    core.wait_until_ready()
    with rtmw.Sender("gauge") as sender, rtmw.Inbox("ingest") as inbox:
        txn = sender.transaction()
        txn.send("ingest", bytes(90_000))
        txn.send("ingest", bytes(20_000))
        with pytest.raises(rtmw.TransferError, match="became too large: 1 records and 110000 bytes"):
            txn.commit()
        assert inbox.take(0) is None
        assert list((core.data / "spool").iterdir()) == []
    assert ("UNDONE", "gauge", "SIZE") in events_of(domain)


# Proves G182.
def test_t1_a_wall_clock_that_was_set_back_and_forth_ends_lifetimes_and_nothing_else(
    core: CoreProcess, sender: rtmw.Sender, inbox: rtmw.Inbox, domain: rtmw.Domain
) -> None:
    short = sender.send("nobody", b"short", delivery=Delivery.LOG, lifetime=600)
    endless = sender.send("nobody", b"endless", delivery=Delivery.LOG)
    core.kill()
    core.start(CHANGED, "--wall", "-86400")
    assert short.wait(Level.ACCEPTED, PATIENCE)
    txn = sender.transaction()
    txn.send("ingest", b"x")
    txn.commit()
    take(inbox).consume()
    with Viewer(domain) as viewer:
        assert {one["state"] for one in viewer.show("transfers")["transfers"]} == {"ACCEPTED"}
    normal = sender.send("ingest", b"normal")
    take(inbox).consume()
    assert normal.wait(Level.CONSUMED, PATIENCE)
    core.kill()
    core.start(CHANGED, "--wall", "3600")
    with pytest.raises(rtmw.TransferRefused, match="EXPIRED"):
        short.wait(Level.CONSUMED, PATIENCE)
    assert endless.state is TransferState.ACCEPTED
    assert sender.send("ingest", b"y", delivery=Delivery.LOG).id != endless.id


FULL = f"""
    import sys, time
    sys.path[:0] = {sys.path!r}
    from pathlib import Path
    import rtmw
    from rtmw import Delivery, Level
    from tests.transfer.core_process import CoreProcess
    domain, folder = int(sys.argv[1]), Path(sys.argv[2])
    core = CoreProcess(domain, folder)
    core.start()
    core.wait_until_ready()
    with rtmw.Sender("gauge", domain=domain) as sender, rtmw.Inbox("ingest", domain=domain) as inbox:
        sent, body = [], bytes(4 << 20)
        while True:
            try:
                sent.append(sender.send("ingest", body, delivery=Delivery.LOG))
            except rtmw.TransferRefused as error:
                assert "disk of the core has no room" in str(error), error
                break
        print("full", len(sent) > 2)
        small = sender.send("ingest", b"small", delivery=Delivery.LOG, priority=7)
        with inbox.take(20) as letter:
            print(letter.body.decode())
        for _ in sent:
            with inbox.take(20) as letter:
                assert letter.size == len(body)
        assert all(one.wait(Level.CONSUMED, 20) for one in [*sent, small])
        print("room", sender.send("ingest", body, delivery=Delivery.LOG).state.name)
    core.kill()
    core.start()
    core.wait_until_ready()
    with rtmw.Inbox("ingest", domain=domain) as inbox:
        print("kept", len(inbox.take(20).body) == len(body), inbox.take(0))
    print(core.end())
"""


# Proves G182.
def test_t8_a_full_disk_refuses_before_accepted_and_work_goes_on_when_there_is_room(
    domain: rtmw.Domain, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    namespaces.require("unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size=64k tmpfs {disk}")
    mount = f'mount -t tmpfs -o size=170m tmpfs {disk} && exec "$@" {domain.id} {disk}/transfers'
    program = namespaces.start(["unshare", "--mount", "sh", "-c", mount, "sh"], FULL, tmp_path / "full.py")
    out, _ = program.communicate(timeout=100)
    assert out.splitlines()[:4] == ["full True", "small", "room ACCEPTED", "kept True None"], out


RECEIVER = f"""
import sys
sys.path[:0] = {sys.path!r}
import os, signal, rtmw
with rtmw.Inbox("ingest", domain=%d) as inbox:
    print(os.getpid(), "ready", flush=True)
    letter = inbox.take(%g)
    print(letter.body.decode() if letter else None, flush=True)
    signal.pause()
"""
ANEW = f"""
    import os, signal, sys, time
    sys.path[:0] = {sys.path!r}
    from pathlib import Path
    import rtmw
    from rtmw import Delivery, Level
    from tests.transfer.core_process import CoreProcess

    RECEIVER = {RECEIVER!r}

    def receiver(pid, seconds):
        reading, writing = os.pipe()
        for _ in range(50):
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
            made = os.fork()
            if made == 0:
                os.dup2(writing, 1)
                os.execv(sys.executable, [sys.executable, "-c", RECEIVER % (domain, seconds)])
            if made == pid:
                os.close(writing)
                return os.fdopen(reading)
            os.kill(made, signal.SIGKILL)
            os.waitpid(made, 0)
        sys.exit("pid %d could not be had" % pid)

    domain, folder = int(sys.argv[1]), Path(sys.argv[2])
    core = CoreProcess(domain, folder)
    core.start()
    core.wait_until_ready()
    with rtmw.Sender("gauge", domain=domain) as sender:
        first = receiver(4242, 30)
        assert first.readline() == "4242 ready\\n"
        taken = sender.send("ingest", b"taken", delivery=Delivery.LOG)
        assert first.readline() == "taken\\n"
        alone = [sender.send("ingest/4242", b"for it alone", delivery=kind) for kind in (Delivery.LOG, Delivery.NORMAL)]
        os.kill(4242, signal.SIGKILL)
        os.waitpid(4242, 0)
        time.sleep(0.05)  # a start time is counted in hundredths of a second
        second = receiver(4242, 0.5)
        assert second.readline() == "4242 ready\\n"
        print(second.readline().strip())
        for one in alone:
            try:
                one.wait(Level.DELIVERED, 20)
            except rtmw.TransferRefused as error:
                print("DEAD" in str(error))
        anew = sender.send("ingest/4242", b"for the second", delivery=Delivery.LOG)
        print(anew.state.name)
        os.kill(4242, signal.SIGKILL)
        os.waitpid(4242, 0)
    print(core.end())
"""


# Proves G181, T2.
def test_t2_what_is_for_a_process_never_reaches_a_later_one_with_its_pid(domain: rtmw.Domain, tmp_path: Path) -> None:
    command = ["unshare", "--pid", "--fork", "--mount-proc"]
    namespaces.require(*command, "sh", "-c", "echo 100 > /proc/sys/kernel/ns_last_pid")
    run = ["sh", "-c", f'"$@" {domain.id} {tmp_path}/transfers', "sh"]
    program = namespaces.start([*command, *run], ANEW, tmp_path / "anew.py")
    out, _ = program.communicate(timeout=100)
    assert out.splitlines()[:4] == ["taken", "True", "True", "ACCEPTED"], out
