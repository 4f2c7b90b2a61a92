"""`rtmw recording`: look into recordings, repair, cut, merge and export them, and ask them in SQL."""

from __future__ import annotations

import argparse
import base64
import errno
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from rtmw.cli.common import CommandError
from rtmw.cli.parsing import Commands, runs
from rtmw.cli.sources import (
    PARTLY,
    add_paths,
    add_section,
    add_strict,
    over_readable,
    partly,
    tell_left_out,
    tell_parts,
)
from rtmw.cli.terminal import (
    Cell,
    Table,
    counted,
    duration,
    in_percent,
    line,
    reencode,
    say,
    show,
    show_json,
    size,
    warn,
)
from rtmw.errors import NotInstalled, RecordingDamaged, RecordingError, needed
from rtmw.recording.files import find_recording, find_recordings, recovered_of
from rtmw.recording.places import STANDARD_OUTPUT, is_remote, place, written_whole
from rtmw.recording.recording import Recording
from rtmw.recording.recordings import info as info_of
from rtmw.recording.tools.check import Checked
from rtmw.recording.tools.check import check as check_recording
from rtmw.recording.tools.copying import (
    Additions,
    Progress,
    Section,
    Written,
    attach_to,
    attachment_named,
    extract_to,
    metadata_named,
)
from rtmw.recording.tools.copying import cut as cut_recording
from rtmw.recording.tools.copying import merge as merge_recordings
from rtmw.recording.tools.info import RecordingInfo, RunInfo, TopicInfo, run_of
from rtmw.recording.tools.recover import Lost, Recovered
from rtmw.recording.tools.recover import recover as recover_recording
from rtmw.text.patterns import is_meant
from rtmw.text.strict_json import as_json

if TYPE_CHECKING:
    import pyarrow as pa

    from rtmw.recording.frames.scan import Planned


TOPIC_COLUMNS: Final = ("topic", "type", "messages", "msg/s", "missing")


COMMANDS: Final[Commands] = {
    "info": ("recording:add_info", "show what is in recordings, from their index"),
    "check": (
        "recording:add_check",
        "read all of recordings, and compare it with every CRC and index; status 1: damaged",
    ),
    "recover": ("recording:add_recover", "write all that is whole of a cut or damaged recording as a complete one"),
    "cut": ("recording:add_cut", "write some topics, or some time, of a recording as a new one"),
    "merge": ("recording:add_merge", "write several recordings as one, in the order of their times"),
    "convert": ("recording:add_convert", "write a bag of ROS 2 in SQLite (.db3) as a recording"),
    "extract": (
        "recording:add_extract",
        "write an attachment as a file, or print metadata; without a name: list both",
    ),
    "attach": ("recording:add_attach", "write a recording anew, with more attachments and metadata"),
    "export": ("recording:add_export", "write messages as columns, for other programs"),
    "ingest": (
        "recording:add_ingest",
        "add recordings to tables that last, of Delta Lake or Parquet; each message once",
    ),
    "images": ("recording:add_images", "write images as files: raw ones as PNG, compressed ones as they are"),
    "sql": ("recording:add_sql", "ask recordings in SQL, with DuckDB: each topic is a table"),
}


def add_info(parser: argparse.ArgumentParser) -> None:
    runs(parser, info, domain=False)
    add_paths(parser)


def add_check(parser: argparse.ArgumentParser) -> None:
    runs(parser, check, domain=False)
    add_paths(parser)


def add_recover(parser: argparse.ArgumentParser) -> None:
    runs(parser, recover, domain=False)
    parser.add_argument("path", metavar="PATH")
    add_strict(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", metavar="FILE", help="default: PATH with .recovered.mcap at its end")
    where.add_argument("--in-place", action="store_true", help="put it in the place of the damaged one")


def add_cut(parser: argparse.ArgumentParser) -> None:
    runs(parser, cut, domain=False)
    parser.add_argument("path", metavar="PATH")
    _add_part(parser)
    _add_output(parser)


def add_merge(parser: argparse.ArgumentParser) -> None:
    runs(parser, merge, domain=False)
    add_paths(parser)
    add_strict(parser)
    _add_part(parser)
    _add_output(parser)


def add_convert(parser: argparse.ArgumentParser) -> None:
    runs(parser, convert, domain=False)
    parser.add_argument("path", metavar="PATH")
    _add_output(parser, compression="lz4")


def add_export(parser: argparse.ArgumentParser) -> None:
    runs(parser, export, domain=False)
    add_paths(parser)
    add_strict(parser)
    _add_part(parser)
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--parquet", metavar="FOLDER", help="partitioned by topic and hour")
    form.add_argument("--csv", metavar="FILE", help="of one topic; - for standard output")
    form.add_argument("--jsonl", metavar="FILE", help="one JSON object a message; - for standard output")


def add_images(parser: argparse.ArgumentParser) -> None:
    runs(parser, images, domain=False)
    add_paths(parser)
    add_strict(parser)
    _add_part(parser)
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="must not exist")


def _add_part(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topics", nargs="+", metavar="PATTERN", help="default: all")
    add_section(parser)


def _add_output(parser: argparse.ArgumentParser, compression: str = "as it was") -> None:
    parser.add_argument("--compression", choices=("lz4", "zstd", "none"), help=f"default: {compression}")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="must not exist")


def info(arguments: argparse.Namespace) -> int:
    """Show what is in each recording, and in all of them as one run; status 3 if some of them are none, 1 if all."""
    known = list[RecordingInfo]()
    with working("look into") as (found, _):
        paths = found(arguments.paths)
        for path in paths:
            try:
                facts = info_of(path)
            except (RecordingError, FileNotFoundError) as error:
                warn(f"rtmw: {_sentence(error) if isinstance(error, OSError) else error}")
                continue
            known.append(facts)
            if arguments.json:
                show_json({**asdict(facts), "path": str(path), "seconds": facts.seconds})
            else:
                _show_info(facts)
        if len(known) > 1:
            _show_run(run_of(known), arguments.json)
    return partly(len(paths) - len(known), len(paths))


def check(arguments: argparse.Namespace) -> int:
    """Status 1 if one of the recordings is damaged; else 3 if one has no end, and is whole as far as it goes."""
    every = list[Checked]()
    with working("checked") as (found, progress):
        for path in found(arguments.paths):
            checked = check_recording(path, progress)
            every.append(checked)
            if arguments.json:
                show_json({**asdict(checked), "path": str(path), "whole": checked.is_whole})
            else:
                _show_checked(checked)
    if any(checked.problems for checked in every):
        return 1
    return 0 if all(checked.is_whole for checked in every) else PARTLY


def recover(arguments: argparse.Namespace) -> int:
    """Status 0 also when something was lost: what, is said. 3: of several, some could not be recovered."""
    with working("recovered") as (found, progress):
        sources = found([arguments.path])
        if len(sources) > 1:
            return _recover_each(sources, arguments, progress)
        (source,) = sources
        chosen = place(arguments.output) if arguments.output else recovered_of(source)
        recovered = recover_recording(source, None if arguments.in_place else chosen, progress)
    if arguments.json:
        show_json({**asdict(recovered), "source": str(recovered.source), "target": str(recovered.target)})
    else:
        _show_recovered(recovered, arguments.in_place)
    return 0


def _recover_each(sources: list[Path], arguments: argparse.Namespace, progress: Progress) -> int:
    """Recovers those of several recordings that are not whole; the others stay as they are."""
    if arguments.output:
        raise CommandError(f"-o {arguments.output} is one file, and {arguments.path} has {len(sources)} recordings")
    status = whole = 0
    for source in sources:
        if check_recording(source).is_whole:
            whole += 1
            continue
        try:
            recovered = recover_recording(source, None if arguments.in_place else recovered_of(source), progress)
        except (RecordingError, FileExistsError, FileNotFoundError) as error:
            if arguments.strict:
                raise
            tell_left_out(error)
            status = PARTLY
            continue
        if arguments.json:
            show_json({**asdict(recovered), "source": str(recovered.source), "target": str(recovered.target)})
        else:
            _show_recovered(recovered, arguments.in_place)
    if whole and not arguments.json:
        say(f"whole, and left as they are: {counted(whole, 'recording')}")
    return status


def cut(arguments: argparse.Namespace) -> int:
    with working("cut") as (_, progress):
        target, section = place(arguments.output), section_of(arguments)
        source = find_recording(arguments.path)
        tell_parts([source])
        written = cut_recording(source, target, section, progress, arguments.compression)
    return _say_written(arguments, written)


def merge(arguments: argparse.Namespace) -> int:
    with working("merged") as (found, progress):
        target, section = place(arguments.output), section_of(arguments)
        written, status = over_readable(
            found(arguments.paths),
            arguments.strict,
            lambda paths: merge_recordings(paths, target, progress, section, arguments.compression),
        )
    return _say_written(arguments, written) or status


def export(arguments: argparse.Namespace) -> int:
    target = arguments.parquet or arguments.csv or arguments.jsonl
    cut_short = list[str]()

    def damaged(error: RecordingDamaged) -> None:
        cut_short.append(error.path)
        tell_left_out(error)

    with working("exported") as (found, progress):
        messages, status = over_readable(
            found(arguments.paths),
            arguments.strict,
            lambda paths: _export(paths, target, arguments, progress, damaged if len(paths) > 1 else None),
        )
        status = PARTLY if cut_short else status
    if arguments.json and target != STANDARD_OUTPUT:
        show_json({"path": target, "messages": messages})
    elif target != STANDARD_OUTPUT:
        _say_has(target, Written(messages))
    return status


def _export(
    paths: list[Path],
    target: str,
    arguments: argparse.Namespace,
    progress: Progress,
    damaged: Callable[[RecordingDamaged], None] | None,
) -> int:
    """How many messages were written. `damaged`: of recordings whose rest is left out, since lines that are out cannot
    be taken back; a file is written anew without them."""
    from rtmw.recording.tools.export import export_lines, export_parquet  # which needs pyarrow

    section = section_of(arguments)
    if arguments.parquet:
        return sum(export_parquet(paths, place(target), section, progress).values())
    with _text_file(target) as file:
        leave_out = damaged if target == STANDARD_OUTPUT and not arguments.strict else None
        for path in paths if leave_out else ():
            with Recording(path) as recording:
                _ = recording.chunks  # an index that is damaged is found before a line is out
        return export_lines(paths, file, "csv" if arguments.csv else "jsonl", section, leave_out)


def convert(arguments: argparse.Namespace) -> int:
    from rtmw.recording.tools.convert import convert as convert_bag

    with working("converted") as (_, progress):
        source, target = Path(arguments.path), place(arguments.output)
        converted = convert_bag(source, target, arguments.compression or "lz4", progress)
    if arguments.json:
        show_json({"path": arguments.output, **asdict(converted)})
        return 0
    _say_has(arguments.output, Written(converted.messages))
    if converted.untyped:
        warn(f"rtmw: the bag does not say what these types are: {', '.join(converted.untyped)}")
    return 0


def images(arguments: argparse.Namespace) -> int:
    """Status 1 if there are images that cannot be written."""
    from rtmw.recording.tools.images import export_images

    with working("exported") as (found, progress):
        written, status = over_readable(
            found(arguments.paths),
            arguments.strict,
            lambda paths: export_images(paths, place(arguments.output), section_of(arguments), progress),
        )
    if arguments.json:
        show_json({"path": arguments.output, **asdict(written)})
        return int(written.left_out_count > 0) or status
    say(f"{arguments.output} has {counted(written.images.total(), 'image')}")
    for topic, count in sorted(written.images.items()):
        say(f"  {topic}: {count}")
    if written.left_out_count:
        say(f"  left out: {counted(written.left_out_count, 'image')}")
    for topic, reason in sorted(written.left_out.items()):
        warn(f"  {topic}: {reason}")
    return int(written.left_out_count > 0) or status


@contextmanager
def _text_file(name: str) -> Generator[IO[str]]:
    if name == STANDARD_OUTPUT:
        reencode(encoding="utf-8", errors="strict")  # data, and no text for a terminal
        yield sys.stdout
        return
    with written_whole(place(name)) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        yield file


def section_of(arguments: argparse.Namespace) -> Section:
    """Topics and time, as the command line says."""
    return Section(tuple(arguments.topics) if arguments.topics else None, arguments.start, arguments.end)


def _say_written(arguments: argparse.Namespace, written: Written) -> int:
    if arguments.json:
        show_json({"path": arguments.output, **asdict(written)})
        return 0
    _say_has(arguments.output, written)
    if written.carried:
        say(f"  latched before that, and carried over: {counted(written.carried, 'message')}")
    if written.attachments_left_out:
        say(f"  left out, logged at another time: {counted(written.attachments_left_out, 'attachment')}")
    return 0


def _say_has(target: str, written: Written) -> None:
    say(f"{target} has {counted(written.messages, 'message')}{_and_attachments(written.attachments)}")


def _and_attachments(count: int) -> str:
    return f" and {counted(count, 'attachment')}" if count else ""


Find = Callable[[list[str]], list[Path]]


@contextmanager
def working(what: str) -> Generator[tuple[Find, Progress]]:
    """Errors of the system in one sentence; on a terminal, how far it is."""
    with line() as shown:
        try:
            yield find_recordings, in_percent(shown, what)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CommandError(_sentence(error)) from error


def _sentence(error: OSError) -> str:
    if error.errno is None:
        return str(error)
    advice = " Nothing was left half written; make room, and try again." if error.errno == errno.ENOSPC else ""
    return f"{error.filename or 'the file'}: {error.strerror}.{advice}"


# ---- what people read ----


def _show_info(facts: RecordingInfo) -> None:
    messages = counted(facts.messages, "message")
    ratio = f", {facts.uncompressed / facts.size:.1f} : 1" if facts.size and facts.uncompressed else ""
    each = ", and each message by itself: zstd" if facts.compresses_messages else ""
    lines = [
        f"{facts.path}: {size(facts.size)}, {messages}, {counted(facts.topic_count, 'topic')}",
        f"recorded by {facts.library or 'nobody knows what'}" + (f" on {facts.host}" if facts.host else ""),
        f"from {_moment(facts.start_ns)}, for {duration(facts.seconds)}" if facts.messages else "without a message",
        f"{counted(facts.chunks, 'chunk')}, {facts.compression}{ratio}{each}",
    ]
    if facts.failed:
        lines.append(f"its recorder was ended by the disk: {facts.failed}")
    if not facts.complete:
        lines.append(f"not complete: {facts.incomplete_because}")
    if facts.unknown_missing:
        where = f"{counted(facts.unknown_missing, 'chunk')} whose side record is damaged"
        lines.append(f"what was missed before {where} is not known")
    if facts.attachments:
        lines.append(f"{counted(facts.attachments, 'attachment')}")
    rows: list[list[Cell]] = [[t.topic, _type(t), t.messages, t.rate, _missing(t)] for t in facts.topics]
    show(Table(lines[0], TOPIC_COLUMNS, rows, lines[1:]))
    for topic in facts.topics:
        if topic.problem:
            say(f"{topic.topic}: {topic.problem}")


def _type(topic: TopicInfo) -> str:
    return f"{topic.type}, version {topic.version} of {topic.versions}" if topic.versions > 1 else topic.type


def _show_run(run: RunInfo, as_json: bool) -> None:
    if as_json:
        show_json({"run": {**asdict(run), "seconds": run.seconds}})
        return
    lines = [
        f"in all: {counted(run.files, 'file')}, {size(run.size)}, {counted(run.messages, 'message')}, "
        f"{counted(run.topic_count, 'topic')}, {counted(run.chunks, 'chunk')}",
        f"from {_moment(run.start_ns)}, for {duration(run.seconds)}" if run.messages else "without a message",
    ]
    if run.incomplete:
        lines.append(f"not complete: {counted(run.incomplete, 'file')}")
    rows: list[list[Cell]] = [[t.topic, t.type, t.messages, t.rate, _missing(t)] for t in run.topics]
    show(Table(lines[0], TOPIC_COLUMNS, rows, lines[1:]))


def _moment(stamp_ns: int) -> str:
    return datetime.fromtimestamp(stamp_ns / 1e9, UTC).isoformat(sep=" ", timespec="milliseconds")


def _missing(topic: TopicInfo) -> str | None:
    return ", ".join(f"{count} {cause.replace('_', ' ')}" for cause, count in topic.missing.items()) or None


def _show_checked(checked: Checked) -> None:
    verdict = "damaged" if checked.problems else "whole, but without an end" if checked.ending else "whole"
    messages, chunks = counted(checked.messages, "message"), counted(checked.chunks, "chunk")
    say(f"{checked.path}: {verdict}, {messages} in {chunks} read")
    for problem in filter(None, [*checked.problems, checked.ending]):
        say(f"  {problem}")
    for topic, count in checked.gaps.items():
        say(f"  {topic}: {counted(count, 'message')} published and not recorded")
    for topic, count in checked.missed.items():
        say(f"  {topic}: {counted(count, 'message')} missed, says the recorder")


def _show_recovered(recovered: Recovered, in_place: bool) -> None:
    if recovered.was_complete:
        done = "nothing was changed" if in_place else f"{recovered.target} is a copy"
        say(f"{recovered.source} was whole: {done}")
        return
    messages, chunks = counted(recovered.messages, "message"), counted(recovered.chunks, "chunk")
    say(f"{recovered.target}: {messages} in {chunks}{_and_attachments(recovered.attachments)}")
    for lost in recovered.lost:
        say(f"  lost: {_loss(lost)}")
    if recovered.without_side:
        say(f"  without priority, publisher and lifetime: {counted(recovered.without_side, 'message')}")
    if not recovered.lost:
        say("  nothing was lost but the index, which is there again")


def _loss(lost: Lost) -> str:
    messages: Any = "nobody knows which messages" if lost.messages is None else ""
    if lost.messages:
        messages = ", ".join(f"{counted(count, 'message')} of {topic}" for topic, count in lost.messages.items())
    where = f"{counted(lost.size, 'byte')} at byte {lost.position}" if lost.size else f"at byte {lost.position}"
    return f"{where}{', ' if messages else ''}{messages}: {lost.reason}"


# ---- extract and attach: what lies in recordings besides messages ----


def add_extract(parser: argparse.ArgumentParser) -> None:
    runs(parser, extract, domain=False)
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("name", nargs="?", metavar="NAME", help="of an attachment; of several the last one")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="must not exist; default: NAME, here; - is standard output"
    )
    parser.add_argument("--metadata", metavar="NAME", help="print metadata of this name as JSON, one object a line")


def add_attach(parser: argparse.ArgumentParser) -> None:
    runs(parser, attach, domain=False)
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("files", nargs="*", metavar="FILE", help="attached under its name")
    parser.add_argument("--metadata", nargs="+", action="append", default=[], metavar=("NAME", "KEY=VALUE"))
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--output", metavar="FILE", help="must not exist")
    where.add_argument("--in-place", action="store_true", help="put it in the place of the old one")


def extract(arguments: argparse.Namespace) -> int:
    """Write an attachment, print metadata, or list both."""
    with working("extracted"):
        source = find_recording(arguments.path)
        if arguments.metadata is not None:
            with Recording(source) as recording:
                for values in metadata_named(recording, arguments.metadata):
                    show_json(values)
        elif arguments.name is None:
            with Recording(source) as recording:
                _list(recording, arguments.json)
        elif arguments.output == STANDARD_OUTPUT:
            with Recording(source) as recording:
                sys.stdout.buffer.write(recording.attachment(attachment_named(recording, arguments.name)))
                sys.stdout.buffer.flush()
        else:
            path, length = extract_to(source, arguments.name, Path(arguments.output) if arguments.output else None)
            if arguments.json:
                show_json({"path": str(path), "size": length})
            else:
                say(f"{path}: {size(length)}")
    return 0


def attach(arguments: argparse.Namespace) -> int:
    """Write a recording anew, with more in it."""
    additions = Additions([Path(name) for name in arguments.files], _metadata(arguments.metadata))
    if not additions.files and not additions.metadata:
        raise CommandError("there is nothing to attach: name files, or --metadata NAME KEY=VALUE")
    with working("written") as (_, progress):
        source = find_recording(arguments.path)
        target = None if arguments.in_place else Path(arguments.output)
        written = attach_to(source, target, additions, progress)
    if arguments.json:
        show_json({"path": str(target or source), **asdict(written)})
    else:
        say(f"{target or source} has {counted(written.attachments, 'attachment')}")
    return 0


def _metadata(asked: list[list[str]]) -> dict[str, dict[str, str]]:
    """Returns metadata by name, from the words behind each --metadata. Raises CommandError."""
    found: dict[str, dict[str, str]] = {}
    for name, *pairs in asked:
        for pair in pairs:
            key, sign, value = pair.partition("=")
            if not sign:
                raise CommandError(f"--metadata {name} {pair}: KEY=VALUE was expected")
            found.setdefault(name, {})[key] = value
        found.setdefault(name, {})
    return found


def _list(recording: Recording, as_json: bool) -> None:
    if as_json:
        attachments = [asdict(one) for one in recording.attachments]
        metadata = [{"name": name, "values": values} for name, values in recording.metadata]
        show_json({"path": str(recording.path), "attachments": attachments, "metadata": metadata})
        return
    rows: list[list[Cell]] = [[one.name, one.media_type, size(one.size)] for one in recording.attachments]
    show(Table(f"{recording.path}: {counted(len(rows), 'attachment')}", ("name", "type", "size"), rows))
    counts: list[list[Cell]] = [[name, len(values)] for name, values in recording.metadata]
    show(Table(f"{len(counts)} of metadata", ("name", "entries"), counts))


# ---- ingest: recordings into tables that last, each message once ----


def add_ingest(parser: argparse.ArgumentParser) -> None:
    runs(parser, ingest, domain=False)
    add_paths(parser)
    parser.add_argument("--to", required=True, metavar="FOLDER", help="a table for each topic, partitioned by day")
    parser.add_argument("--format", choices=("delta", "parquet"), default="delta", help="default: delta")
    parser.add_argument("--topics", nargs="+", metavar="PATTERN", help="default: all")
    parser.add_argument(
        "--evolve",
        action="store_true",
        help="widen a column that a recording needs wider: int32 to int64, float to double",
    )
    parser.add_argument("--compact", action="store_true", help="make few large files of many small ones; delta only")


def ingest(arguments: argparse.Namespace) -> int:
    """Status 1 if something could not be added, 3 if of several files only some could be read; all else is added."""
    try:
        from rtmw.recording.catalog import Catalog  # which needs pyarrow
    except ImportError as error:
        raise NotInstalled(f"tables need pyarrow ({error}): pip install 'rtmw[catalog]'") from error
    if arguments.compact and arguments.format != "delta":
        raise CommandError("--compact needs --format delta: files of Parquet cannot be replaced while others read them")
    if is_remote(arguments.to) and arguments.format != "delta":
        raise CommandError(
            f"--to {arguments.to} needs --format delta: files of Parquet are renamed when they are complete, which "
            "remote places do not do at once"
        )
    with working("added") as (found, progress):
        try:
            with Catalog(place(arguments.to), arguments.format, evolve=arguments.evolve) as catalog:
                paths = found(arguments.paths)
                for path in paths:
                    catalog.add(path, arguments.topics, progress)
                if arguments.compact:
                    catalog.compact()
        except RecordingError as error:
            raise CommandError(str(error)) from error
    messages, problems, damaged = catalog.ingested.messages, catalog.ingested.problems, catalog.ingested.damaged
    known = ", ".join(sorted(catalog.known)) or "none"
    for pattern in arguments.topics or ():
        if not any(is_meant(topic, pattern) for topic in catalog.known):
            problems[f"topic {pattern}"] = f"no recording has it; there are {known}"
    if arguments.json:
        show_json({"path": arguments.to, "messages": messages, "problems": damaged | problems})
    else:
        rows: list[list[Cell]] = [[topic, count] for topic, count in sorted(messages.items())]
        show(Table(f"Added to {arguments.to}", ("topic", "messages"), rows))
        for where, why in (damaged | problems).items():
            warn(f"rtmw: {where}: not added: {why}")
    return 1 if problems else partly(len(damaged), len(paths))


# ---- sql ----


def add_sql(parser: argparse.ArgumentParser) -> None:
    runs(parser, sql, domain=False)
    parser.add_argument("query", metavar="QUERY", help="""as 'SELECT max(rpm) FROM "pump/speed" WHERE rpm > 3000'""")
    add_paths(parser)
    add_strict(parser)
    parser.add_argument("--explain", action="store_true", help="also say on stderr how much was read and skipped")


def sql(arguments: argparse.Namespace) -> int:
    """Show what a query answers; with `--json`, an object a row."""
    for module, package in (("pyarrow", "PyArrow"), ("duckdb", "DuckDB")):
        needed(module, package, "sql", "rtmw recording sql")
    with working("read") as (found, _):
        (answer, planned), status = over_readable(
            found(arguments.paths), arguments.strict, lambda paths: _answer(paths, arguments.query)
        )
        rows: list[dict[str, Any]] = answer.to_pylist()
        if arguments.json:
            for row in rows:
                say(as_json(row, plain))
        elif answer.column_names:
            cells = [[cell(value) for value in row.values()] for row in rows]
            show(Table(counted(len(rows), "row"), answer.column_names, cells))
        if arguments.explain:
            warn(f"rtmw: read {planned}")
    return status


def _answer(paths: list[Path], query: str) -> tuple[pa.Table, Planned]:
    """The rows, and how much was read for them."""
    from rtmw.recording.frames.sql import Tables

    with Tables(paths) as tables:
        return tables.query(query), tables.planned()


def cell(value: Any) -> Cell:
    """A value of a row in a table."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(value)  # in full, where tables of measured values are cut to three digits
    if value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, (list, dict)):
        return as_json(value, plain)
    return str(plain(value))


def plain(value: Any) -> Any:
    """A value without a JSON type: whole decimals as numbers, bytes as base64, times in ISO format."""
    match value:
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _:
            return str(value)
