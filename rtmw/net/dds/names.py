"""How topics and types are called on the wire: as here, or as ROS 2 calls them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """ROS 2 puts `rt/` before topic names, and `dds_::` and `_` around the last part of type names."""

    ros2: bool = False

    def topic(self, name: str) -> str:
        """The DDS topic of a topic of the bus."""
        return f"rt/{name}" if self.ros2 else name

    def local(self, dds_topic: str) -> str | None:
        """The topic of the bus, or None for a DDS topic that is none: of ROS 2's services, say."""
        if not self.ros2:
            return dds_topic
        return dds_topic[3:] if dds_topic.startswith("rt/") else None

    def type(self, name: str) -> str:
        """The DDS type of a type of the bus."""
        if not self.ros2:
            return name
        package, _, last = name.rpartition("::")
        return f"{package}::dds_::{last}_" if package else f"dds_::{last}_"

    def local_type(self, dds_type: str) -> str:
        if not self.ros2 or "dds_::" not in dds_type:
            return dds_type
        return dds_type.replace("dds_::", "").removesuffix("_")
