"""Codes of the log as errors of Python: one table, one function."""

from __future__ import annotations

import os

from rtmw import errors
from rtmw.log import _log as core

_PLAIN = {
    core.TOO_LARGE: (
        errors.MessageTooLarge,
        "{log}: what is appended at once has to fit into a segment, and does not; open the log with a larger segment "
        '(rtmw.Log(..., segment="256M")), or append less at once. Nothing was appended',
    ),
    core.CLOSED: (errors.ClosedError, "{log}: used after close()"),
    core.NO_LOG: (errors.LogError, "{log}: there is no log in this folder"),
    core.TIMEOUT: (
        TimeoutError,
        "{log}: not on the disk within the timeout. If the log's end passes this position, it was appended; an append "
        "that had to wait for room was not begun",
    ),
}
_FULL = (
    "{log}: the disk has no room for another segment ({why}). Nothing was appended. Free some room, and append again: "
    "the log looks once a second. What is appended already is safe"
)
_FULL_NEW = (
    "{log}: the disk has no room for a new log ({why}). None was made. Free some room, and open it again; a log begins "
    'smaller with a smaller segment (rtmw.Log(..., segment="64K"))'
)
_FULL_FILE = (
    "{log}: the disk has no room for its file {file} ({why}). Nothing was changed, and what is appended already is "
    "safe. Free some room, and try again"
)
_FAILED = (
    "{log}: {what} of {file} failed: {why}. No call is tried again, because nobody can know what of it reached the "
    "disk: close the log and open it anew, which shows what is there. {outcome}"
)
_DAMAGED = (
    "{log}: {file}: {what}: records from position {start} up to {end} are concerned. These bytes were on the disk "
    "once; restore the folder from a copy, or save what is whole: rtmw log salvage. Nothing was changed"
)
_VERSION = (
    f"{{log}}: {{file}} is of version {{start}} of the format, and this rtmw knows version {core.FORMAT}; use the rtmw "
    "that wrote it"
)
_TRIMMED = (
    "{log}: the records from position {start} up to {end} were trimmed; read from rtmw.Start.EARLIEST, which lies "
    "behind them"
)
_ID_TAKEN = (
    "{log}: the record at position {start} has this id, and other data or another key. Nothing was appended. An id "
    "means one record: append with a new one, or without"
)
_REFUSED = "{log}: {what}: {file}, positions {start} and {end}. Nothing was changed"
_NO_RECORD = "{log}: no record begins at position {start}; the next one begins at {end}. Positions are those of records"


def _why(error: int) -> str:
    return os.strerror(error) if error else "no reason given"


def _why_full(log: str, needed: int, error: int) -> str:
    """`needed`: bytes of the next segment; 0: what has no room is no segment that was to follow."""
    if not needed:
        return _why(error)
    try:
        found = os.statvfs(log)
    except OSError as gone:
        return f"{needed} bytes are needed; how many are free is not known: {gone.strerror}"
    return f"{needed} bytes are needed, and {found.f_bavail * found.f_frsize} are free"


def _outcome(start: int, end: int) -> str:
    if start < end:
        return f"Outcome unknown: records from position {start} up to {end} may be on the disk or not"
    return "Nothing was appended by this call"


def failure(log: str, code: int, what: str, file: str, error: int, start: int, end: int) -> Exception:
    """The exception for a code; see enum log_code and struct log_fault of log.h."""
    names = {"log": log, "what": what, "file": file, "start": start, "end": end, "why": _why(error)}
    if code == core.FAILED:
        return errors.LogFailed(_FAILED.format(**names, outcome=_outcome(start, end)), start, end)
    if code == core.DAMAGED:
        return errors.LogDamaged(_DAMAGED.format(**names), os.path.join(log, file), start, end)
    if code == core.FULL:
        text = _FULL_NEW if what == "create" else _FULL_FILE if file else _FULL
        return errors.LogFull(text.format(**{**names, "why": _why_full(log, start, error)}))
    if code == core.VERSION:
        return errors.LogError(_VERSION.format(**names))
    if code == core.TRIMMED:
        return errors.LogError(_TRIMMED.format(**names))
    if code == core.ID_TAKEN:
        return errors.LogError(_ID_TAKEN.format(**names))
    if code == core.REFUSED:
        return errors.LogError(_REFUSED.format(**names))
    if code == core.NO_RECORD:
        return ValueError(_NO_RECORD.format(**names))
    if code == core.NO_MEMORY:
        return MemoryError(f"{log}: no memory")
    kind, text = _PLAIN[code]
    return kind(text.format(**names))
