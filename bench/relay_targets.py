"""What the relay means to reach, beside a message queue and beside itself at rest."""

from __future__ import annotations

from bench.questions.relay_rate import RABBITMQ, RECEIPTS, STREAMS
from bench.questions.relay_start import WAITING
from bench.questions.relay_urgent import CONTROLLED, IDLE, UNCONTROLLED
from bench.questions.relay_verdict import LOOKUP, VERDICT
from bench.target import Target, ours

ONE_LOOP = (
    "one event loop in Python, some 60 µs of processor time an order: two frames come and two leave, three rows are "
    "written. RabbitMQ uses both processors"
)
CONFIRMED, RECEIPTED = (("relay_rate", STREAMS, RABBITMQ),), (("relay_rate", STREAMS, RECEIPTS),)

RELAY_TARGETS = (
    Target(
        "orders of 200 B delivered durably, with both receipts, over 64 streams: at least 4,400",
        ours("relay_rate", STREAMS),
        4400,
        at_least=True,
        limited_by=ONE_LOOP,
    ),
    *(
        Target(
            f"{what}: at least {factor:.0f} × a RabbitMQ quorum queue {how}",
            ours("relay_rate", STREAMS),
            factor,
            over=over,
            at_least=True,
            limited_by=ONE_LOOP,
        )
        for what, factor, how, over in (
            ("the same", 2.0, "whose publishers wait for the consumer, too", RECEIPTED),
            ("the same", 2.0, "with confirms and acknowledgements", CONFIRMED),
            ("a wish: the same", 4.0, "with confirms and acknowledgements", CONFIRMED),
        )
    ),
    Target(
        "a verdict on an order: at most 20 × a dictionary lookup",
        ours("relay_verdict", VERDICT),
        20.0,
        over=(("relay_verdict", VERDICT, LOOKUP),),
    ),
    *(
        Target(
            f"{what}: 99 % of the urgent orders within {limit:g} × {base}",
            ours("relay_urgent", CONTROLLED),
            limit,
            over=(ours("relay_urgent", base),),
        )
        for what, limit, base in (
            ("in a flood with control", 10.0, IDLE),
            ("the same", 0.2, UNCONTROLLED),
            ("a wish: the same", 4.0, IDLE),
        )
    ),
    Target("a relay with 100,000 orders that wait listens within 5 s", ours("relay_start", WAITING), 5.0),
)
