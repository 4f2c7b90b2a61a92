"""Three nodes of one host by the three files of docs/replication.md, and what their operator is told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

import rtmw
from rtmw.clock import CLOCK
from rtmw.errors import LogError, RtmwError
from rtmw.replica.operating import ask_node
from tests.ports import free_ports

PAGE = (Path(__file__).parents[2] / "docs" / "replication.md").read_text()
FILE = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
NAMES = "abc"


class Cluster:
    """`rtmw node --config a.toml`, and so on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = dict(zip(NAMES, free_ports(3), strict=True))
        self.nodes = dict[str, subprocess.Popen[bytes]]()
        for name in NAMES:
            (folder / name).mkdir()
            self.file(name).write_text(self._settings(name))
            self.start(name)

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.toml"

    def _settings(self, name: str) -> str:
        """That of the page, with other ports."""
        others = [f"127.0.0.1:{port}" for other, port in self.ports.items() if other != name]
        text = FILE.replace('"a"', f'"{name}"').replace("127.0.0.1:7501", f"127.0.0.1:{self.ports[name]}")
        return re.sub(r"connect = .*", f"connect = {json.dumps(others)}", text)

    def start(self, name: str) -> None:
        with open(self.folder / f"{name}.out", "ab") as out:
            command = [sys.executable, "-m", "rtmw", "node", "--config", str(self.file(name))]
            self.nodes[name] = subprocess.Popen(command, stdout=out, stderr=out)

    def rtmw(self, node: str, *arguments: str, of: str = "log") -> tuple[int, str]:
        """Status and output of `rtmw log …`, which asks this node."""
        command = [sys.executable, "-m", "rtmw", *of.split(), *arguments, "--node", f"127.0.0.1:{self.ports[node]}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def until(self, met: Callable[[], Any], seconds: float = 40.0) -> Any:
        end = CLOCK.monotonic() + seconds
        while not (found := met()):
            told = {name: (self.folder / f"{name}.out").read_text() for name in NAMES}
            assert CLOCK.monotonic() < end, f"not within {seconds} s: {told}"
            time.sleep(0.05)
        return found

    def ask(self, node: str, **question: Any) -> dict[str, Any]:
        """As these commands do it; LogError, SessionError."""
        return ask_node(f"127.0.0.1:{self.ports[node]}", **question)

    def status(self, node: str) -> dict[str, Any]:
        """Empty while there is none."""
        with suppress(RtmwError):
            return self.ask(node, ask="status", name="orders")
        return {}

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("three"))
    try:
        code, told = made.rtmw("a", "create", "orders", "--members", "a,b,c")  # at once, as the page has it
        assert (code, "; master " in told) == (0, True), told
        yield made
    finally:
        for node in made.nodes.values():
            node.terminate()
        for node in made.nodes.values():
            node.wait(30)


def test_three_files_make_a_log_and_its_status_has_what_programs_need(cluster: Cluster) -> None:
    status = cluster.until(lambda: (told := cluster.status("b")) and told["master"] and told)
    assert (status["members"], status["in_sync"]) == ([*NAMES], [*NAMES])
    assert (status["checkpoint"], status["committed"]) == (0, 0)
    assert status["epoch"] >= 1, "a busy machine may have had a switch"
    assert any("on this host and its disk alone" in words for words in status["words"])
    code, told = cluster.rtmw("c", "status", "orders")
    assert code == 0
    assert re.search(r"orders: master [abc], epoch \d+", told)
    assert "carries no domain" in cluster.said("a")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"name": "orders", "members": ["a", "b"]}, "there is a log orders already"),
        ({"members": ["a", "b", "d"]}, "node a has no session with node d"),
        ({"members": ["a", "a"]}, "members are a, a; name each node once"),
        ({"members": ["a", "b"], "settings": {"min_insync": 3}}, "min_insync is 3, and the log has 2 members"),
        ({"members": ["a", "b"], "settings": {"lag": "long"}}, "lag is 'long'; give"),
        ({"name": "../x", "members": ["a"]}, "letters, digits"),
        ({"members": 7}, "this is no question that node a knows"),
        ({"ask": "status", "name": "nothing"}, "node a has no log 'nothing': it has orders"),
        ({"ask": "prepare"}, "node a does not know how to 'prepare'"),
    ],
)
# Proves G368.
def test_what_cannot_be_is_refused_in_words(cluster: Cluster, asked: dict[str, Any], words: str) -> None:
    create: dict[str, Any] = {"ask": "create", "name": "x", "members": [*NAMES], "description": "", "settings": {}}
    given: dict[str, Any] = asked if asked.get("ask") == "status" else create | asked
    with pytest.raises(LogError) as error:
        cluster.ask("a", **given)
    assert words in str(error.value)


def test_a_node_that_is_not_there_is_said() -> None:
    command = [sys.executable, "-m", "rtmw", "log", "status", "orders", "--node", f"127.0.0.1:{free_ports(1)[0]}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "is not reached" in done.stderr


# Proves G368.
def test_a_master_that_is_told_to_end_hands_over_and_comes_back_as_a_slave(cluster: Cluster) -> None:
    before = cluster.until(lambda: (told := cluster.status("a")) and told["master"] and told)
    master = before["master"]
    other = next(name for name in NAMES if name != master)
    cluster.nodes[master].send_signal(signal.SIGTERM)
    assert cluster.nodes[master].wait(30) == 0
    after = cluster.until(lambda: (told := cluster.status(other)) and told["master"] not in ("", master) and told)
    assert after["epoch"] > before["epoch"]
    assert f"{master} hands over" in "".join(map(cluster.said, NAMES))
    cluster.start(master)
    back = cluster.until(lambda: (told := cluster.status(master)) and len(told["in_sync"]) == 3 and told)
    assert back["master"] == after["master"]


def figures(text: str) -> dict[str, float]:
    """By name and member: one log, one node."""
    families = text_string_to_metric_families(text)
    samples = [sample for family in families for sample in family.samples]
    return {" ".join(filter(None, [one.name, one.labels.get("member")])): one.value for one in samples}


# Proves G374.
def test_metrics_and_doctor_of_a_node_without_a_domain_have_its_logs(cluster: Cluster) -> None:
    """What they show of a member that stands still, and of one that has the others again."""
    master = cluster.until(lambda: len((told := cluster.status("a")).get("in_sync", ())) == 3 and told["master"])
    code, told = cluster.rtmw(master, of="metrics")
    shown = figures(told)
    assert code == 0
    assert [shown[f"rtmw_log_{one}"] for one in ("is_master", "has_master", "in_sync", "members")] == [1, 1, 3, 3]
    still = next(name for name in NAMES if name != master)
    cluster.nodes[still].send_signal(signal.SIGSTOP)
    (service,) = (one.pid for one in psutil.Process(cluster.nodes[still].pid).children())
    os.kill(service, signal.SIGSTOP)
    try:
        with rtmw.Log.connect("orders", nodes=[f"127.0.0.1:{cluster.ports[master]}"]) as log:
            log.append(b"x" * 1000)
        cluster.until(lambda: len(cluster.status(master)["in_sync"]) == 2)
        lagging = figures(cluster.rtmw(master, of="metrics")[1])
        assert lagging["rtmw_log_in_sync"] == 2
        assert lagging[f"rtmw_log_lag_bytes {still}"] >= 1000
        assert lagging[f"rtmw_log_lag_seconds {still}"] > 1
        assert (lagging[f"rtmw_log_member_in_sync {still}"], lagging[f"rtmw_log_member_in_sync {master}"]) == (0, 1)
        code, told = cluster.rtmw(master, of="node doctor")
        assert (code, f"{still} not in sync: new records are on 2 of 3" in told) == (1, True)
        assert f"see why {still} is away or behind" in told
        code, told = cluster.rtmw(still, of="metrics")
        assert (code, told.startswith("rtmw: the node at 127.0.0.1")) == (1, True)
    finally:
        for pid in (service, cluster.nodes[still].pid):
            os.kill(pid, signal.SIGCONT)
    cluster.until(lambda: len(cluster.status("a")["in_sync"]) == 3)
    assert cluster.rtmw(still, of="node doctor")[0] == 0


def test_settings_are_read_again_and_a_mistake_leaves_them_as_they_are(cluster: Cluster) -> None:
    text = cluster.file("a").read_text()
    cluster.file("a").write_text(text.replace("[control]", "lag = 'long'\n[control]"))
    os.kill(cluster.nodes["a"].pid, signal.SIGHUP)
    cluster.until(lambda: "the settings stay as they are" in cluster.said("a"))
    cluster.file("a").write_text(text)
    os.kill(cluster.nodes["a"].pid, signal.SIGHUP)
    cluster.until(lambda: "service log: settings read again" in cluster.said("a"))
