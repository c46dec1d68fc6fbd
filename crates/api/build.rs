//! Generates static schema tables from the definitions in `api/`.

use std::path::Path;
use std::{env, fs};

#[path = "build/tables.rs"]
mod tables;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../api");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed={}", api.display());
    let mut modules = Vec::new();
    for entry in fs::read_dir(&api)? {
        let path = entry?.path();
        if path.extension().is_none_or(|ending| ending != "api") {
            continue;
        }
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let module = kevel_definition::parse(&stem, &fs::read_to_string(&path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        modules.push(module);
    }
    modules.sort_by(|a, b| a.stem.cmp(&b.stem));
    let source = tables::generate(&modules)?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("tables.rs"), source)?;
    Ok(())
}
