// What a server cannot do for the Shipments page: keyboard and pointer in a row of windows, parts that are drawn anew without a reload, and requests
// to Airflow's API in the person's name. Parts come drawn from the server; they are parsed and never run.
"use strict";

const OPEN = ["window", "run", "on", "list"];
const ATTENTION = ["failed", "blocked", "missing", "overdue", "trouble", "doubt", "late"];
const DAY = 86400;
const LOGGED_OUT = "You are not logged in, or no longer: reload the page.";
const by = (id) => document.getElementById(id);
const framed = window.parent !== window;
const moment = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");

// ---- parts of the page

/** What the address says, of what is open or of the rest. */
const said = (address, open) => JSON.stringify([...new URL(address, location).searchParams].filter(([key]) => OPEN.includes(key) === open).sort());
let shown = location.href;
const asked = { page: 0, panel: 0 };

/** The address with the changes; what is empty is left out of it. */
function address(changes, from = location.href) {
  const url = new URL(from, location);
  for (const [key, value] of Object.entries(changes)) value ? url.searchParams.set(key, value) : url.searchParams.delete(key);
  return url.href;
}
const isOpen = () => OPEN.some((key) => new URL(location).searchParams.has(key));

async function parse(answer) {
  if (answer.status === 401) throw new Error(LOGGED_OUT);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

/** A part of the page as the server draws it; null if a later one is asked for already. */
async function drawn(part, of) {
  const mine = (asked[part] += 1), answer = await fetch(address({ part }, of), { credentials: "same-origin" }), found = await parse(answer);
  if (mine !== asked[part]) return null;
  if (!found.getElementById(part)) throw new Error(found.body.textContent.trim() || `the server says ${answer.status}`);
  return document.adoptNode(found.getElementById(part));
}

function say(problem) {
  by("problem").hidden = !problem;
  by("problem").textContent = problem || "";
}

async function loadPage() {
  by("page").setAttribute("aria-busy", "true");
  try {
    const fresh = await drawn("page", location.href);
    if (!fresh) return;
    const old = by("page"), focus = document.activeElement, id = old.contains(focus) ? focus.id : "", cell = focus.cell;
    old.replaceWith(fresh);
    say(null);
    wake();
    const again = id && by(id);
    if (!again) return;
    if (id === "q") {
      again.value = focus.value;
      again.setSelectionRange(focus.selectionStart, focus.selectionEnd);
    }
    again.focus({ preventScroll: true });
    if (cell) describe(again, (await windowsOf(again)).findIndex((one) => one.dataset.start === cell.dataset.start));
  } catch (error) {
    by("page").removeAttribute("aria-busy");
    say(error.message);
    wake();
  }
}

async function loadPanel(focus = true) {
  try {
    const fresh = await drawn("panel", location.href);
    if (fresh) showPanel(fresh, focus);
  } catch (error) { say(error.message); }
}

function showPanel(fresh, focus) {
  const old = by("panel"), open = fresh.hasAttribute("open"), place = old.scrollTop;
  old.replaceChildren(...fresh.childNodes);
  if (!open) { old.close(); return; }
  if (!old.open || !old.matches(":modal")) { old.removeAttribute("open"); old.showModal(); }
  if (focus) by("panel-title").focus(); else old.scrollTop = place;
  watch();
}

/** Show what an address says, and keep it in the history. */
function go(to, { replace = false } = {}) {
  if (to === location.href) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  showAddress();
}

function showAddress() {
  const before = shown;
  shown = location.href;
  for (const ask of document.querySelectorAll("dialog.ask[open]")) ask.close();
  if (said(before, false) !== said(shown, false)) loadPage();
  if (said(before, true) !== said(shown, true)) {
    if (isOpen()) loadPanel();
    else { asked.panel += 1; by("panel").close(); }
  }
}

// ---- what is under way

let watching = 0;
/** Until when the panel is drawn anew often: a run was started. */
let watchUntil = 0;

/** Of a run under way only figures are drawn anew. */
function watch() {
  clearTimeout(watching);
  const live = by("live");
  if (!live) return;
  watching = setTimeout(async () => {
    let fresh = null;
    try { if (!document.hidden) fresh = await drawn("panel", location.href); } catch { /* the next time */ }
    const now = fresh?.querySelector("#live");
    if (!by("panel").open) return;
    if (now && now.dataset.runs === by("live")?.dataset.runs) by("live").replaceWith(now);
    else if (now && !document.querySelector("dialog.ask[open]")) {
      showPanel(fresh, false);
      loadPage();
    }
    watch();
  }, "underWay" in live.dataset || Date.now() < watchUntil ? 3000 : 15000);
}

let refreshing = 0;
function wake() {
  clearTimeout(refreshing);
  const seconds = Number(by("page")?.dataset.refresh);
  if (seconds) refreshing = setTimeout(() => (document.hidden || by("panel").open || document.querySelector("select:focus") ? wake() : loadPage()), seconds * 1000);
}

// ---- links and forms

/** Airflow's frame around the page lets it open no window and leave for nowhere: a report takes the page's place (Back returns), and Airflow's own pages
    are opened by a link of the page around it. */
function openLink(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if ("outside" in link.dataset) {
    if (!framed) return;
    event.preventDefault();
    const around = window.parent.document.createElement("a");
    around.href = link.href;
    around.click();
  } else if (link.target) {
    if (framed) { event.preventDefault(); location.assign(link.href); }
  } else if (new URL(link.href).pathname === location.pathname) {
    event.preventDefault();
    go(link.href);
  }
}

let typing = 0;
function filter(event) {
  const { name, value } = event.target, usual = { sort: "bad", range: "7d" };
  if (!event.target.closest("#filters")) return;
  clearTimeout(typing);
  const changes = { [name]: value === usual[name] ? "" : value, ...(name === "range" ? { start: "", end: "" } : {}) };
  typing = setTimeout(() => go(address(changes), { replace: name === "q" }), name === "q" ? 250 : 0);
}

// ---- a row of windows

/** Links to the row's windows, in words: asked for when the row is first looked at. */
function windowsOf(strip) {
  strip.windows ??= fetch(strip.dataset.windows, { credentials: "same-origin" }).then(async (answer) => {
    const found = await parse(answer);
    if (!answer.ok) throw new Error(found.body.textContent.trim());
    return [...found.querySelectorAll("a")].map((link) => document.adoptNode(link));
  }).catch((error) => { strip.windows = null; say(error.message); return []; });
  return strip.windows;
}

const scale = () => ({ start: Number(by("rows").dataset.start), end: Number(by("rows").dataset.end) });
const ends = (cell) => [Number(cell.dataset.start), Number(cell.dataset.end)];

async function describe(strip, index) {
  const cells = await windowsOf(strip), cell = cells[index];
  strip.cell = cell ?? null;
  if (!cell) return;
  strip.setAttribute("aria-valuemax", String(cells.length - 1));
  strip.setAttribute("aria-valuenow", String(index));
  strip.setAttribute("aria-valuetext", cell.textContent);
  const { start, end } = scale(), [from, to] = ends(cell), at = strip.querySelector(".at");
  at.style.left = `${(100 * Math.max(0, from - start)) / (end - start)}%`;
  at.style.width = `${(100 * (Math.min(end, to) - Math.max(start, from))) / (end - start)}%`;
}

function momentAt(element, x) {
  const box = element.getBoundingClientRect(), { start, end } = scale();
  return start + ((x - box.left) / box.width) * (end - start);
}

/** Where windows share a column, the worst of them is seen; elsewhere a shorter one lies above. */
function cellAt(strip, cells, x) {
  const when = momentAt(strip, x), { start, end } = scale(), column = (2 * (end - start)) / strip.clientWidth;
  const rank = (cell) => (ATTENTION.indexOf(cell.className) + 1) || 9;
  let best = -1;
  cells.forEach((cell, i) => {
    const [from, to] = ends(cell), shared = to - from < column * 2;
    if (from - column / 2 > when || when >= to + column / 2) return;
    if (best < 0) { best = i; return; }
    const [otherFrom, otherTo] = ends(cells[best]);
    if (shared ? rank(cell) < rank(cells[best]) || to - from < otherTo - otherFrom : from <= when && when < to) best = i;
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

let pointed = null;
async function point(event) {
  const strip = (pointed = event.target.closest?.(".strip"));
  if (event.buttons) return;
  if (!strip) { tip(null); return; }
  if (!strip.windows) await new Promise((rest) => setTimeout(rest, 80)); // who only passes over it asks for nothing
  if (pointed !== strip) return;
  const cells = await windowsOf(strip), cell = cells[cellAt(strip, cells, event.clientX)];
  if (pointed === strip) tip(cell && `${strip.closest("tr").dataset.pipeline} · ${cell.textContent}`, event);
}

async function press(event) {
  const strip = event.target.closest?.(".strip");
  if (!strip || dragged) return;
  const cells = await windowsOf(strip), at = cellAt(strip, cells, event.clientX);
  if (at < 0) return;
  pointed = null;
  tip(null);
  focusOn(strip);
  describe(strip, at);
  go(cells[at].href);
}

function focusOn(strip) {
  for (const other of document.querySelectorAll('.strip[tabindex="0"]')) other.tabIndex = -1;
  strip.tabIndex = 0;
  strip.focus();
}

const KEYS = "arrowleft arrowright home end pageup pagedown arrowup arrowdown n p + - 0 enter".split(" ");
/** Keys are served one by one: the first may wait for the row's windows. */
let served = Promise.resolve();
function key(event) {
  const strip = event.target.closest?.(".strip"), name = event.key.toLowerCase();
  if (!strip || !KEYS.includes(name) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  served = served.then(() => move(document.activeElement?.closest?.(".strip") ?? strip, name)).catch((error) => say(error.message));
}

async function move(strip, name) {
  const cells = await windowsOf(strip), last = cells.length - 1, here = strip.cell ? cells.indexOf(strip.cell) : last + 1;
  const to = (index) => describe(strip, Math.max(0, Math.min(last, index)));
  const seek = (step) => {
    for (let i = here + step; i >= 0 && i <= last; i += step) if (ATTENTION.includes(cells[i].className)) return to(i);
  };
  const row = async (step) => {
    const strips = [...document.querySelectorAll(".strip")], other = strips[strips.indexOf(strip) + step];
    if (!other) return;
    const when = strip.cell && ends(strip.cell)[0], others = await windowsOf(other);
    await describe(other, when === null ? -1 : others.findLastIndex((cell) => ends(cell)[0] <= when));
    focusOn(other);
  };
  const around = (times) => {
    const { start, end } = scale(), cell = cells[Math.min(here, last)], middle = cell ? (ends(cell)[0] + ends(cell)[1]) / 2 : (start + end) / 2, half = ((end - start) * times) / 2;
    zoom(middle - half, middle + half);
  };
  return ({
    arrowleft: () => to(here - 1), arrowright: () => to(here + 1), home: () => to(0), end: () => to(last), pageup: () => to(here - 24), pagedown: () => to(here + 24),
    arrowup: () => row(-1), arrowdown: () => row(1), n: () => seek(1), p: () => seek(-1), "+": () => around(0.5), "-": () => around(2),
    0: () => go(address({ start: "", end: "" })), enter: () => last >= 0 && go(cells[Math.min(here, last)].href),
  })[name]();
}

// ---- zooming

/** Whole minutes: two at least, and no more than the server answers. */
function zoom(from, to) {
  const start = Math.floor(from / 60) * 60, last = Math.min(to, Date.now() / 1000, start + 400 * DAY);
  go(address({ start, end: Math.max(Math.ceil(last / 60) * 60, start + 120) }));
}

let dragged = false;
/** Dragging over a row or the axis chooses a stretch. A press that does not move is a click. */
function drag(event) {
  const element = event.target.closest?.(".strip, #axis"), lasso = by("lasso"), from = event.clientX;
  dragged = false;
  if (!element || event.button) return;
  const box = element.getBoundingClientRect(), moving = new AbortController();
  const edges = (x) => [from, Math.min(box.right, Math.max(box.left, x))].sort((a, b) => a - b);
  const on = (name, does) => window.addEventListener(name, does, { signal: moving.signal });
  on("pointermove", ({ clientX, clientY }) => {
    const [left, right] = edges(clientX), table = by("grid").getBoundingClientRect(), top = Math.max(0, table.top);
    dragged ||= right - left > 6;
    if (!dragged) return;
    lasso.hidden = false;
    Object.assign(lasso.style, { left: `${left}px`, width: `${right - left}px`, top: `${top}px`, height: `${Math.min(window.innerHeight, table.bottom) - top}px` });
    tip(`${[left, right].map((x) => moment(momentAt(element, x))).join(" – ")} UTC`, { clientX, clientY });
  });
  const over = () => { moving.abort(); lasso.hidden = true; };
  on("pointercancel", over);
  on("pointerup", (up) => {
    over();
    if (dragged) zoom(...edges(up.clientX).map((x) => momentAt(element, x)));
  });
}

// ---- requests with the person's own login: Airflow decides, and remembers who it was

/** The request that a form makes; null: not complete. A field's name is its place in the request. */
function requestOf(form) {
  const body = JSON.parse(form.dataset.body), boxes = {};
  const put = (name, value) => {
    const places = name.split("."), last = places.pop();
    places.reduce((inner, place) => (inner[place] ??= {}), body)[last] = value;
  };
  for (const field of form.querySelectorAll("[name]")) {
    if (field.type === "checkbox") (boxes[field.name] ??= []).push(field);
    else if (field.required && !field.value) return null;
    else if (field.type === "datetime-local") put(field.name, `${field.value}:00Z`);
    else if (field.value.trim()) put(field.name, "json" in field.dataset ? JSON.parse(field.value) : field.value.trim());
  }
  for (const [name, all] of Object.entries(boxes)) {
    const some = all.filter((box) => box.checked).map((box) => box.value);
    if (!some.length) return null;
    if (some.length < all.length) put(name, some);
  }
  return body.from_date > body.to_date ? null : body;
}

async function send(path, body) {
  const answer = await fetch(path, {
    method: "POST", headers: { Accept: "application/json", "Content-Type": "application/json" }, credentials: "same-origin", body: JSON.stringify(body),
  });
  const found = await answer.json().catch(() => ({}));
  if (answer.ok) return found;
  const detail = Array.isArray(found.detail) ? found.detail.map((one) => one.msg || String(one)).join("; ") : found.detail;
  const words = typeof detail === "object" ? JSON.stringify(detail) : detail || `the server says ${answer.status}`;
  throw new Error(answer.status === 401 ? LOGGED_OUT : answer.status === 403 ? `Airflow refuses: you may not do this (${words}).` : `Airflow refuses: ${words}`);
}

function tell(form, words, { refused = false, link = "" } = {}) {
  const said = document.createElement("p"), status = form.querySelector("[role=status]");
  said.textContent = words;
  if (refused) { said.className = "refused"; said.setAttribute("role", "alert"); }
  status.replaceChildren(said);
  if (!link) return;
  const leads = document.createElement("a");
  Object.assign(leads, { href: link, textContent: "See it in Airflow", target: "_blank", rel: "noopener" });
  leads.dataset.outside = "";
  status.append(leads);
}

let proposals = 0;
async function propose(form) {
  const mine = (proposals += 1), body = requestOf(form), button = form.querySelector(".go"), { address: to, dryRun } = form.dataset;
  form.querySelector(".request").textContent = body ? `POST ${to}\n${JSON.stringify(body, null, 1)}` : "–";
  button.disabled = !body || dryRun !== undefined;
  if (!body || dryRun === undefined) return;
  tell(form, "Asking Airflow what this would do …");
  try {
    const found = await send(`${to}/dry_run`, body), days = found.backfills.map((one) => one.logical_date).filter(Boolean).sort().map((text) => moment(Date.parse(text) / 1000));
    if (mine !== proposals) return;
    button.disabled = !found.total_entries;
    tell(form, found.total_entries
      ? `${found.total_entries} ${found.total_entries === 1 ? "run" : "runs"} would be made: of the windows that begin from ${days[0]} to ${days.at(-1)} UTC.`
      : "No run would be made: every window of this stretch has one that is left as it is.");
  } catch (error) { if (mine === proposals) tell(form, error.message, { refused: true }); }
}

async function start(event) {
  const form = event.target, button = form.querySelector(".go");
  event.preventDefault();
  if (!form.matches(".ask form") || button.disabled) return;
  button.disabled = true;
  try {
    const made = await send(form.dataset.address, requestOf(form)), run = made.dag_run_id;
    if (made.accepted) tell(form, "Noted.");
    else tell(form, `Airflow has taken it: ${run ? `run ${run} is ${made.state}` : `backfill ${made.id}`}.`, { link: form.dataset.done + encodeURIComponent(run ?? "") });
    for (const field of form.querySelectorAll("input, select")) field.disabled = true;
    form.querySelector("[data-close]").textContent = "Close";
    form.querySelector("[data-close]").focus();
    if (run) { watchUntil = Date.now() + 600000; watch(); }
  } catch (error) {
    tell(form, error.message, { refused: true });
    button.disabled = false;
  }
}

let later = 0;
function changed(event) {
  const form = event.target.closest?.(".ask form");
  if (!form) { filter(event); return; }
  form.querySelector(".go").disabled = true;
  clearTimeout(later);
  later = setTimeout(propose, 300, form);
}

function pressButton(event) {
  const opens = event.target.closest?.("[data-opens]"), ask = opens ? by(opens.dataset.opens) : event.target.closest?.("[data-close]")?.closest("dialog");
  if (!ask) return;
  if (!opens) { ask.close(); return; }
  ask.showModal();
  ask.querySelector("h2").focus();
  propose(ask.querySelector("form"));
}

function begin() {
  // A link from outside says `dag_id`, which is Airflow's name of the pipeline.
  const url = new URL(location.href), dag = url.searchParams.get("dag_id");
  if (dag) {
    url.searchParams.delete("dag_id");
    url.searchParams.set("pipeline", dag);
    history.replaceState(null, "", url);
    shown = location.href;
  }
  const panel = by("panel");
  panel.addEventListener("close", (event) => {
    clearTimeout(watching);
    if (event.target !== panel || panel.open || !isOpen()) return;
    history.pushState(null, "", address({ window: "", run: "", on: "", list: "" }));
    shown = location.href;
  });
  if (panel.hasAttribute("open")) { panel.removeAttribute("open"); panel.showModal(); by("panel-title").focus(); watch(); }
  wake();
}

// Before the first control is on the screen, so that none is used in vain.
for (const [name, does] of Object.entries({ click: openLink, submit: start, input: changed, pointerdown: drag, pointermove: point, keydown: key })) document.addEventListener(name, does);
document.addEventListener("click", press);
document.addEventListener("click", pressButton);
document.addEventListener("focusin", async (event) => {
  const strip = event.target.closest?.(".strip");
  if (strip && !strip.cell) describe(strip, (await windowsOf(strip)).length - 1);
});
window.addEventListener("popstate", showAddress);
document.addEventListener("DOMContentLoaded", begin);
