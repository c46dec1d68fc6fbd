//! Cost of decoding and encoding an object: `cargo run --profile dist -p kevel-bench --bin codec`.

use std::hint::black_box;
use std::time::Duration;

use kevel_api::{builtin, default};
use kevel_bench::cpu_time;
use kevel_codec::{json, protobuf};

fn main() {
    // Nothing is parsed or allocated for the tables: the first use is a page fault or two.
    let start = cpu_time();
    let pod = builtin::schema("", "v1", "Pod").expect("pods are built in");
    black_box(pod.field("spec"));
    println!("{:44} {:>9.1} µs", "tables: first look-up", micros(cpu_time() - start));

    let text = POD.as_bytes();
    let value = json::decode(text, pod, json::Unknown::Report).expect("a pod").value;
    let mut defaulted = value.clone();
    default::apply(&mut defaulted, pod);
    let mut full = Vec::new();
    json::encode(&defaulted, pod, &mut full);
    let message = protobuf::encode_object(&defaulted, pod);
    println!(
        "a Pod of {} bytes, {} with defaults, {} as protobuf",
        text.len(),
        full.len(),
        message.len()
    );

    measure("json: decode strictly, default, encode", || {
        let mut value = json::decode(text, pod, json::Unknown::Report).expect("a pod").value;
        default::apply(&mut value, pod);
        let mut out = Vec::with_capacity(4096);
        json::encode(&value, pod, &mut out);
        out
    });
    measure("json: decode strictly", || json::decode(&full, pod, json::Unknown::Report));
    measure("default", || {
        let mut value = value.clone();
        default::apply(&mut value, pod);
        value
    });
    measure("clone", || value.clone());
    measure("json: encode", || {
        let mut out = Vec::with_capacity(4096);
        json::encode(&defaulted, pod, &mut out);
        out
    });
    measure("protobuf to json", || {
        let envelope = protobuf::decode_object(&message).expect("an envelope");
        let value = envelope.decode(pod).expect("a pod");
        let mut out = Vec::with_capacity(4096);
        json::encode(&value, pod, &mut out);
        out
    });
    measure("json to protobuf", || {
        let value = json::decode(&full, pod, json::Unknown::Report).expect("a pod").value;
        protobuf::encode_object(&value, pod)
    });
    measure("protobuf: decode", || {
        protobuf::decode_object(&message).expect("an envelope").decode(pod)
    });
    measure("protobuf: encode", || protobuf::encode_object(&defaulted, pod));
}

/// The best of several rounds: what it costs when nothing else is in the way.
fn measure<T>(name: &str, mut work: impl FnMut() -> T) {
    let mut best = Duration::MAX;
    for _ in 0..20 {
        let start = cpu_time();
        for _ in 0..1000 {
            black_box(work());
        }
        best = best.min((cpu_time() - start) / 1000);
    }
    println!("{name:44} {:>9.2} µs", micros(best));
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

/// A Pod as people write them, of about 2 KiB.
const POD: &str = include_str!("../pod.json");
