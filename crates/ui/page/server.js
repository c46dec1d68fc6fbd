// What the server is doing: plots of its metrics.

import { h, problem, show, svg } from "./dom.js";
import { call, text } from "./api.js";

/** Seconds between two readings, and readings that are kept: five minutes. */
const EVERY = 2;
const KEPT = 150;

const COLOURS = 4;
const bytes = (value) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  for (; value >= 1024 && place < units.length - 1; place++) value /= 1024;
  return `${value.toFixed(value < 10 && place ? 1 : 0)} ${units[place]}`;
};
const number = (value) => (value >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toFixed(1));
const seconds = (value) => (value < 1 ? `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms` : `${value.toFixed(1)} s`);

/** Plots: title, how values are written, and the series of a reading: `[name, value, isCounter]`. */
const PLOTS = [
  ["Requests per second", number, (m) => ["2xx", "4xx", "5xx"].map((codes) => [codes, m.sum("apiserver_request_total", ({ code }) => code?.[0] === codes[0]), true])],
  ["Mean time of a request", seconds, (m) => [["all but watches", [m.sum("apiserver_request_duration_seconds_sum", short), m.sum("apiserver_request_duration_seconds_count", short)], "mean"]]],
  ["Watches", number, (m) => [["open", m.sum("apiserver_longrunning_requests", ({ verb }) => verb === "WATCH"), false]]],
  ["Events sent per second", number, (m) => [["events", m.sum("apiserver_watch_events_total"), true]]],
  ["Requests executing and queued", number, (m) => [["executing", m.sum("apiserver_flowcontrol_current_executing_requests"), false], ["queued", m.sum("apiserver_flowcontrol_current_inqueue_requests"), false]]],
  ["Processor", (value) => `${(value * 100).toFixed(0)} %`, (m) => [["cores", m.sum("process_cpu_seconds_total"), true]]],
  ["Memory", bytes, (m) => [["resident", m.sum("process_resident_memory_bytes"), false]]],
  ["Store", number, (m) => [["objects", m.sum("apiserver_storage_objects"), false]]],
];
function short({ verb }) { return verb !== "WATCH" && verb !== "CONNECT"; }

/** Reads the text of metrics; only names that a plot needs are kept. */
function read(page) {
  const found = new Map();
  for (const line of page.split("\n")) {
    if (!line || line[0] === "#") continue;
    const end = line.search(/[{ ]/), name = line.slice(0, end);
    if (!NEEDED.has(name)) continue;
    const close = line.lastIndexOf("}");
    const labels = {};
    if (line[end] === "{") for (const [, key, value] of line.slice(end + 1, close).matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[key] = value;
    const value = Number(line.slice(Math.max(close + 1, end)).trim().split(" ")[0]);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push([labels, value]);
  }
  return {
    rows: (name) => found.get(name) || [],
    sum: (name, fits = () => true) => (found.get(name) || []).filter(([labels]) => fits(labels)).reduce((sum, [, value]) => sum + value, 0),
  };
}
const NEEDED = new Set(["apiserver_storage_objects", "apiserver_flowcontrol_current_executing_requests"]);
PLOTS.forEach(([, , series]) => series({ sum: (name) => { NEEDED.add(name); return 0; } }));

/** Fills `root` with plots that go on until the signal. */
export async function serverView(root, signal) {
  const plots = PLOTS.map(([title, write, series]) => ({ title, write, series, past: [], lines: [], node: h("section", { class: "card plot" }) }));
  const objects = h("section", { class: "card" }), flows = h("section", { class: "card" });
  const about = h("span", { class: "muted" }), notice = h("div", {});
  show(root, h("div", { class: "bar" }, h("h1", {}, "Server"), about), notice, h("div", { class: "cards" }, plots.map(({ node }) => node), flows, objects));
  call("/version", { signal }).then((version) => { about.textContent = `${version.gitVersion} · ${version.platform}`; }, () => {});
  let former = null;
  while (!signal.aborted) {
    try {
      const now = performance.now() / 1000;
      const metrics = read(await text("/metrics", { accept: "text/plain", signal }));
      plots.forEach((plot) => step(plot, metrics, former && now - former));
      former = now;
      show(notice);
      ranked(objects, "Objects in the store", metrics.rows("apiserver_storage_objects").map(([{ resource, group }, value]) => [[resource, group].filter(Boolean).join("."), value]));
      ranked(flows, "Requests by priority level", sums(metrics.rows("apiserver_flowcontrol_current_executing_requests"), "priority_level"));
    } catch (error) {
      if (signal.aborted) return;
      show(notice, problem(error, error.code === 403 ? " Metrics need the right to get /metrics." : ""));
      if (error.code === 403) return;
    }
    await new Promise((resolve) => { setTimeout(resolve, EVERY * 1000); signal.addEventListener("abort", resolve, { once: true }); });
  }
}

function sums(rows, label) {
  const found = new Map();
  for (const [labels, value] of rows) found.set(labels[label], (found.get(labels[label]) || 0) + value);
  return [...found];
}

function step(plot, metrics, elapsed) {
  const series = plot.series(metrics);
  const values = series.map(([, value, counted], place) => {
    const before = plot.past[place];
    plot.past[place] = value;
    if (!counted) return value;
    if (before === undefined || !elapsed) return null;
    if (counted === "mean") return value[1] > before[1] ? (value[0] - before[0]) / (value[1] - before[1]) : 0;
    return Math.max(0, (value - before) / elapsed);
  });
  plot.lines = series.map(([name], place) => ({ name, values: [...(plot.lines[place]?.values || []), values[place]].slice(-KEPT) }));
  draw(plot);
}

function draw({ title, write, lines, node }) {
  const [width, height] = [320, 90];
  const most = Math.max(...lines.flatMap(({ values }) => values.map((value) => value || 0)), 0), scale = most || 1;
  const path = (values) => {
    const start = KEPT - values.length;
    return values.map((value, place) => (value === null ? "" : `${values[place - 1] === null || place === 0 ? "M" : "L"}${(((start + place) / (KEPT - 1)) * width).toFixed(1)} ${(height - 4 - (value / scale) * (height - 12)).toFixed(1)}`)).join("");
  };
  const last = ({ values }) => values[values.length - 1];
  const said = lines.map((line) => `${line.name} ${last(line) === null ? "–" : write(last(line))}`).join(", ");
  show(node, h("h2", {}, title),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: ${said}`, preserveAspectRatio: "none" },
      svg("path", { class: "base", d: `M0 ${height - 4}H${width}` }), lines.map(({ values }, place) => svg("path", { class: `series s${place % COLOURS}`, d: path(values) }))),
    h("div", { class: "legend" }, lines.map((line, place) => h("span", {}, h("i", { class: `dot s${place % COLOURS}` }), ` ${line.name} `, h("b", {}, last(line) === null ? "–" : write(last(line))))), h("span", { class: "muted" }, `most ${write(most)}`)));
}

function ranked(node, title, rows) {
  const best = rows.sort(([a, x], [b, y]) => y - x || String(a).localeCompare(String(b))).slice(0, 10);
  const most = Math.max(...best.map(([, value]) => value), 1);
  show(node, h("h2", {}, title), best.length ? h("ul", { class: "ranked" }, best.map(([name, value]) => h("li", {}, h("span", {}, name), h("meter", { min: "0", max: String(most), value: String(value), "aria-label": name }), h("b", {}, number(value))))) : h("p", { class: "muted" }, "Not counted yet."));
}
