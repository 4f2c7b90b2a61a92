"""`rtmw graph` across hosts: nodes tell each other who publishes and subscribes there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import rtmw
from rtmw import observe
from rtmw.cli.graph import across
from rtmw.cli.node_status import node_status
from tests.child import Spawn
from tests.net.hosts import PATIENCE, Host, wait_until
from tests.net.test_mismatches_shown import PLAIN, Level
from topics.river import Reading

Seen = set[tuple[str, int, str, bool]]


def seen(host: Host) -> Seen:
    """Host, process, topic and direction of each edge of the graph that is of this test."""
    found = {(edge.process.host, edge.process.pid, edge.topic, edge.publishes) for edge in observed(host).edges}
    return {edge for edge in found if edge[1] == os.getpid()}


def wait_for(host: Host, wanted: Seen) -> None:
    try:
        wait_until(lambda: seen(host) == wanted, f"{wanted} is not what the graph shows")
    except AssertionError as error:
        error.add_note(f"it shows {seen(host)}; told: {node_status(host.number).elsewhere}")
        raise


def observed(host: Host) -> observe.Graph:
    return across(observe.topics(host.domain), node_status(host.number))


# Proves P12.
def test_programs_on_another_host_are_in_the_graph_while_they_publish_or_subscribe(pair: tuple[Host, Host]) -> None:
    here, there = pair
    pid, elsewhere = os.getpid(), f"domain {there.number}"
    publisher = rtmw.Publisher("river/a", Reading, domain=here.domain)
    subscriber = rtmw.Subscriber("river/a", Reading, domain=there.domain)
    both = {("", pid, "river/a", True), (elsewhere, pid, "river/a", False)}
    wait_for(here, both)
    wait_until(lambda: observed(here).crossing == {"river/a"}, "the topic is not shown as one that crosses")
    subscriber.close()
    wait_for(here, both - {(elsewhere, pid, "river/a", False)})
    publisher.close()


def test_what_a_program_was_told_does_not_leave_its_host(pair: tuple[Host, Host], tmp_path: Path) -> None:
    here, there = pair
    script = tmp_path / "pump.py"
    publisher = f"rtmw.Publisher('t', domain=rtmw.Domain({here.number}))"
    script.write_text(f"import rtmw\nwith {publisher}:\n    print(flush=True)\n    input()\n")
    command = [sys.executable, str(script), "--password", "hunter2"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as pump:
        assert pump.stdout is not None
        pump.stdout.readline()

        def told() -> list[str]:
            return [one["program"] for one in there.info()["elsewhere"] if one["pid"] == pump.pid]

        wait_until(lambda: bool(told()), "the program is not told of")
        assert told() == ["pump.py"]
        pump.communicate(b"\n")


# Proves P12.
def test_programs_of_a_node_that_dies_are_gone_from_the_graph(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    here.start("--lease", "2")
    there.start("--lease", "2")
    with rtmw.Publisher("t", domain=there.domain):
        wait_until(lambda: len(seen(here)) == 1, "the publisher of the other host is not in the graph")
        there.kill()
        wait_for(here, set())


def test_what_the_patterns_of_either_host_keep_back_is_not_in_the_graph(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    here.start("--topics-in", "open/*", "own/*")
    there.start("--topics-out", "open/*", "far/*")
    publishers = [rtmw.Publisher(name, domain=there.domain) for name in ("own/a", "far/a", "open/a")]
    elsewhere = f"domain {there.number}"
    wait_for(here, {(elsewhere, os.getpid(), "open/a", True)})
    assert len(publishers) == 3


def test_a_plain_dds_program_is_in_the_graph(hosts: tuple[Host, Host], domain_id: int, spawn: Spawn) -> None:
    host = hosts[0]
    host.start()
    with rtmw.Publisher("level", Level, domain=host.domain, reliability=rtmw.Reliability.RELIABLE):
        child = spawn(PLAIN.format(dds_domain=host.dds_domain, kind="int32", endpoint="DataReader"))
        assert child.line(PATIENCE) == "ready"
        wait_until(lambda: child.pid in {process.pid for process in observed(host).processes}, "it is not in the graph")
        wait_until(lambda: observed(host).crossing == {"level"}, "the topic is not shown as one that crosses")
