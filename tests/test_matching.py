"""Who is matched with whom (requirements P1, P5, P8), and how both sides see why not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from cyclonedds.idl import IdlStruct

import rtmw
from rtmw import Reliability, shm
from tests.bus import Order, Reading, taken
from tests.child import Spawn

pytestmark = pytest.mark.usefixtures("domain")


@dataclass
class Wider(IdlStruct, typename="Reading"):
    """Another structure under the name of Reading."""

    station: str
    value: float
    unit: str


def test_bytes_travel_as_bytes() -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t")
    publisher.publish(b"x")
    sample = subscriber.receive(1)
    assert (sample.type_name, type(sample.value), sample.value) == ("bytes", bytes, b"x")


def test_idl_dataclasses_travel_as_themselves() -> None:
    publisher, subscriber = rtmw.Publisher("t", Reading), rtmw.Subscriber("t", Reading)
    publisher.publish(Reading("A1", 7.5))
    sample = subscriber.receive(1)
    assert (sample.type_name, sample.value) == ("Reading", Reading("A1", 7.5))


def test_idl_dataclasses_travel_as_cdr_that_cyclonedds_reads() -> None:
    publisher, subscriber = rtmw.Publisher("t", Reading), rtmw.Subscriber("t", Reading)
    publisher.publish(Reading("Ä1", -0.25))
    data = subscriber.receive(1).data
    assert bytes(data) == Reading("Ä1", -0.25).serialize()
    assert Reading.deserialize(bytes(data)) == Reading("Ä1", -0.25)


@pytest.mark.parametrize("size", [1, 10, 100_000])
# Proves C1, P11.
def test_numpy_arrays_travel_without_a_copy_on_the_reading_side(size: int) -> None:
    publisher, subscriber = rtmw.Publisher("t", np.float32), rtmw.Subscriber("t", np.float32)
    publisher.publish(np.arange(size, dtype=np.float32))
    sample = subscriber.receive(1)
    value = sample.value
    assert value.dtype == np.float32
    assert (value == np.arange(size)).all()
    assert value.ctypes.data == np.frombuffer(sample.data, np.uint8).ctypes.data
    assert not value.flags.writeable


def test_a_numpy_dtype_with_a_shape_is_an_array_of_that_shape() -> None:
    image = np.dtype((np.uint8, (48, 64)))
    publisher, subscriber = rtmw.Publisher("t", image), rtmw.Subscriber("t", image)
    publisher.publish(np.full((48, 64), 9, np.uint8))
    assert subscriber.receive(1).value.shape == (48, 64)
    with pytest.raises(rtmw.ValueMismatch):
        publisher.publish(np.zeros((64, 48), np.uint8))
    with pytest.raises(rtmw.TypeMismatch):
        publisher.publish(np.zeros((48, 64), np.int16))


def test_numpy_records_travel_field_by_field() -> None:
    point = np.dtype([("x", "<f8"), ("id", "<i4")])
    publisher, subscriber = rtmw.Publisher("t", point), rtmw.Subscriber("t", point)
    publisher.publish(np.array([(1.5, 7), (2.5, 8)], point))
    value = subscriber.receive(1).value
    assert value["x"].tolist() == [1.5, 2.5]
    assert value["id"].tolist() == [7, 8]


def test_of_two_types_under_one_topic_each_subscriber_gets_its_own() -> None:
    readings, orders, raw = rtmw.Publisher("t", Reading), rtmw.Publisher("t", Order), rtmw.Publisher("t")
    of_readings, of_orders, of_bytes = rtmw.Subscriber("t", Reading), rtmw.Subscriber("t", Order), rtmw.Subscriber("t")
    for number in range(3):
        readings.publish(Reading("A1", number))
        orders.publish(Order(f"go {number}"))
        raw.publish(b"%d" % number)
    assert [sample.value.value for sample in of_readings.take_many(9)] == [0, 1, 2]
    assert [sample.value.text for sample in of_orders.take_many(9)] == ["go 0", "go 1", "go 2"]
    assert taken(of_bytes) == [b"0", b"1", b"2"]
    for subscriber in (of_readings, of_orders, of_bytes):
        stats = subscriber.stats()  # type: ignore[attr-defined]
        assert (stats.received, stats.other_types, stats.missed) == (3, 6, 0)


def test_any_gets_every_type_and_decodes_each() -> None:
    subscriber = rtmw.Subscriber("t", rtmw.ANY)
    rtmw.Publisher("t", Reading).publish(Reading("A1", 7.5))
    rtmw.Publisher("t", np.int16).publish(np.array([1, 2, 3], np.int16))
    rtmw.Publisher("t").publish(b"raw")
    reading, array, raw = subscriber.take_many(9)
    assert (reading.type_name, reading.value.station, reading.value.value) == ("Reading", "A1", 7.5)
    assert array.value.tolist() == [1, 2, 3]
    assert "i2" in array.type_name
    assert (raw.type_name, raw.value) == ("bytes", b"raw")
    assert subscriber.stats().other_types == 0


def test_any_decodes_what_a_process_publishes_whose_class_is_not_known_here(spawn: Spawn) -> None:
    subscriber = rtmw.Subscriber("t", rtmw.ANY)
    child = spawn(
        """
        from dataclasses import dataclass
        from cyclonedds.idl import IdlStruct
        import rtmw
        @dataclass
        class Unknown(IdlStruct, typename="only.There"):
            name: str
            depth: int
        rtmw.Publisher("t", Unknown).publish(Unknown("well", 30))
        """
    )
    sample = subscriber.receive(10)
    assert sample.type_name == "only.There"
    assert (sample.value.name, sample.value.depth) == ("well", 30)
    assert child.wait() == 0


def test_any_is_for_subscribers_only() -> None:
    with pytest.raises(rtmw.UnsupportedType, match="ANY"):
        rtmw.Publisher("t", rtmw.ANY)  # type: ignore[call-overload]


def test_types_that_differ_do_not_match_and_both_sides_see_why() -> None:
    publisher, subscriber = rtmw.Publisher("t", Reading), rtmw.Subscriber("t", Order)
    assert publisher.subscribers == 0
    (refused,) = publisher.stats().refused
    (unheard,) = subscriber.stats().unheard
    assert "Order" in refused
    assert "Reading" in refused
    assert "Order" in unheard
    assert "Reading" in unheard
    publisher.publish(Reading("A1", 1.0))
    assert subscriber.take() is None
    assert subscriber.stats().other_types == 1


@pytest.mark.parametrize(
    ("offered", "requested"), [(bytes, Reading), (Reading, bytes), (np.int32, np.int64), (np.int32, bytes)]
)
def test_kinds_that_differ_do_not_match(offered: type[object], requested: type[object]) -> None:
    publisher, subscriber = rtmw.Publisher("t", offered), rtmw.Subscriber("t", requested)
    assert publisher.subscribers == 0
    assert len(publisher.stats().refused) == 1
    assert len(subscriber.stats().unheard) == 1


def test_the_same_name_with_another_structure_does_not_match_and_both_sides_see_why() -> None:
    publisher, subscriber = rtmw.Publisher("t", Wider), rtmw.Subscriber("t", Reading)
    assert publisher.subscribers == 0
    assert "same name" in publisher.stats().refused[0]
    assert "same name" in subscriber.stats().unheard[0]
    publisher.publish(Wider("A1", 1.0, "mg/l"))
    assert subscriber.take() is None
    assert subscriber.stats().other_types == 1


def test_the_same_structure_declared_by_another_program_matches(spawn: Spawn) -> None:
    subscriber = rtmw.Subscriber("t", Reading)
    child = spawn(
        """
        from dataclasses import dataclass
        from cyclonedds.idl import IdlStruct
        import rtmw
        @dataclass
        class Mine(IdlStruct, typename="Reading"):
            station: str
            value: float
        publisher = rtmw.Publisher("t", Mine)
        print(publisher.subscribers)
        publisher.publish(Mine("A2", 3.0))
        """
    )
    assert child.line() == "1"
    assert subscriber.receive(10).value == Reading("A2", 3.0)


@pytest.mark.parametrize("offered", [Reliability.ADAPTIVE, Reliability.TIMELY])
def test_a_reliable_subscriber_is_not_matched_with_less_and_both_sides_see_why(offered: Reliability) -> None:
    publisher = rtmw.Publisher("t", reliability=offered)
    subscriber = rtmw.Subscriber("t", reliability=Reliability.RELIABLE)
    assert publisher.subscribers == 0
    (refused,) = publisher.stats().refused
    (unheard,) = subscriber.stats().unheard
    assert "RELIABLE" in refused
    assert offered.name in refused
    assert "RELIABLE" in unheard
    assert offered.name in unheard
    publisher.publish(b"x")
    assert subscriber.take() is None
    stats = subscriber.stats()
    assert (stats.unmatched, stats.other_types, stats.missed) == (1, 0, 0)


@pytest.mark.parametrize(
    ("offered", "requested"),
    [(o, r) for o in Reliability for r in Reliability if r is not Reliability.RELIABLE or o is r],
)
def test_every_other_pair_is_matched(offered: Reliability, requested: Reliability) -> None:
    publisher, subscriber = rtmw.Publisher("t", reliability=offered), rtmw.Subscriber("t", reliability=requested)
    assert publisher.subscribers == 1
    assert publisher.stats().refused == ()
    assert subscriber.stats().unheard == ()
    publisher.publish(b"x")
    assert taken(subscriber) == [b"x"]


def test_a_reliable_subscriber_hears_reliable_publishers_among_others() -> None:
    reliable, timely = (rtmw.Publisher("t", reliability=each) for each in (Reliability.RELIABLE, Reliability.TIMELY))
    subscriber = rtmw.Subscriber("t", reliability=Reliability.RELIABLE)
    for number in range(3):
        reliable.publish(b"r%d" % number)
        timely.publish(b"t%d" % number)
    assert taken(subscriber) == [b"r0", b"r1", b"r2"]
    assert subscriber.stats().unmatched == 3


def test_reasons_name_the_process_and_go_when_the_other_side_goes(spawn: Spawn) -> None:
    publisher = rtmw.Publisher("t", Reading)
    child = spawn(
        "import rtmw; s = rtmw.Subscriber('t'); print(*s.stats().unheard); input(); s.close(); print(); input()"
    )
    assert "Reading" in child.line()
    (refused,) = publisher.stats().refused
    assert str(child.pid) in refused
    child.send()
    child.line()
    assert publisher.stats().refused == ()


def test_topics_of_other_names_are_no_reason() -> None:
    publisher, _subscriber = rtmw.Publisher("t", Reading), rtmw.Subscriber("t2")
    assert publisher.stats().refused == ()


# Proves G25.
def test_a_publisher_counts_the_subscribers_that_live_also_before_anybody_cleaned_up(spawn: Spawn) -> None:
    publisher = rtmw.Publisher("t")
    source = "import rtmw; s = rtmw.Subscriber('t'), rtmw.Subscriber('t'); print(); input()"
    stopped, killed = spawn(source), spawn(source)
    stopped.line()
    killed.line()
    assert publisher.subscribers == 4
    stopped.stop()
    killed.kill()
    assert publisher.subscribers == publisher.stats().subscribers == 2, "a stopped program lives"
    assert publisher.wait_for_subscribers(3, timeout=0) is False
    mine = rtmw.Subscriber("t")
    assert publisher.subscribers == 3
    mine.close()


# Proves G25.
def test_who_died_is_no_reason_for_a_refusal(spawn: Spawn) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", Reading)
    child = spawn(
        """
        import numpy as np, rtmw
        dtype = np.dtype("f8")
        ends = rtmw.Publisher("t", dtype), rtmw.Subscriber("t", dtype)
        print()
        input()
        """
    )
    child.line()
    assert (len(publisher.stats().refused), len(subscriber.stats().unheard)) == (2, 2)
    child.kill()
    assert (len(publisher.stats().refused), len(subscriber.stats().unheard)) == (1, 1)


def test_stats_look_at_the_endpoints_of_their_own_topic_alone(domain: rtmw.Domain) -> None:
    region = domain.region
    publishers = [rtmw.Publisher(f"t{number}") for number in range(3)]
    others = [rtmw.Subscriber(f"t{number}", Order) for number in range(3)]
    lives = [region.topic_life(f"t{number}") for number in range(3)]
    for number, life in enumerate(lives):
        (one,), (other,) = shm.publishers(region, life), shm.subscribers(region, life)
        assert one.topic == other.topic == life
        assert region.identity(one.identity) == publishers[number].identity
        assert len(publishers[number].stats().refused) == len(others[number].stats().unheard) == 1
    assert len({*lives}) == len(shm.publishers(region)) == len(shm.subscribers(region)) == 3
    assert region.topic_life("t3") == 0
