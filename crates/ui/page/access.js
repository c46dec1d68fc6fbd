// Who may do what to an object.

import { h, problem, show } from "./dom.js";
import { call } from "./api.js";

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS = "/apis/authorization.k8s.io/v1";
const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"];

/** Fills `panel` with the rights of the user, of others by their roles, and a question about anyone. */
export async function accessView(panel, resource, object, signal) {
  const { namespace = "", name } = object.metadata;
  const attributes = (verb) => ({
    verb, group: resource.group, version: resource.version, resource: resource.plural, namespace,
    name: ["list", "watch", "create"].includes(verb) ? "" : name,
  });
  const own = h("div", {}), others = h("div", {});
  show(panel, h("h2", {}, "You"), own, h("h2", {}, "Another user"), askForm(attributes), h("h2", {}, "By roles"), others);
  try {
    const rights = await Promise.all(VERBS.map(async (verb) => {
      const review = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes: attributes(verb) } };
      return [verb, (await call(`${REVIEWS}/selfsubjectaccessreviews`, { method: "POST", body: review, signal })).status];
    }));
    show(own, verdicts(rights));
  } catch (error) { if (!signal.aborted) show(own, problem(error)); }
  try {
    show(others, roleTable(await byRoles(resource, namespace, name, signal)));
  } catch (error) { if (!signal.aborted) show(others, problem(error)); }
}

const verdicts = (rights) => h("ul", { class: "verdicts" }, rights.map(([verb, status]) =>
  h("li", { class: status.allowed ? "yes" : "no", title: status.reason || "" }, h("span", { "aria-hidden": "true" }, status.allowed ? "✓ " : "✗ "), verb,
    h("span", { class: "visually-hidden" }, status.allowed ? " allowed" : " not allowed"))));

function askForm(attributes) {
  const user = h("input", { id: "subject", required: true, placeholder: "jane or system:serviceaccount:default:web", autocomplete: "off" });
  const groups = h("input", { id: "groups", placeholder: "dev, system:authenticated", autocomplete: "off" });
  const answer = h("div", { role: "status" });
  return h("form", {
    class: "ask",
    onsubmit: async (event) => {
      event.preventDefault();
      try {
        const rights = await Promise.all(VERBS.map(async (verb) => {
          const spec = { user: user.value.trim(), groups: groups.value.split(",").map((group) => group.trim()).filter(Boolean), resourceAttributes: attributes(verb) };
          const review = { apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec };
          return [verb, (await call(`${REVIEWS}/subjectaccessreviews`, { method: "POST", body: review })).status];
        }));
        show(answer, verdicts(rights));
      } catch (error) { show(answer, problem(error)); }
    },
  }, h("label", { for: "subject" }, "User"), user, h("label", { for: "groups" }, "Groups"), groups, h("button", { type: "submit" }, "Ask"), answer);
}

async function byRoles(resource, namespace, name, signal) {
  const items = async (path) => (await call(`${RBAC}${path}`, { signal })).items || [];
  const within = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  const [clusterRoles, clusterBindings, roles, bindings] = await Promise.all([
    items("/clusterroles"), items("/clusterrolebindings"), within ? items(`${within}/roles`) : [], within ? items(`${within}/rolebindings`) : [],
  ]);
  const rulesOf = (ref) => (ref.kind === "Role" ? roles : clusterRoles).find((role) => role.metadata.name === ref.name)?.rules || [];
  const has = (list = [], ...values) => list.includes("*") || values.some((value) => list.includes(value));
  const subjects = new Map();
  for (const binding of [...clusterBindings, ...bindings]) {
    const verbs = new Set();
    for (const rule of rulesOf(binding.roleRef)) {
      if (!has(rule.apiGroups, resource.group) || !has(rule.resources, resource.plural)) continue;
      for (const verb of VERBS) {
        const named = rule.resourceNames?.length && (verb === "create" || !rule.resourceNames.includes(name));
        if (has(rule.verbs, verb) && !named) verbs.add(verb);
      }
    }
    if (!verbs.size) continue;
    for (const subject of binding.subjects || []) {
      const key = [subject.kind, subject.namespace, subject.name].filter(Boolean).join(" ");
      const known = subjects.get(key) || { subject, verbs: new Set(), by: new Set() };
      verbs.forEach((verb) => known.verbs.add(verb));
      known.by.add(`${binding.roleRef.kind} ${binding.roleRef.name}`);
      subjects.set(key, known);
    }
  }
  return [...subjects.entries()].sort(([a], [b]) => a.localeCompare(b)).map(([, found]) => found);
}

function roleTable(found) {
  if (!found.length) return h("p", { class: "muted" }, "No role gives anyone rights to it.");
  const head = h("tr", {}, ["Subject", ...VERBS, "By"].map((title) => h("th", { scope: "col" }, title)));
  const rows = found.map(({ subject, verbs, by }) => h("tr", {},
    h("th", { scope: "row" }, h("small", { class: "muted" }, `${subject.kind} `), [subject.namespace, subject.name].filter(Boolean).join("/")),
    VERBS.map((verb) => h("td", { class: verbs.has(verb) ? "yes" : "no" }, verbs.has(verb) ? "✓" : "–")),
    h("td", { class: "by" }, [...by].join(", "))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rights by roles" }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows)));
}

