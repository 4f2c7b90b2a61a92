"""`rtmw log`: look into durable logs, append to them, check and save them, trim and export them.

A log is a folder, or with `--node` a name, under which nodes keep it; what only files can tell is said to be so.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Final

import rtmw
from rtmw.cli.common import CommandError
from rtmw.cli.endings import ends_in_order
from rtmw.cli.parsing import ANY_OF, Commands, add_place, count, moment, natural, rate, runs, seconds
from rtmw.cli.terminal import Cell, Table, counted, duration, in_percent, line, say, show, show_json, size, warn
from rtmw.cli.values import lines, parse, to_json, to_plain
from rtmw.clock import CLOCK
from rtmw.errors import LogError, UnsupportedType
from rtmw.log import (
    Folder,
    Missing,
    bases,
    check,
    cursor_names,
    holder_of,
    holder_of_cursor,
    index,
    look_into,
    salvage,
    segment,
)
from rtmw.log.check import Progress
from rtmw.types import carried_type, from_description, shown_name
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
    "replay": ("log:add_replay", "publish the records of a log again, each at its time"),
}


def add_list(parser: argparse.ArgumentParser) -> None:
    runs(parser, list_command, domain=False)
    parser.add_argument("paths", nargs="*", metavar="FOLDER", default=["."], help="default: this one")
    add_place(parser, f"[log] listen of the node: {ANY_OF}")


def add_info(parser: argparse.ArgumentParser) -> None:
    _begin(parser, info_command)


def add_tail(parser: argparse.ArgumentParser) -> None:
    _begin(parser, tail_command)
    parser.add_argument("-n", "--count", type=natural, default=10, help="how many (default 10)")
    _add_start(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="and all that come, until Ctrl-C")
    parser.add_argument("--most", type=count, help="end after so many")


def add_append(parser: argparse.ArgumentParser) -> None:
    _begin(parser, append_command)
    parser.add_argument("value", help="JSON for the type of the log; text where it is one of bytes or str")
    parser.add_argument("--key", help="text that readers find with the record")
    parser.add_argument("--id", help="text; an append with the same id is not made again")


def add_check(parser: argparse.ArgumentParser) -> None:
    _begin(parser, check_command)


def add_salvage(parser: argparse.ArgumentParser) -> None:
    _begin(parser, salvage_command)
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="must not exist")


def add_trim(parser: argparse.ArgumentParser) -> None:
    _begin(parser, trim_command)
    parser.add_argument("before", type=beginning, metavar="BEFORE", help="a position, or date and time (UTC)")
    parser.add_argument("--force", action="store_true", help="also what a cursor has not passed")


def add_export(parser: argparse.ArgumentParser) -> None:
    _begin(parser, export_command)
    _add_start(parser)
    parser.add_argument("--jsonl", required=True, metavar="FILE", help="- for standard output")


def _begin(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int], *, domain: bool = False) -> None:
    runs(parser, run, domain=domain)
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
    keys = arguments.keys
    return rtmw.Log.connect(
        arguments.path, kind, nodes=arguments.node, keys=keys, insecure=keys is None, timeout=PATIENCE_S
    )


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
        position = log.end
        records: Iterable[rtmw.LogRecord[Any]] = log.read(start_of(arguments.start))
        if arguments.start is None:
            records = deque(records, maxlen=arguments.count)
        if arguments.follow:
            records = chain(records, log.read(position, follow=True))
        for record in islice(records, arguments.most):
            _print(log, record, arguments.json)
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


# ---- info and list: facts about a log, and the picture of its segments and cursors ----

WIDTH: Final = 64
"""Characters of the picture."""


@dataclass(frozen=True)
class SegmentInfo:
    """A file of records."""

    base: int
    end: int
    """Position behind the segment's last durable record."""
    size: int
    records: int | None
    """None: it has no index, as the last one never has."""
    earliest_ns: int | None
    latest_ns: int | None
    compacted: int
    """Bytes of its records that compaction has removed."""

    @property
    def seconds(self) -> float | None:
        """Seconds from the first record to the last one; None: it is not known."""
        if self.earliest_ns is None or self.latest_ns is None:
            return None
        return (self.latest_ns - self.earliest_ns) / 1e9


@dataclass(frozen=True)
class CursorInfo:
    name: str
    position: int
    behind: int
    idle_s: float
    """Seconds since it was opened or committed."""
    holder: str | None


@dataclass(frozen=True)
class LogInfo:
    path: str
    type: str
    start: int
    end: int
    disk: int
    """Bytes of its segments and of the spare."""
    writer: str | None
    segments: list[SegmentInfo]
    cursors: list[CursorInfo]

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def is_log(path: Path) -> bool:
    """Whether this folder has a file that says so."""
    try:
        with (path / "log").open("rb") as file:
            return file.read(8) == b"RTMWLOG\0"
    except OSError:
        return False


def info_of(path: Path) -> LogInfo:
    """Changes nothing. FileNotFoundError, LogError, LogDamaged."""
    with look_into(path) as folder:
        start, end = folder.bounds()
        all = [base for base in bases(folder) if base >= start]
        following = [*all[1:], end]
        segments = [_segment(folder, base, next) for base, next in zip(all, following, strict=True)]
        cursors = [_cursor(folder, name, end) for name in cursor_names(folder)]
        name = shown_name(from_description(folder.description).name)
        known = [cursor for cursor in cursors if cursor is not None]
        writer = holder_of(folder.descriptor)
        if folder.is_replicated:
            writer = f"the nodes of a replicated log, of which it is a copy; {writer or 'its node does not run'}"
        return LogInfo(folder.path, name, start, end, folder.segments()[1], writer, segments, known)


def remote_info(log: rtmw.Log[Any]) -> LogInfo:
    """Returns what the nodes of a replicated log tell. It has no segments: each node has its own."""
    stats, now = log.stats(), CLOCK.wall_ns()
    cursors = [
        CursorInfo(name, one.position, one.behind, max(0.0, (now - one.time_ns) / 1e9), one.holder)
        for name, one in log.cursors().items()
    ]
    name = shown_name(log.type.name)
    return LogInfo(str(log.path), name, stats.earliest, stats.end, stats.disk, "its nodes", [], cursors)


def _segment(folder: Folder, base: int, end: int) -> SegmentInfo:
    bytes, _, _, _, removed = segment(folder.path, folder.descriptor, folder.uuid, base)
    found = index(folder.path, folder.descriptor, folder.uuid, base)
    records, earliest, latest = found or (None, None, None)
    return SegmentInfo(base, end, bytes, records, earliest, latest, removed)


def _cursor(folder: Folder, name: str, end: int) -> CursorInfo | None:
    found = folder.cursor(name)
    if found is None:  # deleted meanwhile
        return None
    idle = max(0.0, (CLOCK.wall_ns() - found[1]) / 1e9)
    return CursorInfo(name, found[0], max(0, end - found[0]), idle, holder_of_cursor(folder, name))


def picture(info: LogInfo) -> list[str]:
    """A bar with the log's segments, and a line with the place of each cursor."""
    room = max(info.segments[-1].base + info.segments[-1].size, info.end) if info.segments else info.end
    span = max(room - info.start, 1)

    def column(position: int) -> int:
        return min(WIDTH - 1, max(0, (position - info.start) * WIDTH // span))

    bar = ["#" if column(info.end) > at else "." for at in range(WIDTH)]
    for found in info.segments:
        bar[column(found.base)] = "|"
    shown = ["".join(bar) + f"  {info.start} to {info.end}"]
    for cursor in info.cursors:
        held = f", held by {cursor.holder}" if cursor.holder else f", idle for {duration(cursor.idle_s)}"
        shown.append(" " * column(cursor.position) + f"^ {cursor.name}: {size(cursor.behind)} behind{held}")
    return shown


def show_info(info: LogInfo) -> None:
    parts = f"{counted(len(info.segments), 'segment')}, " if info.segments else ""
    head = [
        f"{info.path}: log of {info.type}, {parts}{size(info.disk)} on the disk",
        f"written by {info.writer}" if info.writer else "nobody writes",
        *picture(info),
    ]
    if not info.segments:  # of nodes, each of which has its own
        say(*head)
        return
    gone = sum(found.compacted for found in info.segments)
    if gone:
        head.insert(2, f"compaction has removed {size(gone)} of {size(info.end - info.start)} of records")
    rows: list[list[Cell]] = []
    for found in info.segments:
        seconds = found.seconds or None
        rate = found.records / seconds if seconds and found.records else None
        speed = f"{size((found.end - found.base - found.compacted) / seconds)}/s" if seconds else None
        removed = size(found.compacted) if found.compacted else None
        rows.append([found.base, found.end, size(found.size), removed, found.records, duration(seconds), rate, speed])
    titles = ("from", "up to", "file", "compacted", "records", "time", "records/s", "bytes/s")
    show(Table(head[0], titles, rows, head[1:]))


# ---- replay: each record so long after the first as it was appended after it ----

BLOCKING_S: Final = 1.0
DEPTH: Final = 4096


def add_replay(parser: argparse.ArgumentParser) -> None:
    _begin(parser, replay_command, domain=True)
    parser.add_argument(
        "--topic", metavar="TOPIC", help="where to (default: each record's key, as `rtmw log store` has it)"
    )
    parser.add_argument("--rate", type=rate, default=1.0, metavar="N", help="times real time; max: as fast as taken")
    _add_start(parser)
    parser.add_argument(
        "--wait", type=natural, default=0, metavar="N", help="first wait until each topic has N subscribers"
    )
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="to wait for them (default: for ever)")


def replay_command(arguments: argparse.Namespace) -> int:
    """Publishes to the end that the log has now."""
    with ends_in_order(), ExitStack() as open_:
        try:
            with open_log(arguments) as log:  # of a type without its class: payloads pass through as they are
                kind: Any = carried_type(log.type.description)
            log = open_.enter_context(open_log(arguments, kind))
        except (OSError, ValueError) as error:
            raise CommandError(str(error)) from None
        player = _Player(arguments, kind, open_)
        try:
            for record in log.read(start_of(arguments.start)):
                player.play(record)
        except ValueError as error:
            raise CommandError(str(error)) from None
        finally:
            player.report()
    return 0


class _Player:
    """Has a publisher for each topic."""

    def __init__(self, arguments: argparse.Namespace, kind: Any, open_: ExitStack) -> None:
        self._arguments, self._kind, self._open = arguments, kind, open_
        self._publishers: dict[str, rtmw.Publisher[Any]] = {}
        self._first: tuple[int, float] | None = None
        self.messages = self.bytes = 0

    def play(self, record: rtmw.LogRecord[Any]) -> None:
        """Publishes a record at its time. It waits for a RELIABLE subscriber whose queue is full."""
        publisher = self._publisher(self._topic(record))
        self._wait(record.time_ns)
        value = record.value
        while not publisher.publish(value):
            if publisher.stats().exhausted and not publisher.subscribers:
                raise CommandError(f"The pool of domain {self._arguments.domain} has no room for this message.")
        self.messages += 1
        self.bytes += len(record.data)

    def _topic(self, record: rtmw.LogRecord[Any]) -> str:
        topic = self._arguments.topic or record.key
        if not isinstance(topic, str):
            raise CommandError(
                f"The record at {record.position} has no topic for a key ({record.key!r}): name one with --topic."
            )
        return topic

    def _publisher(self, topic: str) -> rtmw.Publisher[Any]:
        if topic not in self._publishers:
            made: rtmw.Publisher[Any] = rtmw.Publisher(
                topic,
                self._kind,
                domain=self._arguments.domain,
                reliability=rtmw.Reliability.RELIABLE,
                depth=DEPTH,
                max_blocking=BLOCKING_S,
            )
            self._publishers[topic] = self._open.enter_context(made)
            self._await_subscribers(made, topic)
        return self._publishers[topic]

    def _await_subscribers(self, publisher: rtmw.Publisher[Any], topic: str) -> None:
        wanted, timeout = self._arguments.wait, self._arguments.timeout
        if wanted and not publisher.wait_for_subscribers(wanted, timeout):
            raise CommandError(f"{topic} does not have {counted(wanted, 'subscriber')} after {timeout:g} s.")

    def _wait(self, time_ns: int) -> None:
        """Times may go back, where the clock did: such a record is published at once."""
        now = CLOCK.monotonic()
        if self._first is None:
            self._first = time_ns, now
        elif self._arguments.rate is not None:
            first_ns, began = self._first
            due = began + (time_ns - first_ns) / 1e9 / self._arguments.rate
            time.sleep(max(0.0, due - now))

    def report(self) -> None:
        if self._arguments.json:
            show_json({"published": self.messages, "bytes": self.bytes, "topics": sorted(self._publishers)})
        else:
            say(f"published {counted(self.messages, 'message')}, {size(self.bytes)}")
