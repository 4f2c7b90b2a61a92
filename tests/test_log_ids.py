"""Ids: an append that is made again is not appended again, within the dedupe window, in any life of the log."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path

import pytest

import rtmw
from rtmw import Durability
from tests.child import Spawn


def ids(path: Path) -> list[object]:
    with rtmw.Log(path, create=False) as log:
        return [record.id for record in log.read()]


def test_an_append_with_the_same_id_is_answered_with_the_first_one(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        first = log.append(b"order", key="anna", id="o-1")
        log.append(b"between")
        again = log.append(b"order", key="anna", id="o-1")
        assert (again.position, again.state, again.id) == (first.position, Durability.WRITTEN, "o-1")
        assert [(record.key, record.id) for record in log.read()] == [("anna", "o-1"), (None, None)]
        assert (log.stats().repeated, log.stats().ids, log.stats().records) == (1, 1, 2)


def test_text_bytes_and_numbers_are_different_ids(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        for id in ("1", b"1", 1, 49, ""):
            log.append(b"x", id=id)
        assert [record.id for record in log.read()] == ["1", b"1", 1, 49, ""]


@pytest.mark.parametrize(("data", "key"), [(b"other", None), (b"data", "key"), (b"", None)])
def test_the_same_id_with_other_data_or_another_key_is_an_error_that_names_the_position(
    data: bytes, key: str | None, tmp_path: Path
) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        log.append(b"before")
        first = log.append(b"data", id=7)
        with pytest.raises(rtmw.LogError, match=f"the record at position {first.position} has this id") as error:
            log.append(data, key=key, id=7)
        assert type(error.value) is rtmw.LogError
        assert len(list(log.read())) == 2


def test_threads_that_append_the_same_id_at_once_get_one_position(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        begun, answers = threading.Barrier(8), list[tuple[int, int]]()

        def append() -> None:
            begun.wait()
            for number in range(50):
                answers.append((number, log.append(b"%d" % number, id=number).position))

        threads = [threading.Thread(target=append) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(answers) == 400
        assert len(set(answers)) == 50
        assert sorted(record.position for record in log.read()) == sorted({position for _, position in answers})


def test_the_first_answer_is_given_also_while_it_is_not_durable_yet(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", sync=False) as log:
        answers = [log.append(b"x" * 1000, id=number % 50) for number in range(100)]
        assert [answer.position for answer in answers[50:]] == [answer.position for answer in answers[:50]]
        assert answers[-1].resolve(60) is Durability.WRITTEN
        assert log.stats().repeated == 50


def test_tasks_that_append_the_same_id_get_one_position(tmp_path: Path) -> None:
    async def append_all(log: rtmw.Log[bytes]) -> list[int]:
        answers = await asyncio.gather(*(log.append_async(b"%d" % (n % 20), id=n % 20) for n in range(200)))
        assert {answer.state for answer in answers} == {Durability.WRITTEN}
        return [answer.position for answer in answers]

    with rtmw.Log(tmp_path / "log") as log:
        positions = asyncio.run(append_all(log))
        assert positions == positions[:20] * 10
        assert len(list(log.read())) == 20


# ---- the window ----


def test_of_the_last_records_with_an_id_so_many_are_remembered_as_the_window_says(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log", dedupe=3) as log:
        for id in "abc":
            log.append(b"x", id=id)
            log.append(b"without")
        log.append(b"x", id="a")
        log.append(b"x", id="d")  # the fourth: the oldest is forgotten
        log.append(b"x", id="b")
        log.append(b"x", id="a")
        assert [record.id for record in log.read() if record.id] == ["a", "b", "c", "d", "a"]
        assert log.stats().ids == 3


def test_the_window_is_that_of_a_dictionary_in_the_order_of_appends(tmp_path: Path) -> None:
    chance, window, known, wanted = random.Random(3), 100, dict[int, int](), list[int]()
    for life in range(6):
        with rtmw.Log(tmp_path / "log", dedupe=window, sync=False, segment="64K") as log:
            for _ in range(700):
                id = chance.randrange(260)
                position = log.append(b"%d" % id * 40, id=id).position
                if id in known:
                    assert position == known[id], life
                    continue
                known[id] = position
                wanted.append(id)
                if len(known) > window:
                    del known[next(iter(known))]
    assert ids(tmp_path / "log") == wanted


@pytest.mark.parametrize("dedupe", [0, -1, True, 1 << 25])
def test_a_window_that_is_not_possible_is_refused(dedupe: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"dedupe=.* is not possible"):
        rtmw.Log(tmp_path / "log", dedupe=dedupe)


# ---- another life ----


@pytest.mark.parametrize("harm", ["none", "removed", "spoiled", "cut short", "of another log"])
# Proves G119.
def test_ids_are_known_in_the_next_life_whatever_became_of_their_snapshot(harm: str, tmp_path: Path) -> None:
    path, snapshot = tmp_path / "log", tmp_path / "log" / "ids"
    with rtmw.Log(path, segment="64K") as log:
        answers = [log.append(bytes(9000), id=number).position for number in range(30)]
    assert snapshot.exists()
    if harm == "removed":
        snapshot.unlink()
    elif harm == "spoiled":
        snapshot.write_bytes(snapshot.read_bytes()[:-3] + b"abc")
    elif harm == "cut short":
        snapshot.write_bytes(snapshot.read_bytes()[:-40])
    elif harm == "of another log":
        with rtmw.Log(tmp_path / "other") as other:
            for number in range(30):
                other.append(b"other", id=number)
        snapshot.write_bytes((tmp_path / "other" / "ids").read_bytes())
    with rtmw.Log(path, segment="64K") as log:
        assert [log.append(bytes(9000), id=number).position for number in range(30)] == answers
        assert log.stats().ids == 30
    assert ids(path) == list(range(30))


def test_a_log_without_ids_writes_no_snapshot_when_it_is_closed(tmp_path: Path) -> None:
    with rtmw.Log(tmp_path / "log") as log:
        log.append(b"x")
    assert not (tmp_path / "log" / "ids").exists()


WRITER = """
    import rtmw
    with rtmw.Log({path!r}, segment="64K") as log:
        for number in range({least}, 3000):
            print(number, log.append(b"%d" % number * 50, id=number).position, flush=True)
"""


# Proves G119.
def test_a_program_that_is_killed_and_appends_all_again_appends_each_id_once(tmp_path: Path, spawn: Spawn) -> None:
    chance, path, answered = random.Random(5), tmp_path / "log", dict[int, int]()
    for _ in range(6):
        child = spawn(WRITER.format(path=str(path), least=max(0, len(answered) - 300)))
        for _ in range(chance.randrange(250, 600)):
            number, position = map(int, child.line().split())
            assert answered.setdefault(number, position) == position
        child.kill()
    found = ids(path)
    assert found == list(range(len(found)))
    assert len(found) >= len(answered)
