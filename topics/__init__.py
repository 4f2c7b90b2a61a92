"""Message types with their default QoS: `telemetry` of a host, water quality of a `river`, flights of an `airport`.

    with topics.telemetry.CPU.publisher() as cpu:
        cpu.publish(topics.telemetry.Cpu(host="pump-house", percent=12.5))

Each module holds its types (also as OMG IDL, in the file of the same name) and a `Topic` for each of them. These
modules leave out `from __future__ import annotations`: cyclonedds reads the types of the fields as objects.
"""

from .topic import Topic

__all__ = ["Topic"]
