// What a person may do with a pipeline's windows. Each button opens a dialog that says what would happen, and shows the request; nothing is done before
// a second press. In Airflow the page asks Airflow's own API with the person's own login, so that Airflow decides, and remembers who it was. Without
// Airflow the dialog has the command to copy.
"use strict";

const WHY_NOT = "You may look at this pipeline, and not start runs of its DAG: Airflow would refuse.";
const UNSCHEDULED = "A backfill makes runs for windows of a schedule, and this pipeline has none: ship one window after the other, or a wide one.";

/** ``about``: pipeline, start and end in seconds, clusters, airflow, may_run, scheduled; ``wanted``: which of the buttons. */
function actions(about, wanted) {
  const locked = about.airflow && !about.may_run;
  const all = {
    plan: ["Plan (dry run)…", () => proposeRun(about, true), locked && WHY_NOT],
    ship: ["Ship this window…", () => proposeRun(about, false), locked && WHY_NOT],
    backfill: ["Backfill these windows…", () => proposeBackfill(about), locked ? WHY_NOT : about.scheduled ? null : UNSCHEDULED],
    quarantine: ["Replay quarantine…", () => proposeReplay(about), null],
  };
  const reasons = [...new Set(wanted.map((name) => all[name][2]).filter(Boolean))];
  return make("div", { class: "actions", role: "group", "aria-label": "What can be done" },
    ...wanted.map((name) => {
      const [words, open, why] = all[name];
      return make("button", { type: "button", disabled: Boolean(why), "aria-describedby": why ? `why-not-${reasons.indexOf(why)}` : null, onclick: open }, words);
    }),
    ...reasons.map((why, i) => make("p", { class: "note", id: `why-not-${i}` }, why)));
}

// ---- the dialog

/** ``request``: makes [path, body] of what is chosen; null: not complete. ``look``: asks what it would do, and returns that in words; throws if it cannot. */
function propose({ title, says, fields = [], request, look, verb, done }) {
  const shown = make("pre", { class: "request", tabindex: "0", "aria-label": "The request" });
  const outcome = make("div", { class: "lines", role: "status" });
  const go = make("button", { type: "button", class: "go" }, verb);
  const cancel = make("button", { type: "button", onclick: () => by("ask").close() }, "Cancel");
  let asked = 0, later = 0;
  const changed = async () => {
    const mine = (asked += 1), wanted = request();
    shown.textContent = wanted ? `POST ${wanted[0]}\n${JSON.stringify(wanted[1], null, 1)}` : "–";
    go.disabled = !wanted || Boolean(look);
    if (!wanted || !look) return;
    outcome.replaceChildren(make("p", { class: "note" }, "Asking Airflow what this would do …"));
    try {
      const words = await look(wanted);
      if (mine !== asked) return;
      outcome.replaceChildren(make("p", {}, words.text));
      go.disabled = !words.possible;
    } catch (error) {
      if (mine === asked) outcome.replaceChildren(refusal(error));
    }
  };
  go.addEventListener("click", async () => {
    const [path, body] = request();
    go.disabled = true;
    outcome.replaceChildren(make("p", { class: "note" }, "…"));
    try {
      outcome.replaceChildren(...done(await send(path, body)));
      for (const field of fields) for (const input of field.querySelectorAll("input, select")) input.disabled = true;
      cancel.textContent = "Close";
      cancel.focus();
    } catch (error) {
      outcome.replaceChildren(refusal(error));
      go.disabled = false;
    }
  });
  for (const field of fields) field.addEventListener("input", () => { clearTimeout(later); go.disabled = true; later = setTimeout(changed, 300); });
  openAsk(title, ...says.map((text) => make("p", {}, text)), ...fields, make("h3", {}, "What is asked of Airflow, in your name"), shown, outcome,
    make("div", { class: "actions" }, go, cancel));
  changed();
}

const refusal = (error) => make("p", { class: "refused", role: "alert" }, error.status === 403 ? `Airflow refuses: you may not do this (${error.message}).` : `Airflow refuses: ${error.message}`);

function openAsk(title, ...content) {
  by("ask-title").textContent = title;
  by("ask-body").replaceChildren(...content);
  if (!by("ask").open) by("ask").showModal();
  by("ask-title").focus();
}

const api = (about, path) => `${about.airflow}api/v2/${path}`;
const dagOf = (about) => `${about.airflow}dags/${encodeURIComponent(about.pipeline)}`;
const windowOf = (about) => `${iso(about.start)}/${iso(about.end)}`;

function choices(legend, names) {
  if (names.length < 2) return null;
  return make("fieldset", {}, make("legend", {}, legend),
    ...names.map((name) => make("label", {}, make("input", { type: "checkbox", value: name, checked: true }), ` ${name}`)));
}
const chosen = (field) => [...field.querySelectorAll("input:checked")].map((input) => input.value);

// ---- one window

function proposeRun(about, dry) {
  const what = dry ? "Plan" : "Ship";
  const title = `${what} ${about.pipeline}, ${span(about.start, about.end)}`;
  const effect = dry
    ? "A dry run: it lists the files, asks each cluster's ledger what is there, and says in the log of its task “report” what would be sent. Nothing is sent."
    : "Sends what the ledgers of the clusters lack of this window, after the source gate has looked at it. What is there already is not sent again.";
  if (!about.airflow) { proposeCommand(title, [effect], [`shipper ${dry ? "plan" : "run"} ${about.pipeline} --window ${windowOf(about)}`]); return; }
  const clusters = choices("Clusters", about.clusters), waits = make("p", { class: "note" });
  const request = () => {
    const conf = { window_start: iso(about.start), window_end: iso(about.end) };
    if (dry) conf.plan_only = true;
    if (clusters) {
      const some = chosen(clusters);
      if (!some.length) return null;
      if (some.length < about.clusters.length) conf.clusters = some;
    }
    return [api(about, `dags/${encodeURIComponent(about.pipeline)}/dagRuns`), { logical_date: null, conf, note: `Window ${span(about.start, about.end)}, from the Shipments page` }];
  };
  propose({
    title, says: [`Starts a run of the DAG ${about.pipeline} over this window.`, effect, waits], fields: clusters ? [clusters] : [], request,
    verb: dry ? "Start the dry run" : "Ship the window",
    done: (run) => {
      watchForRun();
      return [make("p", {}, `Airflow has taken it: run ${run.dag_run_id} is ${run.state}.`), outside(`${dagOf(about)}/runs/${encodeURIComponent(run.dag_run_id)}`, "Run in Airflow")];
    },
  });
  whatWaits(about).then((text) => { waits.textContent = text; });
}

/** Whether the run would begin at once; nothing where the person may not know. */
async function whatWaits(about) {
  const dag = `dags/${encodeURIComponent(about.pipeline)}`, said = [];
  try {
    const [settings, runs] = await Promise.all([ask(api(about, dag), {}), ask(api(about, `${dag}/dagRuns`), { state: "running", limit: 1 })]);
    if (settings.is_paused) said.push("The DAG is paused: the run waits until somebody unpauses it.");
    if (runs.total_entries) said.push(`A run of this DAG is under way (${runs.dag_runs[0].dag_run_id}): this one begins after it.`);
  } catch { /* said by the request itself, if it is refused too */ }
  return said.join(" ");
}

// ---- many windows

function proposeBackfill(about) {
  const title = `Backfill ${about.pipeline}`;
  const effect = "Each sends what the ledgers lack of its window; what is there already is not sent again.";
  if (!about.airflow) {
    proposeCommand(title, ["One run over all of them: one Spark job, one report.", "It sends what the ledgers lack; what is there already is not sent again."],
      [`shipper run ${about.pipeline} --window ${windowOf(about)}`]);
    return;
  }
  const moments = (id, words, at) => make("label", {}, words, make("input", { type: "datetime-local", id, step: "60", value: iso(at).slice(0, 16), required: true }));
  const select = (id, words, options) => make("label", {}, words, make("select", { id }, ...options.map(([value, text]) => make("option", { value }, text))));
  const fields = make("div", { class: "fields" },
    moments("from", "First window begins (UTC)", about.start), moments("to", "Last window begins (UTC)", about.last),
    select("again", "Windows that have a run", [["failed", "again, if it failed"], ["completed", "again, whatever it said"], ["none", "leave them out"]]),
    select("order", "Order", [["", "oldest first"], ["back", "newest first"]]),
    select("most", "Runs at once", [["1", "1"], ["2", "2"], ["4", "4"]]),
    make("label", {}, "At most, to each cluster", make("input", { id: "cap", placeholder: "no limit, or 5MB/s", autocomplete: "off" })));
  const field = (id) => fields.querySelector(`#${id}`).value;
  const request = () => {
    if (!field("from") || !field("to") || field("from") > field("to")) return null;
    const body = {
      dag_id: about.pipeline, from_date: `${field("from")}:00Z`, to_date: `${field("to")}:00Z`, reprocess_behavior: field("again"),
      run_backwards: field("order") === "back", max_active_runs: Number(field("most")),
    };
    if (field("cap").trim()) body.dag_run_conf = { rate_limit: field("cap").trim() };
    return [api(about, "backfills"), body];
  };
  propose({
    title, says: ["Starts a backfill of the DAG: a run for each window of its schedule in this stretch.", effect], fields: [fields], request,
    look: async ([path, body]) => {
      const found = await send(`${path}/dry_run`, body), days = found.backfills.map((one) => one.logical_date).filter(Boolean).sort();
      if (!found.total_entries) return { possible: false, text: "No run would be made: every window of this stretch has one that is left as it is." };
      const at = (text) => moment(Date.parse(text) / 1000);
      return { possible: true, text: `${plural(found.total_entries, "run")} would be made: of ${days.length > 1 ? `the windows that begin from ${at(days[0])} to ${at(days.at(-1))}` : `the window that begins ${at(days[0])}`} UTC.` };
    },
    verb: "Start the backfill",
    done: (made) => [make("p", {}, `Airflow has taken it: backfill ${made.id}.`), outside(`${dagOf(about)}/backfills`, "Backfills in Airflow")],
  });
}

// ---- commands

function proposeReplay(about) {
  const name = about.pipeline;
  proposeCommand(`Replay what is in quarantine of ${name}`, [
    "Records in quarantine were unfit to be shipped. So each has to be repaired before it is sent, and that is done with a file, at the command line of a machine that reaches the cluster. "
      + "The second command changes nothing: it writes the records down. After you have repaired “value” and “topic”, the last one sends each to its topic, exactly once; those that were sent before are skipped.",
    "It takes the pipeline's lease, so no ship may be under way.",
  ], [
    `shipper quarantine list ${name}`, `shipper quarantine show ${name} --json > ${name}.jsonl`, `shipper quarantine replay ${name} ${name}.jsonl`,
  ]);
}

function proposeCommand(title, says, commands) {
  openAsk(title, ...says.map((text) => make("p", {}, text)), ...commands.map(copyable),
    make("div", { class: "actions" }, make("button", { type: "button", onclick: () => by("ask").close() }, "Close")));
}

function copyable(command) {
  const text = make("code", { class: "command" }, command);
  const button = make("button", { type: "button", "aria-label": `Copy ${command}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
    } catch { // not over plain HTTP
      getSelection().selectAllChildren(text);
      button.textContent = "Selected";
    }
  });
  return make("p", { class: "copy" }, text, button);
}
