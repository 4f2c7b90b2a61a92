"""A message with a number of each kind, and with members that have no range."""

from dataclasses import dataclass
from typing import Optional

import cyclonedds.idl.types as t
from cyclonedds.idl import IdlEnum, IdlStruct


class Mode(IdlEnum, typename="plant.Mode"):
    OFF = 0
    ON = 3


@dataclass
class Mixed(IdlStruct, typename="plant.Mixed"):
    """A number of each kind, and what has no range."""

    small: t.int16
    word: t.uint32
    long: t.int64
    huge: t.uint64
    single: t.float32
    double: t.float64
    mode: Mode
    text: str
    maybe: Optional[t.float64] = None  # noqa: UP045 (cyclonedds reads it)
