//! Regenerates `api/` from Kubernetes' published data and the overlays.
//!
//! Protobuf gives the fields in Go's order with their tags and types; the `shape` overlay what only
//! Go knows (pointers, omitempty, JSON names); OpenAPI adds what is required, list and merge
//! semantics, defaults and deprecations; the other overlays add or correct facts; discovery gives
//! the resources. Types that no kind reaches are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kevel_definition::{Facts, FieldDef, Module, TypeDef, TypeExpr, parse_overlay, print};

mod discovery;
mod openapi;
mod protobuf;

type Error = Box<dyn std::error::Error>;

/// The overlays, in the order in which they are laid on.
const OVERLAYS: [&str; 5] = ["shape", "enum", "defaults", "internal", "lifecycle"];

/// Writes `api/*.api` and says what changed.
pub fn run(data: &Path) -> Result<(), Error> {
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api");
    let shape = overlays(&api.join("overlay").join(OVERLAYS[0]))?;
    let mut modules = protobuf::modules(&data.join("protobuf.json"), shape)?;
    let schemas = openapi::schemas(&data.join("openapi/v3"))?;
    openapi::add_facts(&mut modules, &schemas);
    for overlay in &OVERLAYS[1..] {
        for (stem, module) in overlays(&api.join("overlay").join(overlay))? {
            let target = modules.get_mut(&stem).ok_or(format!("overlay of unknown {stem}"))?;
            lay_on(target, module)?;
        }
    }
    discovery::add_resources(&mut modules, data)?;
    keep_reachable(&mut modules);
    modules.values_mut().for_each(tidy);
    write(&api, &modules)
}

/// The overlay files of a folder, by stem.
fn overlays(dir: &Path) -> Result<BTreeMap<String, Module>, Error> {
    let mut found = BTreeMap::new();
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != "api") {
            continue;
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let module = parse_overlay(&stem, &fs::read_to_string(&path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        found.insert(stem, module);
    }
    Ok(found)
}

/// Adds an overlay's resources to a module, and its facts to types and fields, those of inlined types among them.
fn lay_on(module: &mut Module, overlay: Module) -> Result<(), Error> {
    module.resources.extend(overlay.resources);
    for ty in overlay.types {
        let place = format!("{}.{}", module.stem, ty.name);
        let index = module.types.iter().position(|t| t.name == ty.name);
        let index = index.ok_or(format!("overlay of unknown type {place}"))?;
        merge(&mut module.types[index].facts, &ty.facts);
        for field in ty.fields {
            let found = field_mut(module, index, &field.name);
            let found = found.ok_or(format!("overlay of unknown field {place}.{}", field.name))?;
            merge(&mut found.facts, &field.facts);
        }
    }
    Ok(())
}

/// A type's field by name, or that of a type it inlines.
fn field_mut<'m>(module: &'m mut Module, ty: usize, name: &str) -> Option<&'m mut FieldDef> {
    let (mut ty, mut field) = (ty, None);
    while field.is_none() {
        field = module.types[ty].fields.iter().position(|f| f.name == name);
        if field.is_none() {
            let inlined = module.types[ty].fields.iter().find(|f| f.name == "-")?;
            let inlined = innermost(&inlined.ty);
            ty = module.types.iter().position(|t| t.name == inlined)?;
        }
    }
    module.types[ty].fields.get_mut(field?)
}

fn merge(facts: &mut Facts, more: &Facts) {
    for (key, value) in &more.0 {
        facts.set(key, value.as_deref());
    }
}

/// Drops the types that no kind and no resource leads to.
fn keep_reachable(modules: &mut BTreeMap<String, Module>) {
    let mut reached = BTreeSet::new();
    let mut todo: Vec<String> = Vec::new();
    for (stem, module) in modules.iter() {
        todo.extend(module.types.iter().filter(|t| t.kind).map(|t| format!("{stem}.{}", t.name)));
    }
    while let Some(name) = todo.pop() {
        if !reached.insert(name.clone()) {
            continue;
        }
        let Some((stem, ty)) = name.rsplit_once('.') else { continue };
        let ty = modules.get(stem).and_then(|m| m.types.iter().find(|t| t.name == ty));
        for field in ty.iter().flat_map(|ty| &ty.fields) {
            let target = innermost(&field.ty);
            todo.push(match target.contains('.') {
                true => target.to_owned(),
                false => format!("{stem}.{target}"),
            });
        }
    }
    for (stem, module) in modules.iter_mut() {
        module.types.retain(|t| reached.contains(&format!("{stem}.{}", t.name)));
    }
    modules.retain(|_, module| !module.types.is_empty());
}

fn innermost(ty: &TypeExpr) -> &str {
    match ty {
        TypeExpr::Pointer(ty) | TypeExpr::List(ty) | TypeExpr::Map(ty) => innermost(ty),
        TypeExpr::Name(name) => name,
    }
}

/// Orders types (kinds first, then by name) and facts, and leaves out what goes without saying.
fn tidy(module: &mut Module) {
    module.types.sort_by_key(|t| (!t.kind, t.name.clone()));
    for ty in &mut module.types {
        tidy_type(ty);
    }
}

fn tidy_type(ty: &mut TypeDef) {
    for field in &mut ty.fields {
        if field.facts.has("pointer") {
            field.ty = TypeExpr::Pointer(Box::new(std::mem::take(&mut field.ty)));
        }
        let (required, always) = (field.facts.has("required"), field.facts.has("always"));
        for gone in ["pointer", "type", "proto", "always", "omitempty"] {
            field.facts.remove(gone);
        }
        // A required field is written even when empty unless it says otherwise.
        match (required, always) {
            (true, false) if field.name != "-" => field.facts.0.push(("omitempty".into(), None)),
            (false, true) => field.facts.0.push(("always".into(), None)),
            _ => {}
        }
        field.facts.0.sort_by_key(|(key, _)| {
            const ORDER: [&str; 15] = [
                "required",
                "omitempty",
                "always",
                "omitzero",
                "list",
                "map",
                "patch",
                "default",
                "when",
                "enum",
                "go",
                "name",
                "direct",
                "nullable",
                "deprecated",
            ];
            ORDER.iter().position(|k| k == key).unwrap_or(ORDER.len())
        });
    }
}

/// Writes the modules, one file each, and prints a line for each file that changed.
fn write(api: &Path, modules: &BTreeMap<String, Module>) -> Result<(), Error> {
    let mut stale: BTreeSet<PathBuf> = fs::read_dir(api)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "api"))
        .collect();
    let (mut same, mut changed) = (0, 0);
    for (stem, module) in modules {
        let path = api.join(format!("{stem}.api"));
        stale.remove(&path);
        let new = print(module);
        let old = fs::read_to_string(&path).unwrap_or_default();
        if old == new {
            same += 1;
            continue;
        }
        changed += 1;
        print_changes(stem, &old, &new);
        fs::write(&path, new)?;
    }
    for path in &stale {
        println!("{}: removed", path.display());
        fs::remove_file(path)?;
    }
    println!("{changed} changed, {same} the same, {} removed", stale.len());
    Ok(())
}

/// Says which lines a file lost and gained, each under the type it stands in.
fn print_changes(stem: &str, old: &str, new: &str) {
    let lines = |text: &str| -> BTreeSet<String> {
        let mut under = String::new();
        let mut lines = BTreeSet::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
            if line.starts_with(' ') {
                lines.insert(format!("{under}: {words}"));
            } else {
                under = words.split(' ').take(2).collect::<Vec<_>>().join(" ");
                lines.insert(words);
            }
        }
        lines
    };
    let (before, after) = (lines(old), lines(new));
    if before.is_empty() {
        println!("{stem}: new, {} lines", after.len());
        return;
    }
    println!("{stem}: changed");
    before.difference(&after).for_each(|line| println!("  - {line}"));
    after.difference(&before).for_each(|line| println!("  + {line}"));
}
