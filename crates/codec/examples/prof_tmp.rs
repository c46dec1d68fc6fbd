use kevel_codec::{json, protobuf};
fn main() {
    let schema = kevel_api::builtin::schema("", "v1", "Pod").unwrap();
    let value = json::decode(include_bytes!("../tests/data/pod.json"), schema, json::Unknown::Report).unwrap().value;
    let message = protobuf::encode_object(&value, schema);
    let what = std::env::args().nth(1).unwrap();
    let n: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    for _ in 0..n {
        if what == "d" { std::hint::black_box(protobuf::decode_object(&message).unwrap().decode(schema).unwrap()); }
        if what == "e" { std::hint::black_box(protobuf::encode_object(&value, schema)); }
    }
}
