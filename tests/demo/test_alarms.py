"""`rtmw.demo.programs`: when an alarm is raised."""

from __future__ import annotations

from rtmw.demo.programs import BusiestAlarm, LoadAlarm
from rtmw.demo.topics.telemetry import Alarm, Cpu, Process, Severity


def loads(alarm: LoadAlarm, *percents: float) -> list[Alarm]:
    return [found for percent in percents if (found := alarm.check(Cpu(host="h", percent=percent)))]


def test_load_well_above_its_mean_is_one_alarm_however_long_it_lasts() -> None:
    (found,) = loads(LoadAlarm(), 20.0, 20.0, 80.0, 85.0, 90.0)
    assert (found.source, found.severity, found.value) == ("cpu", Severity.WARNING, 80.0)
    assert 29 < found.threshold < 31
    assert "80 %" in found.text


def test_load_that_came_back_to_its_mean_raises_again() -> None:
    assert len(loads(LoadAlarm(), 20.0, 80.0, 10.0, 80.0)) == 2


def test_load_just_above_its_mean_is_no_alarm() -> None:
    assert loads(LoadAlarm(), 20.0, 25.0, 29.0) == []


def test_another_busiest_process_is_an_alarm_and_the_same_again_is_not() -> None:
    alarm = BusiestAlarm()
    rows = [(1, 0.0), (2, 5.0), (2, 9.0), (3, 8.0), (3, 40.0), (2, 39.0)]
    found = [alarm.check(Process(host="h", pid=pid, name=f"p{pid}", cpu_percent=percent)) for pid, percent in rows]
    assert [item is not None for item in found] == [False, True, False, False, True, False]
    assert found[4] is not None
    assert (found[4].value, found[4].threshold) == (40.0, 9.0)
    assert "p3 (pid 3)" in found[4].text


def test_idle_processes_are_never_the_busiest() -> None:
    alarm = BusiestAlarm()
    assert alarm.check(Process(host="h", pid=1, cpu_percent=0.5)) is None
