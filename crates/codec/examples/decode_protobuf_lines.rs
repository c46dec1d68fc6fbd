//! Decodes messages and prints what came of each, to be compared with another server's reading of
//! the same lines: `group/version/Kind<TAB>base64 of the message` in, `E message` or
//! `S base64 of the message written again<TAB>JSON` out.

use std::io::{BufRead, BufWriter, Write};

use kevel_codec::{base64, json, protobuf};

fn main() -> std::io::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (kind, text) = line.split_once('\t').unwrap_or(("", &line));
        let mut message = Vec::new();
        if base64::decode_into(text, &mut message).is_err() {
            continue;
        }
        writeln!(out, "{}", outcome(kind, &message).replace('\n', "\\n"))?;
    }
    out.flush()
}

fn outcome(kind: &str, message: &[u8]) -> String {
    let schema = match kind.split('/').collect::<Vec<_>>()[..] {
        [group, version, kind] => kevel_api::builtin::schema(group, version, kind),
        _ => None,
    };
    let Some(schema) = schema else { return format!("N no kind {kind}") };
    match protobuf::decode(message, schema) {
        Ok(value) => {
            let mut text = Vec::new();
            json::encode(&value, schema, &mut text);
            let again = base64::encode(&protobuf::encode(&value, schema));
            format!("S {again}\t{}", String::from_utf8_lossy(&text))
        }
        Err(error) => format!("E {error}"),
    }
}
