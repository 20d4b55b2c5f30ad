// The grid: asks api/grid for segments, and paints each pipeline's windows into one canvas when it comes into sight.
"use strict";

const view = { q: "", show: "", cluster: "", sort: "name", range: "7", end: null, window: null, on: null };
let data = null;
let shown = [];
let asked = 0;

function stretch() {
  const end = view.end ?? Math.ceil(Date.now() / 3600000) * 3600;
  return { start: end - Number(view.range) * DAY, end };
}

async function load() {
  const mine = (asked += 1);
  const { query, address } = question(stretch().end);
  const kept = ahead.address === address ? { ...ahead } : null;
  by("grid").setAttribute("aria-busy", "true");
  try {
    // What was fetched ahead is there at once; when it is no longer fresh, what is so now follows it.
    if (kept) arrived(await kept.answer, mine);
    if (!kept || Date.now() - kept.at > FRESH_MS) arrived(await ask("api/grid", query), mine);
    // An answer has a bound: the rest of a long range follows, the newest first.
    while (mine === asked && data.from > data.start) arrived(joined(await ask("api/grid", { ...query, end: iso(data.from) }), data), mine);
    setTimeout(() => { if (mine === asked) lookAhead(stretch().end - Number(view.range) * DAY); }, 300);
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

function question(end) {
  const query = { start: iso(end - Number(view.range) * DAY), end: iso(end), cluster: view.cluster };
  return { query, address: JSON.stringify(query) };
}

// The page of history before the one that is shown is fetched when that is there, and the one that a button leads to when somebody points at it.
const FRESH_MS = 10000;
const ahead = { address: "", answer: null, at: 0 };
function lookAhead(end, { fresh = false } = {}) {
  const { query, address } = question(end);
  if (ahead.address === address && !(fresh && Date.now() - ahead.at > FRESH_MS)) return;
  const answer = ask("api/grid", query);
  Object.assign(ahead, { address, answer, at: Date.now() });
  answer.catch(() => { if (ahead.answer === answer) ahead.address = ""; });
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
  const kept = focused();
  shown = data.pipelines.filter(wanted).sort((a, b) => ORDERS[view.sort](a, b) || ORDERS.name(a, b));
  unseen?.disconnect();
  unseen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { unseen.unobserve(entry.target); paint(entry.target.strip); }
  }, { rootMargin: "400px" });
  by("rows").replaceChildren(...shown.map((row) => (row.element ??= tableRow(row)))); // searching and sorting make none anew
  shown.forEach(({ element }, i) => { element.strip.tabIndex = i ? -1 : 0; unseen.observe(element); });
  drawAxis();
  sumUp();
  if (kept) focusAgain(kept);
  by("later").disabled = by("now").disabled = view.end === null;
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
  const found = make("tr", { role: "row", "data-pipeline": row.pipeline },
    make("th", { scope: "row", role: "rowheader" },
      make("button", { type: "button", class: "link", onclick: () => openList(row) }, row.pipeline), make("small", {}, note)),
    make("td", { role: "cell" }, row.newest ? moment(row.newest) : "–",
      row.newest ? make("small", {}, ` ${duration(Math.max(0, data.now - row.newest))} ago`) : null),
    make("td", { role: "cell" }, duration(row.lag)),
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
  const room = (end - start) * (days <= 3 ? 0.16 : 0.08); // of a label
  for (let at = Math.ceil(start / step) * step; at <= end - room; at += step) {
    const label = make("span", {}, days <= 3 ? moment(at).slice(5, 16) : moment(at).slice(5, 10));
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
  strip.setAttribute("aria-valuetext", cell ? `${span(cell.start, cell.end)}: ${STATES[cell.state].words}` : last >= 0 ? plural(last + 1, "window") : "no windows");
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

// ---- what the page remembers in its address

const KEPT = { q: "", show: "", cluster: "", sort: "name", range: "7", end: null, window: null, on: null };
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
  select.replaceChildren(...names.map((name) => make("option", { value: name }, name || "all (the worst)")));
  select.value = view.cluster;
  by("clusters").replaceChildren(data.clusters.length ? "What arrives on " : "", ...data.clusters.map((name) =>
    make("button", { type: "button", class: "link", onclick: () => openCluster(name) }, name)));
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
  if (data) for (const row of by("rows").rows) unseen.observe(row);
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
  for (const [id, pages] of [["earlier", -1], ["later", 1]]) {
    const there = () => {
      const end = stretch().end + pages * Number(view.range) * DAY;
      return end >= Math.ceil(Date.now() / 3600000) * 3600 ? null : end;
    };
    by(id).addEventListener("click", () => { view.end = there(); keep(); load(); });
    for (const about of ["pointerenter", "focus"]) by(id).addEventListener(about, () => {
      const end = there();
      if (end !== null && !by(id).disabled) lookAhead(end, { fresh: true });
    });
  }
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
  by("panel").addEventListener("close", () => { clearTimeout(watching); view.window = view.on = null; keep(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let later = 0;
  window.addEventListener("resize", () => { clearTimeout(later); later = setTimeout(redraw, 150); });
  const follow = () => {
    if (view.end === null && !document.hidden && !by("panel").open) load();
    setTimeout(follow, data?.pipelines.some((row) => row.counts.shipping) ? 15000 : 60000);
  };
  setTimeout(follow, 60000);
  legend();
  const opened = /^(\S+) (\S+)\/(\S+)$/.exec(view.window || "");
  load().then(() => { if (data && view.on) openCluster(view.on); else if (opened && data) openWindow(opened[1], { start: Date.parse(opened[2]) / 1000, end: Date.parse(opened[3]) / 1000 }); });
}

begin();
