//! Cost of priority and fairness per request: `cargo run --profile dist -p kevel-bench --bin flowcontrol`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kevel_api::time::Time;
use kevel_bench::{cpu_time, resident};
use kevel_clock::Clock;
use kevel_component::future::Pending;
use kevel_flowcontrol::{
    Controller, RequestDigest, Started, Unobserved, Waiting, WorkEstimate, WorkEstimator, bootstrap,
};
use kevel_server::authentication::Anonymous;
use kevel_server::authorization::AlwaysAllow;
use kevel_server::body::Body;
use kevel_server::chain;
use kevel_server::flowcontrol::FlowControl;
use kevel_server::handler::{Handler, Response};
use kevel_server::lifecycle::Lifecycle;
use kevel_server::metrics::Metrics;
use kevel_server::request::{Request, RequestBody};
use tokio::time::Instant;

/// `--max-requests-inflight` and `--max-mutating-requests-inflight` without flags.
const SEATS: u32 = 600;
const WAITING: usize = 10_000;
const ROUNDS: u32 = 20;
const REQUESTS: u32 = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let controller = Controller::new(SEATS, Arc::new(Unobserved));
    let levels: Vec<_> = bootstrap::mandatory_priority_levels()
        .chain(bootstrap::suggested_priority_levels())
        .collect();
    let schemas: Vec<_> =
        bootstrap::mandatory_flow_schemas().chain(bootstrap::suggested_flow_schemas()).collect();
    controller.configure(&levels, &schemas, Time::now(&Clock::system()));

    let groups = ["devs", "system:authenticated"].map(str::to_owned);
    let masters = ["system:masters", "system:authenticated"].map(str::to_owned);
    let user = "jane@example.com";
    let path = "/api/v1/namespaces/default/pods/web-5d9f7c6b8-x2x4z";
    let user = RequestDigest {
        user,
        groups: &groups,
        is_resource: true,
        verb: "get",
        path,
        version: "v1",
        namespace: "default",
        resource: "pods",
        name: "web-5d9f7c6b8-x2x4z",
        ..RequestDigest::default()
    };
    let admin = RequestDigest { groups: &masters, ..user };
    let report = |what: &str, time: Duration| println!("{what:<48} {:>8.0} ns", nanos(time));
    report("classify", best(|| drop(black_box(controller.classify(&user)))));
    report("a request without others", best(|| pass(&controller, &user)));
    report("the same, exempt", best(|| pass(&controller, &admin)));

    let limited = through_chain(None).await;
    report("through the chain, limited in number", limited);
    let metrics = Arc::new(Metrics::default());
    let flow_control = FlowControl::new(SEATS, WorkEstimator::default(), &metrics);
    flow_control.configure(&levels, &schemas);
    let fair = through_chain(Some(flow_control)).await;
    report("the same with fairness, its metrics and headers", fair);

    let (memory, mut waiting) = (resident(), fill(&controller, &user));
    let each = resident().saturating_sub(memory) / waiting.len();
    println!("{:<48} {:>8}", format!("{} wait, bytes each", waiting.len()), each);
    waiting.truncate(waiting.len() / 2);
    let refused = best(|| drop(black_box(start(&controller, &user, WorkEstimate::seats(1)))));
    report("comes, waits and goes among the others", refused);
}

/// Duration of a GET through the whole chain.
async fn through_chain(flow_control: Option<Arc<FlowControl>>) -> Duration {
    let (anonymous, allow) = (Arc::new(Anonymous::default()), Arc::new(AlwaysAllow));
    let config = chain::Config::new(&Lifecycle::default(), anonymous, allow);
    let chain = chain::build(chain::Config { flow_control, ..config }, Arc::new(Answers));
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = cpu_time();
        for _ in 0..REQUESTS {
            let (mut parts, ()) = http::Request::new(()).into_parts();
            parts.uri = http::Uri::from_static("/api/v1/namespaces/default/pods/web");
            let body = RequestBody::Bytes(Bytes::new());
            if let Some(request) = Request::new(parts, body, Arc::default()) {
                drop(black_box(chain.handle(request).await));
            }
        }
        best = best.min((cpu_time() - start) / REQUESTS);
    }
    best
}

/// Answers at once.
struct Answers;

impl Handler for Answers {
    fn handle<'a>(&'a self, _: Request) -> Pending<'a, Response> {
        Box::pin(std::future::ready(http::Response::new(Body::from("ok"))))
    }
}

/// Takes all seats of all flows' level, and has requests wait for them: of many users, so that all queues
/// are in use.
fn fill(controller: &Controller, digest: &RequestDigest<'_>) -> Vec<Waiting> {
    let mut waiting = Vec::with_capacity(WAITING);
    let mut seats = Vec::new();
    for number in 0..2 * WAITING {
        let user = format!("user-{number}@example.com");
        let digest = RequestDigest { user: &user, ..*digest };
        match start(controller, &digest, WorkEstimate::seats(1)) {
            Started::Admitted(admitted) => seats.push(admitted),
            Started::Waiting(place) => waiting.push(place),
            Started::Rejected(_) => {}
        }
    }
    // They are held for as long as the process lasts.
    std::mem::forget(seats);
    waiting
}

fn pass(controller: &Controller, digest: &RequestDigest<'_>) {
    let started = start(controller, digest, WorkEstimator::default().other());
    assert!(matches!(started, Started::Admitted(_)));
    drop(black_box(started));
}

fn start(controller: &Controller, digest: &RequestDigest<'_>, estimate: WorkEstimate) -> Started {
    let until = Instant::now() + Duration::from_secs(15);
    controller.start(digest, controller.classify(digest), estimate, until)
}

/// The least CPU time that it took.
fn best(mut work: impl FnMut()) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = cpu_time();
        (0..REQUESTS).for_each(|_| work());
        best = best.min((cpu_time() - start) / REQUESTS);
    }
    best
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}
