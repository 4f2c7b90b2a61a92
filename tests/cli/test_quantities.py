"""Numbers and times on the command line: what is none is told in words, with what would be one."""

from __future__ import annotations

import pytest

from rtmw.cli import main
from rtmw.cli.command import build_parser

TIME = "is not a time; write seconds as a number, or as '500ms', '10min', '2h', '7d'"
MOMENT = "is no moment: seconds, 10min, or 2026-01-31T12:00:00"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("plot a.b run --start x", f"x {MOMENT}"),
        ("plot a.b run --end -1", f"-1 {MOMENT}"),
        ("recording cut run -o part --start 1m", f"1m {MOMENT}"),
        ("recording export run --csv - --end 1e300", f"1e300 {MOMENT}"),
        ("replay run --spin x", f"'x' {TIME}"),
        ("replay run --max-blocking x", f"'x' {TIME}"),
        ("replay run --wait x", "x is not a whole number"),
        ("replay run --qos a:lifetime=x", f"lifetime=x is not possible: 'x' {TIME}"),
        ("replay run --qos a:reliability=x", "x is not possible; there are TIMELY, ADAPTIVE, RELIABLE"),
        ("record a -o run --keep 0", "0 is less than 1"),
        ("node --handover x", f"'x' {TIME}"),
        ("topic pub a 1 --priority x", "x is not a whole number"),
    ],
)
def test_what_is_no_number_or_time_is_told_with_what_would_be_one(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(told)


@pytest.mark.parametrize(("text", "seconds"), [("0", 0.0), ("1.5", 1.5), ("10min", 600.0)])
def test_a_section_takes_times_as_they_are_written_everywhere(text: str, seconds: float) -> None:
    for words in ("plot a.b run", "recording cut run -o part", "recording merge run -o all", "replay run"):
        arguments = build_parser().parse_args([*words.split(), "--start", text, "--end", text])
        assert (arguments.start, arguments.end) == (seconds, seconds)
