"""`rtmw send` and `rtmw receive`: files to one receiver, and with `--paper` transfers as bytes in the paper's form, for
programs that write or read it (docs/formats/transfer-format.md)."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import rtmw
from rtmw.cli.common import CommandError, attach_served
from rtmw.cli.endings import ends_in_order
from rtmw.cli.parsing import count, runs, seconds
from rtmw.cli.terminal import counted, duration, say, show_json, show_over, size, warn
from rtmw.clock import CLOCK
from rtmw.recording.places import written_whole
from rtmw.transfer.client.viewer import Viewer
from rtmw.transfer.files import split
from rtmw.transfer.header import Content, File, Header, Kind, pack_paper, unpack_paper

LEVELS: Final = ("accepted", "sent", "delivered", "consumed")
SENDER: Final = "rtmw-send"
LOOK_S, LINES_S = 0.5, 5.0
FAILED: Final = (rtmw.TransferState.CANCELLED, rtmw.TransferState.EXPIRED, rtmw.TransferState.REFUSED)
ANEW: Final = "; once the file was touched, it is sent anew"
WIDTH: Final = 20
"""Characters of the bar."""


def add_send(parser: argparse.ArgumentParser) -> None:
    runs(parser, send_command)
    parser.add_argument("files", nargs="+", metavar="FILE", help="which must not be written to until it has arrived")
    parser.add_argument("--to", metavar="SERVICE", help="service, service/pid or service/*, and @NODE")
    parser.add_argument("--wait", choices=LEVELS, help="when it ends (default sent: all there)")
    parser.add_argument("--into", metavar="FOLDER", default="", help="below the folder of the receiver (default: that)")
    parser.add_argument("--timeout", type=seconds, help="seconds after which it ends; the files go on")
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")
    paper = "each FILE is a transfer in the paper's form, with its address; - is standard input"
    parser.add_argument("--paper", action="store_true", help=paper)


def add_receive(parser: argparse.ArgumentParser) -> None:
    runs(parser, receive_command)
    parser.add_argument("service", metavar="SERVICE", help="its name alone")
    parser.add_argument("--into", required=True, metavar="FOLDER", help="made if need be")
    paper = "write each letter as a file in the paper's form"
    parser.add_argument("--paper", action="store_true", help=paper)
    parser.add_argument("--count", type=count, help="end after so many letters")


def send_command(arguments: argparse.Namespace) -> int:
    """Sends files, and waits until each has reached the level. Status 1: one never will, or not in time; each with
    its reason."""
    if arguments.paper:
        return send_paper(arguments)
    if not arguments.to:
        raise CommandError("say to whom: --to SERVICE, or --to SERVICE@NODE")
    level = rtmw.Level[(arguments.wait or "sent").upper()]
    paths = [_file(name) for name in arguments.files]
    for path in paths:
        split(_destination(path, arguments))  # before anything is sent
    sent = dict[Path, rtmw.Transfer]()
    with attach_served(arguments.domain) as domain, rtmw.Sender(SENDER, domain=domain) as sender:
        try:
            for path in paths:
                sent[path] = _send(sender, path, arguments)
            with Viewer(domain) as viewer:
                failed = _follow(sent, level, arguments, viewer)
        except KeyboardInterrupt:
            _say_what_goes_on(sent, paths)
            raise
    if arguments.json:
        rows = [(str(path), str(one.id), one.state.name, failed.get(path, "")) for path, one in sent.items()]
        show_json([dict(zip(("file", "id", "state", "cause"), row, strict=True)) for row in rows])
        return int(bool(failed))
    for path, one in sent.items():
        if path not in failed and not arguments.quiet:
            say(f"{path}: {one.state.name}, transfer {one.id}")
    for path, why in failed.items():
        warn(f"rtmw: {path}: {why}")
    return int(bool(failed))


def _say_what_goes_on(sent: dict[Path, rtmw.Transfer], paths: list[Path]) -> None:
    """The command has ended, and what it has sent has not. Whether the core has what was being sent, nobody knows."""
    left = {path: one.id for path, one in sent.items() if not one.has_ended} | dict.fromkeys(paths[len(sent) :][:1])
    known = [f"rtmw: {path} goes on; to end it: rtmw transfers cancel {id}" for path, id in left.items() if id]
    warn("", *known, *(f"rtmw: {path} may go on: see rtmw transfers" for path, id in left.items() if not id))


def _file(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise CommandError(f"{name} is no file; give files, and `tar` for folders.")
    return path


def _destination(path: Path, arguments: argparse.Namespace) -> str:
    return os.path.join(arguments.into, path.name)


def _send(sender: rtmw.Sender, path: Path, arguments: argparse.Namespace) -> rtmw.Transfer:
    """The id is that of this file as it is now: the same command again follows the same transfer."""
    about = path.stat()
    destination = _destination(path, arguments)
    id = "\0".join(
        map(str, (path.absolute(), about.st_ino, about.st_size, about.st_mtime_ns, destination, arguments.to))
    )
    try:
        return sender.send(arguments.to, rtmw.File(path, destination), delivery=rtmw.Delivery.LOG, id=id)
    except (ValueError, TimeoutError) as error:
        raise CommandError(f"{path}: {error}") from None


def _follow(
    sent: dict[Path, rtmw.Transfer], level: rtmw.Level, arguments: argparse.Namespace, viewer: Viewer
) -> dict[Path, str]:
    """Why files have not reached the level; empty: all have."""
    failed, left, line = dict[Path, str](), dict(sent), Line(arguments.quiet or arguments.json)
    total = sum(path.stat().st_size for path in sent)
    end = None if arguments.timeout is None else CLOCK.monotonic() + arguments.timeout
    while left:
        for path, one in list(left.items()):
            try:
                if not one.wait(level, LOOK_S / len(left)):
                    continue
                if one.state in FAILED:  # after it had reached the level
                    failed[path] = f"transfer {one.id} is {one.state.name}{ANEW}"
            except rtmw.TransferError as error:
                is_changed = isinstance(error, rtmw.SourceChanged)
                failed[path] = f"{error}{ANEW if one.state in FAILED and not is_changed else ''}"
            del left[path]
        rows = _rows(viewer, left.values())
        why = next((row["cause"] for row in rows if row["cause"]), "")
        line.show((total - sum(map(rest, left, rows)), total), (len(sent) - len(left), len(sent)), why)
        if end is not None and CLOCK.monotonic() >= end:
            line.end()
            return failed | {path: f"not {level.name} in time; it goes on" for path in left}
    return failed


def _rows(viewer: Viewer, transfers: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for one in transfers:
        try:
            rows.append(viewer.show(f"info {one.id}"))
        except rtmw.TransferRefused:  # it has ended meanwhile
            rows.append({"sent": sys.maxsize, "received": sys.maxsize, "cause": ""})
    return rows


def rest(path: Path, row: dict[str, Any]) -> int:
    """Bytes of a file that have not left yet. Nothing has as long as its receiver has taken none of it: what came there
    before an inbox is not kept."""
    sent = row["sent"] if row.get("received") else 0
    try:
        return max(0, path.stat().st_size - (sent or 0))
    except OSError:
        return 0


class Line:
    """How it goes: a line that changes on a terminal, and a line now and then elsewhere; on standard error. It never
    falls back, also where bytes are sent again."""

    def __init__(self, is_quiet: bool) -> None:
        self._is_quiet, self._begun, self._shown = is_quiet, CLOCK.monotonic(), CLOCK.monotonic()
        self._first: int | None = None
        self._most = 0
        """Bytes that were shown as sent."""
        self._is_open = False
        """Something stands on the terminal, and its line is not ended."""

    def show(self, sizes: tuple[int, int], files: tuple[int, int], why: str) -> None:
        """`sizes`: bytes that are sent, of all; `files`: that are done, of all; `why`: one waits."""
        now, done = CLOCK.monotonic(), max(self._most, sizes[0])
        sizes = self._most, _ = done, sizes[1]
        self._first = done if self._first is None else self._first
        on_terminal = sys.stderr.isatty()
        if self._is_quiet or (not on_terminal and now - self._shown < LINES_S):
            return
        self._shown = now
        text = progress_words(sizes, files, (done - self._first) / max(now - self._begun, 1e-9))
        text += f"; {why}" if why else ""
        if not on_terminal:
            warn(text)
            return
        width = shutil.get_terminal_size().columns - 1
        if why and len(text) > width:
            text = f"{percent(*sizes)}; {why}"
        show_over(text)
        self._is_open = True
        if files[0] == files[1]:
            self.end()

    def end(self) -> None:
        """Ends the line that changes in place, so that what is said next stands on a line of its own."""
        if self._is_open:
            warn("")
        self._is_open = False


def progress_words(sizes: tuple[int, int], files: tuple[int, int], rate: float) -> str:
    """A bar, what is there of all bytes and files, bytes a second, and the time that is left."""
    done, total = sizes
    which = f"{files[0]} of {counted(files[1], 'file')}"
    words = f"{bar(done, total)} {which}, {size(done)} of {size(total)}, {size(rate)}/s"
    return words + (f", {duration((total - done) / rate)} left" if rate > 0 and done < total else "")


def bar(done: int, total: int) -> str:
    """Returns a bar such as [#####-----] 50 %."""
    full = WIDTH * done // max(total, 1)
    return f"[{'#' * full}{'-' * (WIDTH - full)}] {percent(done, total)}"


def percent(done: int, total: int) -> str:
    return f"{100 * done // max(total, 1):3} %"


def receive_command(arguments: argparse.Namespace) -> int:
    """Each letter is consumed when its files are in the folder, and a letter without files is a file of its own."""
    with ends_in_order(), attach_served(arguments.domain) as domain:
        try:
            folder = Path(arguments.into)
            folder.mkdir(parents=True, exist_ok=True)
            with rtmw.Inbox(arguments.service, folder=folder, domain=domain) as inbox:
                _receive(inbox, folder, arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CommandError(f"{error.filename or arguments.into}: {error.strerror}") from None
        except ValueError as error:
            raise CommandError(str(error)) from None
    return 0


def _receive(inbox: rtmw.Inbox, folder: Path, arguments: argparse.Namespace) -> None:
    left = arguments.count
    while left is None or left > 0:
        letter = inbox.take(1.0)
        if letter is None:
            continue
        with letter:
            paths = _in_the_papers_form(folder, letter) if arguments.paper else letter.files
            if paths is not None:
                _say(letter, paths or [_written(folder, letter)], arguments.json)
        left = None if left is None else left - 1


def _in_the_papers_form(folder: Path, letter: rtmw.Letter) -> Sequence[Path] | None:
    """Writes a letter in the paper's form. None: the form cannot say it, and it was refused."""
    try:
        return [written_paper(folder, letter)]
    except ValueError as error:
        letter.refuse(str(error))
        warn(f"rtmw: transfer {letter.id} from {letter.sender} is refused: {error}")
        return None


def _written(folder: Path, letter: rtmw.Letter) -> Path:
    """A body without files, under the id of its transfer; written anew if it comes again."""
    path = folder / str(letter.id).replace(":", ".")
    with written_whole(path, replace=True) as temporary, temporary.open("wb") as file, letter.open() as body:
        shutil.copyfileobj(body, file)
    return path


def _say(letter: rtmw.Letter, paths: Sequence[Path], as_json: bool) -> None:
    if as_json:
        names = [str(path) for path in paths]
        show_json({"id": str(letter.id), "from": letter.sender, "files": names, "redelivered": letter.redelivered})
    else:
        say(f"{', '.join(map(str, paths))} from {letter.sender}, transfer {letter.id}", flush=True)


_SECOND_NS: Final = 1_000_000_000


def send_paper(arguments: argparse.Namespace) -> int:
    """Each file is a transfer, which has its address, class, level and times in its header; `-`: standard input. All
    are read before anything is sent."""
    if arguments.to or arguments.into or arguments.wait:
        raise CommandError(
            "--to, --into and --wait are not possible with --paper: each transfer says them in its header"
        )
    transfers = {name: _read(name) for name in arguments.files}
    rows, failed = list[dict[str, str]](), dict[str, str]()
    with attach_served(arguments.domain) as domain, rtmw.Sender(SENDER, domain=domain) as sender:
        for name, (header, content) in transfers.items():
            try:
                sent = _send_header(sender, header, content, arguments.timeout)
            except (rtmw.TransferError, ValueError, TimeoutError) as error:
                failed[name] = str(error)
                continue
            rows.append({"file": name, "id": str(sent.id), "state": sent.state.name})
    if arguments.json:
        show_json(rows)
    for row in rows if not (arguments.json or arguments.quiet) else ():
        say(f"{row['file']}: {row['state']}, transfer {row['id']}")
    for name, why in failed.items():
        warn(f"rtmw: {name}: {why}")
    return int(bool(failed))


def _read(name: str) -> tuple[Header, Content]:
    try:
        return unpack_paper(sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes())
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from None
    except rtmw.TransferError as error:
        raise CommandError(f"{name}: {error}") from None


def _send_header(sender: rtmw.Sender, header: Header, content: Content, timeout: float | None) -> rtmw.Transfer:
    parts = [_body(one) for one in (content if isinstance(content, tuple) else (content,))]
    body: Any = parts[0]
    if isinstance(content, tuple):
        body = [one if isinstance(one, rtmw.File) else rtmw.Part(one) for one in parts]
    limits = timeout, header.timeout_ns / _SECOND_NS if header.timeout_ns else None
    return sender.send(
        str(header.to),
        body,
        delivery=header.delivery,
        wait=header.level,
        lifetime=header.lifetime_ns / _SECOND_NS if header.lifetime_ns else None,
        timeout=min((one for one in limits if one is not None), default=None),
    )


def _body(content: bytes | File) -> bytes | rtmw.File:
    return rtmw.File(content.source, content.destination or None) if isinstance(content, File) else content


def written_paper(folder: Path, letter: rtmw.Letter) -> Path:
    """A letter as a file of its own, under the id of its transfer; of a FILE the source is where it lies now, and of a
    lifetime the whole seconds that were left. Raises ValueError: the form cannot say it."""
    parts = tuple(_as_in_the_form(part, folder) for part in letter.parts)
    content = parts if letter.header.kind is Kind.COMPOSITE else parts[0]
    seconds = max(1, letter.header.lifetime_ns // _SECOND_NS) if letter.header.lifetime_ns else 0
    header = replace(letter.header, lifetime_ns=seconds * _SECOND_NS)
    data, path = pack_paper(header, content), folder / f"{str(letter.id).replace(':', '.')}.paper"
    with written_whole(path, replace=True) as temporary:
        temporary.write_bytes(data)
    return path


def _as_in_the_form(part: bytes | Path, folder: Path) -> bytes | File:
    if isinstance(part, bytes):
        return part
    return File(str(part), str(part.relative_to(folder.absolute())))
