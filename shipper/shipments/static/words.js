// What all parts of the Shipments page say things with: states, moments, sizes, elements, questions to the server. The scripts share one
// scope and are loaded in this order: words, panel, cluster, actions, page. Text of others only ever becomes textContent.
"use strict";

const STATES = {
  shipped: { words: "shipped", mark: "✓", height: 0.5 },
  late: { words: "shipped late", mark: "+", height: 0.72 },
  doubt: { words: "shipped, look into it", mark: "!", height: 0.72, hollow: true },
  waiting: { words: "waiting", mark: "…", height: 0.22 },
  shipping: { words: "shipping now", mark: "›", height: 0.5, cut: true },
  missing: { words: "missing", mark: "?", height: 1, hollow: true },
  blocked: { words: "blocked by gate", mark: "–", height: 1, cut: true },
  failed: { words: "failed", mark: "✗", height: 1 },
};
const NEVER = "never scheduled";
const ATTENTION = ["failed", "blocked", "missing", "late", "doubt"];
const DAY = 86400;
const NARROWEST = 3;
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
const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many || one + "s"}`;
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
const stateOf = (name) => make("span", { class: `state ${name || "never"}`, "data-mark": name ? STATES[name].mark : "" }, name ? STATES[name].words : NEVER);

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
