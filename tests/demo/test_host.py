"""`rtmw.demo.host`: readings of the machine that runs the tests."""

from __future__ import annotations

import itertools
import os
import time
from types import SimpleNamespace

import psutil
import pytest

from rtmw.demo import host
from tests.clocks import Moved

TICK_S = 2 / os.sysconf("SC_CLK_TCK")
"""Processor times of the kernel are right to a tick, at either end."""


def busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def test_processor_load_lies_between_0_and_100_and_sees_work() -> None:
    meter = host.CpuMeter()
    meter.read()
    busy(0.4)
    reading = meter.read()
    assert 0 < reading.percent <= 100
    assert len(reading.cores) == psutil.cpu_count()
    assert all(0 <= core <= 100 for core in reading.cores)
    assert reading.context_switches > 0


def test_a_reading_that_comes_late_has_the_load_since_the_one_before() -> None:
    clock = Moved()
    meter = host.CpuMeter(clock)
    meter.read()
    busy(0.2)
    clock.pass_by(2 * host.WINDOW_S)
    assert meter.read().percent > 0


def test_the_share_of_a_kind_of_work_is_its_part_of_the_time_of_all_cores() -> None:
    class Times(tuple[float, ...]):
        user = property(lambda self: self[0])
        idle = property(lambda self: self[1])

    before, after = [Times((0.0, 0.0)), Times((5.0, 5.0))], [Times((3.0, 1.0)), Times((5.0, 9.0))]
    assert host.share(before, after, ("user",)) == pytest.approx(37.5)
    assert host.share(before, before, ("user",)) == 0.0


def test_memory_adds_up() -> None:
    reading = host.memory()
    assert 0 < reading.available <= reading.total
    assert reading.used <= reading.total


def test_disks_are_those_that_did_something() -> None:
    assert all(disk.reads or disk.writes for disk in host.disks())


def test_a_machine_without_disks_gives_no_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "psutil", SimpleNamespace(disk_io_counters=lambda perdisk: None))
    assert host.disks() == []


def test_every_network_interface_is_read() -> None:
    assert {network.link for network in host.networks()} == set(psutil.net_io_counters(pernic=True))


def test_the_process_table_goes_round_and_finds_this_process_and_its_load() -> None:
    rows = host.process_table()
    first = next(row for row in itertools.islice(rows, 20000) if row.pid == os.getpid())
    began = time.process_time()
    busy(0.3)
    spent = time.process_time() - began  # less than 0.3 s on a machine that has more to do
    second = next(row for row in itertools.islice(rows, 20000) if row.pid == os.getpid())
    assert first.cpu_percent == 0
    assert second.cpu_percent > 0
    assert second.cpu_seconds >= first.cpu_seconds + spent - TICK_S
    assert second.resident_bytes > 1 << 20


def test_readings_can_be_published() -> None:
    for reading in (host.CpuMeter().read(), host.memory(), *host.disks(), *host.networks()):
        assert type(reading).deserialize(reading.serialize()).host == host.HOST
