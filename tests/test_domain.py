"""Domains: programs that can meet, by number."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import rtmw
from rtmw.domain import environment_domain as named_by_environment
from tests.bus import balanced, taken
from tests.child import Spawn


def mapped(number: int) -> bool:
    """Does this process map the region of the domain? Tests before this one may have had the number: a region that was
    removed is another one."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().splitlines()
    return any(line.endswith(f"rtmw.{number}.control") for line in maps)


def test_who_attaches_first_creates_the_domain(domain_id: int) -> None:
    with pytest.raises(rtmw.DomainNotFound, match=str(domain_id)):
        rtmw.Domain(domain_id, create=False)
    with rtmw.Domain(domain_id, pool="1M"), rtmw.Domain(domain_id, create=False) as second:
        assert second.id == domain_id


@pytest.mark.parametrize(
    ("pool", "size"), [("64K", 1 << 16), ("1m", 1 << 20), ("1 MiB", 1 << 20), (1 << 18, 1 << 18), (70_000, 73_728)]
)
def test_the_pool_has_the_size_asked_for_in_whole_pages(domain_id: int, pool: str | int, size: int) -> None:
    with rtmw.Domain(domain_id, pool=pool) as domain:
        assert domain.pool == size


def test_a_domain_that_exists_keeps_its_own_pool(domain_id: int) -> None:
    with rtmw.Domain(domain_id, pool="1M"), rtmw.Domain(domain_id, pool="4M") as second:
        assert second.pool == 1 << 20


@pytest.mark.parametrize("pool", ["", "64 potatoes", "-1M", "1.5M", 0, 4096, "999999G", None])
def test_an_impossible_pool_is_refused(domain_id: int, pool: str | int) -> None:
    with pytest.raises(ValueError, match=r"pool|size"):
        rtmw.Domain(domain_id, pool=pool)


@pytest.mark.parametrize("number", [-1, 233, 1 << 40, True, "7", 1.0])
def test_a_number_that_is_no_domain_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="0 to 232"):
        rtmw.Domain(number)
    with pytest.raises(ValueError, match="0 to 232"):
        rtmw.Publisher("t", domain=number)


def test_the_environment_names_the_domain_when_nobody_else_does(domain: rtmw.Domain) -> None:
    publisher, subscriber = rtmw.Publisher("t"), rtmw.Subscriber("t", domain=domain)
    publisher.publish(b"met")
    assert taken(subscriber) == [b"met"]


def test_a_domain_without_a_number_is_the_one_that_the_environment_names(domain: rtmw.Domain) -> None:
    with rtmw.Domain(create=False) as second:
        assert second.id == domain.id


def test_without_environment_it_is_domain_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RTMW_DOMAIN", raising=False)
    assert named_by_environment() == 0


@pytest.mark.parametrize("text", ["", "seven", "233", "-1"])
def test_an_environment_that_names_no_domain_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RTMW_DOMAIN", text)
    with pytest.raises(ValueError, match="232"):
        rtmw.Publisher("t")
    with pytest.raises(ValueError, match="RTMW_DOMAIN"):
        rtmw.Domain()


def test_a_domain_can_be_given_as_number_or_as_object(domain: rtmw.Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RTMW_DOMAIN")
    publisher, subscriber = rtmw.Publisher("t", domain=domain.id), rtmw.Subscriber("t", domain=domain)
    publisher.publish(b"met")
    assert taken(subscriber) == [b"met"]


def test_domains_do_not_hear_each_other(domain: rtmw.Domain) -> None:
    other = rtmw.Domain((domain.id - 100 + 66) % 133 + 100, pool="64K")
    try:
        publisher, subscriber = rtmw.Publisher("t", domain=domain), rtmw.Subscriber("t", domain=other)
        publisher.publish(b"x")
        assert subscriber.take() is None
        assert publisher.subscribers == 0
    finally:
        other.close()
        rtmw.Domain.unlink(other.id)


def test_a_process_attaches_once_however_often_it_names_a_domain(domain: rtmw.Domain) -> None:
    with rtmw.Domain(domain.id), rtmw.Domain(domain.id):
        rtmw.Publisher("t", domain=domain.id)
        assert len(balanced(domain).participants) == 1


def test_processes_of_one_domain_meet(domain: rtmw.Domain, spawn: Spawn) -> None:
    subscriber = rtmw.Subscriber("t", domain=domain)
    child = spawn("import rtmw; print(rtmw.Publisher('t').publish(b'from the child'))")
    assert child.line() == "True"
    assert subscriber.receive(10).value == b"from the child"
    assert child.wait() == 0


def test_closing_a_domain_closes_its_publishers_and_subscribers(domain_id: int) -> None:
    with rtmw.Domain(domain_id, pool="64K") as domain:
        publisher, subscriber = rtmw.Publisher("t", domain=domain), rtmw.Subscriber("t", domain=domain)
        assert not publisher.closed
        assert not subscriber.closed
    assert publisher.closed
    assert subscriber.closed
    with pytest.raises(rtmw.ClosedError):
        publisher.publish(b"x")
    with pytest.raises(rtmw.ClosedError):
        subscriber.take()


def test_closing_one_domain_object_leaves_another_of_the_same_number_alone(domain: rtmw.Domain) -> None:
    publisher = rtmw.Publisher("t", domain=domain)
    rtmw.Domain(domain.id).close()
    assert publisher.publish(b"x")


def test_a_closed_domain_says_so(domain_id: int) -> None:
    domain = rtmw.Domain(domain_id, pool="64K")
    domain.close()
    domain.close()
    assert "closed" in repr(domain)
    with pytest.raises(rtmw.ClosedError, match=str(domain_id)):
        rtmw.Publisher("t", domain=domain)
    with pytest.raises(rtmw.ClosedError):
        _ = domain.pool


def test_the_process_detaches_when_nobody_in_it_needs_the_region(domain_id: int) -> None:
    domain = rtmw.Domain(domain_id, pool="64K")
    subscriber = rtmw.Subscriber("t", domain=domain)
    rtmw.Publisher("t", domain=domain).publish(b"x")
    sample = subscriber.take()
    domain.close()
    del subscriber
    assert mapped(domain_id), "a sample still needs it"
    del sample
    assert not mapped(domain_id)


def test_a_process_that_detached_is_no_participant_any_more(domain: rtmw.Domain, spawn: Spawn) -> None:
    child = spawn(
        """
        import gc, rtmw
        domain = rtmw.Domain(int(__import__("os").environ["RTMW_DOMAIN"]))
        print("in", flush=True); input()
        domain.close(); del domain; gc.collect()
        print("out", flush=True); input()
        """
    )
    child.line()
    assert {view.pid for view in balanced(domain).participants} >= {child.pid}
    child.send()
    child.line()
    assert child.pid not in {view.pid for view in balanced(domain).participants}


def test_unlink_removes_the_domain_from_the_host(domain_id: int) -> None:
    rtmw.Domain(domain_id, pool="64K").close()
    rtmw.Domain.unlink(domain_id)
    assert list(Path("/dev/shm").glob(f"rtmw.{domain_id}.*")) == []
    with pytest.raises(rtmw.DomainNotFound):
        rtmw.Domain(domain_id, create=False)
    with pytest.raises(rtmw.DomainNotFound, match="nothing to remove"):
        rtmw.Domain.unlink(domain_id)


def test_after_unlink_who_is_attached_goes_on_and_who_comes_later_meets_in_a_new_one(domain_id: int) -> None:
    with rtmw.Domain(domain_id, pool="64K") as old:
        publisher, subscriber = rtmw.Publisher("t", domain=old), rtmw.Subscriber("t", domain=old)
        rtmw.Domain.unlink(domain_id)
        with rtmw.Domain(domain_id, pool="128K") as new:
            assert new.pool == 128 * 1024
            late = rtmw.Subscriber("t", domain=new)
            publisher.publish(b"old")
            assert taken(subscriber) == [b"old"]
            assert late.take() is None


def test_after_unlink_a_number_means_the_new_domain(domain_id: int) -> None:
    first = rtmw.Publisher("t", domain=domain_id)
    rtmw.Domain.unlink(domain_id)
    second, subscriber = rtmw.Publisher("t", domain=domain_id), rtmw.Subscriber("t", domain=rtmw.Domain(domain_id))
    first.publish(b"old")
    second.publish(b"new")
    assert taken(subscriber) == [b"new"]
