// Objects as YAML, and which manager has written which line.

const PLAIN = /^[A-Za-z_/.][\w/.+-]*( [\w/.+-]+)*$/;
const WORDS = /^(true|false|yes|no|on|off|y|n|null|~|\.nan|[-+]?\.inf)$/i;
const NUMBER = /^[-+]?[.\d]/;

/** Characters that YAML takes for the end of a line, or not at all. */
const UNPRINTABLE = /[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g;

/** A text in double quotes: what JSON escapes, YAML understands. */
const quoted = (value) => JSON.stringify(value).replace(UNPRINTABLE, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);

function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  const plain = PLAIN.test(value) && !WORDS.test(value) && !NUMBER.test(value);
  return plain ? value : quoted(value);
}

/** Whether a text can be a literal block: it has lines, and none that a block would change. */
const isBlock = (value) => typeof value === "string" && /[^\n]\n/.test(value) && !/[^\n\x20-\x7e\u00a0-\u2027\u202a-\ud7ff]|[ \t]\n|^[\n ]|\t|[ ]$/.test(value);

const isEmpty = (value) => (Array.isArray(value) ? value.length === 0 : Object.keys(value).length === 0);

/** Parts of `fieldsV1` for a field. */
const ofField = (owners, key) => owners.map(({ node, ...who }) => ({ ...who, node: node[`f:${key}`] })).filter(({ node }) => node);

function ofItem(owners, item) {
  const fits = (key) => {
    try {
      if (key.startsWith("v:")) return JSON.stringify(item) === JSON.stringify(JSON.parse(key.slice(2)));
      if (!key.startsWith("k:")) return false;
      return Object.entries(JSON.parse(key.slice(2))).every(([name, value]) => item?.[name] === value);
    } catch { return false; }
  };
  return owners.map(({ node, ...who }) => {
    const key = Object.keys(node).find(fits);
    return { ...who, node: key && node[key] };
  }).filter(({ node }) => node);
}

/** Managers of a line: those of the field itself, or of an atomic one around it. */
const named = (owners) => owners.map(({ manager, time, operation }) => ({ manager, time, operation }));
const leaves = (owners) => owners.filter(({ node }) => isEmpty(node));

/**
 * Lines of an object: `{ text, managers }`. `managedFields` says who has written what; it is not among the lines.
 */
export function lines(object) {
  const { managedFields = [], ...metadata } = object.metadata || {};
  const owners = managedFields.map((entry) => ({
    manager: entry.manager + (entry.subresource ? ` (${entry.subresource})` : ""),
    time: entry.time, operation: entry.operation, node: entry.fieldsV1 || {},
  }));
  const out = [];
  const { apiVersion, kind, ...rest } = object;
  const whole = JSON.parse(JSON.stringify({ apiVersion, kind, ...rest, ...(object.metadata && { metadata }) }));
  write(whole, owners, [], "", "", out);
  return out;
}

/** The text of an object. */
export const toYaml = (object) => lines(object).map(({ text }) => text).join("\n") + "\n";

// `first` stands before the first line (a dash), `indent` before all others.
function write(value, owners, inherited, first, indent, out) {
  const entries = Array.isArray(value)
    ? value.map((item) => ["-", item, ofItem(owners, item)])
    : Object.entries(value).map(([key, item]) => [`${scalar(key)}:`, item, ofField(owners, key)]);
  entries.forEach(([head, item, within], place) => {
    const lead = place === 0 ? first : indent;
    const atomic = leaves(within);
    const around = atomic.length ? named(atomic) : inherited;
    const managers = within.length ? named(within) : inherited;
    if (item !== null && typeof item === "object" && !isEmpty(item)) {
      if (head === "-") {
        write(item, within, around, `${lead}- `, `${indent}  `, out);
        return;
      }
      out.push({ text: lead + head, managers: atomic.length ? managers : inherited });
      const deeper = Array.isArray(item) ? indent : `${indent}  `;
      write(item, within, around, deeper, deeper, out);
    } else if (isBlock(item)) {
      const end = item.endsWith("\n\n") ? "+" : item.endsWith("\n") ? "" : "-";
      out.push({ text: `${lead}${head} |${end}`, managers });
      const body = item.endsWith("\n") ? item.slice(0, -1) : item;
      for (const line of body.split("\n")) out.push({ text: line && `${indent}  ${line}`, managers });
    } else {
      const text = item !== null && typeof item === "object" ? (Array.isArray(item) ? "[]" : "{}") : scalar(item);
      out.push({ text: `${lead}${head} ${text}`, managers });
    }
  });
}
