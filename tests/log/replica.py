"""Replicas of a log without the service: folders of version 2, their writers, and the log of the golden files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rtmw.log import FENCED, KEEP_ALL, STARTED, SYNCED, AutomaticId, Folder, Writer, pack_labels
from rtmw.log import _log as core
from rtmw.types import resolve

UUID = bytes(range(16))
BASE = 800
PRODUCER = b"producer" * 2
SEGMENT = 64 * 1024


def make_replica(path: Path, base: int = 0, type: object = bytes) -> Folder:
    path.mkdir()
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    core.create(str(path), descriptor, UUID, SEGMENT, resolve(type).description, True, base)
    uuid, description, is_replicated = core.identify(str(path), descriptor) or (b"", b"", False)
    return Folder(str(path), descriptor, uuid, description, is_replicated)


@contextmanager
def writer_of(folder: Folder, window: int = 1000) -> Iterator[Writer]:
    with folder.hold():
        writer = folder.writer(SEGMENT, window, KEEP_ALL, is_service=True)
        try:
            yield writer
        finally:
            writer.close()


def automatic(sequence: int) -> bytes:
    labels = pack_labels(None, AutomaticId(PRODUCER, sequence))
    assert labels is not None
    return labels


def write_golden(path: Path) -> list[int]:
    """A master's log: epochs 3 and 5, a key, a batch with an automatic id, a fence, and a tail that is not final.

    Gives the positions of its records."""
    with make_replica(path, BASE) as folder, writer_of(folder) as writer:
        writer.set_epoch(3)
        positions = [writer.append(b"first", pack_labels("key", None), STARTED, None)[0]]
        positions += writer.append_many([b"of", b"a batch"], STARTED, automatic(7))[0]
        writer.set_epoch(5)
        fence, end = writer.append(b"", automatic(8), STARTED | FENCED, None)
        writer.commit(end)
        last, _ = writer.append(b"not final", pack_labels(None, "id"), SYNCED, None)
    return [*positions, fence, last]
