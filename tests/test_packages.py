"""What is shipped: the source distribution has all that is in the repository, the wheel just what programs need.

The wheel is that of `make wheel`. It is installed in a root that has a Python and no compiler, with cyclonedds and
without.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.roots import COMPILERS, Root, with_all_they_need

ROOT = Path(__file__).parents[1]
NOT_SHIPPED = ".ci/"
MODULES = (
    *("shm/_core", "types/_cdr", "log/_log", "net/dds/_engine", "net/link/_line", "recording/_mcap", "player/_player"),
    *("many/_merge", "requests/_calls", "relay/_frames", "columns/_columns", "recorder/_collector"),
)
PROCESSOR = platform.machine()
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def tracked() -> list[str]:
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("needs a clone, and git")
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def build(what: str, source: Path, into: Path, **environment: str) -> Path:
    command, env = [sys.executable, "-c", BUILD, what, str(into)], {**os.environ, **environment}
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return into / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of what git tracks, unpacked."""
    source, into = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in tracked():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    with tarfile.open(build("build_sdist", source, into)) as archive:
        archive.extractall(into, filter="data")
    (folder,) = (path for path in into.iterdir() if path.is_dir())
    return folder


def test_the_source_distribution_has_every_file_of_the_repository(unpacked: Path) -> None:
    assert [name for name in tracked() if not name.startswith(NOT_SHIPPED) and not (unpacked / name).exists()] == []


@pytest.fixture(scope="module")
def wheel(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the source distribution, as `make wheel` builds it."""
    return build("build_wheel", unpacked, tmp_path_factory.mktemp("wheel"), RTMW_WHEEL=PROCESSOR)


def test_a_wheel_of_the_source_distribution_has_what_programs_need_and_no_package_but_rtmw(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"rtmw"}
    for module in MODULES:
        assert any(name.startswith(f"rtmw/{module}.") and name.endswith(".so") for name in names)
    for name in ("rtmw/shm/rtmw.h", "rtmw/shm/librtmw.so", "rtmw/shm/rtmw.pc", "rtmw/py.typed", "rtmw/shm/_core.pyi"):
        assert name in names
    assert "rtmw/demo/topics/telemetry.idl" in names
    assert [name for name in names if name.endswith((".c", ".o"))] == []


# Proves G251.
def test_the_wheel_runs_with_each_glibc_from_its_tag_on(wheel: Path) -> None:
    tag = f"manylinux_2_28_{PROCESSOR}"
    assert wheel.name.endswith(f"-{tag}.whl")
    shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True)
    assert f'is consistent with the following platform tag: "{tag}"' in " ".join(shown.stdout.split())


def test_what_the_modules_of_the_wheel_call_is_of_a_known_version_of_glibc_or_of_those_who_load_them(
    wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        modules = [archive.extract(name, tmp_path) for name in archive.namelist() if name.endswith(".so")]
    assert len(modules) > len(MODULES)
    assert [(Path(module).name, name) for module in modules for name in unversioned(Path(module))] == []


def unversioned(module: Path) -> list[str]:
    """The functions that a module takes from any library, and that are not Python's, the DDS library's, or the core's.
    auditwheel looks at those only that name a version of glibc."""
    with module.open("rb") as file:
        elf = ELFFile(file)
        symbols, versions = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
        wanted = [
            symbol.name
            for number, symbol in enumerate(symbols.iter_symbols())
            if symbol["st_shndx"] == "SHN_UNDEF"
            and symbol["st_info"]["bind"] == "STB_GLOBAL"
            and versions.get_symbol(number)["ndx"] in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL")
        ]
    return [name for name in wanted if not name.startswith(("Py", "_Py", "dds_", "ddsi_", "rtmw_"))]


TYPED_AND_BETWEEN_TWO_PROCESSES = """
import subprocess, sys
from dataclasses import dataclass
import rtmw
from cyclonedds.idl import IdlStruct, types

@dataclass
class Speed(IdlStruct, typename="plant.Speed"):
    pump: types.int32
    rpm: types.float64

OTHER = '''
import rtmw
with rtmw.Subscriber("speed", rtmw.ANY) as subscriber:
    print(subscriber.receive(30).value)
'''
other = subprocess.Popen([sys.executable, "-c", OTHER], stdout=subprocess.PIPE, text=True)
with rtmw.Publisher("speed", Speed, reliability=rtmw.Reliability.RELIABLE) as publisher:
    publisher.wait_for_subscribers(timeout=30)
    publisher.publish(Speed(1, 1500.0))
    print(other.communicate()[0].strip())
"""


@pytest.fixture(scope="module")
def root(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Root:
    """Has the wheel and what it requires but cyclonedds, and no compiler."""
    made = Root(tmp_path_factory.mktemp("root"))
    made.add(with_all_they_need(["rtmw", "pip"]) - {"rtmw", "cyclonedds"})
    made.install(wheel)
    return made


def test_the_root_has_no_compiler_and_nothing_of_this_environment(root: Root) -> None:
    found = root.program(f"import shutil, sys; print(*map(shutil.which, {COMPILERS}), *sys.path[-1:])")
    assert found.split() == ["None"] * len(COMPILERS) + [root.site]
    assert "No module named 'cyclonedds'" in root.program("import cyclonedds", status=1)
    assert "No module named 'pytest'" in root.program("import pytest", status=1)


# Proves C5, G251.
def test_the_wheel_works_where_there_is_no_compiler_and_a_typed_message_crosses_two_processes(
    wheel: Path, tmp_path: Path
) -> None:
    root = Root(tmp_path)
    root.add(with_all_they_need(["rtmw", "pip"]) - {"rtmw"})
    root.install(wheel)
    assert root.program(TYPED_AND_BETWEEN_TWO_PROCESSES) == "Speed(pump=1, rpm=1500.0)\n"


WITHOUT_DDS = {
    "bytes, arrays and what is of any type cross two processes": """
        import subprocess, sys
        import numpy as np
        import rtmw

        OTHER = "import rtmw; a, b = rtmw.Subscriber('a', rtmw.ANY), rtmw.Subscriber('b'); "
        OTHER += "print(a.receive(30).value.sum(), b.receive(30).value)"
        other = subprocess.Popen([sys.executable, "-c", OTHER], stdout=subprocess.PIPE, text=True)
        with rtmw.Publisher("a", np.dtype("f4")) as a, rtmw.Publisher("b") as b:
            a.wait_for_subscribers(timeout=30), b.wait_for_subscribers(timeout=30)
            a.publish(np.ones(3, "f4")), b.publish(b"b")
            assert other.communicate()[0].split() == ["3.0", "b'b'"]
        """,
    "a class, a text and a dict cross two processes": """
        import subprocess, sys
        from dataclasses import dataclass
        import rtmw

        @dataclass
        class Speed:
            pump: rtmw.int32
            note: str = ""

        VALUES = {"class": Speed(1, "idle"), "text": "hello", "dict": {"limit": 3}}
        OTHER = "import rtmw; types = {'class': rtmw.ANY, 'text': str, 'dict': dict}; "
        OTHER += "opened = [rtmw.Subscriber(name, type) for name, type in types.items()]; "
        OTHER += "print(*[subscriber.receive(30).value for subscriber in opened])"
        other = subprocess.Popen([sys.executable, "-c", OTHER], stdout=subprocess.PIPE, text=True)
        for name, value in VALUES.items():
            with rtmw.Publisher(name, type(value), history=1) as publisher:
                publisher.wait_for_subscribers(timeout=30)
                publisher.publish(value)
        assert other.communicate()[0].strip() == "Speed(pump=1, note='idle') hello {'limit': 3}"
        """,
    "the core for programs in C is loaded": """
        import ctypes
        from rtmw import shm

        assert ctypes.CDLL(f"{shm.__path__[0]}/librtmw.so").rtmw_publisher_open
        """,
    "a log": """
        import rtmw

        with rtmw.Log("/tmp/orders") as log:
            log.append(b"order 1")
            assert [record.value for record in log.read()] == [b"order 1"]
        """,
    "a recording, and its replay with its time": """
        import pathlib
        import rtmw

        with rtmw.Domain(), rtmw.Publisher("a") as publisher, rtmw.Recorder("a", "/tmp/monday"):
            publisher.wait_for_subscribers(timeout=30)
            publisher.publish(b"x")
        (path,) = pathlib.Path("/tmp/monday").glob("*.mcap")
        with rtmw.Recording(path) as recording:
            assert recording.message_count == 1
        with rtmw.Domain(), rtmw.Subscriber("clock", rtmw.ANY) as clock, rtmw.Subscriber("a") as subscriber:
            with rtmw.Replay("/tmp/monday", clock=10.0) as replay:
                replay.play()
                assert replay.wait(30)
                assert clock.receive(30).value.clock.sec > 0
                assert subscriber.receive(30).value == b"x"
        """,
    "transfers": """
        import subprocess, sys, time
        import rtmw

        CORE = "-m rtmw.transfer.core --domain 7 --data /tmp/data --node plant"
        core = subprocess.Popen([sys.executable, *CORE.split()], stdin=subprocess.PIPE)
        end = time.monotonic() + 30
        while True:
            try:
                sender = rtmw.Sender("plant")
                break
            except rtmw.CoreNotRunning:
                assert core.poll() is None and time.monotonic() < end
                time.sleep(0.01)
        with rtmw.Inbox("ingest") as inbox, sender:
            sent = sender.send("ingest", b"level 4.2", delivery=rtmw.Delivery.LOG)
            with next(iter(inbox)) as letter:
                assert letter.body == b"level 4.2"
            assert sent.wait(rtmw.Level.CONSUMED, timeout=30)
        core.stdin.close()
        assert core.wait(30) == 0
        """,
    "the commands that look and publish": """
        import subprocess, sys
        import rtmw

        def run(*words):
            done = subprocess.run([sys.executable, "-m", "rtmw", *words], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return done.stdout

        with rtmw.Subscriber("a") as subscriber:
            run("topic", "pub", "a", "hello", "--wait", "1")
            assert subscriber.receive(30).value == b"hello"
            assert "a " in run("topic", "list")
            with rtmw.Publisher("a", history=1) as publisher:
                publisher.publish(b"again")
                assert "again" in run("topic", "echo", "a", "--count", "1")
            assert "The books balance." in run("doctor")
            assert "pip install 'rtmw[dds]'" in run("doctor")
        """,
    "each module but those of the node and of the demonstration is imported": """
        import importlib, pkgutil
        import rtmw

        for module in pkgutil.walk_packages(rtmw.__path__, "rtmw."):
            if module.name.startswith(("rtmw.net.", "rtmw.demo.")) or module.name.endswith(("__main__", "librtmw")):
                continue
            try:
                importlib.import_module(module.name)
            except ImportError as error:  # of other packages
                assert "cyclonedds" not in str(error), module.name
        """,
}


@pytest.mark.parametrize("program", WITHOUT_DDS.values(), ids=WITHOUT_DDS)
# Proves G251.
def test_where_cyclonedds_is_missing_all_but_dds_works(root: Root, program: str) -> None:
    root.program(program)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("node --interface lo", 1),
        ("demo", 1),
        ("topic pub a {} --type rtmw.demo.topics.telemetry:Cpu", 2),
    ],
)
# Proves G251.
def test_where_cyclonedds_is_missing_what_needs_it_says_what_to_type(root: Root, command: str, status: int) -> None:
    said = root.run("-m", "rtmw", *command.split(), status=status)
    (told,) = [line for line in said.splitlines() if "cyclonedds is not installed, which " in line]
    assert told.endswith("needs; install it with: pip install 'rtmw[dds]'")
    assert "Traceback" not in said
