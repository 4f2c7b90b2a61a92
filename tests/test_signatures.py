"""The names and arguments that outside programs are written against."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import rtmw
from rtmw.qos import Profile

REQUIRED = inspect.Parameter.empty


def parameters(function: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Names and defaults: of those that may be given by place, and of those that must be given by name."""
    by_place: dict[str, Any] = {}
    by_name: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name != "self":
            (by_name if parameter.kind is parameter.KEYWORD_ONLY else by_place)[name] = parameter.default
    return by_place, by_name


def test_a_domain_takes_id_pool_reserve_group_create_and_observe() -> None:
    by_name = {"pool": "64M", "reserve": 0.125, "group": None, "create": True, "observe": False}
    assert parameters(rtmw.Domain) == ({"id": None}, by_name)


def test_a_publisher_takes_what_the_specification_lists() -> None:
    assert parameters(rtmw.Publisher) == (
        {"topic": REQUIRED, "type": bytes},
        {
            "domain": None,
            "priority": 0,
            "lifetime": None,
            "reliability": rtmw.Reliability.ADAPTIVE,
            "depth": 64,
            "history": 0,
            "max_blocking": 0.1,
        },
    )


def test_a_subscriber_takes_what_the_specification_lists() -> None:
    assert parameters(rtmw.Subscriber) == (
        {"topic": REQUIRED, "type": bytes},
        {
            "domain": None,
            "min_interval": 0.0,
            "deadline": None,
            "reliability": rtmw.Reliability.ADAPTIVE,
            "depth": 64,
            "history": 0,
            "lease": None,
            "spin": None,
        },
    )


def test_methods_written_in_python_take_what_the_specification_lists() -> None:
    assert parameters(rtmw.Publisher.wait_for_subscribers) == ({"count": 1, "timeout": None}, {})
    assert parameters(rtmw.Subscriber.listen) == ({"callback": REQUIRED, "on_deadline": None}, {})
    assert parameters(rtmw.WaitSet.wait) == ({"timeout": None}, {})
    assert parameters(rtmw.Domain.unlink) == ({"id": REQUIRED}, {})


SEND = {
    "delivery": rtmw.Delivery.NORMAL,
    "wait": rtmw.Level.ACCEPTED,
    "lifetime": None,
    "timeout": None,
    "priority": 0,
    "id": None,
}
NOTHING: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("function", "by_place", "by_name"),
    [
        (rtmw.Sender, {"name": REQUIRED}, {"domain": None, "wait": None}),
        (rtmw.Sender.send, {"to": REQUIRED, "body": REQUIRED}, SEND),
        (rtmw.Sender.send_async, {"to": REQUIRED, "body": REQUIRED}, SEND),
        (rtmw.Sender.transaction, NOTHING, NOTHING),
        (rtmw.Sender.events, NOTHING, NOTHING),
        (rtmw.Sender.stats, NOTHING, NOTHING),
        (rtmw.Transaction.send, {"to": REQUIRED, "body": REQUIRED}, SEND),
        (rtmw.Transaction.take, {"inbox": REQUIRED}, NOTHING),
        (rtmw.Transaction.savepoint, {"name": None}, NOTHING),
        (rtmw.Transaction.rollback, {"to": None}, NOTHING),
        (rtmw.Transaction.release, {"savepoint": REQUIRED}, NOTHING),
        (rtmw.Transaction.commit, NOTHING, NOTHING),
        (rtmw.Transaction.abort, NOTHING, NOTHING),
        (rtmw.Transfer.wait, {"level": REQUIRED, "timeout": None}, NOTHING),
        (rtmw.Transfer.reached, {"level": REQUIRED, "timeout": None}, NOTHING),
        (rtmw.Transfer.on_progress, {"callback": REQUIRED}, NOTHING),
        (rtmw.Transfer.cancel, NOTHING, NOTHING),
        (rtmw.Inbox, {"service": REQUIRED}, {"type": None, "folder": None, "domain": None, "wait": None}),
        (rtmw.Inbox.take, {"timeout": None}, NOTHING),
        (rtmw.Inbox.stats, NOTHING, NOTHING),
        (rtmw.Letter.open, NOTHING, NOTHING),
        (rtmw.Letter.consume, NOTHING, NOTHING),
        (rtmw.Letter.refuse, {"reason": REQUIRED}, NOTHING),
        (rtmw.File, {"source": REQUIRED, "destination": None}, NOTHING),
        (rtmw.Part, {"body": REQUIRED}, NOTHING),
    ],
)
def test_what_transfers_take_is_what_the_specification_lists(
    function: Callable[..., Any], by_place: dict[str, Any], by_name: dict[str, Any]
) -> None:
    assert parameters(function) == (by_place, by_name)


def test_transfers_have_the_attributes_levels_and_errors_that_the_specification_lists() -> None:
    attributes = {rtmw.Transfer: "id state progress", rtmw.Letter: "id sender body files parts redelivered"}
    for kind, names in attributes.items():
        assert all(isinstance(getattr(kind, name), property) for name in names.split())
    for kind in (rtmw.Inbox, rtmw.Letter, rtmw.Sender, rtmw.Transaction):
        assert hasattr(kind, "__enter__")
    assert all(hasattr(rtmw.Inbox, name) for name in ("__iter__", "__aiter__", "close"))
    assert hasattr(rtmw.Letter, "__aenter__")
    assert [one.name for one in sorted(rtmw.Delivery)] == ["SMALL_RAW", "NORMAL", "LOG"]
    assert [one.name for one in sorted(rtmw.Level)] == ["NONE", "ACCEPTED", "SENT", "DELIVERED", "CONSUMED"]
    for error in (rtmw.TransferRefused, rtmw.SourceChanged, rtmw.CoreNotRunning):
        assert issubclass(error, rtmw.TransferError)


@pytest.mark.usefixtures("domain")
def test_methods_of_the_core_take_what_the_specification_lists() -> None:
    publisher, subscriber = rtmw.Publisher("names"), rtmw.Subscriber("names")
    assert publisher.publish(b"1", priority=None, lifetime=None, valid_until=None) is True
    assert publisher.publish_many([b"2"]) == 1
    with publisher.loan(1, priority=None, lifetime=None, valid_until=None) as loan:
        assert loan.publish() is True
    assert [sample.sequence for sample in subscriber.take_many(2)] == [1, 2]
    assert subscriber.receive(timeout=1).sequence == 3
    assert subscriber.take() is None
    for wrong in (
        lambda: publisher.publish(b"1", 3),  # type: ignore[misc]
        lambda: publisher.publish(),  # type: ignore[call-arg]
        lambda: publisher.publish(b"1", urgency=3),  # type: ignore[call-arg]
        lambda: publisher.loan(1, 2),  # type: ignore[misc]
        lambda: subscriber.receive(1, 2),  # type: ignore[call-arg]
        lambda: subscriber.receive(seconds=1),  # type: ignore[call-arg]
        lambda: subscriber.take(1),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError):
            wrong()  # type: ignore[no-untyped-call]


def test_inspect_sees_what_methods_of_the_core_take() -> None:
    of_a_message = {"priority": None, "lifetime": None, "valid_until": None}
    assert parameters(rtmw.Publisher.publish) == ({"value": REQUIRED}, of_a_message)
    assert parameters(rtmw.Publisher.publish_many) == ({"values": REQUIRED}, {})
    assert parameters(rtmw.Publisher.loan) == ({"size": REQUIRED}, of_a_message)
    assert parameters(rtmw.Subscriber.take_many) == ({"limit": REQUIRED}, {})
    assert parameters(rtmw.Subscriber.receive) == ({"timeout": None}, {})
    assert parameters(rtmw.Publisher.close) == ({}, {"forget": False})
    for method in (
        rtmw.Subscriber.close,
        rtmw.Subscriber.take,
        rtmw.Subscriber.fileno,
        rtmw.Sample.release,
        rtmw.Loan.publish,
        rtmw.Loan.drop,
    ):
        assert parameters(method) == ({}, {})


@pytest.mark.parametrize("kind", [rtmw.Publisher, rtmw.Subscriber, rtmw.Sample, rtmw.Loan])
def test_everything_public_of_the_core_has_a_docstring(kind: type) -> None:
    public = {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}
    assert inspect.getdoc(kind)
    assert [name for name, member in public.items() if not inspect.getdoc(member)] == []


@pytest.mark.usefixtures("domain")
def test_a_sample_has_the_attributes_that_the_specification_lists() -> None:
    publisher, subscriber = rtmw.Publisher("attributes"), rtmw.Subscriber("attributes")
    publisher.publish(b"x")
    public = {name for name in dir(subscriber.receive(1)) if not name.startswith("_")}
    listed = "value data topic type_name sequence priority source_time_ns expires_ns publisher release"
    assert public == set(listed.split())


def test_reliability_has_three_settings() -> None:
    assert [setting.name for setting in sorted(rtmw.Reliability)] == ["TIMELY", "ADAPTIVE", "RELIABLE"]


def test_there_are_profiles_of_the_five_kinds_of_information() -> None:
    kinds = {name for name, value in vars(rtmw.profiles).items() if isinstance(value, Profile)}
    assert kinds == {"SIGNAL", "COMMAND", "STATUS", "EVENT", "REQUEST"}


def test_the_one_argument_of_a_method_may_be_given_by_name(domain: rtmw.Domain) -> None:
    with rtmw.Publisher("named", domain=domain) as publisher, rtmw.Subscriber("named", domain=domain) as subscriber:
        assert publisher.publish(value=b"a", priority=1)
        assert publisher.publish_many(values=[b"b"]) == 1
        publisher.loan(size=4).drop()
        assert [sample.value for sample in subscriber.take_many(limit=9)] == [b"a", b"b"]
        with pytest.raises(TypeError, match="missing argument: value"):
            publisher.publish()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="unexpected keyword argument 'value'"):
            publisher.publish(b"a", value=b"b")  # type: ignore[call-arg]
