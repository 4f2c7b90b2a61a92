"""The part of the node that touches messages (engine.h), and what DDS shows of others, undecoded (_engine.c)."""

from typing import final

Text = bytes | None
PolicyRow = tuple[tuple[Text, ...] | None, int, int, int, int, int, int, int, int, int, bool, bool]
"""The fields of Policies (wire.py) but for the last one, in their order; None: too many partitions."""
EndpointRow = tuple[bytes, bytes, Text, Text, Text, Text, PolicyRow, tuple[int, ...], int, int, int, int]
"""GUID, that of its participant, topic, type, user data, complete TypeIdentifier (XCDR2), policies, data
representations, messages kept, TransportPriority, and nanoseconds of TimeBasedFilter and Lifespan. None: there is none,
or it is too long to be told."""
ParticipantRow = tuple[bytes, bytes | None, bytes | None, bytes | None, bytes | None, bytes | None]
"""GUID, user data, and the properties __Hostname, __Pid, __ProcessName and __NetworkAddresses."""

def shown(reader: int, are_participants: bool, /) -> list[EndpointRow | ParticipantRow | bytes]:
    """Take what a built-in reader has, 256 samples at most; of who has gone, the GUID alone. Raises RtmwError."""

def matched(entity: int, writes: bool, /) -> tuple[int, ...]:
    """The handles of all readers of a DDS writer, or of all writers of a reader. Raises RtmwError."""

def matched_endpoint(entity: int, writes: bool, handle: int, /) -> EndpointRow | None:
    """One of them; None: it has left."""

@final
class Engine:
    """Attached to a domain, with a thread that sends."""

    def __new__(
        cls,
        domain: int,
        bytes_per_second: int = 0,
        zero_copy_most: int = 0,
        carried: str | None = None,
        wire_domain: int = 0,
    ) -> Engine:
        """`zero_copy_most`: bytes of the pool that DDS may hold at a time (zero_copy.c). `carried`: the file in
        which nodes of the region leave to the next one how far lanes were carried (engine.h), of this DDS domain.
        Raises OSError if it cannot be made."""

    def outbound(
        self,
        topic: str,
        type: tuple[str, int, bytes] | None,
        writer: int,
        octets: bool,
        reliability: int,
        depth: int,
        history: int,
        min_interval_ns: int,
        lease_ns: int,
        may_zero_copy: bool,
        is_plain: bool,
        sent: int,
    ) -> Route:
        """Carry to a DDS writer what publishers of just this reliability publish.

        `octets`: the payload is the one member of rtmw::Octets. `may_zero_copy`: DDS keeps none of it for later
        readers, and its type has no key. `is_plain`: samples have no trailer, and so no pack and no CRC. `sent`:
        messages that other routes have given to the writer before, and count as sent.
        """

    def inbound(
        self,
        topic: str,
        type: tuple[str, int, bytes] | None,
        reader: int,
        octets: bool,
        reliability: int,
        priority: int,
        depth: int,
        history: int,
        lane: int,
        wants_old: bool,
        may_receive_in_loan: bool,
        is_keyed: bool,
        newest: bytes,
        on_bus: dict[int, int],
    ) -> Route:
        """Carry what a DDS reader receives to a topic, but for what writers of other lanes sent (enum lane).

        `may_receive_in_loan`: large messages go from datagrams to the pool; only with a DDS library whose datagrams are
        laid out as dds.h says. `is_keyed`: its type has keys, so what writers dispose and unregister is counted.
        `newest`: of the last route of this lane; empty, if there was none. `on_bus`: the newest source time of each
        remote publisher of which the bus has messages.
        """

    def limit(self, bytes_per_second: int, /) -> None:
        """Send at most so many bytes a second; 0: no limit. Another limit than before holds at once."""

    def peer_rate(self, place: int, bytes_per_second: int, /) -> None:
        """The limit of what leaves towards a host, by its place from 0 to 63 (Route.limit); 0: no limit."""

    def clocks(self, measured: list[tuple[bytes, int, int]], /) -> None:
        """Sets, in place of what was said before, how far the clocks of other nodes are ahead, and what that may be
        wrong by, in nanoseconds, by the GUID of their participants (inbound.c)."""

    def link(self, origins: list[str], /) -> None:
        """Pass over what these nodes send over DDS from now on: those that are met over links, by the origins of their
        regions (neighbours.origin). At most 1,000, in place of those before."""

    def finish(self) -> None:
        """From now on takes, for each topic and priority, no more than what is published by now, and one message."""

    def leave(self) -> None:
        """From now on takes nothing more of RELIABLE topics: their routes are parked next (Route.park). Messages
        that they have taken are sent also to nodes that asked for a pause, for that is little, and would be lost."""

    def pace(self, descriptor: int, /) -> bool:
        """Look how much this socket, with which DDS sends, has not sent yet, and hand little more to it (pacing.c).
        False: no more of them are looked at."""

    def flow(self, writer: int, reader: int, /) -> None:
        """Tell other nodes what to pause, and hear it of them, through these DDS entities (library.py)."""

    @staticmethod
    def abi_check(writer: int, sample: bytes, /) -> bool:
        """Is the DDS library laid out as the engine expects? Writes a sample, CDR of the writer's type, to see."""

    def public_calls(self, writer: int, sample: bytes, /) -> bool:
        """Before the first route: use public calls of the DDS library alone, for it does not fit (library.c).

        `sample`: as for `abi_check`; it is not written. False: these calls do not carry it, and routes would carry
        nothing.
        """

    @staticmethod
    def install_hash(table: int, /) -> bool:
        """Give cyclonedds' types, whose table of functions lies there, a hash each. False: it is another table."""

    @staticmethod
    def capture_log(is_on: bool, /) -> bool:
        """While this is on, a DDS library that begins to log is given a stream of the node (library.c). False: it
        cannot be, and logs to standard error."""

    @staticmethod
    def captured() -> tuple[list[str], int]:
        """Lines of the DDS library's log since the last call, 64 at most, and how many more there were."""

    @staticmethod
    def trim() -> None:
        """Return free memory of this process to the system. Takes milliseconds."""

    @staticmethod
    def steady_ns() -> int:
        """Nanoseconds since 1970 by the wall clock as it was when this was first asked: nobody sets it."""

    def watch(self, readers: int, /) -> None:
        """The DDS reader that tells who reads what: when it has news, no pack and no CRC is sent until `looked`."""

    def follow(self, participant: int, /) -> None:
        """The DDS participant whose endpoints are followed (events.c); to be called before it has any."""

    def matched(self) -> set[str] | None:
        """The DDS topics of endpoints that have met others, or lost some, since it was asked last; None: too many to
        tell."""

    def total(self) -> int:
        """The sum of all counters of all open routes, modulo 2^64; another number each time while the sender works."""

    def heard(self) -> int:
        """How much news it had. To be asked before looking."""

    def looked(self, heard: int, /) -> None:
        """Says that `pack` of each route was decided with knowledge of the first `heard` readers (outbound.c)."""

    def counters(self) -> dict[str, int]:
        """How often others said of pauses what is not believed: notes that are none (malformed), of topics of this node
        that they do not read (unmatched), more than one may have in force (crowded)."""

    def close(self) -> None:
        """Stop the thread, and detach once all routes are closed. Idempotent. Open routes carry nothing out then."""

@final
class Route:
    """One topic in one direction."""

    def counters(self) -> dict[str, int]:
        """Counters of what it has carried and dropped, by cause; {} once closed."""

    def total(self) -> int:
        """The sum of its counters, modulo 2^64: another number as soon as anything was counted."""

    def pack(self, may: bool, may_check: bool, may_date: bool, /) -> None:
        """Outbound: may small messages travel together, samples have a CRC, and lifetimes a date? All who read the
        topic must know packs, CRCs and dates (trailer.h)."""

    def limit(self, bytes_per_second: int, places: int, /) -> None:
        """Outbound: send at most so many bytes a second of it; 0: no limit.

        `places`: the limited hosts that read it, bit N for the one of place N (Engine.peer_rate).
        """

    def delivered(self) -> bool:
        """Outbound: has all left that was published, and been acknowledged, where it is RELIABLE? Inbound: does nothing
        wait for room on the bus?"""

    def held(self) -> int:
        """Outbound: messages that were taken from the bus and not sent. Inbound: samples that wait for room there."""

    def adjust(self, depth: int, min_interval_ns: int, may_zero_copy: bool, /) -> None:
        """Outbound: other limits for what is taken from the bus, and another way for what is sent."""

    def park(self, for_ns: int, /) -> None:
        """Outbound, RELIABLE: what it has not taken when it stops is kept for the next node, for so long at most.
        Publishers wait for that node meanwhile. 0: not."""

    def stop(self) -> None:
        """Outbound: send nothing more. The counters, which change no more, can be read until it is closed."""

    def number(self) -> int:
        """The number of its topic and type among nodes; 0 once closed."""

    def keep(self, until_ns: int, /) -> tuple[int, bool] | None:
        """Outbound: take nothing until then (CLOCK_MONOTONIC), for who reads it begins anew; 0: go on. The sequence of
        the last sample that was sent, and whether all who read it have acknowledged it; None: what was taken before is
        still being sent."""

    def has(self, participant: bytes, sequence: int, is_acknowledged: bool, /) -> bool:
        """Inbound: has all come of this DDS participant (GUID) up to the sample of that sequence, and is on the bus?
        Of whom nothing has come at all, `is_acknowledged` says it."""

    def last(self) -> int:
        """Outbound: the sequence of the last sample that DDS has taken; 0: none yet."""

    def reached(self, participant: bytes, /) -> int | None:
        """Inbound: the sequence up to which samples of this DDS participant (GUID) have come; 0: none has. None: some
        wait for room on the bus, or for a handover."""

    def unsent(self, expired: int, thinned: int, /) -> None:
        """Inbound: subscribers that were here when this was called last did not get so many messages, by cause, which
        the other node has not sent."""

    def newest(self) -> bytes:
        """Inbound: what it has brought of which publishers, for the next route of its lane (sources.c)."""

    def want_old(self, wanted: bool, /) -> None:
        """Inbound: should messages come that nodes had kept from before anybody read?"""

    def hand_over(self, entity: int, at_once: bool, /) -> bool:
        """Let another DDS writer or reader take the place of the route's. False: not yet; ask again soon.

        `at_once`: it need not be without a gap. The old one is to be kept until this is done, and then closed.
        """

    def close(self) -> None: ...

@final
class DataEvent:
    """A descriptor that becomes readable when a DDS reader has something."""

    def __new__(cls, reader: int) -> DataEvent: ...
    def fileno(self) -> int:
        """Readable until `take`; -1 once closed."""

    def take(self) -> list[int]:
        """Nanoseconds since each sample came, from the oldest on; of 256 at most, the newest."""

    def close(self) -> None: ...
