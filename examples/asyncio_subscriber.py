"""Two topics in one thread with asyncio. Works the same on uvloop: `uvloop.run(main())`."""

from __future__ import annotations

import asyncio

import rtmw

COUNT = 5


async def follow(subscriber: rtmw.Subscriber[bytes]) -> None:
    """Print the messages of a topic as they come."""
    seen = 0
    async for sample in subscriber:
        print(sample.topic, sample.value.decode())
        seen += 1
        if seen == COUNT:
            return


async def publish(topic: str, pause: float) -> None:
    """Publish now and then."""
    with rtmw.Publisher(topic) as publisher:
        for number in range(COUNT):
            await publisher.publish_async(b"%d" % number)
            await asyncio.sleep(pause)


async def main() -> None:
    """Follow a fast topic and a slow one."""
    with rtmw.Subscriber("async/fast") as fast, rtmw.Subscriber("async/slow") as slow:
        await asyncio.gather(follow(fast), follow(slow), publish("async/fast", 0.02), publish("async/slow", 0.1))


asyncio.run(main())
