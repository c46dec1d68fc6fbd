// Differences of an object over the revisions that are still stored.

import { h, problem, show } from "./dom.js";
import { call, pathOf, watchOnce } from "./api.js";
import { toYaml } from "./yaml.js";
import { diffView } from "./diff.js";

/** Milliseconds without an event after which all of the past has arrived. */
const QUIET = 700;
/** Milliseconds after which a watch is not refused any more. */
const REFUSED_BY = 250;
/** Revisions that are asked for at a time. */
const PROBES = 8n;
/** States that are shown at most, the newest. */
const MOST_STATES = 100;

/** Fills `panel` with the states of an object, newest first. */
export async function historyView(panel, resource, object, signal) {
  const { namespace, name, uid } = object.metadata;
  const path = pathOf(resource, namespace);
  const selector = { fieldSelector: `metadata.name=${name}` };
  try {
    const list = await call(`${path}?${new URLSearchParams({ ...selector, limit: "1" })}`, { signal });
    const oldest = await oldestRevision(path, selector, BigInt(list.metadata.resourceVersion), signal);
    const states = await statesSince(path, selector, oldest, uid, signal);
    if (!signal.aborted) draw(panel, states, oldest);
  } catch (error) {
    if (!signal.aborted) show(panel, problem(error));
  }
}

// A watch from a revision that is gone is refused at once, so the oldest one is found by dividing: several at a time, as
// a watch that is not refused says nothing for a while.
async function oldestRevision(path, selector, newest, signal) {
  let gone = 0n, there = newest;
  while (there - gone > 1n) {
    const step = (there - gone) / PROBES || 1n;
    const asked = [];
    for (let revision = gone + step; revision < there && asked.length < Number(PROBES); revision += step) asked.push(revision);
    const stored = await Promise.all(asked.map((revision) => isStored(path, selector, revision, signal)));
    const first = stored.indexOf(true);
    if (first >= 0) there = asked[first];
    const last = first < 0 ? asked.length - 1 : first - 1;
    if (last >= 0) gone = asked[last];
  }
  return there;
}

async function isStored(path, selector, revision, signal) {
  const query = (more) => new URLSearchParams({ ...selector, ...more, resourceVersion: String(revision), timeoutSeconds: "1" });
  const stop = linked(signal);
  try {
    // The head of the answer comes when the watch has begun; the first event or bookmark is not waited for.
    setTimeout(() => stop.abort(), REFUSED_BY);
    await watchOnce(path, query, stop.signal, () => stop.abort());
  } catch (error) {
    if (error.code === 410) return false;
    if (error.name !== "AbortError" || signal.aborted) throw error;
  }
  return true;
}

function linked(signal) {
  const controller = new AbortController();
  signal.addEventListener("abort", () => controller.abort(), { once: true });
  return controller;
}

async function statesSince(path, selector, oldest, uid, signal) {
  const states = [];
  try {
    const past = await call(`${path}?${new URLSearchParams({ ...selector, resourceVersion: String(oldest), resourceVersionMatch: "Exact" })}`, { signal });
    for (const object of past.items || []) states.push({ type: "STORED", object: { apiVersion: past.apiVersion, kind: past.kind.replace(/List$/, ""), ...object } });
  } catch (error) {
    if (error.code !== 410) throw error;
  }
  const stop = linked(signal);
  const query = (more) => new URLSearchParams({ ...selector, ...more, resourceVersion: String(oldest), timeoutSeconds: "10" });
  let quiet = setTimeout(() => stop.abort(), QUIET);
  try {
    await watchOnce(path, query, stop.signal, (event) => {
      clearTimeout(quiet);
      quiet = setTimeout(() => stop.abort(), QUIET);
      if (event.type !== "BOOKMARK") states.push(event);
    });
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
  return states.filter(({ object }) => object.metadata.uid === uid).slice(-MOST_STATES);
}

function draw(panel, states, oldest) {
  const shownAs = (object) => {
    const { managedFields, resourceVersion, ...metadata } = object.metadata;
    return toYaml({ ...object, metadata });
  };
  const parts = states.map((state, place) => {
    const { metadata } = state.object;
    const before = states[place - 1];
    const title = { ADDED: "Created", MODIFIED: "Changed", DELETED: "Deleted", STORED: "As first stored" }[state.type] || state.type;
    const who = newest(metadata.managedFields);
    const body = before ? diffView(shownAs(before.object), shownAs(state.object)) || h("p", { class: "muted" }, "Nothing but its metadata.")
      : h("p", { class: "muted" }, state.type === "ADDED" ? "The object was created with this revision." : "What was before is compacted.");
    return h("section", { class: "revision" },
      h("h2", {}, title, h("small", {}, ` revision ${metadata.resourceVersion}`, before && who && ` · last field manager ${who.manager}, ${new Date(who.time).toLocaleString()}`)), body);
  });
  show(panel, h("p", { class: "muted" }, `${states.length} states since revision ${oldest}, the oldest that this server still has. Newest first.`), parts.reverse());
}

const newest = (fields = []) => fields.filter(({ time }) => time).sort((a, b) => (a.time < b.time ? 1 : -1))[0];
