"""Connections of a relay: both frames on the same ports, and who is at the other end (R6, R10)."""

from __future__ import annotations

import gc
import math
import shutil
import signal
import socket
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import rtmw
from rtmw.errors import RtmwError
from rtmw.net.security.identity import Identity
from rtmw.relay import Frame
from rtmw.relay.frame import LEASE_S, LONGEST_DATA, Filter, Hello, Kind, Packet, Stamps, encode
from rtmw.relay.machine import FILTER_LONGEST, FILTERS_MOST, ROWS_MOST, Act, Machine
from rtmw.relay.policy import Policy
from rtmw.relay.rows import Row
from rtmw.relay.settings import read_relay
from rtmw.relay.state import State
from rtmw.text.daemon_log import LINES_MOST
from tests.net.hosts import wait_until
from tests.net.security.site import Site
from tests.relay import world
from tests.relay.servers import ALONE, OPENED, PATIENCE, SETTINGS, OwnPeer, Peer, Relay, stamp

SHARED = (
    SETTINGS.replace('order = ["GATE/*"', 'order = ["FLTS/*", "LATE/*", "GATE/*"')
    + """
[[subject]]
address = "FLTS"

[[agent]]
name = "LATE"
from = "127.0.0.1"
absent = "keep"

[[agent]]
name = "RULE"
from = "127.0.0.1"

[[allow]]
peer = ["agent:GATE", "agent:KEEP"]
follow = ["FLTS"]

[[allow]]
peer = "agent:RULE"
order = ["KEEP/*"]
max_priority = 5
priority = 2
lifetime = "300ms"
"""
)


@contextmanager
def started(folder: Path, text: str) -> Generator[Relay]:
    made = Relay(folder, text)
    try:
        made.start()
        yield made
    finally:
        made.kill()


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    """Tests leave it with nothing that waits, and nobody who follows."""
    with started(tmp_path_factory.mktemp("relay"), SHARED) as made:
        yield made


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    with started(tmp_path_factory.mktemp("alone"), ALONE) as made:
        yield made


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """A relay that is shared has no connection of an earlier test."""
    yield
    while OPENED:
        OPENED.pop().close()


def known(peer: Peer) -> Peer:
    """Its frames have come to the relay."""
    peer.order("NONE", b"x")
    peer.take()
    return peer


def test_agents_of_both_frames_give_each_other_orders_on_the_same_port(relay: Relay) -> None:
    own, paper = OwnPeer(relay, "AODB"), known(Peer(relay, "GATE"))
    sent = own.order("GATE", b"gate 12").frame
    came = paper.take()
    assert (came.source, came.stamp, came.data) == (sent.source, sent.stamp, sent.data)
    paper.confirm(came)
    receipt = own.take()
    assert (receipt.kind, receipt.frame.answers) == (Kind.RECEIPT, (sent.stamp, bytes(3)))
    order = paper.order("AODB", b"thanks")
    taken = own.take()
    assert (taken.kind, taken.frame.data, taken.frame.checksum) == (Kind.ORDER, b"thanks", order.checksum)
    own.confirm(taken)
    assert paper.take().answers == (order.stamp, order.checksum)


# Proves R6.
def test_data_of_any_bytes_up_to_a_mebibyte_goes_between_agents_of_this_package(relay: Relay) -> None:
    own, keep = OwnPeer(relay, "AODB"), OwnPeer(relay, "KEEP")
    for data in (bytes(range(256)) * 4096, b"", b"\n"):
        own.order("KEEP", data)
        came = keep.take()
        assert came.frame.data == data
        keep.confirm(came)
        assert own.take().kind is Kind.RECEIPT
    assert own.welcome.longest == LONGEST_DATA


def test_many_large_orders_wait_for_room_and_none_is_lost(tmp_path: Path) -> None:
    with started(tmp_path, SETTINGS.replace("200ms", "20s")) as relay:
        own, keep = OwnPeer(relay, "AODB"), OwnPeer(relay, "KEEP")
        sent = [own.order("KEEP" if number % 2 else "ALL", bytes((number,)) * LONGEST_DATA) for number in range(6)]
        seen = dict[bytes, int]()
        while len(seen) < len(sent):
            came = keep.take()
            seen[came.frame.stamp] = len(came.frame.data)
            keep.confirm(came)
    assert seen == {one.frame.stamp: LONGEST_DATA for one in sent}


# Proves R6.
def test_a_line_feed_for_an_agent_with_frames_of_the_paper_is_refused_in_words(relay: Relay) -> None:
    own = OwnPeer(relay, "AODB")
    known(Peer(relay, "GATE"))
    own.order("GATE", b"a\nb")
    kind, words = own.said()
    assert (kind, words.partition(": ")[0]) == (Kind.ALERT, "GATE takes frames of the paper alone")
    assert "line feed (0x0A) at byte 1" in words
    own.order("GATE", bytes(65536))
    assert "the longest has 65536" in own.said()[1]


def test_an_order_that_fits_no_frame_of_a_recipient_that_comes_later_is_undelivered(relay: Relay) -> None:
    own = OwnPeer(relay, "AODB")
    own.order("LATE", b"a\nb")
    assert own.said()[0] is Kind.NOTICE
    late = Peer(relay, "LATE")
    kind, words = own.said()
    assert kind is Kind.ALERT
    assert words.startswith("LATE: UNDELIVERED, data has a line feed")
    own.order("LATE", b"c")
    came = late.take()
    assert came.data == b"c"
    late.confirm(came)
    assert own.said()[0] is Kind.RECEIPT


# Proves R5.
def test_priority_and_lifetime_of_a_frame_hold_within_the_ceilings_of_its_rule(relay: Relay) -> None:
    own, keep = OwnPeer(relay, "RULE"), OwnPeer(relay, "KEEP")
    for asked, given in ((None, 2), (5, 5), (0, 0)):
        own.order("KEEP", b"x", asked)
        came = keep.take()
        assert came.priority == given
        keep.confirm(came)
        own.take()
    own.order("KEEP", b"x", 6)
    assert own.said() == (Kind.ALERT, "priority 6 is above 5, which the rule allows")
    for asked, given in ((0.2, 0.2), (60.0, 0.3)):
        own.order("KEEP", b"x", lifetime=asked)
        came = keep.take()
        assert came.lifetime == given
        keep.confirm(came)
        own.take()


def test_an_order_that_is_kept_is_told_by_a_notice_and_again_to_who_asks_again(relay: Relay) -> None:
    own = OwnPeer(relay, "AODB")
    sent = own.order("KEEP", b"x")
    assert own.said() == (Kind.NOTICE, "kept for KEEP")
    own = OwnPeer(relay, "AODB")
    own.send(sent)
    assert own.said() == (Kind.NOTICE, "kept for KEEP")
    keep = OwnPeer(relay, "KEEP")
    keep.confirm(keep.take())
    assert own.take().kind is Kind.RECEIPT


def test_the_welcome_has_the_times_of_the_relay_and_the_highest_stamp_that_was_stored(relay: Relay) -> None:
    own = OwnPeer(relay, "AODB")
    assert (own.welcome.t2, own.welcome.n2) == (0.2, 2)
    stored = own.order("GATE", b"x")
    own.take()
    own.order("NONE", b"x")
    own.take()
    assert own.welcome.highest < stored.frame.stamp
    relay.kill()
    relay.start()
    assert OwnPeer(relay, "AODB").welcome.highest == stored.frame.stamp


def test_an_agent_that_would_give_up_before_the_relay_is_an_alarm(relay: Relay) -> None:
    OwnPeer(relay, "AODB", hello=Hello(b"AODB", 0.15, 3))
    OwnPeer(relay, "GATE", hello=Hello(b"GATE", 0.151, 3))
    known(Peer(relay, "KEEP"))  # what it was told is behind the rows of all before
    (alarm,) = [row for row in relay.rows() if "T1·(N1+1)" in row.cause]
    assert alarm.source == "AODB"
    assert "T1·(N1+1) = 0.6 s, and the relay after T2·(N2+1) = 0.6 s" in alarm.cause
    for t1 in (0.14, 0.13):
        OwnPeer(relay, "AODB", hello=Hello(b"AODB", t1, 3))
    known(Peer(relay, "KEEP"))
    assert len([row for row in relay.rows() if "T1·(N1+1)" in row.cause]) == 1, "it says so once a minute"


def test_a_ping_is_answered(relay: Relay) -> None:
    own = OwnPeer(relay, "AODB")
    sent = own.send(own.made(Kind.PING, "AODB", b"17"))
    assert own.take() == sent._replace(kind=Kind.PONG)


def test_frames_have_a_crc_both_ways_where_the_agent_asks_for_one(relay: Relay) -> None:
    own = OwnPeer(relay, "AODB", hello=Hello(b"AODB", 10.0, 3, crc=True))
    assert own.welcome.crc
    own.order("NONE", b"x")
    assert own.said()[1] == "there is no address NONE"
    raw = encode(own.made(Kind.ORDER, "NONE", b"x"), crc=True)
    own.socket.sendall(raw[:-5] + b"y" + raw[-4:])
    assert own.said() == (Kind.ALERT, "a frame with a wrong CRC: it was changed on its way")
    assert own.is_closed()


def test_another_version_kind_or_address_is_told_in_words_and_closed(relay: Relay) -> None:
    class Later(Hello):
        def encode(self) -> bytes:
            return super().encode()[:8] + b"\x07" + super().encode()[9:]

    assert OwnPeer(relay, "AODB", hello=Later(b"AODB", 1.0, 3)).refused.startswith("a hello of version 7")
    nobody = OwnPeer(relay, "EWR")
    assert nobody.refused == "its hello is of EWR, who is not there"
    assert nobody.is_closed()
    own = OwnPeer(relay, "AODB")
    raw = encode(own.made(Kind.ORDER, "NONE", b"x"))
    own.socket.sendall(raw[:4] + b"\x63" + raw[5:])
    assert own.said() == (Kind.ALERT, "a frame of kind 99 with 0 behind it; this side knows kinds 1 to 9, with 0")
    assert own.is_closed()


def test_answers_with_content_go_between_both_frames(relay: Relay) -> None:
    own, keep = OwnPeer(relay, "AODB"), known(Peer(relay, "KEEP"))
    sent = own.order("KEEP", b"where?").frame
    came = keep.take()
    keep.send(Frame("KEEP", "AODB", stamp(), "A", "U", came.stamp + came.checksum + b"at gate 12"))
    seen = {packet.kind: packet for packet in (own.take(), own.take())}
    assert seen[Kind.RECEIPT].frame.answers == (sent.stamp, bytes(3))
    answer = seen[Kind.ANSWER]
    assert (answer.frame.answers[0], answer.frame.body) == (sent.stamp, b"at gate 12")
    own.confirm(answer)
    assert keep.take().body == b""
    order = keep.order("AODB", b"and you?")
    came_back = own.take().frame
    body = came_back.stamp + came_back.checksum + b"here"
    own.send(own.made(Kind.ANSWER, "KEEP", body))
    answers = {one.body: one for one in (keep.take(), keep.take())}
    assert answers.keys() == {b"", b"here"}
    keep.confirm(answers[b"here"])
    assert order.checksum == came_back.checksum


def test_a_silent_agent_with_a_place_of_its_own_takes_frames_of_the_paper(alone: Relay) -> None:
    keep = Peer(alone, "KEEP", introduced=False)
    own = OwnPeer(alone.unix(), "AODB")
    own.order("KEEP", b"x")
    came = keep.take()
    assert came.data == b"x"
    keep.confirm(came)
    while own.take().kind is not Kind.RECEIPT:  # KEEP is known when it has been silent for a while
        pass


def test_a_hello_says_who_is_at_a_place_of_one_before_anything_is_sent(alone: Relay) -> None:
    own = OwnPeer(alone.unix(), "AODB")
    own.order("KEEP", b"x")
    assert own.said()[0] is Kind.NOTICE
    keep = OwnPeer(alone, "KEEP")
    came = keep.take()
    assert came.frame.data == b"x"
    keep.confirm(came)
    assert own.said()[0] is Kind.RECEIPT


def test_a_relay_that_dials_hears_the_hello_of_an_agent_of_this_package(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)
        place = f"127.0.0.1:{listening.getsockname()[1]}"
        text = SETTINGS.replace('name = "KEEP"\nfrom = "127.0.0.1"', f'name = "KEEP"\ndial = "{place}"')
        with started(tmp_path, text) as relay:
            OwnPeer(relay, "AODB").order("KEEP", b"a\nb")
            keep = OwnPeer(listening.accept()[0], "KEEP")
            assert keep.take().frame.data == b"a\nb"


def test_an_agent_with_frames_of_its_own_that_reads_nothing_is_ended(relay: Relay) -> None:
    own = OwnPeer(relay, "AODB")
    raw = encode(own.made(Kind.PING, "NONE", bytes(LONGEST_DATA)))
    own.socket.settimeout(0.2)
    with suppress(OSError):
        for _ in range(100):
            own.socket.sendall(raw)
    relay.until("it does not read what is sent to it")


def asked(peer: Peer, body: bytes) -> bytes:
    """The words of the answer to this KQML; none: it is a receipt."""
    peer.order("FLTS", body)
    return peer.take().body


# Proves G337, R5.
def test_an_agent_has_what_comes_to_a_subject_from_its_subscription_to_its_end_over_a_kill(relay: Relay) -> None:
    keep = OwnPeer(relay, "KEEP")
    keep.send(keep.made(Kind.FOLLOW, "FLTS", Filter("AODB", "I").encode()))
    assert keep.said() == (Kind.RECEIPT, "")
    relay.kill()
    relay.start()
    source, keep = OwnPeer(relay, "AODB"), OwnPeer(relay, "KEEP")
    source.send(source.made(Kind.ORDER, "FLTS", b"another command")._replace(frame=Frame(
        "AODB", "FLTS", stamp(), "O", "U", b"another command")))  # fmt: skip
    assert source.take().kind is Kind.RECEIPT, "a source has its receipt when the order is stored"
    source.order("FLTS", b"CA981 gate 12")
    assert source.take().kind is Kind.RECEIPT
    came = keep.take()
    assert (came.frame.destination, came.frame.data) == (b"FLTS", b"CA981 gate 12")
    keep.confirm(came)
    keep.send(keep.made(Kind.UNFOLLOW, "FLTS"))
    assert keep.said() == (Kind.RECEIPT, "")
    source.order("FLTS", b"nobody")
    source.take()
    stored = [row.recipients for row in relay.rows() if row.kind == "STORED"]
    assert stored[-3:] == [[], ["KEEP"], []]


# Proves R5.
def test_agents_with_frames_of_the_paper_subscribe_by_kqml_and_are_told_sorry_or_error(relay: Relay) -> None:
    gate, source = Peer(relay, "GATE"), Peer(relay, "AODB")
    assert asked(gate, b"(subscribe :from AODB :about tell)") == b""
    assert asked(source, b"(subscribe :reply-with q1)") == (
        b'(sorry :in-reply-to q1 :content "no rule allows this peer to follow it")'
    )
    assert asked(gate, b"(subscribe :from ").startswith(b'(error :content "')
    assert asked(gate, b"(subscribe :foo U)").startswith(b'(error :content ":foo is no parameter of subscribe')
    assert asked(gate, b"(subscribe :command UU)").startswith(b"(error :content \"'UU' is no command")
    for body in (b"(tell :content 12)", b"(deny :content 12)", b"12"):
        assert asked(source, body) == b""
    came = gate.take()
    assert came.data == b"(tell :content 12)"
    gate.confirm(came)
    assert asked(gate, b"(unsubscribe)") == b""
    assert [row.kind for row in relay.rows() if row.body == b"AODB\0*\0tell"] == ["FOLLOWED"]


def test_a_subscription_that_no_rule_allows_or_that_is_no_filter_is_told_by_an_alert(relay: Relay) -> None:
    source = OwnPeer(relay, "AODB")
    for to, data, words in (
        ("FLTS", b"", "no rule allows this peer to follow it"),
        ("ALL", b"", "ALL is no subject that can be followed"),
        ("GATE", b"", "GATE is no subject that can be followed"),
        ("FLTS", b"*\0UU", "'UU' is no command: it is one letter such as U, or 0x07; or * for any"),
        ("FLTS", b"\0", "b'\\x00' is no filter: it is a source, a command and a performative, * for any"),
    ):
        source.send(source.made(Kind.FOLLOW, to, data))
        assert source.said() == (Kind.ALERT, words)


def test_a_subscription_that_no_filter_can_be_is_told_by_an_error_and_harms_nobody(relay: Relay) -> None:
    gate = Peer(relay, "GATE")
    for body in (b'(unsubscribe :from "")', b'(subscribe :from "a\0b")', b'(subscribe :command "")'):
        assert asked(gate, body).startswith(b'(error :content "')
    assert asked(gate, b"(subscribe)") == asked(gate, b"(unsubscribe)") == b""


def test_what_an_agent_follows_is_bounded_and_a_flood_of_what_is_so_already_has_few_rows(tmp_path: Path) -> None:
    words = f"more than {FILTERS_MOST} subscriptions to it, or one of more than {FILTER_LONGEST} bytes"
    with started(tmp_path, SHARED) as relay:
        keep, none = OwnPeer(relay, "KEEP"), OwnPeer(relay, "AODB")
        for source in (*(f"A{number}" for number in range(FILTERS_MOST)), "A" * FILTER_LONGEST, "more"):
            keep.send(keep.made(Kind.FOLLOW, "FLTS", Filter(source).encode()))
            assert keep.said() == ((Kind.ALERT, words) if source[1:2] in ("A", "o") else (Kind.RECEIPT, ""))
        for _ in range(30 * ROWS_MOST):
            none.send(none.made(Kind.UNFOLLOW, "FLTS"))
            assert none.said() == (Kind.RECEIPT, "")
        relay.end()
        rows = [row.kind for row in relay.rows() if row.source == "AODB" or row.kind == "FOLLOWED"]
    assert rows.count("FOLLOWED") == FILTERS_MOST
    assert ROWS_MOST <= rows.count("UNFOLLOWED") + rows.count("CONNECTED") < 30 * ROWS_MOST


def test_an_order_whose_lifetime_is_all_but_over_is_not_sent(relay: Relay) -> None:
    own, keep = OwnPeer(relay, "AODB"), OwnPeer(relay, "KEEP")
    for number in range(20):
        own.order("KEEP", b"%d" % number, lifetime=1e-6)
        assert own.said() == (Kind.ALERT, "KEEP: EXPIRED, its lifetime is over")
    keep.close()
    rows = relay.rows()
    orders = {row.order for row in rows if row.kind == "STORED" and row.lifetime == 1e-6}
    assert len(orders) == 20
    assert not [row for row in rows if row.kind == "SENT" and row.order in orders]


# Proves R5.
def test_an_agent_follows_what_its_settings_say_while_a_rule_lets_it(tmp_path: Path) -> None:
    text = SHARED.replace('name = "GATE"', 'name = "GATE"\nfollows = ["FLTS"]')
    text = text.replace('absent = "keep"', 'absent = "keep"\nfollows = ["FLTS"]')
    with started(tmp_path, text.replace('["agent:GATE", "agent:KEEP"]', '"agent:KEEP"')) as relay:
        source = OwnPeer(relay, "AODB")
        source.order("FLTS", b"x")
        source.take()
        assert [row.recipients for row in relay.rows() if row.kind == "STORED"] == [["KEEP"]]


def machine_of(state: State) -> tuple[Machine, Callable[..., tuple[list[Row], list[bytes]]]]:
    """A machine, and what makes an event of it happen: then there are the rows, and what is said."""
    carrier = world.World(0)
    machine = Machine(Policy(world.relay()), state, Stamps(), carrier)

    def happens(at: int, event: Callable[..., None], *given: object) -> tuple[list[Row], list[bytes]]:
        machine.time(0.0, at)
        event(*given)
        rows, calls = machine.done()
        return rows, [call.args[1].body for call in calls if call.func == carrier.say]

    return machine, happens


# Proves G338.
def test_a_stamp_older_than_what_is_known_is_unconfirmed_and_never_stored_again() -> None:
    state = State(known=1)
    machine, happens = machine_of(state)
    happens(0, machine.connected, 1, "A3", Hello(b"A3  ", 10.0, 3))
    happens(0, machine.connected, 2, "B4", Hello(b"B4  ", 10.0, 3))
    sent = [Frame("A3", "B4", b"%022d" % number, "O", "I", b"x", bytes(3)) for number in range(4)]
    for at, frame in enumerate(sent[1:]):
        happens(at, machine.arrived, 1, Packet(None, frame))
        happens(at, machine.arrived, 2, Packet(None, frame.receipt(b"9" * 22)))
    assert state.forgotten == {"A3:B4": b"%022d" % 2}
    for frame in sent[:3]:
        rows, said = happens(9, machine.arrived, 1, Packet(None, frame))
        assert [row.kind for row in rows] == ["DROPPED"]
        assert said == [b"UNCONFIRMED, its outcome is no longer known"]
    assert happens(9, machine.arrived, 1, Packet(None, sent[3])) == ([], [b""])


# Proves G338.
def test_an_order_that_waited_in_its_agent_while_others_went_elsewhere_is_stored_however_old_its_stamp_is() -> None:
    machine, happens = machine_of(State(known=1))
    happens(0, machine.connected, 1, "A3", Hello(b"A3  ", 10.0, 3))
    happens(0, machine.connected, 2, "B4", Hello(b"B4  ", 10.0, 3))
    for number in range(2, 5):
        frame = Frame("A3", "B4", b"%022d" % number, "O", "I", b"x", bytes(3))
        happens(number, machine.arrived, 1, Packet(None, frame))
        happens(number, machine.arrived, 2, Packet(None, frame.receipt(b"9" * 22)))
    waited = Frame("A3", "B1", b"%022d" % 1, "O", "I", b"x", bytes(3))
    assert [row.kind for row in happens(9, machine.arrived, 1, Packet(None, waited))[0]] == ["STORED"]


KEYED = """\
[relay]
listen = "127.0.0.1:0"
keys = "KEYS"

[[agent]]
name = "AODB"
peer = "rtmw://plant/aodb"

[[agent]]
name = "GATE"
peer = "rtmw://plant/gate"

[[allow]]
peer = "agent:AODB"
order = ["GATE/*"]
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")


@pytest.fixture
def keyed(tmp_path: Path, site: Site) -> Iterator[Relay]:
    with started(tmp_path, KEYED.replace("KEYS", str(site.keys("rtmw://plant/hub")))) as made:
        yield made


def secured(relay: Relay, identity: Identity) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", relay.port))
    return identity.client_context().wrap_socket(plain)


def test_agents_with_certificates_are_who_these_say_with_either_frame(keyed: Relay, site: Site) -> None:
    of_gate = site.node("rtmw://plant/gate")
    gate = Peer(secured(keyed, of_gate), "GATE")
    own = OwnPeer(secured(keyed, site.node("rtmw://plant/aodb")), "AODB")
    assert not own.welcome.crc
    gate.order("NONE", b"x")
    gate.take()
    own.order("GATE", b"gate 12")
    came = gate.take()
    assert came.data == b"gate 12"
    gate.confirm(came)
    assert own.take().kind is Kind.RECEIPT
    assert OwnPeer(secured(keyed, of_gate), "AODB").refused == "its hello is of AODB, who is not there"


# Proves G339.
def test_who_has_no_certificate_of_the_settings_gets_no_order(keyed: Relay, site: Site) -> None:
    assert Peer(keyed, "GATE").is_closed()
    keyed.until("no agent of the settings connects from there")
    assert Peer(secured(keyed, site.node("rtmw://plant/other")), "GATE").is_closed()
    keyed.until("rtmw://plant/other is closed: no agent of the settings")


# Proves G339.
def test_a_certificate_that_is_revoked_while_it_is_used_ends_its_connection(keyed: Relay, site: Site) -> None:
    gate = site.node("rtmw://plant/gate")
    peer = Peer(secured(keyed, gate), "GATE")
    peer.order("NONE", b"x")
    peer.take()
    assert keyed.process is not None
    text = keyed.file.read_text()
    keyed.file.write_text(text.replace("[[agent]]", f'revoked = ["{gate.own.serial}"]\n[[agent]]', 1))
    keyed.process.send_signal(signal.SIGHUP)
    assert peer.is_closed()
    assert "is revoked by the settings" in keyed.until("is revoked")


# Proves G339.
def test_a_relay_speaks_tls_to_an_agent_with_a_certificate_that_it_dials(tmp_path: Path, site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)
        place, hub = f"127.0.0.1:{listening.getsockname()[1]}", site.node("rtmw://plant/hub")
        text = KEYED.replace("KEYS", str(hub.folder)).replace('gate"', f'gate"\ndial = "{place}"\nabsent = "keep"')
        with started(tmp_path, text) as relay:
            OwnPeer(secured(relay, site.node("rtmw://plant/aodb")), "AODB").order("GATE", b"a\nb")
            for name in ("other", "gate"):
                context = site.node(f"rtmw://plant/{name}").server_context()
                sock = context.wrap_socket(listening.accept()[0], server_side=True)
                if name == "gate":
                    assert OwnPeer(sock, "GATE").take().frame.data == b"a\nb"
                else:
                    assert Peer(sock, "GATE", introduced=False).is_closed()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (KEYED.replace('keys = "KEYS"', ""), "is known by a certificate, and this relay has no keys"),
        (KEYED.replace("rtmw://plant/gate", "plant/gate"), "is no name of a node"),
        (KEYED.replace("keys", "header = 22\nkeys"), "header is 22, with which TLS begins"),
        (SETTINGS.replace("127.0.0.1:0", "0.0.0.0:0"), "without TLS anybody on the way could read"),
    ],
)
def test_settings_that_promise_what_no_key_can_keep_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "node.toml").write_text(text)
    with pytest.raises(RtmwError, match=words):
        read_relay(tmp_path / "node.toml")


def test_an_order_that_is_requeued_makes_no_older_stamp_one_whose_outcome_is_forgotten() -> None:
    machine, happens = machine_of(State())
    happens(0, machine.connected, 1, "A3", Hello(b"A3  ", 10.0, 3))
    later, before = (Frame("A3", "B4", b"%022d" % number, "O", "I", b"x", bytes(3)) for number in (5, 4))
    happens(1, machine.arrived, 1, Packet(None, later))
    happens(2, machine.act, Act(0, "drop", "1"))
    happens(3, machine.act, Act(0, "requeue", "1", b"x"))
    assert [row.kind for row in happens(4, machine.arrived, 1, Packet(None, before))[0]] == ["STORED"]


def test_the_log_says_once_that_an_agent_is_refused_however_often_it_comes(tmp_path: Path) -> None:
    with started(tmp_path, SETTINGS) as relay:
        for _ in range(5):
            assert OwnPeer(relay, "EWR").refused == "its hello is of EWR, who is not there"
        assert OwnPeer(relay, "NONE").refused == "its hello is of NONE, who is not there"
        relay.until("NONE")
        assert sum("is of EWR" in line for line in relay.lines) == 1


def test_an_agent_that_is_not_let_in_or_is_closed_learns_why(alone: Relay) -> None:
    said = list[str]()

    def told(one: rtmw.Agent, words: str) -> bool:
        said.extend(one.alerts())
        return any(words in line for line in said)

    with rtmw.Agent("AODB", server=f"127.0.0.1:{alone.port}") as strange:
        wait_until(lambda: told(strange, "its hello is of AODB, who is not there"), "it is told that it is not there")
    server = f"unix:{alone.folder}/relay.sock"
    with rtmw.Agent("GATE", server=server) as first:
        wait_until(lambda: first.stats().get("connected", 0) > 0, "it is let in")
        with rtmw.Agent("GATE", server=server):
            words = "no relay: the relay refuses: a newer connection of this agent takes over"
            wait_until(lambda: told(first, words), "it is told that it was taken over")


def test_a_hello_with_times_that_are_none_is_refused_in_words(relay: Relay) -> None:
    for t1 in (math.nan, math.inf, 0.0, -1.0):
        assert OwnPeer(relay, "AODB", hello=Hello(b"AODB", t1, 3)).refused.startswith(f"a hello with T1 = {t1:g} s")


# Proves G327.
def test_an_agent_that_connects_and_goes_in_a_loop_has_few_rows_that_count_the_rest(tmp_path: Path) -> None:
    def all_are_told() -> bool:
        rows = [row for row in relay.rows() if row.source == "GATE" and row.kind in ("CONNECTED", "GONE", "DROPPED")]
        return sum(int(row.cause.split()[0]) if "more" in row.cause else 1 for row in rows) == 3 * times

    with started(tmp_path, SHARED) as relay:
        times = 3 * ROWS_MOST
        for _ in range(times):
            peer = Peer(relay, "GATE")
            peer.socket.shutdown(socket.SHUT_WR)
            assert peer.is_closed()
            OPENED.pop().close()
        wait_until(all_are_told, "each has a row, or is counted in one")
        assert sum(row.source == "GATE" for row in relay.rows()) < 2 * times


def test_a_socket_whose_file_was_removed_is_made_again(tmp_path: Path) -> None:
    with started(tmp_path, ALONE) as relay:
        before = known(Peer(relay.unix(), "AODB"))
        (relay.folder / "relay.sock").unlink()
        relay.until("relay.sock was removed, and is there again")
        known(Peer(relay.unix(), "GATE"))
        known(before)


def test_a_socket_whose_folder_is_away_is_missed_and_comes_back_with_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    with started(tmp_path, SETTINGS.replace("unix:relay.sock", "unix:sub/relay.sock")) as relay:
        shutil.rmtree(tmp_path / "sub")
        relay.until("it was removed")
        (tmp_path / "relay" / "operator.sock").unlink()
        relay.until("operator.sock was removed, and is there again")  # at a later look
        (tmp_path / "sub").mkdir()
        relay.until("relay.sock was removed, and is there again")


# Proves G327.
def test_refusals_of_one_user_do_not_fill_the_log_and_hide_none_of_another_place(tmp_path: Path) -> None:
    with started(tmp_path, ALONE) as relay:
        for _ in range(5 * LINES_MOST):  # everybody who reaches the file of the socket may connect
            assert Peer(relay.unix(), "NONE").is_closed()
            OPENED.pop().close()
        with OwnPeer(relay, "NONE").socket:
            relay.until("a connection from 127.0.0.1 is closed")
        assert sum("uid:" in line for line in relay.lines) <= LINES_MOST


# Proves G328.
def test_a_subscriber_with_no_room_loses_its_own_copy_alone_which_is_told(tmp_path: Path) -> None:
    with started(tmp_path, SHARED.replace("[relay]", "[relay]\nmax_waiting = 2", 1)) as relay:
        source, gate, keep = OwnPeer(relay, "AODB"), OwnPeer(relay, "GATE"), OwnPeer(relay, "KEEP")
        for one in (gate, keep):
            one.send(one.made(Kind.FOLLOW, "FLTS"))
            assert one.said() == (Kind.RECEIPT, "")
        for number in range(4):
            source.order("FLTS", b"%d" % number)
            assert source.said() == (Kind.RECEIPT, ""), "it is stored for the others"
            gate.confirm(gate.take())
        assert keep.take().frame.data == b"0"
        relay.end()
        rows = relay.rows()
    lost = [(row.order, row.recipient, row.cause) for row in rows if row.kind == "UNDELIVERED"]
    assert lost == [(number, "KEEP", "it has no room for more orders that wait") for number in (3, 4)]
    assert [row.source for row in rows if row.kind == "ALARM" and "max_waiting" in row.cause] == ["KEEP"]


# Proves G328.
def test_what_waits_for_a_recipient_is_bounded_in_bytes_too(tmp_path: Path) -> None:
    with started(tmp_path, SHARED.replace("[relay]", "[relay]\nmax_waiting_bytes = 1000", 1)) as relay:
        source = OwnPeer(relay, "AODB")
        for _ in range(2):
            source.order("KEEP", b"x" * 500)
            assert source.said() == (Kind.NOTICE, "kept for KEEP")
        source.order("KEEP", b"x")
        assert source.said() == (Kind.ALERT, "KEEP has no room for more orders that wait")
        keep = OwnPeer(relay, "KEEP")
        keep.confirm(keep.take())
        assert source.said() == (Kind.RECEIPT, "")
        source.order("KEEP", b"x")
        keep.confirm(keep.take())
        keep.confirm(keep.take())
        assert [source.said(), source.said()] == [(Kind.RECEIPT, "")] * 2


def test_the_kernel_asks_a_relay_that_says_nothing_whether_it_is_there(relay: Relay) -> None:
    """So a connection whose other end went without a word ends at an agent, too, as it does at the relay."""
    with rtmw.Agent("AODB", server=f"127.0.0.1:{relay.port}") as agent:
        wait_until(lambda: agent._line.socket is not None, "it is connected")
        sock = agent._line.socket
        assert sock is not None
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle, every = (sock.getsockopt(socket.IPPROTO_TCP, one) for one in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL))
        assert (idle, every) == (LEASE_S / 2, round(LEASE_S / 6))


def test_an_agent_that_closes_as_its_relay_connects_leaves_no_connection_open(tmp_path: Path) -> None:
    """What nobody has closed is a ResourceWarning, which is an error in tests."""
    place = tmp_path / "agent.sock"
    for pause in range(8):
        agent = rtmw.Agent("AODB", listen=f"unix:{place}")
        with socket.socket(socket.AF_UNIX) as relay:
            relay.settimeout(PATIENCE)
            relay.connect(str(place))
            time.sleep(pause / 10_000)
            agent.close()
            with suppress(ConnectionResetError):
                while relay.recv(1 << 16):
                    pass
    gc.collect()
