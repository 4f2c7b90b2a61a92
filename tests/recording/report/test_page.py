"""The page: whole by itself, well formed, and what it shows is what the recordings say."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html import escape
from pathlib import Path

import pytest

from rtmw.recording.report.build import report
from rtmw.recording.report.page import HEIGHT, STYLE, WIDTH, Line, Page, Plot, drawn, heading, moment, shown
from rtmw.recording.report.verdict import Check, Level
from tests.recording.report.made import night
from tests.recordings import BEGIN_NS, MS, SECOND, numbered


def body(page: str) -> ET.Element:
    """Fails where the page is not well formed."""
    return ET.fromstring(page[page.index("<main>") : page.index("</main>")] + "</main>")


def tables(page: str) -> dict[str, list[list[str]]]:
    """The cells of each table by the heading before it."""
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for part in body(page):
        if part.tag == "h2":
            heading = part.text or ""
        for row in part.iter("tr"):
            found.setdefault(heading, []).append(["".join(cell.itertext()) for cell in row])
    return found


def written(tmp_path: Path, **options: float) -> str:
    report(str(night(tmp_path / "a & b.mcap")), tmp_path / "report.html", **options)
    return (tmp_path / "report.html").read_text()


def test_a_report_begins_with_the_verdict_and_its_reasons(tmp_path: Path) -> None:
    first = next(part for part in body(written(tmp_path)) if part.tag not in ("h1", "p"))
    assert first.attrib["class"] == "verdict warn"
    assert "".join(first.itertext()).startswith(
        "WARN 1 of 10 checks did not passsilencewithout a message: never; silent"
    )


def test_a_report_is_one_file_that_asks_for_nothing_else(tmp_path: Path) -> None:
    page = written(tmp_path)
    assert not re.findall(r'src=|<link|<script|@import|url\(|href="(?!#)', page)


def test_a_report_shows_what_the_recording_says(tmp_path: Path) -> None:
    page = written(tmp_path, deadline=1.0)
    assert "a &amp; b.mcap, from 2023-11-14 22:13:20.001 to 2023-11-14 22:13:39.901 UTC" in page
    found = tables(page)
    assert [row[:3] for row in found["Topics"][1:]] == [
        ["breaks", "160", "7.99"], ["dies", "80", "10"], ["fine", "200", "10"],
    ]  # fmt: skip
    assert found["Dead and silent topics"][1:] == [
        ["never", "–", "–", "–", "never heard"],
        ["dies", "2023-11-14 22:13:27.900", "2023-11-14 22:13:40.000", "12.1", "until the end"],
        ["breaks", "2023-11-14 22:13:24.900", "2023-11-14 22:13:29.000", "4.1", "between two messages"],
    ]
    assert found["Latency"][1] == ["breaks", "160", *["1,000"] * 6]
    assert found["Deadline"][1] == ["breaks", "160", "1", "4.1", "3.1"]
    assert found["Types"][1] == ["breaks", "bytes", "160"]
    assert found["Files"][1][2:5] == ["plant-7", "2023-11-14 22:13:20.001", "2023-11-14 22:13:39.901"]


def test_every_section_is_in_the_list_of_contents(tmp_path: Path) -> None:
    root = body(written(tmp_path))
    links = {link.attrib["href"].removeprefix("#"): link.text for link in root.iter("a")}
    assert links == {part.attrib["id"]: part.text for part in root.iter("h2")}
    assert len(links) >= 8


def test_a_recording_without_messages_has_a_report(tmp_path: Path) -> None:
    numbered(tmp_path / "a.mcap", ["t"], 0)
    checks = report(tmp_path / "a.mcap", tmp_path / "report.html")
    assert {check.name for check in checks if check.level} == {"messages", "silence"}
    assert "Messages a second" not in (tmp_path / "report.html").read_text()


def test_a_recording_of_one_message_has_a_report(tmp_path: Path) -> None:
    numbered(tmp_path / "a.mcap", ["t"], 1)
    report(tmp_path / "a.mcap", tmp_path / "report.html")
    assert tables((tmp_path / "report.html").read_text())["Topics"][1][:3] == ["t", "1", "–"]


def test_values_are_shown_for_people_and_times_with_milliseconds() -> None:
    cells = [None, 3, 12345, 0.123456, 1234.5, 7.0, "<text>", moment(BEGIN_NS + 2 * MS)]
    assert [shown(cell) for cell in cells] == [
        "–", "3", "12,345", "0.1235", "1,234", "7", "<text>", "2023-11-14 22:13:20.002",
    ]  # fmt: skip


def test_headings_of_columns_are_words_with_units() -> None:
    assert [heading(name) for name in ("topic", "gap_p99_ms", "late_share", "p999_us", "hz", "bps")] == [
        "topic", "gap p99, ms", "late share", "p999, µs", "Hz", "bytes/s",
    ]  # fmt: skip


def test_a_page_escapes_what_it_is_told() -> None:
    page = Page("a < b", "c & d")
    page.verdict([Check("<k>", Level.FAIL, "<r>")])
    page.heading("<h>", "<p>")
    page.cards([("<1>", "<2>")])
    page.table(["<c>"], [["<v>"]])
    page.plot(Plot("<t>", [0, 1], [Line("<l>", [1, 2]), Line("<m>", [1, 2])]))
    html = page.html("<end>")
    for text in ("a < b", "c & d", "<h>", "<p>", "<1>", "<2>", "<c>", "<v>", "<end>", "<t>", "<l>", "<k>", "<r>"):
        assert escape(text) in html
        assert text not in html.replace(escape(text), "") or text in ("<h>", "<p>")
    body(html)


def test_a_label_stands_at_each_cell_for_narrow_screens() -> None:
    page = Page("", "")
    page.table(["topic", "gap_p99_ms"], [["a", 3]])
    assert [cell.attrib["data-of"] for cell in body(page.html("")).iter("td")] == ["topic", "gap p99, ms"]


def paths(plot: Plot) -> dict[str, str]:
    """What is drawn, by its class."""
    return {path.attrib["class"]: path.attrib["d"] for path in ET.fromstring(drawn(plot)).iter("path")}


def test_an_outage_has_upright_ends_and_is_zero() -> None:
    plot = Plot("t", [0, SECOND, 2 * SECOND, 3 * SECOND], [Line("t", [10, 0, 0, 10])], until_ns=4 * SECOND)
    assert paths(plot)["line s0"] == "M0.0 0.0H250.0V200.0H500.0V200.0H750.0V0.0H1000.0"
    assert (WIDTH, HEIGHT) == (1000, 200)


def test_intervals_that_are_not_whole_are_dotted_with_a_circle() -> None:
    line = Line("t", [5, 10, 10, 2.5])
    plot = Plot("t", [0, SECOND, 2 * SECOND, 3 * SECOND], [line], partial=frozenset({0, 3}), until_ns=4 * SECOND)
    found = paths(plot)
    assert found["dotted s0"] == "M0.0 100.0H250.0M750.0 150.0H1000.0"
    assert found["ring s0"] == found["hole"] == "M125.0 100.0h0M875.0 150.0h0"
    assert found["line s0"] == "M250.0 0.0H500.0V0.0H750.0"


def test_a_line_is_interrupted_where_there_is_no_value_and_a_lonely_point_is_a_dot() -> None:
    found = paths(Plot("t", [0, 1, 2, 3, 4], [Line("t", [10, 10, None, 5, None])]))
    assert found["line s0"] == "M0.0 0.0L250.0 0.0M750.0 100.0"
    assert found["dots s0"] == "M750.0 100.0h0"


@pytest.mark.parametrize(
    ("values", "unit", "logarithmic", "labels"),
    [
        ([0, 1000], "", False, ["0", "500", "1k"]),
        ([0, 3.7], "", False, ["0", "1", "2", "3", "4"]),
        ([0.0], "", False, ["0", "0.5", "1"]),
        ([-3, 2], "", False, ["-4", "-2", "0", "2"]),
        ([0, 600 * 1024], "bytes/s", False, ["0", "200.0 KiB/s", "400.0 KiB/s", "600.0 KiB/s"]),
        ([2e-5, 0.09], "s", True, ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]),
        ([0.0, -1.0], "s", True, ["1 s", "10 s"]),
    ],
)
def test_the_axis_has_even_numbers(values: list[float], unit: str, logarithmic: bool, labels: list[str]) -> None:
    figure = ET.fromstring(drawn(Plot("", [*range(len(values))], [Line("", values)], unit, logarithmic=logarithmic)))
    assert [span.text for span in figure.iter("span") if span.attrib.get("class") == "y"] == labels


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (0.004, ["13:20.000", "13:20.001", "13:20.002", "13:20.003", "13:20.004"]),
        (120, ["22:13:30", "22:14:00", "22:14:30", "22:15:00"]),
        (86400, ["11-15", "06:00", "12:00", "18:00"]),
        (86400 * 4, ["11-15", "11-16", "11-17", "11-18"]),
    ],
)
def test_times_have_the_digits_that_tell_them_apart(seconds: float, labels: list[str]) -> None:
    figure = ET.fromstring(drawn(Plot("", [BEGIN_NS, BEGIN_NS + round(seconds * SECOND)], [Line("", [1, 1])])))
    assert [span.text for span in figure.iter("span") if span.attrib["class"].startswith("x")] == labels


def test_a_plot_without_a_value_says_so() -> None:
    assert "There is nothing to show." in drawn(Plot("t", [0], [Line("t", [None])]))


def test_a_report_draws_an_outage_at_zero_and_marks_the_interval_in_which_the_recording_ended(tmp_path: Path) -> None:
    figures = body(written(tmp_path, every=1.0)).iter("figure")
    rate = next(one for one in figures if one.findtext("figcaption") == "breaks")
    found = {path.attrib["class"]: path.attrib["d"] for path in rate.iter("path")}
    bounds = [f"{WIDTH * second / 21:.1f}" for second in range(22)]
    outage = "".join(f"V200.0H{bounds[second + 1]}" for second in range(5, 9))
    assert f"H{bounds[5]}{outage}V0.0" in found["line s0"]
    assert found["dotted s0"] == f"M{bounds[20]} 200.0H{bounds[21]}"
    assert found["ring s0"].count("M") == 1


def test_the_last_time_of_a_plot_fits_into_its_box() -> None:
    """Or the box of each plot gets a bar to scroll it by."""
    margin = re.search(r"\.plot \{[^}]*margin: \d+px (\d+)px", STYLE)
    padding = re.search(r"figure \{[^}]*padding: \d+px (\d+)px", STYLE)
    assert margin is not None
    assert padding is not None
    assert int(margin[1]) + int(padding[1]) > len("22:13:40") * 7 / 2  # its middle lies at the end of the plot
