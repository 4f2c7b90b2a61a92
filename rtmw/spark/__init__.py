"""Recordings in Spark, and Spark's rows on the bus again.

    spark = rtmw.spark.session()
    flow = spark.read.format("rtmw").load("monday/", topic="pump/speed")

Needs `pip install 'rtmw[spark]'` and Java 17 or newer; neither is looked for before it is used.
"""

from rtmw.spark.driver import register, session

__all__ = ["register", "session"]
