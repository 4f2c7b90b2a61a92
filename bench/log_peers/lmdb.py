"""LMDB: a transaction a record, at the end of a tree. Its default syncs twice: an fdatasync, then its meta page."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from bench.log_peers import Store, embedded

MAP_SIZE = 1 << 30
"""Bytes that the database may grow to; the file has only what is used."""


@contextmanager
def opened(folder: Path) -> Generator[Store]:
    import lmdb

    numbers, key = count(), struct.Struct(">Q")
    with lmdb.open(str(folder / "lmdb"), map_size=MAP_SIZE) as environment:

        def append(record: bytes) -> None:
            with environment.begin(write=True) as transaction:
                transaction.put(key.pack(next(numbers)), record, append=True)

        def fill(records: Iterable[bytes]) -> None:
            with environment.begin(write=True) as transaction, transaction.cursor() as cursor:
                cursor.putmulti(((key.pack(next(numbers)), record) for record in records), append=True)

        def scan() -> Iterable[object]:
            with environment.begin() as transaction, transaction.cursor() as cursor:
                yield from cursor.iternext(keys=False, values=True)

        with embedded(append, fill, scan) as store:
            yield store
