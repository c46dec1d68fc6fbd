// A live table of a resource, as `kubectl get` shows it. Only the rows that can be seen are in the document.

import { announce, age, h, problem, show } from "./dom.js";
import { follow, pathOf, table } from "./api.js";

const ROW_HEIGHT = 34;
/** Rows made beyond the visible ones, above and below. */
const OVERSCAN = 8;
/** Objects asked for at a time: the first appear at once. */
const PAGE = 500;
/** Rows by which the widths of columns are set. */
const MEASURED = 300;
/** Milliseconds for which a changed row is marked. */
const MARKED = 1500;

const keyOf = (row) => `${row.object.metadata.namespace || ""}/${row.object.metadata.name}`;

/** Fills `root` with the objects of a resource in a namespace (all if empty); `open` is called with a chosen one. */
export async function tableView(root, resource, namespace, open, signal) {
  const path = pathOf(resource, namespace);
  const rows = new Map();
  const changed = new Map();
  let columns = [], keys = [], sorting = null, wide = false, words = "", version = "", focused = 0, frame = 0, loading = true;

  const count = h("span", { class: "muted", "data-count": true });
  const filter = h("input", {
    type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", autocomplete: "off",
    oninput: () => { words = filter.value.toLowerCase(); arrange(); },
  });
  const more = h("label", { class: "check" },
    h("input", { type: "checkbox", onchange: (event) => { wide = event.target.checked; setColumns(); arrange(); } }), "All columns");
  const head = h("div", { class: "row head", role: "row", "aria-rowindex": "1" });
  const body = h("div", { class: "rows", role: "rowgroup" });
  const notice = h("div", {});
  const grid = h("div", {
    class: "grid", role: "grid", "aria-label": `${resource.kind} objects`, "aria-readonly": "true", tabindex: "-1",
    onscroll: () => draw(), onkeydown: (event) => move(event),
  }, h("div", { role: "rowgroup", class: "headgroup" }, head), body);
  show(root,
    h("div", { class: "bar" }, h("h1", {}, resource.kind, resource.group && h("small", {}, resource.group)), count, h("span", { class: "grow" }), filter, more),
    notice, grid);

  let shown = [];
  function setColumns() {
    const own = columns.map((column, index) => ({ ...column, index })).filter((column) => wide || !column.priority);
    const name = own.findIndex((column) => column.name === "Name");
    if (resource.namespaced && !namespace) own.splice(Math.max(name, 0), 0, { name: "Namespace", index: -1 });
    shown = own;
    show(head, shown.map((column, place) => h("div", { role: "columnheader", "aria-colindex": place + 1, "aria-sort": sortedBy(column) },
      h("button", { title: column.description || "", onclick: () => sort(column) }, column.name,
        h("span", { "aria-hidden": "true" }, { ascending: " ▲", descending: " ▼", none: "" }[sortedBy(column)])))));
    widths();
  }

  const sortedBy = (column) => (sorting?.name === column.name ? (sorting.down ? "descending" : "ascending") : "none");

  function widths() {
    const sample = keys.slice(0, MEASURED).map((key) => rows.get(key));
    const parts = shown.map((column) => {
      const longest = sample.reduce((most, row) => Math.max(most, cell(row, column).length), column.name.length + 2);
      const width = Math.min(Math.max(longest + 2, 6), 46);
      return `minmax(${width}ch, ${width}fr)`;
    });
    grid.style.setProperty("--columns", parts.join(" "));
    grid.setAttribute("aria-colcount", shown.length);
  }

  function cell(row, column) {
    if (column.index < 0) return row.object.metadata.namespace || "";
    if (column.name === "Age") return age(row.object.metadata.creationTimestamp);
    const value = row.cells[column.index];
    return value === null || value === undefined ? "" : String(value);
  }

  function sort(column) {
    sorting = sorting?.name === column.name ? { ...column, down: !sorting.down } : { ...column, down: false };
    announce(`Sorted by ${column.name}`);
    setColumns();
    arrange();
  }

  // The order of rows: by key, as the server has them, or by a column.
  function arrange() {
    const fits = (row) => !words || [row.object.metadata.namespace || "", ...row.cells].some((value) => String(value).toLowerCase().includes(words));
    keys = [...rows.keys()].filter((key) => !words || fits(rows.get(key)));
    if (sorting) {
      const value = (row) => {
        if (sorting.name === "Age") return -Date.parse(row.object.metadata.creationTimestamp);
        const own = sorting.index < 0 ? row.object.metadata.namespace : row.cells[sorting.index];
        return typeof own === "number" ? own : String(own ?? "");
      };
      const order = new Intl.Collator("en", { numeric: true }).compare;
      const values = new Map(keys.map((key) => [key, value(rows.get(key))]));
      const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : order(String(a), String(b)));
      keys.sort((a, b) => compare(values.get(a), values.get(b)) * (sorting.down ? -1 : 1));
    } else {
      keys.sort();
    }
    focused = Math.min(focused, Math.max(keys.length - 1, 0));
    const all = rows.size === keys.length ? `${rows.size}` : `${keys.length} of ${rows.size}`;
    count.textContent = `${all} ${rows.size === 1 ? "object" : "objects"}${loading ? " …" : ""}`;
    grid.setAttribute("aria-rowcount", keys.length + 1);
    body.style.height = `${keys.length * ROW_HEIGHT}px`;
    draw();
  }

  function draw() {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      const first = Math.max(0, Math.floor(grid.scrollTop / ROW_HEIGHT) - OVERSCAN);
      const last = Math.min(keys.length, Math.ceil((grid.scrollTop + grid.clientHeight) / ROW_HEIGHT) + OVERSCAN);
      const had = body.contains(document.activeElement);
      const now = Date.now();
      const made = [];
      for (let place = first; place < last; place++) made.push(rowNode(place, now));
      show(body, made);
      if (had) body.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
    });
  }

  function rowNode(place, now) {
    const row = rows.get(keys[place]);
    const recent = now - (changed.get(keys[place]) || 0) < MARKED;
    const { name, deletionTimestamp } = row.object.metadata;
    const node = h("div", {
      class: `row${recent ? " changed" : ""}${deletionTimestamp ? " leaving" : ""}`, role: "row", "aria-rowindex": place + 2,
      tabindex: place === focused ? "0" : "-1", "data-name": name,
      onclick: () => { if (!String(getSelection())) open(row.object.metadata); },
      onfocus: () => { focused = place; },
    }, shown.map((column) => h("div", { role: "gridcell", class: tone(column, cell(row, column)) }, cell(row, column))));
    node.style.top = `${place * ROW_HEIGHT}px`;
    return node;
  }

  function move(event) {
    if (!event.target.closest(".rows")) return;
    const screen = Math.max(1, Math.floor(grid.clientHeight / ROW_HEIGHT) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: screen, PageUp: -screen, Home: -Infinity, End: Infinity };
    if (event.key === "Enter" && rows.has(keys[focused])) {
      event.preventDefault();
      open(rows.get(keys[focused]).object.metadata);
    } else if (event.key in steps) {
      event.preventDefault();
      focused = Math.min(Math.max(focused + steps[event.key], 0), keys.length - 1);
      const top = focused * ROW_HEIGHT, room = grid.clientHeight - ROW_HEIGHT * 2;
      if (top < grid.scrollTop) grid.scrollTop = top;
      else if (top > grid.scrollTop + room) grid.scrollTop = top - room;
      draw();
    }
  }

  let pending = 0;
  const later = () => { pending ||= setTimeout(() => { pending = 0; if (!signal.aborted) arrange(); }, 50); };

  function hear(event) {
    if (event.object.columnDefinitions?.length) columns = event.object.columnDefinitions;
    for (const row of event.object.rows || []) {
      const key = keyOf(row);
      if (event.type === "DELETED") rows.delete(key);
      else {
        rows.set(key, row);
        changed.set(key, Date.now());
      }
    }
    later();
  }

  async function list() {
    const found = new Map();
    let proceed = "";
    loading = true;
    do {
      const page = await table(`${path}?limit=${PAGE}${proceed && `&continue=${encodeURIComponent(proceed)}`}`, signal);
      for (const row of page.rows || []) found.set(keyOf(row), row);
      proceed = page.metadata.continue || "";
      version = page.metadata.resourceVersion;
      if (found.size <= PAGE || !proceed) {
        rows.clear();
        columns = page.columnDefinitions || columns;
      }
      for (const [key, row] of found) rows.set(key, row);
      arrange();
      if (found.size <= PAGE) { setColumns(); arrange(); }
    } while (proceed);
    loading = false;
    setColumns();
    arrange();
    return version;
  }

  const observer = new ResizeObserver(() => draw());
  observer.observe(grid);
  const clock = setInterval(() => draw(), 5000);
  signal.addEventListener("abort", () => { clearInterval(clock); observer.disconnect(); cancelAnimationFrame(frame); });
  try {
    await list();
    announce(`${rows.size} objects of kind ${resource.kind}`);
    if (rows.size === 0) show(notice, h("p", { class: "muted empty" }, "No objects yet. New ones appear here."));
  } catch (error) {
    if (signal.aborted) return;
    const hint = error.code === 403 && resource.namespaced && !namespace ? " Choose a namespace to see what is in it." : "";
    show(notice, problem(error, hint));
    grid.hidden = true;
    return;
  }
  const heard = (event) => { show(notice); hear(event); };
  if (resource.verbs.includes("watch")) await follow(path, {}, version, signal, heard, list, true);
}

/** How a cell looks: states that need attention, and those that do not. */
export function tone(column, value) {
  if (!/^(Status|Phase|Ready|Reason|Type)$/i.test(column.name)) return column.name === "Name" ? "name" : "";
  if (/^(Running|Active|Ready|Bound|Succeeded|Completed|Available|True|Normal)$/.test(value)) return "good";
  if (/Fail|Error|BackOff|Evicted|Lost|NotReady|Unknown|False|Invalid/.test(value)) return "bad";
  if (/Pending|Terminating|Creating|Warning|Released/.test(value)) return "warn";
  return "";
}
