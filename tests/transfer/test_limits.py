"""What bounds transactions and transfers, and a disk that is full in the middle of a step."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from rtmw.net.settings import make_settings
from rtmw.settings import SettingsError, SettingsFile
from rtmw.transfer.errors import TransactionAborted, TransferRefused
from rtmw.transfer.events import (
    Aborted,
    AbortTransaction,
    BeginTransaction,
    CommitTransaction,
    Now,
    ReceiverJoined,
    SendTransfers,
    TakeTransfers,
    Tick,
)
from rtmw.transfer.header import Delivery, Level
from rtmw.transfer.limits import LIMITS, Limits, read_limits
from rtmw.transfer.records import AbortCause
from rtmw.transfer.store import transaction_rows
from tests.transfer.memory import ME, Core, header, recovered
from tests.transfer.steps import OTHER, later, nothing, send, take


@pytest.mark.parametrize(("bodies", "what"), [([b"x"] * 5, "4 records"), ([b"x" * 60] * 2, "1 records and 120 bytes")])
def test_a_transaction_that_becomes_too_large_is_undone_with_an_event(
    core: Core, bodies: list[bytes], what: str
) -> None:
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    for body in bodies[:-1]:
        send(core, body, txn=txn)
    with pytest.raises(TransactionAborted, match=f"became too large: {what}"):
        send(core, bodies[-1], txn=txn)
    assert Aborted(txn, AbortCause.SIZE) in core.effects
    assert not core.state.items
    with pytest.raises(TransactionAborted, match="became too large"):
        core.step(CommitTransaction(txn))


def test_a_transaction_that_becomes_too_old_is_undone_with_an_event(core: Core) -> None:
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    send(core, b"a", txn=txn)
    core.now = Now(core.now.monotonic_ns, core.now.wall_ns + 10**15)  # somebody has set the clock
    core.step(Tick())
    assert core.effects == []
    later(core, 11)
    assert transaction_rows(core.machine, core.now.monotonic_ns)[0].age == 11
    core.step(Tick())
    assert Aborted(txn, AbortCause.AGE) in core.effects
    with pytest.raises(TransactionAborted, match="open for too long"):
        core.step(CommitTransaction(txn))


def test_an_empty_transaction_that_becomes_too_old_is_undone_with_an_event_and_without_a_record(core: Core) -> None:
    txn, end = core.step(BeginTransaction()), core.log.end
    assert isinstance(txn, int)
    later(core, 11)
    core.step(Tick())
    assert core.effects == [Aborted(txn, AbortCause.AGE)]
    assert core.log.end == end
    with pytest.raises(TransactionAborted, match="open for too long"):
        core.step(CommitTransaction(txn))


def test_more_transactions_and_transfers_than_may_be_are_refused(core: Core) -> None:
    core.step(BeginTransaction())
    core.step(BeginTransaction())
    with pytest.raises(TransferRefused, match="2 transactions are open"):
        core.step(BeginTransaction())
    for _ in range(50):
        send(core, b"a")
    with pytest.raises(TransferRefused, match="50 transfers are parked"):
        send(core, b"a")


def test_small_raw_in_a_transaction_is_refused(core: Core) -> None:
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    raw = replace(header(b"a"), delivery=Delivery.SMALL_RAW, level=Level.NONE)
    with pytest.raises(ValueError, match="SMALL_RAW in a transaction"):
        core.step(SendTransfers(raw, (b"a",), txn=txn))


@pytest.mark.parametrize("value", [0, -1, True])
def test_limits_that_are_none_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="it is a number above 0"):
        Limits(transaction_records=value)


# ---- a full disk ----


def test_a_step_that_cannot_log_changes_nothing(core: Core) -> None:
    send(core, b"a")
    core.log.fails_after = 0
    for event in (SendTransfers(header(b"b"), (b"b",)), TakeTransfers("ingest", ME)):
        with pytest.raises(OSError, match="full"):
            core.step(event)
    core.log.fails_after = None
    assert take(core).record.body == b"a"
    assert nothing(core)


@pytest.mark.parametrize("batches", range(5))
def test_an_abort_that_meets_a_full_disk_anywhere_goes_on_when_there_is_room(core: Core, batches: int) -> None:
    send(core, b"a")
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    take(core, txn=txn)
    send(core, b"b", txn=txn)
    core.log.fails_after = batches
    try:
        core.step(AbortTransaction(txn))
        assert batches == 4
    except OSError:
        pass
    if 0 < batches < 4:
        with pytest.raises(TransactionAborted, match="being undone"):
            core.step(CommitTransaction(txn))
    core.log.fails_after = None
    later(core, 11)
    core.step(Tick())
    assert not core.state.table
    assert take(core).record.body == b"a"
    assert not recovered(core.log, 2).table


def test_a_send_to_each_that_meets_a_full_disk_half_way_can_only_be_undone(core: Core) -> None:
    core.step(ReceiverJoined("ingest", OTHER))
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    core.log.fails_after = 1
    with pytest.raises(OSError, match="full"):
        send(core, b"all", "ingest/*", txn=txn)
    core.log.fails_after = None
    with pytest.raises(TransactionAborted, match="being undone"):
        core.step(CommitTransaction(txn))
    core.step(Tick())
    assert not core.state.items


def test_a_commit_that_meets_a_full_disk_behind_its_record_is_ended_by_a_tick(core: Core) -> None:
    txn = core.step(BeginTransaction())
    assert isinstance(txn, int)
    send(core, b"a", txn=txn)
    core.log.fails_after = 1
    with pytest.raises(OSError, match="full"):
        core.step(CommitTransaction(txn))
    core.log.fails_after = None
    core.step(Tick())
    assert not core.state.table
    assert take(core).record.body == b"a"
    assert not recovered(core.log, 2).table


def test_limits_are_read_from_the_settings_of_a_node(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('[transfer]\nlease = 5\n[transfer.limits]\nparked = 7\nleft_bytes = "2G"\nleft_age = "1d"\n')
    assert read_limits(SettingsFile.read(path)) == Limits(parked=7, left_bytes=2 << 30, left_age=86_400.0)
    path.write_text("domain = 3\n")
    assert read_limits(SettingsFile.read(path)) == Limits()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[transfer.limits]\nparked = 0", "line 2: parked cannot be used: it is 0; it must be a whole number above 0"),
        ("[transfer.limits]\nleft_bytes = 'much'", "line 2: left_bytes cannot be used: it is 'much'; it must be bytes"),
        ("[transfer.limits]\nage = 5", r"line 2: \[transfer.limits\] has no age; there are transaction_age"),
        ("[transfer]\nlimits = 5", r"line 2: limits must be a table, \[transfer.limits\]"),
    ],
)
def test_a_node_refuses_limits_that_cannot_be_with_their_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=words):
        make_settings(path, {})


def test_the_defaults_that_the_documents_tell_are_those_of_a_core() -> None:
    told = {one.name: one.check(int(one.default) if one.default.isdigit() else one.default) for one in LIMITS.settings}
    assert told == asdict(Limits())
    assert LIMITS.reloaded == set(told)
    assert LIMITS.documented() in (Path(__file__).parents[2] / "docs" / "transfer.md").read_text(), (
        "python -m tests.settings_tables writes it"
    )
