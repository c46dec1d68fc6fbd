// One object: YAML with the managers of its fields, editing, events, owners, history, rights.

import { age, announce, confirm, h, problem, show, svg, tabs } from "./dom.js";
import { apiVersion, call, follow, pathOf, search } from "./api.js";
import { lines, toYaml } from "./yaml.js";
import { diffView } from "./diff.js";
import { historyView } from "./history.js";
import { accessView } from "./access.js";

/** Objects in the graph beside the object itself, of each side. */
const MOST_RELATED = 12;
/** Lines of a text to edit that are seen at once. */
const MOST_ROWS = 24;

/** Fills `root` with an object. `context` has `resources`, `open(result)` and `back()`. */
export async function objectView(root, resource, namespace, name, context, signal) {
  const path = pathOf(resource, namespace, name);
  let object;
  try {
    object = await call(path, { signal });
  } catch (error) {
    if (!signal.aborted) show(root, h("h1", {}, name), problem(error));
    return;
  }
  const state = h("span", { class: "muted", role: "status" });
  const listeners = new Set();
  const current = { get: () => object, listen: (hear, until) => { listeners.add(hear); until.addEventListener("abort", () => listeners.delete(hear)); } };
  const take = (next) => {
    object = { apiVersion: apiVersion(resource), kind: resource.kind, ...next };
    describe();
    listeners.forEach((hear) => hear(object));
  };
  const describe = () => {
    state.textContent = object.metadata.deletionTimestamp ? "is being deleted" : `age ${age(object.metadata.creationTimestamp)} · revision ${object.metadata.resourceVersion}`;
  };
  describe();
  const remove = resource.verbs.includes("delete") && h("button", {
    class: "danger",
    onclick: async () => {
      if (!await confirm(`Delete ${resource.kind} ${name}?`, namespace ? `It is in the namespace ${namespace}.` : "It is in no namespace.", "Delete")) return;
      try {
        await call(path, { method: "DELETE", body: { apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid: object.metadata.uid } } });
        announce(`${name} deleted`);
        context.back();
      } catch (error) { show(notice, problem(error)); }
    },
  }, "Delete");
  const notice = h("div", {});
  const parts = [
    ["YAML", (panel, until) => yamlView(panel, current, until)],
    resource.verbs.includes("update") && ["Edit", (panel, until) => editView(panel, current, path, take, until)],
    ["Events", (panel, until) => eventsView(panel, object, context, until)],
    ["Owners", (panel, until) => graphView(panel, object, context, until)],
    resource.verbs.includes("watch") && ["History", (panel, until) => historyView(panel, resource, object, until)],
    ["Access", (panel, until) => accessView(panel, resource, object, until)],
  ].filter(Boolean);
  show(root, h("div", { class: "bar" },
    h("button", { class: "link", onclick: () => context.openKind(resource, namespace) }, `‹ ${resource.plural}`),
    h("h1", {}, name, h("small", {}, [resource.kind, namespace].filter(Boolean).join(" in "))), state, h("span", { class: "grow" }), remove),
  notice, tabs("Views of the object", parts, signal));
  if (!resource.verbs.includes("watch")) return;
  await follow(pathOf(resource, namespace), { fieldSelector: `metadata.name=${name}` }, object.metadata.resourceVersion, signal, (event) => {
    if (event.type === "DELETED") {
      show(notice, h("p", { class: "problem", role: "alert" }, "The object is deleted. This is its last state."));
    } else take(event.object);
  }, async () => {
    take(await call(path, { signal }));
    return object.metadata.resourceVersion;
  });
}

function yamlView(panel, current, signal) {
  const code = h("div", { class: "code yaml", role: "region", "aria-label": "YAML", tabindex: "0" });
  let blame = true;
  const check = h("label", { class: "check" }, h("input", { type: "checkbox", checked: true, onchange: (event) => { blame = event.target.checked; draw(current.get()); } }), "Managers of fields");
  const copy = h("button", { onclick: async () => { await navigator.clipboard.writeText(toYaml(current.get())); announce("Copied"); } }, "Copy");
  function draw(object) {
    let last = "";
    show(code, lines(object).map(({ text, managers }) => {
      const names = managers.map(({ manager }) => manager).join(", ");
      const title = managers.map(({ manager, operation, time }) => `${manager}: ${operation}${time ? ` at ${new Date(time).toLocaleString()}` : ""}`).join("\n");
      const shown = names === last ? "" : names;
      last = names;
      const key = /^(\s*(?:- )*)([^\s:"]+|"[^"]*")(:)(.*)$/.exec(text);
      const content = key ? [key[1], h("span", { class: "key" }, key[2]), key[3], key[4]] : [text || " "];
      return h("div", { class: "line" }, blame && h("span", { class: `blame c${hue(names)}`, title }, shown), h("span", { class: "text" }, content));
    }));
  }
  show(panel, h("div", { class: "bar small" }, check, h("span", { class: "grow" }), copy), code);
  draw(current.get());
  current.listen(draw, signal);
}

/** One of a few colours for a text; 0 for none. */
const hue = (text) => text && 1 + [...text].reduce((sum, character) => (sum * 31 + character.charCodeAt(0)) % 997, 7) % 6;

function editView(panel, current, path, take, signal) {
  let base = current.get();
  const original = () => toYaml(base);
  const fill = () => {
    area.value = original();
    area.rows = Math.min(area.value.split("\n").length + 1, MOST_ROWS);
  };
  const area = h("textarea", { class: "code", "aria-label": "YAML to edit", spellcheck: "false", autocomplete: "off", oninput: () => { save.disabled = true; } });
  fill();
  const said = h("div", { class: "panel" });
  // What the server says stands below a long text.
  const say = (...content) => { show(said, content); said.scrollIntoView({ block: "nearest" }); };
  const check = h("button", { onclick: dryRun }, "Check");
  const save = h("button", { class: "primary", disabled: true, onclick: write }, "Save");
  const put = (text, dry) => call(`${path}?fieldManager=kevel-ui&fieldValidation=Strict${dry ? "&dryRun=All" : ""}`, { method: "PUT", body: text, type: "application/yaml" });
  const bare = (object) => toYaml({ ...object, metadata: { ...object.metadata, resourceVersion: undefined, generation: undefined, managedFields: undefined } });

  async function dryRun() {
    say(h("p", { class: "muted" }, "Asking the server…"));
    try {
      const result = await put(area.value, true);
      const difference = diffView(bare(base), bare(result));
      save.disabled = !difference;
      say(h("h2", {}, difference ? "What saving changes, as the server sees it" : "Saving changes nothing"), difference);
      announce(difference ? "The server accepts it. Differences follow." : "Nothing changes.");
    } catch (error) { refused(error); }
  }

  async function write() {
    save.disabled = true;
    try {
      const result = await put(area.value, false);
      base = result;
      fill();
      take(result);
      say(h("p", { class: "good", role: "status" }, `Saved as revision ${result.metadata.resourceVersion}.`));
    } catch (error) { refused(error); }
  }

  async function refused(error) {
    save.disabled = true;
    if (error.code !== 409) return say(problem(error), causes(error));
    const before = base;
    let latest;
    try { latest = await call(path, { signal }); } catch (gone) { return say(problem(gone)); }
    const rebase = h("button", {
      onclick: () => {
        area.value = area.value.replace(/^( *resourceVersion: ).*$/m, (_, head) => `${head}"${latest.metadata.resourceVersion}"`);
        base = latest;
        dryRun();
      },
    }, "Keep my text, on the latest version");
    const reload = h("button", { onclick: () => { base = latest; fill(); show(said); } }, "Take theirs");
    say(problem(error), h("h2", {}, "What was changed meanwhile"), diffView(bare(before), bare(latest)) || h("p", { class: "muted" }, "Nothing but metadata."), h("div", { class: "actions" }, reload, rebase));
  }

  const other = h("p", { class: "warning", role: "status" });
  current.listen((object) => {
    if (object.metadata.resourceVersion === base.metadata.resourceVersion) return;
    if (area.value === original()) { base = object; fill(); } else other.textContent = "The object has changed since you began. Saving will show the conflict.";
  }, signal);
  show(panel, other, area, h("div", { class: "actions" }, check, save), said);
}

const causes = (error) => {
  const found = error.status?.details?.causes || [];
  return found.length > 1 && h("ul", {}, found.map(({ field, message }) => h("li", {}, h("code", {}, field), " ", message)));
};

async function eventsView(panel, object, context, signal) {
  const events = context.resources.find(({ group, plural }) => group === "" && plural === "events");
  if (!events) return show(panel, h("p", { class: "muted" }, "Events are not served."));
  const { namespace, uid } = object.metadata;
  const path = pathOf(events, namespace || "default");
  const selector = { fieldSelector: `involvedObject.uid=${uid}` };
  const found = new Map();
  const when = (event) => event.lastTimestamp || event.series?.lastObservedTime || event.eventTime || event.metadata.creationTimestamp;
  const draw = () => {
    const rows = [...found.values()].sort((a, b) => (when(a) < when(b) ? 1 : -1));
    if (!rows.length) return show(panel, h("p", { class: "muted" }, "No events. New ones appear here."));
    show(panel, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Events" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Age", "Type", "Reason", "From", "Message"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, rows.map((event) => h("tr", {},
        h("td", {}, age(when(event)), event.count > 1 && h("small", {}, ` ×${event.count}`)), h("td", { class: event.type === "Warning" ? "warn" : "" }, event.type), h("td", {}, event.reason),
        h("td", {}, event.source?.component || event.reportingComponent || ""), h("td", { class: "wrap" }, event.message)))))));
  };
  const list = async () => {
    const page = await call(`${path}?${new URLSearchParams(selector)}`, { signal });
    found.clear();
    for (const event of page.items || []) found.set(event.metadata.uid, event);
    draw();
    return page.metadata.resourceVersion;
  };
  try {
    const version = await list();
    await follow(path, selector, version, signal, (event) => {
      if (event.type === "DELETED") found.delete(event.object.metadata.uid); else found.set(event.object.metadata.uid, event.object);
      draw();
    }, list);
  } catch (error) { if (!signal.aborted) show(panel, problem(error)); }
}

// Owners to the left, what it owns to the right.
async function graphView(panel, object, context, signal) {
  const { namespace = "", uid, ownerReferences = [] } = object.metadata;
  const owners = ownerReferences.map((owner) => ({ ...owner, namespace: isNamespaced(owner, context) ? namespace : "" }));
  let owned = [], complete = true;
  try {
    ({ results: owned, complete } = await search(`owner:${uid}`, signal));
  } catch (error) { if (!signal.aborted) show(panel, problem(error)); return; }
  const self = { apiVersion: object.apiVersion, kind: object.kind, name: object.metadata.name, namespace };
  const [left, right] = [owners, owned].map((side) => side.slice(0, MOST_RELATED));
  const [box, step, apart] = [{ w: 240, h: 46 }, 62, 310];
  // A side without objects takes no room. One unit around is for the lines of the boxes.
  const first = left.length ? apart + 1 : 1, width = first + box.w + (right.length ? apart : 0) + 1;
  const height = Math.max(left.length, right.length, 1) * step + 20;
  const place = (side, index, x) => ({ x, y: (height - side.length * step) / 2 + index * step + 8 });
  const node = (item, { x, y }, own) => {
    const label = `${item.kind} ${short(item.name)}`;
    const go = () => context.open(item);
    return svg("g", own ? { class: "node self" } : { class: "node", role: "link", tabindex: "0", "aria-label": label, onclick: go, onkeydown: (event) => { if (event.key === "Enter") go(); } },
      svg("title", {}, `${item.kind} ${item.name}`), svg("rect", { x, y, width: box.w, height: box.h, rx: 8 }),
      svg("text", { x: x + 12, y: y + 19 }, svg("tspan", { class: "kind" }, item.kind), " ", svg("tspan", { x: x + 12, dy: 17 }, short(item.name))));
  };
  const center = { x: first, y: height / 2 - box.h / 2 };
  const edge = (from, to) => svg("path", { class: "edge", d: `M${from.x + box.w} ${from.y + box.h / 2} C ${from.x + box.w + 30} ${from.y + box.h / 2}, ${to.x - 30} ${to.y + box.h / 2}, ${to.x} ${to.y + box.h / 2}` });
  const [lefts, rights] = [left.map((_, index) => place(left, index, 1)), right.map((_, index) => place(right, index, first + apart))];
  const counted = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;
  const summary = `${counted(owners.length, "owner")}, ${owned.length}${complete ? "" : " or more"} owned ${owned.length === 1 ? "object" : "objects"}`;
  show(panel, h("p", { class: "muted" }, summary, owned.length > MOST_RELATED && `, of which ${MOST_RELATED} are shown`),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Owners and owned objects" }, svg("svg", { class: "graph", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": summary },
      lefts.map((from) => edge(from, center)), rights.map((to) => edge(center, to)),
      left.map((item, index) => node(item, lefts[index])), node(self, center, true), right.map((item, index) => node(item, rights[index])))));
}

const short = (name) => (name.length > 30 ? `${name.slice(0, 14)}…${name.slice(-14)}` : name);

const isNamespaced = (owner, { resources }) => resources.some(({ kind, group, namespaced }) => kind === owner.kind && group === owner.apiVersion.split("/").slice(0, -1).join("") && namespaced);
