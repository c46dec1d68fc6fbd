// Requests to the public API, as the user of the session.

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
/** Seconds after which a watch is begun again. */
const WATCH_SECONDS = 290;

/** A refusal of the server. */
export class ApiError extends Error {
  constructor(code, message, status) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** What is called when the session is over. */
export const session = { ended: () => {} };

async function send(url, { method = "GET", body, accept = "application/json", type = "application/json", signal } = {}) {
  const headers = { "X-Kevel-UI": "1", Accept: accept };
  if (body !== undefined) headers["Content-Type"] = type;
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  let response;
  try {
    response = await fetch(url, { method, headers, body: text, signal, credentials: "same-origin", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer.");
  }
  if (response.ok) return response;
  const said = await response.text();
  let status = null;
  try { status = JSON.parse(said); } catch { /* plain text */ }
  if (response.status === 401 && !url.endsWith("/session")) session.ended();
  throw new ApiError(response.status, status?.message || said.trim() || response.statusText, status);
}

/** An endpoint of the page itself, such as `session`. */
export async function own(name, options) {
  const response = await send(`/ui/${name}`, options);
  return response.status === 204 ? null : response.json();
}

/** A request to the API; the answer is JSON. */
export const call = async (path, options) => (await send(`/ui/api${path}`, options)).json();

/** A request whose answer is text. */
export const text = async (path, options) => (await send(`/ui/api${path}`, options)).text();

/** A list, or an object, as a table; servers behind the aggregation layer may not know tables. */
function asRows(found) {
  if (found.kind === "Table" || found.kind === "Status") return found;
  const row = (object) => ({ cells: [object.metadata.name, ""], object });
  const columnDefinitions = [{ name: "Name", priority: 0 }, { name: "Age", priority: 0 }];
  return { kind: "Table", metadata: found.items ? found.metadata : {}, columnDefinitions, rows: (found.items || [found]).map(row) };
}

/** A list as a table. */
export const table = async (path, signal) => asRows(await call(path, { accept: TABLE, signal }));

export const search = (words, signal) => call(`/ui/search?q=${encodeURIComponent(words)}`, { signal });

/** Reads the events of a watch until it ends; an ERROR event is thrown. */
async function stream(path, accept, signal, hear) {
  const response = await send(`/ui/api${path}`, { accept, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines.filter(Boolean)) {
      const event = JSON.parse(line);
      if (event.type === "ERROR") throw new ApiError(event.object.code, event.object.message, event.object);
      hear(event);
    }
  }
}

/** One watch from a revision; returns when it ends. */
export const watchOnce = (path, query, signal, hear, accept = "application/json") =>
  stream(`${path}?${query({ watch: "1", allowWatchBookmarks: "true" })}`, accept, signal, hear);

const versionOf = (event) => (event.object.kind === "Table" ? event.object.rows?.[0]?.object?.metadata : event.object.metadata)?.resourceVersion
  || event.object.metadata?.resourceVersion;

/**
 * Follows a list from a revision for as long as the signal lets it: begun again where it was when it ends, and told to
 * `relist`, which returns the new revision, where that is no longer possible.
 */
export async function follow(path, parameters, version, signal, hear, relist, asTable) {
  let wait = 500;
  while (!signal.aborted) {
    const query = (more) => new URLSearchParams({ ...parameters, ...more, resourceVersion: version, timeoutSeconds: WATCH_SECONDS });
    try {
      await watchOnce(path, query, signal, (event) => {
        version = versionOf(event) || version;
        wait = 500;
        if (event.type !== "BOOKMARK") hear(asTable ? { ...event, object: asRows(event.object) } : event);
      }, asTable ? TABLE : undefined);
    } catch (error) {
      if (signal.aborted || error.code === 401 || error.code === 403) return;
      if (error.code === 410) {
        try { version = await relist(); } catch { /* tried again below */ }
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 2, 15000);
    }
  }
}

/** All kinds: group, version, plural, kind, namespaced, verbs, names. Preferred versions come first. */
export async function discover() {
  const documents = await Promise.all(["/api", "/apis"].map((path) => call(path, { accept: DISCOVERY })));
  const found = [];
  for (const group of documents.flatMap((document) => document.items || [])) {
    const seen = new Set();
    for (const version of group.versions || []) {
      for (const resource of version.resources || []) {
        if (seen.has(resource.resource)) continue;
        seen.add(resource.resource);
        found.push({
          group: group.metadata?.name || "", version: version.version, plural: resource.resource,
          kind: resource.responseKind?.kind || resource.resource, namespaced: resource.scope === "Namespaced",
          verbs: resource.verbs || [], shortNames: resource.shortNames || [], singular: resource.singularResource || "",
          subresources: (resource.subresources || []).map((part) => part.subresource),
        });
      }
    }
  }
  return found;
}

/** Path of a resource's list, object or subresource. */
export function pathOf(resource, namespace, name, subresource) {
  const root = resource.group ? `/apis/${resource.group}/${resource.version}` : `/api/${resource.version}`;
  const within = resource.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return [root + within, resource.plural, name && encodeURIComponent(name), subresource].filter(Boolean).join("/");
}

export const apiVersion = (resource) => (resource.group ? `${resource.group}/${resource.version}` : resource.version);
