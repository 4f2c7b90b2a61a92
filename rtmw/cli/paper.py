"""`rtmw send --paper` and `rtmw receive --paper`: transfers as bytes in the paper's form, for programs that write or
read it (docs/formats/transfer-format.md)."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import rtmw
from rtmw.cli.common import CommandError, attach_served
from rtmw.cli.terminal import say, show_json, warn
from rtmw.recording.places import written_whole
from rtmw.transfer.header import Content, File, Header, Kind, pack_paper, unpack_paper

__all__ = ["send_paper", "written_paper"]

_SENDER = "rtmw-send"
_SECOND_NS = 1_000_000_000


def send_paper(arguments: argparse.Namespace) -> int:
    """Each file is a transfer, which has its address, class, level and times in its header; `-`: standard input. All
    are read before anything is sent."""
    if arguments.to or arguments.into or arguments.wait:
        raise CommandError(
            "--to, --into and --wait are not possible with --paper: each transfer says them in its header"
        )
    transfers = {name: _read(name) for name in arguments.files}
    rows, failed = list[dict[str, str]](), dict[str, str]()
    with attach_served(arguments.domain) as domain, rtmw.Sender(_SENDER, domain=domain) as sender:
        for name, (header, content) in transfers.items():
            try:
                sent = _send(sender, header, content, arguments.timeout)
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


def _send(sender: rtmw.Sender, header: Header, content: Content, timeout: float | None) -> rtmw.Transfer:
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
