//! Cancelled requests: their futures are dropped after any number of steps. Reservations are returned, or belong to the
//! written object.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use kevel_codec::json;
use kevel_controlplane::service::PortRange;
use kevel_registry::storage::Format;
use kevel_store::embedded::{Embedded, Options};
use kevel_store::{
    Engine, GetResponse, Pending, RangeOptions, RangeResponse, Result, Revision, Watch,
};
use kevel_test_support::InMemory;
use tokio::task::yield_now;

const SERVICES: &str = "/api/v1/namespaces/ns/services";
const PODS: &str = "/api/v1/namespaces/ns/pods";

/// Requests in full before, and the request that is cancelled. `{spec}` is that of a Service.
struct Case {
    name: &'static str,
    before: &'static [(&'static str, &'static str)],
    request: (&'static str, &'static str),
}

const CLUSTER_IP: &str = r#"{"metadata":{"name":"it"},"spec":{"ports":[{"port":80}]}}"#;
const NODE_PORT: &str = r#"{"metadata":{"name":"it"},"spec":{"type":"NodePort","ports":[{"name":"a","port":80},{"name":"b","port":81}]}}"#;
const LOAD_BALANCER: &str = r#"{"metadata":{"name":"it"},"spec":{"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{"port":80}]}}"#;
const EXTERNAL_NAME: &str =
    r#"{"metadata":{"name":"it"},"spec":{"type":"ExternalName","externalName":"a.b"}}"#;
const HELD: &str =
    r#"{"metadata":{"name":"it","finalizers":["a.b/c"]},"spec":{"ports":[{"port":80}]}}"#;
const POD: &str =
    r#"{"metadata":{"name":"it"},"spec":{"nodeName":"n","containers":[{"name":"a","image":"a"}]}}"#;

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "an address", before: &[], request: ("POST services", CLUSTER_IP) },
    Case { name: "ports", before: &[], request: ("POST services", NODE_PORT) },
    Case { name: "a port of its own for health checks", before: &[], request: ("POST services", LOAD_BALANCER) },
    Case {
        name: "an address for what is refused", before: &[],
        request: ("POST services", r#"{"metadata":{"name":"it"},"spec":{"sessionAffinity":"x","ports":[{"port":80}]}}"#),
    },
    Case {
        name: "an address for what is there", before: &[("POST services", CLUSTER_IP)],
        request: ("POST services", NODE_PORT),
    },
    Case { name: "by an update", before: &[], request: ("PUT services/it", NODE_PORT) },
    Case {
        name: "ports for an address", before: &[("POST services", CLUSTER_IP)],
        request: ("PUT services/it", NODE_PORT),
    },
    Case {
        name: "ports are given back", before: &[("POST services", NODE_PORT)],
        request: ("PUT services/it", CLUSTER_IP),
    },
    Case {
        name: "all is given back", before: &[("POST services", LOAD_BALANCER)],
        request: ("PUT services/it", EXTERNAL_NAME),
    },
    Case {
        name: "an address comes later", before: &[("POST services", EXTERNAL_NAME)],
        request: ("PUT services/it", CLUSTER_IP),
    },
    Case {
        name: "deleted", before: &[("POST services", NODE_PORT)],
        request: ("DELETE services/it", ""),
    },
    Case {
        name: "deleted with others", before: &[("POST services", NODE_PORT)],
        request: ("DELETE services", ""),
    },
    Case {
        name: "let go", before: &[("POST services", HELD), ("DELETE services/it", "")],
        request: ("PUT services/it", CLUSTER_IP),
    },
    Case {
        name: "a pod is marked and goes", before: &[("POST pods", POD)],
        request: ("DELETE pods/it?gracePeriodSeconds=0", ""),
    },
];

#[tokio::test]
async fn what_was_taken_is_given_back_or_held() {
    let cluster = Cluster::start().await;
    let mut steps = 0;
    for case in CASES {
        for polls in 0.. {
            assert!(polls < 1000, "{}: it never ends", case.name);
            for (what, body) in case.before {
                assert!(cluster.send(what, body).await < 300, "{}: {what}", case.name);
            }
            let request = cluster.send(case.request.0, case.request.1);
            let done = abandon(request, polls).await;
            cluster.assert_settled(&format!("{} after {polls} steps", case.name)).await;
            for what in ["DELETE services/it", "DELETE pods/it?gracePeriodSeconds=0"] {
                cluster.send(what, "").await;
            }
            // What finalizers hold.
            cluster.send("PUT services/it", CLUSTER_IP).await;
            cluster.send("DELETE services/it", "").await;
            cluster.assert_empty(case.name).await;
            steps += 1;
            if done {
                break;
            }
        }
    }
    assert!(steps > 100, "{steps} steps");
}

/// Lets a request go on for so many steps; whether it ended by itself.
async fn abandon(request: impl Future, polls: usize) -> bool {
    let mut request = pin!(request);
    for _ in 0..polls {
        if poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await.is_ready() {
            return true;
        }
        yield_now().await;
    }
    false
}

/// A cluster with few addresses and ports, on a store that takes its time.
struct Cluster {
    server: InMemory,
    engine: Arc<dyn Engine>,
    /// Tasks that are always there.
    tasks: usize,
}

impl Cluster {
    async fn start() -> Self {
        let memory = Arc::new(Embedded::memory(Options::default()).unwrap());
        let engine: Arc<dyn Engine> = Arc::new(Slow(memory));
        let ports = PortRange { base: 30000, size: 20 };
        let server =
            InMemory::with_services(engine.clone(), Format::Json, "10.0.0.0/28", ports).await;
        let mut cluster = Cluster { server, engine, tasks: usize::MAX };
        for _ in 0..100 {
            yield_now().await;
        }
        cluster.tasks = tasks();
        cluster
    }

    /// `POST services`: the code of the answer.
    async fn send(&self, what: &str, body: &str) -> u16 {
        let (verb, path) = what.split_once(' ').unwrap();
        let what = format!("{verb} /api/v1/namespaces/ns/{path}");
        self.server.send(&what, body, "application/json").await.status().as_u16()
    }

    /// Waits until nothing is under way any more.
    async fn quiet(&self) {
        let quiet = async {
            while tasks() > self.tasks {
                yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), quiet).await.expect("something never ends");
    }

    /// Asserts that the reservations are those of the stored Services, each for one.
    async fn assert_settled(&self, what: &str) {
        self.quiet().await;
        let mut held = Vec::new();
        let services = self.server.ok(&format!("GET {SERVICES}"), "", 200).await;
        let list = json::decode_any(services.as_bytes(), json::Unknown::Ignore).unwrap().value;
        for service in list.list_at(&["items"]) {
            let ips = service.list_at(&["spec", "clusterIPs"]).iter();
            held.extend(ips.filter_map(|ip| ip.as_str()).map(str::to_owned));
            let ports = service.list_at(&["spec", "ports"]).iter();
            let ports = ports.filter_map(|port| port.at(&["nodePort"])?.as_int());
            let health = service.at(&["spec", "healthCheckNodePort"]).and_then(|p| p.as_int());
            held.extend(ports.chain(health).map(|port| port.to_string()));
        }
        let once: BTreeSet<String> = held.iter().cloned().collect();
        assert_eq!(held.len(), once.len(), "{what}: given twice: {held:?}");
        assert_eq!(self.taken().await, once, "{what}: taken and held");
        let pods = self.server.ok(&format!("GET {PODS}"), "", 200).await;
        assert!(!pods.contains("deletionTimestamp"), "{what}: half deleted: {pods}");
    }

    async fn assert_empty(&self, what: &str) {
        self.quiet().await;
        assert_eq!(self.taken().await, BTreeSet::new(), "{what}: no Service is left");
    }

    /// Addresses and ports that no other Service can get.
    async fn taken(&self) -> BTreeSet<String> {
        let entries = self.engine.range(b"/registry/ipaddresses/", RangeOptions::default()).await;
        let keys = entries.unwrap().entries.into_iter().map(|entry| entry.key);
        let names = keys.map(|key| String::from_utf8(key.to_vec()).unwrap());
        let mut taken: BTreeSet<String> =
            names.map(|name| name.rsplit('/').next().unwrap().to_owned()).collect();
        let ports = self.engine.get(b"/registry/ranges/servicenodeports", None).await.unwrap();
        let text = ports.entry.unwrap().value;
        let ports = json::decode_any(&text, json::Unknown::Ignore).unwrap().value;
        let mut bits = Vec::new();
        kevel_codec::base64::decode_into(ports.str_at(&["data"]), &mut bits).unwrap();
        let bits = bits.iter().rev().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
        taken.extend(bits.zip(30000..).filter(|bit| bit.0).map(|bit| bit.1.to_string()));
        taken
    }
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// A store on which everything takes several steps, and a write that was begun is carried out, whether
/// its request is waited for or not.
struct Slow(Arc<Embedded>);

impl Slow {
    fn write<'a, F: Future<Output = Result<Revision>> + Send + 'static>(
        &self,
        write: impl FnOnce(Arc<Embedded>) -> F,
    ) -> Pending<'a, Result<Revision>> {
        let write = write(self.0.clone());
        Box::pin(async move {
            yield_now().await;
            let written = tokio::spawn(async move {
                yield_now().await;
                let written = write.await;
                yield_now().await;
                written
            });
            written.await.unwrap()
        })
    }
}

impl Engine for Slow {
    fn get<'a>(&'a self, key: &'a [u8], at: Option<Revision>) -> Pending<'a, Result<GetResponse>> {
        Box::pin(async move {
            yield_now().await;
            let found = self.0.get(key, at).await;
            yield_now().await;
            found
        })
    }

    fn range<'a>(
        &'a self,
        prefix: &'a [u8],
        options: RangeOptions,
    ) -> Pending<'a, Result<RangeResponse>> {
        self.0.range(prefix, options)
    }

    fn count<'a>(&'a self, prefix: &'a [u8]) -> Pending<'a, Result<u64>> {
        self.0.count(prefix)
    }

    fn create<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        let key = key.to_vec();
        self.write(|engine| async move { engine.create(&key, value, ttl).await })
    }

    fn update<'a>(
        &'a self,
        key: &'a [u8],
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<Revision>> {
        let key = key.to_vec();
        self.write(move |engine| async move { engine.update(&key, value, expected, ttl).await })
    }

    fn delete<'a>(&'a self, key: &'a [u8], expected: Revision) -> Pending<'a, Result<Revision>> {
        let key = key.to_vec();
        self.write(move |engine| async move { engine.delete(&key, expected).await })
    }

    fn watch<'a>(&'a self, prefix: &'a [u8], after: Revision) -> Pending<'a, Result<Watch>> {
        self.0.watch(prefix, after)
    }

    fn current_revision(&self) -> Pending<'_, Result<Revision>> {
        self.0.current_revision()
    }

    fn compacted_revision(&self) -> Revision {
        self.0.compacted_revision()
    }

    fn compact(&self, revision: Revision) -> Pending<'_, Result<()>> {
        self.0.compact(revision)
    }

    fn health(&self) -> Pending<'_, Result<()>> {
        self.0.health()
    }

    fn close(&self) -> Pending<'_, ()> {
        self.0.close()
    }
}
