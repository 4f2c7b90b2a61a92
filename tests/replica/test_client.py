"""A program at a replicated log: what a local log promises holds here, too, and what only several nodes can."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

import rtmw
from rtmw import Durability
from rtmw.log import folder as cursors
from rtmw.net.security import KeysError
from rtmw.replica import connection, guests, wal
from rtmw.replica import requests as r
from rtmw.replica import words as w
from rtmw.replica.client import NODES
from rtmw.replica.connection import OPEN_MOST, Call
from rtmw.replica.control.settings import read_log
from rtmw.replica.operating import ask_node
from rtmw.replica.words import Reply
from tests.net.security.site import Site
from tests.replica.nodes import Here, eventfds, until
from tests.users import ALICE, BOB, as_user, needs_users


@dataclass
class Order:
    number: int
    what: str = ""


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Generator[Here]:
    with Here(tmp_path_factory.mktemp("one"), "a") as nodes:
        yield nodes


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Generator[Here]:
    with Here(tmp_path_factory.mktemp("three")) as nodes:
        nodes.create("orders")
        yield nodes


_numbers = iter(range(1000))


@pytest.fixture
def name(one: Here) -> str:
    made = f"log{next(_numbers)}"
    one.create(made)
    return made


@pytest.fixture
def log(one: Here, name: str) -> Generator[rtmw.Log[bytes]]:
    with rtmw.Log.connect(name, nodes=one.places) as connected:
        yield connected


def test_a_log_that_is_closed_leaves_no_descriptor_nor_does_reading_that_cannot_begin(one: Here, name: str) -> None:
    before = eventfds()
    with rtmw.Log.connect(name, nodes=one.places) as log, pytest.raises(ValueError, match="start='x'"):
        log.read("x")  # type: ignore[arg-type]
    assert eventfds() == before


# ---- what a local log promises ----


def test_records_come_back_with_key_id_and_value(one: Here) -> None:
    one.create("typed", type=Order)
    with rtmw.Log.connect("typed", Order, nodes=one.places) as log:
        first = log.append(Order(1, "tea"), key="k", id="first")
        assert (first.state, first.id, first.resolve()) == (Durability.WRITTEN, "first", Durability.WRITTEN)
        log.append(Order(2))
        assert [(record.value, record.key, record.id) for record in log.read()] == [
            (Order(1, "tea"), "k", "first"),
            (Order(2), None, None),  # an automatic id is not shown
        ]
        assert [value for batch in log.read_batches() for value in batch.values()] == [Order(1, "tea"), Order(2)]
    with rtmw.Log.connect("typed", rtmw.ANY, nodes=one.places) as any_log:
        assert next(any_log.read()).value.what == "tea"
    with pytest.raises(rtmw.TypeMismatch, match=r"log typed: the log is one of .*Order, and bytes was asked for"):
        rtmw.Log.connect("typed", bytes, nodes=one.places)


def test_answers_say_where_the_records_lie(log: rtmw.Log[bytes]) -> None:
    answers = [log.append(b"alone"), *log.append_many([b"", b"of three" * 5, b"x"]), log.append(b"y", key="a key")]
    records = list(log.read())
    assert [one.position for one in answers] == [record.position for record in records]
    assert log.end == records[-1].end
    assert log.append_many([]) == []
    stats = log.stats()
    assert (stats.earliest, stats.end, stats.records) == (0, log.end, 5)
    assert stats.segments
    assert stats.persist_queue.records == 0


def test_an_id_is_appended_once(log: rtmw.Log[bytes]) -> None:
    first = log.append(b"data", id=7)
    assert log.append(b"data", id=7).position == first.position
    with pytest.raises(rtmw.LogError, match="has this id, and other data"):
        log.append(b"other", id=7)
    assert len(list(log.read())) == 1


def test_reading_begins_where_it_is_said(log: rtmw.Log[bytes]) -> None:
    answers = log.append_many([b"%d" % n for n in range(5)])
    now = datetime.now(UTC)
    assert [record.data for record in log.read(answers[3].position)] == [b"3", b"4"]  # in the middle of a batch
    assert [record.data for record in log.read(now - timedelta(hours=1))][:1] == [b"0"]
    assert list(log.read(now + timedelta(hours=1))) == []
    assert list(log.read(rtmw.Start.LATEST)) == list(log.read(log.end)) == []
    for start in (-1, answers[3].position + 8):
        with pytest.raises(ValueError, match="position"):
            list(log.read(start))
    assert log.trim(log.end) == log.trim(now) == 0  # whole segments go, and the last one stays


def test_a_reader_that_follows_waits_in_a_thread_and_in_a_task(log: rtmw.Log[bytes]) -> None:
    came, records = list[bytes](), log.read(follow=True)
    thread = threading.Thread(target=lambda: came.extend(record.data for record in records))
    thread.start()

    async def follow() -> list[bytes]:
        found = list[bytes]()
        async for record in log.read(follow=True):
            found.append(record.data)
            if len(found) == 100:
                return found
        return found

    async def both() -> list[bytes]:
        following = asyncio.ensure_future(follow())
        for n in range(100):
            await log.append_async(b"%d" % n)
        return await following

    assert asyncio.run(both()) == [b"%d" % n for n in range(100)]
    until(lambda: len(came) == 100)
    records.close()
    thread.join()
    assert came == [b"%d" % n for n in range(100)]


# Proves G383.
def test_a_cursor_is_kept_by_the_nodes_and_has_one_reader(one: Here, name: str, log: rtmw.Log[bytes]) -> None:
    log.append_many([b"0", b"1", b"2"])
    with log.read(cursor="mine") as records:
        for record in (next(records), next(records)):
            record.commit()
        with (
            rtmw.Log.connect(name, nodes=one.places) as other,
            pytest.raises(rtmw.LogLocked, match=rf"cursor 'mine' is held by \S+ {os.getpid()}"),
        ):
            other.read(cursor="mine")
    found = log.cursors()["mine"]
    assert (found.behind, found.holder) == (log.end - found.position, None)
    with log.read(cursor="mine") as records:
        assert next(records).data == b"2"
    log.delete_cursor("mine")
    with pytest.raises(rtmw.LogError, match=r"no cursor 'mine'; it has none"):
        log.delete_cursor("mine")


def test_wrong_values_are_refused_before_anything_is_sent(log: rtmw.Log[bytes]) -> None:
    with pytest.raises(rtmw.TypeMismatch, match="log of bytes was given 'text'"):
        log.append("text")  # type: ignore[arg-type]
    with pytest.raises(rtmw.MessageTooLarge, match="too many for one append"):
        log.append(bytes(r.LARGEST_BATCH))
    with pytest.raises(ValueError, match="id of 5000 bytes"):
        log.append(b"", id="x" * 5000)
    with pytest.raises(TypeError, match=r"key=1\.5"):
        log.append(b"", key=1.5)  # type: ignore[arg-type]
    assert log.end == 0


# ---- a program and its loops, threads and children ----


def test_appends_of_a_turn_and_of_threads_share_syncs(one: Here, name: str, log: rtmw.Log[bytes]) -> None:
    def syncs() -> int:
        return one.servers["a"].members[name].wal._writer.counters()[3]

    async def tasks() -> None:
        await asyncio.gather(*(log.append_async(b"x") for _ in range(200)))

    before = syncs()
    asyncio.run(tasks())
    assert syncs() - before < 50

    threads = [threading.Thread(target=lambda: [log.append(b"y") for _ in range(10)]) for _ in range(16)]
    before = syncs()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert syncs() - before < 120
    assert len(list(log.read())) == 360


def test_two_event_loops_share_a_log_and_a_cancelled_append_disturbs_nobody(log: rtmw.Log[bytes]) -> None:
    async def turns() -> None:
        cancelled = asyncio.ensure_future(log.append_async(b"", id=threading.get_ident()))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(*(log.append_async(b"x") for _ in range(50)))
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    threads = [threading.Thread(target=lambda: asyncio.run(turns())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(record.data == b"x" for record in log.read()) == 100


def test_a_child_of_fork_is_told_to_connect_itself(log: rtmw.Log[bytes]) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            log.append(b"")
        except rtmw.ForkedError as error:
            os.write(writing, str(error).encode())
        log.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert b"connect in this one, too" in os.read(reading, 1000)
    os.close(reading)
    os.close(writing)
    assert log.append(b"x").state is Durability.WRITTEN


def test_a_child_of_fork_is_told_so_also_where_too_many_calls_have_no_answer(
    log: rtmw.Log[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as may wait were under way when it was made: there will be no room for its own."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(2)
        monkeypatch.setattr(connection, "OPEN_MOST", 0)
        for call in (lambda: log.append(b""), log.cursors):
            try:
                call()
            except rtmw.ForkedError:
                os.write(writing, b"told ")
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with open(reading, "rb") as told:
        assert told.read() == b"told told "


def test_a_closed_log_ends_its_readers_and_takes_nothing(one: Here, name: str) -> None:
    log = rtmw.Log.connect(name, nodes=one.places)
    log.append(b"x")
    ended = threading.Thread(target=list[Any], args=[log.read(follow=True)])
    ended.start()
    log.close()
    log.close()
    ended.join(10)
    assert not ended.is_alive()
    assert "closed" in repr(log)
    for call in (lambda: log.append(b""), log.read, log.cursors, log.stats):
        with pytest.raises(rtmw.ClosedError, match="used after close"):
            call()


# ---- what is wrong ----


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, f"set {NODES}="),
        ({"nodes": []}, "names none"),
        ({"nodes": ["a b"]}, "HOST:PORT"),
        ({"nodes": ["10.0.0.1:7501"]}, r"not loopback.*insecure=True"),
        ({"nodes": ["127.0.0.1:1"], "retention": rtmw.Retention(per_key=1)}, r"no option of a replicated log.*per_key"),
        ({"nodes": ["127.0.0.1:1"], "timeout": -1}, "timeout"),
    ],
)
def test_what_cannot_be_connected_to_is_said(
    options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(NODES, raising=False)
    with pytest.raises(ValueError, match=words):
        rtmw.Log.connect("orders", **options)


def test_names_and_single_places_are_checked() -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        rtmw.Log.connect("or/ders", nodes=["127.0.0.1:1"])
    with pytest.raises(TypeError, match="it is a list"):
        rtmw.Log.connect("orders", nodes="127.0.0.1:1")
    with pytest.raises(TypeError, match="each is a text"):
        rtmw.Log.connect("orders", nodes=[8501])  # type: ignore[list-item]


def test_nodes_that_are_down_or_none_are_named_with_the_time_waited(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        places = ["127.0.0.1:1", f"unix:{tmp_path}/none", f"127.0.0.1:{silent.getsockname()[1]}"]
        with pytest.raises(rtmw.SessionError, match=r"within 0\.\d+ s: 127.0.0.1:1: .*unix:.*No such file.*no answer"):
            rtmw.Log.connect("orders", nodes=places, timeout=0.3)


def test_an_unknown_log_is_said_at_once(one: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NODES, ",".join(one.places))
    with pytest.raises(rtmw.LogError, match=r"node a has no log 'nolog'.*rtmw log create nolog"):
        rtmw.Log.connect("nolog")


# Proves G384.
def test_a_right_is_for_a_log_and_a_verb(tmp_path: Path) -> None:
    rules = '[[allow]]\npeer = "*"\nread = ["public"]\nappend = ["drop*"]\n'
    with Here(tmp_path, "a", rest=rules) as nodes:
        for log in ("public", "dropbox", "secret"):
            nodes.create(log)
        with rtmw.Log.connect("public", nodes=nodes.places) as public:
            assert list(public.read()) == []
            with pytest.raises(rtmw.NotPermitted, match=r'may not append log public at node a.*append = \["public"\]'):
                public.append(b"x")
        with rtmw.Log.connect("dropbox", nodes=nodes.places) as dropbox:
            assert dropbox.append(b"x").state is Durability.WRITTEN
            with pytest.raises(rtmw.NotPermitted, match="may not read log dropbox"):
                list(dropbox.read(0, follow=True))
        with pytest.raises(rtmw.NotPermitted, match="may not append or read log secret"):
            rtmw.Log.connect("secret", nodes=nodes.places)


# Proves G384.
def test_programs_have_certificates_or_come_by_a_unix_socket(tmp_path: Path) -> None:
    site, path = Site(tmp_path / "site"), tmp_path / "a.sock"
    keys = {name: site.keys(f"rtmw://plant/{name}") for name in "apq"}
    rules = (
        '[[allow]]\npeer = "rtmw://plant/a"\nserve = ["log"]\n[[allow]]\npeer = "rtmw://plant/p"\nappend = ["x"]\n'
        f'[[allow]]\npeer = "uid:{os.getuid()}"\nread = ["x"]\n'
    )
    with Here(tmp_path, "a", log=f'keys = "{keys["a"]}"', rest=rules, listen=f"unix:{path}") as nodes:
        nodes.create("x", keys["a"])
        with rtmw.Log.connect("x", nodes=nodes.places[:1], keys=keys["p"]) as log:
            assert log.append(b"by TLS").state is Durability.WRITTEN
        with rtmw.Log.connect("x", nodes=[f"unix:{path}"]) as log:
            assert [record.data for record in log.read()] == [b"by TLS"]
            with pytest.raises(rtmw.NotPermitted, match=rf"uid:{os.getuid()} may not append log x"):
                log.append(b"x")
        with pytest.raises(rtmw.NotPermitted, match="rtmw://plant/q may not append or read log x at node a"):
            rtmw.Log.connect("x", nodes=nodes.places, keys=keys["q"])
        with pytest.raises(rtmw.SessionError, match="a node with keys takes TLS only: give keys"):
            rtmw.Log.connect("x", nodes=nodes.places, timeout=0.5)
        with pytest.raises(rtmw.LogError, match=r"^rtmw://plant/q may not operate logs: .*; give it serve = ..log..$"):
            ask_node(nodes.places[0], keys["q"], ask="status", name="x")


def test_settings_that_lost_their_keys_are_not_taken_in(tmp_path: Path) -> None:
    keys = f'keys = "{Site(tmp_path / "site").keys("rtmw://plant/a")}"'
    with Here(tmp_path, "a", log=keys) as nodes:
        text = nodes.file("a").read_text()

        async def obey(line: str) -> None:
            nodes.file("a").write_text(text.replace(keys, line))
            nodes.servers["a"].obey(read_log(nodes.file("a")))

        with pytest.raises(KeysError, match="the settings name no keys any more"):
            nodes.call(obey(""))
        nodes.call(obey("insecure = true"))  # it is meant


def test_a_node_that_is_no_member_does_not_speak_for_those_that_are_not_reached(tmp_path: Path) -> None:
    with Here(tmp_path, "a") as nodes:
        with pytest.raises(rtmw.SessionError, match=r"node a has no log 'x'.*127.0.0.1:1: Connect call failed"):
            rtmw.Log.connect("x", nodes=[*nodes.places, "127.0.0.1:1"], timeout=5)
        with pytest.raises(rtmw.LogError, match="node a has no log 'x'"):
            rtmw.Log.connect("x", nodes=nodes.places, timeout=20)


@needs_users
def test_another_user_of_the_host_has_only_its_rules_at_a_unix_socket_and_is_no_operator(tmp_path: Path) -> None:
    rules = f'[[allow]]\npeer = "uid:{ALICE}"\nread = ["x"]\n[[allow]]\npeer = "*"\nappend = ["y"]\n'
    with tempfile.TemporaryDirectory() as folder:  # which others reach
        Path(folder).chmod(0o755)
        place = f"unix:{folder}/a.sock"
        with Here(tmp_path, "a", rest=rules, listen=place) as nodes:
            nodes.create("x")
            nodes.create("y")

            def told(uid: int, *command: str) -> str:
                run = (*as_user(uid), sys.executable, "-m", "rtmw", "log", *command, "--node", place)
                done = subprocess.run(run, capture_output=True, text=True, timeout=60)
                return done.stdout + done.stderr

            assert "may not" not in told(ALICE, "tail", "x")
            assert f"uid:{ALICE} may not append log x" in told(ALICE, "append", "x", "no")
            assert f"uid:{BOB} may not append or read log x" in told(BOB, "tail", "x")
            assert "is on the disks" in told(BOB, "append", "y", "yes")
            assert f"uid:{BOB} may not operate logs" in told(BOB, "status", "x")


# Proves G384.
def test_a_stream_that_says_anything_else_ends_and_the_node_goes_on(one: Here, name: str, log: rtmw.Log[bytes]) -> None:
    from rtmw.net.session import Carrier, Hello

    random_ = random.Random(5)

    async def speak() -> int:
        from uuid import uuid4

        ended = 0
        hello = Hello(uuid4(), 1, capabilities=frozenset({r.CAPABILITY}))
        async with Carrier(hello.node, hello=hello) as carrier:
            session = await carrier.connect("127.0.0.1", one.ports["a"])
            purposes = [r.log_purpose(name), r.read_purpose(name, 0, 9), r.read_purpose(name, 5, r.NO_LIMIT), "log/9 x"]
            for n in range(40):
                stream = session.open(purposes[n % 4])
                request = r.pack_request(
                    random_.choice(list(r.Ask)), 1 + n, 0, random_.randbytes(random_.randrange(40))
                )
                data = bytearray(request * 2 if n % 3 else random_.randbytes(60))
                data[random_.randrange(len(data))] ^= random_.randrange(256)
                try:
                    await stream.write(data)
                    stream.end()
                    async with asyncio.timeout(0.02):
                        while await stream.read():
                            pass
                except (rtmw.SessionError, TimeoutError):
                    ended += 1
                    stream.reset()
        return ended

    assert asyncio.run(speak()) > 0
    assert log.append(b"x").state is Durability.WRITTEN


# Proves G379.
def test_an_append_whose_outcome_is_unknown_is_sent_again_as_the_first_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes have forgotten its id meanwhile: it is not taken for new."""
    monkeypatch.setattr(wal, "WINDOW", 16)
    with Here(tmp_path, "a") as nodes:
        nodes.create("orders")
        with rtmw.Log.connect("orders", nodes=nodes.places) as log:
            log.append(b"first")
            with monkeypatch.context() as patch:
                patch.setattr(guests._Desk, "_heard", _nothing)
                with pytest.raises(TimeoutError, match="the outcome is unknown"):
                    log.append(b"x", id="x", timeout=0.3)
            for _ in range(3):
                asyncio.run(_many(log, 12))
            with pytest.raises(rtmw.LogFailed, match="cannot be known any more"):
                log.append(b"x", id="x")
            assert sum(record.id == "x" for record in log.read()) == 1
            assert log.append(b"y", id="y").state is Durability.WRITTEN
            assert cast("Any", log)._sinces == {}


# Proves G382.
def test_a_commit_that_failed_is_not_taken_for_done_later(
    log: rtmw.Log[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append_many([b"0", b"1", b"2"])
    with log.read(cursor="c") as records:
        record = next(records)
        with monkeypatch.context() as patch:
            patch.setattr(cursors.core, "cursor_write", _fail)
            with pytest.raises(rtmw.LogError, match="the disk is gone"):
                until(record.commit)  # a write is due
        record = next(records)
        record.commit()
    assert log.cursors()["c"].position == record.end


def _nothing(*_: object) -> None:
    return


def _fail(*_: object) -> None:
    raise rtmw.LogFailed("the disk is gone")


# Proves G381.
def test_many_small_records_are_as_large_as_what_the_log_makes_of_them(log: rtmw.Log[bytes]) -> None:
    """Nodes send each other records, and no more of them than fit in a frame."""
    with pytest.raises(rtmw.MessageTooLarge, match="with 40 for each record"):
        log.append_many([b"12345678"] * 400_000)
    assert len(log.append_many([b"12345678"] * 1000)) == 1000


def test_full_disks_at_a_later_master_leave_the_outcome_unknown(log: rtmw.Log[bytes]) -> None:
    call, any_log = Call(1, b""), cast("Any", log)
    call.heard = r.Heard(Reply.FULL, 1, 0, 0, b"no room")
    with pytest.raises(rtmw.LogFull, match="no room"):
        any_log._answer(call)
    call.was_resent = True
    with pytest.raises(rtmw.LogFailed, match="whether an earlier master has kept this is unknown"):
        any_log._answer(call)


# Proves G387.
def test_an_append_that_waits_for_room_is_there_once_also_if_an_earlier_master_may_have_it(
    one: Here, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rtmw.Log.connect(name, nodes=one.places) as log:
        any_log, wal = cast("Any", log), one.servers["a"].members[name].wal
        append, full, seen = wal.append, [False, True, True], list[bytes]()

        def refuses(epoch: int, id: bytes, kind: w.Kind, data: Any) -> tuple[int, int] | None:
            seen.append(id)
            if not full:
                return append(epoch, id, kind, data)
            for call in any_log._net._calls.values():
                call.was_resent = full[0]
            full.pop(0)
            return None

        monkeypatch.setattr(wal, "append", refuses)
        any_log.wait_for_ever()
        assert asyncio.run(log.append_async(b"x")).state is Durability.WRITTEN
        assert [record.data for record in log.read()] == [b"x"]
        assert (len(seen), len(set(seen))) == (4, 2)  # what was surely not kept goes as a new append


def test_a_program_is_told_the_name_of_the_log_and_not_where_a_node_has_it(one: Here, name: str) -> None:
    with rtmw.Log.connect(name, nodes=one.places) as log:
        log.append(b"x")
        with pytest.raises(ValueError, match=rf"^log {name}\b") as refused:
            list(log.read(8))
        assert str(one.folder) not in str(refused.value)


# ---- what only several nodes can ----


def test_who_does_not_name_the_place_of_the_master_is_told_to(three: Here) -> None:
    three.create("unnamed")
    master = three.master("unnamed", "a")
    others = [place for name, place in zip("abc", three.places, strict=True) if name != master]
    words = f"; name the place of {master}, too$"
    with rtmw.Log.connect("unnamed", nodes=others, timeout=0.3) as log, pytest.raises(TimeoutError, match=words):
        log.append(b"x")


def test_a_program_that_ends_while_it_dials_leaves_no_task_behind(one: Here, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf, ExitStack() as full:
        for _ in range(2):  # nobody accepts them, and who comes next waits
            waits = full.enter_context(socket.socket())
            waits.setblocking(False)
            waits.connect_ex(deaf.getsockname())
        places = [*one.places, f"127.0.0.1:{deaf.getsockname()[1]}"]
        code = f"import rtmw\nwith rtmw.Log.connect({name!r}, nodes={places!r}) as log:\n    log.append(b'x')\n"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


# Proves G381.
def test_a_master_that_cannot_tell_is_asked_again_and_no_more_waits_than_was_asked(one: Here, name: str) -> None:
    with rtmw.Log.connect(name, nodes=one.places) as log:
        net, replica, asked = cast("Any", log)._net, one.servers["a"].members[name].replica, 1000
        log.append(b"x")
        hand_over = type(replica)._hand_over
        replica._move, cast("Any", replica)._hand_over = ("nobody", 1e18, 0), _nothing

        async def rounds() -> int:
            for _ in range(5):
                net._master = None
                net._choose()
            return sum(len(link.out) for link in net._links)

        async def flood() -> None:
            made = [asyncio.ensure_future(log.append_async(bytes(1000))) for _ in range(asked)]
            while not all(call.was_resent for call in list(net._calls.values())):
                await asyncio.sleep(0.01)
            assert await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(rounds(), net._loop)) <= asked
            replica._move, cast("Any", replica)._hand_over = None, partial(hand_over, replica)
            await asyncio.gather(*made)

        asyncio.run(flood())
        assert len(list(log.read())) == asked + 1


# Proves G378.
def test_each_state_of_an_append_becomes_true(tmp_path: Path) -> None:
    """CACHED while the other members are away; PENDING where the cache cannot have it; then WRITTEN, or ABSENT when
    the only node that has it is gone and another one is master."""
    with Here(tmp_path) as nodes:
        nodes.create("orders")
        with rtmw.Log.connect("orders", nodes=nodes.places) as log:
            until(lambda: log.append(b"x").state is Durability.WRITTEN)  # the nodes have met
            master = nodes.master("orders", "a")
            others = [name for name in nodes.names if name != master]
            for name in others:
                nodes.stop(name)
            cached = log.append(b"small")
            assert (cached.state, cached.resolve()) == (Durability.CACHED, Durability.CACHED)
            pending = log.append(b"large" * 300_000)
            assert (pending.state, pending.resolve(timeout=0.01)) == (Durability.PENDING, Durability.PENDING)
            for name in others:
                nodes.start(name)
            assert pending.resolve() is Durability.WRITTEN
            until(lambda: len(nodes.status("orders", master)["in_sync"]) == 3)
            for name in others:
                nodes.stop(name)
            lost = log.append(b"lost!" * 300_000)
            assert lost.state is Durability.PENDING
            nodes.stop(master)
            for name in others:
                nodes.start(name)
            assert lost.resolve() is Durability.ABSENT
            asyncio.run(lost.resolve_async())
            nodes.start(master)
            assert [record.data[:5] for record in log.read() if record.data != b"x"] == [b"small", b"large"]


# Proves G379.
def test_what_cannot_be_known_any_more_is_not_appended_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal, "WINDOW", 64)
    with Here(tmp_path, "a") as nodes:
        nodes.create("orders")
        with rtmw.Log.connect("orders", nodes=nodes.places) as log:
            net = cast("Any", log)._net
            for _ in range(5):
                asyncio.run(_many(log, 30))
            net.known = 0  # as of a request that was sent first when the log was empty
            with pytest.raises(rtmw.LogFailed, match="cannot be known any more"):
                log.append(b"late", id="late")
            assert log.append(b"new", id="late").state is Durability.WRITTEN
            assert sum(record.id is not None for record in log.read()) == 1


async def _many(log: rtmw.Log[bytes], number: int) -> None:
    await asyncio.gather(*(log.append_async(b"x") for _ in range(number)))


# Proves G378.
def test_a_switch_raises_nothing_and_a_full_queue_pushes_back(three: Here) -> None:
    """Without a master appends wait; beyond the bound others wait to be taken. Then all are written, in their order."""
    with rtmw.Log.connect("orders", nodes=three.places) as log:
        for name in "bc":
            three.stop(name)
        three.stop("a")
        net = cast("Any", log)._net

        async def flood() -> list[rtmw.Appended]:
            made = [asyncio.ensure_future(log.append_async(b"%d" % n)) for n in range(OPEN_MOST + 500)]
            while not net.is_full:
                await asyncio.sleep(0.01)
            assert len(net._calls) == OPEN_MOST
            for name in "abc":
                await asyncio.to_thread(three.start, name)
            return await asyncio.gather(*made)

        answers = asyncio.run(flood())
        assert {one.resolve() for one in answers} <= {Durability.WRITTEN, Durability.CACHED}
        assert all(before.position < after.position for before, after in pairwise(answers[:OPEN_MOST]))
        records = {record.position: record.data for record in log.read()}
        assert [records[one.position] for one in answers] == [b"%d" % n for n in range(OPEN_MOST + 500)]
        assert len(records) == len(answers)


# Proves G383.
def test_readers_and_cursors_go_on_at_another_node(three: Here) -> None:
    with rtmw.Log.connect("orders", nodes=three.places) as log:
        begin = log.end
        log.append_many([b"0", b"1", b"2"])
        master = three.master("orders", "a")
        others = [name for name in three.names if name != master]
        with log.read(begin, cursor="c", follow=True) as records:
            for record in (next(records), next(records)):
                record.commit()

            def is_told() -> bool:
                record.commit()
                return all(_knows(three, name, "c", record.end) for name in others)

            until(is_told)
            three.stop(master)
            log.append(b"3")
            assert [record.data for record in (next(records), next(records))] == [b"2", b"3"]
            record.commit()
        three.start(master)
        with log.read(cursor="c") as records:
            assert next(records).data == b"2"  # committed was the second one


def _knows(nodes: Here, node: str, cursor: str, position: int) -> bool:
    found = nodes.servers[node].members["orders"].folder.cursor(cursor)
    return found is not None and found[0] == position


def test_readers_that_their_program_leaves_alone_keep_no_answer_from_coming(one: Here, name: str) -> None:
    with rtmw.Log.connect(name, nodes=one.places, timeout=10.0) as log:
        for _ in range(24):
            log.append(bytes(250_000))
        readers = [iter(log.read()) for _ in range(12)]  # each has more unread than the session gives a stream
        assert all(len(next(reader).data) == 250_000 for reader in readers)
        streams = cast("Any", log)._net._reading
        until(lambda: len(streams) == 12 and all(sum(map(len, one._inbox)) > 1 << 19 for one in [*streams]))
        for number in range(50):
            assert log.append(b"%d" % number).state is Durability.WRITTEN
        assert all(len(next(reader).data) == 250_000 for reader in readers)
