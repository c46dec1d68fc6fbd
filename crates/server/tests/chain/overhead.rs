use std::sync::Arc;
use std::time::Instant;
use crate::support::{TestChain, answer, request};

#[test]
#[ignore]
fn overhead() {
    println!("Request {} Response {}", size_of::<kevel_server::request::Request>(), size_of::<kevel_server::handler::Response>());
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    fn time(name: &str, mut f: impl FnMut()) { let n=300_000; let c=cpu(); for _ in 0..n { f() } println!("{name}: {:.0} ns cpu", (cpu()-c)*1e9/n as f64); }
    time("instant", || { std::hint::black_box(Instant::now()); });
    time("uuid", || { std::hint::black_box(uuid::Uuid::new_v4()); });
    time("box", || { std::hint::black_box(Box::new([0u8; 200])); });
    time("request", || { std::hint::black_box(request("GET /api/v1/namespaces/a/pods/b")); });
    let m = kevel_server::metrics::Metrics::default();
    time("family", || { m.authentication_attempts.with(&["success"]).increment(); });
    time("hist", || { m.authentication_duration.with(&["success"]).observe(0.01); });
    let r = request("GET /api/v1/namespaces/a/pods/b");
    time("series", || { std::hint::black_box(m.of_request(&r, || true)); });
    rt.block_on(async {
        for (name, line) in [("get", "GET /api/v1/namespaces/a/pods/b"), ("watch", "GET /api/v1/pods?watch=1")] {
            let mut test = TestChain::default();
            test.config.installed = Arc::new(|_| true);
            let chain = test.build(answer("ok"));
            let bare = answer("ok");
            for (what, handler) in [("bare", &bare), ("chain", &chain), ("bare", &bare), ("chain", &chain)] {
                let n = 300_000;
                let started = cpu();
                for _ in 0..n {
                    std::hint::black_box(handler.handle(request(line)).await);
                }
                println!("{name} {what}: {:.0} ns", (cpu() - started) * 1e9 / n as f64);
            }
        }
    });
}

fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap_or(0.0) / 1e9
}
