// The Shipments page: asks api/grid for segments, paints each pipeline's windows into one canvas when it comes into sight, and opens a window
// in a dialog. Text of others only ever becomes textContent.
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

const view = { q: "", show: "", cluster: "", sort: "name", range: "7", end: null, window: null };
let data = null;
let shown = [];
let asked = 0;

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

async function ask(path, query) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  const found = await answer.json().catch(() => ({}));
  if (answer.ok) return found;
  throw new Error(found.error || found.detail || (answer.status === 401 ? "You are not logged in, or no longer: reload the page." : `the server says ${answer.status}`));
}

function stretch() {
  const end = view.end ?? Math.ceil(Date.now() / 3600000) * 3600;
  return { start: end - Number(view.range) * DAY, end };
}

async function load() {
  const mine = (asked += 1);
  const { start, end } = stretch();
  by("grid").setAttribute("aria-busy", "true");
  try {
    const found = await ask("api/grid", { start: iso(start), end: iso(end), cluster: view.cluster });
    if (mine !== asked) return; // a later question is under way
    data = found;
    say(null);
    fillClusters();
    render();
  } catch (error) {
    if (mine === asked) say(error.message);
  }
  by("grid").removeAttribute("aria-busy");
}

function say(problem) {
  by("problem").hidden = !problem;
  by("problem").textContent = problem || "";
}

// ---- the table

const badness = (row) => ATTENTION.reduce((sum, state) => sum * 1000 + Math.min(999, row.counts[state] || 0), 0);
const ORDERS = {
  name: (a, b) => (a.pipeline < b.pipeline ? -1 : 1),
  bad: (a, b) => badness(b) - badness(a),
  old: (a, b) => (a.newest ?? 0) - (b.newest ?? 0),
  lag: (a, b) => (b.lag ?? -1) - (a.lag ?? -1),
};

function wanted(row) {
  const q = view.q.trim().toLowerCase();
  if (q && !`${row.pipeline} ${row.owner}`.toLowerCase().includes(q)) return false;
  if (!view.show) return true;
  if (view.show === "attention") return ATTENTION.some((state) => row.counts[state]);
  return Boolean(row.counts[view.show]);
}

let unseen = null;
function render() {
  const kept = document.activeElement?.closest?.("tr")?.dataset.pipeline;
  shown = data.pipelines.filter(wanted).sort((a, b) => ORDERS[view.sort](a, b) || ORDERS.name(a, b));
  unseen?.disconnect();
  unseen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { unseen.unobserve(entry.target); paint(entry.target); }
  }, { rootMargin: "400px" });
  by("rows").replaceChildren(...shown.map(tableRow));
  const first = document.querySelector(".strip");
  if (first) first.tabIndex = 0;
  for (const strip of document.querySelectorAll(".strip")) unseen.observe(strip);
  drawAxis();
  sumUp();
  if (kept) document.querySelector(`tr[data-pipeline="${CSS.escape(kept)}"] .strip`)?.focus();
  by("later").disabled = by("now").disabled = view.end === null;
}

function sumUp() {
  const counts = {};
  for (const row of shown) for (const [state, n] of Object.entries(row.counts)) counts[state] = (counts[state] || 0) + n;
  const said = Object.keys(STATES).filter((state) => counts[state]).map((state) => `${number(counts[state])} ${STATES[state].words}`);
  const of = shown.length === data.pipelines.length ? plural(shown.length, "pipeline") : `${number(shown.length)} of ${plural(data.pipelines.length, "pipeline")}`;
  by("sum").textContent = `${of}, ${moment(data.start)} to ${moment(data.end)} UTC: ${said.join(", ") || "no window"}`;
}

function tableRow(row) {
  const bad = ATTENTION.filter((state) => row.counts[state]).map((state) => `${number(row.counts[state])} ${STATES[state].words}`);
  const attention = bad.length
    ? make("button", { type: "button", class: "link", onclick: () => openList(row) }, bad.join(", "))
    : make("span", { class: "dim" }, row.segments.length ? "nothing" : NEVER);
  const strip = make("div", {
    class: "strip", role: "slider", tabindex: "-1", "aria-label": `Windows of ${row.pipeline}`, "aria-describedby": "keys", "aria-orientation": "horizontal",
  }, make("canvas", { "aria-hidden": "true" }), make("div", { class: "at" }));
  strip.row = row;
  describe(strip, null);
  const note = [row.owner, row.retired ? "no longer in the configuration" : row.schedule ? null : "no schedule"].filter(Boolean).join(" · ");
  return make("tr", { role: "row", "data-pipeline": row.pipeline },
    make("th", { scope: "row", role: "rowheader" },
      make("button", { type: "button", class: "link", onclick: () => openList(row) }, row.pipeline), make("small", {}, note)),
    make("td", { role: "cell" }, row.newest ? moment(row.newest) : "–",
      row.newest ? make("small", {}, ` ${duration(Math.max(0, data.now - row.newest))} ago`) : null),
    make("td", { role: "cell" }, duration(row.lag)),
    make("td", { role: "cell" }, attention),
    make("td", { role: "cell" }, strip));
}

// ---- a row's windows

function cellsOf(row) {
  if (!row.cells) {
    row.cells = [];
    for (const [start, step, many, state] of row.segments)
      for (let i = 0; i < many; i += 1) row.cells.push({ start: start + i * step, end: start + (i + 1) * step, state: data.states[state] });
    row.cells.sort((a, b) => a.start - b.start || b.end - a.end);
  }
  return row.cells;
}

let colours = null;
function colour(name) {
  if (!colours) colours = getComputedStyle(document.documentElement);
  return colours.getPropertyValue(`--${name}`).trim();
}

function sizeOf(canvas) {
  const scale = window.devicePixelRatio || 1;
  const box = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(box.width * scale));
  canvas.height = Math.round(box.height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return { context, width: box.width, height: box.height };
}

function block(context, state, left, width, height) {
  const look = STATES[state], tall = Math.round(height * look.height);
  const top = height - tall;
  context.fillStyle = colour(state);
  if (look.hollow) {
    context.fillRect(left, top, width, 3);
    context.fillRect(left, height - 3, width, 3);
    if (width >= 8) { context.fillRect(left, top, 2, tall); context.fillRect(left + width - 2, top, 2, tall); }
  } else {
    context.fillRect(left, top, width, tall);
  }
  if (look.cut) context.clearRect(left, top + tall * 0.42, width, Math.max(2, tall * 0.16));
  if (width >= 15 && tall >= 13 && !look.cut) {
    context.fillStyle = look.hollow ? colour(state) : colour("mark");
    context.font = "bold 12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(look.mark, left + width / 2, top + tall / 2 + 0.5);
  }
}

function paint(strip) {
  const { context, width, height } = sizeOf(strip.firstChild);
  const { start, end } = data, scale = width / (end - start);
  const cells = cellsOf(strip.row);
  context.fillStyle = colour("line");
  context.fillRect(0, height - 1, width, 1);
  const narrow = cells.length && Math.min(...cells.slice(0, 50).map((cell) => cell.end - cell.start)) * scale < NARROWEST;
  if (!narrow) {
    for (const cell of cells) {
      const left = Math.max(0, (cell.start - start) * scale), right = Math.min(width, (cell.end - start) * scale);
      const gap = right - left >= 5 ? 1 : 0;
      context.clearRect(left, 0, right - left, height - 1); // of what lies under it: a longer window
      block(context, cell.state, left, Math.max(1, right - left - gap), height);
    }
    return;
  }
  // Several windows share a column: it shows the worst of them, so that no failure is ever too small to be seen.
  const columns = new Array(Math.max(1, Math.floor(width / NARROWEST))).fill(-1), each = (end - start) / columns.length;
  for (const cell of cells) {
    const rank = data.states.indexOf(cell.state);
    const from = Math.max(0, Math.floor((cell.start - start) / each)), to = Math.min(columns.length, Math.ceil((cell.end - start) / each));
    for (let i = from; i < to; i += 1) if (rank > columns[i]) columns[i] = rank;
  }
  columns.forEach((rank, i) => { if (rank >= 0) block(context, data.states[rank], (i * width) / columns.length, width / columns.length, height); });
}

function drawAxis() {
  const { start, end } = data, axis = by("axis"), days = (end - start) / DAY;
  const step = days <= 1 ? 4 * 3600 : days <= 3 ? 12 * 3600 : days <= 7 ? DAY : days <= 30 ? 5 * DAY : 15 * DAY;
  axis.replaceChildren();
  for (let at = Math.ceil(start / step) * step; at < end - step / 3; at += step) {
    const label = make("span", {}, days <= 3 ? moment(at).slice(5, 16) : moment(at).slice(5, 10));
    label.style.left = `${(100 * (at - start)) / (end - start)}%`;
    axis.append(label);
  }
}

function describe(strip, index) {
  const cells = strip.row.segments.length ? cellsOf(strip.row) : [];
  strip.index = index;
  const cell = index === null ? null : cells[index];
  strip.setAttribute("aria-valuemin", "0");
  strip.setAttribute("aria-valuemax", String(Math.max(0, cells.length - 1)));
  strip.setAttribute("aria-valuenow", String(index ?? Math.max(0, cells.length - 1)));
  strip.setAttribute("aria-valuetext", cell ? `${span(cell.start, cell.end)}: ${STATES[cell.state].words}` : cells.length ? plural(cells.length, "window") : "no windows");
  if (!cell) return;
  const { start, end } = data, at = strip.lastChild;
  at.style.left = `${(100 * Math.max(0, cell.start - start)) / (end - start)}%`;
  at.style.width = `${(100 * (Math.min(end, cell.end) - Math.max(start, cell.start))) / (end - start)}%`;
}

function cellAt(strip, x) {
  const box = strip.getBoundingClientRect(), when = data.start + ((x - box.left) / box.width) * (data.end - data.start);
  const cells = cellsOf(strip.row), slack = (NARROWEST * (data.end - data.start)) / box.width;
  let best = -1;
  cells.forEach((cell, i) => {
    if (cell.start - slack / 2 > when || when >= cell.end + slack / 2) return;
    // Where windows share a column, what can be seen there is the worst of them.
    const narrower = best < 0 || data.states.indexOf(cell.state) > data.states.indexOf(cells[best].state) || cell.end - cell.start < cells[best].end - cells[best].start;
    const shared = cell.end - cell.start < slack * 2;
    if (best < 0 || (shared ? narrower : cell.start <= when && when < cell.end)) best = i;
  });
  return best;
}

function tell(strip, event) {
  const tip = by("tip"), at = cellAt(strip, event.clientX);
  tip.hidden = at < 0;
  if (at < 0) return;
  const cell = cellsOf(strip.row)[at];
  tip.textContent = `${strip.row.pipeline} · ${span(cell.start, cell.end)} · ${STATES[cell.state].words}`;
  tip.style.left = `${Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${event.clientY + 18}px`;
}

function move(strip, event) {
  const cells = cellsOf(strip.row), last = cells.length - 1;
  const strips = [...document.querySelectorAll(".strip")];
  const here = strip.index ?? last + 1;
  const to = (index) => { if (last >= 0) { describe(strip, Math.max(0, Math.min(last, index))); event.preventDefault(); } };
  const seek = (step) => {
    for (let i = here + step; i >= 0 && i <= last; i += step) if (ATTENTION.includes(cells[i].state)) return to(i);
    event.preventDefault();
  };
  const row = (step) => {
    const other = strips[strips.indexOf(strip) + step];
    event.preventDefault();
    if (!other) return;
    focusOn(other);
    const when = strip.index === null ? null : cells[strip.index].start;
    const index = when === null ? -1 : cellsOf(other.row).findLastIndex((cell) => cell.start <= when);
    describe(other, index < 0 ? null : index);
  };
  const keys = {
    ArrowLeft: () => to(here - 1), ArrowRight: () => to(here + 1), Home: () => to(0), End: () => to(last),
    PageUp: () => to(here - 24), PageDown: () => to(here + 24), ArrowUp: () => row(-1), ArrowDown: () => row(1),
    n: () => seek(1), p: () => seek(-1),
    Enter: () => { event.preventDefault(); if (last >= 0) openWindow(strip.row.pipeline, cells[strip.index ?? last]); },
  };
  const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (act && !event.ctrlKey && !event.metaKey && !event.altKey) act();
}

function focusOn(strip) {
  for (const other of document.querySelectorAll('.strip[tabindex="0"]')) other.tabIndex = -1;
  strip.tabIndex = 0;
  strip.focus();
}

// ---- the dialog

function table(caption, columns, rows) {
  const head = columns.map((name) => make("th", { scope: "col", class: name.startsWith(">") ? "num" : null }, name.replace(/^>/, "")));
  const body = rows.map((cells) => make("tr", {}, ...cells.map((cell, i) =>
    make(i ? "td" : "th", { scope: i ? null : "row", class: columns[i].startsWith(">") ? "num" : i ? null : "path" }, cell ?? "–"))));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", { class: "inner" }, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)));
}

function show(title, ...content) {
  by("panel-title").textContent = title;
  by("panel-body").replaceChildren(...content.filter(Boolean));
  if (!by("panel").open) by("panel").showModal();
  by("panel-title").focus();
}

function openList(row) {
  view.window = null;
  keep();
  const cells = cellsOf(row).filter((cell) => cell.state !== "shipped").reverse();
  const listed = cells.slice(0, 500).map((cell) => [
    make("button", { type: "button", class: "link", onclick: () => openWindow(row.pipeline, cell) }, span(cell.start, cell.end)), stateOf(cell.state),
  ]);
  show(row.pipeline,
    row.description ? make("p", {}, row.description) : null,
    make("p", { class: "note" }, `Owner ${row.owner}; to ${row.clusters.join(", ")}; ${row.schedule ? `schedule ${row.schedule}` : "by hand only"}.`),
    links(row.pipeline, null),
    make("h3", {}, cells.length ? "Windows in this range that are not plainly shipped" : "Everything in this range is shipped"),
    cells.length ? table("Windows that are not plainly shipped", ["window", "state"], listed) : null,
    cells.length > listed.length ? make("p", { class: "note" }, `and ${number(cells.length - listed.length)} more`) : null,
    make("p", { class: "note" }, `${plural(row.counts.shipped || 0, "window")} shipped.`));
}

async function openWindow(pipeline, cell, run) {
  view.window = `${pipeline} ${iso(cell.start)}/${iso(cell.end)}`;
  keep();
  show(`${pipeline}, ${span(cell.start, cell.end)}`, make("p", { class: "note" }, "…"));
  try {
    const query = { pipeline, window: `${iso(cell.start)}/${iso(cell.end)}` };
    const found = await ask("api/window", run ? { ...query, run } : query);
    show(`${pipeline}, ${span(cell.start, cell.end)}`, ...windowParts(found));
  } catch (error) {
    show(`${pipeline}, ${span(cell.start, cell.end)}`, make("p", { role: "alert" }, error.message));
  }
}

function windowParts(found) {
  const report = found.report;
  return [
    table("What became of it on each cluster", ["cluster", "state", ">lag", "by"], found.clusters.map((one) => [
      one.cluster, stateOf(one.state), one.lag === null ? "–" : duration(one.lag),
      one.by ? openOther(found.pipeline, one) : one.run_id,
    ])),
    ...found.begun.map((one) => make("p", {}, `Run ${one.run_id} began ${moment(one.at)} UTC and has left no report yet.`)),
    links(found.pipeline, found),
    found.problem ? make("p", { class: "note" }, found.problem) : null,
    ...(report ? reportParts(report) : found.runs.length ? causes(found.runs[0]) : [noRun(found)]),
    found.runs.length ? make("h3", {}, "Runs over this window") : null,
    found.runs.length ? table("Runs over this window", ["run", "ended (UTC)", "took", "what became of it", ">records sent"], found.runs.map((run) => [
      run.run_id === found.run ? `${run.run_id} (shown)` : make("button", { type: "button", class: "link", onclick: () => openWindow(found.pipeline, found, run.run_id) }, run.run_id),
      moment(run.ended), duration(run.ended - run.began),
      make("div", {}, ...run.clusters.map((one) => make("div", {}, `${one.cluster}: `, stateOf(one.state)))),
      make("div", {}, ...run.clusters.map((one) => make("div", {}, number(one.records)))),
    ])) : null,
  ].filter(Boolean);
}

const openOther = (pipeline, one) => make("button", { type: "button", class: "link", onclick: () => openWindow(pipeline, one.by, one.run_id) },
  `${one.run_id}, over ${span(one.by.start, one.by.end)}`);
const causes = (run) => run.clusters.filter((one) => one.cause).map((one) => make("p", { class: "said" }, `${one.cluster}: ${one.cause}`));

function noRun(found) {
  if (found.begun.length || found.clusters.some((one) => one.run_id)) return null;
  return make("div", { class: "lines" },
    make("p", {}, "No run over this window is known. This ships what is there:"),
    make("p", {}, make("code", { class: "command" }, `shipper run ${found.pipeline} --window ${found.window}`)));
}

function reportParts(report) {
  const names = report.clusters.map((one) => one.cluster);
  return [
    make("h3", {}, report.headline),
    make("div", { class: "lines" },
      report.cause ? make("p", { class: "said" }, report.cause) : null,
      ...report.doubts.map((text) => make("p", { class: "said" }, text)),
      report.remedy ? make("p", {}, report.remedy) : null,
      report.command ? make("p", {}, make("code", { class: "command" }, report.command)) : null),
    report.clusters.length ? make("h3", {}, "Records") : null,
    report.clusters.length ? table("Records by cluster", ["cluster", ">read", ">sent", ">there before", ">filtered", ">quarantined", ">parked"],
      report.clusters.map((one) => [one.cluster, ...["read", "delivered", "before", "filtered", "quarantined", "parked"].map((key) => number(one[key]))])) : null,
    report.checks.length ? make("h3", {}, `Gates: ${plural(report.checks.filter((check) => check.passed).length, "check")} of ${report.checks.length} held`) : null,
    report.checks.length ? table("Checks of the gates", ["check", "gate", "result", "expected", "observed"],
      [...report.checks].sort((a, b) => a.passed - b.passed).map((check) => [
        check.check, check.gate, stateOfCheck(check), check.expected, check.observed])) : null,
    report.file_count ? make("h3", {}, plural(report.file_count, "file")) : null,
    report.file_count ? table("Files", ["file", ">bytes", ...names.map((name) => `>${name}`)], report.files.map((file) => [
      file.path + (file.late_window ? ` (late, of ${file.late_window})` : ""), bytes(file.bytes), ...names.map((name) => number(file.records[name]))])) : null,
    report.file_count > report.files.length ? make("p", { class: "note" }, `and ${number(report.file_count - report.files.length)} more: the report has all of them`) : null,
    report.left_out.length ? make("h3", {}, "Left out") : null,
    report.left_out.length ? table("Files that were left out", ["file", "why"], report.left_out.map((file) => [file.path, file.reason])) : null,
    report.notes.length ? make("h3", {}, "Notes") : null,
    ...report.notes.map((note) => make("p", { class: "said" }, note)),
  ].filter(Boolean);
}

function stateOfCheck(check) {
  const [name, mark, words] = check.passed ? ["shipped", "✓", "held"] : check.severity === "block" ? ["failed", "✗", "does not hold"] : ["doubt", "!", check.severity];
  return make("span", { class: `state ${name}`, "data-mark": mark }, words);
}

// Airflow shows the page in a frame that may open no window and leave for nowhere: there the report takes the page's place (Back returns), and
// Airflow's own pages are opened by a link of the page around it.
function links(pipeline, found) {
  const list = make("p", { class: "links" });
  if (found?.run && found.report) {
    const address = `api/report/${encodeURIComponent(pipeline)}/${stamp(found.start)}--${stamp(found.end)}/${encodeURIComponent(found.run)}`;
    list.append(make("a", { href: address, target: framed ? null : "_blank", rel: "noopener" }, "Report of this run"));
  }
  if (data?.airflow) {
    const dag = `${data.airflow}dags/${encodeURIComponent(pipeline)}`;
    list.append(outside(dag, "DAG in Airflow"));
    if (found) airflowRun(pipeline, found).then((run) => run && list.append(outside(`${dag}/runs/${encodeURIComponent(run)}`, "Run in Airflow")));
  }
  return list.childNodes.length ? list : null;
}

function outside(address, words) {
  const link = make("a", { href: address, target: framed ? null : "_blank", rel: "noopener" }, words);
  if (framed) link.addEventListener("click", (event) => {
    event.preventDefault();
    const around = window.parent.document.createElement("a");
    around.href = address;
    around.click();
  });
  return link;
}

/** Id of Airflow's run whose data interval the window is, by Airflow's own API with the person's own rights; null if there is none. */
async function airflowRun(pipeline, found) {
  try {
    const about = { logical_date_gte: iso(found.start), logical_date_lte: iso(found.start), limit: 1 };
    const runs = await ask(`${data.airflow}api/v2/dags/${encodeURIComponent(pipeline)}/dagRuns`, about);
    return runs.dag_runs[0]?.dag_run_id ?? null;
  } catch { return null; }
}

// ---- what the page remembers in its address

const KEPT = { q: "", show: "", cluster: "", sort: "name", range: "7", end: null, window: null };
function keep() {
  const kept = new URLSearchParams();
  for (const [key, usual] of Object.entries(KEPT)) if (view[key] !== usual && view[key] !== null) kept.set(key, view[key]);
  history.replaceState(null, "", kept.size ? `#${kept}` : location.pathname + location.search);
}
function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(KEPT)) if (kept.has(key)) view[key] = key === "end" ? Number(kept.get(key)) || null : kept.get(key);
  const dag = new URLSearchParams(location.search).get("dag_id");
  if (dag && !view.q) view.q = dag;
  if (!ORDERS[view.sort]) view.sort = "name";
  if (![...by("range").options].some((option) => option.value === view.range)) view.range = "7";
}

function fillClusters() {
  const select = by("cluster"), names = ["", ...data.clusters];
  if (select.options.length === names.length) return;
  select.replaceChildren(...names.map((name) => make("option", { value: name }, name || "all, the worst of them")));
  select.value = view.cluster;
}

function legend() {
  const items = Object.keys(STATES).map((state) => {
    const canvas = make("canvas", { "aria-hidden": "true" });
    const item = make("li", {}, canvas, STATES[state].words);
    item.draw = () => { const { context, width, height } = sizeOf(canvas); block(context, state, 0, width, height); };
    return item;
  });
  by("legend").replaceChildren(...items, make("li", {}, `empty: ${NEVER}`));
  for (const item of items) item.draw();
}

function redraw() {
  colours = null;
  legend();
  if (data) for (const strip of document.querySelectorAll(".strip")) unseen.observe(strip);
}

function begin() {
  by("show").append(make("option", { value: "" }, "all pipelines"), make("option", { value: "attention" }, "with something to look at"),
    ...Object.keys(STATES).map((state) => make("option", { value: state }, `with windows ${STATES[state].words}`)));
  recall();
  for (const key of ["q", "show", "sort", "range"]) by(key).value = view[key];
  const changed = (key, then) => (event) => { view[key] = event.target.value; keep(); then(); };
  by("q").addEventListener("input", changed("q", () => data && render()));
  by("show").addEventListener("change", changed("show", () => data && render()));
  by("sort").addEventListener("change", changed("sort", () => data && render()));
  by("cluster").addEventListener("change", changed("cluster", load));
  by("range").addEventListener("change", changed("range", load));
  by("filters").addEventListener("submit", (event) => event.preventDefault());
  const turn = (pages) => () => {
    const end = stretch().end + pages * Number(view.range) * DAY;
    view.end = end >= Math.ceil(Date.now() / 3600000) * 3600 ? null : end;
    keep();
    load();
  };
  by("earlier").addEventListener("click", turn(-1));
  by("later").addEventListener("click", turn(1));
  by("now").addEventListener("click", () => { view.end = null; keep(); load(); });
  const rows = by("rows"), stripOf = (event) => event.target.closest?.(".strip");
  rows.addEventListener("pointermove", (event) => { const strip = stripOf(event); if (strip) tell(strip, event); else by("tip").hidden = true; });
  rows.addEventListener("pointerleave", () => { by("tip").hidden = true; });
  rows.addEventListener("keydown", (event) => { const strip = stripOf(event); if (strip) move(strip, event); });
  rows.addEventListener("focusin", (event) => { const strip = stripOf(event); if (strip && strip.index === null && strip.row.segments.length) describe(strip, cellsOf(strip.row).length - 1); });
  rows.addEventListener("click", (event) => {
    const strip = stripOf(event), at = strip ? cellAt(strip, event.clientX) : -1;
    if (at < 0) return;
    by("tip").hidden = true;
    focusOn(strip);
    describe(strip, at);
    openWindow(strip.row.pipeline, cellsOf(strip.row)[at]);
  });
  by("close").addEventListener("click", () => by("panel").close());
  by("panel").addEventListener("close", () => { view.window = null; keep(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let later = 0;
  window.addEventListener("resize", () => { clearTimeout(later); later = setTimeout(redraw, 150); });
  setInterval(() => { if (view.end === null && !document.hidden && !by("panel").open) load(); }, 60000);
  legend();
  const opened = /^(\S+) (\S+)\/(\S+)$/.exec(view.window || "");
  load().then(() => { if (opened && data) openWindow(opened[1], { start: Date.parse(opened[2]) / 1000, end: Date.parse(opened[3]) / 1000 }); });
}

begin();
