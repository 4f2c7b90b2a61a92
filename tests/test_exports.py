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

ERRORS = {name for name, value in vars(rtmw.errors).items() if inspect.isclass(value)}

PUBLIC = {
    "ANY",
    "Domain",
    "Latency",
    "Listener",
    "Loan",
    "Profile",
    "Publisher",
    "PublisherStats",
    "Reliability",
    "Sample",
    "Subscriber",
    "SubscriberStats",
    "WaitSet",
    "__version__",
    "profiles",
}

HEAVY = ("asyncio", "cyclonedds", "numpy", "psutil", "rich", "uvloop")


def modules_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after `import statement`."""
    command = [sys.executable, "-c", f"import json, sys\nimport {statement}\nprint(json.dumps([*sys.modules]))"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_rtmw_exports_exactly_the_public_names_and_its_errors() -> None:
    assert set(rtmw.__all__) == PUBLIC | ERRORS


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
    assert modules_after("rtmw").isdisjoint(HEAVY)


def test_a_heavy_import_would_be_seen() -> None:
    assert "asyncio" in modules_after("asyncio")
