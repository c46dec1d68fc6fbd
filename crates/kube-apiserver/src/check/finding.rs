//! Findings: errors of a document, with their lines.

use kevel_api::status::{Status, StatusCause, reason};

use super::definitions;
use super::document::{CheckedDocument, DocumentPlace};
use super::locate::{NamedPlace, field_of, strict_errors};

/// Weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingLevel {
    /// A cluster refuses the document.
    Error,
    /// A cluster takes it, and warns.
    Warning,
}

impl FindingLevel {
    /// `error` or `warning`
    pub fn name(self) -> &'static str {
        match self {
            FindingLevel::Error => "error",
            FindingLevel::Warning => "warning",
        }
    }
}

/// Place of a finding.
#[derive(Clone, Debug)]
pub struct FindingPlace {
    /// Document.
    pub document: DocumentPlace,
    /// Part of the document that the message names.
    pub named: NamedPlace,
    /// Line in the file of what is named, once it is looked for ([`locate`]); until then that of the document.
    pub line: usize,
}

impl FindingPlace {
    /// Place of what a message names in a document.
    pub fn of(document: &DocumentPlace, named: NamedPlace) -> Self {
        FindingPlace { line: document.first_line(), document: document.clone(), named }
    }
}

/// Finds the lines of findings. Each document is read once, however much is wrong with it.
pub fn locate(findings: &mut [CheckFinding]) {
    let is_same = |one: &CheckFinding, other: &CheckFinding| {
        let [one, other] = [one, other].map(|finding| &finding.place.document);
        one.file == other.file && one.line == other.line
    };
    for group in findings.chunk_by_mut(is_same) {
        let Some(document) = group.first().map(|first| first.place.document.clone()) else {
            continue;
        };
        let path = |finding: &CheckFinding| match &finding.place.named {
            NamedPlace::Field(field) => finding.place.document.path_of(field),
            NamedPlace::Line(_) => String::new(),
        };
        let paths: Vec<String> = group.iter().map(path).collect();
        if paths.iter().any(|path| !path.is_empty()) {
            for (finding, line) in group.iter_mut().zip(document.lines_of(&paths)) {
                finding.place.line = line;
            }
        }
        for finding in group {
            if let NamedPlace::Line(line) = finding.place.named {
                finding.place.line = document.line + line.saturating_sub(1);
            }
        }
    }
}

/// Object that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingObject {
    /// `apps/v1`
    pub api_version: String,
    /// `Deployment`
    pub kind: String,
    /// Namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Name, or the prefix of a generated one.
    pub name: String,
}

/// Something that is wrong with a document.
#[derive(Clone, Debug)]
pub struct CheckFinding {
    /// Place.
    pub place: FindingPlace,
    /// Object, where the text is one.
    pub object: Option<FindingObject>,
    /// Weight.
    pub level: FindingLevel,
    /// Reason of the status, or of its cause: `Invalid`, `FieldValueRequired`, `Forbidden`; `Warning`.
    pub reason: String,
    /// Field that the cause names.
    pub field: String,
    /// The cluster's message, about one cause.
    pub message: String,
    /// The cluster's whole message.
    pub status: String,
}

/// The findings that a failed request makes: one for each cause.
pub fn of_status(
    document: &CheckedDocument,
    namespace: &str,
    status: &Status,
) -> Vec<CheckFinding> {
    let whole = status.message.to_string();
    let finding = |reason: &str, field: &str, message: String| CheckFinding {
        place: FindingPlace::of(&document.place, field_of(&message, &written(document, field))),
        object: Some(object_of(document, namespace)),
        level: FindingLevel::Error,
        reason: reason.to_owned(),
        field: field.to_owned(),
        message,
        status: whole.clone(),
    };
    if let Some(messages) = strict_errors(&whole) {
        return messages.into_iter().map(|one| finding(&status.reason, "", one)).collect();
    }
    let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
    let start = whole.find(" is invalid: ").filter(|_| &*status.reason == reason::INVALID);
    let Some(start) = start.and_then(|at| whole.get(..at + " is invalid: ".len())) else {
        let field = match causes {
            [cause] => &*cause.field,
            _ => "",
        };
        return vec![finding(&status.reason, field, whole.clone())];
    };
    let about = |cause: &StatusCause| match &*cause.field {
        "" | "<nil>" => format!("{start}{}", cause.message),
        field => format!("{start}{field}: {}", cause.message),
    };
    match causes {
        [] => vec![finding(&status.reason, "", whole.clone())],
        [cause] => vec![finding(&cause.reason, &cause.field, whole.clone())],
        causes => {
            causes.iter().map(|cause| finding(&cause.reason, &cause.field, about(cause))).collect()
        }
    }
}

/// The field as the document has it.
fn written(document: &CheckedDocument, field: &str) -> String {
    match document.kind == definitions::KIND {
        true => definitions::written_field(field),
        false => field.to_owned(),
    }
}

/// The finding that a warning makes.
pub fn of_warning(document: &CheckedDocument, namespace: &str, warning: String) -> CheckFinding {
    let is_of_version =
        warning.starts_with(&format!("{} {} ", document.api_version, document.kind));
    let field = if is_of_version { "apiVersion" } else { "" };
    CheckFinding {
        place: FindingPlace::of(&document.place, field_of(&warning, field)),
        object: Some(object_of(document, namespace)),
        level: FindingLevel::Warning,
        reason: "Warning".to_owned(),
        field: String::new(),
        status: warning.clone(),
        message: warning,
    }
}

/// A finding of the command itself about a field of a document.
pub fn of_field(
    document: &CheckedDocument,
    namespace: &str,
    (reason, field): (&str, &str),
    message: String,
) -> CheckFinding {
    CheckFinding {
        place: FindingPlace::of(&document.place, NamedPlace::Field(field.to_owned())),
        object: Some(object_of(document, namespace)),
        level: FindingLevel::Error,
        reason: reason.to_owned(),
        field: field.to_owned(),
        status: message.clone(),
        message,
    }
}

fn object_of(document: &CheckedDocument, namespace: &str) -> FindingObject {
    FindingObject {
        api_version: document.api_version.clone(),
        kind: document.kind.clone(),
        namespace: namespace.to_owned(),
        name: document.name.clone(),
    }
}
