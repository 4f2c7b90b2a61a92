"""rtmw: one bus for real-time publish and subscribe, in a host, between hosts, and offline.

    publisher = rtmw.Publisher("pump/speed", Speed, priority=3)
    for sample in rtmw.Subscriber("pump/speed", Speed, deadline=0.5):
        print(sample.value)

    rtmw.Recorder("pump/*", "monday/")      # rtmw.Recording reads what it wrote, rtmw.Replay plays it again
    rtmw.Client("arm/move", request=Goal, reply=Step).call(Goal(3))     # answered by a rtmw.Service of that name
    rtmw.Log("orders/", Order).append(order)      # on the disk when it returns
    rtmw.Sender("plant").send("ingest", reading)  # for one receiver, kept until it is consumed: rtmw.Inbox("ingest")
    rtmw.Agent("AODB", server="127.0.0.1:7460").send("GATE", b"CA981 gate 12")  # an order, under a relay's control

Layers, each importing only from those before it:
    errors qos profiles latency realtime units patterns  ·  shm types log  ·  columns recording
    domain publisher subscriber many waitset listener aio observe durable_log requests  ·  net record replay
    ·  spark  ·  cli demo
"""

import sys

if sys.argv[:1] == ["-m"] or "".join(sys.argv[:1]).rpartition("/")[2] == "rtmw":  # the `rtmw` command, or it may be
    import signal
    from threading import current_thread, main_thread

    _is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler and current_thread() is main_thread()
    if _is_heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C before all is imported ends it without a traceback
else:
    _is_heard = False

from importlib import import_module
from typing import TYPE_CHECKING, Final

from rtmw import profiles, realtime
from rtmw.domain import Domain
from rtmw.errors import (
    AccessDenied,
    BatchTimeout,
    CallFailed,
    ClosedError,
    CoreNotRunning,
    DeadlineMissed,
    DomainError,
    DomainNotFound,
    ForkedError,
    LeaseExpired,
    LimitReached,
    LogDamaged,
    LogError,
    LogFailed,
    LogFull,
    LogLocked,
    MessageError,
    MessageTooLarge,
    NoServer,
    NotInstalled,
    NotPermitted,
    PoolExhausted,
    RecordingDamaged,
    RecordingError,
    RecordingFailed,
    RegionDamaged,
    RemoteFailed,
    RequestError,
    RtmwError,
    ServiceTaken,
    SessionError,
    SharedMemoryFull,
    SourceChanged,
    StreamError,
    SweptError,
    TopicNameError,
    TransferError,
    TransferRefused,
    TypeMismatch,
    UnsupportedType,
    ValueMismatch,
    VersionMismatch,
)
from rtmw.latency import Latency
from rtmw.publisher import Publisher, PublisherStats
from rtmw.qos import Profile, Reliability
from rtmw.shm import Loan, Sample
from rtmw.subscriber import Listener, Subscriber, SubscriberStats, WaitSet
from rtmw.types import (
    ANY,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

if TYPE_CHECKING:
    from rtmw import observe, spark
    from rtmw.durable_log.batches import LogBatch, LogBatches
    from rtmw.durable_log.log import Appended, Durability, Log, LogStats, PersistQueue, Retention
    from rtmw.durable_log.reading import Cursor, LogRecord, LogRecords, Start
    from rtmw.many.pattern_subscriber import PatternStats, PatternSubscriber
    from rtmw.observe.log_handler import LogHandler, LogHandlerStats, LogLine
    from rtmw.player import Replay, ReplayStats
    from rtmw.recorder import Recorder, RecorderStats
    from rtmw.recording import Recording, Recordings
    from rtmw.recording.sample_table import table
    from rtmw.relay.agent import Agent, Dispatch, DispatchState, Order
    from rtmw.requests import Client, ClientStats, Service, ServiceStats, Stream
    from rtmw.transfer import (
        Delivery,
        File,
        Inbox,
        InboxStats,
        Letter,
        Level,
        Part,
        Progress,
        Savepoint,
        Sender,
        SenderStats,
        Transaction,
        Transfer,
        TransferEvent,
        TransferId,
        TransferState,
    )

__all__ = [
    "ANY",
    "AccessDenied",
    "Agent",
    "Appended",
    "BatchTimeout",
    "CallFailed",
    "Client",
    "ClientStats",
    "ClosedError",
    "CoreNotRunning",
    "Cursor",
    "DeadlineMissed",
    "Delivery",
    "Dispatch",
    "DispatchState",
    "Domain",
    "DomainError",
    "DomainNotFound",
    "Durability",
    "File",
    "ForkedError",
    "Inbox",
    "InboxStats",
    "Latency",
    "LeaseExpired",
    "Letter",
    "Level",
    "LimitReached",
    "Listener",
    "Loan",
    "Log",
    "LogBatch",
    "LogBatches",
    "LogDamaged",
    "LogError",
    "LogFailed",
    "LogFull",
    "LogHandler",
    "LogHandlerStats",
    "LogLine",
    "LogLocked",
    "LogRecord",
    "LogRecords",
    "LogStats",
    "MessageError",
    "MessageTooLarge",
    "NoServer",
    "NotInstalled",
    "NotPermitted",
    "Order",
    "Part",
    "PatternStats",
    "PatternSubscriber",
    "PersistQueue",
    "PoolExhausted",
    "Profile",
    "Progress",
    "Publisher",
    "PublisherStats",
    "Recorder",
    "RecorderStats",
    "Recording",
    "RecordingDamaged",
    "RecordingError",
    "RecordingFailed",
    "Recordings",
    "RegionDamaged",
    "Reliability",
    "RemoteFailed",
    "Replay",
    "ReplayStats",
    "RequestError",
    "Retention",
    "RtmwError",
    "Sample",
    "Savepoint",
    "Sender",
    "SenderStats",
    "Service",
    "ServiceStats",
    "ServiceTaken",
    "SessionError",
    "SharedMemoryFull",
    "SourceChanged",
    "Start",
    "Stream",
    "StreamError",
    "Subscriber",
    "SubscriberStats",
    "SweptError",
    "TopicNameError",
    "Transaction",
    "Transfer",
    "TransferError",
    "TransferEvent",
    "TransferId",
    "TransferRefused",
    "TransferState",
    "TypeMismatch",
    "UnsupportedType",
    "ValueMismatch",
    "VersionMismatch",
    "WaitSet",
    "__version__",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "observe",
    "profiles",
    "realtime",
    "spark",
    "table",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

if _is_heard:
    import signal

    signal.signal(signal.SIGINT, signal.default_int_handler)

__version__: str

_LATE: Final = {
    "Agent": "rtmw.relay.agent",
    "Appended": "rtmw.durable_log.log",
    "Client": "rtmw.requests",
    "ClientStats": "rtmw.requests",
    "Cursor": "rtmw.durable_log.reading",
    "Delivery": "rtmw.transfer",
    "Dispatch": "rtmw.relay.agent",
    "DispatchState": "rtmw.relay.agent",
    "Durability": "rtmw.durable_log.log",
    "File": "rtmw.transfer",
    "Inbox": "rtmw.transfer",
    "InboxStats": "rtmw.transfer",
    "Letter": "rtmw.transfer",
    "Level": "rtmw.transfer",
    "Log": "rtmw.durable_log.log",
    "LogBatch": "rtmw.durable_log.batches",
    "LogBatches": "rtmw.durable_log.batches",
    "LogHandler": "rtmw.observe.log_handler",
    "LogHandlerStats": "rtmw.observe.log_handler",
    "LogLine": "rtmw.observe.log_handler",
    "LogRecord": "rtmw.durable_log.reading",
    "LogRecords": "rtmw.durable_log.reading",
    "LogStats": "rtmw.durable_log.log",
    "Order": "rtmw.relay.agent",
    "Part": "rtmw.transfer",
    "PatternStats": "rtmw.many.pattern_subscriber",
    "PatternSubscriber": "rtmw.many.pattern_subscriber",
    "PersistQueue": "rtmw.durable_log.log",
    "Progress": "rtmw.transfer",
    "Recorder": "rtmw.recorder",
    "RecorderStats": "rtmw.recorder",
    "Recording": "rtmw.recording",
    "Recordings": "rtmw.recording",
    "Replay": "rtmw.player",
    "ReplayStats": "rtmw.player",
    "Retention": "rtmw.durable_log.log",
    "Savepoint": "rtmw.transfer",
    "Sender": "rtmw.transfer",
    "SenderStats": "rtmw.transfer",
    "Service": "rtmw.requests",
    "ServiceStats": "rtmw.requests",
    "Start": "rtmw.durable_log.reading",
    "Stream": "rtmw.requests",
    "Transaction": "rtmw.transfer",
    "Transfer": "rtmw.transfer",
    "TransferEvent": "rtmw.transfer",
    "TransferId": "rtmw.transfer",
    "TransferState": "rtmw.transfer",
    "table": "rtmw.recording.sample_table",
}
"""The modules of names that are imported on first use: many programs do without, and some need numpy and more."""


def __getattr__(name: str) -> object:
    if name == "__version__":  # kept in one place, the package's metadata
        from importlib.metadata import version

        return version("rtmw")
    if name in ("observe", "spark"):
        return import_module(f"rtmw.{name}")
    if name in _LATE:
        found = globals()[name] = getattr(import_module(_LATE[name]), name)  # the next use does not come here
        return found
    raise AttributeError(f"module 'rtmw' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
