"""Transfers (T): messages to one receiver, kept until it has consumed them; `rtmw.Sender` and `rtmw.Inbox`.

`client` is what programs use, and `core` the process that keeps transfers, which a node starts; they talk in `frames`
over queues of the bus. `header` and `address` say what a transfer is as bytes, and whom it is for. `records`, `state`,
`machine` and `recovery` are transactions with savepoints on a log, without I/O; `store` runs them on a real log.
`files` reads and writes files in place; `wire` is the protocol between two nodes, and `carry` has it with sessions. The
reasons stand in docs/design/transfer.md.
"""

from rtmw.transfer.client.bodies import File, Part
from rtmw.transfer.client.inbox import Inbox, InboxStats, Letter
from rtmw.transfer.client.sender import Sender, SenderStats, TransferEvent
from rtmw.transfer.client.transaction import Savepoint, Transaction
from rtmw.transfer.client.transfer import Progress, Transfer
from rtmw.transfer.header import Delivery, Level
from rtmw.transfer.records import TransferId, TransferState

__all__ = [
    "Delivery",
    "File",
    "Inbox",
    "InboxStats",
    "Letter",
    "Level",
    "Part",
    "Progress",
    "Savepoint",
    "Sender",
    "SenderStats",
    "Transaction",
    "Transfer",
    "TransferEvent",
    "TransferId",
    "TransferState",
]
