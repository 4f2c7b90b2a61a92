"""`rtmw.cli.sources`: a recording that cannot be read stops no command; it is named, and the status is 3."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct, types

import rtmw
from rtmw.cli import main
from tests.recordings import Maker, numbered

BAD = ("empty", "short", "damaged", "gone")
EACH = ("info", "ingest", "report")
"""Commands that read each recording by itself, and have no --strict."""


@dataclass
class Image(IdlStruct, typename="sensor_msgs.msg.Image"):
    height: types.uint32
    width: types.uint32
    encoding: str
    is_bigendian: types.byte
    step: types.uint32
    data: types.sequence[types.byte]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole recording of ten messages beside a file of no byte, one cut in its header, one with a bit turned, and a
    link to none."""
    (folder := tmp_path / "run").mkdir()
    with Maker(folder / "whole.mcap") as maker:
        numbers, camera = maker.channel("a", np.dtype("<i8")), maker.channel("camera", Image)
        for number in range(9):
            maker.write(numbers, number * 10**9, number.to_bytes(8, "little"))
        maker.write(camera, 9 * 10**9, Image(1, 2, "mono8", 0, 2, b"ab").serialize())
    data = maker.path.read_bytes()
    (folder / "empty.mcap").write_bytes(b"")
    (folder / "short.mcap").write_bytes(data[:20])
    (folder / "gone.mcap").symlink_to(tmp_path / "nowhere")
    middle = len(data) // 4
    (folder / "damaged.mcap").write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    return folder


def commands(folder: Path, domain: int) -> dict[str, tuple[list[str], str]]:
    """Arguments of each command, and what it says of the ten messages that can be read."""
    target, path = folder.parent, str(folder)
    return {
        "sql": (["recording", "sql", "SELECT count(*) FROM messages", path], "10"),
        "jsonl": (["recording", "export", path, "--jsonl", str(target / "lines")], "10 messages"),
        "parquet": (["recording", "export", path, "--parquet", str(target / "parquet")], "10 messages"),
        "merge": (["recording", "merge", path, "-o", str(target / "merged.mcap")], "10 messages"),
        "replay": (["replay", path, "--rate", "max", "--domain", str(domain)], "published 10 messages"),
        "plot": (["plot", "a.value[0]", path], "a.value[0], 9 values"),
        "images": (["recording", "images", path, "-o", str(target / "images")], "1 image"),
        "info": (["recording", "info", path], "10 messages"),
        "ingest": (["recording", "ingest", path, "--to", str(target / "tables")], "a"),
        "report": (["report", path, "-o", str(target / "page.html")], "page.html: fail"),
    }


@pytest.mark.parametrize("name", ["sql", "jsonl", "parquet", "merge", "replay", "plot", "images"])
# Proves G147.
def test_what_cannot_be_read_in_a_folder_is_named_and_the_rest_is_used(
    name: str, folder: Path, domain: rtmw.Domain, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, told = commands(folder, domain.id)[name]
    assert main(arguments) == 3
    out, err = capsys.readouterr()
    assert told in out
    for bad in BAD:
        assert any(line.startswith("rtmw: left out: ") and f"{bad}.mcap" in line for line in err.splitlines()), err


# Proves G147.
def test_lines_of_what_is_whole_go_to_standard_output_wherever_the_damage_lies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is out cannot be taken back: of a recording that is damaged in its second chunk the first one has come."""
    for name in "abc":
        path = numbered(tmp_path / f"{name}.mcap", ["t"], 10, chunk_bytes=1)
        if name != "c":
            with rtmw.Recording(path) as recording:
                chunk = recording.chunks[0 if name == "a" else 3]
            data = bytearray(path.read_bytes())
            data[chunk.position + chunk.length - 1] ^= 1
            path.write_bytes(data)
    for form, head in (("--jsonl", 0), ("--csv", 1)):
        assert main(["recording", "export", str(tmp_path), form, "-"]) == 3
        out, err = capsys.readouterr()
        assert len(out.splitlines()) == head + 3 + 10
        assert [line.partition(" is damaged")[0] for line in err.splitlines()] == [
            f"rtmw: left out: {tmp_path / name}.mcap" for name in "ab"
        ]
        assert main(["recording", "export", str(tmp_path), form, "-", "--strict"]) == 1
        capsys.readouterr()


@pytest.mark.parametrize("name", ["sql", "jsonl", "parquet", "merge", "replay", "plot", "images"])
# Proves G147.
def test_strict_refuses_a_folder_with_what_cannot_be_read(
    name: str, folder: Path, domain: rtmw.Domain, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, told = commands(folder, domain.id)[name]
    assert main([*arguments, "--strict"]) == 1
    out, err = capsys.readouterr()
    assert told not in out
    assert "left out" not in err


@pytest.mark.parametrize("name", EACH)
# Proves G147.
def test_a_command_that_reads_each_by_itself_names_what_it_cannot_read_and_ends_with_the_same_status(
    name: str, folder: Path, domain: rtmw.Domain, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, told = commands(folder, domain.id)[name]
    assert main(arguments) == 3
    out, err = capsys.readouterr()
    assert told in out
    for bad in ("empty", "short"):
        assert f"{bad}.mcap" in out + err
    for bad in BAD:
        (folder / f"{bad}.mcap").unlink()
    assert main(arguments) == 0


@pytest.mark.parametrize("name", EACH)
def test_a_command_that_can_read_none_of_its_recordings_fails(name: str, folder: Path, domain: rtmw.Domain) -> None:
    (folder / "whole.mcap").unlink()
    (folder / "damaged.mcap").unlink()
    assert main(commands(folder, domain.id)[name][0]) == 1


def test_a_file_that_is_named_alone_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for bad in BAD:
        assert main(["recording", "sql", "SELECT count(*) FROM messages", str(folder / f"{bad}.mcap")]) == 1
        assert f"{bad}.mcap" in capsys.readouterr().err


# Proves G147.
def test_recover_recovers_each_of_a_folder_and_leaves_whole_ones_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recording", "recover", str(folder)]) == 3
    out, err = capsys.readouterr()
    assert "left out" in err
    assert "empty.mcap" in err
    assert "whole, and left as they are: 1 recording" in out
    assert (folder / "damaged.recovered.mcap").exists()
    assert not (folder / "whole.recovered.mcap").exists()
    assert main(["recording", "recover", str(folder), "-o", "one.mcap"]) == 1
    assert "-o one.mcap is one file" in capsys.readouterr().err


def test_topics_are_exported_though_some_recordings_do_not_have_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for topic in ("a", "b"):
        numbered(tmp_path / f"{topic}.mcap", [topic], 10)
    export = ["recording", "export", str(tmp_path), "--jsonl", str(tmp_path / "lines")]
    assert main([*export, "--topics", "a"]) == 0
    assert "10 messages" in capsys.readouterr().out
    assert main(["recording", "export", str(tmp_path), "--jsonl", str(tmp_path / "more"), "--topics", "c"]) == 1
    assert "no topic c" in capsys.readouterr().err
