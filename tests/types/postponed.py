"""Message types whose annotations are strings, because of the first line."""

from __future__ import annotations

from dataclasses import dataclass

import cyclonedds.idl.types as t
from cyclonedds.idl import IdlStruct


@dataclass
class Inner(IdlStruct):
    values: t.sequence[t.int16]


@dataclass
class Outer(IdlStruct):
    inner: Inner
    number: t.int32
