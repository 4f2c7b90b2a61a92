"""Frames between two cores: their golden bytes, and bytes that no core sends."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from rtmw.transfer.errors import TransfersDamaged
from rtmw.transfer.wire import frames as f
from tests.transfer.wire.written import GOLDEN, HASH, ID, WRITTEN, is_of_sender


@pytest.mark.parametrize("number", range(len(WRITTEN)))
def test_a_frame_has_the_bytes_of_the_golden_file(number: int) -> None:
    frame = WRITTEN[number]
    name, data = GOLDEN.read_text().splitlines()[number].split()
    assert name == type(frame).__name__
    assert f.pack(frame).hex() == data
    assert list(f.Frames(of_sender=is_of_sender(frame)).feed(bytes.fromhex(data))) == [frame]


def test_frames_come_out_whole_wherever_the_stream_is_split() -> None:
    sent = [frame for frame in WRITTEN if is_of_sender(frame)]
    data = b"".join(map(f.pack, sent))
    for size in (1, 2, 7, 100):
        frames = f.Frames(of_sender=True)
        assert [frame for at in range(0, len(data), size) for frame in frames.feed(data[at : at + size])] == sent
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        assert list(f.Frames(of_sender=True).feed(*parts)) == sent, "in one read of the stream"


def test_a_frame_of_the_other_side_is_refused() -> None:
    for frame in WRITTEN:
        with pytest.raises(TransfersDamaged, match="a head that cannot be"):
            list(f.Frames(of_sender=not is_of_sender(frame)).feed(f.pack(frame)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bytes(12), "a size of 0"),
        ((9 << 20).to_bytes(4, "little") + bytes(8), "a size of"),
        (f.pack(f.Restart(0)), "with the ref 0"),
        (f.pack(f.Piece(1, 0, b"")), "a piece of 0 bytes"),
        (f.pack(f.Piece(1, 0, bytes((1 << 20) + 1))), "a piece of 1048577 bytes"),
        (f.pack(f.Whole(1, HASH + b"x")), "1 bytes too many"),
        (f.pack(f.Whole(1, HASH[:-1])), "15 are left"),
    ],
)
def test_what_no_core_sends_is_refused_with_a_reason(data: bytes, why: str) -> None:
    with pytest.raises(TransfersDamaged, match=why):
        list(f.Frames(of_sender=True).feed(data))


def test_any_bytes_are_frames_or_are_refused() -> None:
    dice = random.Random(5)
    for _ in range(3000):
        frame = dice.choice(WRITTEN)
        data = bytearray(f.pack(frame))
        for _ in range(dice.randint(1, 3)):
            data[dice.randrange(4, len(data))] = dice.randrange(256)
        with suppress(TransfersDamaged):
            for found in f.Frames(of_sender=is_of_sender(frame)).feed(bytes(data)):
                assert f.pack(found) == data


def test_a_composite_of_the_most_parts_with_the_longest_names_is_a_frame() -> None:
    offer = next(frame for frame in WRITTEN if isinstance(frame, f.Offer) and len(frame.parts) > 1)
    parts = tuple(f.Part(offer.parts[1].kind, 1, "x" * 4096) for _ in range(1024))
    large = offer._replace(parts=parts)
    assert list(f.Frames(of_sender=True).feed(f.pack(large))) == [large]
    assert large.id == ID
