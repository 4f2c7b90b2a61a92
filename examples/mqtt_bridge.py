"""Carries topics between rtmw and an MQTT broker, both ways, until Ctrl-C: pip install aiomqtt

    python mqtt_bridge.py localhost:1883 --out 'pump/+/speed' --into 'command/#'

Bytes and texts travel as they are, all else as JSON; what comes is bytes. Nothing goes back to where it came from.
It ends when the broker goes, and systemd may start it again. What a slow broker is too late for is counted as missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from contextlib import suppress
from typing import Any

import aiomqtt
import numpy as np
from paho.mqtt.subscribeoptions import SubscribeOptions

import rtmw

Publishers = dict[str, rtmw.Publisher[bytes]]
TEXTS = {"std_msgs.msg.String": "data", "rtmw.Json": "text"}  # types with one member, which is text


def plain(value: object) -> object:
    """What JSON does not know: bytes, objects of classes, and arrays."""
    if isinstance(value, bytes):
        return value.hex()
    try:
        return vars(value)
    except TypeError:
        return np.asarray(value).tolist()


def payload(sample: rtmw.Sample[Any]) -> bytes:
    member = TEXTS.get(sample.type_name)
    whole: Any = sample.value
    value: Any = getattr(whole, member) if member else whole
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value, default=plain)).encode()


async def out(client: aiomqtt.Client, pattern: rtmw.PatternSubscriber[Any], own: Publishers) -> None:
    async for sample in pattern:
        if sample.topic not in own or sample.publisher != own[sample.topic].identity:
            await client.publish(sample.topic, payload(sample), qos=1)


async def into(client: aiomqtt.Client, own: Publishers) -> None:
    async for message in client.messages:
        topic = str(message.topic)
        try:
            own[topic] = own.get(topic) or rtmw.Publisher(topic)
            await own[topic].publish_async(message.payload)
        except rtmw.RtmwError as error:  # a name that is none here, or no room for one more topic
            print(f"{topic!r} does not come: {error}", flush=True)


async def bridge(place: str, outwards: list[str], inwards: list[str]) -> None:
    host, _, port = place.rpartition(":")
    own: Publishers = {}
    with rtmw.PatternSubscriber(outwards) as pattern:
        async with aiomqtt.Client(host, int(port), protocol=aiomqtt.ProtocolVersion.V5) as client:
            for wanted in inwards:
                await client.subscribe(wanted, options=SubscribeOptions(qos=1, noLocal=True))
            print("ready", flush=True)
            await asyncio.gather(out(client, pattern, own), into(client, own))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("broker", help="HOST:PORT")
    parser.add_argument("--out", nargs="+", default=[], help="patterns of topics that go to the broker")
    parser.add_argument("--into", nargs="+", default=[], help="topics of MQTT that come onto the bus")
    told = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(bridge(told.broker, told.out, told.into))
