//! Tests of KMS v2 plug-ins: a stub on a socket, called by the engine.

#![allow(clippy::unwrap_used)]

use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kevel_encryption::{
    DynamicTransformers, Encrypted, EncryptionMetrics, Location, Options, Timing,
};
use kevel_server::metrics::Metrics;
use kevel_store::embedded::{self, Embedded};
use kevel_store::{Engine, Error, RangeOptions, Revision, Unreadable};
use kevel_test_support::{KmsPlugin, soon, until};

const SECRET: &[u8] = b"/registry/secrets/default/token";
const PLAIN: &[u8] = br#"{"kind":"Secret","data":{"password":"aHVudGVyMg=="}}"#;

/// Short intervals, for everything that a test is not about.
const FAST: Timing = Timing {
    positive_interval: Duration::from_millis(20),
    negative_interval: Duration::from_millis(20),
    write_source_max_ttl: Duration::from_secs(180),
    healthz_positive_ttl: Duration::ZERO,
    healthz_negative_ttl: Duration::ZERO,
    look: Duration::from_millis(20),
};

struct Server {
    transformers: Arc<DynamicTransformers>,
    engine: Encrypted,
    metrics: Arc<Metrics>,
}

fn config(folder: &Path, providers: &str) -> std::path::PathBuf {
    let path = folder.join("config.yaml");
    let text = format!(
        "{{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, resources: \
         [{{resources: [secrets], providers: [{providers}]}}]}}"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn kms(socket: &Path) -> String {
    let at = socket.display();
    format!("{{kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{at}', timeout: 300ms}}}}")
}

async fn server(path: &Path, raw: &Arc<dyn Engine>, timing: Timing) -> Server {
    let metrics = Arc::new(Metrics::default());
    let location =
        Location { prefix: "/registry/secrets/".to_owned(), group: "", resource: "secrets" };
    let options = Options {
        root: "/registry/".to_owned(),
        locations: vec![location],
        server_id: "apiserver-a".to_owned(),
        timing,
        ..Options::default()
    };
    let counted = Arc::new(EncryptionMetrics::new(&metrics));
    let loaded = DynamicTransformers::load(path, true, options, &metrics, counted).await;
    let transformers = Arc::new(loaded.unwrap());
    let engine = transformers.engine(raw.clone());
    Server { transformers, engine, metrics }
}

fn memory() -> Arc<dyn Engine> {
    Arc::new(Embedded::memory(embedded::Options::default()).unwrap())
}

async fn read(server: &Server, key: &[u8]) -> Result<Vec<u8>, Error> {
    let found = server.engine.get(key, None).await?;
    Ok(found.entry.unwrap().value.to_vec())
}

fn key(name: &str) -> Vec<u8> {
    format!("/registry/secrets/default/{name}").into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_asked_for_a_seed_and_seldom_again() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let mut plugin = KmsPlugin::start(&socket, "key-1");
    let (path, raw) = (config(folder.path(), &kms(&socket)), memory());
    let one = server(&path, &raw, FAST).await;
    for name in ["a", "b", "c"] {
        one.engine.create(&key(name), PLAIN.into(), None).await.unwrap();
    }
    let stored = raw.get(&key("a"), None).await.unwrap().entry.unwrap().value;
    assert!(stored.starts_with(b"k8s:enc:kms:v2:vault:\x0a"));
    assert!(!stored.windows(7).any(|part| part == b"hunter2" || part == b"aHVudGV"));
    assert_eq!((plugin.calls("Encrypt"), plugin.calls("Decrypt")), (1, 0));
    assert_eq!(read(&one, &key("a")).await.unwrap(), PLAIN);
    assert!(!one.engine.is_stale(&key("a")).await.unwrap());

    // Another server has a seed of its own, and calls the plug-in once for the seed of the first.
    let other = server(&path, &raw, FAST).await;
    for name in ["a", "b", "c"] {
        assert_eq!(read(&other, &key(name)).await.unwrap(), PLAIN);
        assert!(!other.engine.is_stale(&key(name)).await.unwrap(), "the plug-in's key is the same");
    }
    assert_eq!((plugin.calls("Encrypt"), plugin.calls("Decrypt")), (2, 1));

    // Without the plug-in: cached seeds are read with, and writes work for a while.
    plugin.stop();
    let unanswered = "kms-provider-0: failed to perform status section of the healthz check for KMS \
                      Provider vault, error: rpc error: code = DeadlineExceeded desc = ";
    // A call that was under way fails by its connection.
    let is_unanswered = |said: String| said.starts_with(unanswered);
    until(async || one.transformers.check().await.is_err_and(is_unanswered)).await;
    assert_eq!(read(&one, &key("a")).await.unwrap(), PLAIN);
    one.engine.create(&key("d"), PLAIN.into(), None).await.unwrap();
    plugin.resume();
    until(async || one.transformers.check().await.is_ok()).await;

    let shown = one.metrics.show();
    for line in [
        "apiserver_envelope_encryption_dek_source_cache_size{provider_name=\"vault\"} 1",
        "apiserver_storage_envelope_transformation_cache_misses_total 0",
        "apiserver_storage_data_key_generation_duration_seconds_count 1",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_key_makes_values_stale() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "key-1");
    let (path, raw) = (config(folder.path(), &kms(&socket)), memory());
    let server = server(&path, &raw, FAST).await;
    let created = server.engine.create(SECRET, PLAIN.into(), None).await.unwrap();
    assert!(!server.engine.is_stale(SECRET).await.unwrap());
    plugin.rotate("key-2");
    until(async || server.engine.is_stale(SECRET).await.unwrap()).await;
    assert_eq!(read(&server, SECRET).await.unwrap(), PLAIN);
    server.engine.update(SECRET, PLAIN.into(), created, None).await.unwrap();
    assert!(!server.engine.is_stale(SECRET).await.unwrap());
    assert_eq!(plugin.calls("Encrypt"), 2);
    // An unhealthy plug-in gives no key, and its error is reported.
    plugin.set_healthz("sealed");
    let said = server.transformers.check().await.unwrap_err();
    let problem = "kms-provider-0: kmsv2 Provider vault is not healthy, error: got unexpected \
                   healthz status: sealed";
    assert_eq!(said, problem);
}

#[tokio::test(flavor = "multi_thread")]
async fn unconfirmed_seeds_are_not_used_for_writes() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let mut plugin = KmsPlugin::start(&socket, "key-1");
    let (path, raw) = (config(folder.path(), &kms(&socket)), memory());
    let timing = Timing { write_source_max_ttl: Duration::from_millis(1500), ..FAST };
    let server = server(&path, &raw, timing).await;
    server.engine.create(SECRET, PLAIN.into(), None).await.unwrap();
    plugin.stop();
    let name = &key("late");
    until(async || match server.engine.create(name, PLAIN.into(), None).await {
        Err(Error::Unavailable(why)) => {
            assert!(why.starts_with("encryptedDEKSource with keyID hash \"sha256:"), "{why}");
            assert!(why.contains(" expired at "), "{why}");
            true
        }
        Ok(revision) => server.engine.delete(name, revision).await.is_err(),
        Err(error) => panic!("{error}"),
    })
    .await;
    assert_eq!(read(&server, SECRET).await.unwrap(), PLAIN, "reads are never too late");
    plugin.resume();
    until(async || server.engine.create(name, PLAIN.into(), None).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_yet_is_not_missing() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let mut plugin = KmsPlugin::start(&socket, "key-1");
    let (path, raw) = (config(folder.path(), &kms(&socket)), memory());
    let one = server(&path, &raw, FAST).await;
    let other = server(&path, &raw, FAST).await;
    one.engine.create(SECRET, PLAIN.into(), None).await.unwrap();
    plugin.stop();
    // A list without the value would claim that it is deleted.
    let list = other.engine.range(b"/registry/secrets/", RangeOptions::default()).await;
    assert!(matches!(list, Err(Error::Unavailable(_))), "{list:?}");
    // The watch goes on: it reports the unreadable value, and delivers the others.
    let mut watch = other.engine.watch(b"/registry/", Revision::INITIAL).await.unwrap();
    raw.create(b"/registry/pods/default/a", "{}".into(), None).await.unwrap();
    let mut heard = Vec::new();
    while heard.len() < 2 {
        heard.extend(soon(watch.next()).await.unwrap().events);
    }
    assert!(matches!(heard[0].unreadable, Some(Unreadable::Unavailable(_))), "{heard:?}");
    assert_eq!(heard[1].current.as_ref().unwrap().value, "{}");
    plugin.resume();
    until(async || read(&other, SECRET).await.is_ok_and(|value| value == PLAIN)).await;
    // A server that starts before its plug-in waits for it.
    plugin.stop();
    let late = server(&path, &raw, FAST).await;
    let said = late.engine.create(&key("late"), PLAIN.into(), None).await.unwrap_err();
    assert_eq!(said, Error::Unavailable("got unexpected nil transformer".to_owned()));
    plugin.resume();
    until(async || read(&late, SECRET).await.is_ok_and(|value| value == PLAIN)).await;
}

/// Values in the reference's stored form, made with Python's `cryptography`: with a seed, and with a key from before
/// there were seeds.
const OF_SEED: &str = "0a70969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5000102030405060708090a0be3\
     57fe0e346960ccc69474c6424ef0bc01ac0c60b567ec775b8900a52bd3c9e9cef7c2cd13feb87bce8bc18af141477d\
     9ec86c2ea5ad52dcd1eea589eaea9e4ee1d2792212056b65792d311a077772617070656422150a0d612e6578616d70\
     6c652e636f6d12046e6f74652801";
const OF_KEY: &str = "0a50000102030405060708090a0b277036ce2451c9d69eaaaca554162a1e3f528d051e70842b5f2fa3dbc8f2bcf75e\
     ba3007397e0cb39f1fbdaeb5864d8c0f2b90830167774c62e460de2fe8d8393f36be9b12056b65792d311a07777261\
     7070656422150a0d612e6578616d706c652e636f6d12046e6f7465";

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_reference_stores_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "key-1");
    let seed: Vec<u8> = (32..64).collect();
    plugin.know("key-1", b"wrapped", &seed);
    let path = config(folder.path(), &kms(&socket));
    for (stored, stale) in [(OF_SEED, false), (OF_KEY, true)] {
        let raw = memory();
        let server = server(&path, &raw, FAST).await;
        let prefix = b"k8s:enc:kms:v2:vault:".to_vec();
        let stored = [prefix, unhex(stored)].concat();
        raw.create(SECRET, stored.clone().into(), None).await.unwrap();
        assert_eq!(read(&server, SECRET).await.unwrap(), PLAIN);
        assert_eq!(server.engine.is_stale(SECRET).await.unwrap(), stale);
        // No change of the bytes may panic the server.
        let mut number: u64 = 0x5eed;
        let mut random = || {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            number as usize
        };
        for round in 0..500 {
            let mut changed = stored.clone();
            changed.truncate(21 + random() % (stored.len() - 20));
            let place = 21 + random() % (changed.len() - 20).max(1);
            if let Some(byte) = changed.get_mut(place) {
                *byte = random() as u8;
            }
            let name = key(&format!("changed-{round}"));
            raw.create(&name, changed.into(), None).await.unwrap();
            let _ = read(&server, &name).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_followed_and_a_bad_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let secretbox =
        "{secretbox: {keys: [{name: a, secret: dGhpcyBpcyBwYXNzd29yZCB0aGlzIGlzIHBhc3N3b3I=}]}}";
    let (path, raw) = (config(folder.path(), secretbox), memory());
    let server = server(&path, &raw, FAST).await;
    assert!(server.transformers.has_check());
    assert_eq!(server.transformers.check().await, Ok(()));
    tokio::spawn(server.transformers.clone().follow());
    server.engine.create(SECRET, PLAIN.into(), None).await.unwrap();
    let counted = |status: &str| {
        let name = "apiserver_encryption_config_controller_automatic_reloads_total";
        let shown = server.metrics.show();
        let line = shown.lines().find(|line| line.starts_with(name) && line.contains(status));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap())
    };
    std::fs::write(&path, "kind: nonsense").unwrap();
    until(async || counted("failure") > 0).await;
    assert_eq!(read(&server, SECRET).await.unwrap(), PLAIN);
    // Another plug-in is put into force once it is healthy.
    let socket = folder.path().join("kms.sock");
    config(folder.path(), &format!("{}, {secretbox}", kms(&socket)));
    let failures = counted("failure");
    let _plugin = KmsPlugin::start(&socket, "key-1");
    until(async || counted("success") == 1).await;
    assert!(counted("failure") <= failures + 1);
    assert!(server.engine.is_stale(SECRET).await.unwrap());
    assert_eq!(read(&server, SECRET).await.unwrap(), PLAIN);
    assert_eq!(server.metrics.show().matches("config_controller_last_config_info{").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unhealthy_plugins_are_not_put_into_force() {
    let folder = tempfile::tempdir().unwrap();
    let secretbox =
        "{secretbox: {keys: [{name: a, secret: dGhpcyBpcyBwYXNzd29yZCB0aGlzIGlzIHBhc3N3b3I=}]}}";
    let (path, raw) = (config(folder.path(), secretbox), memory());
    let server = server(&path, &raw, FAST).await;
    tokio::spawn(server.transformers.clone().follow());
    server.engine.create(SECRET, PLAIN.into(), None).await.unwrap();
    let socket = folder.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "key-1");
    plugin.set_healthz("sealed");
    config(folder.path(), &format!("{}, {secretbox}", kms(&socket)));
    until(async || plugin.calls("Status") > 3).await;
    assert!(!server.engine.is_stale(SECRET).await.unwrap(), "secretbox is still in force");
    plugin.set_healthz("ok");
    until(async || server.engine.is_stale(SECRET).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_not_decrypted_now_are_not_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let mut plugin = KmsPlugin::start(&socket, "key-1");
    // Calls fail before the watch loses its patience.
    let path = config(folder.path(), &kms(&socket).replace("300ms", "50ms"));
    let raw = memory();
    let one = server(&path, &raw, FAST).await;
    let other = server(&path, &raw, FAST).await;
    one.engine.create(SECRET, PLAIN.into(), None).await.unwrap();
    plugin.stop();
    let mut watch = other.engine.watch(b"/registry/", Revision::INITIAL).await.unwrap();
    let heard = soon(watch.next()).await.unwrap().events;
    let unreadable = heard[0].unreadable.as_ref();
    assert!(matches!(unreadable, Some(Unreadable::Unavailable(_))), "{heard:?}");
}

/// A rotation that only one of two calls has seen is not complete: nothing is written until both name the same key.
#[tokio::test(flavor = "multi_thread")]
async fn writes_wait_for_the_key_that_the_status_names() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "key-1");
    let (path, raw) = (config(folder.path(), &kms(&socket)), memory());
    for (has_seed, refused) in [(false, true), (true, false)] {
        plugin.encrypt_with((!has_seed).then_some("key-2"));
        let server = server(&path, &raw, FAST).await;
        plugin.encrypt_with(Some("key-2"));
        plugin.rotate("key-3");
        let calls = plugin.calls("Encrypt");
        until(async || plugin.calls("Encrypt") > calls + 1).await;
        let problem = server.transformers.check().await.unwrap_err();
        assert!(problem.contains("failed to rotate DEK uid="), "{problem}");
        assert!(problem.contains("errGen=<nil>"), "{problem}");
        // A seed of before is in use until it expires; without one, nothing is written.
        let name = key(&format!("{has_seed}"));
        let written = server.engine.create(&name, PLAIN.into(), None).await;
        assert_eq!(written.is_err(), refused, "{written:?}");
        let stored = raw.get(&name, None).await.unwrap().entry;
        let is_of = |key: &[u8]| {
            stored.as_ref().is_some_and(|entry| entry.value.windows(5).any(|part| part == key))
        };
        assert_eq!((is_of(b"key-1"), is_of(b"key-2"), is_of(b"key-3")), (has_seed, false, false));
        plugin.encrypt_with(None);
        until(async || server.transformers.check().await.is_ok()).await;
        server.engine.create(&key(&format!("{has_seed}-later")), PLAIN.into(), None).await.unwrap();
        plugin.rotate("key-1");
    }
}

/// The caller of a watch may stop waiting at any moment: events that were decrypted by then are delivered as they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_where_its_caller_left_it() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let mut plugin = KmsPlugin::start(&socket, "key-1");
    let (path, raw) = (config(folder.path(), &kms(&socket)), memory());
    let (one, other) = (server(&path, &raw, FAST).await, server(&path, &raw, FAST).await);
    let reader = server(&path, &raw, FAST).await;
    one.engine.create(&key("a"), PLAIN.into(), None).await.unwrap();
    other.engine.create(&key("b"), PLAIN.into(), None).await.unwrap();
    // The reader knows the seed of the first value, and needs the plug-in for that of the second.
    assert_eq!(read(&reader, &key("a")).await.unwrap(), PLAIN);
    plugin.stop();
    let misses = || {
        let shown = reader.metrics.show();
        let name = "apiserver_storage_envelope_transformation_cache_misses_total ";
        let line = shown.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.parse::<usize>().unwrap()
    };
    let before = misses();
    let mut watch = reader.engine.watch(b"/registry/", Revision::INITIAL).await.unwrap();
    until(async || {
        let mut next = pin!(watch.next());
        let heard = poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_ready())).await;
        assert!(!heard, "the plug-in does not answer");
        misses() > before
    })
    .await;
    plugin.resume();
    let heard = soon(watch.next()).await.unwrap().events;
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(heard[0].unreadable, None);
    assert_eq!(heard[0].current.as_ref().unwrap().value, PLAIN);
}
