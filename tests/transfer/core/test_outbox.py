"""What a core keeps for a program that does not read."""

from __future__ import annotations

import rtmw
from rtmw.transfer.address import Life
from rtmw.transfer.core.process import Outbox
from rtmw.transfer.frames import Frame, queue_of, unpack_frame
from rtmw.transfer.messages import Advanced, Done, Message
from rtmw.transfer.records import TransferId

SLOT = 5


def test_how_far_a_transfer_is_waits_for_nobody_whose_queue_is_full_and_answers_do(domain: rtmw.Domain) -> None:
    def put(message: Message, number: int = 0) -> bool:
        outbox.put(Frame(Life(4711, 123456, 2), SLOT, number, message), 0)
        return outbox.send(0)

    def read() -> list[Message]:
        return [unpack_frame(sample.value).message for sample in queue.take_many(8)]

    outbox, id = Outbox(domain, SLOT), TransferId("plant", 77, 5)
    reliable = rtmw.Reliability.RELIABLE
    with rtmw.Subscriber(queue_of(SLOT), domain=domain, reliability=reliable, depth=1) as queue:
        told = [Advanced(id, size, 5) for size in range(5)]
        assert put(told[0])
        assert not put(Done(1))
        assert not put(told[1])
        assert not put(told[3], number=42)
        found = read()
        while outbox.is_needed:
            outbox.send(0)
            found += read()
        assert put(told[2])
        assert [*found, *read()] == [told[0], Done(1), told[3], told[2]]
    outbox.close()
