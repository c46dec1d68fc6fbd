// The search box over all kinds.

import { announce, h, show } from "./dom.js";
import { search } from "./api.js";

/** Milliseconds without a key before the server is asked. */
const PAUSE = 90;
/** Kinds among the answers. */
const MOST_KINDS = 4;

/** The box; `open(result)` is called with an object, `openKind(resource)` with a kind. */
export function searchBox(resources, open, openKind) {
  let options = [], chosen = -1, asked = null, timer = 0;
  const input = h("input", {
    type: "search", id: "search", class: "search", role: "combobox", "aria-label": "Search all kinds", "aria-expanded": "false",
    "aria-controls": "results", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false",
    placeholder: "Search names, kinds, labels, fields, text", maxlength: "200",
    oninput: () => { clearTimeout(timer); timer = setTimeout(ask, PAUSE); },
    onkeydown: key, onfocus: () => { if (input.value.trim() && options.length) expand(true); },
  });
  const list = h("div", { id: "results", class: "results", role: "listbox", "aria-label": "Results" });
  const note = h("div", { class: "muted note" });
  const box = h("div", { class: "drop", onmousedown: (event) => event.preventDefault() }, list, note);
  box.hidden = true;
  const root = h("div", { class: "searchbox", role: "search" }, input, h("kbd", { "aria-hidden": "true" }, "/"), box);
  root.addEventListener("focusout", (event) => { if (!root.contains(event.relatedTarget)) expand(false); });

  function expand(open) {
    box.hidden = !open;
    input.setAttribute("aria-expanded", open);
    if (!open) choose(-1);
  }

  function kinds(words) {
    const word = words.trim().toLowerCase();
    if (/[\s=:]/.test(word) || !word) return [];
    const fits = (resource) => [resource.plural, resource.singular, resource.kind.toLowerCase(), ...resource.shortNames].some((name) => name.startsWith(word));
    return resources.filter((resource) => resource.verbs.includes("list") && fits(resource)).slice(0, MOST_KINDS);
  }

  async function ask() {
    asked?.abort();
    const words = input.value;
    if (!words.trim()) return expand(false);
    const controller = asked = new AbortController();
    try {
      const { results, complete } = await search(words, controller.signal);
      if (controller.signal.aborted) return;
      fill(kinds(words), results, complete);
    } catch (error) {
      if (error.name !== "AbortError") { options = []; show(list); note.textContent = error.message; expand(true); }
    }
  }

  function fill(kinds, results, complete) {
    options = [
      ...kinds.map((resource) => ({ pick: () => openKind(resource), head: resource.plural, place: resource.group || "core", kind: "all objects" })),
      ...results.map((found) => ({ pick: () => open(found), head: found.name, place: found.namespace, kind: found.kind, excerpt: found.excerpt })),
    ];
    show(list, options.map((option, place) => h("div", { class: "option", role: "option", id: `option-${place}`, "aria-selected": "false", onclick: () => pick(place), onmousemove: () => choose(place) },
      h("span", { class: "kind" }, option.kind), h("span", { class: "head" }, option.head), h("span", { class: "muted" }, option.place || ""),
      option.excerpt && h("span", { class: "excerpt" }, option.excerpt))));
    const left = complete ? "" : "There may be more: not everything was looked at in time.";
    note.textContent = options.length ? left : `Nothing that you may list has these words. ${left}`;
    announce(`${options.length} results`);
    expand(true);
    choose(options.length ? 0 : -1);
  }

  function choose(place) {
    list.children[chosen]?.setAttribute("aria-selected", "false");
    chosen = place;
    const option = list.children[place];
    if (!option) return input.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    input.setAttribute("aria-activedescendant", option.id);
  }

  function pick(place) {
    const option = options[place];
    if (!option) return;
    expand(false);
    input.value = "";
    options = [];
    option.pick();
  }

  function key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && options.length) {
      event.preventDefault();
      if (box.hidden) expand(true);
      choose((chosen + step + options.length) % options.length);
      list.children[chosen]?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      pick(chosen);
    } else if (event.key === "Escape") {
      expand(false);
    }
  }

  return root;
}
