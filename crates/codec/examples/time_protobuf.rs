//! How long a 2 KiB Pod takes, and 3 MiB made to cost much:
//! `cargo run --release -p kevel-codec --example time_protobuf`.

use std::hint::black_box;
use std::time::Instant;

use kevel_api::builtin;
use kevel_codec::{json, protobuf};

const POD: &[u8] = include_bytes!("../tests/data/pod.json");
const ROUNDS: u32 = 20_000;
const BATCH: u32 = 100;
const LARGE: usize = 3 << 20;

fn main() {
    let schema = builtin::schema("", "v1", "Pod").expect("Pod is built in");
    let value = json::decode(POD, schema, json::Unknown::Report).expect("the Pod is right").value;
    let message = protobuf::encode_object(&value, schema);
    let read = |message: &[u8]| protobuf::decode_object(message)?.decode(schema);
    println!("{} bytes of JSON, {} bytes of protobuf", POD.len(), message.len());
    time("decode", || read(&message));
    time("encode", || protobuf::encode_object(&value, schema));
    time("protobuf to JSON", || {
        let mut out = Vec::with_capacity(4096);
        json::encode(&read(&message).unwrap_or_default(), schema, &mut out);
        out
    });
    time("JSON to protobuf", || {
        let read = json::decode(POD, schema, json::Unknown::Report);
        protobuf::encode_object(&read.map(|read| read.value).unwrap_or_default(), schema)
    });

    for (what, path, unit) in [
        ("empty containers", &["spec"][..], &[0x12, 0][..]),
        ("containers with one field", &["spec"], &[0x12, 3, 0x80, 1, 1]),
        ("container statuses with one field", &["status"], &[0x42, 2, 0x20, 1]),
        ("map entries of one key", &["metadata"], &[0x5a, 0]),
        ("map entries in turn with another field", &["metadata"], &[0x5a, 0, 0x0a, 0]),
        ("lists in turn", &["spec"], &[0x12, 0, 0x0a, 0]),
        ("pieces of a message", &["spec"], &[0x72, 0]),
        ("groups that never end", &["spec"], &[0xfb, 0x07]),
        ("unknown numbers", &["spec"], &[0xf8, 0x07, 0]),
        ("numbers in a list", &["spec", "securityContext"], &[0x20, 0]),
    ] {
        let at = path.iter().fold(schema, |at, name| at.field(name).expect(name).schema());
        let input: Vec<u8> =
            unit.iter().copied().cycle().take(LARGE / unit.len() * unit.len()).collect();
        let start = Instant::now();
        let read = protobuf::decode(&input, at);
        let took = start.elapsed();
        println!(
            "{took:>10.1?}  {what}: {}",
            read.map_or_else(|e| e.to_string(), |_| "read".into())
        );
    }
}

fn time<T>(what: &str, mut work: impl FnMut() -> T) {
    let mut best = f64::MAX;
    // The best of many short batches: what the work takes when nothing else runs.
    for _ in 0..ROUNDS / BATCH {
        let start = Instant::now();
        for _ in 0..BATCH {
            black_box(work());
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH));
    }
    println!("{best:7.2} µs  {what}");
}
