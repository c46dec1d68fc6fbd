//! The graph of a crate's top-level modules.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Crate, Source};

/// Modules by name, each with the modules that it names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The modules that reach themselves by imports, each with the imports that do it.
pub fn cycles(owner: &Crate) -> Vec<(String, Vec<String>)> {
    let graph = graph(owner);
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|module| (module.as_str(), reachable(&graph, module))).collect();
    let mut found = Vec::new();
    for (module, imports) in &graph {
        let back = |import: &&String| reach[import.as_str()].contains(module.as_str());
        let others: Vec<String> = imports.iter().filter(back).cloned().collect();
        if !others.is_empty() {
            found.push((format!("{}::{module}", owner.name), others));
        }
    }
    found
}

fn reachable<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a str> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = next.pop() {
        for import in graph.get(&module).into_iter().flatten() {
            if seen.insert(import.as_str()) {
                next.push(import.clone());
            }
        }
    }
    seen
}

fn graph(owner: &Crate) -> Graph {
    let files: Vec<(&Source, Vec<&str>)> = owner.sources.iter().filter_map(module_path).collect();
    let mut graph: Graph = BTreeMap::new();
    for (_, path) in &files {
        graph.entry(path[0].to_owned()).or_default();
    }
    let modules: BTreeSet<String> = graph.keys().cloned().collect();
    for (source, path) in files {
        let imports = named(&source.production, path.len());
        let known =
            imports.into_iter().filter(|import| import != path[0] && modules.contains(import));
        graph.entry(path[0].to_owned()).or_default().extend(known);
    }
    graph
}

/// The path of a file's module; none for the crate's root and for programs beside it.
fn module_path(source: &Source) -> Option<(&Source, Vec<&str>)> {
    let below = source.below_src.as_deref()?.strip_suffix(".rs")?;
    let path: Vec<&str> = below.strip_suffix("/mod").unwrap_or(below).split('/').collect();
    (!matches!(path[0], "lib" | "main" | "bin")).then_some((source, path))
}

/// The names that follow the crate's root: `crate::`, or `super::` as often as the module is deep.
fn named(code: &str, depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&root) {
            let inside =
                |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'$');
            if at.checked_sub(1).is_some_and(|before| inside(&code.as_bytes()[before])) {
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

/// The names that a group of imports begins with: `a` and `d` of `a::{b, c}, d}`.
fn first_names(group: &str) -> Vec<String> {
    let (mut depth, mut names, mut part) = (0_usize, Vec::new(), String::new());
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => names.extend(identifier(std::mem::take(&mut part).trim())),
            c => part.push(c),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources =
            files.iter().map(|(path, text)| Source::new(path, text, Some(path))).collect();
        let cycles = cycles(&Crate { name: "x".to_owned(), sources });
        cycles
            .into_iter()
            .map(|(module, imports)| format!("{module} -> {}", imports.join(" ")))
            .collect()
    }

    #[test]
    fn cycles_of_top_level_modules_are_found() {
        let files = [
            ("a/mod.rs", "use crate::b::B;"),
            ("a/deep.rs", "use super::super::b;"),
            ("b.rs", "use crate::{c::{d, a}, e};"),
            ("c.rs", "fn f() { crate::a::g() }"),
            ("e.rs", "use super::Root;"),
            ("lib.rs", "use crate::a;"),
        ];
        assert_eq!(found(&files), ["x::a -> b", "x::b -> c", "x::c -> a"]);
    }

    #[test]
    fn imports_of_tests_make_no_cycle() {
        let files =
            [("a.rs", "use crate::b;"), ("b.rs", "#[cfg(test)]\nmod tests { use crate::a; }")];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
