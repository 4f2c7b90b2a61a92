"""`rtmw report`: one page of HTML about recordings."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rtmw.cli.common import CommandError
from rtmw.cli.quantities import argument
from rtmw.spark.folders import own_folder
from rtmw.units import some_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _at_least_a_millisecond(text: str) -> float:
    seconds = some_seconds(text)
    if seconds < 0.001:
        raise ValueError(f"{text!r} is shorter than a millisecond")
    return seconds


_every: Final = argument(_at_least_a_millisecond)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "report",
        help="write a page about recordings: rates, latency, gaps; needs Spark",
        description="Write one HTML page about recordings, computed by Spark: rates, gaps, latency, and what is known "
        "about the messages of rivers and airports.",
    )
    parser.set_defaults(run=_run)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="recordings, folders of them, or patterns")
    parser.add_argument("-o", "--output", default="report.html", metavar="FILE", help="default: report.html")
    parser.add_argument("--every", type=_every, metavar="SECONDS", help="of a point in the plots")
    parser.add_argument("--deadline", type=_every, metavar="SECONDS", help="also count what came later than this")


def _run(arguments: argparse.Namespace) -> int:
    from rtmw.spark.report import report  # Spark is only needed here

    with warnings.catch_warnings(), _spark_ends_at_once() as begin:
        warnings.simplefilter("ignore", FutureWarning)  # of PySpark, about the newest pandas
        try:
            path = report(
                arguments.paths, arguments.output, spark=begin, every=arguments.every, deadline=arguments.deadline
            )
        except OSError as error:
            told = str(error) if error.errno is None else f"{error.filename}: {error.strerror}"
            raise CommandError(told) from None
    print(path)
    return 0


@contextmanager
def _spark_ends_at_once() -> Generator[Callable[[], SparkSession]]:
    """A function that begins Spark. A signal that ends the command kills Spark's processes first.

    Spark installs a handler of its own for Ctrl-C, which talks to the JVM in the middle of another call and prints what
    comes of that; a JVM that is interrupted while it starts never ends by itself; and one that is asked to end takes
    seconds, and logs its tasks' end as errors. What it would have removed then lies in a folder that is removed here.
    """
    before = {number: signal.getsignal(number) for number in ENDINGS}
    came: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        logging.disable(logging.CRITICAL)  # py4j logs with a traceback that it was interrupted
        _kill_children()
        _raise(number)

    def listen() -> None:
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, end)

    with own_folder("rtmw-report-") as folder:
        try:
            listen()
            yield lambda: _session(str(folder), listen)
        except Exception:
            if came:  # py4j met it and made something else of it
                _raise(came[0])
            raise
        finally:
            logging.disable(logging.NOTSET)
            for number, handler in before.items():
                signal.signal(number, handler)


def _session(folder: str, listen: Callable[[], None]) -> SparkSession:
    import rtmw.spark

    java: dict[str, Any] = {"spark.local.dir": folder, "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}"}
    session = rtmw.spark.session(name="rtmw report", **java)
    listen()
    return session


def _raise(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def _kill_children() -> None:
    import psutil  # only needed here

    children = psutil.Process().children(recursive=True)
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(children)
