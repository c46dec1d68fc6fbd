use std::fmt::Write as _;

use crate::{Facts, Module};

/// Prints a definition file that [`crate::parse`] reads, with aligned columns.
pub fn print(module: &Module) -> String {
    let gv = match module.group.as_str() {
        "" => module.version.clone(),
        group => format!("{group}/{}", module.version),
    };
    let mut out = format!("group {gv}{}\n", facts(&module.facts));
    if !module.resources.is_empty() {
        out.push('\n');
    }
    for resource in &module.resources {
        let head = match (resource.path.contains('/'), resource.namespaced) {
            (true, _) => format!("sub {} {}", resource.path, resource.kind),
            (_, true) => format!("resource {} {} namespaced", resource.path, resource.kind),
            (_, false) => format!("resource {} {} cluster", resource.path, resource.kind),
        };
        let _ = writeln!(out, "{head}{}", facts(&resource.facts));
    }
    for ty in &module.types {
        let word = if ty.kind { "kind" } else { "type" };
        let _ = writeln!(out, "\n{word} {}{}", ty.name, facts(&ty.facts));
        let rows: Vec<[String; 4]> = ty
            .fields
            .iter()
            .map(|field| {
                let tag = if field.tag == 0 { "-".into() } else { field.tag.to_string() };
                let facts = facts(&field.facts).trim_start().to_owned();
                [field.name.clone(), tag, field.ty.to_string(), facts]
            })
            .collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let (names, tags, types) = (width(0), width(1), width(2));
        for [name, tag, ty, facts] in &rows {
            let row = format!("  {name:names$}  {tag:tags$}  {ty:types$}  {facts}");
            let _ = writeln!(out, "{}", row.trim_end());
        }
    }
    out
}

fn facts(facts: &Facts) -> String {
    let mut out = String::new();
    for (key, value) in &facts.0 {
        out.push(' ');
        out.push_str(key);
        if let Some(value) = value {
            out.push('=');
            out.push_str(value);
        }
    }
    out
}
