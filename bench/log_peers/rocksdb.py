"""RocksDB by rocksdict: `put` with sync, which syncs its write-ahead log. The binding keeps the GIL meanwhile."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

from bench.log_peers import Store, embedded


@contextmanager
def opened(folder: Path) -> Generator[Store]:
    from rocksdict import Options, Rdict, WriteOptions

    numbers, key, options = count(), struct.Struct(">Q"), WriteOptions()
    options.sync = True
    with closing(Rdict(str(folder / "rocksdb"), Options(raw_mode=True))) as database:

        def append(record: bytes) -> None:
            database.put(key.pack(next(numbers)), record, options)

        def fill(records: Iterable[bytes]) -> None:
            for record in records:
                database.put(key.pack(next(numbers)), record)
            database.flush()

        with embedded(append, fill, database.values) as store:
            yield store
