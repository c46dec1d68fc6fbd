//! Tests of the engine: stored values are encrypted, read values are not, and only configured resources are.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arc_swap::ArcSwap;
use kevel_encryption::config::EncryptionConfiguration;
use kevel_encryption::{Encrypted, EncryptionMetrics, Location, Options, Transformers};
use kevel_server::metrics::Metrics;
use kevel_store::embedded::{self, Embedded};
use kevel_store::etcd::{self, Etcd};
use kevel_store::{Change, Engine, Error, RangeOptions, Revision, Unreadable, guaranteed_update};
use kevel_test_support::{EtcdServer, soon};

const SECRET: &[u8] = b"/registry/secrets/default/token";
const PLAIN: &[u8] = br#"{"data":{"password":"aHVudGVyMg=="}}"#;

const KEY_A: &str = "{name: a, secret: dGhpcyBpcyBwYXNzd29yZCB0aGlzIGlzIHBhc3N3b3I=}";
const KEY_B: &str = "{name: b, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}";

struct Store {
    raw: Arc<dyn Engine>,
    encrypted: Encrypted,
    transformers: Arc<ArcSwap<Transformers>>,
    metrics: Arc<EncryptionMetrics>,
    all: Metrics,
}

fn transformers(entries: &str, metrics: &Arc<EncryptionMetrics>) -> Result<Transformers, String> {
    let text = format!(
        "{{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, resources: \
         [{entries}]}}"
    );
    let config = EncryptionConfiguration::read(text.as_bytes())?;
    config.check(false)?;
    let location = |prefix: &str, group, resource| {
        let prefix = format!("/registry/{prefix}/");
        Location { prefix, group, resource }
    };
    let locations = vec![
        location("secrets", "", "secrets"),
        location("services/specs", "", "services"),
        location("events", "", "events"),
        location("deployments", "apps", "deployments"),
    ];
    let options = Options { root: "/registry/".to_owned(), locations, ..Options::default() };
    Transformers::new(&config, &options, metrics)
}

impl Store {
    fn new(entries: &str) -> Self {
        let raw = Embedded::memory(embedded::Options::default()).unwrap();
        Store::on(Arc::new(raw), entries)
    }

    fn on(raw: Arc<dyn Engine>, entries: &str) -> Self {
        let all = Metrics::default();
        let metrics = Arc::new(EncryptionMetrics::new(&all));
        let made = transformers(entries, &metrics).unwrap();
        let transformers = Arc::new(ArcSwap::from_pointee(made));
        let encrypted = Encrypted::new(raw.clone(), transformers.clone(), metrics.clone());
        Store { raw, encrypted, transformers, metrics, all }
    }

    /// Puts another configuration into force.
    fn swap(&self, entries: &str) {
        self.transformers.store(Arc::new(transformers(entries, &self.metrics).unwrap()));
    }

    async fn stored(&self, key: &[u8]) -> Vec<u8> {
        self.raw.get(key, None).await.unwrap().entry.unwrap().value.to_vec()
    }

    async fn read(&self, key: &[u8]) -> Vec<u8> {
        self.encrypted.get(key, None).await.unwrap().entry.unwrap().value.to_vec()
    }
}

fn secrets(providers: &str) -> String {
    format!("{{resources: [secrets], providers: [{providers}]}}")
}

fn gcm(keys: &str) -> String {
    format!("{{aesgcm: {{keys: [{keys}]}}}}")
}

#[tokio::test]
async fn resources_are_found_by_their_keys() {
    let gcm = gcm(KEY_A);
    for (entries, key, encrypted) in [
        ("[secrets]", "secrets/default/a", true),
        ("[secrets]", "configmaps/default/a", false),
        ("[secrets]", "secretsx/default/a", false),
        ("[services]", "services/specs/default/a", true),
        ("[services]", "services/endpoints/default/a", false),
        ("[deployments.apps]", "deployments/default/a", true),
        ("[deployments]", "deployments/default/a", false),
        ("['*.apps']", "deployments/default/a", true),
        ("['*.apps']", "secrets/default/a", false),
        ("['*.']", "secrets/default/a", true),
        ("['*.']", "deployments/default/a", false),
        ("[widgets.example.com]", "example.com/widgets/default/a", true),
        ("[widgets.example.com]", "example.com/gadgets/default/a", false),
        ("['*.example.com']", "example.com/gadgets/a", true),
        ("['*.*']", "other.example.com/gadgets/a", true),
        ("['*.*']", "apiregistration.k8s.io/apiservices/v1.", true),
        ("['*.*']", "events/default/a", true),
        // Not resources.
        ("['*.*']", "ranges/serviceips", false),
        ("['*.*']", "masterleases/10.0.0.1", false),
        ("['*.*']", "peerserverleases/a", false),
        ("['*.*']", "bookkeeping/a/b", false),
    ] {
        let store = Store::new(&format!("{{resources: {entries}, providers: [{gcm}]}}"));
        let key = format!("/registry/{key}").into_bytes();
        store.encrypted.create(&key, PLAIN.into(), None).await.unwrap();
        let stored = store.stored(&key).await;
        let shown = String::from_utf8_lossy(&key).into_owned();
        assert_eq!(stored.starts_with(b"k8s:enc:aesgcm:v1:a:"), encrypted, "{entries} {shown}");
        assert_eq!(stored == PLAIN, !encrypted, "{entries} {shown}");
        assert_eq!(store.read(&key).await, PLAIN, "{entries} {shown}");
    }
}

#[tokio::test]
async fn the_first_rule_counts_and_what_it_hides_is_refused() {
    let (gcm, metrics) = (gcm(KEY_A), Arc::new(EncryptionMetrics::new(&Metrics::default())));
    let entry = |names: &str| format!("{{resources: [{names}], providers: [{gcm}]}}");
    let hidden = |one: &str, other: &str| {
        let error = transformers(&format!("{}, {}", entry(one), entry(other)), &metrics).err();
        error.unwrap_or_default()
    };
    for (one, other, resource, rule) in [
        ("'*.'", "secrets", "secrets", "*."),
        ("'*.*'", "secrets", "secrets", "*.*"),
        ("'*.*'", "'*.'", "*.", "*.*"),
        ("'*.apps'", "deployments.apps", "deployments.apps", "*.apps"),
        ("'*.*'", "'*.*'", "*.*", "*.*"),
    ] {
        let said = format!(
            "error while building transformers: resource \"{resource}\" is masked by earlier rule \
             \"{rule}\""
        );
        assert_eq!(hidden(one, other), said);
    }
    assert_eq!(hidden("secrets", "'*.*'"), "");
    // Events are excluded although everything else is encrypted.
    let plain = "{resources: [events], providers: [{identity: {}}]}";
    let store = Store::new(&format!("{plain}, {}", entry("'*.*'")));
    store.encrypted.create(b"/registry/events/a/b", PLAIN.into(), None).await.unwrap();
    assert_eq!(store.stored(b"/registry/events/a/b").await, PLAIN);
    let v1 = "{resources: [secrets], providers: [{kms: {name: a, endpoint: 'unix:///a'}}]}";
    let said = transformers(v1, &metrics).unwrap_err();
    assert!(said.contains("Set --feature-gates=KMSv1=true to use the deprecated"), "{said}");
}

#[tokio::test]
async fn update_without_change_rewrites_a_stale_value() {
    let store = Store::new(&secrets(&gcm(KEY_A)));
    let engine = &store.encrypted;
    let created = engine.create(SECRET, PLAIN.into(), None).await.unwrap();
    let same = |_| async { Ok::<_, String>(Change::Put(PLAIN.into(), None)) };
    let cached = engine.get(SECRET, None).await.unwrap().entry;
    for guess in [None, cached.clone()] {
        let updated = guaranteed_update(engine, SECRET, guess, same).await.unwrap();
        assert_eq!(updated.written, None, "it is not stale");
    }
    store.swap(&secrets(&gcm(&format!("{KEY_B}, {KEY_A}"))));
    assert!(engine.is_stale(SECRET).await.unwrap());
    let updated = guaranteed_update(engine, SECRET, cached, same).await.unwrap();
    assert!(updated.written > Some(created));
    assert!(store.stored(SECRET).await.starts_with(b"k8s:enc:aesgcm:v1:b:"));
    assert_eq!(store.read(SECRET).await, PLAIN);
    assert!(!engine.is_stale(SECRET).await.unwrap());
    assert!(!engine.is_stale(b"/registry/configmaps/a/b").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_holds_what_the_reference_would_write() {
    let folder = tempfile::tempdir().unwrap();
    let Some(etcd) = EtcdServer::start(folder.path()) else { return };
    let options = etcd::Options { endpoints: vec![etcd.endpoint.clone()], ..Default::default() };
    let raw: Arc<dyn Engine> = Arc::new(Etcd::connect(options).await.unwrap());
    let of = |provider: &str| format!("{{{provider}: {{keys: [{KEY_A}]}}}}");
    let store = Store::on(raw, &secrets(&of("aescbc")));
    let mut watch = store.encrypted.watch(b"/registry/", Revision::INITIAL).await.unwrap();
    let mut revision = store.encrypted.create(SECRET, PLAIN.into(), None).await.unwrap();
    let mut before = "aescbc";
    for provider in ["aesgcm", "secretbox", "aescbc"] {
        let prefix = format!("k8s:enc:{before}:v1:a:");
        assert!(store.stored(SECRET).await.starts_with(prefix.as_bytes()), "{before}");
        let all = ["aescbc", "aesgcm", "secretbox"].map(of).join(", ");
        store.swap(&secrets(&format!("{}, {all}", of(provider))));
        assert_eq!(store.read(SECRET).await, PLAIN);
        assert!(store.encrypted.is_stale(SECRET).await.unwrap());
        revision = store.encrypted.update(SECRET, PLAIN.into(), revision, None).await.unwrap();
        assert!(!store.encrypted.is_stale(SECRET).await.unwrap());
        before = provider;
    }
    let mut heard = Vec::new();
    while heard.len() < 4 {
        heard.extend(soon(watch.next()).await.unwrap().events);
    }
    assert!(heard.iter().all(|event| event.current.as_ref().unwrap().value == PLAIN));
    store.encrypted.close().await;
}

#[tokio::test]
async fn undecryptable_value_does_not_fail_reads_of_others() {
    let store = Store::new(&secrets(&gcm(KEY_A)));
    let engine = &store.encrypted;
    let other = b"/registry/secrets/default/another".as_slice();
    let mut watch = engine.watch(b"/registry/", Revision::INITIAL).await.unwrap();
    engine.create(other, PLAIN.into(), None).await.unwrap();
    let damaged = b"k8s:enc:aesgcm:v1:a:0123456789abnonsense, but long enough".as_slice();
    store.raw.create(SECRET, damaged.into(), None).await.unwrap();
    let why = "cipher: message authentication failed";

    let list = engine.range(b"/registry/secrets/", RangeOptions::default()).await.unwrap();
    assert_eq!(list.entries.len(), 1);
    assert_eq!((list.damaged[0].key.as_ref(), list.damaged[0].why.as_str()), (SECRET, why));
    match engine.get(SECRET, None).await {
        Err(Error::Damaged(damaged)) => assert_eq!(damaged.why, why),
        answer => panic!("{answer:?}"),
    }
    let mut heard = Vec::new();
    while heard.len() < 2 {
        heard.extend(soon(watch.next()).await.unwrap().events);
    }
    assert_eq!(heard[0].current.as_ref().unwrap().value, PLAIN);
    assert_eq!(heard[1].unreadable, Some(Unreadable::Damaged(why.to_owned())));
    // A value that cannot be decrypted can be updated and deleted by its revision.
    let revision = heard[1].revision;
    let written = engine.update(SECRET, PLAIN.into(), revision, None).await.unwrap();
    assert_eq!(store.read(SECRET).await, PLAIN);
    // A conflict returns the present value decrypted.
    match engine.update(SECRET, "x".into(), revision, None).await {
        Err(Error::Conflict(entry)) => assert_eq!(entry.value, PLAIN),
        answer => panic!("{answer:?}"),
    }
    match engine.create(SECRET, "x".into(), None).await {
        Err(Error::Exists(entry)) => assert_eq!(entry.value, PLAIN),
        answer => panic!("{answer:?}"),
    }
    engine.delete(SECRET, written).await.unwrap();
    let mut last = soon(watch.next()).await.unwrap().events;
    while last.last().is_none_or(|event| event.current.is_some()) {
        last.extend(soon(watch.next()).await.unwrap().events);
    }
    let gone = last.pop().unwrap();
    assert_eq!(gone.previous.unwrap().value, PLAIN);
}

#[tokio::test]
async fn encrypted_values_of_unconfigured_resources_are_not_served() {
    let store = Store::new(&secrets(&gcm(KEY_A)));
    let key = b"/registry/configmaps/default/a".as_slice();
    for (stored, readable) in [("k8s:enc:aesgcm:v1:a:0123456789ab", false), ("{}", true)] {
        store.raw.create(key, stored.into(), None).await.unwrap();
        let found = store.encrypted.get(key, None).await;
        assert_eq!(found.is_ok(), readable, "{stored}: {found:?}");
        assert!(readable || matches!(found, Err(Error::Damaged(_))), "{found:?}");
        let revision = store.raw.get(key, None).await.unwrap().entry.unwrap().mod_revision;
        store.raw.delete(key, revision).await.unwrap();
    }
}

#[tokio::test]
async fn values_are_counted_by_resource_and_provider() {
    let store = Store::new(&secrets(&gcm(KEY_A)));
    store.encrypted.create(SECRET, PLAIN.into(), None).await.unwrap();
    store.read(SECRET).await;
    store.swap(&secrets(&gcm(KEY_B)));
    assert!(store.encrypted.get(SECRET, None).await.is_err());
    let shown = store.all.show();
    let name = "apiserver_storage_transformation_operations_total";
    for labels in [
        "resource=\"secrets\",status=\"OK\",transformation_type=\"to_storage\",transformer_prefix=\"k8s:enc:aesgcm:v1:\"",
        "resource=\"secrets\",status=\"OK\",transformation_type=\"from_storage\",transformer_prefix=\"a:\"",
        "resource=\"secrets\",status=\"unknown-non-grpc\",transformation_type=\"from_storage\",transformer_prefix=\"k8s:enc:aesgcm:v1:\"",
    ] {
        let found = shown.lines().find(|line| {
            line.starts_with(name) && labels.split(',').all(|label| line.contains(label))
        });
        assert!(found.is_some_and(|line| line.ends_with(" 1")), "{labels}: {shown}");
    }
}
