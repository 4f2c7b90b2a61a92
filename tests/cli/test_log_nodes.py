"""`rtmw log` at the nodes of a replicated log: what it does to a folder, it does there, or says why not."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import rtmw
from rtmw.cli import log as log_command
from rtmw.cli import main
from tests.child import Spawn
from tests.cli.command import starting
from tests.cli.test_log import Told
from tests.control.stores import free_ports
from tests.replica.nodes import Here, until

LONG_S = 60.0
RULE = '[[allow]]\npeer = "rtmw://plant/*"\nread = ["orders"]'


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Generator[Here]:
    with Here(tmp_path_factory.mktemp("nodes")) as here:
        for name in ("orders", "trimmed", "stored"):
            here.create(name)
        with rtmw.Log.connect("orders", nodes=here.places) as log:
            for number in range(20):
                log.append(b"%d" % number, key=number)
            with log.read(cursor="billing") as records:
                for _ in range(3):
                    next(records).commit()
        yield here


def run(capsys: pytest.CaptureFixture[str], nodes: Here, *arguments: object) -> Told:
    status = main(["log", *map(str, arguments), "--node", ",".join(nodes.places)])
    return status, *capsys.readouterr()


def values(nodes: Here, name: str) -> list[bytes]:
    with rtmw.Log.connect(name, nodes=nodes.places) as log:
        return [record.data for record in log.read()]


# Proves G376.
def test_records_are_printed_exported_and_appended_as_in_a_folder(
    nodes: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(capsys, nodes, "tail", "orders", "-n", 2, "--json")[1]
    assert [json.loads(line)["key"] for line in out.splitlines()] == [18, 19]
    assert run(capsys, nodes, "export", "orders", "--jsonl", tmp_path / "out")[0] == 0
    assert [json.loads(line)["key"] for line in (tmp_path / "out").read_text().splitlines()] == [*range(20)]
    status, out, err = run(capsys, nodes, "append", "orders", "tea", "--id", "till/1")
    assert (status, err) == (0, "")
    assert out.endswith("is on the disks of all members that are in sync\n")
    again = json.loads(run(capsys, nodes, "append", "orders", "tea", "--id", "till/1", "--json")[1])
    assert f"record at {again['position']} " in out, "an id means one record, also there"


def test_a_log_of_nodes_has_its_cursors_in_info_and_in_the_way_of_trim(
    nodes: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    def as_told() -> dict[str, Any] | None:
        """None: a slave answered, which is a heartbeat behind its master, whose the cursors are."""
        told = json.loads(run(capsys, nodes, "info", "orders", "--json")[1])
        (cursor,) = told["cursors"]
        return told if (cursor["name"], cursor["behind"]) == ("billing", told["end"] - cursor["position"]) else None

    told = until(as_told)
    assert told is not None
    assert "^ billing" in run(capsys, nodes, "info", "orders")[1]
    status, _, err = run(capsys, nodes, "trim", "orders", told["end"])
    assert (status, "the cursor 'billing' may want records before that" in err) == (1, True)
    assert run(capsys, nodes, "trim", "trimmed", 0)[:2] == (0, "trimmed: begins at 0; 0 B of records were removed\n")


def test_info_of_a_log_of_nodes_has_no_table_of_segments(nodes: Here, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, nodes, "info", "orders")
    assert status == 0
    assert "segment" not in out
    assert "records/s" not in out
    assert "written by its nodes" in out


def test_metrics_of_a_node_are_asked_for_once(nodes: Here, capsys: pytest.CaptureFixture[str]) -> None:
    carrier = nodes.servers["a"].peers._carrier
    assert carrier is not None
    begun = carrier.begun
    assert main(["metrics", "--node", nodes.places[0]]) == 0
    assert carrier.begun == begun + 1
    assert "rtmw_log_committed" in capsys.readouterr().out
    assert main(["metrics", "--node", "127.0.0.1:1"]) == 1
    assert "the node at 127.0.0.1:1 is not reached" in capsys.readouterr().err


def test_of_several_places_an_operator_asks_the_first_that_is_reached(
    nodes: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, there = "127.0.0.1:1", nodes.places[1]
    assert main(["log", "list", "--node", f"{gone},{there}"]) == 0
    assert "Logs of node b" in capsys.readouterr().out
    for command in (["log", "status", "orders"], ["metrics"]):
        assert main([*command, "--node", f"{gone},{there}"]) == 0, command
    capsys.readouterr()
    assert main(["node", "doctor", "--node", f"{gone},{there}", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["node"] == f"{gone},{there}"
    assert main(["log", "status", "orders", "--node", f"{gone},127.0.0.1:2"]) == 1
    told = capsys.readouterr().err
    assert f"none of the nodes at {gone}, 127.0.0.1:2 has answered: {gone}: " in told
    assert "; 127.0.0.1:2: " in told


@pytest.mark.parametrize("command", ["status", "tail"])
def test_what_is_no_place_is_told_before_anybody_is_asked(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["log", command, "orders", "--node", "127.0.0.1:1,hub"])
    assert "'hub' is not HOST:PORT" in capsys.readouterr().err


def test_status_says_from_where_to_where_the_positions_of_the_records_go(
    nodes: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(run(capsys, nodes, "status", "trimmed", "--json")[1])
    words = f"positions {found['earliest']} to {found['committed']}, checkpoint"
    assert words in run(capsys, nodes, "status", "trimmed")[1]


def test_the_logs_of_a_node_are_listed(nodes: Here, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["log", "list", "--node", nodes.places[0]])
    out = capsys.readouterr().out
    assert (status, out.splitlines()[0]) == (0, "Logs of node a")
    assert [line.split()[0] for line in out.splitlines()[2:]] == ["orders", "stored", "trimmed"]


def test_a_folder_is_at_no_node(nodes: Here, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, nodes, "store", "pumps", "-o", "x")
    assert (status, err) == (1, "rtmw: x is a folder, which no node keeps; --log NAME is a log of the node\n")


@pytest.mark.parametrize("command", [["check"], ["salvage", "-o", "x"]])
def test_what_only_files_can_tell_is_said_in_a_sentence(
    command: list[str], nodes: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, nodes, command[0], "orders", *command[1:])
    assert (status, out) == (1, "")
    assert "reads the files of one copy: run it on the host of a node, for its folder data/logs/orders" in err


# Proves G376.
def test_a_log_or_node_that_is_not_there_is_said_in_a_sentence(
    nodes: Here, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, err = run(capsys, nodes, "tail", "nothing")
    assert (status, "has no log 'nothing'" in err) == (1, True)
    assert run(capsys, nodes, "tail", "a/logs/orders")[2].startswith("rtmw: the name of the log: it is 'a/logs")
    monkeypatch.setattr(log_command, "PATIENCE_S", 0.3)
    place = f"127.0.0.1:{free_ports(1)[0]}"
    for command in (["tail", "orders"], ["append", "orders", "x"], ["info", "orders"]):
        assert main(["log", *command, "--node", place]) == 1
        err = capsys.readouterr().err
        assert err.startswith("rtmw: log orders: no node of it was reached within 0.")
        assert f"{place}: Connect call failed" in err


def test_a_program_without_the_right_is_told_which_rule_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Here(tmp_path, "a", rest=RULE) as closed:
        closed.create("orders")
        status, _, err = run(capsys, closed, "append", "orders", "x")
        assert (status, 'a rule that allows it has append = ["orders"]' in err) == (1, True)


# Proves G376.
def test_tail_follows_over_a_switch_until_ctrl_c(nodes: Here, spawn: Spawn) -> None:
    place = ",".join(nodes.places)
    child = spawn(f"""
        import sys
        from rtmw.cli import main
        sys.exit(main(["log", "tail", "orders", "-n", "1", "--follow", "--json", "--node", {place!r}]))
    """)
    child.line()
    with rtmw.Log.connect("orders", nodes=nodes.places) as log:
        log.append(b"before", key="before")
        assert json.loads(child.line())["key"] == "before"
        master = nodes.master("orders", "a")
        nodes.stop(master)
        try:
            log.append(b"after", key="after")
            assert json.loads(child.line())["key"] == "after"
        finally:
            nodes.start(master)
    child.signal(signal.SIGINT)
    assert child.wait(20) == 130


# Proves G376.
def test_topics_are_stored_at_nodes_once_over_a_switch_and_replayed_from_there(
    nodes: Here, domain: rtmw.Domain, capsys: pytest.CaptureFixture[str]
) -> None:
    place, sent = ",".join(nodes.places), [b"%d" % number for number in range(3000)]
    reliable: dict[str, Any] = {"domain": domain, "reliability": rtmw.Reliability.RELIABLE}
    with (
        rtmw.Publisher("pumps", max_blocking=LONG_S, **reliable) as pumps,
        starting("log", "store", "pumps", "--log", "stored", "--node", place, said="storing") as start,
    ):
        process = start()
        for one in sent[:1500]:
            pumps.publish(one)
        master = until(lambda: nodes.status("stored", "a")["master"])
        stopping = threading.Thread(target=nodes.stop, args=[master])
        stopping.start()
        for one in sent[1500:]:
            pumps.publish(one)
        stopping.join()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LONG_S)
        nodes.start(master)
        assert (process.returncode, out[:20], err) == (0, "stored 3000 messages", "")
    assert values(nodes, "stored") == sent
    with rtmw.Subscriber("again", depth=4000, **reliable) as again:
        status = main(["log", "replay", "stored", "--node", place, "--topic", "again", "--rate", "max"])
        assert (status, [again.receive(timeout=1).data.tobytes() for _ in sent]) == (0, sent)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["o/b", "--members", "a"], "rtmw: the name of the log: it is 'o/b'; it must have"),
        (["o", "--members", "a,,b"], "rtmw: a member: it is ''; it must be a text"),
        (["o", "--members", "a"], "min_insync is 2, and the log has 1 member; give 1, as --min-insync 1"),
        (["o", "--members", "a,b,c", "--lag", "0.1"], "give at least"),
    ],
)
def test_what_a_log_cannot_be_made_of_is_said_of_its_option(
    nodes: Here, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["log", "create", *arguments, "--node", nodes.places[0]]) == 1
    assert words in capsys.readouterr().err


def test_a_limit_of_nothing_is_no_limit_and_refused(nodes: Here, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--age", "--bytes"):
        with pytest.raises(SystemExit):
            main(["log", "create", "o", "--members", "a", option, "0", "--node", nodes.places[0]])
        assert "above 0" in capsys.readouterr().err


def test_the_folder_of_a_node_is_said_to_be_a_copy(nodes: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "info", str(nodes.folder / "a" / "logs" / "orders")]) == 0
    assert "written by the nodes of a replicated log, of which it is a copy" in capsys.readouterr().out
