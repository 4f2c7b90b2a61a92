"""What a line asks of its core, and who is woken by the answers."""

from __future__ import annotations

import asyncio

import pytest

import rtmw
from rtmw.transfer.client.group import MOST_LETTERS
from rtmw.transfer.client.requests import Requests
from rtmw.transfer.frames import Frame
from rtmw.transfer.messages import AcceptedRun
from tests.transfer.client.test_group import LIFE, SHORT, Sender, id_of


def test_tasks_whose_letters_are_answered_together_are_woken_by_one_call(
    domain: rtmw.Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> int:
        requests, calls = Requests(domain, 0), 0
        requests.enter(LIFE)
        loop, sender = asyncio.get_running_loop(), Sender()
        futures = [loop.create_future() for _ in range(2 * MOST_LETTERS)]
        for future in futures:
            assert requests.gather(sender, SHORT, b"x", future) is not None
        plain = loop.call_soon_threadsafe

        def counted(*told: object) -> object:
            nonlocal calls
            calls += 1
            return plain(*told)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        for number in (1, 1 + MOST_LETTERS):
            requests.take(Frame(LIFE, 0, number, AcceptedRun(MOST_LETTERS, id_of(number))))
        assert not any(future.done() for future in futures)
        requests.wake_answered()
        await asyncio.gather(*futures)
        requests.close()
        return calls

    assert asyncio.run(work()) == 1
