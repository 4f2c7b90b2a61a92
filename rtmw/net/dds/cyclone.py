"""cyclonedds, as the node uses it.

Its hints describe neither its policies nor its IDL types, and call what it makes of them unknown. So its names are Any
here, and everything that leaves rtmw.net has types of ours.

Its listeners are not used: the DDS library calls them while it holds locks of its own, for which a thread that has the
interpreter may be waiting (data_event.c).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rtmw.optional import needing_dds

with needing_dds("`rtmw node`"):
    from cyclonedds.core import DDSException
    from cyclonedds.domain import DomainParticipant

__all__ = ["DDSException", "DomainParticipant"]

_qos: Any = import_module("cyclonedds.qos")
_idl: Any = import_module("cyclonedds.idl")

Policy: Any = _qos.Policy
Qos: Any = _qos.Qos
Topic: Any = import_module("cyclonedds.topic").Topic
_sub: Any = import_module("cyclonedds.sub")
_pub: Any = import_module("cyclonedds.pub")
DataReader: Any = _sub.DataReader
DataWriter: Any = _pub.DataWriter
DdsPublisher: Any = _pub.Publisher
DdsSubscriber: Any = _sub.Subscriber
DdsDomain: Any = import_module("cyclonedds.domain").Domain
builtin: Any = import_module("cyclonedds.builtin")
types: Any = import_module("cyclonedds.idl.types")
make_idl_struct: Any = _idl.make_idl_struct
make_idl_union: Any = _idl.make_idl_union
make_idl_enum: Any = _idl.make_idl_enum
make_idl_bitmask: Any = _idl.make_idl_bitmask
get_types_for_typeid: Any = import_module("cyclonedds.dynamic").get_types_for_typeid
TypeIdentifier: Any = import_module("cyclonedds.idl._typesupport.DDS.XTypes").TypeIdentifier

_clayer: Any = import_module("cyclonedds._clayer")
_ANY_STATE = 0x7F


def take_payloads(reader: Any, most: int) -> list[tuple[bytes, Any]]:
    """The bytes and the SampleInfo of samples. A DataReader's own `take` decodes them, and loses all for a bad one."""
    taken: Any = _clayer.ddspy_take(reader._ref, _ANY_STATE, most)
    return [] if isinstance(taken, int) else taken
