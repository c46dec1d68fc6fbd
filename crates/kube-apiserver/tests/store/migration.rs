//! Migration from an embedded store to etcd and back.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use kevel_store::embedded::{Embedded, Options};
use kevel_store::etcd::{self, Etcd};
use kevel_store::{Engine, Error, RangeOptions, Revision, UNREPORTED};
use kevel_test_support::{Ca, EtcdServer, until, write_pair};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose};

/// More than one page of an import or an export.
const KEYS: usize = 1500;
/// Key that expires soon.
const SOON: &[u8] = b"/registry/events/default/soon";
const OBJECT: &str = r#"{"metadata":{"name":"a"}}"#;

fn command(verb: &str, directory: &Path, flags: &[String]) -> Command {
    let mut command = crate::command(verb);
    command.arg(directory).args(flags);
    command
}

fn run(verb: &str, directory: &Path, server: &EtcdServer) -> Output {
    command(verb, directory, &[flag(server)]).output().unwrap()
}

fn flag(server: &EtcdServer) -> String {
    format!("--etcd-servers={}", server.endpoint)
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

async fn connect(server: &EtcdServer) -> Etcd {
    let endpoints = vec![server.endpoint.clone()];
    let options = etcd::Options { endpoints, compaction_interval: None, ..Default::default() };
    Etcd::connect(options).await.unwrap()
}

/// An etcd server that serves.
async fn start(folder: &Path) -> Option<EtcdServer> {
    let server = EtcdServer::start(folder)?;
    let etcd = connect(&server).await;
    until(async || etcd.health().await.is_ok()).await;
    Some(server)
}

/// Fills a store with values of every kind, and a history.
async fn fill(directory: &Path) -> Revision {
    let store = Embedded::open(directory, Options::default()).unwrap();
    for number in 0..KEYS {
        let key = format!("/registry/things/default/{number}");
        let value = format!(r#"{{"metadata":{{"name":"{number:>200}"}}}}"#);
        store.create(key.as_bytes(), value.into(), None).await.unwrap();
    }
    let sealed = b"k8s:enc:aescbc:v1:key1:\x00\xff\xfe".to_vec();
    store.create(b"/registry/secrets/default/sealed", sealed.into(), None).await.unwrap();
    let protobuf = b"k8s\x00\x0a\x00\x12\x00".to_vec();
    store.create(b"/registry/pods/default/protobuf", protobuf.into(), None).await.unwrap();
    let large = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "x".repeat(1_000_000));
    store.create(b"/registry/things/default/large", large.into(), None).await.unwrap();
    let hour = Some(Duration::from_secs(3600));
    store.create(b"/registry/events/default/mortal", OBJECT.into(), hour).await.unwrap();
    let soon = Some(Duration::from_secs(15));
    store.create(SOON, OBJECT.into(), soon).await.unwrap();
    let gone = store.create(b"/registry/things/default/gone", "{}".into(), None).await.unwrap();
    let last = store.delete(b"/registry/things/default/gone", gone).await.unwrap();
    store.close().await;
    last
}

async fn contents(store: &dyn Engine) -> Vec<(String, Vec<u8>)> {
    let all = store.range(b"/registry/", RangeOptions::default()).await.unwrap();
    assert_eq!(all.damaged, []);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // `SOON` may expire on a busy machine.
    let stays = all.entries.iter().filter(|entry| entry.key != SOON);
    stays.map(|entry| (text(&entry.key), entry.value.to_vec())).collect()
}

/// Checks that every object has a revision that no client of the old store has seen, and that those are compacted.
async fn is_after(store: &dyn Engine, old: Revision) {
    let all = store.range(b"/registry/", RangeOptions::default()).await.unwrap();
    assert!(all.revision > old, "{} after {old}", all.revision);
    assert!(all.entries.iter().all(|entry| entry.mod_revision > old));
    let watch = async {
        let mut watch = store.watch(b"/registry/", old).await?;
        watch.next().await
    };
    let watched = watch.await;
    assert!(matches!(watched, Err(Error::Compacted { .. })), "{watched:?}");
    let past = RangeOptions { revision: Some(old), ..RangeOptions::default() };
    let listed = store.range(b"/registry/", past).await;
    assert!(matches!(listed, Err(Error::Compacted { .. })), "{listed:?}");
    let key = b"/registry/things/default/0";
    let stale = store.update(key, "{}".into(), old, None).await;
    assert!(matches!(stale, Err(Error::Conflict(_))), "{stale:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_to_etcd_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (db, back) = (folder.path().join("db"), folder.path().join("back"));
    let Some(server) = start(folder.path()).await else { return };
    let old = fill(&db).await;
    let store = Embedded::open(&db, Options::default()).unwrap();
    let expected = contents(&store).await;
    let refused = said(&run("export", &db, &server));
    assert!(refused.contains("is in use by another process"), "{refused}");
    store.close().await;

    let exported = run("export", &db, &server);
    assert!(exported.status.success(), "{}", said(&exported));
    let etcd = connect(&server).await;
    assert_eq!(contents(&etcd).await, expected);
    is_after(&etcd, old).await;
    let again = run("export", &db, &server);
    assert!(!again.status.success() && said(&again).contains("etcd is not empty"), "{again:?}");

    let before = etcd.current_revision().await.unwrap();
    let imported = run("import", &back, &server);
    assert!(imported.status.success(), "{}", said(&imported));
    let again = run("import", &back, &server);
    assert!(!again.status.success() && said(&again).contains("is not empty"), "{again:?}");
    let store = Embedded::open(&back, Options::default()).unwrap();
    assert_eq!(contents(&store).await, expected);
    is_after(&store, before).await;
    until(async || store.get(SOON, None).await.unwrap().entry.is_none()).await;
    let mortal = store.get(b"/registry/events/default/mortal", None).await.unwrap();
    assert!(mortal.entry.is_some());
    store.close().await;
    let checked = command("check", &back, &[]).output().unwrap();
    assert!(checked.status.success(), "{}", said(&checked));
    until(async || etcd.get(SOON, None).await.unwrap().entry.is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_export_is_refused_and_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db");
    let Some(server) = start(folder.path()).await else { return };
    fill(&db).await;
    let store = Embedded::open(&db, Options::default()).unwrap();
    let key = b"/registry/zzz/too-large";
    let large = store.create(key, vec![b'x'; 3 << 20].into(), None).await.unwrap();
    store.close().await;
    let failed = run("export", &db, &server);
    assert!(!failed.status.success());
    let why =
        "/registry/zzz/too-large is too large for etcd: start it with a higher --max-request-bytes";
    assert!(said(&failed).contains(why), "{}", said(&failed));

    let etcd = connect(&server).await;
    let why = "an import into this etcd goes on or was interrupted: run `kube-apiserver store export` again";
    let error = etcd.health().await.unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
    for refused in [
        etcd.range(b"/", RangeOptions::default()).await.map(|_| ()),
        etcd.create(b"/registry/a", "{}".into(), None).await.map(|_| ()),
        etcd.watch(b"/", Revision(1)).await.map(|_| ()),
    ] {
        assert!(
            matches!(&refused, Err(Error::Unavailable(text)) if text.contains(why)),
            "{refused:?}"
        );
    }

    let store = Embedded::open(&db, Options::default()).unwrap();
    store.delete(key, large).await.unwrap();
    let zero = store.get(b"/registry/things/default/0", None).await.unwrap().entry.unwrap();
    let old = store.delete(b"/registry/things/default/0", zero.mod_revision).await.unwrap();
    let expected = contents(&store).await;
    store.close().await;
    let exported = run("export", &db, &server);
    assert!(exported.status.success(), "{}", said(&exported));
    assert_eq!(contents(&etcd).await, expected, "nothing is left of the first attempt");
    assert!(etcd.current_revision().await.unwrap() > old);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_import_is_refused_and_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db");
    let Some(server) = start(folder.path()).await else { return };
    let etcd = connect(&server).await;
    let value = vec![b'x'; 200 << 10];
    for number in 0..200 {
        let key = format!("/registry/things/{number:03}");
        etcd.create(key.as_bytes(), value.clone().into(), None).await.unwrap();
    }
    let mut killed =
        command("import", &db, &[flag(&server)]).stderr(Stdio::null()).spawn().unwrap();
    let partial = db.join("kevel.db.partial");
    until(async || std::fs::metadata(&partial).is_ok_and(|file| file.len() > 1 << 20)).await;
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(!db.join("kevel.db").exists(), "it was too fast for this test");

    let refused = Embedded::open(&db, Options::default()).unwrap_err().to_string();
    assert!(refused.contains("holds an import or a restore that was interrupted"), "{refused}");
    assert!(!db.join("kevel.db").exists(), "nothing is made there");
    let imported = run("import", &db, &server);
    assert!(imported.status.success(), "{}", said(&imported));
    let store = Embedded::open(&db, Options::default()).unwrap();
    assert_eq!(store.count(b"/registry/things/").await.unwrap(), 200);
    let first = store.get(b"/registry/things/000", None).await.unwrap().entry.unwrap();
    assert_eq!(first.value.len(), value.len());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_is_reached_with_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let ca = Ca::new("etcd");
    ca.write(folder.path());
    for name in ["server", "client"] {
        let mut params = CertificateParams::new(["127.0.0.1".to_string()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        write_pair(folder.path(), name, &ca.issue(params));
    }
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.path().join(name).display());
    let flags = [
        file("cert-file", "server.crt"),
        file("key-file", "server.key"),
        file("trusted-ca-file", "ca.crt"),
        "--client-cert-auth".to_owned(),
    ];
    let Some(server) = EtcdServer::start_with(folder.path(), "https", &flags) else { return };
    let mut flags = vec![flag(&server), file("etcd-cafile", "ca.crt")];
    let db = folder.path().join("db");
    let refused = command("import", &db, &flags).output().unwrap();
    assert!(!refused.status.success(), "{}", said(&refused));
    assert!(!db.exists(), "nothing is made before etcd has answered");
    flags.extend([file("etcd-certfile", "client.crt"), file("etcd-keyfile", "client.key")]);
    until(async || command("import", &db, &flags).output().unwrap().status.success()).await;
    let store = Embedded::open(&db, Options::default()).unwrap();
    assert_eq!(store.count(b"").await.unwrap(), 0);
    assert!(store.current_revision().await.unwrap() > Revision(1));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_go_over_is_said_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db");
    let Some(server) = start(folder.path()).await else { return };
    let store = Embedded::open(&db, Options::default()).unwrap();
    store.create(b"/other/pods/a", "{}".into(), None).await.unwrap();
    store.close().await;
    let refused = run("export", &db, &server);
    let why = "1 of the store's 1 keys do not begin with /registry/";
    assert!(!refused.status.success() && said(&refused).contains(why), "{}", said(&refused));
    let flags = [flag(&server), "--etcd-prefix=/other".to_owned()];
    let exported = command("export", &db, &flags).output().unwrap();
    assert!(exported.status.success(), "{}", said(&exported));
    // A distance that takes days of writes is refused before anything is written.
    let (backup, later) = (folder.path().join("backup"), folder.path().join("later"));
    kevel_store::embedded::backup_directory(&db, &backup, UNREPORTED).unwrap();
    kevel_store::embedded::restore(&backup, &later, false, UNREPORTED).unwrap();
    let other = tempfile::tempdir().unwrap();
    let Some(server) = start(other.path()).await else { return };
    let refused = command("export", &later, &[flag(&server), flags[1].clone()]).output().unwrap();
    let said_why = said(&refused)
        .contains("`etcdutl snapshot restore --bump-revision 1000000001 --mark-compacted`");
    assert!(!refused.status.success() && said_why, "{}", said(&refused));
    assert!(connect(&server).await.health().await.is_ok());
    let absent = folder.path().join("absent");
    let refused = said(&run("export", &absent, &server));
    assert!(refused.contains("there is no store in") && !absent.exists(), "{refused}");
}
