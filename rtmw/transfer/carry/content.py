"""The bytes of a transfer, one part behind the other: from its body, and from the files that it names."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from rtmw.closing import Closing
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.files.source import Fingerprint, Source
from rtmw.transfer.header import File, Kind, unpack_body
from rtmw.transfer.wire.frames import Part

__all__ = ["Content", "names_files", "size_of_parts"]


def names_files(kind: Kind, body: bytes | Path) -> bool:
    """Is the body a FILE, or a COMPOSITE with one? Raises TransfersDamaged."""
    return any(part is Kind.FILE for part, _, _ in _heads(kind, body))


def size_of_parts(kind: Kind, body: bytes | Path, accepted: Iterable[Fingerprint] = ()) -> int:
    """Return the bytes of all parts, those of files included. `accepted`: fingerprints of the files that the body
    names; a file without one is as large as it is now, and 0 bytes if it is not there. Raises TransfersDamaged,
    OSError."""
    known, total = iter(accepted), 0
    for part, length, data in _heads(kind, body):
        if part is Kind.FILE:
            fingerprint = next(known, None)
            total += _size_now(data) if fingerprint is None else fingerprint.size
        else:
            total += length
    return total


def _size_now(named: bytes) -> int:
    file = unpack_body(Kind.FILE, named)
    assert isinstance(file, File)
    try:
        return os.stat(file.source).st_size
    except OSError:
        return 0


def _heads(kind: Kind, body: bytes | Path) -> Iterator[tuple[Kind, int, bytes]]:
    """Yield kind and length of each part, and the bytes of a FILE, which name it. Other bytes are not read."""
    size = body.stat().st_size if isinstance(body, Path) else len(body)
    with body.open("rb") if isinstance(body, Path) else io.BytesIO(body) as file:
        if kind is not Kind.COMPOSITE:
            yield kind, size, file.read() if kind is Kind.FILE else b""
            return
        for _ in range(int.from_bytes(file.read(2), "little")):
            head = file.read(9)
            if len(head) < 9:
                raise TransfersDamaged("a COMPOSITE that ends before its last part")
            length = int.from_bytes(head[1:], "little")
            if length > size:
                raise TransfersDamaged(f"a COMPOSITE of {size} bytes with a part of {length}")
            if head[0] == Kind.FILE:
                yield Kind.FILE, length, file.read(min(length, size))
            else:
                yield Kind.BUF, length, b""
                file.seek(length, io.SEEK_CUR)


class _Place(Closing):
    """A file that is opened when it is read."""

    def __init__(self, path: str, accepted: Fingerprint | None) -> None:
        self.path, self._source = path, None if accepted else Source(path)
        self.fingerprint = accepted or self._opened().fingerprint

    def _opened(self) -> Source:
        if self._source is None:
            self._source = Source(self.path, self.fingerprint)
        return self._source

    def __len__(self) -> int:
        return self.fingerprint.size

    def read(self, position: int, size: int) -> bytes:
        return self._opened().read(position, size)

    def close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()


class Content(Closing):
    """The content of a transfer. `body`: the body itself, or its file. `accepted`: fingerprints of the files that it
    names, from when it was accepted; without them, files are taken as they are now. Files are opened when they are
    read, and again after `close`.

    Raises TransferRefused, SourceChanged; OSError for a disk that fails.
    """

    def __init__(self, kind: Kind, body: bytes | Path, accepted: tuple[Fingerprint, ...] = ()) -> None:
        self._places: list[bytes | _Place] = []
        self.parts: tuple[Part, ...] = ()
        try:
            self._add_all(kind, body, list(accepted))
        finally:
            self.close()

    def _add_all(self, kind: Kind, body: bytes | Path, accepted: list[Fingerprint]) -> None:
        if kind is Kind.BUF:
            self._add(_Place(str(body), None) if isinstance(body, Path) else body, "")
            return
        content = unpack_body(kind, body.read_bytes() if isinstance(body, Path) else body)
        for part in content if isinstance(content, tuple) else (content,):
            if isinstance(part, File):
                known = accepted.pop(0) if accepted else None
                self._add(_Place(part.source, known), part.destination or Path(part.source).name)
            else:
                assert isinstance(part, bytes)
                self._add(part, "")

    def _add(self, place: bytes | _Place, destination: str) -> None:
        self._places.append(place)
        self.parts = (*self.parts, Part(Kind.FILE if destination else Kind.BUF, len(place), destination))

    @property
    def is_in_memory(self) -> bool:
        return all(isinstance(place, bytes) for place in self._places)

    @property
    def fingerprints(self) -> tuple[Fingerprint, ...]:
        """Fingerprints of the files that the body names, in their order."""
        pairs = zip(self.parts, self._places, strict=True)
        return tuple(place.fingerprint for part, place in pairs if part.destination and isinstance(place, _Place))

    def read(self, position: int, size: int) -> bytes:
        found: list[bytes] = []
        start = 0
        for place in self._places:
            first, last = max(position, start), min(position + size, start + len(place))
            if first < last:
                at, length = first - start, last - first
                found.append(place.read(at, length) if isinstance(place, _Place) else place[at : at + length])
            start += len(place)
        return found[0] if len(found) == 1 else b"".join(found)

    def close(self) -> None:
        for place in self._places:
            if isinstance(place, _Place):
                place.close()
