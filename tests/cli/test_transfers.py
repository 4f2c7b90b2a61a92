"""`rtmw transfers`: what a core has, and what people do with it (T6, T11); and the same in top, metrics and graph."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw import Delivery, Level, TransferState, observe
from rtmw.cli import transfers
from rtmw.cli.top import TransferWords
from rtmw.cli.transfers import PAPER
from rtmw.observe import TransferActivity, TransferCounters
from rtmw.publisher import OwnPublisher
from rtmw.transfer.client.viewer import Viewer
from rtmw.transfer.core.report import MOST
from rtmw.transfer.frames import CORE_QUEUE
from tests.child import Spawn
from tests.cli.command import Run, document
from tests.openmetrics import Samples, labelled, parsed
from tests.transfer.core_process import PATIENCE, CoreProcess, consumed


def here(core: CoreProcess) -> tuple[str, str]:
    return "--domain", str(core.domain)


def until(met: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < end
        time.sleep(0.02)


def dead_letter(sender: rtmw.Sender) -> rtmw.Transfer:
    sent = sender.send("ingest", b"poison", delivery=Delivery.LOG)
    with rtmw.Inbox("ingest") as inbox:
        for _ in range(16):
            letter = inbox.take(PATIENCE)
            assert letter is not None
            letter.give_back("always")
    until(lambda: sent.state is TransferState.DEAD)
    return sent


def test_t11_transfers_are_shown_with_their_states_and_retries(
    core: CoreProcess, sender: rtmw.Sender, run: Run
) -> None:
    dead = dead_letter(sender)
    parked = sender.send("late", b"level", priority=3)
    found = document(run, "transfers", *here(core))
    rows = {row["id"]: row for row in found["transfers"]}
    assert rows[str(parked.id)] | {
        "to": "late", "from": "gauge", "state": "ACCEPTED", "delivery": "NORMAL", "kind": "BUF", "bytes": 5,
        "retries": 0, "priority": 3,
    } == rows[str(parked.id)]  # fmt: skip
    assert (rows[str(dead.id)]["state"], rows[str(dead.id)]["retries"]) == ("DEAD", 15)
    counters = found["counters"]
    assert (counters["parked"], counters["dead"], counters["redelivered"]) == (2, 1, 15)
    status, out, _ = run("transfers", *here(core))
    assert status == 0
    assert "Node plant: 2 transfers, 11 B in the core, 0 consumed, 0 failed, 1 dead letter, 15 redelivered" in out
    assert "delivered 16 times, and each time given back: always" in out


def test_the_title_says_why_there_are_more_rows_than_transfers(
    core: CoreProcess, sender: rtmw.Sender, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "x").write_bytes(b"x")
    sender.send("late", b"level")
    with rtmw.Inbox("ingest", folder=tmp_path / "in") as inbox:
        sender.send("ingest", rtmw.File(tmp_path / "x", "x"))
        letter = inbox.take(PATIENCE)
        assert letter is not None
        rows = document(run, "transfers", *here(core))["transfers"]
        assert sorted(row["to"].partition("@")[0] for row in rows) == ["ingest", "ingest", "late"]
        out = run("transfers", *here(core))[1]
        assert "Node plant: 2 transfers (1 in two rows: from this node to itself), " in out
        letter.consume()


def test_t10_t11_open_transactions_are_shown_under_the_papers_names_with_their_age(
    core: CoreProcess, sender: rtmw.Sender, run: Run
) -> None:
    with sender.transaction() as txn:
        txn.send("ingest", b"bill")
        txn.savepoint("half")
        (row,) = document(run, "transfers", *here(core))["transactions"]
        assert (row["TxnID"], row["State"], row["SaveList"]) == (txn.number, "RUNNING", ["half"])
        assert row["LastLSN"] == row["UndoNxtLSN"] > 0
        assert (row["from"], row["pid"], row["records"], row["bytes"]) == ("gauge", os.getpid(), 2, 4)
        assert 0 < row["age"] < PATIENCE
        out = run("transfers", *here(core))[1]
        assert "Open transactions" in out
        assert f"in transaction {txn.number}" in out
    assert document(run, "transfers", *here(core))["transactions"] == []


# Proves T6.
def test_t6_an_item_of_a_queue_has_the_papers_eleven_fields(core: CoreProcess, sender: rtmw.Sender, run: Run) -> None:
    big = sender.send("ingest", bytes(600_000), delivery=Delivery.LOG)
    with rtmw.Inbox("ingest") as inbox, sender.transaction() as txn:
        assert inbox.take(PATIENCE) is not None
        assert big.wait(Level.DELIVERED, PATIENCE)
        first = sender.send("ingest", b"first", delivery=Delivery.LOG)
        txn.send("ingest", b"held")
        urgent = sender.send("ingest", b"urgent", delivery=Delivery.LOG, priority=7)
        found = document(run, "transfers", "--queues", *here(core))
        assert [tuple(item) for item in found["items"]] == [PAPER] * 4
        one, two, three, four = found["items"]
        assert [item["flag"] for item in found["items"]] == ["ACCEPTED", "DELIVERED", "ACCEPTED", "HELD"]
        assert (two["pid"], two["udtype"], two["bufHead"], two["bufTail"], two["bufNum"]) == (
            os.getpid(),
            "BUF",
            0,
            2,
            3,
        )
        assert [item["timeout"] for item in found["items"]] == [10, 10, 10, 60]
        assert (four["txId"], three["txId"]) == (txn.number, 0)
        assert [item["nNextRead"] for item in found["items"]] == [two["index"], three["index"], four["index"], 0]
        assert [item["nNextWrite"] for item in (two, three, four, one)] == [
            three["index"],
            four["index"],
            one["index"],
            0,
        ]
        (queue,) = found["queues"]
        assert (queue["queue"], queue["transfers"], queue["receivers"]) == ("ingest", 4, 1)
        out = run("transfers", "--queues", *here(core))[1]
        assert all(name in out for name in PAPER)
    assert first.id != urgent.id


def test_t6_what_is_beyond_the_items_that_are_shown_is_counted(
    core: CoreProcess, sender: rtmw.Sender, run: Run
) -> None:
    sender.send_many("ingest", [b"x"] * (MOST + 5))
    found = document(run, "transfers", "--queues", *here(core))
    assert (len(found["items"]), found["more"], found["queues"][0]["transfers"]) == (MOST, 5, MOST + 5)
    assert f"{MOST} items, 5 more are not shown" in run("transfers", "--queues", *here(core))[1]
    assert document(run, "transfers", *here(core))["more"] == 5


def test_t11_info_has_all_of_a_transfer_and_says_how_one_has_ended(
    core: CoreProcess, sender: rtmw.Sender, run: Run
) -> None:
    sent = sender.send("ingest", b"x", delivery=Delivery.LOG)
    (found,) = document(run, "transfers", "info", str(sent.id), *here(core))
    assert set(PAPER) < set(found)
    assert found["id"] == str(sent.id)
    with rtmw.Inbox("ingest") as inbox:
        letter = inbox.take(PATIENCE)
        assert letter is not None
        letter.refuse("not for us")
    status, _, err = run("transfers", "info", str(sent.id), *here(core))
    assert (status, err) == (
        1, f"rtmw: there is no transfer {sent.id}; it has ended, or never was: it is REFUSED, not for us\n"
    )  # fmt: skip
    status, _, err = run("transfers", "info", "nonsense", *here(core))
    assert (status, err) == (1, "rtmw: 'nonsense' is no id of a transfer; `rtmw transfers` shows them\n")


def test_t11_a_parked_transfer_is_cancelled_and_its_sender_hears_of_it(
    core: CoreProcess, sender: rtmw.Sender, run: Run
) -> None:
    sent = sender.send("ingest", b"x", delivery=Delivery.LOG)
    assert run("transfers", "cancel", str(sent.id), *here(core)) == (0, f"{sent.id} is cancelled.\n", "")
    with pytest.raises(rtmw.TransferRefused, match=r"CANCELLED.*asked for"):
        sent.wait(Level.DELIVERED, PATIENCE)
    status, out, err = run("transfers", "cancel", str(sent.id), *here(core))
    assert (status, out) == (1, "")
    assert err == f"rtmw: there is no transfer {sent.id}; it has ended, or never was\n"


def test_t11_a_dead_letter_is_tried_again_and_nothing_else_is(core: CoreProcess, sender: rtmw.Sender, run: Run) -> None:
    dead = dead_letter(sender)
    assert run("transfers", "retry", str(dead.id), *here(core)) == (0, f"{dead.id} is tried again.\n", "")
    with rtmw.Inbox("ingest") as inbox:
        letter = inbox.take(PATIENCE)
        assert letter is not None
        assert letter.redelivered == 0
        status, _, err = run("transfers", "retry", str(dead.id), *here(core))
        assert status == 1
        assert err == f"rtmw: transfer {dead.id} is DELIVERED, and no dead letter; only those are tried again\n"
        letter.consume()


def test_t11_dead_letters_are_tried_again_or_cancelled_by_their_service_and_their_cause(
    core: CoreProcess, sender: rtmw.Sender, run: Run
) -> None:
    dead, parked = dead_letter(sender), sender.send("pumps", b"parked")
    for other in (("--service", "other"), ("--cause", "no such words"), ("--service", "pumps", "--cause", "words")):
        status, out, err = run("transfers", "retry", *other, *here(core))
        assert (status, "No dead letter is meant by that" in out, err) == (0, True, "")
    for empty in ("--service", "--cause"):
        status, _, err = run("transfers", "cancel", empty, "", *here(core))
        assert (status, "would mean all dead letters" in err) == (1, True)
    (row,) = [one for one in document(run, "transfers", *here(core))["transfers"] if one["state"] == "DEAD"]
    by_both = ("--service", row["to"], "--cause", row["cause"][:4])
    assert row["cause"]
    assert run("transfers", "retry", *by_both, *here(core)) == (0, f"{dead.id} is tried again.\n", "")
    assert not [one for one in document(run, "transfers", *here(core))["transfers"] if one["state"] == "DEAD"]
    assert run("transfers", "cancel", str(dead.id), *here(core))[0] == 0
    again = dead_letter(sender)
    status, out, _ = run("transfers", "cancel", "--service", row["to"], *here(core))
    assert (status, f"{again.id} is cancelled.\n" in out, str(parked.id) in out) == (0, True, False)
    until(lambda: again.state is TransferState.CANCELLED)
    status, _, err = run("transfers", "retry", str(dead.id), "--service", "pumps", *here(core))
    assert (status, "by --service, --cause or both" in err) == (1, True)
    assert run("transfers", "retry", *here(core))[0] == 1


def test_t11_what_went_wrong_is_shown_and_on_the_bus(core: CoreProcess, sender: rtmw.Sender, run: Run) -> None:
    with rtmw.Subscriber("rtmw/transfer/events") as events:
        sent = sender.send("ingest", b"x", delivery=Delivery.LOG, lifetime=0.05)
        told = json.loads(bytes(events.receive(timeout=PATIENCE).data))
    (event,) = document(run, "transfers", *here(core))["events"]
    assert event == told
    assert (event["what"], event["id"], event["to"], event["sender"]) == ("EXPIRED", str(sent.id), "ingest", "gauge")
    out = run("transfers", *here(core))[1]
    assert f"transfer {sent.id} from gauge to ingest: EXPIRED" in out


WATCH = """
    import sys
    from rtmw.cli import main
    sys.exit(main(["transfers", "--watch", "--window", "0.2", "--count", "{}", "--domain", "{}", *sys.argv[1:]]))
"""


def test_t11_watch_shows_rates_a_window_at_a_time(core: CoreProcess, sender: rtmw.Sender, spawn: Spawn) -> None:
    child = spawn(WATCH.format(2, core.domain))
    assert "Node plant: 0 transfers" in child.line()
    assert "0/s accepted" in child.line()
    child.wait()


def test_a_watch_as_json_has_the_rates(core: CoreProcess, sender: rtmw.Sender, run: Run) -> None:
    sender.send("ingest", b"x")
    words = ("--watch", "--count", "1", "--window", "0.1", "--json")
    status, out, _ = run("transfers", *words, *here(core))
    assert status == 0
    found: dict[str, Any] = json.loads(out)
    assert set(found["rates"]) == {"accepted", "consumed", "failed", "redelivered"}
    assert found["counters"]["parked"] == 1


def test_without_a_core_the_command_that_starts_one_is_named(domain: rtmw.Domain, run: Run) -> None:
    status, _, err = run("transfers", "--domain", str(domain.id))
    assert status == 1
    assert f"rtmw node --domain {domain.id} --serve transfer --data" in err


# ---- in top, metrics and graph ----


def counted(core: CoreProcess, met: Callable[[TransferCounters], bool]) -> None:
    """The core says its counters once a second."""

    def is_met() -> bool:
        with rtmw.Domain(core.domain, observe=True) as domain:
            found = observe.transfers(domain)
        return found is not None and met(found.counters)

    until(is_met)


def test_counters_are_told_without_taking_part(core: CoreProcess, sender: rtmw.Sender, run: Run) -> None:
    sender.send("ingest", b"level")
    counted(core, lambda counters: (counters.parked, counters.body_bytes, counters.accepted) == (1, 5, 1))
    out = run("metrics", *here(core))[1]
    assert f'rtmw_transfers_parked{{domain="{core.domain}"}} 1.0' in out
    assert f'rtmw_transfers_accepted_total{{domain="{core.domain}"}} 1.0' in out
    out = run("top", "--once", "--window", "0.1", *here(core))[1]
    assert "; 1 transfers parked" in out.splitlines()[0]
    core.kill()
    with rtmw.Domain(core.domain, observe=True) as domain:
        assert observe.transfers(domain) is None


def activity(silent: float, **more: int) -> TransferActivity:
    none = dict.fromkeys(("parked", "body_bytes", "dead", "transactions", "accepted", "consumed", "failed"), 0)
    return TransferActivity(4711, silent, TransferCounters(**{**none, "redelivered": 0, **more}))


def test_top_has_the_rate_between_two_messages_of_the_core() -> None:
    words = TransferWords()
    assert words.read(None, 0.0) == ""
    assert words.read(activity(0.5, parked=2), 10.0) == "; 2 transfers parked"
    assert words.read(activity(0.5, consumed=100, dead=1), 12.0) == "; 0 transfers parked, 50 consumed/s, 1 dead letter"
    assert words.read(activity(1.5, transactions=2), 13.0).endswith("50 consumed/s, 2 open transactions")
    assert words.read(None, 14.0) == ""


RECEIVER = """
    import rtmw
    with rtmw.Inbox("ingest"):
        print("ready", flush=True)
        input()
"""
SENDER = """
    import rtmw
    with rtmw.Sender("gauge") as sender:
        sender.send("ingest", b"x")
        print("ready", flush=True)
        input()
"""


def test_a_graph_has_services_between_senders_and_inboxes(core: CoreProcess, spawn: Spawn, run: Run) -> None:
    children = [spawn(code) for code in (SENDER, RECEIVER)]
    assert [child.line() for child in children] == ["ready", "ready"]
    edges = document(run, "graph", *here(core))
    found = {(one["pid"], one["does"], one["matched"]) for one in edges if one["topic"] == "transfers to ingest"}
    assert found == {(children[0].pid, "publishes", True), (children[1].pid, "subscribes", True)}


@pytest.mark.parametrize(("sent", "words"), [(15 << 20, "15.0 MiB, 23 %"), (16 << 20, "16.0 MiB, 25 %, window shut")])
def test_t7_a_window_that_is_shut_is_said(sent: int, words: str) -> None:
    row = {"state": "ACCEPTED", "bytes": 64 << 20, "sent": sent, "limit": 16 << 20, "rate": None}
    assert transfers._progress(row) == words


# ---- bodies ----


def test_t11_a_body_is_read_without_taking_it_with_the_rights_of_retry_and_cancel(
    core: CoreProcess, sender: rtmw.Sender, run: Run
) -> None:
    transfer = dead_letter(sender)
    status, out, _ = run("transfers", "body", str(transfer.id), *here(core))
    assert (status, out) == (0, "poison\n")
    assert transfer.state is TransferState.DEAD
    assert document(run, "transfers", "body", str(transfer.id), *here(core)) == {
        "id": str(transfer.id), "body": "poison",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("Wasserstände".encode(), "Wasserstände"),
        (b"a\x1b[31mred", "00000000  61 1b 5b 33 31 6d 72 65 64                       a.[31mred"),
        ("\u202egnp.exe".encode(), "00000000  e2 80 ae 67 6e 70 2e 65 78 65                    ...gnp.exe"),
        (bytes(range(17)), "00000000  00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  ................\n00000010  10"),
    ],
)
def test_what_a_terminal_would_obey_in_a_body_is_shown_byte_by_byte(
    core: CoreProcess, sender: rtmw.Sender, run: Run, body: bytes, shown: str
) -> None:
    sent = sender.send("ingest", body)
    assert run("transfers", "body", str(sent.id), *here(core))[1].startswith(shown)


@pytest.mark.parametrize("delivery", [Delivery.NORMAL, Delivery.LOG])
@pytest.mark.parametrize("size", [5000, 300_000])
def test_of_a_large_body_the_front_is_shown_and_raw_has_all_of_it(
    core: CoreProcess, sender: rtmw.Sender, run: Run, tmp_path: Path, delivery: Delivery, size: int
) -> None:
    body = ("é" * size).encode()[:-1] + b"!"  # a letter of two bytes lies over the end of what is shown
    sent = sender.send("ingest", b"x" + body, delivery=delivery)
    lines = run("transfers", "body", str(sent.id), *here(core))[1].splitlines()
    assert lines[1] == "… these are the first 4.0 KiB; --raw FILE writes all of it"
    assert run("transfers", "body", str(sent.id), "--raw", str(tmp_path / "raw"), *here(core))[0] == 0
    assert (tmp_path / "raw").read_bytes() == b"x" + body
    nowhere = str(tmp_path / "no folder" / "raw")
    said = run("transfers", "body", str(sent.id), "--raw", nowhere, *here(core))
    assert said == (1, "", f"rtmw: {nowhere} cannot be written: No such file or directory\n")
    status, _, err = run("transfers", "body", str(sent.id), "--raw", str(tmp_path / "raw"), *here(core))
    assert (status, "name a new file" in err) == (1, True)


def test_of_a_composite_the_parts_are_listed_and_one_is_read(
    core: CoreProcess, sender: rtmw.Sender, run: Run, tmp_path: Path
) -> None:
    source = tmp_path / "run.csv"
    source.write_text("1")
    sent = sender.send("ingest", [rtmw.Part(b"head"), rtmw.File(str(source), "in/run.csv")])
    out = run("transfers", "body", str(sent.id), *here(core))[1]
    assert all(words in out for words in ("COMPOSITE, 2 parts", str(source), "in/run.csv"))
    assert run("transfers", "body", str(sent.id), "--part", "1", *here(core))[1] == "head\n"
    for words, why in (
        (("--part", "2"), f"is a file, which lies at {source}"),
        (("--part", "3"), "has 2 parts, and no part 3"),
        (("--raw", "-"), "name one of its parts, as --part 1"),
    ):
        status, _, err = run("transfers", "body", str(sent.id), *words, *here(core))
        assert (status, why in err) == (1, True), err


def test_the_body_of_what_has_ended_is_gone_and_that_is_said(core: CoreProcess, sender: rtmw.Sender, run: Run) -> None:
    sent = sender.send("ingest", b"x")
    sent.cancel()
    status, _, err = run("transfers", "body", str(sent.id), *here(core))
    assert (status, "it is CANCELLED" in err) == (1, True), err


# ---- a core that stands still ----


# Proves G190.
def test_a_core_that_stands_still_is_told_within_five_seconds_also_when_its_queue_is_full(
    core: CoreProcess, domain: rtmw.Domain
) -> None:
    core.stop()
    flood = OwnPublisher(CORE_QUEUE, domain=domain, reliability=rtmw.Reliability.RELIABLE, max_blocking=0)
    for flooded in (False, True):
        begun = time.monotonic()
        with pytest.raises(TimeoutError, match=f"kill -CONT {core.process.pid}"), Viewer(domain) as viewer:
            viewer.show("transfers")
        assert time.monotonic() - begun < 5, flooded
        assert any(not flood.publish(b"no frame") for _ in range(10_000)), "its queue is full"


# ---- queues, and how old what is in them is ----


def scraped(core: CoreProcess, run: Run) -> Samples:
    """What `rtmw metrics` prints of queues, by the strict parser."""
    return {key: value for key, value in parsed(run("metrics", *here(core))[1]).items() if "_queue_" in key[0]}


def depths(core: CoreProcess, run: Run) -> dict[tuple[str, str], float]:
    found = scraped(core, run)
    labels = {key: dict(key[1]) for key in found if key[0] == "rtmw_transfers_queue_letters"}
    return {(one["service"], one["node"]): found[key] for key, one in labels.items()}


# Proves G192.
def test_metrics_have_depth_and_age_of_the_oldest_by_service_and_by_node_of_destination(
    core: CoreProcess, sender: rtmw.Sender, run: Run
) -> None:
    sender.send("ingest", b"first", delivery=Delivery.LOG)
    sent = time.time()
    sender.send_many("ingest", [b"more"] * 9, delivery=Delivery.LOG)
    sender.send("ingest", b"beside", delivery=Delivery.NORMAL)
    sender.send("ingest@far", b"away", delivery=Delivery.LOG)
    sender.send("bills@far", b"away")
    until(lambda: depths(core, run) == {("ingest", ""): 11, ("ingest", "far"): 1, ("bills", "far"): 1})
    until(lambda: time.time() - sent > 2)
    labels = labelled(domain=str(core.domain), service="ingest", node="")
    age, begun = scraped(core, run)["rtmw_transfers_queue_oldest_seconds", labels], time.time() - sent
    assert 2 < age < begun + 3, "a second of the mark before it, and one of the last message"
    with rtmw.Inbox("ingest", domain=core.domain) as inbox:
        consumed(inbox, 11)
    until(lambda: depths(core, run) == {("ingest", "far"): 1, ("bills", "far"): 1})


# Proves G192.
def test_ages_go_on_over_a_kill_of_the_core_and_over_its_end(core: CoreProcess, sender: rtmw.Sender, run: Run) -> None:
    labels = labelled(domain=str(core.domain), service="ingest", node="")

    def age() -> float:
        return scraped(core, run).get(("rtmw_transfers_queue_oldest_seconds", labels), 0.0)

    sent = time.time()
    sender.send("ingest", b"old", delivery=Delivery.LOG)
    until(lambda: age() > 2)
    for end in (core.kill, core.terminate):
        end()
        core.start()
        core.wait_until_ready()
        until(lambda: age() > 0)
        assert time.time() - sent - 1 < age() < time.time() - sent + 3


def test_a_dead_letter_is_in_no_depth_so_it_makes_no_queue_old(
    core: CoreProcess, sender: rtmw.Sender, run: Run
) -> None:
    dead_letter(sender)
    counted(core, lambda counters: counters.dead == 1)
    assert depths(core, run) == {}
