// The dialog: the windows of a pipeline that are to be looked at, and one window with its clusters, runs and report.
"use strict";

function table(caption, columns, rows) {
  // Roles: on a phone the cells are stacked, and are no table to the browser any more.
  const names = columns.map((name) => name.replace(/^>/, ""));
  const head = names.map((name, i) => make("th", { scope: "col", role: "columnheader", class: columns[i] === name ? null : "num" }, name));
  const body = rows.map((cells) => make("tr", { role: "row" }, ...cells.map((cell, i) => make(i ? "td" : "th", {
    scope: i ? null : "row", role: i ? "cell" : "rowheader", class: columns[i] !== names[i] ? "num" : i ? null : "path", "data-column": i ? names[i] : null,
  }, cell ?? "–"))));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", { class: "inner", role: "table" }, make("caption", {}, caption),
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...head)), make("tbody", { role: "rowgroup" }, ...body)));
}

const fold = (words, ...content) => make("details", {}, make("summary", {}, make("h3", {}, words)), ...content);

/** ``title``: words, or a small line and the words below it. */
function show(title, ...content) {
  const [above, ...words] = [title].flat();
  by("panel-title").replaceChildren(...(words.length ? [make("small", {}, above), ...words] : [above]));
  by("panel-body").replaceChildren(...content.filter(Boolean));
  if (!by("panel").open) by("panel").showModal();
  by("panel-title").focus();
}

async function openList(row) {
  look({ list: row.pipeline });
  clearTimeout(watching);
  const cells = cellsOf(row).filter((cell) => cell.state !== "shipped").reverse();
  const listed = cells.slice(0, 500).map((cell) => [
    make("button", { type: "button", class: "link", onclick: () => openWindow(row.pipeline, cell) }, span(cell.start, cell.end)), make("div", {}, stateOf(cell.state), wordsOf(row, cell).slice(STATES[cell.state].words.length)),
  ]);
  const doing = make("div", {});
  show(row.pipeline,
    row.description ? make("p", {}, row.description) : null,
    make("p", { class: "note" }, `Owner ${row.owner}; to ${row.clusters.join(", ")}; ${row.schedule ? `schedule ${row.schedule}` : "by hand only"}.`),
    links(row.pipeline, null),
    doing,
    make("h3", {}, cells.length ? "Windows in this range that are not plainly shipped" : "Everything in this range is shipped"),
    cells.length ? table("Windows that are not plainly shipped", ["window", "state"], listed) : null,
    cells.length > listed.length ? make("p", { class: "note" }, `and ${number(cells.length - listed.length)} more`) : null,
    make("p", { class: "note" }, `${plural(row.counts.shipped || 0, "window")} shipped.`));
  try {
    // From the first window that is not shipped to the last; of a pipeline with none, what was seen.
    const bad = cells.filter((cell) => cell.state !== "shipping" && cell.state !== "waiting").reverse(), all = bad.length ? bad : cellsOf(row);
    const first = all[0] || { start: data.start, end: data.end }, last = all.at(-1) || first;
    const about = await ask("api/pipeline", { pipeline: row.pipeline });
    doing.replaceChildren(actions({ ...about, start: first.start, end: last.end, last: last.start }, ["backfill", "quarantine"]));
  } catch { /* the list is there all the same */ }
}

// ---- one window

/** Until when a window is asked for anew although nothing of it is under way: a run was started, and has not begun. */
let watchUntil = 0;
let watching = 0;
let looking = null;

async function openWindow(pipeline, cell, run) {
  clearTimeout(watching);
  const query = { pipeline, window: `${iso(cell.start)}/${iso(cell.end)}`, ...(run ? { run } : {}) }, title = `${pipeline} · ${span(cell.start, cell.end)}`;
  const address = `${pipeline} ${query.window}`, mine = () => view.window === address && view.run === (run || "");
  look({ window: address, run: run || "" });
  show(title, make("p", { class: "note" }, "…"));
  try {
    const found = await ask("api/window", query);
    if (!mine()) return;
    showWindow(found, run);
    watch(found, query);
  } catch (error) {
    if (mine()) show(title, make("p", { role: "alert" }, error.message));
  }
}

function showWindow(found, run) {
  show([`${found.pipeline} · ${span(found.start, found.end)}${run ? ` · run ${run}` : ""}`, judged(found, run)], ...windowParts(found, run));
}

/** While a run is under way its figures follow, and nothing else moves; when it is over, all is shown anew. */
function watch(found, query) {
  const address = view.window, runs = (one) => JSON.stringify([one.begun.map((run) => run.run_id), one.runs.map((run) => [run.run_id, run.ended])]);
  looking = [found, query];
  if (!found.begun.length && Date.now() > watchUntil) return;
  watching = setTimeout(async () => {
    let now = found;
    try { now = await ask("api/window", query); } catch { /* the next time */ }
    if (view.window !== address || !by("panel").open) return;
    if (runs(now) !== runs(found)) {
      showWindow(now, query.run);
      load();
    } else by("live")?.replaceChildren(...liveParts(now));
    watch(now, query);
  }, 3000);
}

function watchForRun() {
  watchUntil = Date.now() + 600000;
  clearTimeout(watching);
  if (looking) watch(...looking);
}

/** The worst state of the clusters, and what it says in a line. A report is of one run: it speaks for the window if the state is that run's. */
function judged(found, run) {
  const worst = RANK.find((state) => found.clusters.some((one) => one.state === state)) ?? null, of = found.clusters.filter((one) => one.state === worst);
  if (found.report && run) return found.report.headline;
  if (found.report && of.some((one) => one.run_id === found.run && !one.by)) return stateOf(worst, found.report.headline);
  const words = worst ? STATES[worst].words : NEVER, more = worst === "waiting" ? ` ${waits(found.end, found.settle, found.now)}`
    : of.some((one) => one.by) ? " by a run over another window" : found.clusters.length > of.length ? ` on ${of.map((one) => one.cluster).join(", ")}` : "";
  return stateOf(worst, words[0].toUpperCase() + words.slice(1) + more);
}

/** How long after the window's end it was there, or was tried last. */
function delay(found) {
  const ran = found.clusters.filter((one) => one.lag !== null);
  if (!ran.length) return null;
  const there = ran.length === found.clusters.length && ran.every((one) => ["shipped", "late", "doubt"].includes(one.state));
  return make("p", { class: "note" }, `${there ? "Delivered" : "Last tried"} ${duration(Math.max(...ran.map((one) => one.lag)))} after the window ended.`);
}

function windowParts(found, run) {
  const report = found.report;
  return [
    make("div", { class: "lines" }, ...(report ? advice(report) : found.runs.length ? causes(found.runs[0]) : [noRun(found) ?? ""]), delay(found) ?? ""),
    ...found.unreported.map(unreported),
    found.problem ? make("p", { class: "note" }, found.problem) : null,
    make("div", { id: "live", class: "lines" }, ...liveParts(found)),
    actions({ ...found, clusters: found.clusters.map((one) => one.cluster) }, ["ship", "plan", ...(report?.clusters.some((one) => one.quarantined) ? ["quarantine"] : [])]),
    links(found.pipeline, found),
    table("What became of it on each cluster", ["cluster", "state", ">after its end", "run"], found.clusters.map((one) => [
      one.cluster, stateOf(one.state), one.lag === null ? "–" : duration(one.lag),
      one.by ? openOther(found.pipeline, one) : one.run_id,
    ])),
    ...(report ? reportParts(report) : []),
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

/** A run that Airflow knows of and that left no report. */
function unreported(run) {
  const words = run.state === "failed" ? `failed${run.failed_in ? ` in ${run.failed_in}` : ""} ${moment(run.ended ?? run.began)} UTC and left no report` : run.state === "running" ? `is running since ${moment(run.began)} UTC` : "is queued";
  return make("p", { class: run.state === "failed" ? "said" : "note" }, `Airflow's run ${run.run_id} ${words}.`);
}

function noRun(found) {
  if (found.begun.length || found.clusters.some((one) => one.run_id)) return null;
  return make("div", { class: "lines" },
    make("p", {}, "No run over this window is known. This ships what is there:"),
    make("p", {}, make("code", { class: "command" }, `shipper run ${found.pipeline} --window ${found.window}`)));
}

const advice = (report) => [
  ...[report.cause, ...report.doubts].filter(Boolean).map((text) => make("p", { class: "said" }, text)),
  report.remedy ? make("p", {}, report.remedy) : "",
  report.command ? make("p", {}, make("code", { class: "command" }, report.command)) : "",
];

function reportParts(report) {
  const names = report.clusters.map((one) => one.cluster), failed = report.checks.filter((check) => !check.passed), held = report.checks.filter((check) => check.passed);
  const checks = (some, words) => table(words, ["check", "gate", "result", "expected", "observed"], some.map((check) => [check.check, check.gate, stateOfCheck(check), check.expected, check.observed]));
  return [
    report.clusters.length ? make("h3", {}, "Records") : null,
    report.clusters.length ? table("Records by cluster", ["cluster", ">read", ">sent", ">there before", ">filtered", ">quarantined", ">topic unavailable"],
      report.clusters.map((one) => [one.cluster, ...["read", "delivered", "before", "filtered", "quarantined", "parked"].map((key) => number(one[key]))])) : null,
    failed.length ? make("h3", {}, `Gates: ${plural(failed.length, "check")} of ${report.checks.length} did not hold`) : null,
    failed.length ? checks(failed, "Checks that did not hold") : null,
    held.length ? fold(`Gates: ${plural(held.length, "check")} of ${report.checks.length} held`, checks(held, "Checks that held")) : null,
    report.file_count ? fold(plural(report.file_count, "file"), table("Files", ["file", ">bytes", ...names.map((name) => `>${name}`)], report.files.map((file) => [
      file.path + (file.late_window ? ` (late, of ${file.late_window})` : ""), bytes(file.bytes), ...names.map((name) => number(file.records[name]))])),
    report.file_count > report.files.length ? make("p", { class: "note" }, `and ${number(report.file_count - report.files.length)} more: the report has all of them`) : "") : null,
    report.left_out.length ? make("h3", {}, "Left out") : null,
    report.left_out.length ? table("Entries that were left out", ["entry", "why"], report.left_out.map((file) => [file.path, file.reason])) : null,
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
    if (found) airflowRuns(pipeline, found).then((runs) => list.append(...runs.map((run) =>
      outside(`${dag}/runs/${encodeURIComponent(run.dag_run_id)}`, `Run in Airflow (${run.run_type}, ${run.state})`))));
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

/** Airflow's runs whose data interval the window is, and those that were asked for it, the latest first: by Airflow's own API with the person's own
    rights. None if it cannot be asked. */
async function airflowRuns(pipeline, found) {
  const address = `${data.airflow}api/v2/dags/${encodeURIComponent(pipeline)}/dagRuns`, same = (text, at) => Date.parse(text) === at * 1000;
  const asked = async (about) => { try { return (await ask(address, about)).dag_runs; } catch { return []; } };
  const [interval, wanted] = await Promise.all([
    asked({ logical_date_gte: iso(found.start), logical_date_lte: iso(found.start), limit: 1 }),
    asked({ conf_contains: iso(found.start).slice(0, 19), order_by: "-run_after", limit: 20 }),
  ]);
  return [...wanted.filter(({ conf }) => same(conf.window_start, found.start) && same(conf.window_end, found.end)).slice(0, 3), ...interval];
}
