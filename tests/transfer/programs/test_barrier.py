"""What comes in from the bus and is no frame of its sender ends nothing: neither a core nor programs that use it."""

from __future__ import annotations

import pytest

import rtmw
from rtmw import observe
from rtmw.publisher import OwnPublisher
from rtmw.transfer.address import Address, Life
from rtmw.transfer.client.line import Line
from rtmw.transfer.fields import LONGEST_TEXT, packed_words
from rtmw.transfer.frames import CORE_QUEUE, CORE_TOPIC, Frame, pack_frame, queue_of, unpack_frame
from rtmw.transfer.header import Header, Kind
from rtmw.transfer.messages import (
    Ask,
    Begin,
    Core,
    Done,
    Failed,
    Join,
    Leave,
    Message,
    Savepoint,
    Send,
    Settle,
    Show,
    Take,
    Undone,
)
from rtmw.transfer.records import AbortCause, TransferId, TransferState
from tests.bus import eventually
from tests.child import Spawn
from tests.transfer.core_process import PATIENCE, CoreProcess

LONG_TEXT = "A" * LONGEST_TEXT
OTHERS = 1 << 63
"""Numbers of requests that the core does not log."""
RELIABLE = rtmw.Reliability.RELIABLE
WORKS = "import rtmw, sys\nwith rtmw.Sender('later') as sender:\n    sender.send('ingest', b'late')\n"


class Stranger:
    """A program that writes its frames by itself, as its own process."""

    def __init__(self, domain: rtmw.Domain) -> None:
        slot = domain.region.slot
        assert slot is not None
        self.slot, self._number = slot, OTHERS
        self._queue = OwnPublisher(CORE_QUEUE, domain=domain, reliability=RELIABLE)
        self._heard = rtmw.Subscriber(queue_of(slot), domain=domain, reliability=RELIABLE, depth=100)

    def life(self, generation: int = 1 << 31) -> Life:
        life = Life.of_process(generation=generation)
        assert life is not None
        return life

    def say(self, message: Message, life: Life | None = None, slot: int | None = None) -> int:
        """The number of the frame."""
        self._number += 1
        frame = Frame(life or self.life(), self.slot if slot is None else slot, self._number, message)
        self._queue.publish(pack_frame(frame))
        return self._number

    def raw(self, data: bytes) -> None:
        self._queue.publish(data)

    def ask(self, message: Message) -> Message:
        """The answer."""
        number = self.say(message)
        while True:
            frame = unpack_frame(self._heard.receive(PATIENCE).value)
            if frame.number == number:
                return frame.message


@pytest.fixture
def stranger(core: CoreProcess, domain: rtmw.Domain) -> Stranger:
    return Stranger(domain)


def assert_works(core: CoreProcess) -> None:
    """A letter goes from a sender to an inbox, both opened now, and the core is the one of before."""
    with rtmw.Sender("gauge") as sender, rtmw.Inbox("proof") as inbox:
        sender.send("proof", b"letter", timeout=PATIENCE)
        letter = inbox.take(PATIENCE)
        assert letter is not None
        letter.consume()
    assert core.alive, core.log()


def refused_once(core: CoreProcess, words: str) -> None:
    log = ""

    def is_said() -> bool:
        nonlocal log
        log = core.log()
        return words in log

    eventually(is_said)
    assert log.count("more are counted only") == 1


# ---- at programs ----


# Proves G189.
def test_what_is_no_announcement_of_a_core_ends_the_transfers_of_no_program(
    core: CoreProcess, domain: rtmw.Domain, sender: rtmw.Sender, inbox: rtmw.Inbox, spawn: Spawn
) -> None:
    with OwnPublisher(CORE_TOPIC, domain=domain, history=1) as stranger:
        for odd in (b"garbage", b"", pack_frame(Frame(Life(1, 1, 1), 0, 0, Core(1 << 63, "x"))), bytes(200)):
            assert stranger.publish(odd)
        eventually(lambda: Line.of(domain).refused == 4)
        sender.send("ingest", b"now", timeout=PATIENCE)
        later = spawn(WORKS + "print('sent')\n")
        assert later.line() == "sent", "the announcement of the core is covered for programs that come later"
    for body in (b"now", b"late"):
        letter = inbox.take(PATIENCE)
        assert letter is not None
        assert letter.body == body
        letter.consume()


@pytest.mark.parametrize("ahead_ns", [-1, 1 << 62], ids=["now", "in the future"])
def test_who_said_that_it_is_the_core_and_has_ended_is_in_the_way_of_none(
    core: CoreProcess, domain: rtmw.Domain, sender: rtmw.Sender, inbox: rtmw.Inbox, spawn: Spawn, ahead_ns: int
) -> None:
    """It says so last, so that its own start is the latest."""
    impostor = spawn(
        f"""
        import os, time
        from rtmw.publisher import OwnPublisher
        from rtmw.transfer.address import Life
        from rtmw.transfer.frames import CORE_TOPIC, Frame, pack_frame
        from rtmw.transfer.messages import Core
        out = OwnPublisher(CORE_TOPIC, history=1)
        out.publish(pack_frame(Frame(Life.of_process(), 0, 0, Core(time.monotonic_ns() + {ahead_ns}, "x"))))
        print("said")
        input()
        """
    )
    assert impostor.line() == "said"
    eventually(lambda: Line.of(domain).node == "x" if ahead_ns < 0 else Line.of(domain).refused == 1)
    impostor.kill()
    eventually(lambda: Line.of(domain).node == "plant")
    sender.send("ingest", b"after it", timeout=PATIENCE)
    letter = inbox.take(PATIENCE)
    assert letter is not None
    assert letter.body == b"after it"
    letter.consume()


# Proves G189.
def test_what_the_core_has_not_said_to_a_program_is_passed_over(
    core: CoreProcess, domain: rtmw.Domain, sender: rtmw.Sender, inbox: rtmw.Inbox
) -> None:
    slot, life = domain.region.slot, sender._life
    assert slot is not None
    forged = [Frame(life, slot, 0, Undone(0, AbortCause.AGE)), Frame(life, slot, 1, Failed(0, "forged"))]
    odd = bytearray(pack_frame(forged[0]))
    odd[-1] = 7  # a cause that there is not
    with OwnPublisher(queue_of(slot), domain=domain, reliability=RELIABLE) as stranger:
        for data in (bytes(odd), b"garbage", *map(pack_frame, forged)):
            assert stranger.publish(data)
        eventually(lambda: Line.of(domain).refused == 4)
        transfer = sender.send("ingest", b"now", timeout=PATIENCE)
        letter = inbox.take(PATIENCE)
        assert letter is not None
        assert letter.body == b"now"
        letter.consume()
        assert transfer.wait(rtmw.Level.CONSUMED, PATIENCE)
    sender.close()
    assert list(sender.events()) == []


def test_a_program_whose_hearing_fails_is_told_so_and_waits_no_longer(
    core: CoreProcess, sender: rtmw.Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threading.excepthook", lambda _: None)

    def fail(message: Message) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(sender, "_told", fail)
    with pytest.raises(rtmw.TransferError, match="heard no more: ZeroDivisionError"):
        sender.send("ingest", b"letter", lifetime=0.001, wait=rtmw.Level.CONSUMED, timeout=PATIENCE)


# ---- at the core ----


@pytest.mark.parametrize(
    "message",
    [
        Show(LONG_TEXT),
        Show("info " + "A" * (LONGEST_TEXT - 5)),
        Show("info a:" + "f" * 2000 + ":1"),
        Savepoint(9, LONG_TEXT),
        Ask(TransferId(LONG_TEXT, 1, 1)),
        Settle(TransferState.REFUSED, LONG_TEXT, (5,)),
        Take(0, 0, 2),
        Take(0, 1, 1),
        Send(0, Header(Address.parse("ingest"), Kind.COMPOSITE, 11), b"", b"\1\0\1" + bytes([255] * 8)),
        Send(0, Header(Address.parse("ingest"), Kind.FILE, 5), b"", b"wrong"),
        Done(1),
        Undone(9, 1),
    ],
    ids=lambda message: type(message).__name__,
)
# Proves G189.
def test_no_frame_of_a_sender_ends_the_core(core: CoreProcess, stranger: Stranger, message: Message) -> None:
    assert stranger.ask(Join(0, "stranger")) == Done(0)
    stranger.ask(message)
    assert_works(core)


def test_a_role_or_a_name_that_there_is_not_is_no_frame(core: CoreProcess, stranger: Stranger) -> None:
    head = len(pack_frame(Frame(stranger.life(), stranger.slot, 1, Leave())))
    joins = [pack_frame(Frame(stranger.life(), stranger.slot, 1, Join(1, name))) for name in ("xx", "yy", "zz")]
    for data, at, odd in zip(joins, (head, head + 3, head + 3), (2, ord("/"), 0), strict=True):
        changed = bytearray(data)
        changed[at] = odd
        stranger.raw(bytes(changed))
    stranger.raw(pack_frame(Frame(stranger.life(), stranger.slot, 1, Show("members"))))
    refused_once(core, "role 2")
    assert_works(core)


def test_an_inbox_that_joins_again_under_another_name_is_refused_and_takes_nothing_of_others(
    core: CoreProcess, stranger: Stranger
) -> None:
    assert stranger.ask(Join(1, "rx")) == Done(0)
    assert stranger.ask(Join(1, "rx")) == Done(0), "a JOIN may come twice"
    stranger.say(Take(0, 1, 1))
    for other in (Join(1, "ry"), Join(0, "rx"), Join(1, "rx", "/tmp")):
        answer = stranger.ask(other)
        assert isinstance(answer, Failed)
        assert "has joined as 'rx' already" in answer.message
    assert stranger.ask(Leave()) == Done(0)
    with rtmw.Sender("gauge") as sender:
        assert sender.send("rx", b"waits", timeout=PATIENCE).state is TransferState.ACCEPTED
    assert_works(core)


def test_a_sender_takes_no_letters(core: CoreProcess, stranger: Stranger) -> None:
    stranger.ask(Join(0, "ingest"))
    assert stranger.ask(Take(0, 1, 0)) == Failed(0, "a sender takes no letters; open an inbox")


def test_a_process_joins_with_its_own_slot_alone(core: CoreProcess, stranger: Stranger, domain: rtmw.Domain) -> None:
    for slot in range(130):
        if slot != stranger.slot:
            stranger.say(Join(0, "x"), stranger.life(1000 + slot), slot)
    assert stranger.ask(Join(0, "stranger")) == Done(0)
    refused_once(core, "of the domain, which is another process")
    made = {view.name for view in observe.topics(domain) if view.name.startswith("rtmw/transfer/in/")}
    assert made == {queue_of(stranger.slot)}


# Proves G189.
def test_a_process_speaks_for_no_member_of_another(core: CoreProcess, stranger: Stranger, spawn: Spawn) -> None:
    other = spawn("""
        import rtmw
        with rtmw.Inbox("ingest") as inbox:
            print(*inbox._life, inbox._line._domain.region.slot)
            print(inbox.take(20).body.decode())
    """)
    *life, slot = map(int, other.line().split())
    for message in (Leave(), Take(0, 64, 0), Begin(), Join(1, "ingest")):
        stranger.say(message, Life(*life), slot)
    assert stranger.ask(Join(0, "stranger")) == Done(0)
    refused_once(core, f"its head names process {other.pid}")
    with rtmw.Sender("gauge") as sender:
        sender.send(f"ingest/{other.pid}", b"for it alone", timeout=PATIENCE)
    assert other.line() == "for it alone"


def test_what_a_member_asks_is_answered_on_its_own_queue_alone(core: CoreProcess, stranger: Stranger) -> None:
    assert stranger.ask(Join(0, "stranger")) == Done(0)
    stranger.say(Show("members"), slot=stranger.slot + 1)
    refused_once(core, f"it asks for answers to program {stranger.slot + 1} of the domain, which is another process")


@pytest.mark.parametrize("text", ["short", "é" * 3000, "x" + "é" * 3000, "a\ud800b", ""])
def test_words_for_people_always_fit_a_frame(text: str) -> None:
    data = packed_words(text)
    assert len(data) - 2 == int.from_bytes(data[:2], "little") <= LONGEST_TEXT
    assert text.encode(errors="replace").startswith(data[2:])
    data[2:].decode()


# ---- topics of rtmw itself ----


@pytest.mark.parametrize("topic", [CORE_TOPIC, CORE_QUEUE, queue_of(0), "rtmw/node", "rtmw/"])
# Proves G189.
def test_programs_publish_on_no_topic_of_rtmw_itself(domain: rtmw.Domain, topic: str) -> None:
    with pytest.raises(rtmw.TopicNameError, match="choose another name"):
        rtmw.Publisher(topic, domain=domain)
    rtmw.Publisher(topic[:4], domain=domain).close()
