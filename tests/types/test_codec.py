"""The compiled codec writes what cyclonedds writes, and reads what it wrote, on types made at random."""

from __future__ import annotations

from typing import Any

import pytest
from cyclonedds.idl import make_idl_struct
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtmw.errors import ValueMismatch
from rtmw.types import from_description, resolve, shown_name
from rtmw.types.classes import describe
from rtmw.types.schema import uncovered
from tests.types.coded import decode, encode
from tests.types.idl_strategies import messages, plain

EVERY = ("union", "optional", "appendable", "mutable")
thorough = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def check_message(cls: Any, value: Any) -> None:
    kind = resolve(cls)
    payload = encode(kind, value)
    assert payload == value.serialize()
    assert decode(kind, payload) == cls.deserialize(payload)
    assert plain(decode(kind, payload)) == plain(value)


@thorough
@given(messages())
def test_a_final_type_is_encoded_byte_for_byte_as_cyclonedds_does(message: tuple[Any, Any]) -> None:
    check_message(*message)


@thorough
@given(messages("union", "optional", "appendable"))
def test_unions_optionals_and_appendable_types_are_encoded_as_cyclonedds_does(message: tuple[Any, Any]) -> None:
    assert uncovered(describe(message[0])[0]) is None
    check_message(*message)


@settings(thorough, max_examples=50)
@given(messages(*EVERY))
def test_what_the_codec_does_not_cover_goes_through_cyclonedds(message: tuple[Any, Any]) -> None:
    check_message(*message)


@thorough
@given(messages("union", "optional", "appendable"))
def test_a_large_payload_is_measured_and_written_in_place_as_it_is_encoded(message: tuple[Any, Any]) -> None:
    cls, value = message
    wrapped = make_idl_struct("Wrapped", "Wrapped", {"before": cls, "image": bytes, "after": cls})
    large = wrapped(before=value, image=bytes(1 << 16), after=value)
    kind = resolve(wrapped)
    payload = encode(kind, large)
    assert payload == large.serialize()
    assert kind.in_place is not None
    assert kind.in_place.begin(large) == len(payload)
    memory = bytearray(b"\xff" * len(payload))
    kind.in_place.write(large, memoryview(memory))
    assert memory == payload


@thorough
@given(messages("union", "optional", "appendable"))
def test_a_type_rebuilt_from_its_description_reads_and_writes_the_same_fields(message: tuple[Any, Any]) -> None:
    cls, value = message
    kind = resolve(cls)
    rebuilt = from_description(kind.description)
    assert (rebuilt.name, rebuilt.identity, rebuilt.description) == (kind.name, kind.identity, kind.description)
    payload = encode(kind, value)
    copy = decode(rebuilt, payload)
    assert plain(copy) == plain(value)
    assert encode(rebuilt, copy) == payload


@thorough
@given(messages("union", "optional", "appendable"), st.data())
def test_a_payload_cut_short_is_refused_with_type_and_position(message: tuple[Any, Any], data: st.DataObject) -> None:
    cls, value = message
    kind = resolve(cls)
    payload = encode(kind, value)
    shorter = payload[: data.draw(st.integers(0, len(payload) - 1))]
    with pytest.raises(ValueMismatch, match=shown_name(kind.name)):
        decode(kind, shorter)


@settings(thorough, max_examples=300)
@given(messages(*EVERY), st.data())
def test_a_damaged_payload_gives_an_error_or_a_value_that_encodes_again(
    message: tuple[Any, Any], data: st.DataObject
) -> None:
    """Some damage is another valid message; but nothing other than ValueMismatch may escape."""
    cls, value = message
    kind = resolve(cls)
    payload = bytearray(encode(kind, value))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.sampled_from([0, 1, 2, 4, 127, 128, 255]))
    for reader in (kind, from_description(kind.description)):
        try:
            result = decode(reader, bytes(payload))
        except ValueMismatch:
            continue
        assert isinstance(encode(reader, result), bytes)


@settings(thorough, max_examples=60)
@given(messages("union", "optional", "appendable"))
def test_the_class_reads_other_byte_orders_and_versions(message: tuple[Any, Any]) -> None:
    from cyclonedds.idl._support import Endianness

    cls, value = message
    for order in Endianness:
        for newer in (False, True):
            payload = value.serialize(endianness=order, use_version_2=newer)
            assert plain(decode(resolve(cls), payload)) == plain(value)


@settings(thorough, max_examples=60)
@given(messages())
def test_a_payload_padded_to_four_bytes_is_read(message: tuple[Any, Any]) -> None:
    cls, value = message
    kind = resolve(cls)
    payload = encode(kind, value)
    assert plain(decode(kind, payload + bytes(-len(payload) % 4))) == plain(value)
    with pytest.raises(ValueMismatch, match="too many"):
        decode(kind, payload + bytes(4))
