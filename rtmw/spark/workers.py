"""The Python of a session's workers: it has to find this rtmw."""

from __future__ import annotations

import logging
import os
import re
import site
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rtmw.errors import NotInstalled

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_PROBE: Final = "lambda numbers: [__import__('importlib.util').util.find_spec('rtmw') is not None for _ in numbers]"
"""Made from text, so that a worker gets the function itself and not its place in rtmw."""

_SERVER_PROBE: Final = (
    "lambda batches: (__import__('pyarrow').RecordBatch.from_pydict({'found': ["
    "__import__('importlib.util').util.find_spec('rtmw') is not None]}) for _ in batches)"
)

MISSING: Final = (
    "the Python of the executors cannot import rtmw{why}. Before the session begins, set spark.pyspark.python (or "
    "PYSPARK_PYTHON) to a Python that has rtmw[spark] on every host, or spark.executorEnv.PYTHONPATH to its folder"
)

MISSING_SERVER: Final = (
    "the Python of the Spark Connect server cannot import rtmw{why}. Before the server starts, set PYSPARK_PYTHON (or "
    "spark.pyspark.python) there to a Python that has rtmw[spark], of the version that runs here"
)

SPECULATES: Final = (
    "spark.speculation is on: Spark may run copies of slow tasks on other hosts, and a copy of one that publishes rows "
    "publishes them a second time. Leave it off in sessions that write or replay"
)

log = logging.getLogger("rtmw")

_checked: set[str] = set()
"""Applications whose workers find it."""


def source_folder() -> str | None:
    """The folder that workers need on their path to import this rtmw; None where it is installed."""
    folder = Path(__file__).parents[2]
    installed = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    return None if str(folder) in [*installed, site.getusersitepackages()] else str(folder)


def prepare_workers(context: SparkContext) -> None:
    """On this machine, makes workers run the Python that runs here; on a cluster, makes sure, once, that they find
    rtmw, and warns of a setting that doubles messages.

    Raises NotInstalled, with what to set.
    """
    if re.match(r"local(\[|$)", context.master or ""):
        _use_this_python(context)
    elif context.applicationId not in _checked:
        _check_executors(context)
        _checked.add(context.applicationId)
        if context.getConf().get("spark.speculation", "false") == "true":
            log.warning(SPECULATES)


def _use_this_python(context: SparkContext) -> None:
    own: Any = context
    own.pythonExec, own.pythonVer = sys.executable, f"{sys.version_info.major}.{sys.version_info.minor}"
    known = own.environment.get("PYTHONPATH", "").split(os.pathsep)
    folder = source_folder()
    if folder is not None and folder not in known:
        own.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, *known]))


def check_server(session: SparkSession) -> None:
    """Runs one task on the server of Spark Connect. Raises NotInstalled, with what to set."""
    rows = session.range(0, 1, 1, 1)
    _check(lambda: rows.mapInArrow(_made(_SERVER_PROBE), "found boolean").collect()[0][0], MISSING_SERVER)


def _check_executors(context: SparkContext) -> None:
    """Runs one task."""
    _check(lambda: context.parallelize([0], 1).mapPartitions(_made(_PROBE)).collect()[0], MISSING)


def _made(probe: str) -> Any:
    return eval(probe, {"__name__": "__main__"})


def _check(is_found: Callable[[], bool], missing: str) -> None:
    try:
        found = is_found()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if "Error: " in line or "MISMATCH" in line]
        raise NotInstalled(missing.format(why=f": {lines[-1].strip()}" if lines else "")) from error
    if not found:
        raise NotInstalled(missing.format(why=""))
