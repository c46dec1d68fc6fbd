//! The rules of kinds, beside what the reference says. The cases stand beside the kinds.

mod case;

use std::path::Path;
use std::sync::Arc;

use http_body_util::BodyExt as _;
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode_any, encode_any};
use kevel_controlplane::service::PortRange;
use kevel_features::FeatureSet;
use kevel_registry::storage::Format;
use kevel_store::Engine;
use kevel_store::embedded::{Embedded, Options};
use kevel_test_support::{InMemory, Warnings};

use self::case::{Answer, Cases, FILES, GATED_FILES, GATES};

impl case::Server for InMemory {
    async fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let mut text = Vec::new();
        encode_any(body, &mut text);
        let what = format!("{method} {path}");
        let response = self.send_bytes(&what, text.into(), "application/json").await;
        let code = response.status().as_u16();
        let warnings = response.extensions().get::<Warnings>().unwrap().0.clone();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer { code, warnings, body: decode_any(&body, Unknown::Ignore).unwrap().value }
    }
}

/// A server that gives services addresses and ports, as those of [`conformance rules`] do.
async fn start(format: Format) -> InMemory {
    let engine: Arc<dyn Engine> = Arc::new(Embedded::memory(Options::default()).unwrap());
    let ports = PortRange { base: 30000, size: 2768 };
    InMemory::with_services(engine, format, "10.96.0.0/16", ports).await
}

#[tokio::test]
async fn rules_of_kinds_stored_as_json_answer_as_the_reference() {
    compare(FILES, &start(Format::Json).await).await;
}

/// As on etcd: what an update finds stored has been through protobuf.
#[tokio::test]
async fn rules_of_kinds_stored_as_protobuf_answer_as_the_reference() {
    compare(FILES, &start(Format::Protobuf).await).await;
}

#[tokio::test]
async fn rules_of_gated_kinds_stored_as_json_answer_alike() {
    compare(GATED_FILES, &start_gated(Format::Json).await).await;
}

#[tokio::test]
async fn rules_of_gated_kinds_stored_as_protobuf_answer_alike() {
    compare(GATED_FILES, &start_gated(Format::Protobuf).await).await;
}

/// A server with all versions of all groups, and with the gates of the cases.
async fn start_gated(format: Format) -> InMemory {
    let features = FeatureSet::new(|feature| {
        FeatureSet::default().has(feature) || GATES.contains(&feature.gate().name)
    });
    InMemory::with_features(format, features).await
}

async fn compare(files: &[&str], server: &InMemory) {
    let mut differ = Vec::new();
    for file in files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let cases = Cases::read(&text);
        let known = cases.cases.iter().map(|case| &case.expected);
        assert_eq!(cases.record(known), text, "{file} is not as `conformance rules` writes it");
        for (number, case) in cases.cases.iter().enumerate() {
            let found = cases.play(number, server).await;
            if found != case.expected {
                differ.push(format!("{file}\n{}\nfound {found:#?}", case.text));
            }
        }
    }
    assert!(differ.is_empty(), "{}\n{} differ", differ.join("\n\n"), differ.len());
}
