//! Objects that are written while something breaks, and what must be left of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use rustls::ClientConfig;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::client::{Client, Version, read, request};
use crate::{Server, soon};

pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// An answer that takes longer than this is none.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of objects of each writer.
const OBJECTS: usize = 8;

/// Answers that writers got.
#[derive(Default)]
pub struct Written {
    /// The last acknowledged number of each object, and whether a later write has an unknown outcome.
    objects: Mutex<BTreeMap<String, Known>>,
    pub acknowledged: AtomicUsize,
    stop: AtomicBool,
}

#[derive(Clone, Copy, Default)]
struct Known {
    acknowledged: usize,
    /// The highest number that was sent.
    sent: usize,
}

impl Written {
    /// Starts writers, each with a connection of its own, that go round their objects until told to stop.
    /// They do not mind failures.
    pub fn begin(self: &Arc<Self>, server: &Server, writers: usize) -> JoinSet<()> {
        let port = server.port;
        let tls = Arc::new(server.tls.clone());
        (0..writers)
            .map(|writer| {
                let (written, tls) = (self.clone(), tls.clone());
                async move { written.write(writer, port, &tls).await }
            })
            .collect()
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Waits for so many more acknowledged writes.
    pub async fn more(&self, count: usize) {
        let wanted = self.acknowledged.load(Ordering::SeqCst) + count;
        soon(async {
            while self.acknowledged.load(Ordering::SeqCst) < wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    async fn write(&self, writer: usize, port: u16, tls: &ClientConfig) {
        let mut client = None;
        for turn in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let name = format!("written-{writer}-{}", turn % OBJECTS);
            let number = turn + 1;
            let exists = {
                let mut objects = self.objects.lock().await;
                let known = objects.entry(name.clone()).or_default();
                known.sent = number;
                known.acknowledged > 0
            };
            match self.put(&mut client, port, tls, &name, number, exists).await {
                Some(true) => {
                    self.objects.lock().await.entry(name).or_default().acknowledged = number;
                    self.acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                Some(false) => {}
                None => client = None,
            }
        }
    }

    /// Whether a write was acknowledged; `None` for a connection that is of no use any more.
    async fn put(
        &self,
        client: &mut Option<Client>,
        port: u16,
        tls: &ClientConfig,
        name: &str,
        number: usize,
        exists: bool,
    ) -> Option<bool> {
        if client.is_none() {
            let connecting = Client::connect(port, tls, Version::Http2);
            *client = tokio::time::timeout(PATIENCE, connecting).await.ok()?.ok();
        }
        let client = match client {
            Some(client) => client,
            None => {
                tokio::time::sleep(Duration::from_millis(10)).await;
                return None;
            }
        };
        let body = format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"number":"{number}"}}}}"#);
        let path = format!("{MAPS}/{name}");
        let asked = match exists {
            true => request(Method::PUT, &path, body.clone()),
            false => request(Method::POST, MAPS, body.clone()),
        };
        let answer = tokio::time::timeout(PATIENCE, client.send(asked)).await.ok()?.ok()?;
        let mut status = answer.status().as_u16();
        read(answer).await.ok()?;
        // A creation whose answer was lost may have come about.
        if status == 409 && !exists {
            let asked = request(Method::PUT, &path, body);
            let answer = tokio::time::timeout(PATIENCE, client.send(asked)).await.ok()?.ok()?;
            status = answer.status().as_u16();
            read(answer).await.ok()?;
        }
        Some(matches!(status, 200 | 201))
    }

    /// Nothing that was acknowledged is lost: each object holds the number of its last acknowledged
    /// write, or of a later one that was sent.
    pub async fn check(&self, server: &Server) {
        let found = numbers(server).await;
        for (name, known) in self.objects.lock().await.iter() {
            let number = found.get(name).copied().unwrap_or_default();
            let fits = (known.acknowledged..=known.sent).contains(&number);
            assert!(fits, "{name}: {number}, not {} to {}", known.acknowledged, known.sent);
        }
    }

    /// The highest acknowledged number of each object.
    pub async fn last(&self) -> BTreeMap<String, usize> {
        let objects = self.objects.lock().await;
        objects.iter().map(|(name, known)| (name.clone(), known.acknowledged)).collect()
    }
}

/// The number that each object holds.
async fn numbers(server: &Server) -> BTreeMap<String, usize> {
    let connecting = Client::connect(server.port, &server.tls, Version::Http2);
    let mut client = soon(connecting).await.unwrap();
    let list = soon(client.get(MAPS)).await.unwrap();
    assert_eq!(list.status(), 200);
    let list: serde_json::Value = serde_json::from_slice(&soon(read(list)).await.unwrap()).unwrap();
    let items = list["items"].as_array().unwrap().iter();
    items.filter_map(number_of).collect()
}

/// The name and number of an object.
pub fn number_of(object: &serde_json::Value) -> Option<(String, usize)> {
    let number = object["data"]["number"].as_str()?.parse().ok()?;
    Some((object["metadata"]["name"].as_str()?.to_owned(), number))
}
