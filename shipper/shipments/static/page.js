// The grid: asks api/grid for segments, and paints each pipeline's windows into one canvas when it comes into sight. The address after # is the state:
// who goes back, or changes it, gets what it says.
"use strict";

/** All that the address says, by default. ``start`` and ``end``: seconds, if the grid does not end now; ``start`` alone of a stretch that was zoomed into. */
const USUAL = { q: "", pipeline: "", show: "", cluster: "", sort: "bad", range: "7d", start: 0, end: 0, window: "", run: "", on: "", list: "" };
const view = { ...USUAL };
let data = null;
let shown = [];
let scale = { start: 0, end: 1 };
let asked = 0;
/** Seconds of the shortest windows that are shown: "last 50 windows" counts these. */
let shortest = 3600;
let counted = false;

function stretch() {
  if (view.start) return { start: view.start, end: view.end };
  const long = Number.parseInt(view.range, 10) * { h: 3600, d: DAY, w: shortest }[view.range.at(-1)], grain = long < DAY ? 60 : 3600;
  const end = view.end || Math.ceil(Date.now() / 1000 / grain) * grain;
  return { start: end - long, end };
}

function turned(pages) {
  const { start, end } = stretch(), by = pages * (end - start);
  return { start: start + by, end: end + by };
}

const isNow = (end) => end >= Date.now() / 1000;

async function load() {
  const mine = (asked += 1), { start, end } = stretch();
  const query = { start: iso(start), end: iso(end), cluster: view.cluster };
  by("grid").setAttribute("aria-busy", "true");
  try {
    arrived(await ask("api/grid", query), mine);
    // An answer has a bound: the rest of a long range follows, the newest first.
    while (mine === asked && data.from > data.start) arrived(joined(await ask("api/grid", { ...query, end: iso(data.from) }), data), mine);
  } catch (error) {
    if (mine === asked) say(error.message);
  }
  if (mine === asked) by("grid").removeAttribute("aria-busy");
}

function arrived(found, mine) {
  if (mine !== asked) return; // a later question is under way
  data = found;
  say(null);
  fillClusters();
  render();
  if (view.range.endsWith("w") && !view.start && !counted) {
    counted = true;
    const least = Math.min(...shown.flatMap((row) => row.segments.map((one) => one[1])));
    if (Number.isFinite(least) && least !== shortest) { shortest = least; load(); }
  }
}

function joined(older, newer) {
  const rows = new Map(older.pipelines.map((row) => [row.pipeline, row]));
  const pipelines = newer.pipelines.map((row) => {
    const before = rows.get(row.pipeline);
    if (!before) return row;
    const counts = { ...row.counts };
    for (const [state, many] of Object.entries(before.counts)) counts[state] = (counts[state] || 0) + many;
    return { ...row, counts, segments: [...before.segments, ...row.segments], cells: null, element: null };
  });
  return { ...newer, from: older.from, pipelines };
}

function say(problem) {
  by("problem").hidden = !problem;
  by("problem").textContent = problem || "";
}

// ---- the table

const badness = (row) => ATTENTION.reduce((sum, state) => sum * 1000 + Math.min(999, row.counts[state] || 0), 0);
const ORDERS = {
  bad: (a, b) => b.rank - a.rank,
  name: (a, b) => (a.pipeline < b.pipeline ? -1 : 1),
  old: (a, b) => (a.newest ?? 0) - (b.newest ?? 0),
  lag: (a, b) => (b.schedule ? b.lag ?? -1 : -1) - (a.schedule ? a.lag ?? -1 : -1),
};

function matches(row) {
  const q = view.q.trim().toLowerCase();
  if (row.replay_of && !row.segments.length) return false;
  if (view.pipeline && ![row.pipeline, row.replay_of].includes(view.pipeline)) return false;
  return !q || `${row.pipeline} ${row.owner}`.toLowerCase().includes(q);
}

/** Rows in their order; each replay follows its pipeline, and a pipeline counts as bad as the worst of its replays. */
function ordered(rows) {
  const names = new Set(rows.map((row) => row.pipeline)), parent = (row) => (names.has(row.replay_of) ? row.replay_of : null);
  const replays = {}, rank = {};
  for (const row of rows) {
    const name = parent(row) || row.pipeline;
    rank[name] = Math.max(rank[name] || 0, badness(row));
    if (parent(row)) (replays[name] ??= []).push(row);
  }
  for (const row of rows) row.rank = rank[row.pipeline];
  return rows.filter((row) => !parent(row)).sort((a, b) => ORDERS[view.sort](a, b) || ORDERS.name(a, b)).flatMap((row) => [row, ...(replays[row.pipeline] || [])]);
}

let unseen = null;
function render() {
  const kept = focused(), found = data.pipelines.filter(matches);
  shown = ordered(found.filter((row) => !view.show || row.counts[view.show]));
  scale = fit();
  unseen?.disconnect();
  unseen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { unseen.unobserve(entry.target); paint(entry.target.strip); }
  }, { rootMargin: "400px" });
  by("rows").replaceChildren(...shown.map((row) => (row.element ??= tableRow(row)))); // searching and sorting make none anew
  shown.forEach(({ element }, i) => { element.strip.tabIndex = i ? -1 : 0; unseen.observe(element); });
  drawAxis();
  sumUp(found);
  if (kept) focusAgain(kept);
  by("later").disabled = isNow(stretch().end);
  by("now").disabled = !view.end;
  by("whole").hidden = !view.start;
  by("only").hidden = !view.pipeline;
  by("only").textContent = `Only ${view.pipeline} ✕`;
}

/** The stretch that the grid shows: that of the data, if they fill less than three quarters of what was asked for. */
function fit() {
  const { start, end, now } = data, windows = shown.filter((row) => row.segments.length);
  if (view.start || !windows.length) return { start, end };
  const first = Math.max(start, Math.min(...windows.map((row) => row.segments[0][0])));
  const last = Math.max(...windows.map((row) => row.segments.at(-1)).map(([begin, step, many]) => begin + step * many), now);
  return end - first > 0.75 * (end - start) ? { start, end } : { start: first, end: Math.min(end, Math.ceil(last / 60) * 60) };
}

/** Where in the table the focus is, so that new rows can have it there again. */
function focused() {
  const element = document.activeElement, row = element?.closest?.("#rows tr");
  if (!row) return null;
  const index = element.index ?? null;
  return { pipeline: row.dataset.pipeline, link: [...row.querySelectorAll("button")].indexOf(element), start: index === null ? null : cellsOf(element.row)[index]?.start };
}

function focusAgain({ pipeline, link, start }) {
  const row = document.querySelector(`tr[data-pipeline="${CSS.escape(pipeline)}"]`);
  if (!row) return;
  if (link >= 0) { row.querySelectorAll("button")[link]?.focus(); return; }
  const strip = row.querySelector(".strip"), index = cellsOf(strip.row).findIndex((cell) => cell.start === start);
  focusOn(strip);
  if (index >= 0) describe(strip, index);
}

function sumUp(found) {
  const own = (rows) => rows.filter((row) => !row.replay_of).length, all = own(data.pipelines);
  by("sum").textContent = `${own(shown) === all ? plural(all, "pipeline") : `${number(own(shown))} of ${plural(all, "pipeline")}`} · ${span(scale.start, scale.end)}`;
  for (const chip of by("counts").children) {
    const state = chip.dataset.state, many = found.reduce((sum, row) => sum + (row.counts[state] || 0), 0);
    chip.hidden = !many && view.show !== state;
    chip.setAttribute("aria-pressed", String(view.show === state));
    chip.querySelector("b").textContent = number(many);
  }
  by("none").hidden = shown.length > 0;
  const about = [view.pipeline && `is called “${view.pipeline}”`, view.q && `has “${view.q}” in its name or owner`, view.show && `has windows ${STATES[view.show].words} in this range`];
  by("none-words").textContent = data.pipelines.length ? `No pipeline ${about.filter(Boolean).join(" and ")}.` : "No pipeline is known yet.";
  by("clear").hidden = !data.pipelines.length;
}

function tableRow(row) {
  const bad = ATTENTION.filter((state) => row.counts[state]);
  const short = (n) => n.toLocaleString("en-US", { notation: "compact" });
  const attention = bad.length
    ? make("button", { type: "button", class: "link counts", "aria-label": bad.map((state) => `${number(row.counts[state])} ${STATES[state].words}`).join(", "), onclick: () => openList(row) },
      ...bad.flatMap((state) => count(state, short(row.counts[state]))))
    : make("span", { class: "dim" }, row.segments.length ? "nothing" : NEVER);
  const strip = make("div", {
    class: "strip", role: "slider", tabindex: "-1", "aria-label": `Windows of ${row.pipeline}`, "aria-describedby": "keys", "aria-orientation": "horizontal",
  }, make("canvas", { "aria-hidden": "true" }), make("div", { class: "at" }));
  strip.row = row;
  describe(strip, null);
  const replay = row.replay_of ? `replay ${row.pipeline.split(".replay.")[1]}` : null;
  const note = [row.owner, row.replay_of ? null : row.retired ? "no longer in the configuration" : row.stands_still ? "the schedule stands still: no run for more than two ticks" : row.schedule ? null : "no schedule"].filter(Boolean).join(" · ");
  const found = make("tr", { role: "row", "data-pipeline": row.pipeline, class: replay ? "replay" : null },
    make("th", { scope: "row", role: "rowheader", title: `${row.pipeline} · ${note}` },
      make("button", { type: "button", class: "link", "aria-label": row.pipeline, onclick: () => openList(row) }, replay || row.pipeline), make("small", {}, note)),
    make("td", { role: "cell" }, row.newest ? moment(row.newest).slice(5) : "–",
      row.newest ? make("small", {}, ` ${duration(Math.max(0, data.now - row.newest)).split(" ")[0]} ago`) : null),
    make("td", { role: "cell", class: row.schedule ? null : "none" }, row.schedule ? duration(row.lag) : "–"),
    make("td", { role: "cell" }, attention),
    make("td", { role: "cell" }, strip));
  found.strip = strip;
  return found;
}

// ---- a row's windows

const countOf = (row) => row.segments.reduce((sum, [, , many]) => sum + many, 0);

function cellsOf(row) {
  if (!row.cells) {
    row.cells = [];
    for (const [start, step, many, state] of row.segments)
      for (let i = 0; i < many; i += 1) row.cells.push({ start: start + i * step, end: start + (i + 1) * step, state: data.states[state] });
    row.cells.sort((a, b) => a.start - b.start || b.end - a.end);
  }
  return row.cells;
}

const wordsOf = (row, cell) => STATES[cell.state].words + (cell.state === "waiting" ? ` ${waits(cell.end, row.settle, data.now)}` : "");

let colours = null;
function colour(name) {
  if (!colours) colours = getComputedStyle(document.documentElement);
  return colours.getPropertyValue(`--${name}`).trim();
}

function sizeOf(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const box = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(box.width * ratio));
  canvas.height = Math.round(box.height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return { context, width: box.width, height: box.height };
}

function block(context, state, left, width, height) {
  const { tall, mark } = STATES[state];
  context.fillStyle = colour(state);
  context.fillRect(left, height - tall, width, tall);
  if (width < 12 || tall < 10) return;
  context.fillStyle = colour("mark");
  context.font = "bold 11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(mark, left + width / 2, height - tall / 2 + 0.5);
}

function paint(strip) {
  const { context, width, height } = sizeOf(strip.firstChild);
  const { start, end } = scale, ratio = width / (end - start);
  const cells = cellsOf(strip.row);
  context.fillStyle = colour("line");
  context.fillRect(0, height - 1, width, 1);
  const narrow = cells.length && Math.min(...cells.slice(0, 50).map((cell) => cell.end - cell.start)) * ratio < NARROWEST;
  if (!narrow) {
    for (const cell of cells) {
      const left = Math.max(0, Math.round((cell.start - start) * ratio)), right = Math.round(Math.min(width, (cell.end - start) * ratio));
      const gap = (cell.end - cell.start) * ratio >= 6 ? 1 : 0;
      context.clearRect(left, 0, right - left, height - 1); // of what lies under it: a longer window
      block(context, cell.state, left, Math.max(1, right - left - gap), height);
    }
    return;
  }
  // Several windows share a column: it shows the worst of them, so that no failure is ever too small to be seen.
  const columns = new Array(Math.max(1, Math.floor(width / NARROWEST))).fill(RANK.length), each = (end - start) / columns.length;
  for (const cell of cells) {
    const rank = RANK.indexOf(cell.state);
    const from = Math.max(0, Math.floor((cell.start - start) / each)), to = Math.min(columns.length, Math.ceil((cell.end - start) / each));
    for (let i = from; i < to; i += 1) if (rank < columns[i]) columns[i] = rank;
  }
  const edge = (i) => Math.round((i * width) / columns.length);
  columns.forEach((rank, i) => { if (rank < RANK.length) block(context, RANK[rank], edge(i), edge(i + 1) - edge(i), height); });
}

const STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 3 * 3600, 6 * 3600, 12 * 3600, DAY, 2 * DAY, 5 * DAY, 10 * DAY, 30 * DAY, 90 * DAY];
function drawAxis() {
  const { start, end } = scale, axis = by("axis"), room = (84 * (end - start)) / Math.max(1, axis.clientWidth); // of a label, in seconds
  const step = STEPS.find((one) => one >= room) ?? STEPS.at(-1);
  axis.replaceChildren();
  let day = "";
  for (let at = Math.ceil(start / step) * step; at <= end - room; at += step) {
    const said = moment(at), today = said.slice(5, 10), label = make("span", {}, today === day ? said.slice(11, 16) : step < DAY ? said.slice(5, 16) : today);
    day = step < DAY ? today : "";
    label.style.left = `${(100 * (at - start)) / (end - start)}%`;
    axis.append(label);
  }
}

function describe(strip, index) {
  // Without an index only how many there are is wanted: to make 720 cells for each of 500 rows takes half a second.
  const cell = index === null ? null : cellsOf(strip.row)[index], last = countOf(strip.row) - 1;
  strip.index = index;
  strip.setAttribute("aria-valuemin", "0");
  strip.setAttribute("aria-valuemax", String(Math.max(0, last)));
  strip.setAttribute("aria-valuenow", String(index ?? Math.max(0, last)));
  strip.setAttribute("aria-valuetext", cell ? `${span(cell.start, cell.end)}: ${wordsOf(strip.row, cell)}` : last >= 0 ? plural(last + 1, "window") : "no windows");
  if (!cell) return;
  const { start, end } = scale, at = strip.lastChild;
  at.style.left = `${(100 * Math.max(0, cell.start - start)) / (end - start)}%`;
  at.style.width = `${(100 * (Math.min(end, cell.end) - Math.max(start, cell.start))) / (end - start)}%`;
}

function momentAt(element, x) {
  const box = element.getBoundingClientRect();
  return scale.start + ((x - box.left) / box.width) * (scale.end - scale.start);
}

function cellAt(strip, x) {
  const when = momentAt(strip, x), cells = cellsOf(strip.row), slack = (NARROWEST * (scale.end - scale.start)) / strip.clientWidth;
  let best = -1;
  cells.forEach((cell, i) => {
    if (cell.start - slack / 2 > when || when >= cell.end + slack / 2) return;
    // Where windows share a column, what can be seen there is the worst of them.
    const narrower = best < 0 || RANK.indexOf(cell.state) < RANK.indexOf(cells[best].state) || cell.end - cell.start < cells[best].end - cells[best].start;
    const shared = cell.end - cell.start < slack * 2;
    if (best < 0 || (shared ? narrower : cell.start <= when && when < cell.end)) best = i;
  });
  return best;
}

function tip(words, event) {
  const box = by("tip");
  box.hidden = !words;
  if (!words) return;
  box.textContent = words;
  box.style.left = `${Math.min(event.clientX + 12, window.innerWidth - box.offsetWidth - 8)}px`;
  box.style.top = `${event.clientY + 18}px`;
}

function tell(strip, event) {
  const cell = strip && cellsOf(strip.row)[cellAt(strip, event.clientX)];
  tip(cell && `${strip.row.pipeline} · ${span(cell.start, cell.end)} · ${wordsOf(strip.row, cell)}`, event);
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
  const around = (times) => {
    const { start, end } = scale, cell = cells[strip.index ?? last], middle = cell ? (cell.start + cell.end) / 2 : (start + end) / 2, half = ((end - start) * times) / 2;
    zoom(middle - half, middle + half);
  };
  const keys = {
    ArrowLeft: () => to(here - 1), ArrowRight: () => to(here + 1), Home: () => to(0), End: () => to(last),
    PageUp: () => to(here - 24), PageDown: () => to(here + 24), ArrowUp: () => row(-1), ArrowDown: () => row(1),
    n: () => seek(1), p: () => seek(-1), "+": () => around(0.5), "-": () => around(2), 0: () => set({ start: 0, end: 0 }, load),
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

// ---- zooming

/** Whole minutes: two at least, and no more than the server answers. */
function zoom(from, to) {
  const start = Math.floor(from / 60) * 60, last = Math.min(to, Date.now() / 1000, start + 400 * DAY), end = Math.max(Math.ceil(last / 60) * 60, start + 120);
  set({ start, end }, load);
}

/** A stretch is chosen by dragging over a row, or over the axis. What is done with a press that does not move is a click's. */
function drag(event) {
  const element = event.target.closest?.(".strip, #axis"), lasso = by("lasso"), from = event.clientX, moving = new AbortController();
  if (!element || event.button) return;
  let dragged = false;
  const ends = (x) => { const box = element.getBoundingClientRect(); return [from, Math.min(box.right, Math.max(box.left, x))].sort((a, b) => a - b); };
  const on = (name, does) => window.addEventListener(name, does, { signal: moving.signal, capture: true });
  on("pointermove", (moved) => {
    const [left, right] = ends(moved.clientX), table = by("grid").getBoundingClientRect(), top = Math.max(0, table.top);
    dragged ||= right - left > 6;
    if (!dragged) return;
    moved.stopPropagation();
    lasso.hidden = false;
    Object.assign(lasso.style, { left: `${left}px`, width: `${right - left}px`, top: `${top}px`, height: `${Math.min(window.innerHeight, table.bottom) - top}px` });
    tip(span(...[left, right].map((x) => Math.round(momentAt(element, x) / 60) * 60)), moved);
  });
  const over = () => { moving.abort(); lasso.hidden = true; };
  on("pointercancel", over);
  on("pointerup", (up) => {
    over();
    if (!dragged) return;
    tip(null);
    const click = new AbortController(); // the one that ends the press
    window.addEventListener("click", (event) => event.stopPropagation(), { capture: true, signal: click.signal });
    setTimeout(() => click.abort(), 50);
    setTimeout(() => zoom(...ends(up.clientX).map((x) => momentAt(element, x))));
  });
}

// ---- the address

function keep({ replace = false } = {}) {
  const kept = new URLSearchParams(Object.entries(view).filter(([key, value]) => value !== USUAL[key]));
  if (!location.search && String(kept) === String(new URLSearchParams(location.hash.slice(1)))) return;
  history[replace ? "replaceState" : "pushState"](null, "", location.pathname + (kept.size ? `#${kept}` : ""));
}

/** Change what the page shows, and its address. ``then``: ``load`` asks the server, ``render`` shows otherwise what is there. */
function set(changes, then, how) {
  Object.assign(view, changes);
  keep(how);
  if (!then) return;
  counted = false;
  if (then === load || view.range.endsWith("w")) load();
  else if (data) render();
}

/** What the panel shows. */
const look = (at) => set({ window: "", run: "", on: "", list: "", ...at });

function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  // A link from outside has its places in the query, which a login keeps; `dag_id` is Airflow's name of the pipeline.
  for (const [key, value] of new URLSearchParams(location.search)) {
    const place = key === "dag_id" ? "pipeline" : key;
    if (!kept.has(place)) kept.set(place, value);
  }
  for (const [key, usual] of Object.entries(USUAL)) view[key] = !kept.has(key) ? usual : usual === 0 ? Number(kept.get(key)) || 0 : kept.get(key);
  if (!ORDERS[view.sort]) view.sort = USUAL.sort;
  if (!STATES[view.show]) view.show = "";
  if (view.start >= view.end) view.start = 0;
  if (![...by("range").options].some((option) => option.value === view.range)) view.range = USUAL.range;
  for (const key of ["q", "sort", "range", "cluster"]) by(key).value = view[key];
  counted = false;
  keep({ replace: true });
}

function openKept() {
  const opened = /^(\S+) (\S+)\/(\S+)$/.exec(view.window), row = data?.pipelines.find((one) => one.pipeline === view.list);
  if (opened) openWindow(opened[1], { start: Date.parse(opened[2]) / 1000, end: Date.parse(opened[3]) / 1000 }, view.run);
  else if (view.on) openCluster(view.on);
  else if (row) openList(row);
  else by("panel").close();
}

const there = () => JSON.stringify(Object.entries(view));
async function followAddress() {
  const before = there();
  recall();
  if (there() === before) return; // a browser tells of one step twice
  by("ask").close();
  const ready = load();
  if (!data) await ready;
  openKept();
}

function fillClusters() {
  const select = by("cluster"), names = ["", ...data.clusters];
  if (select.options.length === names.length) return;
  select.replaceChildren(...names.map((name) => make("option", { value: name }, name || "all (the worst)")));
  select.value = view.cluster;
  by("clusters").replaceChildren(data.clusters.length ? "Clusters: " : "", ...data.clusters.map((name) =>
    make("button", { type: "button", class: "link", onclick: () => openCluster(name) }, name)));
}

function redraw() {
  colours = null;
  if (!data) return;
  drawAxis();
  for (const row of by("rows").rows) unseen.observe(row);
}

function begin() {
  for (const [state, { words }] of Object.entries(STATES)) {
    by("counts").append(make("button", { type: "button", hidden: true, "data-state": state, onclick: () => set({ show: view.show === state ? "" : state }, render) }, ...count(state, "", ` ${words}`)));
    document.documentElement.style.setProperty(`--${state}-tall`, `${STATES[state].tall}px`);
  }
  const changed = (key, then, more) => by(key).addEventListener(key === "q" ? "input" : "change", (event) => set({ ...more, [key]: event.target.value }, then, { replace: key === "q" }));
  changed("q", render);
  changed("sort", render);
  changed("cluster", load);
  changed("range", load, { start: 0, end: 0 });
  by("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const [id, pages] of [["earlier", -1], ["later", 1]]) {
    by(id).addEventListener("click", () => {
      const { start, end } = turned(pages);
      set(view.start ? { start, end } : { end: isNow(end) ? 0 : end }, load);
    });
  }
  for (const id of ["now", "whole"]) by(id).addEventListener("click", () => set({ start: 0, end: 0 }, load));
  by("only").addEventListener("click", () => { set({ pipeline: "" }, render); by("q").focus(); });
  by("clear").addEventListener("click", () => { by("q").value = ""; set({ q: "", pipeline: "", show: "" }, render); by("q").focus(); });
  const rows = by("rows"), stripOf = (event) => event.target.closest?.(".strip");
  by("grid").addEventListener("pointerdown", drag);
  rows.addEventListener("pointermove", (event) => tell(stripOf(event), event));
  rows.addEventListener("pointerleave", () => tip(null));
  rows.addEventListener("keydown", (event) => { const strip = stripOf(event); if (strip) move(strip, event); });
  rows.addEventListener("focusin", (event) => { const strip = stripOf(event); if (strip && strip.index === null && strip.row.segments.length) describe(strip, cellsOf(strip.row).length - 1); });
  rows.addEventListener("click", (event) => {
    const strip = stripOf(event), at = strip ? cellAt(strip, event.clientX) : -1;
    if (at < 0) return;
    tip(null);
    focusOn(strip);
    describe(strip, at);
    openWindow(strip.row.pipeline, cellsOf(strip.row)[at]);
  });
  by("close").addEventListener("click", () => by("panel").close());
  by("panel").addEventListener("close", () => {
    clearTimeout(watching);
    if (!by("panel").open) look({});
  });
  for (const event of ["popstate", "hashchange"]) window.addEventListener(event, followAddress);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let later = 0;
  window.addEventListener("resize", () => { clearTimeout(later); later = setTimeout(redraw, 150); });
  const follow = () => {
    if (!view.end && !document.hidden && !by("panel").open) load();
    setTimeout(follow, data?.pipelines.some((row) => row.counts.shipping) ? 15000 : 60000);
  };
  setTimeout(follow, 60000);
  recall();
  load().then(() => { if (data) openKept(); });
}

begin();
