"""The bench as a program: what it would measure can be seen without any peer, and targets name what is measured."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bench.cable import NoCable, cable
from bench.cases import BY_HAND, MSGSPEC, ONE_SUBSCRIBER, RTMW, Case
from bench.domain import NUMBERS, domain
from bench.peers import LINK_TCP, LINK_TLS, LINK_TLS_NEWER, TRANSPORTS, ZENOH_SHM, ZENOH_TCP
from bench.questions import LINKS, NAMES, crowd, links, question
from bench.results import Key
from bench.stage import Failed, Part, Stage
from bench.targets import TARGETS

ROOT = Path(__file__).parents[2]


def measured(quick: bool) -> set[Key]:
    found: set[Key] = set()
    for name in NAMES:
        for case in question(name).cases(quick):
            systems = getattr(
                question(name), "SYSTEMS", (*case.systems, *case.beside)
            )  # those are measured in one play
            found |= {(name, case.name, system) for system in systems}
    return found


def test_what_would_be_measured_is_listed_without_peers_installed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--list"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines() if not line.startswith(" ")] == list(NAMES)


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
def test_every_figure_that_a_target_needs_is_measured(quick: bool) -> None:
    needed = {target.figure for target in TARGETS}
    needed |= {target.yardstick[0] for target in TARGETS if target.yardstick}
    assert needed <= measured(quick)
    assert all(set(target.over) & measured(quick) for target in TARGETS if target.over)


def test_between_hosts_no_target_is_held_against_a_way_within_one() -> None:
    held = {key[2] for target in TARGETS for key in target.over if key[0].startswith(("between_", "cable_"))}
    assert held & set(TRANSPORTS) == {ZENOH_TCP}
    assert not any(ZENOH_SHM in key for target in TARGETS for key in target.over if key[0] in LINKS)


@pytest.mark.parametrize("system", [LINK_TCP, LINK_TLS, LINK_TLS_NEWER])
def test_a_link_is_asked_for_trips_flows_and_the_processor_time_of_its_nodes(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography")
    monkeypatch.setattr("bench.carriers.newer", lambda: "libssl.so.3")  # the environment of the bench has a newer one
    case = next(case for case in question("links").cases(quick=True) if case.name == system)
    found = question("links").measure(Stage("16M"), system, Case(system, (system,), {**case.options, "seconds": 0.1}))
    assert set(found) == set(links.SYSTEMS)
    assert all(figures.value > 0 for figures in found.values())
    assert not any("lost" in figures.note for figures in found.values())
    assert found[links.CARRYING].value <= 1.2 * found[links.WHOLE].value  # the kernel counts in hundredths of a second


def test_processor_time_of_a_play_is_told_apart_by_what_its_processes_are() -> None:
    busy = "import os\nwhile sum(os.times()[:2]) < 0.3: pass\nprint(flush=True); input()"
    ask = "import json; from bench.siblings import processor_s; print(json.dumps(processor_s()))"
    commands = ([sys.executable, "-c", busy], [sys.executable, "-c", busy, "bench.role"])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    carrier, program = (subprocess.Popen(command, **pipes, text=True) for command in commands)
    with carrier, program:
        for one in (carrier, program):
            assert one.stdout
            one.stdout.readline()
        done = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, capture_output=True, text=True, check=True)
    total, carrying = json.loads(done.stdout)
    assert 30 <= round(carrying * 100) <= round(total * 100) - 30


def test_over_a_cable_messages_of_each_host_go_through_its_own_network() -> None:
    try:
        with cable() as places:
            ips = [[*place.enter, "ip", "-br", "addr"] for place in places]
            shown = [subprocess.run(words, capture_output=True, text=True, check=True).stdout for words in ips]
    except NoCable as error:
        pytest.skip(str(error))
    for place, addresses in zip(places, shown, strict=True):
        assert f"{place.address}/24" in addresses
    short = Case("64 B", (RTMW,), {"size": 64, "seconds": 0.1})
    figures = question("cable_rate").measure(Stage("8M"), RTMW, short)[RTMW]
    assert figures.value > 0
    assert "lost" not in figures.note


def test_a_publish_and_a_take_within_one_process_are_timed_by_the_pair() -> None:
    (case,) = question("within").cases(quick=True)
    short = Case(case.name, case.systems, {**case.options, "seconds": 0.01})
    figures = question("within").measure(Stage("1M"), RTMW, short)[RTMW]
    assert 0 < figures.value == figures.percentiles["p50"]


def test_each_of_the_two_topics_of_a_crowd_is_the_first_after_every_other_pause() -> None:
    order: list[str] = []
    assert crowd.group(lambda _: order.append("many"), lambda _: order.append("one")) > 0
    batches = order[:: crowd.BATCH]
    assert len(order) == 8 * crowd.BATCH
    assert batches == ["many", "one", "one", "many", "one", "many", "many", "one"]


def test_a_crowd_is_compared_with_one_subscriber_in_the_same_process() -> None:
    short = Case("8 idle", (RTMW,), {"groups": 4, "readers": 8})
    assert question("crowd").measure(Stage("8M"), RTMW, short)[RTMW].value > 0


def test_a_refused_large_publish_is_compared_with_a_refused_small_one_in_the_same_process() -> None:
    short = Case("few", (RTMW,), {"calls": 5})
    assert question("refused").measure(Stage("64M"), RTMW, short)[RTMW].value > 0


def test_two_benches_at_once_have_different_domains() -> None:
    with domain("1M") as one, domain("1M") as other:
        assert one != other
        assert {one, other} <= set(NUMBERS)


def test_a_peer_that_is_not_installed_is_said_so() -> None:
    with pytest.raises(Failed, match=r"not installed|No module"):
        Stage("1M").play("attach", RTMW, [Part("imports", {"library": "no_such_library"})])


def test_a_part_that_fails_says_how() -> None:
    with pytest.raises(Failed, match="KeyError: 'library'"):
        Stage("1M").play("attach", RTMW, [Part("imports")])


def test_typed_messages_are_measured_beside_msgspec() -> None:
    case = question("typed").cases(quick=True)[0]
    short = type(case)(case.name, case.systems, {**case.options, "turns": 1})
    figures = question("typed").measure(Stage("1M"), RTMW, short)
    assert set(figures) == {RTMW, MSGSPEC, "cyclonedds"}


def test_a_take_over_200_topics_is_measured_beside_that_of_one_subscriber() -> None:
    for case in question("pattern").cases(quick=True):
        short = type(case)(case.name, case.systems, {**case.options, "seconds": 0.01})
        for system in (RTMW, ONE_SUBSCRIBER):
            assert question("pattern").measure(Stage("8M"), system, short)[system].value > 0


def test_requests_are_measured_beside_two_topics_by_hand() -> None:
    case = question("request").cases(quick=True)[0]
    short = type(case)(case.name, case.systems, {**case.options, "seconds": 0.01})
    for system in (RTMW, BY_HAND):
        assert question("request").measure(Stage("8M"), system, short)[system].value > 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_bench_that_is_ended_takes_its_processes_and_its_domain_along(how: signal.Signals) -> None:
    command = [sys.executable, "-m", "bench", "--quick", "--questions", "round_trip", "--systems", RTMW]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bench:
        parts, regions = measuring(bench)
        bench.send_signal(how)
        assert "Interrupted." in bench.communicate(timeout=60)[1]
    assert bench.returncode == 130
    assert not any(map(Path.exists, regions))
    assert psutil.wait_procs(parts, timeout=30)[1] == []


def measuring(bench: subprocess.Popen[str]) -> tuple[list[psutil.Process], list[Path]]:
    """The processes of a measurement, and the shared memory that they have, when there is some."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        parts = psutil.Process(bench.pid).children(recursive=True)
        regions = [path for part in parts for path in regions_of(part)]
        if regions:
            return parts, regions
        time.sleep(0.01)
    raise AssertionError("nothing is measured")


def regions_of(process: psutil.Process) -> list[Path]:
    """Shared memory of rtmw that it has; none when it is over."""
    with suppress(OSError):
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        return [Path(path) for path in re.findall(r"/dev/shm/rtmw\S+", maps)]
    return []
