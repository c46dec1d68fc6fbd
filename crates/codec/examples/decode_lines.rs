//! Decodes documents strictly and prints what came of each, to be compared with another server's
//! reading of the same lines: `group/version/Kind<TAB>base64 of the document` in,
//! `E message` or `S strict errors<TAB>document` out. Without a kind the document is read untyped,
//! with the kind `?` only its own kind and version are looked for.

use std::io::{BufRead, BufWriter, Write};

use kevel_codec::{base64, json};

fn main() -> std::io::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (kind, text) = line.split_once('\t').unwrap_or(("", &line));
        let mut document = Vec::new();
        if base64::decode_into(text, &mut document).is_err() {
            continue;
        }
        writeln!(out, "{}", outcome(kind, &document).replace('\n', "\\n"))?;
    }
    out.flush()
}

fn outcome(kind: &str, document: &[u8]) -> String {
    if kind == "?" {
        return match json::type_meta(document) {
            Ok(meta) => format!("S {} {}", meta.api_version, meta.kind),
            Err(error) => format!("E {error}"),
        };
    }
    let schema = match kind.split('/').collect::<Vec<_>>()[..] {
        [group, version, kind] => kevel_api::builtin::schema(group, version, kind),
        _ => None,
    };
    let read = match schema {
        None if !kind.is_empty() => return format!("no kind {kind}"),
        None => json::decode_any(document, json::Unknown::Report),
        Some(schema) => json::decode(document, schema, json::Unknown::Report),
    };
    let read = match read {
        Ok(read) => read,
        Err(error) => return format!("E {error}"),
    };
    let strict: Vec<String> = read.strict.iter().map(ToString::to_string).collect();
    let mut encoded = Vec::new();
    match schema {
        Some(schema) => json::encode(&read.value, schema, &mut encoded),
        None => json::encode_any(&read.value, &mut encoded),
    }
    format!("S {}\t{}", strict.join(", "), String::from_utf8_lossy(&encoded))
}
