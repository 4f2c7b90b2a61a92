"""`rtmw log`: look into durable logs, append to them, check and save them, trim and export them.

A log is a folder, or with `--node` a name, under which nodes keep it; what only files can tell is said to be so.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import rtmw
from rtmw.cli.common import CommandError
from rtmw.cli.log_info import LogInfo, info_of, is_log, remote_info, show_info
from rtmw.cli.parsing import Commands, add_place, count, moment, natural, runs
from rtmw.cli.terminal import Cell, Table, counted, in_percent, line, say, show, show_json, size, warn
from rtmw.cli.values import lines, parse, to_json, to_plain
from rtmw.errors import LogError, UnsupportedType
from rtmw.log import Missing, check, salvage
from rtmw.log.check import Progress
from rtmw.types import shown_name
from rtmw.types.text import content

STANDARD_OUTPUT: Final = "-"
AT_ONCE: Final = 1000
"""Records of an export that are written at once."""
PATIENCE_S: Final = 10.0
"""A command waits so long for a master of a replicated log."""
STATES: Final = {
    rtmw.Durability.WRITTEN: "is on the disks of all members that are in sync",
    rtmw.Durability.CACHED: "is in the control store, until a member that is late has it: it will not be lost",
    rtmw.Durability.PENDING: "may come or not: append it again with the same --id, or look for it later",
    rtmw.Durability.ABSENT: "is not in the log, and will not be: append it again, with another --id if it had one",
}


PLACES: Final = (
    "of a log that nodes keep: where they listen, best all of them, HOST:PORT or unix:PATH with commas between"
)
COMMANDS: Final[Commands] = {
    "list": ("log:add_list", "list the logs in folders, with size and writer; or those of a node"),
    "info": ("log:add_info", "show the segments of a log, its cursors and rates, as a picture and in numbers"),
    "tail": ("log:add_tail", "print the last records of a log"),
    "append": (
        "log:add_append",
        "append a record by hand, as the type of the log; it is on the disk when this ends",
    ),
    "check": ("log:add_check", "read all of a log; tell a torn tail from damage; status 1: damaged"),
    "salvage": ("log:add_salvage", "write all that is whole of a damaged log into a new one, and say what is missing"),
    "trim": ("log:add_trim", "remove the segments before a position or a time, durably"),
    "export": ("log:add_export", "write records for other programs, one JSON object a line"),
    "create": ("log_replica:add_create", "make a log that several nodes keep"),
    "status": (
        "log_replica:add_status",
        "show the master of a log that nodes keep, who is in sync, and what is at risk",
    ),
    "members": ("log_replica:add_members", "add, remove or replace a node that keeps a log"),
    "move": ("log_replica:add_move", "let another node be the master of a log"),
    "drop": ("log_replica:add_drop", "remove a log from all of its nodes, for good"),
    "rescue": (
        "log_replica:add_rescue",
        "let a copy that was not in sync be the log; others are gone for ever",
    ),
    "store": (
        "log_store:add_arguments",
        "append each message of topics to a log, until SIGINT or SIGTERM",
    ),
    "replay": ("log_replay:add_replay", "publish the records of a log again, each at its time"),
}


def add_list(parser: argparse.ArgumentParser) -> None:
    runs(parser, list_command, domain=False)
    parser.add_argument("paths", nargs="*", metavar="FOLDER", default=["."], help="default: this one")
    add_place(parser, "HOST:PORT or unix:PATH, [log] listen of the node")


def add_info(parser: argparse.ArgumentParser) -> None:
    runs(parser, info_command, domain=False)
    add_log(parser)


def add_tail(parser: argparse.ArgumentParser) -> None:
    runs(parser, tail_command, domain=False)
    add_log(parser)
    parser.add_argument("-n", "--count", type=natural, default=10, help="how many (default 10)")
    _add_start(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="and all that come, until Ctrl-C")
    parser.add_argument("--most", type=count, help="end after so many")


def add_append(parser: argparse.ArgumentParser) -> None:
    runs(parser, append_command, domain=False)
    add_log(parser)
    parser.add_argument("value", help="JSON for the type of the log; text where it is one of bytes or str")
    parser.add_argument("--key", help="text that readers find with the record")
    parser.add_argument("--id", help="text; an append with the same id is not made again")


def add_check(parser: argparse.ArgumentParser) -> None:
    runs(parser, check_command, domain=False)
    add_log(parser)


def add_salvage(parser: argparse.ArgumentParser) -> None:
    runs(parser, salvage_command, domain=False)
    add_log(parser)
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="must not exist")


def add_trim(parser: argparse.ArgumentParser) -> None:
    runs(parser, trim_command, domain=False)
    add_log(parser)
    parser.add_argument("before", type=beginning, metavar="BEFORE", help="a position, or date and time (UTC)")
    parser.add_argument("--force", action="store_true", help="also what a cursor has not passed")


def add_export(parser: argparse.ArgumentParser) -> None:
    runs(parser, export_command, domain=False)
    add_log(parser)
    _add_start(parser)
    parser.add_argument("--jsonl", required=True, metavar="FILE", help="- for standard output")


def add_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="LOG", help="its folder; with --node its name")
    add_place(parser, PLACES)


def _add_start(parser: argparse.ArgumentParser) -> None:
    help = "a position, or date and time (UTC); default: the first record"
    parser.add_argument("--start", type=beginning, metavar="START", help=help)


def beginning(text: str) -> object:
    """A position, or a time."""
    return int(text) if text.isdecimal() else moment(text)


@contextmanager
def working(what: str) -> Generator[Progress]:
    """Errors of the system in one sentence; on a terminal, how far it is."""
    with line() as shown:
        try:
            yield in_percent(shown, what)
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:
            raise CommandError(str(error)) from error


def list_command(arguments: argparse.Namespace) -> int:
    """Logs among the folders that were named, and one level below them; or those of a node."""
    if arguments.node is not None:
        return _list_at_node(arguments)
    found = list[LogInfo]()
    for place in map(Path, arguments.paths):
        with working("list"):
            if not place.is_dir():
                raise CommandError(f"{place} is no folder")
            near = [place] if is_log(place) else sorted(path.parent for path in place.glob("*/log"))
            found += [info for path in near if is_log(path) and (info := _info_or_none(path)) is not None]
    if arguments.json:
        for info in found:
            show_json(info.facts())
        return 0
    rows: list[list[Cell]] = [
        [info.path, info.type, size(info.end - info.start), size(info.disk), len(info.segments), info.writer]
        for info in found
    ]
    show(Table(counted(len(found), "log"), ("log", "type", "records", "disk", "segments", "writer"), rows))
    return 0


def _list_at_node(arguments: argparse.Namespace) -> int:
    from rtmw.cli.log_replica import ask_place

    told = ask_place(arguments, ask="logs")
    if arguments.json:
        for row in told["logs"]:
            show_json(row)
        return 0
    rows: list[list[Cell]] = [
        [row["name"], row["role"], row["master"], row["epoch"], f"{len(row['in_sync'])} of {len(row['members'])}",
         size(row["committed"] - row["earliest"]), len(row["words"])]
        for row in told["logs"]
    ]  # fmt: skip
    show(Table(f"Logs of node {told['node']}", ("log", "role", "master", "epoch", "in sync", "records", "risks"), rows))
    for name, why in told["troubles"].items():
        warn(f"rtmw: log {name} is not served: {why}")
    return 0


def _info_or_none(path: Path) -> LogInfo | None:
    """Returns what is known of a log; None: it is damaged, which is said, and passed over."""
    try:
        return info_of(path)
    except LogError as error:
        warn(f"rtmw: {error}")
        return None


def info_command(arguments: argparse.Namespace) -> int:
    with working("look into"):
        if arguments.node is None:
            info = info_of(Path(arguments.path))
        else:
            with open_log(arguments) as log:
                info = remote_info(log)
    if arguments.json:
        show_json(info.facts())
    else:
        show_info(info)
    return 0


def open_log(arguments: argparse.Namespace, kind: Any = rtmw.ANY) -> rtmw.Log[Any]:
    """The folder, or the log of this name at its nodes. Raises what rtmw.Log does, and ValueError."""
    if arguments.node is None:
        return rtmw.Log(Path(arguments.path), kind, create=False)
    places, keys = arguments.node.split(","), arguments.keys
    return rtmw.Log.connect(arguments.path, kind, nodes=places, keys=keys, insecure=keys is None, timeout=PATIENCE_S)


def start_of(given: Any) -> Any:
    match given:
        case None:
            return rtmw.Start.EARLIEST
        case float():
            raise CommandError(f"--start {given:g}: it is a position, a whole number, or a date and time")
        case datetime() if given.tzinfo is None:
            return given.replace(tzinfo=UTC)
        case _:
            return given


def _check_folder(arguments: argparse.Namespace, what: str) -> None:
    if arguments.node is not None:
        raise CommandError(
            f"{what} reads the files of one copy: run it on the host of a node, for its folder data/logs/"
            f"{arguments.path}; `rtmw log status {arguments.path}` says how the log is"
        )


def tail_command(arguments: argparse.Namespace) -> int:
    """The last records, or those from the start on; then what comes, with --follow."""
    with working("read"), open_log(arguments) as log:
        told, position = 0, log.end
        records: Iterable[rtmw.LogRecord[Any]] = log.read(start_of(arguments.start))
        if arguments.start is None:
            records = deque(records, maxlen=arguments.count)
        for record in records:
            _print(log, record, arguments.json)
            told += 1
            if told == arguments.most:
                return 0
        if arguments.follow:
            for record in log.read(position, follow=True):
                _print(log, record, arguments.json)
                told += 1
                if told == arguments.most:
                    return 0
    return 0


def _content(log: rtmw.Log[Any], record: rtmw.LogRecord[Any]) -> Any:
    return content(shown_name(log.type.name), record.value)


def _facts(log: rtmw.Log[Any], record: rtmw.LogRecord[Any]) -> dict[str, Any]:
    return {
        "position": record.position,
        "time_ns": record.time_ns,
        "key": to_plain(record.key),
        "id": to_plain(record.id),
        "value": to_plain(_content(log, record)),
    }


def _json_line(log: rtmw.Log[Any], record: rtmw.LogRecord[Any]) -> str:
    """`_facts` as a line of JSON; an export of many records spends most of its time here."""
    key, id, value = to_json(record.key), to_json(record.id), to_json(_content(log, record))
    return (
        f'{{"position": {record.position}, "time_ns": {record.time_ns}, "key": {key}, "id": {id}, "value": {value}}}\n'
    )


def _print(log: rtmw.Log[Any], record: rtmw.LogRecord[Any], json: bool) -> None:
    if json:
        show_json(_facts(log, record))
        return
    moment = datetime.fromtimestamp(record.time_ns / 1e9).astimezone().isoformat(sep=" ", timespec="milliseconds")
    labels = "".join(
        f" {name}={label!r}" for name, label in (("key", record.key), ("id", record.id)) if label is not None
    )
    say(f"{record.position} {moment}{labels}", *lines(to_plain(_content(log, record)), "  "), flush=True)


def append_command(arguments: argparse.Namespace) -> int:
    with working("append"):
        with open_log(arguments) as log:
            kind, value = _value(arguments, log.type.description)
        with open_log(arguments, kind) as log:
            answer = log.append(value, key=arguments.key, id=arguments.id)
            state = answer.resolve(PATIENCE_S)
    if arguments.json:
        show_json({"path": arguments.path, "position": answer.position, "state": state.name})
    else:
        words = "is on the disk" if arguments.node is None else STATES[state]
        say(f"{arguments.path}: the record at {answer.position} {words}")
    return 0 if state in (rtmw.Durability.WRITTEN, rtmw.Durability.CACHED) else 1


def _value(arguments: argparse.Namespace, description: bytes) -> tuple[Any, Any]:
    from rtmw.types import from_description
    from rtmw.types.plain import maker

    if from_description(description).encode is None:
        return bytes, arguments.value.encode()
    try:
        kind, make = maker(description)
        return kind, make(parse(kind, arguments.value))
    except UnsupportedType as error:
        raise CommandError(f"{arguments.path}: {error}; append with a program that has the class") from error
    except ValueError as error:
        raise CommandError(
            f"{arguments.path} has a type, and {arguments.value!r} is no JSON for it: {error}"
        ) from error


def check_command(arguments: argparse.Namespace) -> int:
    """Status 1 if it is damaged. A torn tail is none."""
    _check_folder(arguments, "check")
    with working("checked") as progress:
        checked = check(Path(arguments.path), progress)
    if arguments.json:
        show_json({**asdict(checked), "whole": checked.is_whole})
        return 0 if checked.is_whole else 1
    verdict = "whole" if checked.is_whole else "damaged"
    records, segments = counted(checked.records, "record"), counted(checked.segments, "segment")
    say(f"{checked.path}: {verdict}, {records} in {segments} read")
    for problem in checked.problems:
        say(f"  {problem}")
    _say_missing(checked.missing)
    if checked.tail:
        say(
            f"  behind its end lie {size(checked.tail)} of records that were not answered: no damage; the next opening "
            "makes them durable or cuts them off"
        )
    if not checked.is_whole:
        say(f"  restore it from a copy, or save what is whole: rtmw log salvage {checked.path} -o FOLDER")
    return 0 if checked.is_whole else 1


def _say_missing(missing: list[Missing]) -> None:
    for lost in missing:
        say(f"  missing: positions {lost.start} up to {lost.end} ({size(lost.end - lost.start)}): {lost.why}")


def salvage_command(arguments: argparse.Namespace) -> int:
    """Status 0 also when something is missing: what, is said."""
    _check_folder(arguments, "salvage")
    with working("saved") as progress:
        saved = salvage(Path(arguments.path), Path(arguments.output), progress)
    if arguments.json:
        show_json(asdict(saved))
        return 0
    say(f"{saved.target}: {counted(saved.records, 'record')}, at new positions")
    _say_missing(saved.missing)
    if not saved.missing:
        say("  nothing is missing")
    return 0


def trim_command(arguments: argparse.Namespace) -> int:
    """Removes the oldest records. Refuses where a cursor still needs them; --force overrides."""
    before = start_of(arguments.before)
    with working("trimmed"), open_log(arguments) as log:
        position = before if isinstance(before, int) else None
        slow = [name for name, cursor in log.cursors().items() if position is None or cursor.position < position]
        if slow and not arguments.force:
            raise CommandError(
                f"{arguments.path}: the cursor {slow[0]!r} may want records before that; --force trims all the same"
            )
        was = log.stats().earliest
        start = log.trim(before if not isinstance(before, rtmw.Start) else 0)
    if arguments.json:
        show_json({"path": arguments.path, "start": start, "removed": start - was})
    else:
        say(f"{arguments.path}: begins at {start}; {size(start - was)} of records were removed")
    return 0


def export_command(arguments: argparse.Namespace) -> int:
    done = 0
    with working("exported") as progress, ExitStack() as stack:
        log = stack.enter_context(open_log(arguments))
        file: IO[str] = sys.stdout
        if arguments.jsonl != STANDARD_OUTPUT:
            file = stack.enter_context(Path(arguments.jsonl).open("x"))
        end = log.end
        records = log.read(start_of(arguments.start))
        while some := [_json_line(log, record) for record in islice(records, AT_ONCE)]:
            file.write("".join(some))
            done += len(some)
            progress(records.position, end)
    if arguments.jsonl != STANDARD_OUTPUT:
        if arguments.json:
            show_json({"path": arguments.jsonl, "records": done})
        else:
            say(f"{arguments.jsonl} has {counted(done, 'record')}")
    return 0
