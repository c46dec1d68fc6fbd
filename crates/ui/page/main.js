// The page: sign-in, the frame around all views, and the way between them.

import { age, h, problem, show } from "./dom.js";
import { call, discover, own, pathOf, session } from "./api.js";
import { signInView } from "./signin.js";
import { searchBox } from "./search.js";
import { tableView } from "./table.js";
import { objectView } from "./object.js";
import { serverView } from "./server.js";

const app = document.getElementById("app");
/** Kinds that are shown first, by plural and group; the others follow in the menu. */
const FREQUENT = [["pods", ""], ["deployments", "apps"], ["services", ""], ["configmaps", ""], ["secrets", ""], ["jobs", "batch"], ["events", ""], ["namespaces", ""], ["nodes", ""]];
let running = null;

async function begin(reason) {
  running?.abort();
  try {
    const { user, codes } = await own("session");
    if (user) await frame(user);
    else signInView(app, codes, () => begin(), reason);
  } catch (error) {
    show(app, h("main", { id: "main", class: "signin" }, problem(error), h("button", { onclick: () => begin() }, "Try again")));
  }
}
session.ended = () => begin("The session is over. Sign in again.");

async function frame(user) {
  let resources;
  try {
    resources = await discover();
  } catch (error) {
    return show(app, h("main", { id: "main", class: "signin" }, problem(error), signOut()));
  }
  const main = h("main", { id: "main", tabindex: "0" });
  const open = (found) => {
    const group = found.apiVersion.includes("/") ? found.apiVersion.split("/")[0] : "";
    const resource = resources.find((one) => one.group === group && (found.resource ? one.plural === found.resource : one.kind === found.kind));
    if (resource) go({ view: "object", group, plural: resource.plural, namespace: found.namespace || "", name: found.name });
  };
  const openKind = (resource, namespace = scope.value) => go({ view: "kind", group: resource.group, plural: resource.plural, namespace: resource.namespaced ? namespace : "" });
  const context = { resources, open, openKind, back: () => history.back() };

  const scope = h("input", { id: "namespace", list: "namespaces", placeholder: "all", autocomplete: "off", spellcheck: "false", onchange: () => { const now = history.state; if (now?.view === "kind") go({ ...now, namespace: scope.value.trim() }); } });
  const known = h("datalist", { id: "namespaces" });
  call("/api/v1/namespaces?limit=1000").then(({ items }) => show(known, items.map(({ metadata }) => h("option", { value: metadata.name }))), () => {});

  const menu = h("nav", { class: "menu", id: "menu", "aria-label": "Kinds" });
  const toggle = h("button", { class: "toggle", "aria-expanded": "false", "aria-controls": "menu", onclick: () => fold(!menu.classList.contains("open")) }, h("span", { "aria-hidden": "true" }, "☰"), h("span", { class: "visually-hidden" }, "Kinds"));
  const fold = (opened) => { menu.classList.toggle("open", opened); toggle.setAttribute("aria-expanded", opened); };
  const entry = (resource) => h("button", { class: "entry", "data-kind": `${resource.plural}.${resource.group}`, onclick: () => openKind(resource) }, resource.kind, resource.group.includes(".") && !FREQUENT.some(([plural]) => plural === resource.plural) && h("small", {}, resource.group));
  const listable = resources.filter(({ verbs }) => verbs.includes("list"));
  const isFrequent = (resource) => FREQUENT.some(([plural, group]) => resource.plural === plural && resource.group === group);
  const frequent = FREQUENT.map(([plural, group]) => listable.find((one) => one.plural === plural && one.group === group)).filter(Boolean);
  const others = listable.filter((resource) => !isFrequent(resource)).sort((a, b) => a.kind.localeCompare(b.kind));
  const plain = (view, title) => h("button", { class: "entry", "data-view": view, onclick: () => go({ view }) }, title);
  show(menu, plain("home", "Overview"), plain("server", "Server"),
    h("div", { class: "scope" }, h("label", { for: "namespace" }, "Namespace"), scope, known), frequent.map(entry),
    h("details", {}, h("summary", {}, `All kinds (${listable.length})`), others.map(entry)));

  const box = searchBox(resources, open, (resource) => openKind(resource));
  show(app, h("header", {}, toggle,
    h("button", { class: "logo", onclick: () => go({ view: "home" }) }, h("img", { src: "icon.svg", alt: "", width: "26", height: "26" }), h("span", {}, "Kevel")),
    box, h("span", { class: "user", title: user }, user), signOut()), h("div", { class: "columns" }, menu, main));

  function draw() {
    running?.abort();
    running = new AbortController();
    const { signal } = running, now = history.state || { view: "home" };
    fold(false);
    for (const button of menu.querySelectorAll(".entry")) {
      const chosen = now.plural === undefined ? button.dataset.view === now.view : button.dataset.kind === `${now.plural}.${now.group}`;
      if (chosen) button.setAttribute("aria-current", "page"); else button.removeAttribute("aria-current");
    }
    const resource = resources.find((one) => one.group === now.group && one.plural === now.plural);
    document.title = [now.name, resource?.kind, "Kevel"].filter(Boolean).join(" · ");
    if (now.view === "kind") scope.value = now.namespace;
    if (now.view === "server") serverView(main, signal);
    else if (now.view === "kind" && resource) tableView(main, resource, now.namespace, ({ namespace, name }) => open({ apiVersion: resource.group ? `${resource.group}/${resource.version}` : resource.version, resource: resource.plural, namespace, name }), signal);
    else if (now.view === "object" && resource) objectView(main, resource, now.namespace, now.name, context, signal);
    else homeView(main, frequent, context, signal);
  }
  function go(state) {
    history.pushState(state, "");
    draw();
    main.focus({ preventScroll: true });
  }
  window.onpopstate = draw;
  document.onkeydown = (event) => {
    if (event.key !== "/" || /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName)) return;
    event.preventDefault();
    document.getElementById("search").focus();
  };
  draw();
  if (!history.state || history.state.view === "home") document.getElementById("search").focus();
}

const signOut = () => h("button", {
  class: "quiet",
  onclick: async () => {
    await own("session", { method: "DELETE" }).catch(() => {});
    history.replaceState(null, "");
    begin();
  },
}, "Sign out");

/** Events on the overview, and events among which the newest are looked for. */
const [SHOWN_EVENTS, READ_EVENTS] = [8, 500];

/** Fills `root` with the newest events that the user may list. */
async function recentEvents(root, open, signal) {
  show(root, h("h2", {}, "Newest events"));
  try {
    const { items = [] } = await call(`/api/v1/events?limit=${READ_EVENTS}`, { signal });
    const when = (event) => event.lastTimestamp || event.eventTime || event.metadata.creationTimestamp;
    const newest = items.sort((a, b) => (when(a) < when(b) ? 1 : -1)).slice(0, SHOWN_EVENTS);
    root.append(newest.length ? h("ul", { class: "events" }, newest.map((event) => h("li", {}, h("span", { class: "muted" }, age(when(event))),
      h("span", { class: event.type === "Warning" ? "warn" : "" }, event.reason),
      h("span", {}, h("button", { class: "link", onclick: () => open(event.involvedObject) }, `${event.involvedObject.kind} ${event.involvedObject.name}`), ` ${event.message || ""}`)))) : h("p", { class: "muted" }, "There are none."));
  } catch (error) {
    if (!signal.aborted) root.append(h("p", { class: "muted" }, error.code === 403 ? "You may not list the events of all namespaces." : error.message));
  }
}

/** Words of a search, as the overview explains them. */
const WORDS = [["web", "in a name, a kind, or anywhere in an object"], ["app=web", "with this label"], ["spec.nodeName=a", "with this field"], ["kind:pod", "of this kind"], ["ns:default", "in this namespace"], ["owner:UID", "owned by this object"]];

function homeView(root, frequent, { open, openKind }, signal) {
  const [tiles, recent] = [frequent.map((resource) => tile(resource, openKind, signal)), h("section", { class: "card" })];
  recentEvents(recent, open, signal);
  show(root, h("h1", {}, "Overview"), h("div", { class: "tiles" }, tiles), recent,
    h("section", { class: "card" }, h("h2", {}, "Search"), h("p", { class: "muted" }, "All words must fit. Press ", h("kbd", {}, "/"), " to begin."),
      h("dl", { class: "words" }, WORDS.map(([word, meaning]) => [h("dt", {}, h("code", {}, word)), h("dd", {}, meaning)]))));
}

/** A kind with the number of its objects. */
function tile(resource, openKind, signal) {
  const count = h("b", {}, "…");
  call(`${pathOf(resource, "")}?limit=1`, { accept: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json", signal }).then(({ items, metadata }) => {
    count.textContent = ((items || []).length + (metadata.remainingItemCount || 0)).toLocaleString("en");
  }, (error) => { count.textContent = error.code === 403 ? "–" : "?"; });
  return h("button", { class: "card tile", onclick: () => openKind(resource, "") }, count, h("span", {}, resource.kind));
}

begin();
