"""`rtmw plot`: charts in the terminal, and pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from rtmw.cli import main
from rtmw.cli.plot import Canvas, chart
from tests.spark.plant import Phase, Plant, speed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    plant = Plant(tmp_path / "a.mcap")
    plant.put("pump/1", range(100), speed)
    return plant.close()


def test_a_canvas_has_eight_dots_a_character() -> None:
    canvas = Canvas(2, 1)
    canvas.line([(0.0, 0.0), (1.0, 1.0)])
    assert canvas.lines() == ["⡠⠊"]
    canvas = Canvas(2, 1)
    canvas.line([(0.0, 0.0), None, (1.0, 0.0)])
    assert canvas.lines() == ["⡀⢀"]


def test_a_chart_has_the_range_of_values_and_of_times() -> None:
    rows = chart([0, 1, 2], [5, 10, 5], (24, 4), ("begin", "end"))
    assert [row.split(" ")[0] or row.split()[0] for row in (rows[0], rows[2])] == ["10", "5"]
    assert rows[-1].split() == ["begin", "end"]
    assert all(len(row) <= 24 for row in rows)


@pytest.mark.parametrize("ys", [[], [float("nan")], [3.0], [float("inf"), 1.0]])
def test_a_chart_of_hardly_anything_is_possible(ys: list[float]) -> None:
    assert len(chart([float(at) for at in range(len(ys))], ys, (20, 4), ("a", "b"))) == 4


def test_each_member_gets_its_chart(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "pump/1.rpm", "pump/1.pump", str(path)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if "values" in line] == ["pump/1.rpm, 100 values", "pump/1.pump, 100 values"]


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_a_picture_is_written_by_its_name(path: Path, tmp_path: Path, suffix: str, magic: bytes) -> None:
    target = tmp_path / f"picture{suffix}"
    for _ in range(2):  # the second replaces the first
        assert main(["plot", "pump/1.rpm", str(path), "-o", str(target)]) == 0
    assert target.read_bytes().startswith(magic)
    if suffix == ".svg":
        ET.parse(target)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.mcap", target.name]


def test_an_enumeration_is_plotted_by_the_names_of_its_values(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", "pump/1.state", str(path)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "pump/1.state, 100 values"
    named = [line.split()[0] for line in told[1:-1] if line[:1].strip() or line.strip().split()[0].isalpha()]
    assert sorted(named) == sorted({speed(number).state.name for number in range(100)})
    target = tmp_path / "states.svg"
    assert main(["plot", "pump/1.state", str(path), "-o", str(target)]) == 0
    for name in named:
        assert f"<!-- {name} -->" in target.read_text()


def test_texts_are_plotted_by_name_up_to_as_many_as_an_axis_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant = Plant(tmp_path / "texts.mcap")
    plant.put("few", range(40), lambda number: Phase(f"phase\x1b{number % 3}$x^$"))
    plant.put("many", range(40), lambda number: Phase(f"phase {number}"))
    path = str(plant.close())
    assert main(["plot", "few.name", path, "-o", str(tmp_path / "few.png")]) == 0
    assert main(["plot", "few.name", path]) == 0
    told = capsys.readouterr().out
    assert r"phase\x1b0$x^$" in told
    assert "\x1b" not in told
    assert main(["plot", "many.name", path]) == 1
    assert "many.name has 40 different texts; an axis shows 20 at most" in capsys.readouterr().err


def test_what_cannot_be_plotted_is_said(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "pump/1.speed", str(path)]) == 1
    assert "pump/1.speed is no number and no text of pump/1; there are pump/1." in capsys.readouterr().err
    assert main(["plot", "pump/1.rpm", str(path), "-o", str(tmp_path / "a.gif")]) == 1
    assert "its name must end in .png, .svg, .pdf" in capsys.readouterr().err
    assert main(["plot", "pump/1.rpm", str(tmp_path / "b.mcap")]) == 1
    assert "there is no recording" in capsys.readouterr().err
    assert main(["plot", "pump/1.rpm", str(path), "--start", "1h"]) == 1
    assert f"a section from 3600 s on has nothing of {path}, which ends " in capsys.readouterr().err
