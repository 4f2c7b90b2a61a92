"""Rows of a DataFrame become messages on the bus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rtmw
from tests.bus import Reading, eventually, taken
from tests.spark.recorded import reading, record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


LONG = 60
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
        (["'a' topic"], {}, "no content: rows need a column `payload`, or the fields of the message; found topic"),
        (["payload", "'a' topic"], {"rate": "1"}, "rate=1.0 needs the column `log_time`; found payload, topic"),
        (["id"], {"topic": "a"}, "topic 'a': of which type are messages with these fields? Give the option"),
        (["id"], {"topic": "a", "type": "tests.bus:Missing"}, "type 'tests.bus:Missing' cannot be had"),
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


def test_a_write_that_failed_leaves_nothing_behind(
    spark: SparkSession, domain: rtmw.Domain, workers_folder: Path
) -> None:
    def ledgers() -> set[str]:
        return {path.name for path in workers_folder.glob("rtmw-spark-*/*")}

    before = ledgers()
    with rtmw.Subscriber("numbers", domain=domain, depth=8, reliability=rtmw.Reliability.RELIABLE) as subscriber:
        writer = numbered(spark, 100).drop("id").write.format("rtmw").mode("append").option("domain", domain.id)
        with pytest.raises(Exception, match="has taken nothing"):
            writer.option("topic", "numbers").option("max_blocking", 0.2).save()
        assert len(subscriber.take_many(100)) == 8
    assert [*workers_folder.glob("rtmw-spark-*")]
    assert ledgers() == before


# Proves G172.
def test_a_batch_of_a_stream_that_failed_half_way_goes_on_where_it_was(
    spark: SparkSession, domain: rtmw.Domain, tmp_path: Path
) -> None:
    record(tmp_path / "run_0.mcap", 0, 100)
    rows = spark.readStream.format("rtmw").option("topic", "river").load(str(tmp_path / "run_0.mcap"))
    writer = rows.writeStream.format("rtmw").option("domain", domain.id).option("max_blocking", 0.2)
    writer = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
    heard: list[Reading] = []
    with rtmw.Subscriber(
        "river", Reading, domain=domain, depth=10, reliability=rtmw.Reliability.RELIABLE
    ) as subscriber:
        with pytest.raises(Exception, match="a RELIABLE subscriber has taken nothing"):
            writer.start().awaitTermination(LONG)
        with rtmw.Listener(subscriber, lambda sample: heard.append(sample.value)):
            assert writer.option("max_blocking", LONG).start().awaitTermination(LONG)
            eventually(lambda: len(heard) >= 100, LONG)
    assert heard == [reading(number) for number in range(100)]


def test_subscribers_that_are_asked_for_and_do_not_come_are_told(spark: SparkSession, domain: rtmw.Domain) -> None:
    writer = numbered(spark, 3).drop("id").write.format("rtmw").mode("append").option("domain", domain.id)
    with pytest.raises(Exception, match=r"has 0 subscribers; 2 were asked for, and have not come in 0\.1 s"):
        writer.options(topic="numbers", subscribers=2, timeout=0.1).save()
