"""The QoS that a publisher offers, as bags of ROS 2 write it: in YAML, in the metadata of a channel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast

QOS_KEY: Final = "offered_qos_profiles"
_FOREVER: Final = "{sec: 9223372036, nsec: 854775807}"
_NS: Final = 1_000_000_000
_LINE: Final = re.compile(r"^[ -]*(history|depth|reliability|durability): *(\w+)", re.MULTILINE)
_COUNT: Final = re.compile(r"\d{1,18}", re.ASCII)
_TRANSIENT_LOCAL: Final = {"1", "transient_local"}


def qos_profiles(qos: Mapping[str, str]) -> str:
    """The profile of what a channel's metadata says of its publisher: the same that a node offers to DDS programs."""
    reliability = "best_effort" if qos.get("rtmw.reliability") == "TIMELY" else "reliable"
    history = _count(qos, "rtmw.history")
    depth = history or _count(qos, "rtmw.depth") or 10
    lifetime = _count(qos, "rtmw.lifetime_ns")
    lifespan = f"{{sec: {lifetime // _NS}, nsec: {lifetime % _NS}}}" if lifetime else _FOREVER
    lines = (
        "history: keep_last",
        f"depth: {depth}",
        f"reliability: {reliability}",
        f"durability: {'transient_local' if history else 'volatile'}",
        f"deadline: {_FOREVER}",
        f"lifespan: {lifespan}",
        "liveliness: automatic",
        f"liveliness_lease_duration: {_FOREVER}",
        "avoid_ros_namespace_conventions: false",
    )
    return "- " + "\n  ".join(lines) + "\n"


def _count(qos: Mapping[str, str], key: str) -> int:
    """A whole number of 64 bits; 0 for anything else, since whoever made the recording wrote what he liked."""
    text = qos.get(key, "0")
    return int(text) if _COUNT.fullmatch(text) else 0


def offered(profiles: str) -> list[dict[str, str]]:
    """Returns for each publisher its history, depth, reliability and durability, as words or numbers in small
    letters."""
    parts = re.split(r"^- ", profiles.lower(), flags=re.MULTILINE)
    return [dict(cast("list[tuple[str, str]]", _LINE.findall(part))) for part in parts if part.strip()]


def is_latched(profile: Mapping[str, str]) -> bool:
    """Does this publisher keep messages for late subscribers?"""
    return profile.get("durability") in _TRANSIENT_LOCAL
