"""Water quality along a river: stations measure parameters. The same types as IDL: `river.idl`."""

from dataclasses import dataclass

from cyclonedds.idl import IdlEnum, IdlStruct
from cyclonedds.idl.annotations import final, key
from cyclonedds.idl.types import float32, float64, int64

import rtmw

from .topic import Topic


@final
class Quality(IdlEnum, typename="river.Quality", default="GOOD"):
    """How far a reading can be trusted."""

    GOOD = 0
    UNCERTAIN = 1
    """Outside the range of the method, or the sensor is due for calibration."""
    BAD = 2
    """Sensor failed or out of the water; the value means nothing."""


@final
@dataclass
class Station(IdlStruct, typename="river.Station"):
    """Where is measured."""

    id: str
    key("id")
    name: str = ""
    river: str = ""
    latitude: float64 = 0.0
    longitude: float64 = 0.0
    kilometre: float32 = 0.0
    """Distance from the mouth."""


@final
@dataclass
class Parameter(IdlStruct, typename="river.Parameter"):
    """What is measured: for instance dissolved oxygen, in mg/l, and the limits that it must stay within."""

    code: str
    key("code")
    name: str = ""
    unit: str = ""
    method: str = ""
    low: float64 = 0.0
    high: float64 = 0.0


@final
@dataclass
class Reading(IdlStruct, typename="river.Reading"):
    """One measurement. `measured_ns`: nanoseconds since 1970, UTC; earlier than the publication."""

    station: str
    key("station")
    parameter: str = ""
    key("parameter")
    value: float64 = 0.0
    quality: Quality = Quality.GOOD
    measured_ns: int64 = 0


@final
@dataclass
class Alarm(IdlStruct, typename="river.Alarm"):
    """A limit was passed (`raised`), or the value is back inside (not `raised`)."""

    station: str
    key("station")
    parameter: str = ""
    key("parameter")
    raised: bool = True
    value: float64 = 0.0
    limit: float64 = 0.0
    measured_ns: int64 = 0
    text: str = ""


STATION = Topic("river/station", Station, rtmw.profiles.STATUS)
PARAMETER = Topic("river/parameter", Parameter, rtmw.profiles.STATUS)
READING = Topic("river/reading", Reading, rtmw.profiles.EVENT)
ALARM = Topic("river/alarm", Alarm, rtmw.profiles.COMMAND)
