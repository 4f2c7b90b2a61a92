"""Rows of a DataFrame become messages on the bus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rtmw
from tests.bus import eventually, taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


LONG = 60.0
"""Seconds after which a test gives up."""


def listen(domain: rtmw.Domain, topic: str) -> rtmw.Subscriber[bytes]:
    """Has room for all that these tests publish, and misses nothing."""
    return rtmw.Subscriber(topic, domain=domain, depth=10_000, reliability=rtmw.Reliability.RELIABLE)


def numbered(spark: SparkSession, count: int, tasks: int = 1) -> DataFrame:
    return spark.range(count, numPartitions=tasks).selectExpr("encode(string(id), 'utf-8') payload", "id")


def test_each_row_becomes_a_message_of_its_payload_in_order(spark: SparkSession, domain: rtmw.Domain) -> None:
    with listen(domain, "numbers") as subscriber:
        rows = numbered(spark, 2000).drop("id")
        rows.write.format("rtmw").mode("append").option("domain", domain.id).option("topic", "numbers").save()
        assert taken(subscriber) == [str(number).encode() for number in range(2000)]


def test_a_column_says_which_topic_and_which_priority(spark: SparkSession, domain: rtmw.Domain) -> None:
    rows = numbered(spark, 100).selectExpr("payload", "concat('side/', id % 2) topic", "tinyint(id % 2 * 5) priority")
    with listen(domain, "side/0") as even, listen(domain, "side/1") as odd:
        rows.write.format("rtmw").mode("append").option("domain", domain.id).save()
        samples = [even.take_many(1000), odd.take_many(1000)]
    assert [{int(sample.value) % 2 for sample in each} for each in samples] == [{0}, {1}]
    assert [{sample.priority for sample in each} for each in samples] == [{0}, {5}]
    assert [len(each) for each in samples] == [50, 50]


def test_many_tasks_keep_the_order_each_of_its_own_rows(spark: SparkSession, domain: rtmw.Domain) -> None:
    with listen(domain, "numbers") as subscriber:
        rows = numbered(spark, 1000, tasks=4).drop("id")
        rows.write.format("rtmw").mode("append").option("domain", domain.id).option("topic", "numbers").save()
        numbers = [int(payload) for payload in taken(subscriber)]
    assert sorted(numbers) == [*range(1000)]
    for task in range(4):
        own = [number for number in numbers if number // 250 == task]
        assert own == sorted(own)


def test_nothing_is_lost_when_the_reader_is_slower_than_spark(spark: SparkSession, domain: rtmw.Domain) -> None:
    received: list[bytes] = []
    rows = numbered(spark, 3000).drop("id")
    with (
        rtmw.Subscriber("numbers", domain=domain, depth=8, reliability=rtmw.Reliability.RELIABLE) as subscriber,
        rtmw.Listener(subscriber, lambda sample: received.append(bytes(sample.data))),
    ):
        rows.write.format("rtmw").mode("append").option("domain", domain.id).option("topic", "numbers").save()
        eventually(lambda: len(received) == 3000, LONG)
    assert received == [str(number).encode() for number in range(3000)]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (["payload"], {}, "no topic: rows need a column `topic`"),
        (["'a' topic"], {}, "no content: rows need a column `payload`; found topic"),
        (["payload", "'a' topic"], {"rate": "1"}, "rate=1.0 needs the column `log_time`; found payload, topic"),
        (["payload"], {"topik": "a"}, "option 'topik' is not known; there are domain, topic, type"),
        (["payload"], {"topic": "a", "rate": "fast"}, "option rate='fast' is not possible; it must be a number"),
        (["payload", "string(null) topic"], {}, "a row has no topic: its column `topic` is null"),
        (["binary(null) payload"], {"topic": "a"}, "a row has no payload: its column `payload` is null"),
    ],
)
def test_what_cannot_be_published_is_refused_in_plain_words(
    spark: SparkSession, domain: rtmw.Domain, columns: list[str], options: dict[str, str], said: str
) -> None:
    rows = numbered(spark, 3).selectExpr(*columns)
    with pytest.raises(Exception, match=r"(?s).+") as refused:
        rows.write.format("rtmw").mode("append").option("domain", domain.id).options(**options).save()
    assert said in str(refused.value)


def test_a_reader_that_stands_still_fails_the_write_and_is_named(spark: SparkSession, domain: rtmw.Domain) -> None:
    with rtmw.Subscriber("numbers", domain=domain, depth=8, reliability=rtmw.Reliability.RELIABLE):
        writer = numbered(spark, 100).drop("id").write.format("rtmw").mode("append").option("domain", domain.id)
        with pytest.raises(Exception, match=r"a RELIABLE subscriber has taken nothing for 0\.2 s"):
            writer.option("topic", "numbers").option("max_blocking", 0.2).save()


def test_subscribers_that_are_asked_for_and_do_not_come_are_told(spark: SparkSession, domain: rtmw.Domain) -> None:
    writer = numbered(spark, 3).drop("id").write.format("rtmw").mode("append").option("domain", domain.id)
    with pytest.raises(Exception, match=r"has 0 subscribers; 2 were asked for, and have not come in 0\.1 s"):
        writer.options(topic="numbers", subscribers=2, timeout=0.1).save()
