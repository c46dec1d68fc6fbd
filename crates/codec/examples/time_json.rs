//! How long a 2 KiB Pod takes: `cargo run --release -p kevel-codec --example time_json`, with a
//! number of rounds and the beginning of a line's name behind it where a profiler is to look.

use std::hint::black_box;
use std::time::Instant;

use kevel_codec::json;

const POD: &[u8] = include_bytes!("../tests/data/pod.json");
const ROUNDS: u32 = 20_000;

fn main() {
    let schema = kevel_api::builtin::schema("", "v1", "Pod").expect("Pod is built in");
    let decode = |input: &[u8]| {
        json::decode(input, schema, json::Unknown::Report).expect("the Pod is right").value
    };
    let pod = decode(POD);
    let mut sorted = Vec::new();
    json::encode_any(&pod, &mut sorted);
    let mut out = Vec::with_capacity(4096);
    time("decode, in the reference's order", || drop(black_box(decode(black_box(POD)))));
    time("decode, sorted by name", || drop(black_box(decode(black_box(&sorted)))));
    time("decode without a schema", || {
        drop(black_box(json::decode_any(black_box(POD), json::Unknown::Report)))
    });
    time("encode", || {
        out.clear();
        json::encode(black_box(&pod), schema, &mut out);
        black_box(&out);
    });
    time("type_meta", || drop(black_box(json::type_meta(black_box(POD)))));
    println!("{} bytes", POD.len());
}

/// The best of five, so that a busy machine matters less.
fn time(what: &str, mut work: impl FnMut()) {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(ROUNDS);
    if !what.starts_with(&arguments.next().unwrap_or_default()) {
        return;
    }
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..rounds).for_each(|_| work());
            start.elapsed() / rounds
        })
        .min()
        .unwrap_or_default();
    println!("{:>9.2} µs  {what}", best.as_secs_f64() * 1e6);
}
