// A client of Foxglove's WebSocket protocol: `node watch.js URL`. On standard input `show TOPIC` and `hide TOPIC`; on
// standard output an object a line for everything that comes, messages with their decoded value.
import { createInterface } from "node:readline";

import { parseIDL } from "@foxglove/omgidl-parser";
import { MessageReader as IdlReader } from "@foxglove/omgidl-serialization";
import { parse as parseRos } from "@foxglove/rosmsg";
import { MessageReader as RosReader } from "@foxglove/rosmsg2-serialization";
import protocol from "@foxglove/ws-protocol";
import { WebSocket } from "ws";

function say(op, more) {
  const plain = (key, value) =>
    typeof value === "bigint" ? value.toString() : ArrayBuffer.isView(value) ? Array.from(value) : value;
  process.stdout.write(`${JSON.stringify({ op, ...more }, plain)}\n`);
}

function reader(channel) {
  if (channel.encoding === "json") return (data) => JSON.parse(new TextDecoder().decode(data));
  if (channel.schemaEncoding === "omgidl") {
    const found = new IdlReader(channel.schemaName, parseIDL(channel.schema));
    return (data) => found.readMessage(data);
  }
  const found = new RosReader(parseRos(channel.schema, { ros2: true }));
  return (data) => found.readMessage(data);
}

const ws = new WebSocket(process.argv[2], [process.argv[3] ?? "foxglove.sdk.v1"], { rejectUnauthorized: false });
ws.on("unexpected-response", (_, response) => {
  say("refused", { status: response.statusCode });
  process.exit(0);
});
const client = new protocol.FoxgloveClient({ ws });
const wanted = new Set();
const channels = new Map(); // by topic
const shown = new Map(); // by the number of the subscription

function show(topic) {
  wanted.add(topic);
  const channel = channels.get(topic);
  if (!channel || channel.shown !== undefined) return;
  channel.shown = client.subscribe(channel.id);
  shown.set(channel.shown, { topic, read: reader(channel) });
}

client.on("error", (error) => say("error", { error: String(error) }));
client.on("close", () => process.exit(0));
client.on("serverInfo", (info) => say("info", { info }));
client.on("status", (status) => {
  // The library advertises a channel a moment before it knows it itself.
  const unknown = /^Unknown channel ID: (\d+)/.exec(status.message);
  const channel = unknown && [...channels.values()].find((one) => one.id === Number(unknown[1]));
  if (!channel) return say("status", status);
  channel.shown = undefined;
  setTimeout(() => wanted.has(channel.topic) && channels.has(channel.topic) && show(channel.topic), 20);
});
client.on("advertise", (made) => {
  for (const channel of made) {
    channels.set(channel.topic, channel);
    say("advertise", channel);
    if (wanted.has(channel.topic)) show(channel.topic);
  }
});
client.on("unadvertise", (numbers) => {
  for (const [topic, channel] of channels) {
    if (!numbers.includes(channel.id)) continue;
    if (channel.shown !== undefined) client.unsubscribe(channel.shown);
    channels.delete(topic);
    say("unadvertise", { topic });
  }
});
client.on("message", ({ subscriptionId, timestamp, data }) => {
  const { topic, read } = shown.get(subscriptionId);
  say("message", { topic, time: timestamp, value: read(data) });
});
createInterface({ input: process.stdin }).on("line", (line) => {
  const at = line.indexOf(" ");
  const topic = line.slice(at + 1);
  if (line.slice(0, at) === "show") return show(topic);
  wanted.delete(topic);
  const channel = channels.get(topic);
  client.unsubscribe(channel.shown);
  channel.shown = undefined;
  say("hidden", { topic });
});
