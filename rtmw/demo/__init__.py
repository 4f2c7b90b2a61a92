"""`rtmw demo`: this machine's real telemetry between processes, with every kind of QoS, checked to the last message.

Four processes publish and seven subscribe on one host; two subscribe on another, to which a node on either side carries
the topics, and a recorder writes them down there. Both hosts are domains of this machine, removed at the end, however
it ends; the nodes meet over loopback. This process only looks on through the counters in the regions. The subscribers
are up before the first message and drain their queues after the last, so that for each of them, here and there, exactly

    published = received + missed + expired + thinned + unmatched

Then Spark reads the recording, computes a table, draws a plot, and replays a part of it onto a third bus, where it is
counted: published = recorded = rows in Spark, and replayed = counted. Without Spark, rtmw reads and replays by itself.

Last, an alarm for each reading of the processor goes into a durable log, whose writer is killed in the middle: what had
been answered is there, and after the next writer each alarm is there once.
"""
