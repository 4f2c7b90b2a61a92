"""Rows are replayed onto the bus by one clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cyclonedds.idl import IdlStruct, types

import rtmw
import rtmw.spark
from rtmw.spark.sink import Audience, BusWriter, Delivered, Delivery, cores_of
from tests.bus import Reading
from tests.spark.recorded import payload, reading, record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MS = 1_000_000
COLUMNS = "payload binary, log_time long, topic string, file string"


@dataclass
class Headline(IdlStruct, typename="Headline"):
    """Has members that are called as columns are."""

    topic: str
    offset: types.int64


def flow(spark: SparkSession, count: int, topics: int = 1) -> DataFrame:
    """A message a millisecond from 1970 on, in no order."""
    return (
        spark.range(count, numPartitions=4)
        .selectExpr(
            "encode(string(id), 'utf-8') payload", f"concat('flow/', id % {topics}) topic", f"id * {MS} log_time"
        )
        .orderBy("payload")
    )


def listen(domain: rtmw.Domain, topic: str) -> rtmw.Subscriber[bytes]:
    return rtmw.Subscriber(topic, domain=domain, depth=10_000, reliability=rtmw.Reliability.RELIABLE)


def test_each_topic_arrives_whole_and_in_the_order_of_its_times(spark: SparkSession, domain: rtmw.Domain) -> None:
    with listen(domain, "flow/0") as first, listen(domain, "flow/1") as second, listen(domain, "flow/2") as third:
        done = rtmw.spark.replay(flow(spark, 999, 3), rate=0, domain=domain.id)
        numbers = [[int(sample.value) for sample in each.take_many(10_000)] for each in (first, second, third)]
    assert numbers == [[*range(start, 999, 3)] for start in range(3)]
    assert done.topics == {"flow/0": 333, "flow/1": 333, "flow/2": 333}
    assert done.messages == 999
    assert done.bytes == sum(len(str(number)) for number in range(999))


def test_a_replay_says_who_was_there_and_why_others_are_not_matched(
    spark: SparkSession, domain: rtmw.Domain, caplog: pytest.LogCaptureFixture
) -> None:
    reliable = rtmw.Reliability.RELIABLE
    with listen(domain, "flow/0"), rtmw.Subscriber("flow/1", Headline, domain=domain, reliability=reliable):
        done = rtmw.spark.replay(flow(spark, 9, 3), rate=0, domain=domain.id)
    assert done.subscribers == {"flow/0": 1, "flow/1": 0, "flow/2": 0}
    assert [*done.refused] == ["flow/1"]
    assert "Headline" in done.refused["flow/1"][0]
    said = sorted(record.getMessage() for record in caplog.records if record.name == "rtmw")
    assert said == [
        f"nobody subscribed to topic 'flow/1' in domain {domain.id}: {done.refused['flow/1'][0]}",
        f"nobody subscribed to topic 'flow/2' in domain {domain.id}",
    ]


def test_a_write_says_of_which_topics_nobody_took_the_messages(caplog: pytest.LogCaptureFixture) -> None:
    tasks = [Delivered(audience={"a": Audience(0, ("why",))}), Delivered(audience={"a": Audience(1, ())}), None]
    tasks += [Delivered(audience={"b": Audience(0, ())})]
    BusWriter(Delivery(domain=7)).commit(tasks)
    assert [record.getMessage() for record in caplog.records if record.name == "rtmw"] == [
        "topic 'a' in domain 7 has subscribers that are not matched: why",
        "nobody subscribed to topic 'b' in domain 7",
    ]


def test_rate_stretches_recorded_time_and_tasks_share_one_clock(spark: SparkSession, domain: rtmw.Domain) -> None:
    with listen(domain, "flow/0") as first, listen(domain, "flow/1") as second:
        begin = time.time_ns()
        done = rtmw.spark.replay(flow(spark, 600, 2), rate=0.5, domain=domain.id)
        stamps = [{int(s.value): s.source_time_ns for s in each.take_many(10_000)} for each in (first, second)]
    due = [stamp - number * 2 * MS for each in stamps for number, stamp in each.items()]
    assert len(due) == 600
    assert min(due) >= begin
    allowed = done.late * 1e9 + 300 * MS  # a machine that is busy may hold up a message that was on time
    assert max(due) - min(due) <= allowed


def test_a_replay_of_nothing_publishes_nothing(spark: SparkSession, domain: rtmw.Domain) -> None:
    assert rtmw.spark.replay(flow(spark, 10).limit(0), domain=domain.id).topics == {}


@pytest.mark.parametrize("tasks", [0, 1000])
def test_more_tasks_than_can_run_at_a_time_are_refused_at_once(tasks: int, spark: SparkSession) -> None:
    with pytest.raises(ValueError, match=f"tasks={tasks} is not possible"):
        rtmw.spark.replay(flow(spark, 10), tasks=tasks)


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[4,2]", 4), ("spark://a:1", None), ("local-cluster[2]", None)],
)
def test_the_cores_of_this_machine_are_known_and_those_of_a_cluster_are_not(master: str, cores: int | None) -> None:
    assert cores_of(master) == cores


def test_rows_without_a_time_have_no_order_to_be_replayed_in(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="column `log_time`; found payload, topic"):
        rtmw.spark.replay(flow(spark, 10).drop("log_time"))


def test_payloads_of_a_type_reach_its_subscribers_as_values(spark: SparkSession, domain: rtmw.Domain) -> None:
    rows = spark.createDataFrame([(payload(n), n) for n in range(100)], "payload binary, log_time long")
    with rtmw.Subscriber("readings", Reading, domain=domain, depth=1000) as subscriber:
        rtmw.spark.replay(rows, rate=0, domain=domain.id, topic="readings", type=Reading)
        assert [sample.value for sample in subscriber.take_many(1000)] == [reading(number) for number in range(100)]


def test_the_type_of_a_topic_is_looked_up_in_the_recording_that_a_row_comes_from(
    spark: SparkSession, domain: rtmw.Domain, tmp_path: Path
) -> None:
    from pyspark.sql.functions import lit

    record(tmp_path / "a.mcap", 0, 1)
    rows = spark.createDataFrame([(payload(n), n, "river", str(tmp_path / "a.mcap")) for n in range(50)], COLUMNS)
    renamed = rows.selectExpr("payload", "log_time", "'lake' topic", "file", "'Reading' type")
    with (
        rtmw.Subscriber("river", Reading, domain=domain, depth=1000) as river,
        rtmw.Subscriber("lake", Reading, domain=domain, depth=1000) as lake,
    ):
        rtmw.spark.replay(rows.withColumn("type", lit(None).cast("string")).unionByName(renamed), rate=0)
        for subscriber in (river, lake):
            assert [sample.value for sample in subscriber.take_many(1000)] == [reading(number) for number in range(50)]


def test_recorded_topics_are_read_changed_and_replayed_to_the_last_value(
    spark: SparkSession, domain: rtmw.Domain, tmp_path: Path
) -> None:
    record(tmp_path / "a.mcap", 0, 400)
    rows = spark.read.format("rtmw").option("topic", "river").load(str(tmp_path))
    changed = rows.where("station != 'A3'").selectExpr("*", "value * 2 doubled").drop("value")
    with rtmw.Subscriber("river", Reading, domain=domain, depth=1000) as subscriber:
        done = rtmw.spark.replay(changed.withColumnRenamed("doubled", "value"), rate=4.0)
        heard = [sample.value for sample in subscriber.take_many(1000)]
    kept = [reading(number) for number in range(400) if number % 7 != 3]
    assert heard == [Reading(each.station, each.value * 2) for each in kept]
    assert done.topics == {"river": len(kept)}
    assert done.bytes == sum(len(payload(number)) for number in range(400) if number % 7 != 3)


def test_a_topic_that_is_replayed_under_another_name_keeps_its_type(
    spark: SparkSession, domain: rtmw.Domain, tmp_path: Path
) -> None:
    record(tmp_path / "a.mcap", 0, 20)
    rows = spark.read.format("rtmw").option("topic", "river").load(str(tmp_path))
    with rtmw.Subscriber("lake", Reading, domain=domain) as subscriber:
        done = rtmw.spark.replay(rows, topic="lake", rate=0)
        assert [sample.value for sample in subscriber.take_many(100)] == [reading(number) for number in range(20)]
    assert done.topics == {"lake": 20}


def test_a_member_with_the_name_of_a_column_finds_its_way_back(spark: SparkSession, domain: rtmw.Domain) -> None:
    rows = spark.createDataFrame(
        [("news", 1, "weather", 7)], "topic string, log_time long, topic_ string, offset_ long"
    )
    with rtmw.Subscriber("news", Headline, domain=domain) as subscriber:
        rtmw.spark.replay(rows, rate=0, type=Headline)
        assert subscriber.receive(60).value == Headline("weather", 7)


def test_a_topic_that_its_recording_does_not_have_is_refused(
    spark: SparkSession, domain: rtmw.Domain, tmp_path: Path
) -> None:
    record(tmp_path / "a.mcap", 0, 1)
    rows = spark.createDataFrame([(payload(0), 0, "sea", str(tmp_path / "a.mcap"))], COLUMNS)
    with pytest.raises(Exception, match=r"a\.mcap has 0 types for topic 'sea'; name one with the option type="):
        rtmw.spark.replay(rows, rate=0)


def test_the_domain_is_that_of_the_program(spark: SparkSession, domain: rtmw.Domain) -> None:
    with listen(domain, "flow/0") as subscriber:
        rtmw.spark.replay(flow(spark, 3), rate=0)
        assert len(subscriber.take_many(10)) == 3
