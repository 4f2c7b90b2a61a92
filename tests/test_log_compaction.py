"""`Retention(per_key=N)`: the newest records of each key stay, positions stay, and nothing else goes."""

from __future__ import annotations

import random
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import rtmw
from rtmw.log import check
from tests.child import Spawn

SIZES = (10, 500, 3000)
Kept = list[tuple[int, object, bytes]]


def newest(records: Kept, count: int) -> Kept:
    """What has to stay: without a key all, else the newest so many."""
    left: defaultdict[object, int] = defaultdict(lambda: count)
    stays: Kept = []
    for record in reversed(records):
        left[record[1]] -= 1
        if record[1] is None or left[record[1]] >= 0:
            stays.append(record)
    return stays[::-1]


def contents(records: Iterable[rtmw.LogRecord[bytes]]) -> Kept:
    return [(record.position, record.key, record.data) for record in records]


def until(holds: Callable[[], bool]) -> None:
    """The maker does it in the background."""
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def compacted_upto(path: Path) -> int:
    """What the newest mark of the file `compacted` says."""
    try:
        data = (path / "compacted").read_bytes()
    except FileNotFoundError:
        return 0
    return max(struct.unpack_from("<QQ", data, at + 24) for at in (4096, 8192))[1]


def compact(path: Path, per_key: int = 1, **settings: int) -> None:
    """All full segments, as far as they may be."""
    with rtmw.Log(
        path, rtmw.ANY, create=False, segment="64K", retention=rtmw.Retention(per_key=per_key, **settings)
    ) as log:
        last = max(int(name.stem) for name in path.glob("*.seg"))
        log.append_many([])
        until(lambda: compacted_upto(path) == last)
        assert log.stats().failed_compactions == 0


def fill(path: Path, keys: Iterable[object], chance: random.Random) -> Kept:
    """A record for each key, in segments of 64 KiB."""
    with rtmw.Log(path, segment="64K") as log:
        for number, key in enumerate(keys):
            log.append(b"%d " % number + bytes(chance.choice(SIZES)), key=key)  # type: ignore[arg-type]
        return contents(log.read())


@pytest.mark.parametrize("per_key", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_of_a_full_segment_the_newest_records_of_each_key_stay(seed: int, per_key: int, tmp_path: Path) -> None:
    chance, path = random.Random(seed), tmp_path / "log"
    keys = [chance.choice([None, "a", b"a", 1, *range(100, 100 + 10**seed)]) for _ in range(400)]
    before = fill(path, keys, chance)
    last = max(int(name.stem) for name in path.glob("*.seg"))
    compact(path, per_key)
    with rtmw.Log(path) as log:
        found = contents(log.read())
        old = [record for record in before if record[0] < last]
        assert found == newest(old, per_key) + [record for record in before if record[0] >= last]
        for position, _, data in before[::7]:  # a position that is gone is that of the next record
            first = next(iter(log.read(position)))
            assert (first.position, first.data) == next((r[0], r[2]) for r in found if r[0] >= position)
            assert first.position > position or first.data == data
    assert check(path, lambda *_: None).is_whole


def test_compacting_again_after_more_records_comes_to_the_same_as_at_once(tmp_path: Path) -> None:
    chance, path = random.Random(5), tmp_path / "log"
    everything: Kept = []
    for turn in range(4):
        keys = [chance.choice([None, *range(8)]) for _ in range(150)]
        everything += [record for record in fill(path, keys, chance) if not everything or record[0] > everything[-1][0]]
        compact(path, 2)
        last = max(int(name.stem) for name in path.glob("*.seg"))
        with rtmw.Log(path) as log:
            found = contents(log.read())
        old, young = ([r for r in everything if (r[0] < last) == is_old] for is_old in (True, False))
        assert found == newest(old, 2) + young, turn


def test_what_a_cursor_has_not_passed_stays(tmp_path: Path) -> None:
    path = tmp_path / "log"
    before = fill(path, ["k"] * 200, random.Random(1))
    with rtmw.Log(path) as log, log.read(cursor="c") as records:
        for number, record in enumerate(records):
            if number == 80:
                record.commit()
                break
    with rtmw.Log(path, segment="64K", retention=rtmw.Retention(per_key=1)) as log:
        log.append_many([])
        until(lambda: log.stats().compacted > 0)
        assert contents(log.read()) == before[80:]
        assert contents(log.read(cursor="c")) == before[81:]


def test_a_log_without_a_limit_per_key_is_not_compacted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    before = fill(path, ["k"] * 200, random.Random(1))
    with rtmw.Log(path, segment="64K", retention=rtmw.Retention(bytes="1G")) as log:
        log.append(b"x")
        assert contents(log.read())[:-1] == before


def test_a_reader_that_is_in_the_middle_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    before = fill(path, list(range(10)) * 30, random.Random(1))
    with rtmw.Log(path) as log, log.read() as records:
        seen = contents(next(records) for _ in range(20))
        compact(path)
        seen += contents(records)
        assert seen[:20] == before[:20]
        assert set(newest(before, 1)) <= set(seen) <= set(before)
        assert [record[0] for record in seen] == sorted(record[0] for record in seen)


def test_ids_of_what_was_compacted_are_known(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with rtmw.Log(path, segment="64K") as log:
        positions = [log.append(bytes(3000), key="k", id=number).position for number in range(100)]
    (path / "ids").unlink()
    compact(path)
    with rtmw.Log(path, segment="64K") as log:
        assert [log.append(bytes(3000), key="k", id=number).position for number in range(100)] == positions
        assert len(list(log.read())) < 50


def test_retention_counts_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "log"
    fill(path, ["k"] * 400, random.Random(1))
    compact(path)
    with rtmw.Log(path, segment="64K", retention=rtmw.Retention(bytes="400K")) as log:
        log.append_many([])
        log.append(b"x")
        assert log.stats().earliest == 0


def test_times_are_found_in_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "log"
    fill(path, list(range(40)) * 10, random.Random(3))
    compact(path)
    with rtmw.Log(path) as log:
        records = list(log.read())
        for record in records[::9]:
            moment = datetime.fromtimestamp(record.time_ns // 1000 / 1e6, UTC)
            assert next(iter(log.read(moment))).time_ns >= record.time_ns // 1000 * 1000 - 1000


@pytest.mark.parametrize("per_key", [0, -1, True, 10**7])
def test_a_number_of_records_that_is_not_possible_is_refused(per_key: int) -> None:
    with pytest.raises(ValueError, match="per_key="):
        rtmw.Retention(per_key=per_key)


WRITER = """
    import rtmw
    with rtmw.Log({path!r}, segment="64K", retention=rtmw.Retention(per_key=2)) as log:
        for number in range({least}, 100_000):
            log.append(b"%d" % number + bytes(2000), key=number % 7 if number % 3 else None, id=number)
            print(number, flush=True)
"""


def test_a_writer_that_is_killed_while_it_compacts_leaves_what_has_to_stay(tmp_path: Path, spawn: Spawn) -> None:
    chance, path, last = random.Random(2), tmp_path / "log", -1
    for _ in range(6):
        child = spawn(WRITER.format(path=str(path), least=last + 1))
        for _ in range(chance.randrange(60, 200)):
            last = int(child.line())
        child.kill()
        with rtmw.Log(path, rtmw.ANY) as log:
            found = [int(bytes(record.data).rstrip(b"\0")) for record in log.read()]
        last = max(last, found[-1])
        everything: Kept = [(n, n % 7 if n % 3 else None, b"") for n in range(found[-1] + 1)]
        assert {n for n, *_ in newest(everything, 2)} <= set(found)
        assert found == sorted(set(found))
        assert check(path, lambda *_: None).is_whole
