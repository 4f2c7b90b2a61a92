"""CRC-32C as RFC 3720 has it, by products of 512 bits, by the processor's instruction and by tables."""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import rtmw
from tests.net.raw import crc32c

Crc = Callable[[int, bytes], int]

VECTORS = {  # RFC 3720, appendix B.4
    b"123456789": 0xE3069283,
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(reversed(range(32))): 0x113FDB5C,
    b"": 0,
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = tmp_path_factory.mktemp("crc") / "crc.so"
    source = Path(rtmw.__file__).parent / "shm" / "crc32c.c"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture(params=["crc32c", "crc32c_by_instruction", "crc32c_by_table"])
def crc(request: pytest.FixtureRequest, library: ctypes.CDLL) -> Crc:
    function = getattr(library, request.param)
    function.restype, function.argtypes = ctypes.c_uint32, (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)
    return lambda before, data: int(function(before, data, len(data)))


@pytest.mark.parametrize("data", VECTORS, ids=lambda data: data[:4].hex() or "nothing")
def test_the_crc_is_that_of_the_standard(crc: Crc, data: bytes) -> None:
    assert crc(0, data) == crc32c(data) == VECTORS[data]


def test_the_crc_is_the_same_wherever_the_bytes_are_divided(crc: Crc) -> None:
    chance = random.Random(5)
    for size in [*range(40), 511, 512, 513, 767, 768, 1023, 1024, 3071, 3072, 3073, 6144, 6151, 20_000]:
        data, at = chance.randbytes(size), chance.randint(0, size)
        assert crc(0, data) == crc32c(data), size
        assert crc(crc(0, data[:at]), data[at:]) == crc(0, data), (size, at)


def test_a_hole_counts_as_if_its_bytes_were_not_there(library: ctypes.CDLL) -> None:
    around, chance = library.crc32c_around, random.Random(6)
    around.restype, size = ctypes.c_uint32, ctypes.c_size_t
    around.argtypes = ctypes.c_uint32, ctypes.c_char_p, size, size, size
    for length in [*range(60), 191, 192, 199, 200, 207, 511, 512, 519, 520, 5000]:
        data = chance.randbytes(length)
        begin, end = sorted((chance.randint(0, length), chance.randint(0, length)))
        for hole, behind in ((begin, end), (min(4, length), min(8, length))):
            assert around(0, data, length, hole, behind) == crc32c(data[:hole] + data[behind:]), length
