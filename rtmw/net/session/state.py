"""The state of a session apart from its connection and its times: streams, controls, credit."""

from __future__ import annotations

from rtmw.errors import StreamError
from rtmw.net.session.controls import Controls
from rtmw.net.session.errors import Code
from rtmw.net.session.events import Effect, Gone, WasReset
from rtmw.net.session.streams import Stream, Turns
from rtmw.net.session.terms import Agreed, Terms


class State:
    """Shared by asking.py (the program), hearing.py (the peer) and telling.py (what goes out)."""

    def __init__(self, agreed: Agreed, terms: Terms, out: list[Effect]) -> None:
        self.agreed = agreed
        self.terms = terms
        self.out = out
        self.streams: dict[int, Stream] = {}
        self.controls = Controls()
        self.turns = Turns()
        self.next_mine = 1 if agreed.is_first else 2
        self.next_peer = 2 if agreed.is_first else 1
        self.used = 0
        """Payload bytes sent, each once. used <= allowed."""
        self.allowed = agreed.peer_session_credit
        self.came = 0
        """Payload bytes received, each once. read <= came <= told_allowed."""
        self.read = 0
        self.told_allowed = terms.session_credit
        self.controls_came = 0
        self.told_controls = 0
        self.owes_credit = False
        """A CREDIT is due."""
        self.due: dict[int, Stream] = {}
        """Streams of which an ACK is due."""
        self.news: dict[int, Stream] = {}
        """Streams of which an ACK would say something new, when its delay is over."""

    def mine_open(self) -> int:
        """How many streams this side has opened that are not over."""
        return sum(1 for number in self.streams if self.is_mine(number))

    def is_mine(self, number: int) -> bool:
        return number % 2 == self.next_mine % 2

    def was_opened(self, number: int) -> bool:
        """Has there been a stream of this number?"""
        return 0 < number < (self.next_mine if self.is_mine(number) else self.next_peer)

    def stream(self, number: int) -> Stream:
        """A stream that the program names. Raises StreamError."""
        stream = self.streams.get(number)
        if stream is None or stream.was_reset:
            raise StreamError(f"stream {number} is over or was never open", Code.CLOSED)
        return stream

    def read_by_program(self, size: int) -> None:
        """So many bytes take no session credit any more."""
        self.read += size
        if self.read + self.terms.session_credit - self.told_allowed >= max(1, self.terms.session_credit // 4):
            self.owes_credit = True

    def may_acknowledge(self, stream: Stream) -> None:
        """Something of the receiving half has changed: an ACK is due, now or when its delay is over."""
        if stream.receiving.owes(4):
            self.due[stream.number] = stream
        elif stream.receiving.has_news:
            self.news[stream.number] = stream

    @property
    def has_news(self) -> bool:
        """Is there something to acknowledge when the delay is over?"""
        return bool(self.news) or self.controls_came != self.told_controls or self.read != self._told_read

    @property
    def _told_read(self) -> int:
        return self.told_allowed - self.terms.session_credit

    def acknowledge_all(self) -> None:
        """The delay is over."""
        self.due.update(self.news)
        self.news.clear()
        self.owes_credit |= self.controls_came != self.told_controls or self.read != self._told_read

    def forget(self, stream: Stream) -> None:
        """Nothing more is said or heard of it."""
        del self.streams[stream.number]
        self.turns.discard(stream)
        self.due.pop(stream.number, None)
        self.news.pop(stream.number, None)

    def forget_if_over(self, stream: Stream) -> None:
        if stream.is_over:
            self.forget(stream)
            if not stream.was_reset:
                self.out.append(Gone(stream.number))

    def close(self, code: int, words: str) -> None:
        """The session is over: each stream ends with this reason."""
        for stream in self.streams.values():
            if not stream.was_reset:
                self.out.append(WasReset(stream.number, code, words))
        self.streams.clear()
