"""What two decompressors of LZ4 make of the same bytes: the one at hand, and the one of Arrow where that is loaded."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import lz4.frame
import pytest

from rtmw.recording.batch import check_claim, decompress, says_size

DATA = bytes(range(256)) * 300 + random.Random(1).randbytes(3000)

Read = Callable[[bytes, int], bytes]


@pytest.fixture(params=["pyarrow", None])
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Decompresses, with Arrow or without."""
    if request.param:
        pytest.importorskip(request.param)
    else:
        monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    return lambda packed, size: bytes(decompress("lz4", packed, size))


def packed(**options: int | bool) -> bytes:
    return bytes(lz4.frame.compress(DATA, **options))


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_frames_of_all_kinds_are_read(read: Read, block_size: int, linked: bool) -> None:
    for store_size in (True, False):
        frame = packed(block_size=block_size, block_linked=linked, store_size=store_size, content_checksum=linked)
        assert read(frame, len(DATA)) == DATA


@pytest.mark.parametrize("more", [b"", b"x", b"\0" * 40, packed()])
@pytest.mark.parametrize("cut", [0, 1, 4, 1000])
def test_less_or_more_than_a_frame_is_refused(read: Read, cut: int, more: bytes) -> None:
    if not cut and not more:
        assert read(packed(), len(DATA)) == DATA
        return
    with pytest.raises(ValueError, match=r"decompressed|cut short|follows|bytes uncompressed"):
        read(packed()[: len(packed()) - cut] + more, len(DATA))


@pytest.mark.parametrize("size", [0, 1, len(DATA) - 1, len(DATA) + 1, 2 * len(DATA)])
def test_another_size_than_is_claimed_is_refused(read: Read, size: int) -> None:
    with pytest.raises(ValueError, match=r"decompressed|cut short|more than|and should have"):
        read(packed(), size)


def test_a_turned_bit_gives_so_many_bytes_or_an_error(read: Read) -> None:
    frame, chance = packed(content_checksum=True), random.Random(2)
    for at in [*range(8 * 20), *chance.sample(range(8 * len(frame)), 2000)]:
        turned = bytearray(frame)
        turned[at // 8] ^= 1 << at % 8
        try:
            assert len(read(bytes(turned), len(DATA))) == len(DATA)
        except ValueError:
            continue


def test_arrow_gets_only_frames_that_say_their_size() -> None:
    assert says_size(packed(), len(DATA))
    assert not says_size(packed(), len(DATA) + 1)
    assert not says_size(packed(store_size=False), len(DATA))
    assert not any(says_size(packed()[:size], len(DATA)) for size in range(14))


@pytest.mark.parametrize(
    ("compression", "size", "claimed", "is_believed"),
    [
        ("zstd", 96 << 10, 3 << 30, False),
        ("zstd", 96 << 10, 1 << 28, True),
        ("zstd", 16 << 20, 3 << 30, True),
        ("zstd", 4 << 10, 128 << 20, True),
        ("lz4", 16 << 20, 3 << 30, True),
        ("", 3 << 30, 3 << 30, True),
    ],
)
def test_a_few_bytes_do_not_take_all_memory(compression: str, size: int, claimed: int, is_believed: bool) -> None:
    assert (check_claim(compression, size, claimed) is None) == is_believed
