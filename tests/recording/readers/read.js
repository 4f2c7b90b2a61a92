// What the readers of @mcap/core and @foxglove find in recordings: `node read.js FILE…`, JSON on standard output.
// Every CRC is checked. Messages are read twice: in the order of the file, and by the index where there is one.
import { createHash } from "node:crypto";
import { open, readFile } from "node:fs/promises";

import { parseIDL } from "@foxglove/omgidl-parser";
import { MessageReader } from "@foxglove/omgidl-serialization";
import { McapIndexedReader, McapStreamReader } from "@mcap/core";
import { decompress as zstd } from "fzstd";
import lz4 from "lz4js";

const decompressHandlers = {
  lz4: (data, size) => Buffer.from(lz4.decompress(data, Number(size))),
  zstd: (data, size) => zstd(data, new Uint8Array(Number(size))),
};

class Readable {
  constructor(file, bytes) {
    this.file = file;
    this.bytes = bytes;
  }
  async size() {
    return BigInt(this.bytes);
  }
  async read(offset, length) {
    const buffer = new Uint8Array(Number(length));
    await this.file.read(buffer, 0, Number(length), Number(offset));
    return buffer;
  }
}

function shown(message, channels) {
  const sha = createHash("sha1").update(message.data).digest("hex");
  const { topic } = channels.get(message.channelId);
  return { topic, log: message.logTime, publish: message.publishTime, sequence: message.sequence, sha };
}

async function streamed(path) {
  const reader = new McapStreamReader({ decompressHandlers, validateCrcs: true });
  reader.append(await readFile(path));
  const channels = new Map();
  const found = { records: {}, messages: [] };
  for (let record; (record = reader.nextRecord()); ) {
    found.records[record.type] = (found.records[record.type] ?? 0) + 1;
    if (record.type === "Channel") channels.set(record.id, record);
    if (record.type === "Message") found.messages.push(shown(record, channels));
  }
  if (!reader.done()) throw new Error(`${path} does not end where a recording ends`);
  return found;
}

function decoder(schema) {
  if (schema?.encoding !== "omgidl") return () => undefined;
  const definitions = parseIDL(new TextDecoder().decode(schema.data));
  const reader = new MessageReader(schema.name, definitions);
  return (data) => reader.readMessage(data);
}

async function indexed(path, hasIndex) {
  const file = await open(path);
  const { size } = await file.stat();
  const reader = await McapIndexedReader.Initialize({ readable: new Readable(file, size), decompressHandlers });
  const decoders = new Map();
  for (const schema of reader.schemasById.values()) decoders.set(schema.id, decoder(schema));
  const found = { messages: [], values: [], metadata: {}, statistics: reader.statistics };
  const messages = hasIndex ? reader.readMessages({ validateCrcs: true }) : [];
  for await (const message of messages) {
    const { schemaId } = reader.channelsById.get(message.channelId);
    found.messages.push(shown(message, reader.channelsById));
    found.values.push(decoders.get(schemaId)?.(message.data));
  }
  for await (const record of reader.readMetadata()) found.metadata[record.name] = Object.fromEntries(record.metadata);
  found.channels = [...reader.channelsById.values()].map((channel) => ({
    ...channel,
    metadata: Object.fromEntries(channel.metadata),
    schema: reader.schemasById.get(channel.schemaId)?.name,
  }));
  found.header = reader.header;
  await file.close();
  return found;
}

function plain(key, value) {
  if (typeof value === "bigint") return value.toString();
  if (value instanceof Map) return Object.fromEntries(value);
  if (ArrayBuffer.isView(value)) return Array.from(value);
  return value;
}

const found = {};
for (const path of process.argv.slice(2)) {
  const inOrder = await streamed(path);
  const byIndex = await indexed(path, Boolean(inOrder.records.MessageIndex));
  found[path] = { ...byIndex, inOrder: inOrder.messages, records: inOrder.records };
}
console.log(JSON.stringify(found, plain));
