"""The bytes of a transfer, by position: read where it is sent (`Content`), and written where it arrives (`Arrival`).

What is sent is one part behind the other, from its body and from the files that it names. What arrives goes into its
body, and into files below an inbox's folder. That body has the form in which a core keeps it
(docs/formats/transfer-format.md), and names files by where they are when they are visible. Its bytes go where they
belong there, so no part is copied when all is whole.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from rtmw.closing import Closing
from rtmw.disk import DISK, Disk
from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.files import Fingerprint, Folder, Source, StagedFiles
from rtmw.transfer.header import File, Kind, pack_body, unpack_body
from rtmw.transfer.records import LARGEST_INLINE, TransferId
from rtmw.transfer.wire.frames import Chain, Mark, Offer, Part

__all__ = ["Arrival", "Content", "Here", "Written", "file_name", "names_files", "size_of_parts"]


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


_BODY: Final = -1


class Written(Closing):
    """Bytes that were written, and may not be durable yet; more may be written to the same files meanwhile.

    It has descriptors of its own, so that the files may be closed before.
    """

    def __init__(self, descriptors: Iterable[int], disk: Disk) -> None:
        self._descriptors, self._disk = [os.dup(one) for one in descriptors], disk

    def sync(self) -> None:
        """The bytes are durable when this returns."""
        for one in self._descriptors:
            self._disk.sync_data(one)

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())


class _Extent(NamedTuple):
    start: int
    """Position of its first byte."""
    length: int
    sink: int
    """Index of a file, or _BODY."""
    offset: int


def file_name(id: TransferId) -> str:
    """Return the name for files of a transfer until they are visible; no other transfer has it."""
    return f"{id.node}.{id.incarnation:x}.{id.sequence:x}"


class Arrival(Closing):
    """A transfer that arrives. `folder`: that of the inbox; None: nothing of the transfer is a file. `bodies`: a folder
    for bodies that have not come whole.

    Raises TransferRefused: a destination leads out of the folder. OSError: the disk is full, or has failed.
    """

    def __init__(self, offer: Offer, bodies: Path, folder: Folder | None, disk: Disk = DISK) -> None:
        self.offer, self._path, self._disk = offer, bodies / file_name(offer.id), disk
        self._staged: StagedFiles | None = None
        destinations = [part.destination for part in offer.parts if part.kind is Kind.FILE]
        if destinations:
            assert folder is not None, "the core looks for one first"
            is_composite = offer.header.kind is Kind.COMPOSITE
            self._staged = StagedFiles(folder, file_name(offer.id), destinations, is_composite=is_composite)
        self._fixed: list[tuple[int, bytes]] = []
        """Bytes of the body that are known: heads of parts, and names of files."""
        self._extents: list[_Extent] = []
        self._file = -1
        try:
            self.size = self._lay_out()
            """Bytes of the body."""
            self._file = disk.create(str(self._path), None, os.O_RDWR, 0o600)
        except BaseException:
            self.close()
            raise

    def check_free(self) -> None:
        """Check the files before any byte comes. Raises TransferRefused: something else is where a file is to be."""
        if self._staged is not None:
            self._staged.check_free(self.offer.size)

    def _lay_out(self) -> int:
        paths = iter(self._staged.paths() if self._staged else ())
        offset = start = files = 0
        if self.offer.header.kind is Kind.COMPOSITE:
            offset = self._fix(0, len(self.offer.parts).to_bytes(2, "little"))
        for part in self.offer.parts:
            data = b""
            if part.kind is Kind.FILE:
                data = pack_body(File(str(next(paths)), part.destination))[1]
            if self.offer.header.kind is Kind.COMPOSITE:
                length = len(data) or part.length
                offset = self._fix(offset, part.kind.to_bytes(1, "little") + length.to_bytes(8, "little"))
            sink = files if part.kind is Kind.FILE else _BODY
            self._extents.append(_Extent(start, part.length, sink, 0 if data else offset))
            offset = self._fix(offset, data) if data else offset + part.length
            files += part.kind is Kind.FILE
            start += part.length
        return offset

    def _fix(self, offset: int, data: bytes) -> int:
        self._fixed.append((offset, data))
        return offset + len(data)

    def _places(self, position: int, size: int) -> Iterator[tuple[_Extent, int, int]]:
        """Yield the extents that have these bytes, with first position and length in each."""
        for extent in self._extents:
            first = max(position, extent.start)
            last = min(position + size, extent.start + extent.length)
            if first < last:
                yield extent, first, last - first

    def write(self, position: int, data: bytes | memoryview) -> None:
        for extent, first, length in self._places(position, len(data)):
            part = memoryview(data)[first - position :][:length]
            at = extent.offset + first - extent.start
            if extent.sink == _BODY:
                self._disk.write_all(self._file, (part,), at)
            else:
                assert self._staged is not None
                self._staged.write(extent.sink, at, part)

    def read(self, position: int, size: int) -> bytes:
        """Return bytes that have come; fewer than `size`, if fewer are there."""
        found: list[bytes] = []
        for extent, first, length in self._places(position, size):
            at = extent.offset + first - extent.start
            if extent.sink == _BODY:
                found.append(os.pread(self._file, length, at))
            else:
                assert self._staged is not None
                found.append(self._staged.read(extent.sink, at, length))
        return b"".join(found)

    def is_as(self, mark: Mark, block: int) -> bool:
        """Is the last block before the mark as it came?"""
        if not mark.position:
            return True
        chain = Chain(block, Mark(mark.position - block, mark.before))
        chain.add(self.read(mark.position - block, block))
        return chain.position == mark.position and chain.value == mark.value

    def written(self) -> Written:
        """Return all that was written up to now; names of its files are durable when this returns."""
        descriptors = [self._file] if any(extent.sink == _BODY for extent in self._extents) else []
        if self._staged is not None:
            descriptors += self._staged.written()
        return Written(descriptors, self._disk)

    def complete(self) -> None:
        """Make the body whole, and all durable, after all bytes have come. Nothing is visible yet."""
        for offset, data in self._fixed:
            self._disk.write_all(self._file, (data,), offset)
        self._disk.cut(self._file, self.size)
        for extent in self._extents:
            if extent.sink != _BODY and not extent.length:
                assert self._staged is not None
                self._staged.write(extent.sink, 0, b"")
        self._disk.sync(self._file)
        if self._staged is not None:
            self._staged.sync()
        self._disk.sync_folder(self._path.parent)

    def make_visible(self) -> bytes | Path:
        """Make the files visible. Returns the body, or its file. Idempotent."""
        if self._staged is not None:
            self._staged.make_visible()
        return os.pread(self._file, self.size, 0) if self.size <= LARGEST_INLINE else self._path

    def remove(self) -> None:
        """Remove the file of the body, which is somewhere else by now, or which nobody wants."""
        self._path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove all of a transfer that does not arrive."""
        if self._staged is not None:
            self._staged.discard()
        self.remove()

    def close(self) -> None:
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            os.close(descriptor)
        if self._staged is not None:
            self._staged.close()


@dataclass
class Here:
    """A transfer whose bytes come into memory, or into files."""

    offer: Offer
    until: float | None
    """When its lifetime ends, on the clock of the loop."""
    memory: bytearray
    arrival: Arrival | None = None
    folder: Folder | None = None
    has_failed: bool = False
    """The disk is full, or has failed: what was written may be lost, and is not marked any more, since a disk says so
    only once."""

    def close(self) -> None:
        for one in (self.arrival, self.folder):
            if one is not None:
                one.close()
