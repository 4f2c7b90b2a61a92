"""Sizes and times as people write them, and topics by name or pattern."""

from __future__ import annotations

import pytest

from rtmw.text.patterns import is_among, is_meant, is_own, is_pattern
from rtmw.text.units import seconds_of, size_of, some_bytes, some_seconds


@pytest.mark.parametrize(
    ("written", "size"),
    [(0, 0), (1000, 1000), ("17", 17), ("512K", 512 << 10), ("64M", 64 << 20), ("64 MiB", 64 << 20), ("2gb", 2 << 30)],
)
def test_a_size_is_bytes_with_units_of_1024(written: int | str, size: int) -> None:
    assert size_of(written) == size


@pytest.mark.parametrize("written", ["", "M", "-1", "1.5M", "1X", "1 2", "64MM", True, 1.5, None])
def test_what_is_no_size_is_named_with_what_would_be_one(written: int | str) -> None:
    with pytest.raises(ValueError, match=r"is not a size; write bytes as a number, or as '512K', '64M', '2G'"):
        size_of(written)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (0, 0.0), (2, 2.0), (0.25, 0.25), (1e-7, 1e-7), ("0.5", 0.5), (".5", 0.5), ("250us", 250e-6), ("250µs", 250e-6),
        ("500ms", 0.5), ("30 s", 30.0), ("1.5min", 90.0), ("2h", 7200.0), ("7d", 604800.0),
    ],
)  # fmt: skip
def test_a_time_is_seconds_or_has_its_unit(written: float | str, seconds: float) -> None:
    assert seconds_of(written) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("written", ["", "s", "-1", "1 m", "1M", "nan", "inf", "1e", "0x10", True, None])
def test_what_is_no_time_is_named_with_what_would_be_one(written: float | str) -> None:
    with pytest.raises(ValueError, match=r"is not a time; write seconds as a number, or as '500ms'"):
        seconds_of(written)


def test_where_none_is_not_enough_0_is_refused() -> None:
    assert (some_bytes("1K"), some_seconds("1ms")) == (1024, 0.001)
    with pytest.raises(ValueError, match="'0K' is not a size above 0"):
        some_bytes("0K")
    for written in ("0ms", "1e999"):
        with pytest.raises(ValueError, match=f"'{written}' is not a time above 0"):
            some_seconds(written)


def test_a_topic_is_meant_by_its_name_and_by_patterns() -> None:
    assert is_meant("pump/speed", "pump/*")
    assert is_meant("a[1]", "a[1]"), "a name that looks like a pattern means itself, too"
    assert is_meant("a1", "a[1]")
    assert not is_meant("Pump", "pump")
    assert is_among("pump/speed", ("river/*", "pump/s?eed"))
    assert [name for name in ("a", "a*", "a?", "a[1]") if is_pattern(name)] == ["a*", "a?", "a[1]"]
    assert is_own("rtmw/node")
    assert not is_own("rtmw")
