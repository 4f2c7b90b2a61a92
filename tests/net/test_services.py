"""What a node hosts: started with it, started again when it dies, and gone with it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw.cli.node_status import services
from rtmw.clock import CLOCK
from rtmw.net.services import MODULES, Service, Services
from rtmw.net.settings import Settings, SettingsError, make_settings
from rtmw.observe.node_status import HostedService, NodeStatus
from rtmw.observe.services import STILL_S, TransferActivity, TransferCounters
from tests import warm
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.test_transfer_nodes import is_served

SEGMENT_HEAD = 12288
"""Bytes before the records of a segment."""


def served(host: Host) -> dict[str, Any]:
    (row,) = host.info()["services"]
    found: dict[str, Any] = row
    return found


def has_begun(host: Host) -> bool:
    """Whether the node says that its core is started, and programs can join that: they wait a second for it."""
    return served(host)["pid"] is not None and is_served(host)


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


# Proves G177.
def test_a_node_hosts_the_core_which_ends_alone_and_is_started_again(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    host = hosts[0]
    host.start("--serve", "transfer", "--data", str(tmp_path / "data"), "--name", "plant")
    wait_until(lambda: has_begun(host), "the core is started")
    with rtmw.Sender("gauge", domain=host.number) as sender, rtmw.Inbox("ingest", domain=host.number) as inbox:
        sender.send("ingest@plant", b"one", delivery=rtmw.Delivery.LOG)
        node, core = host.node.pid, served(host)["pid"]
        os.kill(core, signal.SIGKILL)
        sender.send("ingest", b"two", delivery=rtmw.Delivery.LOG, timeout=PATIENCE)
        assert {letter.body for letter in (inbox.take(PATIENCE), inbox.take(PATIENCE)) if letter} == {b"one", b"two"}
    wait_until(lambda: served(host)["pid"] not in (None, core), "the node says so")
    assert (host.node.pid, served(host)["starts"]) == (node, 2)
    last = served(host)["pid"]
    host.stop()
    assert not is_alive(last)


# Proves G115.
def test_programs_that_wait_begin_when_a_node_that_is_started_late_serves_them(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    host = hosts[0]
    with ThreadPoolExecutor(2) as threads:
        sender = threads.submit(rtmw.Sender, "gauge", domain=host.number, wait=PATIENCE)
        inbox = threads.submit(rtmw.Inbox, "ingest", domain=host.number, wait=PATIENCE)
        with pytest.raises(rtmw.CoreNotRunning):
            rtmw.Sender("hasty", domain=host.number)
        host.start("--serve", "transfer", "--data", str(tmp_path / "data"))
        with sender.result(PATIENCE) as one, inbox.result(PATIENCE) as other:
            one.send("ingest", b"level")
            letter = other.take(PATIENCE)
            assert letter is not None
            assert letter.body == b"level"


# Proves G177.
def test_a_core_reads_limits_again_with_its_node_and_ends_with_one_that_is_killed(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    host, settings = hosts[0], tmp_path / "node.toml"
    settings.write_text("")
    host.start("--serve", "transfer", "--data", str(tmp_path / "data"), "--config", str(settings))
    wait_until(lambda: has_begun(host), "the core is started")
    core = served(host)["pid"]
    with rtmw.Sender("gauge", domain=host.number) as sender:
        settings.write_text("[transfer.limits]\nparked = 1\n")
        host.node.send_signal(signal.SIGHUP)
        wait_until(lambda: "service transfer: settings read again" in host.said, "the core reads them")
        sender.send("ingest", b"one")
        with pytest.raises(rtmw.TransferRefused, match="1 transfers are parked"):
            sender.send("ingest", b"two", wait=rtmw.Level.ACCEPTED)
    host.kill()
    wait_until(lambda: not is_alive(core), "the core ends")


def test_a_folder_of_data_that_cannot_be_used_is_named_where_one_looks_until_it_can_be(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    host, data = hosts[0], tmp_path / "data"
    data.write_text("no folder")
    host.start("--serve", "transfer", "--data", str(data))
    wait_until(lambda: served(host)["failures"] > 2, "it was tried again and again")
    why = f"the folder of data cannot be used: {data}/spool: Not a directory"
    assert served(host)["why"] == why
    assert host.said.count(f"service transfer: {why}") == 1, "the log says it once"
    (check,) = services(NodeStatus.of(host.info()))
    assert f" times in a row, soon after its start: {why}" in check.found
    assert "the node starts it again" in check.advice
    with pytest.raises(rtmw.CoreNotRunning, match=f"rtmw node doctor --domain {host.number}"):
        rtmw.Sender("gauge", domain=host.number)
    data.unlink()
    wait_until(lambda: has_begun(host), "it goes on by itself")


def test_a_service_that_has_been_at_work_for_long_has_no_failures_behind_it() -> None:
    now = CLOCK.monotonic()
    assert Service("transfer", 7, failures=4, begun=now, works=True).told().failures == 4
    assert Service("transfer", 7, failures=4, begun=now - 60, works=True).told().failures == 0
    assert Service("transfer", None, failures=4, begun=now - 60, works=True).told().failures == 4


def test_a_service_that_reads_what_it_keeps_for_long_and_then_ends_is_no_service_that_was_at_work() -> None:
    reads = Service("transfer", 7, failures=4, begun=CLOCK.monotonic() - 30)
    assert (reads.told().failures, reads.lasts) == (4, False)


def damage(data: Path) -> None:
    """One bit of a record that was on the disk."""
    segment = max((data / "log").glob("*.seg"))
    content = bytearray(segment.read_bytes())
    content[SEGMENT_HEAD + 40] ^= 1
    segment.write_bytes(content)


def said_by(call: Callable[[], object]) -> str:
    with pytest.raises(rtmw.CoreNotRunning) as error:
        call()
    return str(error.value)


# Proves G191.
def test_a_damaged_store_is_said_by_every_call_that_touches_it_and_by_each_look_as_long_as_it_lasts(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    host, data = hosts[0], tmp_path / "data"
    host.start("--serve", "transfer", "--data", str(data))
    wait_until(lambda: has_begun(host), "the core is started")
    with rtmw.Sender("gauge", domain=host.number) as sender, rtmw.Inbox("ingest", domain=host.number) as inbox:
        sender.send("other", b"kept", delivery=rtmw.Delivery.LOG)
        host.stop()
        damage(data)
        host.start("--serve", "transfer", "--data", str(data))
        wait_until(lambda: served(host)["failures"] > 1, "it was tried again")
        calls: dict[str, Callable[[], object]] = {
            "Sender": lambda: rtmw.Sender("late", domain=host.number),
            "Inbox": lambda: rtmw.Inbox("late", domain=host.number),
            "send": lambda: sender.send("ingest", b"new"),
            "take": lambda: inbox.take(PATIENCE),
            "send_many": lambda: sender.send_many("ingest", [b"new"]),
            "transaction": lambda: sender.transaction().take(inbox),
        }
        said = {name: said_by(call) for name, call in calls.items()}
        for words in (["transfers"], ["transfers", "info", "plant:1:1"], ["transfers", "retry", "plant:1:1"]):
            done = warm.run(*words, "--domain", str(host.number))
            assert done.returncode == 1
            said[" ".join(words)] = done.stderr
        for _ in range(20):
            (check,) = services(NodeStatus.of(host.info()))
            said[f"{len(said)} doctor"] = check.found
            time.sleep(0.1)  # also while it is started again, which takes some tenths of a second
    (segment,) = {word for words in said.values() for word in words.split() if ".seg" in word}
    assert {
        name for name, words in said.items() if "records from position" not in words or segment not in words
    } == set()


def test_a_service_that_runs_or_has_ended_once_is_shown_without_advice() -> None:
    once, well = HostedService("transfer", failures=1, why="killed"), HostedService("transfer", 7, why="killed")
    shown = [*services(NodeStatus(1, 1, services=(once, well)))]
    assert [(one.name, one.found, one.advice) for one in shown] == [
        ("service transfer", "is being started", ""),
        ("service transfer", "process 7", ""),
    ]


def test_a_core_that_begins_when_its_node_and_the_domain_are_gone_makes_no_domain(
    domain_id: int, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", MODULES["transfer"], "--domain", str(domain_id), "--node", "plant"]
    command += ["--data", str(tmp_path / "data")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, f"domain {domain_id} does not exist" in done.stderr) == (1, True), done.stderr
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, create=False)


def test_the_last_line_of_a_service_is_its_reason_also_behind_an_endless_and_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODULES, "transfer", "tests.net.terse_service")

    async def run() -> None:
        services = Services(Settings(serve=("transfer",), data=tmp_path))
        async with asyncio.timeout(PATIENCE), services:
            while services.told()[0].starts < 2:
                await asyncio.sleep(0.01)
            assert services.told()[0].why == "the error that came of it"

    asyncio.run(run())


@pytest.mark.parametrize("turns", range(6))
def test_a_node_ends_in_whichever_turn_of_the_end_of_its_service_it_is_told_to(turns: int) -> None:
    class Brief(Services):
        def _command(self, name: str) -> list[str]:
            return ["true"]

    async def run() -> None:
        services = Brief(Settings(serve=("transfer",)))
        async with asyncio.timeout(PATIENCE), services:
            for is_there in (True, False):
                while (services.told()[0].pid is not None) is not is_there:
                    await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)

    asyncio.run(run())


def test_a_service_of_a_node_without_a_domain_is_at_work_while_it_runs(tmp_path: Path) -> None:
    """So one that lasts has no failures behind it, and is started at once when it ends."""
    services = Services(Settings(serve=("log",), data=tmp_path))
    (service,) = services._services
    services.look(None)
    assert not service.works
    service.start(os.getpid())
    services.look(None)
    assert service.works


def test_what_it_hosts_and_where_is_checked(tmp_path: Path) -> None:
    made = make_settings(None, {"serve": ["transfer"], "data": str(tmp_path), "name": "plant"})
    assert (made.serve, made.data, made.node_name) == (("transfer",), tmp_path, "plant")
    assert Settings().node_name
    for given, words in (
        ({"serve": ["transfer"]}, "give data, as --data FOLDER"),
        ({"serve": ["tranfser"], "data": "x"}, "there is no service 'tranfser'; there are transfer"),
        ({"name": "a/b"}, "it must have 1 to 64 letters"),
    ):
        with pytest.raises(SettingsError, match=words):
            make_settings(None, dict(given))


def test_a_service_says_of_its_disk_what_its_process_says_until_there_is_another_process() -> None:
    service, none = Service("transfer"), TransferCounters(*[0] * 8)
    service.start(7)
    service.hear(TransferActivity(7, 0.5, none, full="the disk of /data has 0 B free"))
    (check,) = services(NodeStatus(1, 1, services=(service.told(),)))
    assert (check.found, check.advice) == ("process 7, but its disk is full", "the disk of /data has 0 B free")
    service.start(8)
    assert [one.advice for one in services(NodeStatus(1, 1, services=(service.told(),)))] == [""]


@pytest.mark.parametrize(("silent", "is_named"), [(STILL_S - 0.5, False), (STILL_S + 0.5, True)])
# Proves G190.
def test_node_and_tools_have_one_notion_of_a_core_that_stands_still(silent: float, is_named: bool) -> None:
    said = TransferActivity(7, silent, TransferCounters(*[0] * 8))
    service = Service("transfer")
    service.start(7)
    service.hear(said)
    assert (said.stands_still, service.silent is not None) == (is_named, is_named)


# Proves G190.
def test_a_core_that_stands_still_is_named_by_doctor_log_and_transfers_and_so_is_that_it_goes_on(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    host = hosts[0]
    host.start("--serve", "transfer", "--data", str(tmp_path / "data"), "--name", "plant")
    wait_until(lambda: has_begun(host), "the core is started")
    core = served(host)["pid"]
    os.kill(core, signal.SIGSTOP)
    try:
        done = warm.run("transfers", "--domain", str(host.number))
        assert (done.returncode, f"kill -CONT {core}" in done.stderr) == (1, True), done.stderr
        wait_until(lambda: served(host)["silent"] is not None, "the node says so")
        (check,) = services(NodeStatus.of(host.info()))
        assert "stood still" in check.found
        assert f"kill -CONT {core}" in check.advice
        wait_until(lambda: "stands still" in host.said, "the log says so")
    finally:
        os.kill(core, signal.SIGCONT)
    wait_until(lambda: served(host)["silent"] is None, "it goes on")
    wait_until(lambda: "goes on" in host.said, "the log says so")
    assert host.said.count("stands still") == 1
