//! Text of `--help`.

use crate::flags::{Flag, Section, Value};

/// The help text for a terminal of so many columns; 0 for output that is no terminal, whose lines
/// are not wrapped.
pub fn help(sections: &[&dyn Section], columns: usize) -> String {
    let mut out = String::from(LONG);
    out.push_str("\n\nUsage:\n  kube-apiserver [flags]\n  kube-apiserver check -f FILES\n  kube-apiserver store VERB\n");
    for section in sections {
        let mut name = section.name().to_owned();
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        out.push_str(&format!("\n{name} flags:\n\n"));
        let mut rows: Vec<Row> = section.flags().iter().zip(section.values()).map(row).collect();
        rows.retain(|row| !row.hidden);
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        let width = rows.iter().map(|row| row.left.len()).max().unwrap_or_default();
        for row in rows {
            out.push_str(&match columns {
                MIN_WRAPPED.. => format!("{}\n{}", row.left, indented(&row.right, columns)),
                _ => format!("{:width$}   {}\n", row.left, row.right),
            });
        }
    }
    out
}

const LONG: &str = "\
The Kubernetes API server: it keeps the objects that describe a cluster, checks
and stores every change to them, and is the one place through which all other
components read, watch and write the cluster's state.";

/// Indentation of the help text below a flag, on a terminal.
const INDENT: usize = 16;

/// The narrowest terminal whose lines are wrapped.
const MIN_WRAPPED: usize = INDENT + 24;

struct Row {
    name: String,
    /// `  -v, --v Level`
    left: String,
    right: String,
    hidden: bool,
}

fn row((flag, value): (&Flag, &dyn Value)) -> Row {
    let (name, value_type) = (flag.name(), value.value_type());
    let mut left = match flag.facts.short {
        Some(letter) => format!("  -{letter}, --{name}"),
        None => format!("      --{name}"),
    };
    if value_type.name != "bool" {
        left.push_str(&format!(" {}", value_type.name));
        if let Some(implied) = value_type.implied {
            left.push_str(&format!("[={implied}]"));
        }
    }
    let mut right = flag.help.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let default = value.text();
    if default != value_type.zero {
        match value_type.name {
            "string" => right.push_str(&format!(" (default {default:?})")),
            _ => right.push_str(&format!(" (default {default})")),
        }
    }
    if let Some(warning) = flag.facts.deprecated {
        right.push_str(&format!(" (DEPRECATED: {warning})"));
    }
    Row { name, left, right, hidden: flag.facts.hidden }
}

/// Breaks a text between words.
fn indented(text: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && INDENT + line.len() + 1 + word.len() > columns {
            out.push_str(&format!("{:INDENT$}{line}\n", ""));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.push_str(&format!("{:INDENT$}{line}\n", ""));
    out
}
