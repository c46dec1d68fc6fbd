// Differences of two texts, line by line.

import { h } from "./dom.js";

/** Lines around a change that are shown. */
const CONTEXT = 3;
/** Most changed lines that are looked for: beyond, all lines count as replaced. */
const MOST_CHANGES = 2000;

/** `[sign, line]` for each line: " ", "-" or "+". */
export function diff(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const same = (line) => [" ", line];
  return [
    ...a.slice(0, head).map(same),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(same),
  ];
}

// The greedy algorithm of Myers: the furthest places that can be reached with each number of changes.
function middle(a, b) {
  const trace = [];
  let reach = new Map([[1, 0]]);
  for (let changes = 0; changes <= Math.min(a.length + b.length, MOST_CHANGES); changes++) {
    const next = new Map(reach);
    trace.push(reach);
    for (let k = -changes; k <= changes; k += 2) {
      const down = k === -changes || (k !== changes && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? reach.get(k + 1) ?? 0 : (reach.get(k - 1) ?? 0) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) { x++; y++; }
      next.set(k, x);
      if (x >= a.length && y >= b.length) return back(a, b, trace);
    }
    reach = next;
  }
  return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
}

function back(a, b, trace) {
  const out = [];
  let x = a.length, y = b.length;
  for (let changes = trace.length - 1; changes >= 0; changes--) {
    const reach = trace[changes], k = x - y;
    const down = k === -changes || (k !== changes && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const from = down ? k + 1 : k - 1;
    const startX = changes === 0 ? 0 : reach.get(from) ?? 0, startY = changes === 0 ? 0 : startX - from;
    while (x > startX && y > startY) { out.push([" ", a[x - 1]]); x--; y--; }
    if (changes > 0) {
      if (down) { out.push(["+", b[y - 1]]); y--; } else { out.push(["-", a[x - 1]]); x--; }
    }
  }
  return out.reverse();
}

/** The differences as a node; null if there are none. */
export function diffView(before, after) {
  const all = diff(before, after);
  const shown = all.map(() => false);
  all.forEach(([sign], place) => {
    if (sign !== " ") for (let near = place - CONTEXT; near <= place + CONTEXT; near++) if (near in shown) shown[near] = true;
  });
  if (!shown.includes(true)) return null;
  const names = { "+": "added", "-": "removed" };
  const rows = [];
  all.forEach(([sign, line], place) => {
    if (!shown[place]) {
      if (place > 0 && shown[place - 1]) rows.push(h("div", { class: "gap", "aria-hidden": true }, "⋯"));
      return;
    }
    rows.push(h("div", { class: names[sign] },
      h("span", { class: "sign", "aria-hidden": true }, sign),
      names[sign] && h("span", { class: "visually-hidden" }, `${names[sign]}: `), line || " "));
  });
  return h("div", { class: "code diff", role: "region", "aria-label": "Differences", tabindex: "0" }, rows);
}
