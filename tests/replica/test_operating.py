"""What operators change of a log: members, master, its end, and a rescue by hand; nodes in one process."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rtmw.cli.node_doctor import replicated
from rtmw.clock import CLOCK
from rtmw.errors import LogError, SessionError
from rtmw.log import HeldCursor, delete_cursor
from rtmw.replica import member, operating, wal
from rtmw.replica.control.store import UNKNOWN, Changed
from rtmw.replica.words import Reply, Role
from rtmw.types import resolve
from tests.control.certificates import write_certificates
from tests.control.stores import Cluster, needs_etcd
from tests.replica.inside import WITHIN_S, Inside, appended, in_loop, numbers, until

BYTES = resolve(bytes).description.hex()


@in_loop
# Proves G354.
async def test_members_come_and_go_and_a_log_is_moved_while_records_are_appended(tmp_path: Path) -> None:
    async with Inside(tmp_path, "abcd", lag="0.4s") as nodes:
        await nodes.start(*"abcd")
        await nodes.create(members="ab")
        await nodes.append(0, 20)
        with pytest.raises(LogError, match="node c is no member"):
            await nodes.obey("a", ask="members", name="orders", remove="c")
        with pytest.raises(LogError, match="node b is a member of log orders already"):
            await nodes.obey("a", ask="members", name="orders", add="b")
        slave = "b" if (await nodes.master()).node == "a" else "a"
        with pytest.raises(LogError, match="1 would be left, and min_insync is 2"):
            await nodes.obey("a", ask="members", name="orders", remove=slave)
        told = await nodes.obey("b", ask="members", name="orders", add="c")
        assert told["members"] == ["a", "b", "c"]
        await nodes.append(20, 20)
        await nodes.in_sync("abc")
        old = (await nodes.master()).node
        told = await nodes.obey("c", ask="move", name="orders", off=old)
        assert told["from"] == old != told["to"]
        await nodes.append(40, 20)
        await nodes.in_sync("abc")
        await nodes.obey("a", ask="members", name="orders", add="d", remove=old)
        rest = "".join(sorted({*"abcd"} - {old}))
        await nodes.append(60, 20)
        await nodes.in_sync(rest)
        assert all(numbers(nodes.member(node)) == list(range(80)) for node in rest)
        assert "orders" not in nodes.servers[old].members
        assert not (tmp_path / old / "logs" / "orders").exists(), "a node that is no member keeps no copy"


@in_loop
# Proves G354.
async def test_a_disk_that_was_wiped_is_no_member_until_it_is_replaced(tmp_path: Path) -> None:
    async with Inside(tmp_path, lag="0.4s") as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.append(0, 20)
        await nodes.in_sync()
        await nodes.stop("c")
        shutil.rmtree(tmp_path / "c")
        await nodes.start("c")
        await nodes.append(20, 20)
        await until(lambda: nodes.servers["a"].session("c") is not None)
        assert "orders" not in nodes.servers["c"].members
        found = dict[str, str]()
        async with asyncio.timeout(WITHIN_S):
            while (words := "c cannot follow: node c has no log 'orders': it has none") not in found:
                told = await nodes.obey("a", ask="status", name="orders")
                found = {words: advice for words, advice, *_ in told["own"]}
                await asyncio.sleep(0.01)
        assert found[words] == "if its disk was wiped, or its copy is lost: rtmw log members orders replace c"
        await nodes.obey("a", ask="members", name="orders", add="c", remove="c")
        await nodes.append(40, 20)
        await nodes.in_sync()
        assert numbers(nodes.member("c")) == list(range(60))


@in_loop
async def test_a_move_that_another_switch_overtakes_says_who_is_master_now(tmp_path: Path) -> None:
    async with Inside(tmp_path) as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.in_sync()
        master = (await nodes.master()).status().master
        to, other = sorted({*"abc"} - {master})
        asked = [nodes.obey(master, ask="move", name="orders", to=one) for one in (to, to, other)]
        first, second, third = await asyncio.gather(*asked, return_exceptions=True)
        assert first == second == {"name": "orders", "from": master, "to": to}
        assert str(third) == f"log orders is not moved as asked: its master is {to}"


@in_loop
async def test_a_log_without_appends_says_that_the_control_store_is_away_and_is_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtmw.replica.server._ASK_STORE_S", 0.02)
    async with Inside(tmp_path) as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.in_sync()
        store = nodes.servers["b"].store
        patience, store.timeout = store.timeout, 0.0

        def says() -> bool:
            (row,) = nodes.servers["b"].operating.told()["logs"]
            return any(words.startswith("the control store: ") for words in row["words"])

        await until(says)
        store.timeout = patience
        await until(lambda: not says())


@needs_etcd
@in_loop
# Proves G386.
async def test_nodes_whose_etcd_wants_certificates_keep_a_log_there_and_one_without_says_so(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    ca, cert, key = (tmp_path / name for name in ("ca.pem", "node.pem", "node.key"))
    known = ssl.create_default_context(cafile=ca)
    known.load_cert_chain(cert, key)
    asked = ("--client-cert-auth", f"--trusted-ca-file={ca}", f"--cert-file={cert}", f"--key-file={key}")
    (tmp_path / "etcd").mkdir()
    with closing(Cluster(tmp_path / "etcd", 1, *asked, tls=known)) as etcd:
        await asyncio.to_thread(etcd.start)
        files = 'ca = "ca.pem"\ncert = "node.pem"\nkey = "node.key"'  # beside the settings
        async with Inside(tmp_path, "ab", store=f'["{etcd.members[0].endpoint}"]\n{files}') as nodes:
            await nodes.start(*"ab")
            await nodes.create(members="ab")
            await nodes.append(0, 5)
            await nodes.obey("a", ask="move", name="orders", off=(await nodes.master()).node)
            await nodes.append(5, 5)
            await nodes.stop(*"ab")
            file = tmp_path / "a.toml"
            file.write_text(file.read_text().replace('cert = "node.pem"\nkey = "node.key"', ""))
            await nodes.start("a")
            await until(lambda: bool(nodes.servers["a"].store.fault))
            assert "it may want a certificate (cert and key of [control])" in nodes.servers["a"].store.fault


@in_loop
async def test_a_master_that_is_gone_while_the_store_is_away_is_said_not_to_be_reached(tmp_path: Path) -> None:
    async with Inside(tmp_path) as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.in_sync()
        master = (await nodes.master()).node
        asked, _ = sorted({*"abc"} - {master})
        for server in nodes.servers.values():
            server.store.timeout = 0.0
        await nodes.kill(master)
        told = await nodes.obey(asked, ask="status", name="orders")
        assert f"node {asked} does not reach {master}" in told["words"][0]  # it may stand as a candidate by now


@in_loop
# Proves G356.
async def test_only_the_master_trims_and_never_what_a_cursor_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal, "SEGMENT", 64 << 10)
    monkeypatch.setattr(member, "_LOOK_S", 0.1)
    monkeypatch.setattr(member, "_RETAIN", 1)
    async with Inside(tmp_path, lag="6s", suspect="20s") as nodes:  # the master holds the cursor to the end
        await nodes.start(*"abc")
        await nodes.create(bytes=200_000)
        master = await nodes.master()
        with HeldCursor(master.folder, "slow") as cursor:
            cursor.begin(0)
            await nodes.append(0, 100, 4000)
            await nodes.in_sync()
            assert master.wal.retained(0, 200_000, CLOCK.wall_ns()) == 0
            cursor.commit(150_000)
        await until(lambda: all(0 < nodes.member(node).earliest <= 150_000 for node in "abc"))
        delete_cursor(master.folder, "slow")
        await until(lambda: all(nodes.member(node).earliest > 150_000 for node in "abc"))
        assert {numbers(nodes.member(node))[0] for node in "abc"} != {0}
        assert [numbers(nodes.member(node))[-1] for node in "abc"] == [99, 99, 99]


@in_loop
async def test_a_log_that_is_dropped_is_gone_on_all_nodes_and_its_name_is_free(tmp_path: Path) -> None:
    async with Inside(tmp_path) as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.append(0, 20)
        assert (await nodes.obey("b", ask="drop", name="orders"))["stays"] == []
        assert not [node for node in "abc" if nodes.servers[node].members or any((tmp_path / node / "logs").iterdir())]
        await nodes.create()
        await nodes.append(0, 5)
        assert numbers(await nodes.master()) == list(range(5))


@in_loop
# Proves G355.
async def test_a_rescue_says_what_may_be_missing_and_makes_a_copy_that_was_not_in_sync_the_log(tmp_path: Path) -> None:
    async with Inside(tmp_path, lag="0.3s", sync_timeout="0.2s") as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.append(0, 20)
        await nodes.in_sync()
        with pytest.raises(LogError, match="is in sync and there, so nothing has to be rescued"):
            await nodes.obey("a", ask="rescue", name="orders", node="c")
        await nodes.obey("a", ask="move", name="orders", to="a")
        await until(lambda: nodes.member("a").replica.role is Role.MASTER)
        await nodes.append(20, 1)
        await nodes.in_sync()
        await nodes.stop("c")
        await nodes.append(21, 20)
        await until(lambda: nodes.member("a").status().in_sync == frozenset("ab"))
        await nodes.append(41, 1)
        await until(lambda: nodes.member("a").status().checkpoint == nodes.member("a").wal.end)
        await nodes.stop("b", "a")
        for node in "ab":
            shutil.rmtree(tmp_path / node)
        await nodes.start("c")
        await until(lambda: "orders" in nodes.servers["c"].members)
        told = await nodes.obey("c", ask="rescue", name="orders", node="c")
        assert not told["is_done"]
        assert any("were answered as written, and are lost" in word for word in told["words"])
        told = await nodes.obey("c", ask="rescue", name="orders", node="c", yes=True)
        assert told["is_done"]
        await nodes.start(*"ab")
        await until(lambda: nodes.member("c").replica.role is Role.MASTER)
        await until(lambda: bool(nodes.servers["c"].session("a") and nodes.servers["c"].session("b")))
        for node in "ab":
            await nodes.obey("c", ask="members", name="orders", add=node, remove=node)
        await nodes.append(100, 5)
        await nodes.in_sync()
        assert numbers(nodes.member("a")) == [*range(21), *range(100, 105)]


@in_loop
async def test_a_rescue_is_refused_also_while_the_connections_to_those_in_sync_are_cut(tmp_path: Path) -> None:
    async with Inside(tmp_path, lag="0.3s", sync_timeout="0.2s") as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.in_sync()
        await nodes.obey("a", ask="move", name="orders", to="a")
        await until(lambda: nodes.member("a").replica.role is Role.MASTER)
        await nodes.in_sync()
        control = nodes.member("a").replica.control
        assert control is not None
        out = nodes.member("c")
        others = {one: number for one, number in control.in_sync.items() if one != out.me}
        carrier = nodes.servers["c"].peers._carrier
        assert carrier is not None
        for pipe in list(carrier._pipes.values()):
            pipe.transport.abort()
        for node in "ab":
            session = nodes.servers["c"].session(node)
            assert session is not None
            await session.cut()
        with pytest.raises(LogError, match="is in sync and there, so nothing has to be rescued"):
            await nodes.servers["c"].operating._check_all_gone(out, replace(control, in_sync=others))


@in_loop
# Proves G361.
async def test_a_creation_whose_asker_is_gone_leaves_nothing_half_made(tmp_path: Path) -> None:
    async with Inside(tmp_path, "ab") as nodes:
        await nodes.start("a", "b")
        await until(lambda: nodes.servers["a"].session("b") is not None)
        for turns in range(12):  # the loop has gone on so often when the asker is gone
            asked = asyncio.create_task(nodes.create(members="ab"))
            for _ in range(turns):
                await asyncio.sleep(0.001)
            asked.cancel()
            await asyncio.wait([asked])
        with suppress(LogError):  # one of those that were left has made it
            await nodes.create(members="ab")
        await nodes.append(0, 5)
        assert numbers(await nodes.master()) == list(range(5))


@in_loop
# Proves G361.
async def test_of_two_creations_of_one_name_at_once_one_is_made_and_the_other_is_refused(tmp_path: Path) -> None:
    async with Inside(tmp_path) as nodes:
        await nodes.start(*"abc")
        await until(
            lambda: all(one.session(other) for one in nodes.servers.values() for other in {*"abc"} - {one.node})
        )
        for turn in range(4):
            name = f"orders{turn}"
            members = [list("abc"), list("bca")]
            made = await asyncio.gather(
                *(
                    nodes.obey(one[0], ask="create", name=name, members=one, description=BYTES, settings={})
                    for one in members
                ),
                return_exceptions=True,
            )
            assert sum(isinstance(one, LogError) for one in made) == 1, made
            await nodes.append(0, 3, name=name)
            await nodes.in_sync(name=name)


@in_loop
# Proves G361.
async def test_two_who_add_one_member_at_once_add_one(tmp_path: Path) -> None:
    async with Inside(tmp_path) as nodes:
        await nodes.start(*"abc")
        await nodes.create(members="ab")
        await nodes.append(0, 5)
        await until(lambda: all(nodes.servers["c"].session(one) for one in "ab"))
        added = [nodes.obey(one, ask="members", name="orders", add="c") for one in "ab"]
        done = await asyncio.gather(*added, return_exceptions=True)
        assert [str(one) for one in done if isinstance(one, LogError)] == ["node c is a member of log orders already"]
        await nodes.append(5, 5)
        await nodes.in_sync()
        assert len((await nodes.master()).status().members) == 3


@in_loop
async def test_status_says_for_how_long_the_checkpoint_has_not_risen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operating, "_OLD_S", 0.3)
    monkeypatch.setattr(member, "_LOOK_S", 0.1)
    async with Inside(tmp_path) as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.append(0, 5)
        await nodes.in_sync()
        master = await nodes.master()

        def status() -> dict[str, Any]:
            return nodes.servers[master.node].operating.status_of(master)

        await until(lambda: status()["checkpoint"] == master.committed)
        assert status()["checkpoint_age"] == 0

        async def gives_no_answer(*_: object) -> Changed:
            return UNKNOWN

        with monkeypatch.context() as away:
            away.setattr(nodes.servers[master.node].store, "change", gives_no_answer)
            await nodes.append(5, 5)
            await until(lambda: status()["checkpoint_age"] > 0.3)
            assert any(words.startswith("the checkpoint has not risen for") for words in status()["words"])
        await until(lambda: status()["checkpoint_age"] == 0)
        assert status()["checkpoint"] == master.committed


@in_loop
# Proves G375.
async def test_a_member_that_does_not_follow_says_why_in_the_words_of_status_wherever_it_is_asked(
    tmp_path: Path,
) -> None:
    """It comes back after the log was rescued from a copy that had less than was answered."""
    async with Inside(tmp_path, "ab", lag="0.2s", sync_timeout="0.1s", suspect="0.3s", min_insync=1) as nodes:
        await nodes.start(*"ab")
        await nodes.create(members="ab")
        await nodes.append(0, 5)
        await nodes.in_sync("ab")
        await nodes.obey("a", ask="move", name="orders", to="a")
        await until(lambda: nodes.member("a").replica.role is Role.MASTER)
        await nodes.stop("b")
        await nodes.append(5, 5)
        await until(lambda: nodes.member("a").replica.marks.checkpoint == nodes.member("a").wal.end)
        await nodes.stop("a")
        await nodes.start("b")
        await until(lambda: "orders" in nodes.servers["b"].members)
        await nodes.obey("b", ask="rescue", name="orders", node="b", yes=True)
        await nodes.start("a")
        await until(lambda: "orders" in nodes.servers["a"].members and bool(nodes.member("a").refusal))
        (own,) = nodes.servers["a"].operating.told()["logs"][0]["own"]
        assert own.words.startswith("a follows no master: b, epoch ")
        assert "lacks what was answered" in own.words
        assert own.advice.endswith("rtmw log members orders replace a")
        for node in "ab":
            assert own.words in (await nodes.obey(node, ask="status", name="orders"))["words"]
        await nodes.obey("b", ask="members", name="orders", add="a", remove="a")
        await nodes.in_sync("ab")
        assert nodes.servers["a"].operating.told()["logs"][0]["own"] == []


@in_loop
# Proves G374.
async def test_what_is_at_risk_of_a_log_has_an_advice(tmp_path: Path) -> None:
    async with Inside(tmp_path, "a", min_insync=1) as nodes:
        await nodes.start("a")
        await nodes.create(members="a")
        one = await nodes.master()
        operating, store = nodes.servers["a"].operating, nodes.servers["a"].store

        def said() -> dict[str, tuple[str, bool]]:
            row = operating.status_of(one)
            return {
                words.partition(":")[0]: (advice, is_remark) for words, advice, is_remark in row["own"] + row["risks"]
            }

        settled = {"min_insync is 1", f"{store.where.partition(':')[0]}"}
        assert {*said()} == settled
        assert all(is_remark for _, is_remark in said().values())
        one.replica.is_full, store.fault, one.trouble = True, "no answer", "garbled"
        found = said()
        assert {*found} - settled == {"the disk of a is full", "the control store", "a cannot use the control store"}
        assert found["the disk of a is full"] == (f"make room in {one.path}; it goes on by itself", False)
        assert str(tmp_path / "a" / "logs") in operating.told()["full"]
        one.replica.is_full, store.fault, one.trouble = False, "", ""
        nodes.servers["a"].troubles["other"] = "its folder is gone"
        checks = [*replicated(operating.told())]
        assert [(check.name, check.kind) for check in checks[:2]] == [("log other", "fault"), ("log orders", None)]
        nodes.servers["a"].troubles.clear()


@in_loop
async def test_without_a_master_status_names_who_is_needed_and_after_a_rescue_those_that_came_back_are_replaced(
    tmp_path: Path,
) -> None:
    async with Inside(tmp_path, lag="0.3s", sync_timeout="0.2s") as nodes:
        await nodes.start(*"abc")
        await nodes.create()
        await nodes.append(0, 5)
        await nodes.in_sync()
        await nodes.obey("a", ask="move", name="orders", to="a")
        await until(lambda: nodes.member("a").replica.role is Role.MASTER)
        await nodes.stop("c")
        await until(lambda: nodes.member("a").status().in_sync == frozenset("ab"))
        await nodes.append(5, 5)
        ends = [nodes.member("a"), nodes.member("b")]  # they will not be cut to what c has
        await until(lambda: all(one.replica.marks.checkpoint == one.wal.end for one in ends))
        await nodes.stop("b", "a")
        await nodes.start("c")
        await until(lambda: "orders" in nodes.servers["c"].members)
        told = await nodes.obey("c", ask="status", name="orders")
        assert (told["members"], told["in_sync"]) == ([*"abc"], [*"ab"])
        assert told["words"][0].endswith("until there is one; in sync: a, b; node c does not reach a, b")
        assert not any("has not risen" in words for words in told["words"])
        await nodes.obey("c", ask="rescue", name="orders", node="c", yes=True)
        await nodes.master()
        words = (await nodes.obey("c", ask="status", name="orders"))["words"]
        assert "min_insync is 2, and no more than 1 in sync: appends are answered PENDING" in words
        await nodes.start("a", "b")
        await until(lambda: all(nodes.servers["c"].session(node) for node in "ab"))
        await until(lambda: all("orders" in nodes.servers[node].members for node in "ab"))
        for node in "ab":
            await nodes.obey("c", ask="members", name="orders", add=node, remove=node)
        await nodes.in_sync()
        await nodes.append(10, 5)
        await nodes.in_sync()
        assert numbers(nodes.member("a")) == numbers(nodes.member("c"))
        slave = next(node for node in "ab" if nodes.member(node).replica.role is not Role.MASTER)
        with pytest.raises(LogError, match=f"the copy of node {slave} is in sync: to make it anew, remove the node"):
            await nodes.obey("c", ask="members", name="orders", add=slave, remove=slave)


def hears_nothing(node: str, copy: bytes, message: object) -> None:
    """In place of Member.hear."""


@in_loop
async def test_while_a_member_does_not_acknowledge_status_says_who_and_counts_what_waits_also_behind_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Inside(tmp_path, "ab", sync_timeout="0.1s") as nodes:
        await nodes.start(*"ab")
        await nodes.create(members="ab")
        await nodes.in_sync("ab")
        master = await nodes.master()
        slave = "b" if master.node == "a" else "a"
        with monkeypatch.context() as unheard:
            unheard.setattr(master, "hear", hears_nothing)
            answer = await master.ask(appended(1, 2 << 20))  # beyond what the store takes
            assert answer.reply is Reply.PENDING
            told = nodes.servers[master.node].operating.status_of(master)
            assert (told["queue"], told["pending"]) == (1, 1)
            assert told["oldest"] >= 0.1
            assert any(words.startswith(f"{slave} has not acknowledged 2.0 MiB for ") for words in told["words"])
        await nodes.in_sync("ab")
        assert (await nodes.obey("a", ask="status", name="orders"))["queue"] == 0


@in_loop
async def test_no_log_is_made_whose_members_would_come_and_go_and_none_is_moved_off_a_node_that_is_no_member(
    tmp_path: Path,
) -> None:
    async with Inside(tmp_path, "a", min_insync=1) as nodes:
        await nodes.start("a")
        with pytest.raises(ValueError, match=r"lag is 100 ms.*give at least 300 ms"):
            await nodes.create(members="a", lag=0.1)
        with pytest.raises(ValueError, match=r"suspect is 50 ms.*give at least 100 ms"):
            await nodes.create(members="a", suspect=0.05)
        await nodes.create(members="a")
        await nodes.master()
        with pytest.raises(LogError, match="node zz is no member of log orders; they are a"):
            await nodes.obey("a", ask="move", name="orders", off="zz")
        assert (await nodes.obey("a", ask="move", name="orders", to="a"))["to"] == "a"


@in_loop
async def test_a_creation_waits_for_the_members_to_be_there_and_for_a_first_master(tmp_path: Path) -> None:
    async with Inside(tmp_path) as nodes:
        await nodes.start("a")
        asked: dict[str, Any] = {
            "ask": "create",
            "name": "orders",
            "members": [*"abc"],
            "description": BYTES,
            "settings": {},
        }
        with pytest.raises(LogError, match="no session with node b"):
            await nodes.obey("a", **asked)
        made = asyncio.create_task(nodes.obey("a", **asked, wait=10.0))
        await until(lambda: bool(nodes.servers["a"].operating._away("bc")))
        await nodes.start("b", "c")
        assert (await made)["master"] in (*"abc",)


@in_loop
async def test_a_copy_of_the_data_of_another_node_is_no_member_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with Inside(tmp_path, "abcd", suspect="0.2s") as nodes:
        await nodes.start(*"abc")
        await nodes.create(members="abc")
        await nodes.append(0, 5)
        await nodes.in_sync()
        await nodes.stop("b")
        shutil.copytree(tmp_path / "b", tmp_path / "d")
        await nodes.start("b", "d")
        words = "the copy of d is no member of the log: it is that of node b, whose data was copied"
        await until(lambda: "orders" in nodes.servers["d"].members and nodes.member("d").stray == words)
        assert words in (await nodes.obey("d", ask="status", name="orders"))["words"]
        due = nodes.member("d").replica._patient_until() - CLOCK.monotonic()
        assert due > 10
        assert caplog.text.count(words) == 1
        await nodes.obey("a", ask="members", name="orders", add="d")
        await nodes.in_sync("abcd")
        assert not nodes.member("d").stray


@in_loop
async def test_nodes_ask_each_other_in_one_session_as_often_as_they_like_also_where_no_answer_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Inside(tmp_path, "ab") as nodes:
        await nodes.start(*"ab")
        await nodes.create(members="ab")
        session = nodes.servers["a"].session("b")
        assert session is not None
        for _ in range(300):  # more than the streams that may be open
            assert (await operating.ask(session, ask="status", name="orders"))["node"] == "b"

        async def silent(*_: object, **__: object) -> dict[str, Any]:
            return await asyncio.Event().wait() and {}

        monkeypatch.setattr(nodes.servers["b"].operating, "obey", silent)
        for _ in range(300):
            with pytest.raises(SessionError, match="no answer within"):
                await operating.ask(session, 0.001, ask="status", name="orders")
        monkeypatch.undo()
        assert (await operating.ask(session, ask="status", name="orders"))["node"] == "b"
        assert nodes.servers["a"].session("b") is session
