"""QoS of what is replayed: as it was recorded, or as it is wanted instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict

from rtmw.publisher import LONGEST_QUEUE, check_count
from rtmw.qos import PRIORITIES, Reliability, check_priority
from rtmw.recording.schemas.ros2 import QOS_KEY, is_latched, offered

_DEPTH: Final = 64
_RELIABLE: Final = {"1", "reliable"}


class QosOptions(TypedDict, total=False):
    """The QoS that can replace the recorded one; the keywords of Publisher."""

    priority: int
    lifetime: float | None
    reliability: Reliability
    depth: int
    history: int


@dataclass(frozen=True, slots=True)
class TrackQos:
    """The QoS of the publisher that plays a topic."""

    reliability: Reliability = Reliability.ADAPTIVE
    priority: int = 0
    depth: int = _DEPTH
    history: int = 0
    lifetime_ns: int = 0
    """0: no limit."""
    own_priority: bool = True
    """Each message keeps the priority with which it was recorded."""
    own_lifetime: bool = True
    """Each message keeps what was left of its lifetime when it was recorded."""

    def stronger(self, other: TrackQos) -> TrackQos:
        """The QoS that promises at least as much as both."""
        unlimited = not (self.lifetime_ns and other.lifetime_ns)
        return TrackQos(
            Reliability(max(self.reliability, other.reliability)),
            max(self.priority, other.priority),
            max(self.depth, other.depth),
            max(self.history, other.history),
            0 if unlimited else max(self.lifetime_ns, other.lifetime_ns),
        )

    def changed(self, wanted: QosOptions) -> TrackQos:
        """Returns the QoS with the changes that are wanted. Raises ValueError."""
        unknown = wanted.keys() - QosOptions.__annotations__.keys()
        if unknown:
            known = ", ".join(QosOptions.__annotations__)
            raise ValueError(f"{', '.join(sorted(unknown))}: a replay can change {known}")
        values: dict[str, Any] = {name: value for name, value in wanted.items() if name != "lifetime"}
        if "lifetime" in wanted:
            values |= {"lifetime_ns": _nanoseconds(wanted["lifetime"]), "own_lifetime": False}
        if "priority" in wanted:
            values["own_priority"] = False
        return _checked(replace(self, **values))


def recorded_qos(metadata: Mapping[str, str]) -> TrackQos:
    """The QoS that a channel was recorded with; the defaults where it does not say."""
    if QOS_KEY in metadata and "rtmw.reliability" not in metadata:
        return _ros2(metadata[QOS_KEY])
    return TrackQos(
        _reliability(metadata.get("rtmw.reliability", "")),
        min(_number(metadata, "rtmw.priority", 0), PRIORITIES - 1),
        max(min(_number(metadata, "rtmw.depth", _DEPTH), LONGEST_QUEUE), 1),
        min(_number(metadata, "rtmw.history", 0), LONGEST_QUEUE),
        _number(metadata, "rtmw.lifetime_ns", 0),
    )


def _ros2(profiles: str) -> TrackQos:
    found = offered(profiles)
    depths = [int(profile["depth"]) for profile in found if profile.get("depth", "").isdecimal()]
    depth = min(max(depths, default=0) or _DEPTH, LONGEST_QUEUE)
    reliable = any(profile.get("reliability") in _RELIABLE for profile in found)
    latched = any(map(is_latched, found))
    return TrackQos(
        Reliability.RELIABLE if reliable else Reliability.TIMELY, depth=depth, history=depth if latched else 0
    )


def _reliability(text: str) -> Reliability:
    try:
        return Reliability(int(text)) if text.isdecimal() else Reliability[text]
    except (KeyError, ValueError):
        return Reliability.ADAPTIVE


def _number(metadata: Mapping[str, str], key: str, default: int) -> int:
    text = metadata.get(key, "")
    return int(text) if text.isdecimal() else default


def _nanoseconds(seconds: float | None) -> int:
    if seconds is not None and not 0 < seconds < 1e9:
        raise ValueError(f"lifetime={seconds!r} is not possible; it must be seconds above 0, or None")
    return 0 if seconds is None else int(seconds * 1e9)


def _checked(qos: TrackQos) -> TrackQos:
    check_priority(qos.priority)
    check_count("depth", qos.depth, 1)
    check_count("history", qos.history, 0)
    return replace(qos, reliability=Reliability(qos.reliability))
