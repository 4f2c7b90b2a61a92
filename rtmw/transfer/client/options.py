"""The options of a send: one set of keywords, checked and made into a header in one place."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from rtmw.log import Label
from rtmw.qos import check_priority, check_seconds, limited
from rtmw.transfer.address import Address, Reach
from rtmw.transfer.header import Delivery, Header, Kind, Level
from rtmw.transfer.records import LARGEST_INLINE, is_plain

__all__ = ["LETTER_HEADERS", "SMALL", "SendOptions", "goes_together"]

SMALL: Final = 64 << 10
"""Bytes of a SMALL_RAW at most."""
_MOST_HEADERS: Final = 1024
"""Number of headers that are remembered."""


class SendOptions(NamedTuple):
    """The keywords of `Sender.send`, `Sender.send_async` and `Transaction.send`, in their order."""

    delivery: Delivery
    wait: Level
    lifetime: float | None
    timeout: float | None
    priority: int
    id: Label | None

    def check(self) -> None:
        """Raises ValueError, TypeError."""
        check_priority(self.priority)
        check_seconds("lifetime", self.lifetime, "above 0")
        check_seconds("timeout", self.timeout)

    def header(self, to: str, kind: Kind, length: int, has_files: bool) -> Header:
        """Return the header of a body. ValueError: this class of reliability has no such body; `to` is no address."""
        if self.delivery is Delivery.SMALL_RAW and length > SMALL:
            raise ValueError(f"a SMALL_RAW of {length} bytes is not possible; it has {SMALL} at most: use NORMAL")
        if self.delivery is Delivery.SMALL_RAW and has_files:
            raise ValueError("a file is not sent as SMALL_RAW, which is not acknowledged; use NORMAL or LOG")
        times = _ns(self.lifetime), _ns(self.timeout)
        return _header(to, kind, length, self.wait, self.delivery, self.priority, *times)


def goes_together(header: Header) -> bool:
    """May letters with this header go out in one frame? The answer to each is one transfer, and it is small."""
    is_small = header.kind is Kind.BUF and header.length <= LARGEST_INLINE
    return is_small and header.to.reach is not Reach.EACH


_Called: TypeAlias = tuple[str, int, Level, Delivery, int, type[int], float | None]
"""What a call says of a letter: address, bytes of the body, level, delivery, priority, its class (True equals 1, and is
no priority), and timeout."""


class _LetterHeaders(dict[_Called, Header | None]):
    """A subscript is the header of a letter that may go out together with others; None: it goes out by itself. Those
    of the last calls are remembered, because senders repeat themselves. ValueError, TypeError: as `SendOptions.check`,
    and as its `header`."""

    def __missing__(self, called: _Called) -> Header | None:
        header = _letter_header(called)
        if len(self) >= _MOST_HEADERS:
            self.clear()
        self[called] = header
        return header


LETTER_HEADERS: Final = _LetterHeaders()
"""The headers of letters, shared by all senders."""


def _letter_header(called: _Called) -> Header | None:
    to, length, level, delivery, priority, _, timeout = called
    check_priority(priority)
    check_seconds("timeout", timeout)
    if not 0 < length <= LARGEST_INLINE:
        return None
    header = _header(to, Kind.BUF, length, level, delivery, priority, 0, _ns(timeout))
    return header if is_plain(header) else None


@lru_cache(maxsize=_MOST_HEADERS)
def _header(to: str, kind: Kind, length: int, level: int, delivery: int, priority: int, *times: int) -> Header:
    """Remembered, because senders repeat themselves."""
    return Header(Address.parse(to), kind, length, Level(level), Delivery(delivery), priority, *times)


def _ns(seconds: float | None) -> int:
    """Return seconds as nanoseconds; 0: no limit."""
    seconds = limited(seconds)
    return 0 if seconds is None else max(1, round(seconds * 1e9))
