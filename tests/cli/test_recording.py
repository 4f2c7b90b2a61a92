"""`rtmw recording`: what it says, and its status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rtmw.cli import main
from tests.recordings import Maker, New, Old, numbered

ROOT = Path(__file__).parents[2]
Told = tuple[int, str, str]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return numbered(tmp_path / "a.mcap", ["a", "b"], 10, apart_ns=10**9, chunk_bytes=1)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Told:
    status = main(["recording", *map(str, arguments)])
    return status, *capsys.readouterr()


def test_info_shows_topics_and_numbers(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "info", path)
    assert (status, err) == (0, "")
    assert "10 messages, 2 topics" in out
    assert [line.split() for line in out.splitlines()[-2:]] == [
        ["a", "bytes", "5", "0.556", "-"],
        ["b", "bytes", "5", "0.556", "-"],
    ]
    facts = json.loads(run(capsys, "info", path, "--json")[1])
    assert (facts["messages"], facts["complete"], facts["topics"][0]["topic"]) == (10, True, "a")


def test_info_of_a_folder_ends_with_the_totals_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        numbered(tmp_path / f"{name}.mcap", ["t"], 3, apart_ns=10**9)
    status, out, _ = run(capsys, "info", tmp_path)
    assert (status, out.count("in all:")) == (0, 1)
    assert "in all: 2 files, " in out
    assert "6 messages, 1 topic, 2 chunks\nfrom 2023-11-14 22:13:20.000+00:00, for 2 s" in out
    *_, last = run(capsys, "info", tmp_path, "--json")[1].splitlines()
    assert json.loads(last)["run"]["messages"] == 6


def test_info_counts_topics_and_names_versions_of_a_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        for kind in (Old, New):
            maker.write(maker.channel("level", kind), 0, bytes(8))
    _, out, _ = run(capsys, "info", maker.path)
    assert "2 messages, 1 topic\n" in out
    assert [line.split("  ")[1] for line in out.splitlines()[-2:]] == [
        "plant::Level, version 1 of 2",
        "plant::Level, version 2 of 2",
    ]


def test_info_shows_that_the_disk_of_its_recorder_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Maker(tmp_path / "a.mcap") as maker:
        maker.write(maker.channel("t"), 0, b"x")
        maker.writer.metadata("rtmw.recorder", {"topics": '{"t": {"unwritten": 4}}', "failed": "Input/output error"})
    _, out, _ = run(capsys, "info", maker.path)
    assert "its recorder was ended by the disk: Input/output error\n" in out
    assert out.splitlines()[-1].split() == ["t", "bytes", "1", "-", "4", "unwritten"]


# Proves G146.
def test_check_has_status_1_for_a_damaged_recording_and_3_for_one_without_its_end(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "check", path) == (0, f"{path}: whole, 10 messages in 10 chunks read\n", "")
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    status, out, _ = run(capsys, "check", path)
    first, second, *_ = out.splitlines()
    assert (status, first) == (3, f"{path}: whole, but without an end, 10 messages in 10 chunks read")
    assert second.endswith("Its recorder was killed or still writes, or the file was cut")
    assert json.loads(run(capsys, "check", path, "--json")[1])["whole"] is False
    damaged = path.with_name("b.mcap")
    damaged.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    status, out, _ = run(capsys, "check", path, damaged)
    assert (status, f"{damaged}: damaged, " in out) == (1, True)


def test_recover_says_what_was_lost(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_bytes(path.read_bytes()[:1000])
    status, out, err = run(capsys, "recover", path)
    saved = path.with_name("a.recovered.mcap")
    assert (status, err) == (0, "")
    assert out.startswith(f"{saved}: 4 messages in 4 chunks\n  lost: ")
    assert "nobody knows which messages" in out
    assert run(capsys, "recover", path)[2] == f"rtmw: {saved} exists: name another one, or remove it\n"
    run(capsys, "recover", path, "--in-place")
    assert run(capsys, "check", path)[0] == 0


def test_cut_and_merge_write_recordings(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, both = tmp_path / "one", tmp_path / "two", tmp_path / "both.mcap"
    assert run(capsys, "cut", path, "--topics", "a", "-o", one) == (0, f"{one} has 5 messages\n", "")
    assert run(capsys, "cut", path, "--topics", "b", "--end", 4, "-o", two) == (0, f"{two} has 2 messages\n", "")
    assert json.loads(run(capsys, "merge", one, two, "-o", both, "--json")[1]) == {
        "path": str(both),
        "messages": 7,
        "attachments": 0,
        "attachments_left_out": 0,
        "carried": 0,
    }


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("info", "{}/none.mcap"), "there is no recording"),
        (("info", "{}"), "has no recording"),
        (("check", "{}/none.mcap"), "there is no recording"),
        (("recover", "{}/none.mcap"), "there is no recording"),
        (("recover", "{}"), "has no recording"),
        (("cut", "{}/none.mcap", "-o", "{}/x"), "there is no recording"),
        (("cut", "{}", "-o", "{}/x"), "has no recording"),
        (("merge", "{}/none.mcap", "-o", "{}/x"), "there is no recording"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], word: str
) -> None:
    status, out, err = run(capsys, *(argument.format(tmp_path) for argument in arguments))
    assert (status, out) == (1, "")
    assert word in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["cut {} -o {}/new", "merge {} -o {}/new", "export {} --jsonl {}/new"])
def test_what_is_made_of_a_recording_without_an_end_is_told_to_be_of_a_part(
    path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path.write_bytes(path.read_bytes()[:1000])
    status, _, err = run(capsys, *command.format(path, path.parent).split())
    why = "its recorder was killed or still writes, or the file was cut"
    assert (status, err) == (0, f"rtmw: {path} has no end: {why}. What is whole is read\n")


@pytest.mark.parametrize("command", ["cut", "merge"])
def test_a_recording_is_not_written_to_standard_output(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(path.parent)
    told = "rtmw: this is not written to standard output: name a file instead of -\n"
    assert run(capsys, command, path, "-o", "-") == (1, "", told)
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_with_one_recording_stands_for_it(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    assert run(capsys, "cut", ".", "-o", "b.mcap") == (0, "b.mcap has 10 messages\n", "")
    told = f"rtmw: {path.parent} has 2 recordings: name one of them, such as {path}\n"
    assert run(capsys, "cut", path.parent, "-o", "c.mcap") == (1, "", told)
    assert run(capsys, "recover", path.parent) == (0, "whole, and left as they are: 2 recordings\n", "")


def test_one_file_that_is_no_recording_does_not_hide_what_is_in_the_others(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.with_name("0.mcap").write_bytes(b"")
    path.with_name("1.mcap").symlink_to("nowhere")
    status, out, err = run(capsys, "info", path.parent)
    assert (status, "10 messages, 2 topics" in out) == (3, True)
    assert err == (
        f"rtmw: {path.with_name('0.mcap')} is empty: nothing has been recorded yet, or it is no recording\n"
        f"rtmw: {path.with_name('1.mcap')}: No such file or directory.\n"
    )


def test_a_section_without_time_is_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = "rtmw: a section from 3 s to 2 s has no time in it\n"
    assert run(capsys, "cut", path, "--start", 3, "--end", 2, "-o", path.with_name("b.mcap")) == (1, "", told)
    assert not path.with_name("b.mcap").exists()


@pytest.mark.parametrize(
    "command", ["cut {} -o {}", "merge {} -o {}", "export {} --csv {}", "export {} --parquet {}", "images {} -o {}"]
)
@pytest.mark.parametrize(
    ("option", "told"),
    [
        (("--start", 9.5), "from 9.5 s on has nothing of {}, which ends 9 s after it began: let it begin before that"),
        (("--end", 0), "up to 0 s has nothing of {}, which ends 9 s after it began: let it end after 0 s"),
        (
            ("--start", "2023-11-14T22:14"),
            "from 2023-11-14 22:14:00 on has nothing of {}, which ends at 2023-11-14 22:13:29, 9 s after it began: let "
            "it begin before that",
        ),
        (
            ("--end", "2023-11-15T00:00:00+02:00"),
            "up to 2023-11-14 22:00:00 has nothing of {}, which ends at 2023-11-14 22:13:29, 9 s after it began: let "
            "it end after 2023-11-14 22:13:20",
        ),
    ],
)
def test_a_section_beside_the_time_of_the_recording_is_refused_with_what_to_give_instead(
    path: Path, capsys: pytest.CaptureFixture[str], command: str, option: tuple[str, object], told: str
) -> None:
    words = command.format(path, path.with_name("b")).split()
    assert run(capsys, *words, *option) == (1, "", f"rtmw: a section {told.format(path)}\n")
    assert not path.with_name("b").exists()


def test_of_several_recordings_a_section_is_refused_only_where_none_has_anything_of_it(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbered(path.with_name("b.mcap"), ["a"], 3, apart_ns=10**9)
    status, out, err = run(capsys, "export", path.parent, "--jsonl", "-", "--start", 5)
    assert (status, len(out.splitlines()), err) == (0, 5, "")
    told = f"rtmw: a section from 10 s on has nothing of {path}, which ends 9 s after it began"
    others = ": let it begin before that; there are 2 recordings, and this is the longest\n"
    assert run(capsys, "export", path.parent, "--jsonl", "-", "--start", 10) == (1, "", told + others)
    merged = path.with_name("c.mcap")
    told = "of 2 recordings, which end 9 s after the first of them began: let it begin before that\n"
    assert run(capsys, "merge", path.parent, "-o", merged, "--start", 10)[2].endswith(told)
    assert run(capsys, "merge", path.parent, "-o", merged, "--start", 9)[0] == 0


def test_a_recording_without_a_message_has_an_empty_section(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = Maker(path.with_name("empty.mcap")).close()
    assert run(capsys, "export", empty, "--jsonl", "-", "--start", 1) == (0, "", "")


def test_who_reads_only_the_first_lines_of_an_export_gets_no_complaint(tmp_path: Path) -> None:
    path = numbered(tmp_path / "a.mcap", ["a"], 50_000)
    command = [sys.executable, "-m", "rtmw", "recording", "export", str(path), "--csv", "-"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("log_time,")
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(60) == 141


# Proves G152.
def test_a_full_disk_leaves_nothing_half_written(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limit[1]))
    try:
        status, out, err = run(capsys, "cut", path, "-o", path.with_name("b.mcap"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (status, out) == (1, "")
    assert "File too large" in err
    assert [item.name for item in path.parent.iterdir()] == ["a.mcap"]


def test_export_writes_what_was_asked_for(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    folder, file = tmp_path / "columns", tmp_path / "lines"
    assert run(capsys, "export", path, "--parquet", folder) == (0, f"{folder} has 10 messages\n", "")
    assert (
        run(capsys, "export", path, "--jsonl", file, "--json")[1]
        == json.dumps({"path": str(file), "messages": 10}) + "\n"
    )
    assert len(file.read_text().splitlines()) == 10
    status, out, _ = run(capsys, "export", path, "--csv", "-", "--topics", "a")
    assert (status, len(out.splitlines())) == (0, 6)
