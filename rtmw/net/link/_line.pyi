"""Topics over TCP, TLS and Unix sockets (link.h). Python opens connections, lines and routes; no Python runs for
a message.

    connections   Python connects or accepts, calls `handshake` until it is done, asks who the peer is, exchanges a
                  hello with `say` and `heard`, and gives two of them, one for urgent and one for bulk, to a line; on
                  far ways also a third one, its twin.
    line          one peer, as long as the session with it lives, over cuts of connections: routes, and controls,
                  which are messages of Python to Python: each comes once and in order, also over a cut.
    route         one topic in one direction, by a number that the side which sends chooses.

All calls return at once, but for `Route.close`, `Route.stop` and `Line.close`, which wait for a burst of the thread.
"""

from typing import final

from rtmw.errors import RtmwError

class TlsError(RtmwError):
    """OpenSSL refused. `args`: (reason, verify_code, verify_message); `links.py` makes an ssl.SSLError of it, which
    rtmw.net.session.errors.tls_in_words takes. verify_code 0: the certificate was not what failed."""

@final
class Context:
    """Keys of this node for TLS 1.3: a certificate of the peer is required, no tickets, no renegotiation, no 0-RTT."""

    def __new__(cls, pem: bytes, authorities: list[bytes], is_server: bool, openssl: str = "") -> Context:
        """`pem`: private key and certificate, as node.pem has them. `authorities`: certificates in DER. `openssl`: see
        the function `openssl`. Raises TlsError, and RtmwError in words where no OpenSSL can be found."""

@final
class Connection:
    """A connection over TCP or a Unix socket: its own copy of a descriptor (the caller closes its own), non-blocking.

    Until it is given to a line: for one thread at a time. From then on it is the line's, and all but the properties and
    `close` (which does nothing) raise RtmwError.
    """

    def __new__(cls, descriptor: int, context: Context | None = None) -> Connection:
        """`context` None: without TLS, and each frame has a CRC. Raises OSError."""

    def handshake(self) -> str:
        """One step of TLS: "done", or what to wait for before the next one, "read" or "write". Raises TlsError, and
        OSError when the connection broke. Without TLS: "done"."""

    @property
    def peer(self) -> bytes | None:
        """The peer's certificate in DER, verified by the handshake; None without TLS."""

    @property
    def cipher(self) -> str:
        """Such as "TLS_AES_128_GCM_SHA256"; "" without TLS."""

    @property
    def has_crc(self) -> bool:
        """Each frame ends with a CRC: without TLS, until `omit_crc`. False once given to a line."""

    @property
    def is_within_host(self) -> bool:
        """It is a Unix socket, or the other end is on loopback, as this end sees it. False once given to a line."""

    @property
    def is_far(self) -> bool:
        """The first round trip took 5 ms or more, and the other end is on another host. False once given to a line."""

    def omit_crc(self) -> None:
        """No frame has a CRC from here on: when the last control frame was said and heard, at both ends."""

    def say(self, message: bytes, /) -> None:
        """Queue a control frame (at most 16,000 bytes) and write as much as the socket takes; see `flush`. These frames
        belong to the connection alone: they are not numbered, and are lost with it. Raises OSError, TlsError."""

    def flush(self) -> str:
        """Write what is queued: "done", "read" or "write" as in `handshake`. Raises OSError, TlsError."""

    def heard(self) -> list[bytes] | None:
        """Control frames that have come; []: none yet, wait until it is readable. None: the peer has closed. At most
        64 KiB are read in a call. Any other frame, and what is no frame, raises RtmwError in words. Raises OSError,
        TlsError: a TLS client learns here that it was refused."""

    def fileno(self) -> int:
        """The connection's own descriptor, for add_reader and add_writer; -1 once closed or given to a line."""

    def close(self) -> None:
        """Idempotent."""

@final
class Bus:
    """Attached to a domain, as one participant for all lines of a node."""

    def __new__(cls, domain: int, carried: str | None = None, wire_domain: int = 0) -> Bus:
        """`carried`: the file of the table that says, over restarts, how far lanes were carried; it is made if it is
        not there; None: it is not known. `wire_domain`: the DDS domain of the node. Raises RtmwError where the domain
        cannot be attached, and OSError for the file."""

    def close(self) -> None:
        """Detach once all lines are closed. Idempotent."""

@final
class Line:
    """The line that joins this node with one other, from the first connection to the end of the session.

    Two threads, one that sends and one that receives, from `carry` to `close`.
    """

    def __new__(
        cls, bus: Bus, zero_copy_most: int = 0, site: int = 0, hops: int = 1, key: int = 0xFFFF, held_most: int = 0
    ) -> Line:
        """`key`: of subscribers that are parked, another one for each peer that carries the same topics.
        `site`, `hops`: what messages of this node say of where they are from, and over how many links they may go.
        `zero_copy_most`: bytes of messages that may stay in the pool until the peer has acknowledged them, at a time;
        what is more is copied. 0: every message is copied. `held_most`: bytes of messages of all routes that may wait
        here for room on the bus: as they do, the peer is given less room. Four times as much is held at the utmost,
        and what is more is dropped, counted (no_memory) and told. 0: no limit but the windows of the routes."""

    def carry(self, urgent: Connection, bulk: Connection) -> None:
        """These two carry from now on, in place of those before; both sides must mean the same two (the hello says so).

        Bytes that they heard beyond the last control of the hello are the line's. Resumes: what the peer has not
        acknowledged of RELIABLE and ADAPTIVE routes, and controls, is sent again. Raises RtmwError when the line is
        closed, or a connection was given away before.
        """

    def twin(self, connection: Connection, /) -> None:
        """Have copies of small urgent messages go over this third connection, in place of the one before, until it ends
        or those of `carry` do: `info` says whether it is there. Raises RtmwError as `carry` does."""

    def cut(self, words: str = "") -> None:
        """End the connections; routes and what waits stay, for the next `carry`. `words`: what the peer is told, if
        not "" and as far as the socket takes it. Idempotent."""

    def say(self, message: bytes, /) -> None:
        """A control for the peer's `events`: at most 16,000 bytes. It waits for a connection if there is none; at most
        4,096 may wait, more raise RtmwError."""

    def fileno(self) -> int:
        """An eventfd: readable while `events` has something."""

    def events(self) -> list[tuple[str, int, bytes]]:
        """The events, in order; each a kind, a number, and bytes:

        ("up", 0, b"")           both sides have resumed: routes flow
        ("control", 0, message)  from the peer's `say`
        ("down", code, words)    the connections have ended, in words (UTF-8) why. The line waits for the next
                                 `carry`, unless code is 2: the peer broke a rule of the wire, and must not come
                                 back to this line. 0: closed by the peer or `cut`; 1: the connection failed;
                                 3: silent for too long; 4: damaged (CRC or TLS); 5: the peer has said why
        ("refused", route, why)  inbound: the first message beyond a ceiling; why: b"priority", b"size" or b"rate".
                                 Later ones are counted only (Route.counters)
        ("first", route, b"")    inbound, opened for later: a message has come, and waits for `Route.begin`
        ("withheld", route, why) outbound: the first message that is not sent for a ceiling: b"priority" or b"size"
        """

    def outbound(
        self,
        number: int,
        topic: str,
        type: tuple[str, int, bytes] | None,
        reliability: int,
        depth: int,
        history: int,
        min_interval_ns: int,
        lease_ns: int,
        carried: int = 0,
        is_followed: bool = False,
    ) -> Route:
        """Send what publishers of just this reliability publish on this host: nothing before the peer has opened its
        inbound route of this number, which tells it so by credit.

        `carried`: by which the table of the Bus knows the lane and the peer, over restarts; 0: it does not.
        `is_followed`: what was published since a route before this one is new to the peer, though the bus keeps it.
        `number`: from 1, larger than any before of this side of the line; both directions count apart. The two sides
        agree on the rest by controls. Open it before the control that announces it: a peer that opens its route first
        breaks a rule of the wire. Raises ValueError for a number that is not larger.
        """

    def inbound(
        self,
        number: int,
        topic: str,
        type: tuple[str, int, bytes] | None,
        reliability: int,
        priority: int,
        depth: int,
        history: int,
        origin: str,
        wants_old: bool,
        window: int,
        max_priority: int = 7,
        max_size: int = 0,
        max_rate: int = 0,
        on_bus: dict[int, int] = ...,
        begins: int = 0,
        later: bool = False,
    ) -> Route:
        """Publish on this host what the peer sends by this number.

        `later`: it takes a publisher, and its type, at `Route.begin`; until then messages wait as for room on the bus.

        `on_bus`: the newest source time of each remote publisher of which the bus has messages (neighbours.on_bus), for
        64 of them: kept messages up to it are passed over, and counted as old. `begins`: as the peer says: what its
        messages before this route have not brought here, over this line or another way, is counted as lost, and told to
        subscribers that were there.

        `origin`: of the peer's region, as `neighbours.origin` has it, so that publishers have the same identity
        everywhere. `window`: bytes that may be on their way or wait here (and one message more); 1 MiB and more for far
        hosts. `max_size` in bytes and `max_rate` in bytes a second; 0: no limit. Messages above a ceiling are dropped
        and counted. Raises ValueError for a number that is not larger than those before.
        """

    def limit(self, bytes_per_second: int, /) -> None:
        """Send at most so many bytes a second over the connections of all lines of the Bus that have the same local
        address as its own; 0: no limit."""

    def lease(self, silence_ns: int, /) -> None:
        """End connections on which nothing has come for so long. A PING goes out four times in it at most, over the one
        that was silent for longer. Until told: 5 s."""

    def steady_ns(self) -> int:
        """The steady clock of this host (route/now.h)."""

    def info(self) -> dict[str, int]:
        """steady_ns (the steady clock here, route/now.h), rtt_ns and rtt_least_ns (0: not measured), ahead_ns
        and unsure_ns (how far the peer's steady clock is ahead, and what that may be wrong by), sent and received
        (bytes with frames), queued (bytes handed to the kernel that have not left), unacknowledged (bytes), held (bytes
        that have come and are not on the bus yet), resumes, controls (waiting), twin (1: it is there), twins (that
        there were), copies (of messages, that went over them), copies_left_out (for they had no room, or exceeded their
        share), and of those of the peer copies_first (came before the message itself) and copies_passed_over."""

    def close(self) -> None:
        """Ends the connections and the threads; routes are to be closed before or after. Idempotent."""

@final
class Route:
    """One topic in one direction over one line."""

    def begin(self) -> None:
        """Inbound, opened for later: take the publisher. Raises RtmwError where the host has no room. Idempotent."""

    def counters(self) -> dict[str, int]:
        """Counters of what it has carried and dropped, by cause; {} once closed.

        outbound: sent, bytes, expired, thinned, missed, lapses, blocked (waits for credit), resent, and what a ceiling
        kept from being sent: priority, size. inbound: received,
        bytes, lost, expired, no_memory, delayed, uncopied, old (kept messages that are not wanted, or are here
        already), and what exceeds a ceiling: priority, size, rate.
        """

    def total(self) -> int:
        """The sum of its counters, modulo 2^64."""

    def limit(self, bytes_per_second: int, max_priority: int = 7, max_size: int = 0, topic_rate: int = 0, /) -> None:
        """The ceilings from now on. Outbound: send at most so many bytes a second of it, and none of what is above the
        others that is taken from the bus from now on; `topic_rate` holds over all lines of the Bus that carry the
        topic. Inbound: as those of `inbound`. 0 for bytes: no limit."""

    def passed(self) -> tuple[int, int]:
        """Outbound: how many messages had expired, and how many were thinned, of which the peer has got no number."""

    def unsent(self, expired: int, thinned: int, /) -> None:
        """Inbound: subscribers that were here when this was called last did not get so many messages, by cause, which
        the peer has not sent."""

    def finish(self) -> None:
        """Outbound: take nothing more from the bus; `delivered` is true once all that was taken is acknowledged."""

    def abandon(self) -> None:
        """Inbound: what waits for room on the bus is lost. It counts as no_memory, and subscribers of a RELIABLE topic
        are told."""

    def held(self) -> int:
        """Messages. Outbound: those taken from the bus and not begun to be sent. Inbound: those that wait for room."""

    def begins(self) -> int:
        """Outbound: messages of its lane that were sent, or lost, before it, as far as the table of the Bus knows."""

    def adjust(self, depth: int, min_interval_ns: int, /) -> None:
        """Outbound: other limits for what is taken from the bus."""

    def want_old(self, wanted: bool, /) -> None:
        """Inbound: should messages be published that were there before anybody read?"""

    def delivered(self) -> bool:
        """Outbound: has all that was published left, and been acknowledged, where it is acknowledged? Inbound: does
        nothing wait for room on the bus?"""

    def park(self, for_ns: int, /) -> None:
        """Outbound, RELIABLE: what it has not taken when it stops is kept for the next one, for so long at most."""

    def stop(self) -> None:
        """Outbound: take and send nothing more; what was not acknowledged is given up, so ask `delivered` before.
        Counters stay until `close`. The peer is told by a control, if it is to know; frames of a number that it has
        closed are passed over there."""

    def close(self) -> None:
        """Stops it, too. Idempotent."""

def openssl(path: str = "", /) -> str:
    """The version of the OpenSSL whose libssl this is, such as "OpenSSL 3.5.9 29 Sep 2026". `path`: "" is the one that
    Python has loaded, else that of the system. Raises RtmwError in words where it cannot be had."""
