"""The durable log, in bytes: records in a folder of segments, one writer, any number of readers.

    log = open_folder(Path("orders"), b"description of the type", create=True, segment=64 << 20)
    with log.hold():
        writer = log.writer(64 << 20, 1000)               # recovers, and has threads of its own
        first, end = writer.append(b"one", None, SYNCED, None)   # on the disk now
    reader = log.reader(first)                            # here, or in any other process
    reader.next(log.bounds()[1])

What runs for each record is C (log.h); `rtmw.Log` is this with types, and what programs use.
"""

from __future__ import annotations

from rtmw.log._log import (
    ENDS,
    FENCED,
    FORMAT,
    HELD,
    NO_LIMIT,
    RUN_DATA,
    RUN_IDS,
    RUN_KEYS,
    SEGMENT_DATA,
    SEGMENT_FIRST,
    SEGMENT_LEAST,
    STARTED,
    SYNCED,
    Reader,
    Record,
    Writer,
    index,
    segment,
    stretches,
)
from rtmw.log.check import Checked, Missing, Salvaged, bases, check, look_into, salvage
from rtmw.log.folder import (
    BATCH_S,
    KEEP_ALL,
    Folder,
    HeldCursor,
    Holder,
    Watch,
    cursor_names,
    delete_cursor,
    holder_of,
    holder_of_cursor,
    open_folder,
)
from rtmw.log.labels import AutomaticId, Label, pack_labels, unpack_labels

__all__ = [
    "BATCH_S",
    "ENDS",
    "FENCED",
    "FORMAT",
    "HELD",
    "KEEP_ALL",
    "NO_LIMIT",
    "RUN_DATA",
    "RUN_IDS",
    "RUN_KEYS",
    "SEGMENT_DATA",
    "SEGMENT_FIRST",
    "SEGMENT_LEAST",
    "STARTED",
    "SYNCED",
    "AutomaticId",
    "Checked",
    "Folder",
    "HeldCursor",
    "Holder",
    "Label",
    "Missing",
    "Reader",
    "Record",
    "Salvaged",
    "Watch",
    "Writer",
    "bases",
    "check",
    "cursor_names",
    "delete_cursor",
    "holder_of",
    "holder_of_cursor",
    "index",
    "look_into",
    "open_folder",
    "pack_labels",
    "salvage",
    "segment",
    "stretches",
    "unpack_labels",
]
