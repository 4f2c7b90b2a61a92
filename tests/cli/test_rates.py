"""`rtmw topic hz|bw`: rates from counter readings."""

from __future__ import annotations

import pytest

from rtmw.cli.terminal import as_text
from rtmw.cli.topic import Meter, bw_table, hz_table
from tests.cli.views import topic


def test_the_first_reading_of_a_topic_starts_its_window_and_gives_no_rate() -> None:
    meter = Meter()
    assert meter.read([topic(published=1000)], now_s=5.0) == []
    (rate,) = meter.read([topic(published=1100), topic("new", 7)], now_s=6.0)
    assert (rate.topic, rate.hz, rate.windows) == ("pump/speed", 100.0, 1)


def test_rates_are_divided_by_the_time_that_really_passed() -> None:
    meter = Meter()
    meter.read([topic(published=0)], now_s=1.0)
    (rate,) = meter.read([topic(published=100)], now_s=3.5)
    assert rate.window_s == 2.5
    assert rate.hz == pytest.approx(40.0)
    assert rate.bytes_per_s == pytest.approx(400.0)
    assert rate.mean_size == pytest.approx(10.0)


def test_the_extremes_are_kept_over_the_windows() -> None:
    meter = Meter()
    for second, published in enumerate((0, 100, 150, 350)):
        found = meter.read([topic(published=published)], now_s=float(second))
    assert (found[0].hz, found[0].hz_min, found[0].hz_max, found[0].windows) == (200.0, 50.0, 200.0, 3)
    assert (found[0].bytes_per_s_min, found[0].bytes_per_s_max) == (500.0, 2000.0)


def test_a_silent_topic_has_rate_0_and_no_mean_size() -> None:
    meter = Meter()
    meter.read([topic()], now_s=0.0)
    (rate,) = meter.read([topic()], now_s=1.0)
    assert (rate.hz, rate.mean_size) == (0.0, 0.0)


def test_the_tables_show_the_rate_and_its_extremes() -> None:
    meter = Meter()
    for second, published in enumerate((0, 100, 150)):
        rates = meter.read([topic(published=published)], now_s=float(second))
    assert as_text(hz_table(rates)).splitlines()[1].split() == ["pump/speed", "50", "50", "100", "2"]
    assert "500 B/s" in as_text(bw_table(rates))
