"""`rtmw report`: one page of HTML about recordings."""

from __future__ import annotations

import argparse
import warnings

from rtmw.cli.common import CommandError


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
    parser.add_argument("--every", type=_seconds, metavar="SECONDS", help="of a point in the plots")
    parser.add_argument("--deadline", type=_seconds, metavar="SECONDS", help="also count what came later than this")


def _run(arguments: argparse.Namespace) -> int:
    from rtmw.spark.report import report  # Spark is only needed here

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of PySpark, about the newest pandas
        try:
            path = report(arguments.paths, arguments.output, every=arguments.every, deadline=arguments.deadline)
        except OSError as error:
            told = str(error) if error.errno is None else f"{error.filename}: {error.strerror}"
            raise CommandError(told) from None
    print(path)
    return 0


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.001 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.001 on")
    return number
