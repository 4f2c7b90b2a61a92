"""`python -m bench`: measure, judge, report. `make bench ARGS=...` calls it in an environment that has the peers."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from pathlib import Path

from bench.log_peers import PEERS
from bench.peers import ALL
from bench.questions import APART, NAMES, question
from bench.stage import ROOT

BUILD = ROOT / "build" / "bench"
RESULTS = BUILD / "results.json"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench", description="rtmw beside its peers, in one run.")
    made.add_argument("--quick", action="store_true", help="fewer cases and rounds; about five minutes")
    made.add_argument("--list", action="store_true", help="what would be measured, and end")
    made.add_argument("--docs", action="store_true", help="bring the last results into bench/results, and end")
    usual = tuple(name for name in NAMES if name not in APART)
    made.add_argument(
        "--questions",
        nargs="+",
        choices=NAMES,
        default=usual,
        metavar="NAME",
        help=f"{', '.join(NAMES)}; default: all but {', '.join(APART)}",
    )
    made.add_argument(
        "--systems", nargs="+", default=(), metavar="NAME", help=f"{', '.join((*ALL, *PEERS))}, and baselines"
    )
    made.add_argument("--rounds", type=int, help="at most so many rounds")
    return made


def listed(quick: bool) -> str:
    """Questions, cases and systems, one case a line."""
    lines: list[str] = []
    for name in NAMES:
        asked = question(name)
        lines += [f"{name}: {asked.TITLE}, {asked.UNIT}"]
        lines += [f"  {case.name}: {', '.join(case.systems)}" for case in asked.cases(quick)]
    return "\n".join(lines)


def run(arguments: argparse.Namespace) -> int:
    from bench.report import markdown
    from bench.run import Plan, measure

    rounds = arguments.rounds or (3 if arguments.quick else 7)
    budget = 320.0 if arguments.quick else 840.0
    command = "make bench" + (f" ARGS='{' '.join(sys.argv[1:])}'" if sys.argv[1:] else "")
    plan = Plan(tuple(arguments.questions), tuple(arguments.systems), arguments.quick, rounds, budget, command)
    results = measure(plan)
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    results.save(RESULTS)
    text = markdown(results)
    Path(BUILD, "results.md").write_text(text)
    print(text)
    draw()
    print(f"Written: {', '.join(str(path.relative_to(ROOT)) for path in sorted(BUILD.iterdir()))}")
    return 0


def draw() -> None:
    from bench.results import load

    try:
        from bench import log_plot, plots
    except ImportError as error:
        print(f"No plots: {error}")
        return
    plots.save(load(RESULTS), BUILD / "results.svg")
    log_plot.save(load(RESULTS), BUILD / "results-log.svg")


def main() -> int:
    arguments = parser().parse_args()
    if arguments.list:
        print(listed(arguments.quick))
        return 0
    if arguments.docs:
        from bench.docs import refresh

        return refresh(RESULTS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else domains and processes of a measurement would stay
    try:
        return run(arguments)
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
