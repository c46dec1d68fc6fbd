//! Modules of the generic server import downwards only: a reader of one need not read those above it.
//!
//! [`LAYERS`] is the order, from the lowest. A module may import those before it, in its own layer too. Tests inside of
//! modules are exempt.

#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Layers: the reason of each, and its modules in order.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "words that all others are written in; they know Kubernetes' API and the registry",
        &["body", "lease"],
    ),
    (
        "what a path and the headers say, before anybody has read a body",
        &["request_info", "negotiate", "metrics"],
    ),
    (
        "files and peers: who proves what by which certificate, and calls that the server makes",
        &["config_file", "egress", "grpc", "webhook"],
    ),
    ("events of requests; a request carries its own, so audit stands below it", &["audit"]),
    (
        "a request on its way, what answers it, and answers in the form that its client reads",
        &["incoming", "request", "handler", "latency_trackers", "responses"],
    ),
    (
        "sockets, health and life of a server, whatever it serves",
        &["serving", "health", "lifecycle", "routes", "version", "zpages"],
    ),
    ("requests that are answered elsewhere; their clients' connections go on with it", &["proxy"]),
    ("seams: who asks, and may they", &["authentication", "authorization"]),
    ("who is served now and who waits, by who asks and for how much", &["flowcontrol"]),
    ("the filters before all handlers", &["chain"]),
    ("documents made of rows", &["discovery", "openapi"]),
    ("subresources that lead elsewhere", &["connecter"]),
    ("the verbs of resources, and the server that finds them by path", &["endpoints", "delegate"]),
];

#[test]
fn modules_import_downwards_only() {
    let order: Vec<&str> = LAYERS.iter().flat_map(|(_, modules)| modules.iter().copied()).collect();
    let place = |name: &str| order.iter().position(|known| *known == name);
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for (file, module, imports) in imports() {
        let Some(own) = place(&module) else {
            wrong.push(format!("{file}: the module {module} has no layer"));
            continue;
        };
        seen.insert(module.clone());
        for import in imports.iter().filter(|import| **import != module) {
            match place(import) {
                Some(other) if other < own => {}
                Some(_) => wrong.push(format!("{file}: {module} imports {import}, which is above")),
                None => wrong.push(format!("{file}: imports {import}, which has no layer")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let gone: Vec<_> = order.iter().filter(|name| !seen.contains(**name)).collect();
    assert!(gone.is_empty(), "no longer there: {gone:?}");
}

/// Source files, each with its top-level module and the top-level modules that it names.
fn imports() -> Vec<(String, String, BTreeSet<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    assert!(files.len() > 100, "the sources were found");
    let mut all = Vec::new();
    for file in files {
        let path = file.strip_prefix(&root).unwrap();
        let name = path.display().to_string();
        let module = name.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
        if module == "lib" || path.ends_with("tests.rs") {
            continue;
        }
        // So many `super::` lead to the crate's root.
        let depth = path.components().count() - usize::from(path.ends_with("mod.rs"));
        let found = named(&code(&fs::read_to_string(&file).unwrap()), depth);
        all.push((name, module, found));
    }
    all
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, files),
            false => files.extend(path.extension().is_some_and(|e| e == "rs").then_some(path)),
        }
    }
}

/// A source without comments and without the tests at its end.
fn code(source: &str) -> String {
    let end = source.find("#[cfg(test)]\nmod tests {").unwrap_or(source.len());
    let lines = source[..end].lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Names that follow the crate's root.
fn named(code: &str, depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&root) {
            let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
            if at > 0 && inside(code.as_bytes()[at - 1]) {
                continue;
            }
            let rest = &code[at + root.len()..];
            match rest.strip_prefix('{') {
                Some(group) => found.extend(first_names(group)),
                None => found.extend(identifier(rest)),
            }
        }
    }
    found
}

/// First names of a group of imports: `a` and `d` of `a::{b, c}, d}`.
fn first_names(group: &str) -> Vec<String> {
    let (mut depth, mut names, mut part) = (0_usize, Vec::new(), String::new());
    for character in group.chars() {
        match character {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => names.extend(identifier(std::mem::take(&mut part).trim())),
            character => part.push(character),
        }
    }
    names.extend(identifier(part.trim()));
    names
}

fn identifier(text: &str) -> Option<String> {
    let name: String =
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

#[test]
fn imports_are_found_in_every_form() {
    let code = "use crate::{a, b::{c, d}, e};\nfn f() { crate::g::h(); }\nuse super::super::i;";
    let names: Vec<String> = named(code, 2).into_iter().collect();
    assert_eq!(names, ["a", "b", "e", "g", "i"]);
}
