"""What a host says about itself. The same types as IDL: `telemetry.idl`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cyclonedds.idl import IdlEnum, IdlStruct
from cyclonedds.idl.annotations import final, key
from cyclonedds.idl.types import float32, float64, int32, sequence, uint32, uint64

import rtmw

from .topic import Topic

if TYPE_CHECKING:
    Percentages = Sequence[float]
else:
    Percentages = sequence[float32]


@final
class Severity(IdlEnum, typename="telemetry.Severity", default="NOTICE"):
    """How much an alarm matters."""

    NOTICE = 0
    WARNING = 1
    CRITICAL = 2


@final
@dataclass
class Cpu(IdlStruct, typename="telemetry.Cpu"):
    """Processor load over the last sampling window."""

    host: str
    key("host")
    percent: float32 = 0.0
    """Busy share of all cores, 0 to 100."""
    user_percent: float32 = 0.0
    system_percent: float32 = 0.0
    cores: Percentages = field(default_factory=list[float])
    """Busy share of each core, 0 to 100."""
    load_1_min: float64 = 0.0
    context_switches: uint64 = 0
    """Since boot."""


@final
@dataclass
class Memory(IdlStruct, typename="telemetry.Memory"):
    """Main memory and swap, in bytes."""

    host: str
    key("host")
    total: uint64 = 0
    available: uint64 = 0
    used: uint64 = 0
    cached: uint64 = 0
    swap_total: uint64 = 0
    swap_used: uint64 = 0


@final
@dataclass
class Disk(IdlStruct, typename="telemetry.Disk"):
    """Counters of a block device, since boot."""

    host: str
    key("host")
    device: str = ""
    key("device")
    reads: uint64 = 0
    writes: uint64 = 0
    read_bytes: uint64 = 0
    written_bytes: uint64 = 0
    busy_ms: uint64 = 0


@final
@dataclass
class Network(IdlStruct, typename="telemetry.Network"):
    """Counters of a network interface, since boot."""

    host: str
    key("host")
    link: str = ""
    """Name of the interface."""
    key("link")
    sent_bytes: uint64 = 0
    received_bytes: uint64 = 0
    sent_packets: uint64 = 0
    received_packets: uint64 = 0
    errors: uint64 = 0
    drops: uint64 = 0


@final
@dataclass
class Process(IdlStruct, typename="telemetry.Process"):
    """A row of the process table."""

    host: str
    key("host")
    pid: int32 = 0
    key("pid")
    name: str = ""
    state: str = ""
    cpu_seconds: float64 = 0.0
    """Processor time since the process began."""
    cpu_percent: float32 = 0.0
    """Share of one core since the row before it."""
    resident_bytes: uint64 = 0
    threads: uint32 = 0


@final
@dataclass
class Alarm(IdlStruct, typename="telemetry.Alarm"):
    """Something that somebody should look at. `value` is what was seen, `threshold` what it was compared with."""

    host: str
    key("host")
    source: str = ""
    """What it is about: `cpu`, `process` ..."""
    key("source")
    severity: Severity = Severity.NOTICE
    text: str = ""
    value: float64 = 0.0
    threshold: float64 = 0.0


CPU = Topic("telemetry/cpu", Cpu, rtmw.profiles.SIGNAL)
MEMORY = Topic("telemetry/memory", Memory, rtmw.profiles.SIGNAL)
DISK = Topic("telemetry/disk", Disk, rtmw.profiles.SIGNAL)
NETWORK = Topic("telemetry/network", Network, rtmw.profiles.SIGNAL)
PROCESS = Topic("telemetry/process", Process, rtmw.profiles.SIGNAL)
ALARM = Topic("telemetry/alarm", Alarm, rtmw.profiles.EVENT)
