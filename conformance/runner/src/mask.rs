//! Masking of values that differ between servers or runs.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::Value;

/// Fields with random values or times, at any depth. Their presence still counts.
const FIELDS: [&str; 24] = [
    "acquireTime",
    "clusterIP",
    "clusterIPs",
    "continue",
    "creationTimestamp",
    "deletionTimestamp",
    "eventTime",
    "expirationTimestamp",
    "firstTimestamp",
    "healthCheckNodePort",
    "lastHeartbeatTime",
    "lastProbeTime",
    "lastScheduleTime",
    "lastTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "nodePort",
    "remainingItemCount",
    "renewTime",
    "resourceVersion",
    "startTime",
    "time",
    "token",
    "uid",
];

/// Patterns inside of texts, and their replacements.
static TEXTS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let texts = [
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"(resource version: )\d+( \(\d+\))?", "${1}<revision>"),
        (r#"(resourceVersion: "|current: |in record \()\d+"#, "${1}<revision>"),
        (r#"(resourceVersion\\*":\\*")\d+"#, "${1}<revision>"),
        (r"X509SHA256=[0-9a-f]{64}", "X509SHA256=<hash>"),
        (r"\bgenerated-[a-z0-9]{5}\b", "generated-<random>"),
        (r"kube-api-access-[a-z0-9]{5}\b", "kube-api-access-<random>"),
        (r"^\d+[smh]$", "<age>"),
        (r"https://[0-9.]+:\d+", "https://<server>"),
    ];
    let compile = |(pattern, text)| Regex::new(pattern).ok().map(|regex| (regex, text));
    texts.into_iter().filter_map(compile).collect()
});

/// Masks a document in place.
pub fn mask(value: &mut Value) {
    match value {
        Value::String(text) => *text = mask_text(text),
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Object(_) => mask(value),
                    // Descriptions of columns are worded differently.
                    Value::Array(columns) if name == "columnDefinitions" => {
                        columns
                            .iter_mut()
                            .for_each(|column| column["description"] = "<words>".into());
                    }
                    // Their order is that of their times, which may be in one second or two.
                    Value::Array(entries) if name == "managedFields" => {
                        entries.iter_mut().for_each(mask);
                        entries.sort_by_key(owner);
                    }
                    _ if FIELDS.contains(&name.as_str()) && !is_empty(value) => {
                        *value = format!("<{name}>").into();
                    }
                    _ => mask(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Masks a text.
pub fn mask_text(text: &str) -> String {
    TEXTS
        .iter()
        .fold(text.to_owned(), |text, (regex, mask)| regex.replace_all(&text, *mask).into_owned())
}

fn owner(entry: &Value) -> String {
    format!("{} {} {}", entry["manager"], entry["operation"], entry["subresource"])
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn masks_what_differs_from_run_to_run_and_nothing_else() {
        let mut value = json!({
            "metadata": {"name": "a", "uid": "x", "resourceVersion": "", "labels": {"time": "noon"}},
            "managedFields": [{"manager": "b", "time": "t"}, {"manager": "a", "time": "t"}],
            "message": "at 2026-11-16T00:00:00Z: 6a0cfb9e-9f0c-4d3e-8d5c-111111111111, current: 12",
        });
        mask(&mut value);
        let expected = json!({
            "metadata": {"name": "a", "uid": "<uid>", "resourceVersion": "", "labels": {"time": "<time>"}},
            "managedFields": [{"manager": "a", "time": "<time>"}, {"manager": "b", "time": "<time>"}],
            "message": "at <time>: <uid>, current: <revision>",
        });
        assert_eq!(value, expected);
    }
}
