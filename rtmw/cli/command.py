"""The commands of `rtmw`, and how one is run: its exit status, and what becomes of the errors. The
commands `demo` and `completion` stand here, too: they have little to say of their own.

Status: 0 done · 1 could not, in one sentence on stderr · 2 wrong usage · 130 Ctrl-C (rtmw/cli/__init__.py) · 141 the
reader went away.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import rtmw
from rtmw.cli.parsing import Commands, Parser, add_commands, commands_of, runs, seconds
from rtmw.cli.terminal import reencode, warn, writing
from rtmw.errors import RtmwError, needed, needing_dds

if TYPE_CHECKING:
    from types import TracebackType


COMMANDS: Final[Commands] = {
    "demo": ("command:add_demo", "show this machine's telemetry flowing between processes"),
    "top": ("top:add_arguments", "show what happens on the topics: rates, drops, latency, who is behind"),
    "graph": ("graph:add_arguments", "show who talks to whom"),
    "trace": ("trace:add_arguments", "show each message of topics: published, taken, dropped, by whom, when"),
    "metrics": ("metrics:add_arguments", "print the domain's metrics as Prometheus reads them"),
    "foxglove": ("foxglove:add_arguments", "show topics in Foxglove, live, until SIGINT or SIGTERM"),
    "dashboard": ("page:add_arguments", "serve a page that shows the domain, read-only"),
    "topic": ("topic:COMMANDS", "look at topics, and publish by hand"),
    "log-lines": ("log_lines:add_arguments", "show the lines that programs log to topics, of all in one order"),
    "service": ("service:COMMANDS", "list services, and call one by hand"),
    "node": ("node:add_arguments", "carry topics to other hosts through DDS, until SIGINT or SIGTERM"),
    "send": (
        "files:add_send",
        "send files to the inbox of a service; the same command again goes on where it was, and sends nothing twice",
    ),
    "receive": (
        "files:add_receive",
        "take the letters of a service, with their files into a folder, until SIGINT or SIGTERM",
    ),
    "transfers": (
        "transfers:add_arguments",
        "show transfers, open transactions and what went wrong, as the core of the host has them",
    ),
    "relay": ("relay:COMMANDS", "orders between agents: decode frames, explain and check the rules"),
    "record": ("record:add_arguments", "write what flows on topics into recordings (MCAP files)"),
    "replay": ("replay:add_arguments", "publish what recordings hold, each message at its time"),
    "recording": ("recording:COMMANDS", "look into recordings, ask, repair, cut, merge and export them"),
    "report": (
        "report:add_arguments",
        "write a page about recordings: a verdict, what is missing, rates, latency, silences",
    ),
    "plot": (
        "plot:add_arguments",
        "show numbers of recorded messages over time, in the terminal or as a picture",
    ),
    "log": ("log:COMMANDS", "look into durable logs, append, check, save, trim; keep topics in one"),
    "doctor": (
        "doctor:add_arguments",
        "check the books of the domain, its participants and this machine; status 1 for a fault",
    ),
    "clean": ("clean:add_arguments", "remove the shared memory of the domain"),
    "completion": (
        "command:add_completion",
        "print a script that completes commands, options, topics and services in a shell",
    ),
}


class _Version(argparse.Action):
    """Looks the version up when it is asked for: that takes as long as all else that a command imports."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        parser.exit(message=f"rtmw {rtmw.__version__}\n")


def build_parser() -> Parser:
    """The parser of `rtmw`; the namespace it gives has a `run` to call with it."""
    parser = Parser(prog="rtmw", description="Real-time publish/subscribe between programs.")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and end")
    add_commands(parser, COMMANDS)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Run `rtmw` with these arguments and give its exit status. KeyboardInterrupt passes."""
    sys.excepthook = _show_fault
    _ready_output()
    arguments = build_parser().parse_args(argv)
    try:
        status = int(arguments.run(arguments))
        with writing():
            sys.stdout.flush()
        return status
    except RtmwError as error:
        warn(f"rtmw: {error}")
        if isinstance(error.__cause__, OSError):  # it may be of standard output
            _drop_what_cannot_be_written()
        return 1
    except BrokenPipeError:
        _drop_what_cannot_be_written()
        return 141


def _ready_output() -> None:
    """Gives a command that was started without standard output or error one that goes nowhere. A character that the
    encoding of standard output lacks is shown with an escape."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - so is it where descriptor 1 is closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    reencode(errors="backslashreplace")


def _drop_what_cannot_be_written() -> None:
    """What is left in the buffer must not be written at exit, where it would fail once more and be reported."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_fault(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    """An error that no command expects, as Python shows it; its text may be of others, too."""
    import traceback  # only needed here

    warn(*"".join(traceback.format_exception(error)).splitlines())


def add_demo(parser: argparse.ArgumentParser) -> None:
    runs(parser, _demo, domain=False, json=False)
    parser.add_argument("--seconds", type=seconds, default=10.0, help="how long to show it (default 10)")
    parser.add_argument("--no-spark", action="store_true", help="read and replay the recording without Spark")
    parser.add_argument("--install-spark", action="store_true", help="let pip install Spark, where it is missing")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="for the recording and the plot (default rtmw-demo)")


def _demo(arguments: argparse.Namespace) -> int:
    with needing_dds("`rtmw demo`"):
        from rtmw.demo.course import FOLDER, run  # psutil and the topics are only needed here

    folder = Path(arguments.output or FOLDER)
    return run(arguments.seconds, folder, spark=not arguments.no_spark, install=arguments.install_spark)


# ---- completion: a script for a shell ----

_OF_TOPICS: Final = ("topic", "topics")
_OF_SERVICES: Final = ("called",)
_OF_FILES: Final = ("FILE", "FOLDER", "PATH", "LOG", "REQUEST")
_TOPICS: Final = {"bash": "_rtmw_topics", "zsh": "_rtmw_topics"}
_SERVICES: Final = {"bash": "_rtmw_services", "zsh": "_rtmw_services"}
_PREAMBLES: Final = {
    # A name is never expanded by the shell, as `compgen -W` would: any program of the domain may have chosen it.
    "bash": """
_rtmw_topics() { _rtmw_names topic "$1"; }
_rtmw_services() { _rtmw_names service "$1"; }
_rtmw_names() {
  local name domain=() at
  for ((at = 1; at < COMP_CWORD; at++)); do
    [[ ${COMP_WORDS[at]} == --domain ]] && domain=(--domain "${COMP_WORDS[at + 1]}")
  done
  while IFS= read -r name; do
    printf -v name %q "$name"
    [[ $name == "$2"* ]] && printf '%s\\n' "$name"
  done < <(rtmw "$1" list --names "${domain[@]}" 2>/dev/null)
}
""",
    "zsh": """
_rtmw_topics() { _rtmw_names topic }
_rtmw_services() { _rtmw_names service }
_rtmw_names() {
  local -a names
  names=(${(f)"$(rtmw $1 list --names ${opt_args[--domain]:+--domain=${opt_args[--domain]}} 2>/dev/null)"})
  compadd -a names
}
""",
}


def add_completion(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
    runs(parser, _print_script, domain=False, json=False)
    parser.add_argument("shell", choices=tuple(_PREAMBLES))


_DESCRIPTION: Final = (
    "Print a script that completes commands, options, topics and services. For bash, keep it as "
    "~/.local/share/bash-completion/completions/rtmw; for zsh, as _rtmw in a folder of fpath."
)


def _print_script(arguments: argparse.Namespace) -> int:
    from rtmw.cli.command import build_parser  # which begins with the table that names this module

    shtab = needed("shtab", "shtab", "completion", "`rtmw completion`")
    parser = build_parser()
    _mark(parser, shtab.FILE)
    script: str = shtab.complete(parser, arguments.shell, preamble=_PREAMBLES[arguments.shell])
    # Of arguments that may be many, shtab has zsh complete the first one only.
    print(script.replace('"(*)::', '"*:').replace('"(*):', '"*:'))
    return 0


def _mark(parser: argparse.ArgumentParser, files: object) -> None:
    """Say how arguments without choices are completed, of this command and of those behind it."""
    for command in commands_of(parser).values():
        _mark(command, files)
    for action in parser._actions:
        if not action.option_strings and action.dest in _OF_TOPICS:
            vars(action)["complete"] = _TOPICS
        elif not action.option_strings and action.dest in _OF_SERVICES:
            vars(action)["complete"] = _SERVICES
        elif action.metavar in _OF_FILES:
            vars(action)["complete"] = files
