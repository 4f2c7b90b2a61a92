"""What programs and nodes of a replicated log say to each other, as bytes: there and back, and whatever comes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from rtmw.log import AutomaticId, pack_labels
from rtmw.replica import requests as r
from rtmw.replica.words import Reply


def labels(key: str | None = None, id: object = "an id") -> bytes:
    packed = pack_labels(key, id)  # type: ignore[arg-type]
    assert packed is not None
    return packed


@pytest.mark.parametrize("values", [[b""], [b"one"], [b"", b"two", b"x" * 70_000]])
def test_a_batch_comes_back_as_it_was(values: list[bytes]) -> None:
    found, views = r.unpack_batch(r.pack_batch(labels("key"), values))
    assert found == labels("key")
    assert [bytes(view) for view in views] == values


@pytest.mark.parametrize("id", ["text", b"bytes", -(1 << 70), AutomaticId(bytes(range(16)), 9)])
def test_the_id_of_labels_is_the_same_with_and_without_a_key(id: object) -> None:
    alone = labels(None, id)
    assert r.id_of(labels("key", id)) == r.id_of(alone) == alone


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        bytes(8),
        labels("key", None),
        labels()[:-8],
        labels() + bytes(8),
        b"\0\5" + labels()[2:],
        b"\0\2\0\0\1\0\0\0\xff" + bytes(7),
        labels()[:-1] + b"x",
    ],
)
def test_bytes_that_are_no_labels_with_an_id_are_refused(bad: bytes) -> None:
    with pytest.raises(ValueError, match=r"label|kind|decode"):
        r.id_of(bad)


def test_a_batch_of_any_other_length_is_refused() -> None:
    packed = r.pack_batch(labels(), [b"one", b"two"])
    for size in range(len(packed)):
        with pytest.raises(ValueError, match="batch"):
            r.unpack_batch(packed[:size])
    with pytest.raises(ValueError, match="batch"):
        r.unpack_batch(packed + b"x")
    with pytest.raises(ValueError, match="batch"):
        r.unpack_batch(r.pack_batch(labels(), []))
    with pytest.raises(ValueError, match=r"420000 records of .* are too many for one append"):
        r.unpack_batch(r.pack_batch(labels(), [b""] * 420_000))


def test_requests_and_answers_come_back_however_their_bytes_are_divided() -> None:
    random_ = random.Random(7)
    asked = [r.Request(random_.choice(list(r.Ask)), 1 + n, n * 3, bytes(random_.randrange(40))) for n in range(200)]
    told = [r.Heard(random_.choice(list(Reply)), n, n * 7, 2**63 + n, b"w" * random_.randrange(9)) for n in range(200)]
    for splitter, packed, expected, read in (
        (
            r.request_splitter(),
            b"".join(r.pack_request(r.Ask(one.ask), *one[1:]) for one in asked),
            asked,
            r.requests_in,
        ),
        (r.answer_splitter(), b"".join(r.pack_answer(*one) for one in told), told, r.answers_in),
    ):
        found: list[object] = []
        while packed:
            size = random_.randrange(1, 60)
            found += read(splitter, packed[:size])
            packed = packed[size:]
        assert found == expected


@pytest.mark.parametrize(
    "bad",
    [
        r.REQUEST.pack(r.LARGEST_BATCH + 1, 1, 1, 0),
        r.REQUEST.pack(0, len(r.Ask) + 1, 1, 0),
        r.REQUEST.pack(0, 0, 1, 0),
        r.REQUEST.pack(0, 1, 0, 0),
    ],
)
def test_a_request_that_is_none_is_refused(bad: bytes) -> None:
    with pytest.raises(ValueError, match=r"too many|does not know"):
        r.requests_in(r.request_splitter(), bad)


# Proves G384.
def test_whatever_comes_is_read_or_refused_in_words() -> None:
    """Random bytes, and good ones with some bytes changed: nothing but ValueError comes of them."""
    random_ = random.Random(3)
    good = [
        r.pack_batch(labels("k"), [b"abc", b"d"]),
        r.pack_request(r.Ask.APPEND, 3, 4, b"body"),
        r.pack_answer(Reply.WRITTEN, 3, 4, 5, b"words"),
        r.Welcome("a", bytes(16), b"{}", "b", 3).packed(),
        labels("key"),
        b"read/1 orders 5 6",
    ]
    readers: list[Callable[[bytes], object]] = [
        r.unpack_batch,
        r.id_of,
        r.Welcome.read,
        lambda data: r.requests_in(r.request_splitter(), data),
        lambda data: r.answers_in(r.answer_splitter(), data),
        lambda data: r.purpose_of(data.decode("latin-1")),
    ]
    refused = 0
    for _ in range(3000):
        data = bytearray(random_.choice(good) if random_.random() < 0.8 else random_.randbytes(random_.randrange(60)))
        for _ in range(random_.randrange(4)):
            if data:
                data[random_.randrange(len(data))] = random_.randrange(256)
        for read in readers:
            try:
                read(bytes(data))
            except ValueError:
                refused += 1
    assert refused > 3000


def test_purposes_and_welcomes_come_back() -> None:
    assert r.purpose_of(r.log_purpose("orders")) == ("log", "orders", 0, 0)
    assert r.purpose_of(r.read_purpose("orders", 5, r.NO_LIMIT)) == ("read", "orders", 5, r.NO_LIMIT)
    for bad in ("log/2 orders", "read/1 orders", "read/1 orders -1 2", f"read/1 orders 1 {1 << 64}", ""):
        with pytest.raises(ValueError, match="this version"):
            r.purpose_of(bad)
    welcome = r.Welcome("a", bytes(range(16)), b"description", "b", 7)
    assert r.Welcome.read(welcome.packed()) == welcome
