"""`rtmw transfers`: what the core of a host has, live, and what people do with it."""

from __future__ import annotations

import argparse
import codecs
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

import rtmw
from rtmw.cli.common import CommandError, attach_served
from rtmw.cli.parsing import Commands, add_commands, count, runs, seconds
from rtmw.cli.terminal import Table, counted, duration, live, say, show, show_json, size, warn, windows
from rtmw.clock import CLOCK
from rtmw.errors import TransferRefused
from rtmw.recording.places import STANDARD_OUTPUT
from rtmw.transfer.address import Address
from rtmw.transfer.client.viewer import Viewer
from rtmw.transfer.header import File, Kind, unpack_body
from rtmw.transfer.place import Place
from rtmw.transfer.records import TransferId

_GONE: Final = "its node has gone"
COLUMNS: Final = (
    "id", "to", "from", "state", "delivery", "kind", "bytes", "progress", "priority", "retries", "taken by", "why",
)  # fmt: skip
ROWS: Final = 40
"""Rows of each table of transfers with --watch."""
MOST_SHOWN: Final = 4096
"""Bytes of a body on a terminal."""
EVENTS: Final = 10
"""The last ones, which are shown."""
PAPER: Final = (
    "index", "udtype", "flag", "pid", "txId", "nNextRead", "nNextWrite", "timeout", "bufHead", "bufTail", "bufNum",
)  # fmt: skip


COMMANDS: Final[Commands] = {
    "cancel": ("transfers:add_cancel", "end transfers that nobody has taken yet, and dead letters"),
    "retry": ("transfers:add_retry", "put dead letters in their places again, for any receiver"),
    "info": ("transfers:add_info", "show all that the core knows of transfers"),
    "body": ("transfers:add_body", "show what a transfer carries, without taking it"),
    "restored": (
        "transfers:add_restored",
        "say that the data of a node that does not run was set back, by a snapshot of its disk: ids begin anew",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    runs(parser, show_command)
    parser.add_argument("--watch", action="store_true", help="again and again, with rates, until q or Ctrl-C")
    parser.add_argument("--queues", action="store_true", help="the queues, and each item with its eleven fields")
    parser.add_argument("--window", type=seconds, default=1.0, help="seconds to measure over, for --watch (default 1)")
    parser.add_argument("--count", type=count, help="windows to show, for --watch (default: until q or Ctrl-C)")
    add_commands(parser, COMMANDS, required=False)


def add_cancel(parser: argparse.ArgumentParser) -> None:
    runs(parser, cancel_command)
    _add_chosen(parser)


def add_retry(parser: argparse.ArgumentParser) -> None:
    runs(parser, retry_command)
    _add_chosen(parser)


def _add_chosen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="as `rtmw transfers` shows it")
    parser.add_argument("--service", metavar="SERVICE", help="instead of IDs: the dead letters of this service")
    help = "instead of IDs: the dead letters whose why has these words, just so"
    parser.add_argument("--cause", metavar="WORDS", help=help)


def add_info(parser: argparse.ArgumentParser) -> None:
    runs(parser, info_command)
    parser.add_argument("ids", nargs="+", metavar="ID", help="as `rtmw transfers` shows it")


def add_body(parser: argparse.ArgumentParser) -> None:
    runs(parser, body_command)
    parser.add_argument("id", metavar="ID", help="as `rtmw transfers` shows it")
    parser.add_argument("--part", type=count, metavar="N", help="of a composite: this part alone, from 1")
    parser.add_argument("--raw", metavar="FILE", help="write the bytes to a new file, or with - to standard output")


def add_restored(parser: argparse.ArgumentParser) -> None:
    runs(parser, restored_command)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="`data` of the node")


@contextmanager
def viewing(arguments: argparse.Namespace) -> Generator[Viewer]:
    try:
        with attach_served(arguments.domain) as domain, Viewer(domain) as viewer:
            yield viewer
    except TimeoutError as error:
        raise CommandError(str(error)) from None


def show_command(arguments: argparse.Namespace) -> int:
    """Print what is there, once or again and again."""
    with viewing(arguments) as viewer:
        if arguments.watch:
            return _watch(viewer, arguments)
        found, full = viewer.show("queues" if arguments.queues else "transfers"), viewer.full
    if arguments.json:
        show_json({**found, "full": full})
        return 0
    for table in queue_tables(found) if arguments.queues else tables(found):
        show(table)
    for words in [] if arguments.queues else event_lines(found, EVENTS):
        say(words)
    if full:
        say(f"For want of room, not all is accepted: {full}.")
    return 0


def _watch(viewer: Viewer, arguments: argparse.Namespace) -> int:
    what = "queues" if arguments.queues else "transfers"
    before, then = viewer.show(what), CLOCK.monotonic()
    with live() as display:
        for _ in windows(arguments.window, arguments.count):
            found, now = viewer.show(what), CLOCK.monotonic()
            if arguments.json:
                show_json(found if arguments.queues else {**found, "rates": rates(before, found, now - then)})
            elif arguments.queues:
                display.update(queue_tables(found)[0])
            else:
                display.update(watch_table(found, rates(before, found, now - then)))
            before, then = found, now
    return 0


def rates(before: dict[str, Any], found: dict[str, Any], seconds: float) -> dict[str, float]:
    """Transfers a second, by what has become of them. After a restart of the core its counters may be smaller."""
    names = ("accepted", "consumed", "failed", "redelivered")
    return {name: max(0, found["counters"][name] - before["counters"][name]) / seconds for name in names}


# ---- tables ----


def title(found: dict[str, Any]) -> str:
    counters = found["counters"]
    doubled = len(found["transfers"]) + found["more"] - counters["parked"]
    number = counted(counters["parked"], "transfer")
    number += f" ({doubled} in two rows: from this node to itself)" if doubled > 0 else ""
    words = [
        f"Node {found['node']}: {number}, {size(counters['body_bytes'])} in the core",
        f"{counters['consumed']} consumed, {counters['failed']} failed",
    ]
    words += [counted(counters["dead"], "dead letter")] if counters["dead"] else []
    words += [f"{counters['redelivered']} redelivered"] if counters["redelivered"] else []
    return ", ".join(words + _not_shown(found))


def _not_shown(found: dict[str, Any]) -> list[str]:
    return [f"{found['more']} more are not shown"] if found["more"] else []


def tables(found: dict[str, Any]) -> list[Table]:
    """Transfers, and if there are any, bodies on their way to the core, and open transactions."""
    shown = [Table(title(found), COLUMNS, [_row(one) for one in found["transfers"]])]
    if found["arriving"]:
        rows = [
            (one["from"], one["to"], size(one["got"]), size(one["bytes"]), _GONE if one["waits"] else None)
            for one in found["arriving"]
        ]
        shown.append(Table("On their way to the core", ("from", "to", "has come", "of", ""), rows))
    if found["transactions"]:
        columns = ("TxnID", "State", "LastLSN", "UndoNxtLSN", "SaveList", "from", "pid", "records", "bytes", "age")
        shown.append(Table("Open transactions", columns, [_transaction(one) for one in found["transactions"]]))
    return shown


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    why = one["cause"] or (f"in transaction {one['transaction']}" if one["transaction"] else None)
    return (
        one["id"], one["to"], one["from"], one["state"], one["delivery"], one["kind"], size(one["bytes"]),
        _progress(one), one["priority"], one["retries"] or None, one["taker"], why,
    )  # fmt: skip


def _progress(one: dict[str, Any]) -> str | None:
    """Says how much of a transfer has been sent to another node; None: it is not on its way there, or all is there."""
    if one["sent"] is None or one["state"] != "ACCEPTED":
        return None
    rate = f", {size(one['rate'])}/s" if one["rate"] is not None else ""
    is_shut = one["limit"] is not None and one["limit"] <= one["sent"] < one["bytes"]
    window = ", window shut" if is_shut else ""
    return f"{size(one['sent'])}, {100 * one['sent'] // max(one['bytes'], 1)} %{rate}{window}"


def _transaction(one: dict[str, Any]) -> tuple[Any, ...]:
    saves = ", ".join(one["SaveList"]) or None
    numbers = one["TxnID"], one["State"], one["LastLSN"], one["UndoNxtLSN"], saves, one["from"], one["pid"]
    return (*numbers, one["records"], size(one["bytes"]), duration(one["age"]))


def watch_table(found: dict[str, Any], a_second: dict[str, float]) -> Table:
    """Returns the table that --watch replaces again and again: rates, open transactions and events stand above it."""
    words = [", ".join(f"{rate:.0f}/s {name}" for name, rate in a_second.items())]
    words += [
        f"transaction {one['TxnID']} of {one['from']}: {one['State']}, {one['records']} records, {duration(one['age'])}"
        for one in found["transactions"][:EVENTS]
    ]
    words += [f"{one['from']} → {one['to']}: {size(one['got'])} of {size(one['bytes'])}" for one in found["arriving"]]
    words += event_lines(found, EVENTS)
    return Table(title(found), COLUMNS, [_row(one) for one in found["transfers"][:ROWS]], words)


def event_lines(found: dict[str, Any], most: int) -> list[str]:
    """The last failures, a sentence each."""
    lines: list[str] = []
    for event in found["events"][-most:]:
        when = time.strftime("%H:%M:%S", time.localtime(event["time_ns"] / 1e9))
        cause = f", {event['cause']}" if event["cause"] else ""
        lines.append(f"{when} {_about(event)}: {event['what']}{cause}")
    return lines


def _about(event: dict[str, Any]) -> str:
    if event["to"]:
        return f"transfer {event['id']} from {event['sender']} to {event['to']}"
    if event["id"]:
        return f"transaction {event['id']} of {event['sender'] or 'a program'}"
    return "the store of the core" if event["what"] == "RESTORED" else "the disk of the core"


def queue_tables(found: dict[str, Any]) -> list[Table]:
    """The queues, and their items under the paper's names."""
    queues = [
        (
            row["queue"], row["transfers"], size(row["bytes"]), row["receivers"],
            ", ".join(f"{number} {state}" for state, number in row["states"].items()) or None,
        )
        for row in found["queues"]
    ]  # fmt: skip
    items = [tuple(item[name] for name in PAPER) for item in found["items"]]
    return [
        Table(counted(len(queues), "queue"), ("queue", "transfers", "bytes", "receivers", "states"), queues),
        Table(", ".join([counted(len(items), "item"), *_not_shown(found)]), PAPER, items),
    ]


# ---- what people do ----


def cancel_command(arguments: argparse.Namespace) -> int:
    """Cancels each transfer, or says in a sentence why it cannot; status 1: not all were cancelled."""
    return _alter(arguments, "cancelled", Viewer.cancel)


def retry_command(arguments: argparse.Namespace) -> int:
    """Tries each dead letter again, or says in a sentence why it cannot; status 1: not all were tried."""
    return _alter(arguments, "tried again", Viewer.retry)


def restored_command(arguments: argparse.Namespace) -> int:
    """Raises LogLocked: its core runs; CommandError: there are no transfers."""
    folder: Path = arguments.folder
    try:
        with rtmw.Log(folder / "log", create=False) as log:
            log.trim(0)  # takes its lock
            Place(folder).forget()
    except FileNotFoundError as error:
        raise CommandError(str(error)) from None
    say(f"{folder}: its next start begins a new incarnation of its ids.")
    return 0


def _alter(arguments: argparse.Namespace, done: str, act: Callable[[Viewer, TransferId], object]) -> int:
    ids, failed = list[TransferId](), dict[str, str]()
    with viewing(arguments) as viewer:
        for id in _meant(viewer, arguments):
            ids.append(id)
            try:
                act(viewer, id)
            except TransferRefused as error:
                failed[str(id)] = str(error)
                continue
            if not arguments.json:
                say(f"{id} is {done}.")
    if arguments.json:
        show_json([{"id": str(id), "done": str(id) not in failed, "cause": failed.get(str(id), "")} for id in ids])
    else:
        if not ids:
            say("No dead letter is meant by that; `rtmw transfers` shows them, each with its service and why.")
        for why in failed.values():
            warn(f"rtmw: {why}")
    return int(bool(failed))


def _meant(viewer: Viewer, arguments: argparse.Namespace) -> Iterator[TransferId]:
    """Yields the transfers that are named; or the dead letters of a service, or with a cause, or both, that are
    there at first."""
    is_chosen = arguments.service is not None or arguments.cause is not None
    if is_chosen == bool(arguments.ids):
        raise CommandError("name transfers by their IDs, or dead letters by --service, --cause or both.")
    if "" in (arguments.service, arguments.cause):
        raise CommandError("an empty --service or --cause would mean all dead letters; name a service, or words.")
    yield from _ids(arguments.ids)
    known: set[str] = set()
    while is_chosen:
        new = [one for one in viewer.show("dead") if one["id"] not in known]
        known.update(one["id"] for one in new)
        for one in new:
            is_of_it = arguments.service in (None, Address.parse(one["to"]).service)
            if is_of_it and (arguments.cause or "") in one["cause"]:
                yield TransferId.parse(one["id"])
        is_chosen = bool(new)


def info_command(arguments: argparse.Namespace) -> int:
    """All fields, those of the paper, too."""
    ids = _ids(arguments.ids)
    with viewing(arguments) as viewer:
        found = [viewer.show(f"info {id}") for id in ids]
    if arguments.json:
        show_json(found)
        return 0
    for one in found:
        show(Table(one["id"], ("field", "value"), [(name, _shown(value)) for name, value in one.items()]))
    return 0


def body_command(arguments: argparse.Namespace) -> int:
    """Prints a transfer's bytes, as text where they are one; for files, where they lie."""
    (id,) = _ids([arguments.id])
    with viewing(arguments) as viewer:
        try:
            kind, file = viewer.body(id)
        except TransferRefused as error:
            raise CommandError(str(error)) from None
    with file:
        if kind is Kind.BUF and arguments.part is None:
            return _show_part(id, file, arguments)
        content = unpack_body(kind, file.read())
    parts: tuple[bytes | File, ...] = content if isinstance(content, tuple) else (content,)
    if arguments.part is None:
        return _show_parts(id, kind, parts, arguments)
    number: int = arguments.part
    if number > len(parts):
        raise CommandError(f"{id} has {counted(len(parts), 'part')}, and no part {number}")
    part = parts[number - 1]
    if isinstance(part, File):
        raise CommandError(f"part {number} of {id} is a file, which lies at {part.source}")
    return _show_part(id, BytesIO(part), arguments)


def _show_part(id: TransferId, file: IO[bytes], arguments: argparse.Namespace) -> int:
    if arguments.raw == STANDARD_OUTPUT:
        shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    elif arguments.raw:
        try:
            with Path(arguments.raw).open("xb") as written:
                shutil.copyfileobj(file, written)
        except FileExistsError:
            raise CommandError(f"{arguments.raw} is there already; name a new file") from None
        except OSError as error:
            raise CommandError(f"{arguments.raw} cannot be written: {error.strerror}") from None
    elif arguments.json:
        show_json({"id": str(id), "body": file.read()})
    else:
        for line in body_lines(file.read(MOST_SHOWN), is_all=not file.read(1)):
            say(line)
    return 0


def _show_parts(id: TransferId, kind: Kind, parts: Sequence[bytes | File], arguments: argparse.Namespace) -> int:
    if arguments.raw:
        raise CommandError(f"{id} is a {kind.name}: name one of its parts, as --part 1")
    rows = [_part_row(number, part) for number, part in enumerate(parts, 1)]
    if arguments.json:
        show_json({"id": str(id), "kind": kind.name, "parts": parts})
    else:
        show(Table(f"{id}: {kind.name}, {counted(len(parts), 'part')}", ("part", "what", "size", "to"), rows))
    return 0


def _part_row(number: int, part: bytes | File) -> tuple[Any, ...]:
    if isinstance(part, File):
        return number, part.source, None, part.destination or Path(part.source).name
    return number, "bytes", size(len(part)), None


def body_lines(data: bytes, is_all: bool) -> Iterator[str]:
    """Yields the lines of a body: as text if all of it can be printed, else sixteen bytes a line."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, is_all)
    except UnicodeDecodeError:
        text = "\0"
    if text.replace("\n", "").replace("\t", "").isprintable():
        yield from text.removesuffix("\n").split("\n")
    else:
        for at in range(0, len(data), 16):
            row = data[at : at + 16]
            printed = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            yield f"{at:08x}  {row.hex(' '):47}  {printed}"
    if not is_all:
        yield f"… these are the first {size(len(data))}; --raw FILE writes all of it"


def _shown(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _ids(written: Sequence[str]) -> list[TransferId]:
    try:
        return [TransferId.parse(one) for one in written]
    except ValueError as error:
        raise CommandError(str(error)) from None
