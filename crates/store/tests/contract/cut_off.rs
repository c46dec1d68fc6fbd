//! The watch cache on an etcd that is cut off while others write and compact, and on one that is restored from a
//! backup.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kevel_store::cache::{
    At, Cache, CacheError, Caches, JsonDecode, KeyOrder, Resource, Selection, Snapshot, Watcher,
};
use kevel_store::etcd::{self, Etcd};
use kevel_store::{Engine, Revision};
use kevel_test_support::{PATIENCE, until};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch as signal;
use tokio::time::timeout;

use crate::engines::Store;

const PODS: &str = "/registry/pods/";

/// Proxy between a client and etcd that can be cut.
struct Proxy {
    address: SocketAddr,
    cut: signal::Sender<bool>,
}

impl Proxy {
    async fn to(endpoint: &str) -> Proxy {
        let target = endpoint.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = signal::Sender::new(false);
        let is_cut = cut.subscribe();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, target.clone(), is_cut.clone()));
            }
        });
        Proxy { address, cut }
    }

    fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Breaks all connections and refuses new ones until mended.
    fn cut(&self) {
        self.cut.send_replace(true);
    }

    fn mend(&self) {
        self.cut.send_replace(false);
    }
}

async fn forward(mut client: TcpStream, target: String, mut cut: signal::Receiver<bool>) {
    let both = async {
        let mut server = TcpStream::connect(target).await?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    };
    tokio::select! {
        _ = both => {}
        _ = cut.wait_for(|cut| *cut) => {}
    }
}

struct Fixture {
    store: Store,
    proxy: Proxy,
    caches: Caches,
    pods: Arc<Cache>,
}

impl Fixture {
    async fn new() -> Option<Fixture> {
        let store = Store::etcd().await?;
        let proxy = Proxy::to(&store.etcd.as_ref().unwrap().lock().await.endpoint).await;
        let options = etcd::Options {
            endpoints: vec![proxy.endpoint()],
            compaction_interval: None,
            request_timeout: Duration::from_secs(1),
            ..etcd::Options::default()
        };
        let engine: Arc<dyn Engine> = Arc::new(Etcd::connect(options).await.unwrap());
        let caches = Caches::start(engine, "/registry/");
        let pods = caches.add(Resource {
            prefix: PODS.to_owned(),
            decode: Arc::new(JsonDecode { order: KeyOrder::Struct }),
            fields: Arc::default(),
            indexed: Vec::new(),
        });
        timeout(PATIENCE, pods.loaded()).await.unwrap().unwrap();
        Some(Fixture { store, proxy, caches, pods })
    }

    async fn put(&self, name: &str) -> Revision {
        self.store.put(&format!("{PODS}{name}"), r#"{"metadata":{"name":"x"}}"#).await
    }

    /// A consistent list, which has to succeed once etcd is reachable.
    async fn list(&self) -> Snapshot {
        let list = async {
            loop {
                if let Ok(list) = self.pods.snapshot(At::Consistent).await {
                    return list;
                }
            }
        };
        timeout(PATIENCE, list).await.expect("no consistent list")
    }

    async fn watch(&self, after: Revision) -> Result<Watcher, CacheError> {
        self.pods.watch(Selection::default(), after).await
    }
}

fn shown(list: &Snapshot) -> BTreeMap<String, u64> {
    list.range("", None).map(|o| (o.key().to_owned(), o.revision().0)).collect()
}

async fn told(watcher: &mut Watcher, count: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    let heard = async {
        while seen.len() < count {
            watcher.next(&mut seen).await.unwrap();
        }
    };
    timeout(PATIENCE, heard).await.expect("silence");
    seen.iter().map(|delivery| delivery.event.revision().0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compaction_during_a_disconnect_reloads_the_cache() {
    let Some(f) = Fixture::new().await else { return };
    f.put("a").await;
    for round in 0..3 {
        let before = f.list().await;
        let mut watcher = f.watch(before.revision()).await.unwrap();
        f.proxy.cut();
        f.put("a").await;
        let last = f.put(&format!("new-{round}")).await;
        f.store.compact(last).await.unwrap();
        f.proxy.mend();
        let after = f.list().await;
        assert!(after.revision() >= last);
        let present = f.store.range(PODS.as_bytes(), Default::default()).await.unwrap();
        let present = present.entries.iter().map(|entry| {
            let key = std::str::from_utf8(&entry.key).unwrap();
            (key[PODS.len()..].to_owned(), entry.mod_revision.0)
        });
        assert_eq!(shown(&after), present.collect(), "round {round}: at {}", after.revision());
        let ended = timeout(PATIENCE, watcher.next(&mut Vec::new())).await.expect("silence");
        assert!(matches!(ended, Err(CacheError::Expired { .. })), "{ended:?}");
        let mut watcher = f.watch(after.revision()).await.unwrap();
        let next = f.put("a").await;
        assert_eq!(told(&mut watcher, 1).await, [next.0]);
    }
    assert_eq!((f.caches.watching(), f.caches.loading()), (Ok(()), Ok(())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_resumes_after_a_short_disconnect() {
    let Some(f) = Fixture::new().await else { return };
    let mut watcher = f.watch(f.list().await.revision()).await.unwrap();
    let mut written = Vec::new();
    for _ in 0..3 {
        written.push(f.put("a").await.0);
        f.proxy.cut();
        written.push(f.put("a").await.0);
        f.proxy.mend();
        assert!(f.list().await.revision().0 >= written[written.len() - 1]);
    }
    assert_eq!(told(&mut watcher, written.len()).await, written);
}

/// Every list that succeeds has all objects written before it began, however often the connection is cut and the
/// history compacted meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_consistent_during_repeated_disconnects() {
    let Some(f) = Fixture::new().await else { return };
    let f = Arc::new(f);
    let (newest, newest_seen) = signal::channel(f.put("a").await);
    let writer = tokio::spawn({
        let f = f.clone();
        async move {
            for round in 0..6 {
                f.proxy.cut();
                for _ in 0..20 {
                    newest.send_replace(f.put("a").await);
                }
                let last = *newest.borrow();
                f.store.compact(last).await.unwrap();
                f.proxy.mend();
                for turn in 0..20 * (round % 2) {
                    newest.send_replace(f.put(&format!("b{turn}")).await);
                }
                f.list().await;
            }
        }
    });
    let mut lists = 0;
    while !writer.is_finished() {
        let least = *newest_seen.borrow();
        let Ok(list) = f.pods.snapshot(At::Consistent).await else { continue };
        assert!(list.revision() >= least, "a list at {} after {least}", list.revision());
        let newest_object = shown(&list).into_values().max().unwrap();
        assert!(newest_object >= least.0, "a list at {} without {least}", list.revision());
        lists += 1;
    }
    writer.await.unwrap();
    assert!(lists >= 3, "{lists}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caches_reload_from_a_restored_etcd() {
    let Some(f) = Fixture::new().await else { return };
    f.put("a").await;
    let mut server = f.store.etcd.as_ref().unwrap().lock().await;
    let backup = tempfile::tempdir().unwrap();
    server.kill();
    copy(&server.data, backup.path());
    server.restart();
    until(async || f.store.health().await.is_ok()).await;
    for _ in 0..20 {
        f.put("b").await;
    }
    let before = f.list().await;
    let mut watcher = f.watch(before.revision()).await.unwrap();
    // The watch has begun: it waits only for events, not for the store to reach its revision.
    let last = f.put("b").await;
    assert_eq!(told(&mut watcher, 1).await, [last.0]);
    server.kill();
    fs::remove_dir_all(&server.data).unwrap();
    copy(backup.path(), &server.data);
    server.restart();
    // Without any read: the watch itself has to notice.
    let ended = timeout(PATIENCE, watcher.next(&mut Vec::new())).await.expect("silence");
    assert!(matches!(ended, Err(CacheError::Expired { .. })), "{ended:?}");
    let after = f.list().await;
    assert!(after.revision() < before.revision());
    assert_eq!(shown(&after).into_keys().collect::<Vec<_>>(), ["a"]);
    let mut ahead = f.watch(before.revision()).await.unwrap();
    let refused = timeout(PATIENCE, ahead.next(&mut Vec::new())).await.expect("silence");
    assert!(matches!(refused, Err(CacheError::TooLarge { .. })), "{refused:?}");
    let mut watcher = f.watch(after.revision()).await.unwrap();
    let next = f.put("c").await;
    assert_eq!(told(&mut watcher, 1).await, [next.0]);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}
