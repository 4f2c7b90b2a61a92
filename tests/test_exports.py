"""What `import rtmw` gives, and what it costs."""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import subprocess
import sys

import pytest

import rtmw
import rtmw.errors

ERRORS = {
    name for name, value in vars(rtmw.errors).items() if inspect.isclass(value) and value.__module__ == "rtmw.errors"
}

PUBLIC = {
    "ANY",
    "Agent",
    "Appended",
    "Client",
    "ClientStats",
    "Service",
    "ServiceStats",
    "Stream",
    "Dispatch",
    "DispatchState",
    "Domain",
    "Durability",
    "File",
    "Latency",
    "Listener",
    "Loan",
    "Log",
    "LogBatch",
    "LogBatches",
    "LogHandler",
    "LogHandlerStats",
    "LogLine",
    "LogRecord",
    "LogRecords",
    "LogStats",
    "Order",
    "PersistQueue",
    "Cursor",
    "Retention",
    "Profile",
    "Publisher",
    "PublisherStats",
    "Recorder",
    "RecorderStats",
    "Recording",
    "Recordings",
    "Reliability",
    "Replay",
    "ReplayStats",
    "Sample",
    "Start",
    "Subscriber",
    "SubscriberStats",
    "WaitSet",
    "__version__",
    "observe",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "profiles",
    "realtime",
    "spark",
    "table",
    "Delivery",
    "Inbox",
    "InboxStats",
    "Letter",
    "Level",
    "Part",
    "PatternStats",
    "PatternSubscriber",
    "Progress",
    "Savepoint",
    "Sender",
    "SenderStats",
    "Transaction",
    "Transfer",
    "TransferEvent",
    "TransferId",
    "TransferState",
}

HEAVY = {
    "asyncio",
    "cyclonedds",
    "foxglove",
    "hashlib",
    "json",
    "logging",
    "numpy",
    "psutil",
    "pyspark",
    "rich",
    "uvloop",
    "zlib",
}
"""What takes longer to import than rtmw itself, and what is needed by some programs only."""

FIRST_MESSAGE = """
with rtmw.Subscriber("t") as subscriber, rtmw.Publisher("t") as publisher:
    publisher.publish(b"first")
    assert subscriber.receive(60).value == b"first"
"""


def modules_after(statements: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after these statements, and not without them."""
    report = "import json, sys; print(json.dumps([*loaded]))"
    source = f"import sys; before = set(sys.modules)\n{statements}\nloaded = set(sys.modules) - before\n{report}"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_rtmw_exports_exactly_the_public_names_and_its_errors() -> None:
    assert set(rtmw.__all__) == PUBLIC | ERRORS


def test_the_names_shown_by_dir_are_all_public_ones_before_any_is_used() -> None:
    source = "import rtmw; print(*set(rtmw.__all__) - set(dir(rtmw)))"
    assert subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.parametrize("module", ["observe", "spark"])
def test_a_module_that_is_public_needs_no_import_of_its_own(module: str) -> None:
    source = f"import rtmw; print(rtmw.{module}.__name__)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout == f"rtmw.{module}\n"


def test_no_name_is_exported_twice() -> None:
    assert len(rtmw.__all__) == len(set(rtmw.__all__))


@pytest.mark.parametrize("name", sorted(PUBLIC | ERRORS))
def test_every_exported_name_is_there(name: str) -> None:
    assert getattr(rtmw, name) is not None


def test_the_version_is_that_of_the_installed_package() -> None:
    assert rtmw.__version__ == importlib.metadata.version("rtmw")


def test_every_error_is_an_rtmw_error() -> None:
    assert all(issubclass(getattr(rtmw, name), rtmw.RtmwError) for name in ERRORS)


def test_importing_rtmw_loads_nothing_heavy() -> None:
    assert modules_after("import rtmw").isdisjoint(HEAVY)


@pytest.mark.usefixtures("domain_id")
def test_a_first_message_of_bytes_needs_nothing_heavy_either() -> None:
    assert modules_after(f"import rtmw{FIRST_MESSAGE}").isdisjoint(HEAVY)


def test_reading_a_command_line_loads_nothing_that_few_commands_need() -> None:
    needed = "from rtmw.cli.command import build_parser; build_parser().parse_args(['topic', 'list'])"
    assert modules_after(needed).isdisjoint(HEAVY - {"hashlib", "json", "logging", "zlib"} | {"email"})


def test_a_node_starts_without_numpy() -> None:
    """A node handles bytes: numpy would take a third of the time in which it starts."""
    assert "numpy" not in modules_after("import rtmw.cli, rtmw.net.node, rtmw.net.link.links")


def test_neither_a_core_of_transfers_nor_a_program_with_them_starts_with_numpy() -> None:
    assert "numpy" not in modules_after("import rtmw.transfer.core.process; rtmw.Sender, rtmw.Inbox")


def test_a_heavy_import_would_be_seen() -> None:
    assert "asyncio" in modules_after("import asyncio")
