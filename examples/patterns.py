"""One subscriber of many topics: what is urgent comes first, and topics that come later are heard, too."""

from __future__ import annotations

import rtmw

with rtmw.PatternSubscriber("plant/+/speed", dict, on_topic=lambda topic: print("new topic", topic)) as pattern:
    with rtmw.Publisher("plant/1/speed", dict, history=1) as one, rtmw.Publisher("plant/2/speed", dict) as two:
        for topic in pattern.topics:
            print("heard", topic)
        one.publish({"rpm": 1500})
        two.publish({"rpm": 900, "too": "slow"}, priority=7)
        for _ in range(2):
            sample = pattern.receive(timeout=5)
            print(sample.topic, sample.value)
    stats = pattern.stats()
    print(stats.received, "messages of", len(stats.topics), "topics")
