// What all parts of the Shipments page say things with: states, moments, sizes, elements, questions to the server. The scripts share one
// scope and are loaded in this order: words, panel, cluster, actions, page. Text of others only ever becomes textContent.
"use strict";

/** From the worst to the best. Colours lie in page.css under the same names. ``tall``: pixels, so that states differ by more than colour even where a window
    is 2 px wide. */
const STATES = {
  failed: { words: "failed", mark: "✗", tall: 18 },
  blocked: { words: "blocked by gate", mark: "–", tall: 16 },
  missing: { words: "missing", mark: "?", tall: 14 },
  doubt: { words: "needs a look", mark: "!", tall: 12 },
  late: { words: "shipped late", mark: "+", tall: 10 },
  shipping: { words: "shipping now", mark: "›", tall: 7 },
  waiting: { words: "waiting", mark: "…", tall: 4 },
  shipped: { words: "shipped", mark: "✓", tall: 7 },
};
const RANK = Object.keys(STATES);
const NEVER = "never scheduled";
const ATTENTION = RANK.slice(0, 5);
const DAY = 86400;
const NARROWEST = 2;
const by = (id) => document.getElementById(id);
const framed = window.parent !== window;

// ---- words

const two = (n) => String(n).padStart(2, "0");
const number = (n) => (n === null || n === undefined ? "–" : n.toLocaleString("en-US"));
const iso = (s) => new Date(s * 1000).toISOString().slice(0, 19) + "Z";
const stamp = (s) => iso(s).replace(/[-:]/g, "");
function moment(s) {
  const d = new Date(s * 1000);
  const seconds = d.getUTCSeconds() ? ":" + two(d.getUTCSeconds()) : "";
  return `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())} ${two(d.getUTCHours())}:${two(d.getUTCMinutes())}${seconds}`;
}
function span(start, end) {
  const from = moment(start), to = moment(end);
  return `${from} – ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to} UTC`;
}
function duration(s) {
  if (s === null || s === undefined) return "–";
  const parts = [[DAY, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const first = parts.findIndex(([size]) => s >= size);
  if (first < 0) return "0s";
  const [size, unit] = parts[first], next = parts[first + 1];
  const rest = next ? Math.floor((s % size) / next[0]) : 0;
  return `${Math.floor(s / size)}${unit}` + (rest ? ` ${rest}${next[1]}` : "");
}
/** "until 19:10 UTC", with its date if that is not today's. */
const until = (s, now) => `until ${moment(s).slice(moment(s).slice(0, 10) === moment(now).slice(0, 10) ? 11 : 0)} UTC`;
/** ``settle``: seconds from the window's end until its run is due. */
const waits = (end, settle, now) => (end + settle > now ? until(end + settle, now) : "for its run");
const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many || one + "s"}`;
function pace(perSecond) {
  const [size, unit] = [[1, "s"], [60, "min"], [3600, "h"]].find(([seconds]) => perSecond * seconds >= 1) || [DAY, "day"];
  return `${number(Math.round(perSecond * size))} records/${unit}`;
}
function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) { n /= 1000; i += 1; }
  return `${i ? n.toFixed(1) : n} ${units[i]}`;
}

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "onclick") element.addEventListener("click", value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
/** How many windows are in a state: its colour and height, and the number. */
const count = (state, many, ...more) => [make("i", { class: state, "aria-hidden": "true" }), make("b", {}, many), ...more];
const stateOf = (name, words) => make("span", { class: `state ${name || "never"}`, "data-mark": name ? STATES[name].mark : "" }, words ?? (name ? STATES[name].words : NEVER));

// ---- asking

async function answered(asked) {
  const answer = await asked, found = await answer.json().catch(() => ({}));
  if (answer.ok) return found;
  // Of a request that it does not understand Airflow says each fault: {"detail": [{"msg": …}, …]}.
  const detail = Array.isArray(found.detail) ? found.detail.map((one) => one.msg || String(one)).join("; ") : found.detail;
  const said = found.error || (typeof detail === "object" ? JSON.stringify(detail) : detail);
  const error = new Error(answer.status === 401 ? "You are not logged in, or no longer: reload the page." : said || `the server says ${answer.status}`);
  error.status = answer.status;
  throw error;
}

const ask = (path, query) => answered(fetch(`${path}?${new URLSearchParams(query)}`, { headers: { Accept: "application/json" }, credentials: "same-origin" }));
const send = (path, body) => answered(fetch(path, {
  method: "POST", headers: { Accept: "application/json", "Content-Type": "application/json" }, credentials: "same-origin", body: JSON.stringify(body),
}));
