"""What a publisher offers, as bags of ROS 2 say it: in YAML, in the metadata of a channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

QOS_KEY: Final = "offered_qos_profiles"
_FOREVER: Final = "{sec: 9223372036, nsec: 854775807}"
_NS: Final = 1_000_000_000


def qos_profiles(qos: Mapping[str, str]) -> str:
    """The profile of what a channel's metadata says of its publisher: the same that a node offers to DDS programs."""
    reliability = "best_effort" if qos.get("rtmw.reliability") == "TIMELY" else "reliable"
    history = int(qos.get("rtmw.history", "0"))
    depth = history or int(qos.get("rtmw.depth", "0")) or 10
    lifetime = int(qos.get("rtmw.lifetime_ns", "0"))
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
