"""A replicated log: raw batches, epochs, the commit point, truncation, ids, and readers that are fed."""

from __future__ import annotations

import shutil
import struct
from contextlib import nullcontext
from pathlib import Path

import pytest

import rtmw
from rtmw.errors import LogError
from rtmw.log import ENDS, FENCED, NO_LIMIT, RUN_DATA, RUN_IDS, RUN_KEYS, SYNCED, Reader, pack_labels
from rtmw.log import _log as core
from tests.log.crc import crc32c, load_example
from tests.log.page import field, table
from tests.log.replica import BASE, PRODUCER, UUID, automatic, make_replica, write_golden, writer_of

GOLDEN = Path(__file__).parent / "golden_replica"
ALL = (RUN_KEYS | RUN_IDS | RUN_DATA, 0, NO_LIMIT, 1000, 1 << 20)


class Taken(core.Record):
    __slots__ = ()


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "golden"))


def master(path: Path) -> tuple[bytes, int]:
    """The raw bytes of the log of the golden files, and their end."""
    write_golden(path)
    with rtmw.log.look_into(path) as folder, writer_of(folder) as writer:
        return folder.reader(BASE, begins=True).raw(writer.next, 1 << 20) or b"", writer.next


def changed(raw: bytes, at: int, by: bytes) -> bytes:
    """With a CRC that is right."""
    size = (32 + struct.unpack_from("<I", raw)[0] + 7) // 8 * 8
    record = bytearray(raw[:size])
    record[at : at + len(by)] = by
    record[4:8] = struct.pack("<I", crc32c(bytes(record[8:]), crc32c(bytes(record[:4]), crc32c(UUID))))
    return bytes(record) + raw[size:]


# ---- raw batches and epochs ----


def test_batches_are_taken_as_they_are_with_their_epochs_and_ids(tmp_path: Path) -> None:
    raw, end = master(tmp_path / "a")
    with make_replica(tmp_path / "b", BASE) as folder:
        with writer_of(folder) as writer:
            assert writer.append_raw(raw, 5, None) == end
            writer.wait(end, None)
            assert writer.find_id(automatic(7))[0] is not None
            assert folder.reader(BASE, begins=True).raw(end, 1 << 20) == raw
            assert [epoch for epoch, _ in folder.epochs(end)] == [3, 5]
        with writer_of(folder) as writer:  # its ids and its epoch, from what lies there
            assert writer.find_id(automatic(8))[0] is not None
            with pytest.raises(ValueError, match="higher"):
                writer.set_epoch(4)


def test_raw_batches_are_given_whole_also_where_one_is_larger_than_what_was_asked_for(tmp_path: Path) -> None:
    positions = write_golden(tmp_path / "a")
    with rtmw.log.look_into(tmp_path / "a") as folder, writer_of(folder) as writer:
        reader = folder.reader(BASE, begins=True)
        parts, ends = [], []
        while (part := reader.raw(writer.next, 1)) is not None:
            parts.append(part)
            ends.append(reader.position)
        assert len(parts) == 4  # the batch of two is one
        assert ends[-1] == writer.next
        assert folder.reader(positions[1], begins=True).raw(positions[2], 1 << 20) is None  # half of it


@pytest.mark.parametrize(
    ("why", "raw_of", "epoch"),
    [
        ("not as it was written", lambda raw: raw[:40] + b"\x01" + raw[41:], 5),
        ("not whole", lambda raw: raw[:-60], 5),
        ("another position", lambda raw: changed(raw, 8, struct.pack("<Q", BASE + 8)), 5),
        ("higher than the master's", lambda raw: raw, 4),
        ("lower than the one before", lambda raw: changed(raw, 16, struct.pack("<I", 9)), 9),
        ("begins within a batch", lambda raw: changed(raw, 16, struct.pack("<IBB", 2, 1, 3)), 5),
        ("the last batch is not whole", lambda raw: changed(raw[:56], 21, b"\x03"), 5),
        ("a key or an id is none", lambda raw: changed(raw, 33, b"\x09"), 5),
    ],
)
# Proves G349.
def test_raw_bytes_that_do_not_follow_or_are_not_whole_are_refused_and_nothing_is_taken(
    why: str, raw_of: object, epoch: int, tmp_path: Path
) -> None:
    raw, _ = master(tmp_path / "a")
    assert callable(raw_of)
    with make_replica(tmp_path / "b", BASE) as folder, writer_of(folder) as writer:
        with pytest.raises(LogError, match=why):
            writer.append_raw(raw_of(raw), epoch, None)
        assert writer.next == BASE
        writer.append_raw(raw, 5, None)
        with pytest.raises(LogError, match="another position"):
            writer.append_raw(raw, 5, None)


def test_what_is_appended_behind_raw_batches_has_no_lower_epoch(tmp_path: Path) -> None:
    raw, _ = master(tmp_path / "a")
    with make_replica(tmp_path / "b", BASE) as folder, writer_of(folder) as writer:
        writer.append_raw(raw, 5, None)
        writer.append(b"its own", None, SYNCED, None)
        assert [epoch for epoch, _ in folder.epochs(writer.next)] == [3, 5]
        with pytest.raises(ValueError, match="higher"):
            writer.set_epoch(4)


def test_a_segment_begins_with_the_epoch_of_its_first_record(tmp_path: Path) -> None:
    with make_replica(tmp_path / "a") as folder, writer_of(folder) as writer:
        for epoch in (2, 2, 7):
            writer.set_epoch(epoch)
            writer.append(bytes(30_000), None, SYNCED, None)
            writer.append(bytes(30_000), None, SYNCED, None)
        last = sorted((tmp_path / "a").glob("*.seg"))[-1]
        assert field(last.read_bytes(), "Head, at 0", "epoch") == 7
        assert folder.epochs(writer.durable) == [(2, 0), (7, 4 * 30_032)]
        assert folder.epochs(4 * 30_032) == [(2, 0)]


def test_compaction_leaves_nothing_that_can_be_shipped(tmp_path: Path) -> None:
    from tests.log.small import small_compact, small_write

    small_write(tmp_path / "log")
    small_compact(tmp_path / "log")
    with rtmw.log.look_into(tmp_path / "log") as folder:
        start, end = folder.bounds()
        with pytest.raises(LogError, match="compaction"):
            folder.reader(start, begins=True).raw(end, 1 << 20)


def test_a_replicated_log_is_not_compacted(tmp_path: Path) -> None:
    with make_replica(tmp_path / "a") as folder, folder.hold(), pytest.raises(LogError, match="not compacted"):
        folder.writer(1 << 16, 10, (NO_LIMIT, NO_LIMIT, 0, 1), is_service=True)


# ---- the commit point ----


# Proves G348.
def test_readers_of_a_replica_see_what_is_durable_and_final_and_no_more(tmp_path: Path) -> None:
    with make_replica(tmp_path / "a") as folder, writer_of(folder) as writer:
        ends = [writer.append(b"%d" % number, None, SYNCED, None)[1] for number in range(3)]
        seen: list[list[bytes]] = []
        for committed in (0, ends[0], ends[1], ends[0], ends[2] + 1000):
            writer.commit(committed)
            with rtmw.Log(tmp_path / "a", create=False) as log:
                seen.append([record.data for record in log.read()])
                assert log.end == sum(map(len, seen[-1])) * ends[0]
        assert seen == [[], [b"0"], [b"0", b"1"], [b"0", b"1"], [b"0", b"1", b"2"]]
        writer.append(b"3", None, SYNCED, None)  # it is final already: the master has said so
        assert folder.bounds()[1] == writer.durable


# Proves G348.
def test_an_opening_shows_no_more_than_was_final_before(tmp_path: Path) -> None:
    with make_replica(tmp_path / "a") as folder:
        with writer_of(folder) as writer:
            _, first = writer.append(b"final", None, SYNCED, None)
            writer.append(b"not final", None, SYNCED, None)
            writer.commit(first)
        with rtmw.Log(tmp_path / "a", create=False) as log:  # which recovers
            assert [record.data for record in log.read()] == [b"final"]
        (tmp_path / "a" / "end").unlink()  # as a power cut leaves it
        with rtmw.Log(tmp_path / "a", create=False) as log:
            assert list(log.read()) == []
        with writer_of(folder) as writer:
            assert writer.next > first
            writer.commit(writer.next)
            assert folder.bounds() == (0, writer.next)


# Proves G348, G366.
def test_only_the_service_appends_to_a_replicated_log(tmp_path: Path) -> None:
    with make_replica(tmp_path / "a") as folder, rtmw.Log(tmp_path / "a", create=False) as log:
        for holds in (nullcontext, folder.hold):  # whether the service runs or not
            with holds():
                with pytest.raises(LogError, match=r"append through them: rtmw\.Log\.connect"):
                    log.append(b"x")
                with pytest.raises(LogError, match="replicated"):
                    log.trim(0)


# ---- truncation ----


# Proves G347.
def test_a_truncated_log_goes_on_with_other_records_at_the_same_positions(tmp_path: Path) -> None:
    with make_replica(tmp_path / "a") as folder:
        with writer_of(folder) as writer:
            writer.set_epoch(2)
            ends = [writer.append(bytes(20_000), automatic(number), SYNCED, None)[1] for number in range(8)]
            writer.commit(ends[1])
        with folder.hold():
            folder.truncate(ends[1])
        with writer_of(folder) as writer:
            assert (writer.next, folder.bounds()[1]) == (ends[1], ends[1])
            assert [writer.find_id(automatic(number))[0] is not None for number in range(8)] == [True] * 2 + [False] * 6
            writer.set_epoch(4)
            assert writer.append(b"new", automatic(7), SYNCED, None)[0] == ends[1]
            writer.commit(writer.next)
            assert folder.epochs(writer.next) == [(2, 0), (4, ends[1])]
        assert rtmw.log.check(tmp_path / "a", lambda *_: None).is_whole
        with rtmw.Log(tmp_path / "a", create=False) as log:
            assert [len(record.data) for record in log.read()] == [20_000, 20_000, 3]


def test_a_log_is_truncated_only_where_a_batch_ends(tmp_path: Path) -> None:
    positions = write_golden(tmp_path / "a")
    with rtmw.log.look_into(tmp_path / "a") as folder, folder.hold():
        before = folder.epochs(positions[-1])
        for where in (positions[0] + 8, positions[2], BASE - 8, positions[-1] + 4096):
            with pytest.raises(LogError, match=r"end|reach"):
                folder.truncate(where)
        assert folder.epochs(positions[-1]) == before
        folder.truncate(positions[1])
        assert folder.bounds() == (BASE, positions[1])
        folder.truncate(BASE)
        assert folder.bounds() == (BASE, BASE)


def test_the_index_of_a_segment_that_is_truncated_goes(tmp_path: Path) -> None:
    with make_replica(tmp_path / "a") as folder:
        with writer_of(folder) as writer:
            ends = [writer.append(bytes(20_000), None, SYNCED, None)[1] for _ in range(5)]
            while not list((tmp_path / "a").glob("*.idx")):
                writer.trim(0)  # waits for the maker
        with folder.hold():
            folder.truncate(ends[0])
        assert not list((tmp_path / "a").glob("*.idx"))


# ---- ids and fences ----


# Proves G352.
def test_a_batch_with_an_id_is_taken_once_and_as_a_whole(tmp_path: Path) -> None:
    with make_replica(tmp_path / "a") as folder:
        for _ in range(2):  # also by a writer that has read its id from the log
            with writer_of(folder) as writer:
                answer = writer.append_many([b"a", b"bc"], SYNCED, automatic(1))
                assert (list(answer[0]), answer[1]) == ([0, 72], 72 + 40)
                assert writer.next == 112
                for other in ([b"a", b"bd"], [b"a"], [b"a", b"bc", b""]):
                    with pytest.raises(LogError, match="has this id"):
                        writer.append_many(list(other), SYNCED, automatic(1))
                assert writer.find_id(automatic(1))[0] == (0, 112, 1)


# Proves G352.
def test_a_fence_bars_its_id_for_ever_and_no_reader_sees_it(tmp_path: Path) -> None:
    with make_replica(tmp_path / "a") as folder:
        with writer_of(folder) as writer:
            first = writer.append(b"", automatic(1), SYNCED | FENCED, None)
            assert writer.append(b"", automatic(1), SYNCED | FENCED, None) == first
            with pytest.raises(LogError, match="has this id"):
                writer.append(b"", automatic(1), SYNCED, None)  # an empty message is no fence
            writer.append(b"", automatic(2), SYNCED, None)
            with pytest.raises(LogError, match="has this id"):
                writer.append(b"", automatic(2), SYNCED | FENCED, None)
            writer.append(b"", automatic(3), SYNCED | FENCED | ENDS, None)
            writer.commit(writer.next)
            kinds = [writer.find_id(automatic(number))[0] for number in (1, 2, 3)]
            assert [kind and kind[2] for kind in kinds] == [core.FENCE, 1, core.FENCE]
        with writer_of(folder) as writer, pytest.raises(LogError, match="has this id"):
            writer.append(b"", automatic(1), SYNCED, None)
        with rtmw.Log(tmp_path / "a", create=False) as log:
            assert [(record.data, record.id) for record in log.read()] == [(b"", None)]
            assert [len(batch) for batch in log.read_batches()] == [1]


def test_an_automatic_id_is_shown_to_nobody(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with make_replica(tmp_path / "a") as folder, writer_of(folder) as writer:
        writer.append(b"data", pack_labels("key", rtmw.log.AutomaticId(PRODUCER, 1 << 63)), SYNCED, None)
        writer.commit(writer.next)
    with rtmw.Log(tmp_path / "a", create=False) as log:
        assert [(record.key, record.id) for record in log.read()] == [("key", None)]
        (batch,) = log.read_batches()
        assert batch.to_arrow().column("id").to_pylist() == [None]
        assert batch.to_arrow().column("key").to_pylist() == ["key"]


# Proves G352.
def test_the_window_of_ids_says_from_where_on_it_is_complete(tmp_path: Path) -> None:
    with make_replica(tmp_path / "a", BASE) as folder:
        with writer_of(folder, 4) as writer:
            assert writer.find_id(automatic(0)) == (None, BASE)
            places = [writer.append(b"x", automatic(number), SYNCED, None) for number in range(6)]
            assert writer.find_id(automatic(1)) == (None, places[1][1])
            assert writer.find_id(automatic(2)) == ((*places[2], 1), places[1][1])
        with writer_of(folder, 100) as writer:  # by the snapshot
            assert writer.find_id(automatic(1)) == (None, places[1][1])
        with folder.hold():
            folder.truncate(places[0][1])
        with writer_of(folder, 100) as writer:
            assert writer.find_id(automatic(5)) == (None, places[0][1])
        (tmp_path / "a" / "ids").unlink()
        with writer_of(folder, 100) as writer:  # by the records
            assert writer.find_id(automatic(0)) == ((*places[0], 1), BASE)


# ---- readers that are fed ----


def test_a_reader_that_is_fed_gives_what_a_reader_of_the_folder_gives(tmp_path: Path) -> None:
    write_golden(tmp_path / "a")
    with rtmw.log.look_into(tmp_path / "a") as folder, writer_of(folder) as writer:
        end = writer.next
        ours = [
            (r.position, r.end, r.epoch, r.data, r._labels) for r in folder.reader(BASE).take(end, Taken, None, 9999)
        ]
        columns = folder.reader(BASE).run(end, *ALL)
        source, fed, ran = folder.reader(BASE), Reader("a", -1, UUID, BASE), Reader("a", -1, UUID, BASE)
        taken = list[tuple[int, int, int, bytes, bytes]]()
        assert fed.take(BASE, Taken, None, 9999) == []
        while (raw := source.raw(end, 1)) is not None:
            fed.feed(raw)
            ran.feed(raw)
            for record in fed.take(source.position, Taken, None, 9999):
                taken.append((record.position, record.end, record.epoch, record.data, record._labels))
        assert taken == ours
        assert ran.run(end, *ALL) == columns  # all of it was fed before it was asked for
        assert fed.take(end + 64, Taken, None, 9999) == []  # nothing more has come


def test_a_reader_is_told_of_bytes_that_are_no_records_and_reads_no_file(tmp_path: Path) -> None:
    raw, end = master(tmp_path / "a")
    fed = Reader("a", -1, UUID, BASE)
    fed.feed(raw[:70] + b"\xff" + raw[71:])
    assert len(fed.take(end, Taken, None, 9999)) == 1
    with pytest.raises(rtmw.LogDamaged):
        fed.take(end, Taken, None, 9999)
    with rtmw.log.look_into(tmp_path / "a") as folder, pytest.raises(ValueError, match="folder"):
        folder.reader(BASE).feed(raw)


# ---- the golden files ----


def test_the_golden_files_hold_what_was_written(golden: Path) -> None:
    with rtmw.Log(golden, create=False) as log:
        found = [(record.epoch, record.key, record.id, record.data) for record in log.read()]
    assert found == [(3, "key", None, b"first"), (3, None, None, b"of"), (3, None, None, b"a batch")]
    assert [data for _, _, _, data in load_example().records(golden)] == [data for _, _, _, data in found]
    for path in GOLDEN.iterdir():
        assert (golden / path.name).read_bytes() == path.read_bytes()


def test_a_reader_without_rtmw_sees_nothing_where_the_file_end_is_missing(golden: Path) -> None:
    (golden / "end").unlink()
    assert list(load_example().records(golden)) == []


def test_a_log_that_is_written_today_has_the_bytes_of_the_golden_files(tmp_path: Path) -> None:
    """But for times, CRCs over them, and how many marks a segment has got meanwhile."""
    positions = write_golden(tmp_path / "new")
    names = sorted(path.name for path in GOLDEN.iterdir())
    assert sorted(path.name for path in (tmp_path / "new").iterdir() if path.name != "lock") == names
    for name in names:
        new, old = bytearray((tmp_path / "new" / name).read_bytes()), (GOLDEN / name).read_bytes()
        times = {"log": [(12, 4), (32, 8)], "end": [(0, 4), (16, 8)]}.get(name, [])
        if name.endswith(".seg"):
            times = [(12, 4), (48, 8), (4096, 8192), *((12288 + at - BASE + 4, 4) for at in positions)]
            times += [(12288 + at - BASE + 24, 8) for at in positions]
            for what in ("flags", "base", "durable"):
                assert newest(new, what) == newest(old, what)
        if name in ("start", "truncated"):
            times += [(4096 * slot + at, size) for slot in (1, 2) for at, size in ((8, 4), (40, 8))]
        for at, size in times:
            new[at : at + size] = old[at : at + size]
        assert bytes(new) == old, name


def newest(data: bytes, what: str) -> int:
    name = "Mark, at 4096 and at 8192"
    return field(max((data[at : at + 48] for at in (4096, 8192)), key=lambda m: field(m, name, "number")), name, what)


def test_the_page_says_what_lies_in_a_replicated_log() -> None:
    seed, ids = crc32c(UUID), (GOLDEN / "ids").read_bytes()
    identity, end = (GOLDEN / "log").read_bytes(), (GOLDEN / "end").read_bytes()
    assert field(identity, "The file `log`", "version") == 2
    name, head = "The file `ids`", "Head of `ids` in a replicated log"
    assert field(ids, name, "version") == 2
    assert field(ids, name, "CRC") == crc32c(ids[16:], seed)
    assert field(ids, head, "floor") == BASE
    assert [row.at for row in table(head)] == [32, 40]
    assert [field(ids[at : at + 40], "Entry of `ids`", "kind") for at in (40, 80, 120)] == [0, 2, 0]
    first, second, last = (field(ids[at : at + 40], "Entry of `ids`", "position") for at in (40, 80, 120))
    assert field(ids[40:80], "Entry of `ids`", "length") + 32 == second - first
    assert field(end, "The file `end`", "end") == last
    (segment,) = (path.read_bytes() for path in GOLDEN.glob("*.seg"))
    assert field(segment, "Head, at 0", "epoch") == 1  # nobody knew better when the log was made
    records = [segment[12288 + at - BASE :] for at in (BASE, second, last)]
    assert [field(record, "Record", "epoch") for record in records] == [3, 5, 5]
    assert [field(record, "Record", "kind") for record in records] == [1, 2, 1]
    labels = records[1][32:]
    assert field(labels, "Labels", "kind of the id") == 4
    assert labels[8:32] == PRODUCER + struct.pack("<Q", 8)
    truncated = (GOLDEN / "truncated").read_bytes()
    assert field(truncated[4096:], "Mark, at 4096 and at 8192", "base") == (1 << 64) - 4
    assert field(truncated[4096:], "Mark, at 4096 and at 8192", "flags") == 0
