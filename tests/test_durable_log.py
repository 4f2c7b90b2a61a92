"""`rtmw.Log`: appending, types, the lock, and the end."""

from __future__ import annotations

import os
import runpy
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct, types

import rtmw
from rtmw import Durability
from tests.child import Spawn
from tests.page import programs


@dataclass
class Order(IdlStruct, typename="shop.Order"):
    id: types.int32
    amount: types.float64
    note: str


@dataclass
class Other(IdlStruct, typename="shop.Other"):
    id: types.int32


def contents(path: Path) -> list[bytes]:
    with rtmw.Log(path, create=False) as log:
        return [record.data for record in log.read()]


def test_a_program_can_name_each_state_of_an_append_also_those_of_replicated_logs() -> None:
    assert [state.name for state in Durability] == ["BUFFERED", "WRITTEN", "CACHED", "PENDING", "ABSENT"]


def test_what_was_appended_is_there_in_its_order(tmp_path: Path) -> None:
    wanted = [b"one", b"", b"three" * 1000]
    with rtmw.Log(tmp_path / "log") as log:
        answers = [log.append(data) for data in wanted]
        assert [answer.state for answer in answers] == [Durability.WRITTEN] * 3
        assert [record.position for record in log.read()] == [answer.position for answer in answers]
        assert [record.value for record in log.read()] == wanted
        assert answers[-1].position < log.end
    assert contents(tmp_path / "log") == wanted


def test_a_log_goes_on_where_it_was_closed(tmp_path: Path) -> None:
    for number in range(5):
        with rtmw.Log(tmp_path / "log") as log:
            log.append(str(number).encode())
    assert contents(tmp_path / "log") == [b"0", b"1", b"2", b"3", b"4"]


def test_values_come_back_as_the_type_of_the_log(tmp_path: Path) -> None:
    orders = [Order(1, 2.5, "größer"), Order(2, 0.0, "")]
    with rtmw.Log(tmp_path / "log", Order) as log:
        for order in orders:
            log.append(order, key=order.id)
        assert [record.value for record in log.read()] == orders
        assert [record.key for record in log.read()] == [1, 2]
    with rtmw.Log(tmp_path / "log", rtmw.ANY) as log:
        assert [record.value.note for record in log.read()] == ["größer", ""]
        assert log.type.name == "shop::Order"


def test_arrays_are_values_too(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", np.float32) as log:
        log.append(np.arange(5, dtype=np.float32))
        (record,) = log.read()
        assert record.value.tolist() == [0, 1, 2, 3, 4]


def test_a_log_is_not_opened_as_one_of_another_type(tmp_path: Path) -> None:
    rtmw.Log(tmp_path / "log", Order).close()
    with pytest.raises(rtmw.TypeMismatch, match=r"is one of shop\.Order, and shop\.Other was asked for"):
        rtmw.Log(tmp_path / "log", Other)
    with pytest.raises(rtmw.TypeMismatch, match=r"shop\.Order, and bytes"):
        rtmw.Log(tmp_path / "log")


def test_a_value_of_another_type_is_refused_and_nothing_is_appended(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", Order) as log, rtmw.Log(tmp_path / "raw") as raw:
        with pytest.raises(rtmw.TypeMismatch):
            log.append(Other(1))  # type: ignore[arg-type]
        with pytest.raises(rtmw.TypeMismatch, match=r"a log of bytes was given 'text'.*such as rtmw\.Log\(path, str\)"):
            raw.append("text")  # type: ignore[arg-type]
        with pytest.raises(rtmw.TypeMismatch, match="a log of bytes was given"):
            raw.append_many([b"good", 7])  # type: ignore[list-item]
        assert (log.end, raw.end) == (0, 0)


def test_many_values_are_one_batch(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        assert log.append_many([]) == []
        answers = log.append_many([b"a", b"b" * 100, b""])
        assert [answer.state for answer in answers] == [Durability.WRITTEN] * 3
        assert [record.position for record in log.read()] == [answer.position for answer in answers]
        assert log.stats().batches == 1


def test_the_program_of_the_document_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = programs(Path(__file__).parents[1] / "docs" / "log.md")[0]
    (tmp_path / "program.py").write_text(source)
    runpy.run_path(str(tmp_path / "program.py"))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        "anna Order(id=1, amount=9.5)",
        "None Order(id=2, amount=1.0)",
        "None Order(id=3, amount=2.0)",
    ]


def test_threads_share_a_log_and_a_sync(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda number: (number, log.append(str(number).encode())), range(400)))
        found = {record.position: record.data for record in log.read()}
        assert found == {answer.position: str(number).encode() for number, answer in answers}
        stats = log.stats()
        assert (stats.records, stats.persist_queue.records) == (400, 0)
        assert stats.batches < 400
        assert 1 < stats.largest_batch <= 16


def test_without_sync_an_append_is_buffered_and_then_written(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", sync=False) as log:
        answers = [log.append(b"x" * 1000) for _ in range(100)]
        assert answers[-1].resolve(timeout=60) is Durability.WRITTEN
        assert {answer.state for answer in answers} == {Durability.WRITTEN}
        log.append(b"last")
    assert contents(tmp_path / "log")[-1] == b"last"


def test_a_log_grows_over_segments_each_twice_as_large_as_the_one_before(tmp_path: Path) -> None:
    data = os.urandom(50_000)
    with rtmw.Log(tmp_path / "log", segment="4M") as log:
        for _ in range(100):
            log.append(data)
        sizes = [path.stat().st_size >> 20 for path in sorted((tmp_path / "log").glob("*.seg"))]
        assert sizes == [1, 2, 4]
        assert len(list(log.read())) == 100
        stats = log.stats()
        assert (stats.earliest, stats.end, stats.bytes) == (0, log.end, 100 * len(data))
        assert stats.disk >= 7 << 20
    assert contents(tmp_path / "log") == [data] * 100


def test_a_record_larger_than_the_next_segment_gets_a_larger_one(tmp_path: Path) -> None:
    large = os.urandom(6 << 20)
    with rtmw.Log(tmp_path / "log") as log:
        log.append(b"small")
        log.append(large)
        log.append(b"small")
    assert contents(tmp_path / "log") == [b"small", large, b"small"]


def test_what_does_not_fit_into_a_segment_is_refused(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", segment="64K") as log:
        log.append(bytes(53_000))
        with pytest.raises(rtmw.MessageTooLarge, match="larger segment"):
            log.append(bytes(54_000))
        with pytest.raises(rtmw.MessageTooLarge, match="append less at once"):
            log.append_many([bytes(10_000)] * 6)
        log.append(b"after")
        assert [len(record.data) for record in log.read()] == [53_000, 5]


# ---- the folder ----


@pytest.mark.parametrize("path", ["orders", "orders.log", ""])
def test_a_bare_name_is_no_folder(path: str) -> None:
    with pytest.raises(ValueError, match="bare name"):
        rtmw.Log(path)


def test_a_path_with_a_separator_or_a_pathlike_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rtmw.Log("orders/").close()
    rtmw.Log(Path("orders"), create=False).close()
    rtmw.Log(str(tmp_path / "deep" / "deeper"), create=True).close()
    assert (tmp_path / "deep" / "deeper" / "log").exists()


def test_a_log_that_is_not_there_is_made_only_if_that_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no log"):
        rtmw.Log(tmp_path / "log", create=False)
    with pytest.raises(FileNotFoundError, match="there is no log in"):
        rtmw.Log(tmp_path, rtmw.ANY)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_files_is_not_made_a_log(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(rtmw.LogError, match=r"has other files \(letter.txt\)"):
        rtmw.Log(tmp_path)
    with pytest.raises(rtmw.LogError, match="is a file"):
        rtmw.Log(tmp_path / "letter.txt")


@pytest.mark.parametrize("segment", ["63K", "5G", 1, "much", -1])
def test_a_segment_of_an_impossible_size_is_refused(segment: int | str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="size"):
        rtmw.Log(tmp_path / "log", segment=segment)


def test_a_program_that_ends_with_an_open_log_ends_without_a_word(tmp_path: Path, spawn: Spawn) -> None:
    """Something keeps its names until the interpreter has cleared the modules that it uses."""
    child = spawn(f"""
        import sys
        import rtmw
        log = rtmw.Log({str(tmp_path / "log")!r}, sync=False)
        log.append(b"x")
        reader = log.read(follow=True)
        sys.kept = sys.modules["__main__"]
    """)
    assert child.wait() == 0
    assert child.stderr == ""
    assert contents(tmp_path / "log") == [b"x"]


# ---- the lock ----


# Proves G132.
def test_a_second_writer_is_told_who_writes(tmp_path: Path, spawn: Spawn) -> None:
    child = spawn(f"""
        import rtmw
        log = rtmw.Log({str(tmp_path / "log")!r})
        log.append(b"theirs")
        print("writes", flush=True)
        input()
    """)
    assert child.line() == "writes"
    with rtmw.Log(tmp_path / "log") as log:
        with pytest.raises(rtmw.LogLocked, match=rf"child_0\.py \({child.pid}\) writes to this log"):
            log.append(b"ours")
        assert [record.data for record in log.read()] == [b"theirs"]
        child.kill()
        log.append(b"ours")
        assert [record.data for record in log.read()] == [b"theirs", b"ours"]


def test_a_log_that_only_reads_holds_no_lock(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as first, rtmw.Log(tmp_path / "log") as second:
        second.append(b"second")
        with pytest.raises(rtmw.LogLocked, match=rf"\({os.getpid()}\)"):
            first.append(b"first")
        second.close()
        first.append(b"first")
    assert contents(tmp_path / "log") == [b"second", b"first"]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
# Proves G132.
def test_a_child_of_fork_neither_appends_nor_keeps_the_lock(tmp_path: Path) -> None:
    log = rtmw.Log(tmp_path / "log")
    log.append(b"parent")
    (read, write), (wait, end) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            log.append(b"child")
        except rtmw.ForkedError:
            os.write(write, b"refused")
        os.read(wait, 1)  # until the parent is done
        os._exit(0)
    assert os.read(read, 7) == b"refused"
    log.close()
    with rtmw.Log(tmp_path / "log") as again:
        again.append(b"again")
    os.write(end, b"x")
    os.waitpid(child, 0)
    for descriptor in (read, write, wait, end):
        os.close(descriptor)
    assert contents(tmp_path / "log") == [b"parent", b"again"]


def test_a_log_that_is_forgotten_gives_its_lock_back(tmp_path: Path) -> None:
    log = rtmw.Log(tmp_path / "log", sync=False)
    log.append(b"one")
    del log
    with rtmw.Log(tmp_path / "log") as again:
        again.append(b"two")
    assert contents(tmp_path / "log") == [b"one", b"two"]


# ---- the end ----


def test_after_close_nothing_works_and_closing_again_does_nothing(tmp_path: Path) -> None:
    log = rtmw.Log(tmp_path / "log")
    log.append(b"x")
    log.close()
    log.close()
    for use in (lambda: log.append(b"y"), log.read, log.stats, lambda: log.end, lambda: log.append_many([b"z"])):
        with pytest.raises(rtmw.ClosedError, match="used after close"):
            use()


def test_closing_while_threads_append_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    log = rtmw.Log(tmp_path / "log")
    answered: list[bytes] = []
    begun = threading.Barrier(5)

    def append(number: int) -> None:
        log.append(b"first")
        begun.wait()
        for turn in range(100_000):
            data = b"%d-%d" % (number, turn)
            try:
                log.append(data)
            except rtmw.ClosedError:
                return
            answered.append(data)

    threads = [threading.Thread(target=append, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    begun.wait()
    log.close()
    for thread in threads:
        thread.join(60)
    assert set(answered) <= set(contents(tmp_path / "log"))


def test_no_spare_and_nothing_unfinished_is_left_behind(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        log.append(b"x")
    names = {path.name for path in (tmp_path / "log").iterdir()}
    assert names == {"log", "start", "end", "lock", f"{0:020}.seg"}
