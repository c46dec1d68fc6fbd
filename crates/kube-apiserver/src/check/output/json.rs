//! One JSON document.

use kevel_api::value::{Map, Value};
use kevel_codec::json::encode_any_pretty;

use crate::check::finding::{CheckFinding, FindingLevel};
use crate::check::report::FindingReport;

pub fn write(report: &FindingReport) -> Vec<u8> {
    let document = object([
        ("findings", Value::List(report.findings.iter().map(finding).collect())),
        ("summary", summary(report)),
    ]);
    let mut out = Vec::new();
    encode_any_pretty(&document, &mut out);
    out.push(b'\n');
    out
}

fn finding(finding: &CheckFinding) -> Value {
    let place = &finding.place;
    let mut fields = Map::from_iter([
        ("documentLine", number(place.document.first_line())),
        ("file", Value::from(&*place.document.file)),
        ("level", Value::from(finding.level.name())),
        ("line", number(place.line)),
        ("message", Value::from(finding.message.as_str())),
        ("reason", Value::from(finding.reason.as_str())),
    ]);
    if !finding.field.is_empty() {
        fields.insert("field", Value::from(finding.field.as_str()));
    }
    if finding.status != finding.message {
        fields.insert("status", Value::from(finding.status.as_str()));
    }
    if let Some(of) = &finding.object {
        let named = [
            ("apiVersion", &of.api_version),
            ("kind", &of.kind),
            ("name", &of.name),
            ("namespace", &of.namespace),
        ];
        let named = named.into_iter().filter(|(_, value)| !value.is_empty());
        let named = named.map(|(name, value)| (name, Value::from(value.as_str())));
        fields.insert("object", Value::Map(named.collect()));
    }
    Value::Map(fields)
}

fn summary(report: &FindingReport) -> Value {
    let not_called = object([
        ("conversionWebhooks", number(report.not_called.conversions)),
        ("services", number(report.not_called.services)),
        ("webhookConfigurations", number(report.not_called.webhooks)),
    ]);
    let notes = report.notes.iter().map(|note| Value::from(note.as_str()));
    object([
        ("documents", number(report.documents)),
        ("errors", number(report.count(FindingLevel::Error))),
        ("files", number(report.files)),
        ("notCalled", not_called),
        ("notShown", number(report.omitted)),
        ("notes", Value::List(notes.collect())),
        ("skipped", number(report.skipped)),
        ("unknownKinds", number(report.without_schema)),
        ("warnings", number(report.count(FindingLevel::Warning))),
    ])
}

/// An object of a few fields.
pub fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Map(Map::from_iter(fields))
}

/// A count or a line.
pub fn number(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}
