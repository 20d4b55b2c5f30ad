// A cluster's page: what arrived there in the grid's range, when, from which pipelines, in which topics; and what is on its way.
"use strict";

async function openCluster(name) {
  look({ on: name });
  const title = `Cluster ${name}`, { start, end } = stretch();
  show(title, make("p", { class: "note" }, "…"));
  try {
    const found = await ask("api/cluster", { cluster: name, start: iso(start), end: iso(end) });
    if (view.on === name) show(title, ...clusterParts(found));
  } catch (error) {
    if (view.on === name) show(title, make("p", { role: "alert" }, error.message));
  }
}

function clusterParts(found) {
  const sum = (key) => found.pipelines.reduce((all, one) => all + one[key], 0);
  const pipelines = found.pipelines.map((one) => [
    make("button", { type: "button", class: "link", onclick: () => showPipeline(one.pipeline) }, one.pipeline), number(one.records), bytes(one.bytes),
    bytes(one.wire_bytes), number(one.ships), moment(one.last), number(one.quarantined), number(one.parked), number(one.ledger),
  ]);
  return [
    make("p", {}, `${moment(found.start)} to ${moment(found.end)} UTC: ${plural(sum("records"), "record")} (${bytes(sum("bytes"))}, ${bytes(sum("wire_bytes"))} on the wire) in ${plural(sum("ships"), "ship")}, `
      + `from ${number(found.pipelines.length)} of ${plural(found.of, "pipeline")} that ship here; ${plural(sum("quarantined"), "record")} in quarantine.`),
    make("h3", {}, found.running.length ? "On its way now" : "Nothing is on its way now"),
    found.running.length ? table("Runs that are under way", ["pipeline", "window (UTC)", ">records", ">records/s", "left", "topics unavailable"], found.running.map((run) => [
      make("button", { type: "button", class: "link", onclick: () => openWindow(run.pipeline, run) }, run.pipeline), span(run.start, run.end).replace(" UTC", ""),
      run.ship ? number(run.ship.records) : "–", run.ship ? number(run.ship.records_per_second) : "–",
      run.ship ? left(run.ship) : "not shipping yet", run.ship?.parked.join(", ") || "–",
    ])) : null,
    found.rates.length ? make("h3", {}, `Records over time, ${duration(found.step)} each`) : null,
    found.rates.length ? chart(found) : null,
    pipelines.length ? make("h3", {}, "Pipelines") : null,
    pipelines.length ? table("What arrived from each pipeline", ["pipeline", ">records", ">bytes", ">on the wire", ">ships", "last (UTC)", ">quarantined", ">topic unavailable", ">ledger entries"], pipelines) : null,
    pipelines.length ? make("p", { class: "note" }, "Topic unavailable: records that waited until the end for a topic that could not be written to, and were not sent. Ledger entries: ever written about chunks, when the last ship began.") : null,
    found.topics.length ? make("h3", {}, "Topics") : null,
    found.topics.length ? table("What arrived in each topic", ["topic", "from", ">records", ">bytes", ">not sent: unavailable", "last (UTC)"], found.topics.map((one) => [
      one.topic + (one.quarantine ? " (quarantine)" : ""), one.pipeline, number(one.records), bytes(one.bytes), number(one.parked), moment(one.last)])) : null,
  ].filter(Boolean);
}

function showPipeline(pipeline) {
  const row = data?.pipelines.find((one) => one.pipeline === pipeline);
  if (row) openList(row);
}

/** Bars as a picture with its sum in words; exact figures are in the tables. */
function chart(found) {
  const space = "http://www.w3.org/2000/svg", most = Math.max(1, ...found.rates.map((one) => one[1])), first = Math.floor(found.start / found.step);
  const columns = Math.max(1, Math.ceil(found.end / found.step) - first), width = 960 / columns;
  const busiest = found.rates.find((one) => one[1] === most) || found.rates[0];
  const words = `Most at ${moment(busiest[0])} UTC: ${plural(busiest[1], "record")} in ${duration(found.step)}, ${pace(busiest[1] / found.step)}.`;
  const picture = document.createElementNS(space, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 960 120", preserveAspectRatio: "none", role: "img", "aria-label": words, class: "rates" })) picture.setAttribute(key, value);
  for (const [at, records] of found.rates) {
    const bar = document.createElementNS(space, "rect"), tall = Math.max(records ? 1.5 : 0, (118 * records) / most);
    const place = { x: (at / found.step - first) * width + width * 0.08, y: 120 - tall, width: width * 0.84, height: tall };
    for (const [key, value] of Object.entries(place)) bar.setAttribute(key, value.toFixed(2));
    picture.append(bar);
  }
  return make("figure", {}, picture, make("div", { class: "ends", "aria-hidden": "true" }, make("span", {}, moment(found.start)), make("span", {}, moment(found.end))),
    make("figcaption", {}, words));
}

// ---- a ship that is not over

const left = (ship) => (ship.seconds_left === null ? "–" : `about ${duration(ship.seconds_left)}`);

/** What a window's runs that are not over have done until now. */
function liveParts(found) {
  return found.begun.map((run) => {
    const steps = run.done.length ? `; done: ${run.done.map((name) => name.replace("_", " ").replace(".", " to ")).join(", ")}` : "";
    return make("div", { class: "lines" },
      make("p", {}, `Run ${run.run_id} began ${moment(run.at)} UTC, ${duration(Math.max(0, found.now - run.at))} ago, and has left no report yet${steps}.`),
      ...run.ships.map((ship) => {
        const share = ship.splits ? ship.done / ship.splits : 0, silent = found.now - ship.at;
        return make("div", { class: "ship" },
          make("progress", { max: "1", value: String(share), "aria-label": `Share of ${ship.cluster} that is shipped` }),
          make("p", {}, `${ship.cluster}: ${plural(ship.records, "record")} (${bytes(ship.bytes)}), ${Math.floor(100 * share)}% of ${plural(ship.splits, "split")}, `
            + `${number(ship.records_per_second)} records/s${ship.seconds_left === null ? "" : `, ${left(ship)} left`}${silent > 30 ? `; last heard of ${duration(silent)} ago` : ""}`),
          ship.parked.length ? make("p", { class: "refused" }, `Records wait for ${ship.parked.join(", ")}, which cannot be written to.`) : null);
      }));
  });
}
