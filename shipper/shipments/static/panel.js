// The dialog: the windows of a pipeline that are to be looked at, and one window with its clusters, runs and report.
"use strict";

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

async function openList(row) {
  view.window = view.on = null;
  keep();
  clearTimeout(watching);
  const cells = cellsOf(row).filter((cell) => cell.state !== "shipped").reverse();
  const listed = cells.slice(0, 500).map((cell) => [
    make("button", { type: "button", class: "link", onclick: () => openWindow(row.pipeline, cell) }, span(cell.start, cell.end)), stateOf(cell.state),
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
  view.on = null;
  view.window = `${pipeline} ${iso(cell.start)}/${iso(cell.end)}`;
  keep();
  show(`${pipeline}, ${span(cell.start, cell.end)}`, make("p", { class: "note" }, "…"));
  try {
    const query = { pipeline, window: `${iso(cell.start)}/${iso(cell.end)}` };
    const found = await ask("api/window", run ? { ...query, run } : query);
    show(`${pipeline}, ${span(cell.start, cell.end)}`, ...windowParts(found));
    watch(found, run ? { ...query, run } : query);
  } catch (error) {
    show(`${pipeline}, ${span(cell.start, cell.end)}`, make("p", { role: "alert" }, error.message));
  }
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
      by("panel-body").replaceChildren(...windowParts(now));
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

function windowParts(found) {
  const report = found.report;
  return [
    table("What became of it on each cluster", ["cluster", "state", ">lag", "by"], found.clusters.map((one) => [
      one.cluster, stateOf(one.state), one.lag === null ? "–" : duration(one.lag),
      one.by ? openOther(found.pipeline, one) : one.run_id,
    ])),
    make("div", { id: "live", class: "lines" }, ...liveParts(found)),
    links(found.pipeline, found),
    actions({ ...found, clusters: found.clusters.map((one) => one.cluster) }, ["ship", "plan", ...(report?.clusters.some((one) => one.quarantined) ? ["quarantine"] : [])]),
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
