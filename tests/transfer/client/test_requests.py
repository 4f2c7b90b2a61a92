"""What a process asks its core: who waits for an answer, and when they are woken."""

from __future__ import annotations

import threading

import rtmw
from rtmw.errors import ClosedError
from rtmw.transfer.client.deadline import NEVER
from rtmw.transfer.client.requests import Requests
from rtmw.transfer.client.waiting import Asleep
from rtmw.transfer.frames import Frame
from rtmw.transfer.messages import AcceptedRun
from tests.transfer.client.test_group import LIFE, SHORT, Sender, id_of
from tests.transfer.core_process import PATIENCE


def test_who_waits_for_a_letter_that_was_answered_is_woken_also_when_the_line_ends_before_it_sleeps(
    domain: rtmw.Domain,
) -> None:
    requests, asleep = Requests(domain, 0), Asleep()
    requests.enter(LIFE)
    place = requests.join_others(Sender(), SHORT, b"x", asleep, NEVER)
    assert place is not None
    requests.take(Frame(LIFE, 0, 1, AcceptedRun(1, id_of(1))))
    requests.end(ClosedError("closed"))
    waits = threading.Thread(target=asleep.wait, daemon=True)
    waits.start()
    waits.join(PATIENCE)
    assert not waits.is_alive()
    assert place[0].is_done
    requests.close()
