//! Tests of KMS v1 plug-ins, behind their feature gate: a stub on a socket, called by the engine.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aes::Aes256;
use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockEncryptMut, KeyIvInit};
use kevel_encryption::{
    DynamicTransformers, Encrypted, EncryptionMetrics, Location, Options, Timing,
};
use kevel_server::metrics::Metrics;
use kevel_store::embedded::{self, Embedded};
use kevel_store::{Engine, Error};
use kevel_test_support::{KmsPlugin, until};

const PLAIN: &[u8] = br#"{"kind":"Secret","data":{"password":"aHVudGVyMg=="}}"#;
const PREFIX: &[u8] = b"k8s:enc:kms:v1:vault:";

struct Server {
    transformers: DynamicTransformers,
    engine: Encrypted,
    metrics: Arc<Metrics>,
}

fn config(folder: &Path, socket: &Path, more: &str) -> PathBuf {
    let path = folder.join("config.yaml");
    let text = format!(
        "{{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, resources: \
         [{{resources: [secrets], providers: [{{kms: {{name: vault, endpoint: 'unix://{}', \
         timeout: 2s{more}}}}}, {{identity: {{}}}}]}}]}}",
        socket.display()
    );
    std::fs::write(&path, text).unwrap();
    path
}

async fn load(path: &Path, raw: &Arc<dyn Engine>, gate: bool) -> Result<Server, String> {
    let metrics = Arc::new(Metrics::default());
    let location =
        Location { prefix: "/registry/secrets/".to_owned(), group: "", resource: "secrets" };
    let options = Options {
        root: "/registry/".to_owned(),
        locations: vec![location],
        kms_v1: gate,
        timing: Timing {
            healthz_positive_ttl: Duration::ZERO,
            healthz_negative_ttl: Duration::ZERO,
            ..Timing::default()
        },
        ..Options::default()
    };
    let counted = Arc::new(EncryptionMetrics::new(&metrics));
    let transformers = DynamicTransformers::load(path, false, options, &metrics, counted).await?;
    let engine = transformers.engine(raw.clone());
    Ok(Server { transformers, engine, metrics })
}

fn memory() -> Arc<dyn Engine> {
    Arc::new(Embedded::memory(embedded::Options::default()).unwrap())
}

fn key(name: &str) -> Vec<u8> {
    format!("/registry/secrets/default/{name}").into_bytes()
}

async fn read(server: &Server, name: &str) -> Result<Vec<u8>, Error> {
    let found = server.engine.get(&key(name), None).await?;
    Ok(found.entry.unwrap().value.to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_gate_it_is_refused_in_the_references_words() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let path = config(folder.path(), &socket, "");
    let refused = load(&path, &memory(), false).await.err().unwrap();
    assert_eq!(
        refused,
        "error while building transformers: KMSv1 is deprecated and will only receive security updates \
         going forward. Use KMSv2 instead.  Set --feature-gates=KMSv1=true to use the deprecated KMSv1 \
         feature."
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_value_has_a_key_that_the_plugin_encrypts() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let mut plugin = KmsPlugin::start(&socket, "unused");
    let (path, raw) = (config(folder.path(), &socket, ", cachesize: 2"), memory());
    let server = load(&path, &raw, true).await.unwrap();
    assert_eq!(plugin.calls("Version"), 0, "the plug-in was not called yet");
    for name in ["a", "b", "c"] {
        server.engine.create(&key(name), PLAIN.into(), None).await.unwrap();
    }
    assert_eq!((plugin.calls("Version"), plugin.calls("Encrypt")), (1, 3));

    // Byte for byte: two bytes of length, the encrypted key, a nonce, the ciphertext, and a tag.
    let stored = raw.get(&key("a"), None).await.unwrap().entry.unwrap().value;
    let rest = stored.strip_prefix(PREFIX).unwrap();
    assert_eq!(rest[..2], [0, 32]);
    assert_eq!(rest.len(), 2 + 32 + 12 + PLAIN.len() + 16);
    assert!(!stored.windows(7).any(|part| part == b"hunter2" || part == b"aHVudGV"));

    // Two keys are cached: the most recently used.
    for name in ["c", "b", "c"] {
        assert_eq!(read(&server, name).await.unwrap(), PLAIN);
    }
    assert_eq!(plugin.calls("Decrypt"), 0);
    assert_eq!(read(&server, "a").await.unwrap(), PLAIN);
    assert_eq!(plugin.calls("Decrypt"), 1);
    assert_eq!(read(&server, "c").await.unwrap(), PLAIN);
    assert_eq!(plugin.calls("Decrypt"), 1, "b was not used for the longest time");
    let shown = server.metrics.show();
    for line in [
        "apiserver_envelope_encryption_dek_cache_fill_percent 1\n",
        "apiserver_storage_envelope_transformation_cache_misses_total 1\n",
        "apiserver_storage_data_key_generation_duration_seconds_count 3\n",
        "apiserver_envelope_encryption_dek_cache_inter_arrival_time_seconds_count{\
         transformation_type=\"to_storage\"} 3\n",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }

    // Without the plug-in nothing is written, values with cached keys are read, and others give an error, not "not
    // found".
    plugin.stop();
    let refused = server.engine.create(&key("d"), PLAIN.into(), None).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert_eq!(read(&server, "a").await.unwrap(), PLAIN);
    assert!(matches!(read(&server, "b").await, Err(Error::Unavailable(_))));
    plugin.resume();
    until(async || read(&server, "b").await.is_ok()).await;
    // A value that is moved to another storage key cannot be decrypted.
    raw.create(&key("moved"), stored, None).await.unwrap();
    let moved = read(&server, "moved").await.unwrap_err().to_string();
    assert!(moved.contains("cipher: message authentication failed"), "{moved}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_before_gcm_is_read_and_stale() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "unused");
    let (path, raw) = (config(folder.path(), &socket, ", cachesize: -1"), memory());
    let server = load(&path, &raw, true).await.unwrap();
    let (data_key, first) = ([7; 32], [9; 16]);
    plugin.know("", b"sealed", &data_key);
    let cbc = cbc::Encryptor::<Aes256>::new(&data_key.into(), &first.into());
    let data = cbc.encrypt_padded_vec_mut::<Pkcs7>(PLAIN);
    let old = [PREFIX, &[0, 6], b"sealed", &first, &data].concat();
    let created = raw.create(&key("old"), old.into(), None).await.unwrap();
    assert_eq!(read(&server, "old").await.unwrap(), PLAIN);
    assert!(server.engine.is_stale(&key("old")).await.unwrap());
    server.engine.update(&key("old"), PLAIN.into(), created, None).await.unwrap();
    assert!(!server.engine.is_stale(&key("old")).await.unwrap());
    // Without a cache every read calls the plug-in.
    let before = plugin.calls("Decrypt");
    for _ in 0..3 {
        read(&server, "old").await.unwrap();
    }
    assert_eq!(plugin.calls("Decrypt"), before + 3);

    for (name, value, why) in [
        ("short", &b"\x00"[..], "failed to read uint16 length prefixed data"),
        ("cut", b"\x00\x09sealed", "failed to read uint16 length prefixed data"),
        ("unknown", b"\x00\x02no....", "rpc error: code = NotFound desc = "),
    ] {
        raw.create(&key(name), [PREFIX, value].concat().into(), None).await.unwrap();
        let said = read(&server, name).await.unwrap_err();
        assert!(matches!(&said, Error::Damaged(what) if what.why.contains(why)), "{name}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_well_if_it_encrypts_and_decrypts() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "unused");
    let path = config(folder.path(), &socket, "");
    plugin.set_version("v1alpha1");
    let server = load(&path, &memory(), true).await.unwrap();
    assert_eq!(server.transformers.checks_apart(), Some(1), "as the reference has it");
    let failed =
        "failed to perform encrypt section of the healthz check for KMS Provider vault, error: ";
    let said = server.transformers.check_one(0).await.unwrap_err();
    let why = "KMS provider api version v1alpha1 is not supported, only v1beta1 is supported now";
    assert_eq!(said, format!("{failed}{why}"));
    plugin.set_version("v1beta1");
    assert_eq!(server.transformers.check_one(0).await, Ok(()));
    assert_eq!((plugin.calls("Encrypt"), plugin.calls("Decrypt")), (1, 1));
    plugin.set_healthz("sealed");
    let said = server.transformers.check_one(0).await.unwrap_err();
    assert!(said.starts_with(&format!("{failed}rpc error: code = Internal desc = ")), "{said}");
}
