"""House rules of the source text."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("rtmw", "topics", "examples", "bench", "tests")
C_FAMILY = {".c", ".h", ".cpp", ".hpp"}
CODE = C_FAMILY | {".py", ".pyi"}
TEXT = CODE | {".md", ".toml", ".idl", ".json", ".sh"}
SCRIPTS = {"Makefile", "run"}

LONGEST = {".py": 800, ".c": 1200, ".h": 1200}
"""Lines of a file, above which it hides more than one decision."""

MACHINE_PATH = re.compile(r"/(?:root|work|home|Users)/\w")
PYTHON_API = re.compile(r'^\s*#\s*include\s*[<"](?:Python\.h|(?:[^">]*/)?_\w+\.h)[>"]', re.MULTILINE)
"""Python.h, and the headers of glue, which include it."""
DURABLE = re.compile(r"\bos\.(?:fsync|fdatasync|sync|rename|renames|replace|f?truncate)\b|(?<!disk)\.rename\(")
"""Calls for which tests put a disk with faults in place."""
CLOCK = re.compile(r"\b(?:clock_gettime|gettimeofday)\s*\(|\btime\s*\(\s*(?:NULL|0)\s*\)")
PYTHON_CLOCK = re.compile(r"\btime\.(?:monotonic|time|perf_counter|clock_gettime)(?:_ns)?\(")
LOCK = re.compile(r"\bfcntl\.(?:flock|lockf)\b|\bos\.lockf\b")
WAITS = re.compile(r"\bwait_for\(")
PRINTS = re.compile(r"\bprint\(|\bsys\.std(?:out|err)\.write\(|\b[Cc]onsole\(\)?.*\.print\(")
ESCAPES = re.compile(r"\bhtml(?:\.| import )escape\b|\.isprintable\(\)")
ATOMIC = re.compile(r"__(?:atomic|sync)_\w+\s*\(|<stdatomic\.h>|\b_Atomic\b")
DETACHED = re.compile(r'^ *r?"""(?:Of|As|The same|So many|So much|So long|So often)\b', re.MULTILINE)


def sources(kinds: set[str]) -> list[Path]:
    """Files whose suffix or name is one of these, of the folders of code and of the root folder."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    found += [*ROOT.iterdir(), *(ROOT / ".ci").iterdir()]
    return sorted(path for path in found if path.is_file() and {path.suffix, path.name} & kinds)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def files_with(pattern: re.Pattern[str], kinds: set[str]) -> set[str]:
    return {name(path) for path in sources(kinds) if pattern.search(path.read_text(errors="replace"))}


def test_a_c_file_includes_the_python_api_exactly_if_its_name_begins_with_an_underscore() -> None:
    glue = {name(path) for path in sources(C_FAMILY) if path.name.startswith("_")}
    assert files_with(PYTHON_API, C_FAMILY) == glue


# Proves G37.
def test_every_atomic_operation_goes_through_one_header() -> None:
    assert files_with(ATOMIC, C_FAMILY) == {"rtmw/shm/atomics.h"}


def test_what_is_written_durably_goes_through_one_module() -> None:
    found = {path for path in files_with(DURABLE, {".py"}) if path.startswith("rtmw/")}
    lock_alone = "rtmw/spark/driver.py"  # renames the lock of a folder for the time of a program
    assert found == {"rtmw/disk.py", lock_alone}


def test_c_reads_clocks_in_one_header() -> None:
    assert {path for path in files_with(CLOCK, C_FAMILY) if path.startswith("rtmw/")} == {"rtmw/shm/clock.h"}


def test_python_reads_clocks_in_one_module() -> None:
    assert {path for path in files_with(PYTHON_CLOCK, {".py"}) if path.startswith("rtmw/")} == {"rtmw/clock.py"}


def test_no_cancellation_is_lost_that_comes_as_a_wait_ends() -> None:
    """asyncio.wait_for of Python 3.11 loses it; asyncio.timeout does not."""
    assert not {path for path in files_with(WAITS, {".py"}) if path.startswith("rtmw/")}


def test_locks_of_files_are_taken_in_one_module() -> None:
    assert {path for path in files_with(LOCK, {".py"}) if path.startswith("rtmw/")} == {"rtmw/locks.py"}


# Proves G107.
def test_commands_print_through_the_module_that_makes_text_visible() -> None:
    found = {path for path in files_with(PRINTS, {".py"}) if path.startswith(("rtmw/cli/", "rtmw/demo/"))}
    change_in_place, speaks_json = ("rtmw/cli/terminal.py", "rtmw/cli/record.py"), "rtmw/demo/crew.py"
    script_of_its_own = "rtmw/cli/command.py"
    assert found == {"rtmw/cli/terminal.py", *change_in_place, speaks_json, script_of_its_own}


def test_text_of_others_is_made_visible_in_one_module() -> None:
    found = {path for path in files_with(ESCAPES, {".py"}) if path.startswith("rtmw/")}
    allowed = {  # what a name may be, what a payload of bytes is, and words of IDL
        "rtmw/text/addresses.py", "rtmw/log/folder.py", "rtmw/cli/transfers.py", "rtmw/cli/values.py",
        "rtmw/types/checks.py",
        "rtmw/recording/schemas/idl.py",
    }  # fmt: skip
    assert found == {"rtmw/text/visible.py", *allowed}


def test_each_file_is_short_enough_to_read() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in sources(CODE)}
    long = [f"{name(path)}: {count} lines" for path, count in lines.items() if count > LONGEST.get(path.suffix, 800)]
    assert long == [], "split these by the decisions that they hide"


def test_no_file_names_a_path_of_one_machine() -> None:
    assert files_with(MACHINE_PATH, TEXT | SCRIPTS) == set()


def test_a_docstring_does_not_begin_with_a_detached_clause() -> None:
    detached = {path for path in files_with(DETACHED, {".py", ".pyi"}) if path.startswith("rtmw/")}
    assert detached == set(), "say who does what"
