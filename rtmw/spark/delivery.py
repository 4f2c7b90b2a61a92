"""How rows go onto the bus: the options of `df.write.format("rtmw")`, and of `rtmw.spark.replay`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rtmw.domain import environment_domain
from rtmw.qos import Reliability

OF_SPARK = {"path", "checkpointlocation", "queryname"}
"""Options that Spark hands to every format."""

TIMES = ("log_time", "publish_time")


@dataclass(frozen=True)
class Delivery:
    """Where to, of which type, how fast, and with which quality of service."""

    domain: int = 0
    topic: str | None = None
    """Topic of every row; None: the column `topic` has it."""
    type: str | None = None
    """"package.module:Class" of the messages; None: as in the recording that the rows came from."""
    description: bytes | None = None
    """Description of the type, in place of its name: workers need no module for it."""
    recording: str | None = None
    """A recording that has the topics' types; None: that of the column `file`."""
    rate: float = 0.0
    """1: as recorded, 2: twice as fast; 0: as fast as readers take it."""
    time: str = "log_time"
    """The column that paces, if a rate is given."""
    priority: int | None = None
    """None: that of the column `priority`, else 0."""
    lifetime: float | None = None
    """Seconds from the moment it is published."""
    reliability: Reliability = Reliability.RELIABLE
    max_blocking: float = 60.0
    """Seconds that a RELIABLE subscriber may stand still before this fails."""
    subscribers: int = 0
    """Number of subscribers that must be there on each topic before its first message."""
    timeout: float = 60.0
    """Seconds to wait for them."""

    def __post_init__(self) -> None:
        for name in ("rate", "max_blocking", "timeout"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name}={getattr(self, name)!r} is not possible; it must be a number from 0")
        if self.time not in TIMES:
            raise ValueError(f"time={self.time!r} is not possible; rows are paced by {' or '.join(TIMES)}")


def as_reliability(text: str) -> Reliability:
    try:
        return Reliability[text.upper()]
    except KeyError:
        known = ", ".join(each.name for each in Reliability)
        raise ValueError(f"reliability {text!r} does not exist; there are {known}") from None


READ: dict[str, Callable[[str], Any]] = {
    "domain": int,
    "topic": str,
    "type": str,
    "recording": str,
    "rate": float,
    "time": str,
    "priority": int,
    "lifetime": float,
    "reliability": as_reliability,
    "max_blocking": float,
    "subscribers": int,
    "timeout": float,
}
"""How the value of an option is made of its text."""


def delivery_of(options: Mapping[str, str]) -> Delivery:
    """The delivery that options ask for. ValueError names the option, what was found and what is possible."""
    chosen: dict[str, Any] = {"domain": environment_domain()}
    for name, text in options.items():
        if name.lower() in OF_SPARK:
            continue
        if name.lower() not in READ:
            raise ValueError(f"option {name!r} is not known; there are {', '.join(READ)}")
        chosen[name.lower()] = value_of(name.lower(), text)
    return Delivery(**chosen)


def value_of(name: str, text: str) -> Any:
    read = READ[name]
    try:
        return read(text)
    except ValueError as error:
        if read is as_reliability:
            raise
        raise ValueError(f"option {name}={text!r} is not possible; it must be a number") from error
