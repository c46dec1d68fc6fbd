// Small functions to build the page: nodes are made, never parsed from text.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("aria-")) node.setAttribute(name, value);
    else if (value === false) continue;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An element with attributes, `on…` listeners and children. */
export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);

/** The same in SVG. */
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** Replaces the content of a node. */
export function show(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Tells screen readers. */
export function announce(text) {
  document.getElementById("live").textContent = text;
}

/** A box with an error, read out at once. */
export const problem = (error, ...more) =>
  h("div", { class: "problem", role: "alert" }, h("strong", {}, titleOf(error)), " ", error.message || String(error), more);

function titleOf(error) {
  const titles = { 401: "Signed out.", 403: "Forbidden.", 404: "Not found.", 409: "Conflict.", 410: "No longer stored.", 422: "Invalid.", 429: "Too many requests." };
  return titles[error.code] || "Error.";
}

/** An age as kubectl writes it. */
export function age(time, now = Date.now()) {
  const seconds = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
  if (Number.isNaN(seconds)) return "";
  const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  const pair = (a, x, b, y) => (b ? `${a}${x}${b}${y}` : `${a}${x}`);
  if (seconds < 120) return `${seconds}s`;
  if (minutes < 10) return pair(minutes, "m", seconds % 60, "s");
  if (minutes < 180) return `${minutes}m`;
  if (hours < 8) return pair(hours, "h", minutes % 60, "m");
  if (hours < 48) return `${hours}h`;
  if (days < 8) return pair(days, "d", hours % 24, "h");
  return days < 730 ? `${days}d` : pair(Math.floor(days / 365), "y", days % 365, "d");
}

/** A dialog that asks before something is done; resolves to whether it was confirmed. */
export function confirm(title, text, action) {
  return new Promise((resolve) => {
    const done = (answer) => () => { dialog.close(); dialog.remove(); resolve(answer); };
    const dialog = h("dialog", { "aria-labelledby": "confirm-title", oncancel: done(false) },
      h("h2", { id: "confirm-title" }, title), h("p", {}, text),
      h("div", { class: "actions" },
        h("button", { onclick: done(false) }, "Cancel"),
        h("button", { class: "danger", onclick: done(true) }, action)));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Tabs: `[name, make]`, where `make(panel, signal)` fills the panel when it is chosen. */
export function tabs(label, entries, signal, first = 0) {
  const panel = h("div", { class: "panel", role: "tabpanel", tabindex: "0", id: "tabpanel" });
  let running = null;
  const buttons = entries.map(([name], index) => h("button", {
    role: "tab", id: `tab-${index}`, "aria-controls": "tabpanel", onclick: () => choose(index),
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = (index + step + entries.length) % entries.length;
      choose(next);
      buttons[next].focus();
    },
  }, name));
  function choose(index) {
    running?.abort();
    running = new AbortController();
    signal.addEventListener("abort", () => running.abort(), { once: true });
    buttons.forEach((button, place) => {
      button.setAttribute("aria-selected", place === index);
      button.tabIndex = place === index ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `tab-${index}`);
    show(panel, h("p", { class: "muted" }, "Loading…"));
    entries[index][1](panel, running.signal);
  }
  const bar = h("div", { class: "tabs", role: "tablist", "aria-label": label }, buttons);
  choose(first);
  return [bar, panel];
}
