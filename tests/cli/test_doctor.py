"""`rtmw doctor` on real domains: the books, the tables, and what it repairs."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from pathlib import Path

import pytest

import rtmw
from rtmw.cli.environment import Check, status_of, verdict
from tests.cli.command import Run, document


def test_doctor_shows_books_that_balance(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", domain=domain) as publisher:
        publisher.publish(b"x")
        found = document(run, "doctor")
        assert found["balanced"]
        books = found["books"]
        places = ("free", "loaned", "queued", "held")
        assert sum(books[f"descriptors_{place}"] for place in places) == books["descriptors"]
        assert found["machine"]
        assert found["group"] is None
        status, out, _ = run("doctor", "--fix")
        assert status == 0
        assert "The books balance." in out


def test_doctor_shows_how_full_each_table_is_and_who_holds_most(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("camera", domain=domain) as publisher, rtmw.Subscriber("camera", domain=domain):
        publisher.publish_many([bytes(1 << 20)] * 4)
        found = document(run, "doctor")
        tables = {table["name"]: (table["used"], table["size"] > 1) for table in found["tables"]}
        assert tables["topics"] == tables["publishers"] == tables["subscribers"] == (1, True)
        (holding,) = found["holdings"]
        assert (holding["topic"], holding["messages"], holding["slowest"]["behind"]) == ("camera", 4, 4)
        out = run("doctor")[1]
    assert re.search(r"^pool +4\.0 MiB +- +8\.0 MiB +- +50 %$", out, re.MULTILINE)
    assert re.search(rf"^camera +4 +4\.0 MiB +50\.0 % .*\({os.getpid()}\): 4 behind$", out, re.MULTILINE)
    assert "Nearly full" not in out


def test_doctor_says_which_table_is_nearly_full(run: Run, domain: rtmw.Domain) -> None:
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(rtmw.LimitReached):
            while True:
                stack.enter_context(rtmw.Publisher("a", domain=domain))
        out = run("doctor")[1]
    assert "Nearly full: publishers." in out
    assert "Nearly full: topics." not in out


@pytest.mark.parametrize(
    ("reliability", "outcome"),
    [(rtmw.Reliability.RELIABLE, "nothing of it gives way"), (rtmw.Reliability.ADAPTIVE, "the oldest gives way")],
)
def test_doctor_names_who_fills_what_the_reserve_leaves(
    run: Run, domain_id: int, reliability: rtmw.Reliability, outcome: str
) -> None:
    with rtmw.Domain(domain_id, pool="1M"), rtmw.Subscriber("camera", reliability=reliability):
        publisher = rtmw.Publisher("camera", reliability=reliability, max_blocking=0)
        for _ in range(30):
            publisher.publish(bytes(32 * 1024))
        out = run("doctor")[1]
        publisher.close()
    assert re.search(r"^pool +896\.0 KiB +- +1\.0 MiB +128\.0 KiB +88 %$", out, re.MULTILINE)
    assert "Reserved: for priorities 4 to 7 alone" in out
    who = rf"\({os.getpid()}\): 28 behind"
    assert re.search(rf"^Nearly full: pool\. Topic camera holds most, for .* {who};.* {outcome}\.", out, re.MULTILINE)


def test_doctor_names_what_cannot_give_way_also_when_another_topic_holds_more(run: Run, domain_id: int) -> None:
    reliable = rtmw.Reliability.RELIABLE
    with rtmw.Domain(domain_id, pool="1M"), rtmw.Subscriber("camera"), rtmw.Subscriber("orders", reliability=reliable):
        orders = rtmw.Publisher("orders", reliability=reliable)
        camera = rtmw.Publisher("camera")
        assert all([orders.publish(bytes(32 * 1024)) for _ in range(10)])
        assert all([camera.publish(bytes(32 * 1024)) for _ in range(18)])
        out = run("doctor")[1]
        orders.close()
        camera.close()
    assert "Nearly full: pool. Topic camera holds most, for " in out
    assert re.search(r"the oldest gives way\. Topic orders has messages for .*: 10 behind; it is RELIABLE", out)


def test_doctor_repairs_nothing_in_a_healthy_domain(run: Run, domain: rtmw.Domain) -> None:
    with rtmw.Publisher("a", domain=domain) as publisher, rtmw.Subscriber("a", domain=domain) as subscriber:
        for _ in range(103):
            publisher.publish(b"x")
            subscriber.receive(1)
        status, out, _ = run("doctor", "--fix")
    assert (status, "Repaired" in out) == (0, False)
    assert "Given back: " in out


def test_doctor_of_a_domain_that_does_not_exist_still_checks_the_machine(run: Run) -> None:
    status, out, _ = run("doctor")
    assert status == 0
    assert "/dev/shm" in out
    assert "there are no books to check" in out


def test_doctor_finds_what_creators_that_died_left_behind_and_fix_removes_it(run: Run, domain_id: int) -> None:
    dead = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout.strip()
    left = Path(f"/dev/shm/rtmw.{domain_id}.new.{dead}.{'0' * 15}7")
    left.write_bytes(b"half")
    try:
        assert f"/{left.name}" in document(run, "doctor")["leftovers"]
        assert f"/{left.name} was left by a program that died; --fix removes it." in run("doctor")[1]
        assert left.exists()
        run("doctor", "--fix")
        assert not left.exists()
    finally:
        left.unlink(missing_ok=True)


REMARK = Check("receive buffer", "up to 208.0 KiB", "raise it", remark=True)
WELL = Check("kernel", "Linux")


@pytest.mark.parametrize(
    ("found", "problems", "status", "strict"),
    [
        ([WELL], 0, 0, 0),
        ([WELL, REMARK], 0, 0, 3),
        ([WELL, REMARK, Check("node", "none runs", "start one")], 0, 1, 1),
        ([WELL, REMARK], 2, 1, 1),
    ],
)
# Proves G116.
def test_the_status_tells_a_fault_from_a_remark(found: list[Check], problems: int, status: int, strict: int) -> None:
    told = verdict(found, problems)
    assert (status_of(told, strict=False), status_of(told, strict=True)) == (status, strict)


def test_what_a_creator_left_is_a_remark_which_strict_alone_has_in_its_status(run: Run, domain_id: int) -> None:
    left = Path(f"/dev/shm/rtmw.{domain_id}.new.4194304.{'0' * 15}7")  # no process has this number
    left.write_bytes(b"half")
    try:
        found = document(run, "doctor")
        assert found["remarks"] > 0
        assert (run("doctor")[0], run("doctor", "--strict")[0]) == ((1, 1) if found["faults"] else (0, 3))
    finally:
        left.unlink(missing_ok=True)


def test_a_domain_that_is_not_there_is_not_called_balanced(run: Run, domain_id: int) -> None:
    found = document(run, "doctor", "--domain", str(domain_id))
    assert (found["balanced"], found["books"], found["machine"] != []) == (None, None, True)
    status, out, _ = run("doctor", "--domain", str(domain_id))
    assert (status, "The books balance" in out) == (0, False)
    assert f"Domain {domain_id} does not exist" in out


@pytest.mark.parametrize(
    ("is_there", "outcome"),
    [
        (True, "history keeps it while its publisher is there, and nothing of it gives way."),
        (False, "history keeps it, its publisher is gone, and it gives way to the same or a higher priority."),
    ],
)
def test_doctor_says_that_history_fills_the_memory_and_what_to_do(
    run: Run, domain_id: int, is_there: bool, outcome: str
) -> None:
    with rtmw.Domain(domain_id, pool="1M", reserve=0):
        publisher = rtmw.Publisher("map", history=31)
        assert publisher.publish_many([bytes(32 * 1024)] * 31) == 31
        if not is_there:
            publisher.close()
        out = run("doctor")[1]
        publisher.close()
    assert f"Nearly full: pool. Topic map holds most, for subscribers to come; {outcome}" in out
    assert ("`rtmw topic clear map` lets it go now." in out) is not is_there
