//! Facts about the reference: files in `conformance/facts`, made by `cargo xtask facts`.

use std::io::Read as _;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use kevel_api::value::Value;
use kevel_codec::json::{self, Unknown};

/// Folder of the files.
pub fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/facts"))
}

/// File as text; decompressed if its name ends in `.gz`.
pub fn text(name: &str) -> String {
    let path = folder().join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    if name.ends_with(".gz") {
        GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
        return text;
    }
    String::from_utf8(bytes).unwrap()
}

/// File as JSON.
pub fn json(name: &str) -> Value {
    json::decode_any(text(name).as_bytes(), Unknown::Report).unwrap().value
}

/// Lines of a file without comments, each split at its spaces. An empty file is an error: a comparison with nothing
/// would pass.
pub fn lines(name: &str) -> Vec<Vec<String>> {
    let text = text(name);
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<Vec<String>> =
        lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect();
    assert!(!lines.is_empty(), "{name} is empty");
    lines
}
