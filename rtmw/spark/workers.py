"""The Python of a session's workers: it has to find this rtmw."""

from __future__ import annotations

import os
import re
import site
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rtmw.errors import NotInstalled

if TYPE_CHECKING:
    from pyspark import SparkContext

_PROBE: Final = "lambda numbers: [__import__('importlib.util').util.find_spec('rtmw') is not None for _ in numbers]"
"""Made from text, so that a worker gets the function itself and not its place in rtmw."""

MISSING: Final = (
    "the Python of the executors cannot import rtmw{why}. Before the session begins, set spark.pyspark.python (or "
    "PYSPARK_PYTHON) to a Python that has rtmw[spark] on every host, or spark.executorEnv.PYTHONPATH to its folder"
)

_checked: set[str] = set()
"""Applications whose workers find it."""


def source_folder() -> str | None:
    """The folder that workers need on their path to import this rtmw; None where it is installed."""
    folder = Path(__file__).parents[2]
    installed = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    return None if str(folder) in [*installed, site.getusersitepackages()] else str(folder)


def prepare_workers(context: SparkContext) -> None:
    """On this machine, workers run the Python that runs here; on a cluster it is made sure, once, that they find rtmw.

    Raises NotInstalled, with what to set.
    """
    if re.match(r"local(\[|$)", context.master or ""):
        _use_this_python(context)
    elif context.applicationId not in _checked:
        _check_executors(context)
        _checked.add(context.applicationId)


def _use_this_python(context: SparkContext) -> None:
    own: Any = context
    own.pythonExec, own.pythonVer = sys.executable, f"{sys.version_info.major}.{sys.version_info.minor}"
    known = own.environment.get("PYTHONPATH", "").split(os.pathsep)
    folder = source_folder()
    if folder is not None and folder not in known:
        own.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, *known]))


def _check_executors(context: SparkContext) -> None:
    """Runs one task."""
    probe: Any = eval(_PROBE, {"__name__": "__main__"})
    try:
        (is_found,) = context.parallelize([0], 1).mapPartitions(probe).collect()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if "Error: " in line or "MISMATCH" in line]
        raise NotInstalled(MISSING.format(why=f": {lines[-1].strip()}" if lines else "")) from error
    if not is_found:
        raise NotInstalled(MISSING.format(why=""))
