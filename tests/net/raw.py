"""Samples byte by byte, from a program that may say it is a node: what a node makes of them."""

from __future__ import annotations

import ctypes
import struct
import time
from typing import Any

from rtmw import Reliability
from rtmw.net.dds.idl_class import idl_class
from rtmw.net.dds.library import DataWriter, DomainParticipant, Policy, Qos, Topic, dds, matched
from rtmw.net.dds.routes import Lane, describe_endpoint
from rtmw.net.dds.wire import MARK
from rtmw.types import MessageType, resolve
from tests.net.hosts import PATIENCE, wait_until

OCTETS: Any = idl_class(resolve(bytes))
_TRAILER = struct.Struct("<4sBBBBQQQ")
_STAMP = 32
"""Where the time stamp lies in a sample (dds.h)."""


class NotTaken(AssertionError):
    """What the DDS library does not take for a sample of its type."""


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))


def octets_writer(participant: DomainParticipant, topic: str, is_node: bool) -> Any:
    """A RELIABLE writer of raw bytes that the node reads. `is_node`: it says it is one."""
    return raw_writer(participant, topic, resolve(bytes), is_node)


def raw_writer(participant: DomainParticipant, topic: str, type: MessageType, is_node: bool = True) -> Any:
    """The same, of a topic of any type."""
    policies: list[Any] = [Policy.Reliability.Reliable(int(PATIENCE * 1e9)), Policy.History.KeepAll]
    if is_node:
        policies.append(Policy.Userdata(MARK + describe_endpoint(Lane(Reliability.RELIABLE, False), type)))
    writer: Any = DataWriter(participant, Topic(participant, topic, idl_class(type)), qos=Qos(*policies))
    wait_until(lambda: len(matched(writer._ref, True)) == 1, "the node does not read")
    return writer


def write_bytes(writer: Any, sample: bytes) -> None:
    """Hand a sample to DDS as it is."""
    kind = ctypes.c_void_p()
    assert dds.dds_get_entity_sertype(writer._ref, ctypes.byref(kind)) == 0
    make = dds.ddsi_serdata_from_ser_iov
    make.restype = ctypes.c_void_p
    vector = _Vector(sample, len(sample))
    data = make(kind, 2, ctypes.c_size_t(1), ctypes.byref(vector), ctypes.c_size_t(len(sample)))
    if not data:
        raise NotTaken(sample)
    ctypes.c_int64.from_address(data + _STAMP).value = time.time_ns()
    assert dds.dds_forwardcdr(writer._ref, ctypes.c_void_p(data)) == 0


def octets(payload: bytes) -> bytes:
    """The beginning of a sample."""
    return struct.pack("<4sI", b"\0\1\0\0", len(payload)) + payload


CHECKED = struct.pack("<I", 0x9B5A3CC6)
"""The magic of a trailer before which a CRC stands."""


def crc32c(data: bytes) -> int:
    """As the definition has it, a bit at a time; of small samples."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def checked(body: bytes, version: int = 1, messages: int = 0, sequence: int = 1) -> bytes:
    """A sample of a node with a CRC."""
    padding = -len(body) % 4
    return with_crc(body + bytes(padding), trailer(version, padding, messages, sequence, magic=CHECKED))


def with_crc(body: bytes, end: bytes) -> bytes:
    return body + struct.pack("<I", crc32c(body + end)) + end


def trailer(version: int = 1, padding: int = 0, messages: int = 0, sequence: int = 1, magic: bytes = b"rtmw") -> bytes:
    """The end of a sample of a node (trailer.h)."""
    return _TRAILER.pack(magic, version, 3, padding, messages, 0, sequence, 0)
