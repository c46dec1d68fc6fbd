//! Holds the codecs against golden objects: the same object as JSON, YAML and protobuf.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use kevel_codec::{json, protobuf};

use crate::convert::{Format, convert};

/// Runs every golden object of the kinds we define, and fails if one differs.
pub fn run(dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "pb") {
            names.insert(path.with_extension(""));
        }
    }
    let (mut checked, mut failed) = (0, 0);
    let mut skipped = Vec::new();
    for name in &names {
        let label = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let read = |ending: &str| fs::read(Path::new(&format!("{}.{ending}", name.display())));
        let golden = Golden { json: read("json")?, yaml: read("yaml")?, protobuf: read("pb")? };
        if !golden.defined()? {
            skipped.push(label);
            continue;
        }
        checked += 1;
        for difference in golden.differences() {
            failed += 1;
            println!("{label}: {difference}");
        }
    }
    println!("not defined here: {}", skipped.join(" "));
    println!(
        "{checked} objects, {failed} differences, {} of versions we do not define",
        skipped.len()
    );
    match (checked, failed) {
        (0, _) => Err(format!("no golden objects in {}", dir.display()).into()),
        (_, 0) => Ok(()),
        _ => Err("the codecs differ from the golden objects".into()),
    }
}

struct Golden {
    json: Vec<u8>,
    yaml: Vec<u8>,
    protobuf: Vec<u8>,
}

impl Golden {
    fn defined(&self) -> Result<bool, Box<dyn std::error::Error>> {
        let envelope = protobuf::decode_object(&self.protobuf)?;
        let (group, version) = match envelope.api_version.split_once('/') {
            Some(parts) => parts,
            None => ("", &*envelope.api_version),
        };
        Ok(kevel_api::builtin::schema(group, version, &envelope.kind).is_some())
    }

    fn differences(&self) -> Vec<String> {
        use Format::*;
        let mut found = Vec::new();
        for (from, input) in [(Json, &self.json), (Yaml, &self.yaml), (Protobuf, &self.protobuf)] {
            for to in [Json, Yaml, Protobuf] {
                let result = convert(input, from, to).and_then(|output| self.check(to, &output));
                if let Err(error) = result {
                    found.push(format!("{from:?} to {to:?}: {error}"));
                }
            }
        }
        found
    }

    /// Protobuf must be equal to the byte, JSON and YAML in the text they have when compact.
    fn check(&self, format: Format, output: &[u8]) -> Result<(), String> {
        let (expected, found) = match format {
            Format::Protobuf => (self.protobuf.clone(), output.to_vec()),
            Format::Json => (compact(&self.json)?, compact(output)?),
            Format::Yaml => (self.yaml.clone(), output.to_vec()),
        };
        if expected == found {
            return Ok(());
        }
        let at = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
        let near = |bytes: &[u8]| {
            let part = &bytes[at.saturating_sub(40).min(bytes.len())..(at + 40).min(bytes.len())];
            String::from_utf8_lossy(part).into_owned()
        };
        Err(format!("differs at byte {at}: {:?} is {:?}", near(&expected), near(&found)))
    }
}

fn compact(text: &[u8]) -> Result<Vec<u8>, String> {
    json::compact(text).map(|text| text.as_bytes().to_vec()).map_err(|error| error.to_string())
}
