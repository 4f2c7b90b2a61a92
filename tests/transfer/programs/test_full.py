"""T8: a core whose log has no room on its disk, a real one of one or two MiB."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import rtmw
from tests import namespaces
from tests.whole import sample

BEGIN = f"""
import json, os, shutil, subprocess, sys, time
sys.path[:0] = {sys.path!r}
from pathlib import Path
import rtmw, rtmw.observe
from rtmw import Delivery, Level
from rtmw.observe.metrics import collect
from tests.transfer.core_process import CoreProcess

domain, folder, segment = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
core = CoreProcess(domain, folder)
core.start("tests.transfer.changed_core", "--segment", segment)
core.wait_until_ready()
events = rtmw.Subscriber("rtmw/transfer/events", domain=domain, history=64)


def until(met):
    end = time.monotonic() + 20
    while not met():
        assert time.monotonic() < end, core.log()
        time.sleep(0.01)


def event(what):
    until(lambda: any(json.loads(sample.value)["what"] == what for sample in events.take_many(100)))
    return what


def send_until_full(sender, size):
    number = 0
    while True:
        try:
            sender.send("ingest", number.to_bytes(4, "little") * (size // 4), delivery=Delivery.LOG)
        except rtmw.TransferRefused as error:
            assert "disk of the core has no room" in str(error), error
            return number
        number += 1


def full(domain):
    with rtmw.Domain(domain, observe=True) as looked_at:
        return rtmw.observe.transfers(looked_at).full


def metric():
    return next(one.samples[0].value for one in collect(domain) if one.name == "rtmw_transfers_disk_full")


def number_of(letter):
    return int.from_bytes(letter.body[:4], "little")


def consumes(letter):
    try:
        letter.consume()
    except rtmw.TransferRefused:
        return False
    return True


def sends(sender):
    try:
        return sender.send("ingest", b"room", delivery=Delivery.LOG)
    except rtmw.TransferRefused:
        return None
"""
ENDS = (
    BEGIN
    + """
with rtmw.Sender("gauge", domain=domain) as sender, rtmw.Inbox("ingest", domain=domain) as inbox:
    number = send_until_full(sender, 3600)
    print(number > 50, event("FULL"))
    until(lambda: full(domain))
    print(full(domain))
    shown = subprocess.run([sys.executable, "-m", "rtmw", "transfers", "--domain", str(domain)], capture_output=True)
    print("For want of room, not all is accepted: the disk of" in shown.stdout.decode())
    print(sender.send("other", b"NORMAL").state.name)
    with sender.transaction() as txn:
        print(number_of(txn.take(inbox)))
    for expected in range(1, number):
        with inbox.take(20) as letter:
            assert number_of(letter) == expected, (number_of(letter), expected)
    until(lambda: sends(sender))
    print(event("ROOM"))
    until(lambda: not full(domain))
    with inbox.take(20) as letter:
        print(letter.body.decode())
print(core.end())
"""
)
WAITS = (
    BEGIN
    + """
with rtmw.Sender("gauge", domain=domain) as sender, rtmw.Inbox("ingest", domain=domain) as inbox:
    number, seen = send_until_full(sender, 200), set()  # small ones: to consume them takes more than the reserve
    while True:
        try:
            letter = inbox.take(0)
            letter.consume()
        except rtmw.TransferRefused as error:
            assert "disk of the core has no room" in str(error), error
            break
        seen.add(number_of(letter))
    print(0 < len(seen) < number)
    leaving = rtmw.Inbox("ingest", domain=domain)
    until(lambda: leaving.take(0.3) is leaving.take(0.3) is None)  # of two that have no room, one may have it
    print(leaving.take(0.3))
    leaving.close()
    print(core.alive)
    subprocess.run(["mount", "-o", "remount,size=4m", folder.parent], check=True)
    if number_of(letter) not in seen:
        until(lambda: consumes(letter))
        seen.add(number_of(letter))
    while len(seen) < number:
        letter = inbox.take(20)
        until(lambda: consumes(letter))
        assert number_of(letter) not in seen
        seen.add(number_of(letter))
    print(max(seen) == number - 1, inbox.take(0.1))
print(core.end())
"""
)
AGAIN = (
    BEGIN
    + """
import re

with rtmw.Sender("gauge", domain=domain) as sender, rtmw.Inbox("ingest", domain=domain) as inbox:
    try:
        while True:
            sender.send_many("ingest", [bytes(3600)] * 100, delivery=Delivery.LOG)
    except rtmw.TransferRefused as error:
        needed = re.search("[(]([0-9]+) bytes are needed, and [0-9]+ are free[)]", str(error))[1]
        print(int(needed) > 0)  # what is free by now is any number: some may have been freed meanwhile
    while (letter := inbox.take(1)) is not None:
        letter.consume()
    until(lambda: sends(sender))
    with inbox.take(20) as letter:
        print(letter.body.decode())
print(core.end())
"""
)


SPOOL = (
    BEGIN
    + """
log_is_small = folder.parent / "rest"


def leave(size):
    with open(log_is_small, "wb") as rest:
        os.posix_fallocate(rest.fileno(), 0, shutil.disk_usage(folder).free - size)


def sends_body(sender):
    try:
        return sender.send("ingest", bytes(60_000), delivery=Delivery.LOG)
    except rtmw.TransferRefused as error:
        print(error)


with rtmw.Sender("gauge", domain=domain) as sender, rtmw.Inbox("ingest", domain=domain) as inbox:
    sender.send("ingest", b"small", delivery=Delivery.LOG)
    for ends in ("room", "a body that is smaller"):
        leave(20_000)
        sends_body(sender)
        print(event("FULL"))
        until(lambda: full(domain))
        print(full(domain))
        print(metric())
        sender.send("ingest", b"small", delivery=Delivery.LOG)  # the log has room, which ends nothing
        if ends == "room":
            os.unlink(log_is_small)
        else:
            sender.send("ingest", bytes(8_000), delivery=Delivery.LOG)
        print(event("ROOM"))
        until(lambda: not full(domain))
        print(metric())
    os.unlink(log_is_small)
    print(sends_body(sender).state.name)
print(core.log().count("has no room in"), core.log().count("there is room again"))
core.end()
"""
)


FULL = (
    r"the disk of \S+/transfers has [\d.]+ [KM]?i?B free{body}\. Kept there are \d+ transfers? with [\d.]+ [KM]?i?B of "
    r"bodies, and [\d.]+ [KM]iB of log\. Receivers that consume make room \(rtmw transfers shows where letters wait\); "
    r"so does rtmw transfers cancel, and what you remove from that disk\. Then it goes on by itself"
)


def play(source: str, segment: int, size: str, domain: rtmw.Domain, folder: Path) -> list[str]:
    """What it prints, on a disk of this size."""
    disk = folder / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size={size} tmpfs {disk}"
    namespaces.require("unshare", "--mount", "sh", "-c", mount)
    run = f'{mount} && exec "$@" {domain.id} {disk}/transfers {segment}'
    program = namespaces.start(["unshare", "--mount", "sh", "-c", run, "sh"], source, folder / "full.py")
    out, _ = program.communicate(timeout=100)
    return out.splitlines()


# Proves G183.
def test_t8_on_a_full_disk_what_was_accepted_is_consumed_and_that_makes_room_to_send(
    domain: rtmw.Domain, tmp_path: Path
) -> None:
    said = play(ENDS, 256 << 10, "2m", domain, tmp_path)
    words = said.pop(1)
    assert said[:6] == ["True FULL", "True", "ACCEPTED", "0", "ROOM", "room"], "\n".join(said)
    assert re.fullmatch(FULL.format(body=""), words), words


# Proves G185.
def test_t8_a_body_that_has_no_room_in_the_spool_is_told_as_a_full_log_is_and_so_is_its_end(
    domain: rtmw.Domain, tmp_path: Path
) -> None:
    said = play(SPOOL, 64 << 10, "4m", domain, tmp_path)
    refused = "a body of 60000 bytes has no room in "
    for told in (said[:6], said[6:12]):
        assert refused in told[0], "\n".join(said)
        assert re.search(r"where [1-9]\d{4} are free$", told[0]), told[0]
        assert re.fullmatch(FULL.format(body=", and a body of 58.6 KiB had no room there"), told[2]), told[2]
        assert [*told[1:2], *told[3:]] == ["FULL", "1", "ROOM", "0"]
    assert said[12:] == ["ACCEPTED", "2 2"]


@pytest.mark.parametrize("size", sample(["9m", "13m", "18m", "24m"], 2))
# Proves G184.
def test_t8_after_a_full_disk_the_core_accepts_again_when_all_was_consumed_whatever_the_size_of_the_disk(
    domain: rtmw.Domain, tmp_path: Path, size: str
) -> None:
    said = play(AGAIN, 64 << 20, size, domain, tmp_path)
    assert said[:2] == ["True", "room"], "\n".join(said)


# Proves G183.
def test_t8_without_any_room_the_core_lives_and_goes_on_when_there_is_room(domain: rtmw.Domain, tmp_path: Path) -> None:
    said = play(WAITS, 64 << 10, "1m", domain, tmp_path)
    assert said[:4] == ["True", "None", "True", "True None"], "\n".join(said)
