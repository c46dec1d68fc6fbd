//! Election of a leader by a Lease: no two lead at a time, whatever happens to the one that does.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kevel_clock::ManualClock;
use kevel_component::future::Pending;
use kevel_component::signals::Signal;
use kevel_controller_runtime::{Client, LeaderElectionTimers, LeaderElector};
use kevel_registry::storage::Format;
use kevel_server::handler::{Handler, Response};
use kevel_server::request::Request;
use kevel_test_support::{InMemory, until};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/work";
const SECOND: Duration = Duration::from_secs(1);
const TIMERS: LeaderElectionTimers = LeaderElectionTimers {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

/// Way of a candidate to the server; requests are not answered while it is cut.
struct Way {
    server: Arc<dyn Handler>,
    cut: AtomicBool,
    sent: AtomicUsize,
}

impl Handler for Way {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        self.sent.fetch_add(1, Ordering::SeqCst);
        if self.cut.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        self.server.handle(request)
    }
}

/// A candidate, and whether it leads.
struct Candidate {
    way: Arc<Way>,
    elector: LeaderElector,
    leads: Arc<AtomicBool>,
    /// Whether it was told that a term is over.
    is_over: Arc<AtomicBool>,
    terms: Arc<AtomicUsize>,
}

impl Candidate {
    /// Takes part in the election. The candidate ends a term when it is told to and `may_end` has been signaled.
    fn start(server: &InMemory, manual: &ManualClock, name: &str, may_end: &Signal) -> Self {
        let (cut, sent) = Default::default();
        let way = Arc::new(Way { server: server.delegate.clone(), cut, sent });
        let client = Client::new(way.clone()).with_clock(manual.clock());
        let elector = LeaderElector::new(client, "work", name, TIMERS);
        let (leads, terms) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let candidate = Candidate { way, elector, leads, is_over: Arc::default(), terms };
        let (leads, terms) = (candidate.leads.clone(), candidate.terms.clone());
        let is_over = candidate.is_over.clone();
        let may_end = may_end.clone();
        tokio::spawn(candidate.elector.clone().run(move |over| {
            let (leads, terms, may_end) = (leads.clone(), terms.clone(), may_end.clone());
            let is_over = is_over.clone();
            async move {
                leads.store(true, Ordering::SeqCst);
                terms.fetch_add(1, Ordering::SeqCst);
                over.wait().await;
                is_over.store(true, Ordering::SeqCst);
                may_end.wait().await;
                leads.store(false, Ordering::SeqCst);
            }
        }));
        candidate
    }

    fn leads(&self) -> bool {
        self.leads.load(Ordering::SeqCst)
    }

    fn sent(&self) -> usize {
        self.way.sent.load(Ordering::SeqCst)
    }
}

async fn server() -> InMemory {
    let server = InMemory::start(Format::Json).await;
    let namespace = r#"{"metadata":{"name":"kube-system"}}"#;
    server.ok("POST /api/v1/namespaces", namespace, 201).await;
    server
}

fn signaled() -> Signal {
    let signal = Signal::new("MayEnd");
    signal.signal();
    signal
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_before_another_leads() {
    let (server, manual) = (server().await, ManualClock::at_present());
    let first = Candidate::start(&server, &manual, "first", &signaled());
    until(async || first.leads()).await;
    let second = Candidate::start(&server, &manual, "second", &signaled());
    until(async || second.sent() > 0).await;

    // It renews, and leads for longer than a lease lasts.
    for _ in 0..20 {
        let before = first.sent();
        manual.advance(TIMERS.retry_period);
        until(async || first.sent() > before).await;
    }
    assert!(first.leads() && !second.leads());

    // Its last renewal is four seconds old at most: each wait above was for one of two requests.
    first.way.cut.store(true, Ordering::SeqCst);
    manual.advance(TIMERS.renew_deadline);
    until(async || !first.leads()).await;
    assert!(!second.leads());
    until(async || {
        manual.advance(SECOND);
        second.leads()
    })
    .await;
    assert!(!first.leads());
}

#[tokio::test]
async fn a_clock_that_jumps_ends_the_term_and_begins_another() {
    let (server, manual) = (server().await, ManualClock::at_present());
    let only = Candidate::start(&server, &manual, "only", &signaled());
    until(async || only.leads()).await;
    manual.advance(Duration::from_secs(3600));
    until(async || only.terms.load(Ordering::SeqCst) == 2 && only.leads()).await;
}

#[tokio::test]
async fn a_lease_is_released_when_its_holder_has_ended() {
    let (server, manual) = (server().await, ManualClock::at_present());
    let may_end = Signal::new("MayEnd");
    let first = Candidate::start(&server, &manual, "first", &may_end);
    until(async || first.leads()).await;
    let holder = async || server.ok(&format!("GET {LEASE}"), "", 200).await;
    let release = {
        let elector = first.elector.clone();
        tokio::spawn(async move { elector.release().await })
    };
    until(async || first.is_over.load(Ordering::SeqCst)).await;
    assert!(holder().await.contains(r#""holderIdentity":"first_"#));
    may_end.signal();
    release.await.unwrap().unwrap();
    assert!(!first.leads());
    assert!(holder().await.contains(r#""holderIdentity":"""#));
    let second = Candidate::start(&server, &manual, "second", &signaled());
    until(async || second.leads()).await;
}
