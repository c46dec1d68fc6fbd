//! SARIF 2.1.0 (Static Analysis Results Interchange Format).

use std::collections::BTreeSet;

use kevel_api::value::Value;
use kevel_codec::json::encode_any_pretty;
use kevel_server::version::Info;

use super::json::{number, object};
use crate::check::finding::CheckFinding;
use crate::check::report::FindingReport;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

pub fn write(report: &FindingReport) -> Vec<u8> {
    let rules: BTreeSet<&str> =
        report.findings.iter().map(|finding| finding.reason.as_str()).collect();
    let rule =
        |reason: &&str| object([("id", Value::from(*reason)), ("name", Value::from(*reason))]);
    let driver = object([
        ("name", Value::from("kube-apiserver check")),
        ("rules", Value::List(rules.iter().map(rule).collect())),
        ("version", Value::from(Info::default().git_version.as_str())),
    ]);
    let run = object([
        ("columnKind", Value::from("unicodeCodePoints")),
        ("results", Value::List(report.findings.iter().map(result).collect())),
        ("tool", object([("driver", driver)])),
    ]);
    let log = object([
        ("$schema", Value::from(SCHEMA)),
        ("runs", Value::List([run].into_iter().collect())),
        ("version", Value::from("2.1.0")),
    ]);
    let mut out = Vec::new();
    encode_any_pretty(&log, &mut out);
    out.push(b'\n');
    out
}

fn result(finding: &CheckFinding) -> Value {
    let place = &finding.place;
    let physical = object([
        ("artifactLocation", object([("uri", Value::from(uri(&place.document.file).as_str()))])),
        ("region", object([("startLine", number(place.line))])),
    ]);
    let location = object([("physicalLocation", physical)]);
    object([
        ("level", Value::from(finding.level.name())),
        ("locations", Value::List([location].into_iter().collect())),
        ("message", object([("text", Value::from(finding.message.as_str()))])),
        ("ruleId", Value::from(finding.reason.as_str())),
    ])
}

/// A relative reference of RFC 3986 for a path; of an absolute path, a URI.
fn uri(path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    let mut out = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
