//! Fields that messages name.

/// Introductions of a field in quotes.
const QUOTED: [&str; 2] = ["unknown field \"", "duplicate field \""];
/// Introduction of a field that cannot be decoded: a Go type, then the path without indexes.
const GO_FIELD: &str = "Go struct field ";

/// Place in a text that a message names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedPlace {
    /// Path of a field; empty for the whole object.
    Field(String),
    /// Line of the document, counted from 1.
    Line(usize),
}

/// The place that a message is about: `field` if the cause of an error says it, or what the message names.
pub fn field_of(message: &str, field: &str) -> NamedPlace {
    if !field.is_empty() && field != "<nil>" {
        return NamedPlace::Field(field.to_owned());
    }
    let quoted = QUOTED.iter().find_map(|introduction| after(message, introduction));
    if let Some(field) = quoted.and_then(|rest| rest.split('"').next()) {
        return NamedPlace::Field(field.to_owned());
    }
    if let Some((path, _)) = after(message, GO_FIELD).and_then(|rest| rest.split_once(" of type "))
    {
        let path = path.split_once('.').map_or("", |(_, path)| path);
        return NamedPlace::Field(path.to_owned());
    }
    if let Some(line) = yaml_line(message) {
        return NamedPlace::Line(line);
    }
    NamedPlace::Field(leading_path(message).unwrap_or_default().to_owned())
}

/// The line that a YAML error names.
fn yaml_line(message: &str) -> Option<usize> {
    let message = after(message, "yaml: ")?;
    let number = after(message, "line ")?;
    let end = number.find(|character: char| !character.is_ascii_digit())?;
    number.get(..end)?.parse().ok()
}

/// The path that a warning begins with: `spec.containers[0].ports[1]: duplicate port`.
fn leading_path(message: &str) -> Option<&str> {
    let (path, _) = message.split_once(": ")?;
    let starts = path.starts_with(|first: char| first.is_ascii_lowercase());
    (starts && !path.contains([' ', '"', ','])).then_some(path)
}

fn after<'t>(text: &'t str, introduction: &str) -> Option<&'t str> {
    text.find(introduction).and_then(|at| text.get(at + introduction.len()..))
}

/// A message about several fields that cannot be decoded, as one message for each; `None` if it is about one or about
/// something else.
pub fn strict_errors(message: &str) -> Option<Vec<String>> {
    let (start, list) = message.split_once("strict decoding error: ")?;
    let mut parts: Vec<String> = Vec::new();
    for part in list.split(", ") {
        match parts.last_mut() {
            // A comma in the name of a field.
            Some(last) if !QUOTED.iter().any(|introduction| part.starts_with(introduction)) => {
                last.push_str(", ");
                last.push_str(part);
            }
            _ => parts.push(part.to_owned()),
        }
    }
    let whole = |part: String| format!("{start}strict decoding error: {part}");
    (parts.len() > 1).then(|| parts.into_iter().map(whole).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_fields_and_lines() {
        let field = |path: &str| NamedPlace::Field(path.to_owned());
        for (message, expected) in [
            ("strict decoding error: unknown field \"spec.a[0].b\"", field("spec.a[0].b")),
            (
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
                field("spec.replicas"),
            ),
            ("spec.nodeSelector[a/b]: deprecated since v1.14", field("spec.nodeSelector[a/b]")),
            ("error converting YAML to JSON: yaml: line 7: did not find", NamedPlace::Line(7)),
            (
                "yaml: unmarshal errors:\n  line 3: key \"a\" already set in map",
                NamedPlace::Line(3),
            ),
            ("batch/v1beta1 CronJob is deprecated in v1.21+: use it", field("")),
            ("policy/v1 X is deprecated", field("")),
        ] {
            assert_eq!(field_of(message, ""), expected, "{message}");
        }
        assert_eq!(field_of("Required value", "spec.x"), field("spec.x"));
    }

    #[test]
    fn strict_errors_are_told_apart() {
        let message = "X: strict decoding error: unknown field \"a\", unknown field \"b, c\"";
        let expected = ["unknown field \"a\"", "unknown field \"b, c\""];
        let expected = expected.map(|part| format!("X: strict decoding error: {part}"));
        assert_eq!(strict_errors(message), Some(expected.to_vec()));
        assert_eq!(strict_errors("strict decoding error: unknown field \"a\""), None);
    }
}
