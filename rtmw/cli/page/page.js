"use strict";
// One document a second, at most; all that it says is put into the page as text. Nothing here changes anything.

const KEPT_S = 300; // seconds of a sparkline
const byId = (id) => document.getElementById(id);
const rates = new Map(); // topic -> [[seconds, messages a second], …]
const gone = new Map(); // program -> when it was missed first
const known = new Map(); // program -> its row
const open = new Set(); // topics whose row is open
const values = new Map(); // topic -> what /value.json has said
let last = null;

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = visible(text);
  if (kind) made.className = kind;
  return made;
}

// As `rtmw.text.visible`: an escape for what steers, turns the direction of reading, or is not seen. Lines may end.
const UNSEEN = /(?![ \n])[\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;
const visible = (text) => String(text).replace(UNSEEN, (letter) => {
  const code = letter.codePointAt(0).toString(16);
  return code.length > 4 ? `\\U${code.padStart(8, "0")}` : code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
});

function scaled(value, units, step) {
  let at = 0;
  while (Math.abs(value) >= step && at < units.length - 1) { value /= step; at++; }
  return `${value >= 100 || at === 0 ? Math.round(value) : value.toPrecision(3)} ${units[at]}`.trim();
}
const bytes = (value) => scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
const number = (value) => (value >= 1e5 ? scaled(value, ["", "k", "M", "G"], 1000) : value >= 10 || Number.isInteger(value)
  ? String(Math.round(value)) : value.toPrecision(2));
function time(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1) return scaled(seconds * 1e9, ["ns", "µs", "ms"], 1000);
  return seconds < 120 ? `${seconds.toPrecision(3)} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min`
    : seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}
const sum = (counts) => Object.entries(counts).reduce((all, [cause, count]) => all + (cause === "thinned" ? 0 : count), 0);
const causes = (counts) => Object.entries(counts).map(([cause, count]) => `${count} ${cause.replace("_", " ")}`).join(", ");

const address = (row) => row.node ? `${row.service}@${row.node}` : row.service;

// ---- tables: columns have a head, the value to sort by, and how it is shown ----

const TABLES = {
  topics: {
    columns: [
      ["topic", (row) => row.topic, (row) => opener(row)],
      ["msg/s", (row) => row.rate, (row) => number(row.rate), "n"],
      ["five minutes", null, (row) => spark(row.topic), "spare"],
      ["bytes/s", (row) => row.bytes, (row) => bytes(row.bytes), "n spare"],
      ["p50", (row) => row.p50, (row) => time(row.p50), "n spare"],
      ["p99", (row) => row.p99, (row) => time(row.p99), "n"],
      ["queued", (row) => row.queued, (row) => number(row.queued), "n spare"],
      ["pubs", (row) => row.publishers, (row) => row.publishers, "n spare"],
      ["subs", (row) => row.subscribers, (row) => row.subscribers, "n spare"],
      ["behind", (row) => row.behind?.messages ?? 0, (row) => row.behind ? `${row.behind.messages} (${row.behind.pid})` : "", "n"],
      ["drops", (row) => sum(row.dropped), (row) => causes(row.dropped), "text"],
    ], key: (row) => row.topic, bad: (row) => last.wrong.has(row.topic), more: details,
    idle: (row) => !row.publishers && !row.subscribers,
  },
  programs: {
    columns: [
      ["program", (row) => row.process, (row) => row.process],
      ["pid", (row) => row.pid, (row) => row.pid, "n spare"],
      ["host", (row) => row.host || "", (row) => row.host || "this host", "spare"],
      ["pubs", (row) => row.publishes.length, (row) => row.publishes.length, "n"],
      ["subs", (row) => row.subscribes.length, (row) => row.subscribes.length, "n"],
      ["state", (row) => row.state, (row) => row.state, "text"],
    ], key: (row) => row.key, bad: (row) => row.isBad,
  },
  links: {
    columns: [
      ["peer", (row) => row.peer || row.host, (row) => row.peer || row.host],
      ["state", (row) => (row.up ? 1 : 0), (row) => row.up ? "up" : `cut for ${time(row.down_s)}: ${row.why_down || "not up yet"}`, "text"],
      ["cipher", (row) => row.cipher || "", (row) => row.cipher || (row.user ? "within this host" : "none")],
      ["certificate until", (row) => row.expires ?? 0, (row) => row.expires ? new Date(row.expires * 1000).toISOString().slice(0, 10) : ""],
      ["there and back", (row) => row.round_trip_ns ?? 0, (row) => row.round_trip_ns === null ? "" : time(row.round_trip_ns / 1e9), "n"],
      ["out", (row) => row.routes_out, (row) => row.routes_out, "n"],
      ["in", (row) => row.routes_in, (row) => row.routes_in, "n"],
    ], key: (row) => `${row.peer} ${row.address}`, bad: (row) => !row.up,
  },
  transfers: {
    columns: [
      ["inbox", address, address],
      ["waiting", (row) => row.transfers, (row) => row.transfers, "n"],
      ["oldest", (row) => -row.since_ns, (row) => time(last.time - row.since_ns / 1e9), "n"],
    ], key: address, bad: () => false,
  },
};
const sorting = { topics: [0, 1], programs: [0, 1], links: [0, 1], transfers: [0, 1] };

function heads(name) {
  const row = byId(name).tHead.rows[0];
  TABLES[name].columns.forEach(([title, by, , kind], at) => {
    const head = element("th", undefined, kind);
    head.scope = "col";
    if (by) {
      const button = element("button", title);
      button.addEventListener("click", () => {
        sorting[name] = sorting[name][0] === at ? [at, -sorting[name][1]] : [at, at ? -1 : 1];
        show();
      });
      head.append(button);
    } else head.textContent = title;
    row.append(head);
  });
}

function table(name, rows, wanted) {
  const { columns, key, bad, idle, more } = TABLES[name], [at, way] = sorting[name], body = byId(name).tBodies[0];
  const by = columns[at][1], old = new Map([...body.rows].map((row) => [row.dataset.key, row])), kept = [];
  [...byId(name).tHead.rows[0].cells].forEach((head, place) => {
    if (place === at) head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  });
  const found = rows.filter(wanted).sort((one, other) => {
    const [a, b] = [by(one) ?? -1, by(other) ?? -1];
    return way * (typeof a === "string" ? a.localeCompare(b) : a - b);
  });
  for (const data of found) {
    const row = old.get(key(data)) ?? document.createElement("tr");
    row.dataset.key = key(data);
    row.className = bad(data) ? "bad" : idle?.(data) ? "idle" : "";
    columns.forEach(([, , shown, kind], place) => fill(row.cells[place] ?? row.appendChild(element("td", undefined, kind)), shown(data)));
    kept.push(row);
    if (more && open.has(key(data))) kept.push(more(data, old.get(`open ${key(data)}`)));
  }
  const focused = document.activeElement; // a row that is moved loses it
  kept.forEach((row, place) => { if (body.rows[place] !== row) body.insertBefore(row, body.rows[place] ?? null); });
  while (body.rows.length > kept.length) body.lastChild.remove();
  if (body.contains(focused)) focused.focus();
  byId(`n-${name}`).textContent = part(found.length, rows.length);
}

const part = (found, all) => (found === all ? all : `${found} of ${all}`);

function fill(cell, content) {
  if (content instanceof Node) {
    if (cell.firstChild !== content) cell.replaceChildren(content);
  } else if (cell.textContent !== visible(content)) cell.textContent = visible(content);
}

// ---- topics ----

const openers = new Map();
function opener(row) {
  let button = openers.get(row.topic);
  if (!button) {
    button = element("button", row.topic);
    button.addEventListener("click", () => {
      if (!open.delete(row.topic)) open.add(row.topic);
      values.delete(row.topic);
      show();
      askValues();
    });
    openers.set(row.topic, button);
  }
  button.setAttribute("aria-expanded", open.has(row.topic));
  return button;
}

const sparks = new Map();
function spark(topic) {
  let [picture, line] = sparks.get(topic) ?? [];
  if (!picture) {
    picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    picture.setAttribute("class", "spark");
    picture.setAttribute("viewBox", `0 0 ${KEPT_S} 20`);
    picture.setAttribute("preserveAspectRatio", "none");
    picture.setAttribute("aria-hidden", "true");
    picture.append(line);
    sparks.set(topic, [picture, line]);
  }
  const points = rates.get(topic) ?? [], most = Math.max(1e-9, ...points.map(([, rate]) => rate));
  const place = ([at, rate]) => `${(KEPT_S - (last.time - at)).toFixed(1)},${(20 - 16 * rate / most).toFixed(1)}`;
  const foot = (point) => point && `${(KEPT_S - (last.time - point[0])).toFixed(1)},20`;
  line.setAttribute("points", [foot(points[0]), ...points.map(place), foot(points.at(-1))].join(" "));
  return picture;
}

function details(data, row) {
  if (!row) {
    row = element("tr", undefined, "open");
    row.dataset.key = `open ${data.topic}`;
    const cell = row.appendChild(element("td"));
    cell.colSpan = TABLES.topics.columns.length;
    cell.append(element("div"), element("pre"));
  }
  const [words, value] = row.cells[0].children, said = values.get(data.topic);
  const why = last.problems.filter((one) => one.about === data.topic).map((one) => `${one.kind}: ${one.why}`);
  const who = (said?.endpoints ?? []).map((edge) =>
    `${edge.process} (${edge.pid})${edge.host ? ` on ${edge.host}` : ""} ${edge.does}, ${edge.reliability}, ${edge.type}`
    + (edge.matched ? "" : `: meets nobody${edge.apart ? `, ${edge.apart}` : ""}`));
  fill(words, [...why, ...who].join("\n") || (said ? "nobody uses it" : "…"));
  fill(value, !said ? "…" : said.words || `${time(said.age)} ago, ${bytes(said.size)}:\n${written(said.value)}`);
  return row;
}

// A list of numbers is one line.
const written = (value) => JSON.stringify(value, null, 1).replace(/\[\n\s*([^[\]{}"]*?)\n\s*\]/g,
  (all, inner) => `[${inner.replace(/\s+/g, " ")}]`);

async function askValues() {
  for (const topic of open) {
    const answer = await fetch(`/value.json?topic=${encodeURIComponent(topic)}`).catch(() => null);
    if (answer?.ok) values.set(topic, await answer.json());
  }
  if (open.size && last) show();
}

// ---- what was told ----

function programs({ programs: processes, edges }, node) {
  const made = ({ pid, name, host }) => ({ key: `${host} ${pid}`, pid, process: name, host, publishes: [], subscribes: [], alone: 0 });
  const found = new Map(), rows = processes.map(made);
  if (node) rows.push(made({ pid: node.pid, name: "rtmw node", host: "" }));
  for (const row of [...rows].reverse()) found.set(row.key, found.get(row.key) ?? row);
  for (const [number, topic, publishes, matched] of edges) {
    const row = found.get(rows[number].key);
    row[publishes ? "publishes" : "subscribes"].push(topic);
    row.alone += matched ? 0 : 1;
  }
  for (const row of found.values()) {
    row.isBad = row.alone > 0;
    row.state = row.alone ? `${row.alone} of its endpoints ${row.alone === 1 ? "meets" : "meet"} nobody` : "";
    gone.delete(row.key);
    known.set(row.key, row);
  }
  for (const [key, row] of known) {
    if (found.has(key)) continue;
    if (!gone.has(key)) gone.set(key, last.time);
    if (last.time - gone.get(key) > KEPT_S) { known.delete(key); gone.delete(key); continue; }
    found.set(key, { ...row, isBad: true, state: `gone since ${new Date(gone.get(key) * 1000).toLocaleTimeString()}` });
  }
  return [...found.values()];
}

function take(told) {
  const { columns, rows } = told.top ?? { columns: [], rows: [] };
  last = { problems: [], graph: { programs: [], edges: [] }, node: null, transfers: null, ...told };
  last.topics = rows.map((row) => Object.fromEntries(row.map((cell, at) => [columns[at], cell])));
  last.wrong = new Set(last.problems.map((one) => one.about));
  for (const row of last.topics) {
    const points = rates.get(row.topic) ?? rates.set(row.topic, []).get(row.topic);
    points.push([last.time, row.rate]);
    while (points.length && last.time - points[0][0] > KEPT_S) points.shift();
  }
  for (const topic of rates.keys()) {
    if (last.time - (rates.get(topic).at(-1)?.[0] ?? 0) <= KEPT_S) continue;
    for (const kept of [rates, openers, sparks, values]) kept.delete(topic);
    open.delete(topic);
  }
  last.programs = programs(last.graph, last.node);
}

function show() {
  if (!last) return;
  const text = byId("filter").value.toLowerCase(), has = (...words) => words.join(" ").toLowerCase().includes(text);
  byId("where").textContent = `domain ${last.domain} on ${last.host}`;
  document.title = `${last.problems.length ? `(${last.problems.length}) ` : ""}rtmw ${last.domain}`;
  const wrong = last.problems.filter((one) => has(one.kind, one.about, one.why));
  byId("problems").replaceChildren(...wrong.map((one) => {
    const row = element("li");
    row.append(element("b", one.about), element("span", `${one.kind}: ${one.why}`));
    return row;
  }), ...(wrong.length || last.absent ? [] : [element("li", last.problems.length ? "Nothing that the filter lets through."
    : "Nothing that is known.", last.problems.length ? "" : "well")]));
  byId("n-problems").textContent = part(wrong.length, last.problems.length) || "";
  const users = new Map();
  for (const row of last.programs) for (const topic of row.subscribes) users.set(topic, `${users.get(topic) ?? ""} ${row.process}`);
  table("topics", last.topics, (row) => has(row.topic, users.get(row.topic) ?? ""));
  table("programs", last.programs, (row) => has(row.process, row.pid, row.host, ...row.publishes, ...row.subscribes));
  byId("s-links").hidden = !last.node?.links?.peers.length;
  table("links", last.node?.links?.peers ?? [], (row) => has(row.peer, row.host, row.why_down));
  byId("s-transfers").hidden = !last.transfers;
  table("transfers", last.transfers?.queues ?? [], (row) => has(address(row)));
}

function say(words, bad) {
  byId("now").textContent = words;
  byId("now").className = bad ? "bad" : "";
}

async function ask() {
  try {
    const answer = await fetch("/state.json");
    if (!answer.ok) throw new Error(await answer.text());
    const told = await answer.json();
    if (told.time !== last?.time) take(told); // with very many topics the same is told again for a while
    const volume = last.topics.reduce((all, row) => all + row.bytes, 0);
    const rate = last.topics.reduce((all, row) => all + row.rate, 0);
    say(last.absent || `${number(rate)} messages/s, ${bytes(volume)}/s, at ${new Date(last.time * 1000).toLocaleTimeString()}`, last.absent);
    show();
    await askValues();
    if (byId("graph").open) byId("picture").src = `/graph.svg?${Math.floor(last.time / 5)}`;
  } catch (error) {
    say(`Nothing new: ${error.message}`, true);
  }
  setTimeout(ask, document.hidden ? 5000 : 1000);
}

Object.keys(TABLES).forEach(heads);
byId("filter").addEventListener("input", show);
byId("graph").addEventListener("toggle", () => { if (last) byId("picture").src = `/graph.svg?${Date.now()}`; });
ask();
