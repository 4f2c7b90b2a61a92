"""`wait=`: programs that begin before the domain and the core that they need."""

from __future__ import annotations

import math
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rtmw
from rtmw.observe.services import COUNTERS_TOPIC
from tests.transfer.core_process import PATIENCE, CoreProcess


# Proves G115.
def test_programs_wait_for_a_domain_and_a_core_that_come_later_and_make_none(domain_id: int, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        sender = threads.submit(rtmw.Sender, "gauge", domain=domain_id, wait=PATIENCE)
        inbox = threads.submit(rtmw.Inbox, "ingest", domain=domain_id, wait=math.inf)
        with rtmw.Domain(domain_id, pool="8M") as made:
            core = CoreProcess(domain_id, tmp_path / "data")
            core.start()
            try:
                with sender.result(PATIENCE) as one, inbox.result(PATIENCE) as other:
                    one.send("ingest", b"level")
                    letter = other.take(PATIENCE)
                    assert letter is not None
                    assert letter.body == b"level"
                assert made.pool == 8 << 20, "nobody else has made it"
            finally:
                core.end()


@pytest.mark.parametrize("open", [rtmw.Sender, rtmw.Inbox])
def test_a_domain_that_does_not_come_is_an_error_with_the_time_that_was_waited(
    domain_id: int, open: type[rtmw.Sender] | type[rtmw.Inbox]
) -> None:
    with pytest.raises(rtmw.CoreNotRunning, match=rf"domain {domain_id} does not exist.* within 0\.2 s"):
        open("ingest", domain=domain_id, wait=0.2)
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, create=False)


@pytest.mark.parametrize("wait", [None, 0.2, 1.3])
def test_a_core_that_does_not_come_is_an_error_with_the_time_that_was_waited(
    domain: rtmw.Domain, wait: float | None
) -> None:
    with pytest.raises(rtmw.CoreNotRunning) as error:
        rtmw.Sender("gauge", domain=domain, wait=wait)
    told = re.search(rf"of domain {domain.id} \(waited ([\d.]+) s\); start one", str(error.value))
    assert told, error.value
    assert float(told[1]) >= max(wait or 0.0, 1.0), "a core that is there is heard within a second"


# Proves G115.
def test_a_core_that_has_gone_is_waited_for_as_long_as_was_asked(domain: rtmw.Domain, tmp_path: Path) -> None:
    core = CoreProcess(domain.id, tmp_path / "data")
    core.start()
    core.wait_until_ready()
    with rtmw.Sender("gauge"), ThreadPoolExecutor(1) as threads:
        core.kill()
        late = threads.submit(rtmw.Inbox, "ingest", wait=PATIENCE)
        with pytest.raises(rtmw.CoreNotRunning):
            rtmw.Inbox("ingest")  # which waits for ten seconds, as long as the members of before do
        core.start()
        try:
            late.result(PATIENCE).close()
        finally:
            core.end()


@pytest.mark.parametrize("wait", [-1.0, math.nan, "1"])
def test_a_wait_that_is_no_time_is_refused(domain: rtmw.Domain, tmp_path: Path, wait: float) -> None:
    for open in (rtmw.Sender, rtmw.Inbox):
        with pytest.raises((ValueError, TypeError), match="it must be seconds from 0, or None"):
            open("ingest", domain=domain, wait=wait)
    with pytest.raises((ValueError, TypeError), match="it must be seconds from 0, or None"):
        rtmw.Recorder("a", tmp_path / "run", domain=domain, wait=wait)


def test_a_core_for_which_no_program_has_work_says_nothing(core: CoreProcess, domain: rtmw.Domain) -> None:
    with rtmw.Subscriber(COUNTERS_TOPIC, domain=domain) as signs:
        for _ in range(4):  # one a second
            signs.receive(timeout=PATIENCE)
    assert core.log() == ""
