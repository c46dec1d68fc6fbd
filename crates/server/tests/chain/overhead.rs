use std::sync::Arc;
use std::time::Instant;
use crate::support::{TestChain, answer, request};

#[test]
#[ignore]
fn overhead() {
    println!("Request {} Response {}", size_of::<kevel_server::request::Request>(), size_of::<kevel_server::handler::Response>());
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    rt.block_on(async {
        for (name, line) in [("get", "GET /api/v1/namespaces/a/pods/b"), ("watch", "GET /api/v1/pods?watch=1")] {
            let mut test = TestChain::default();
            test.config.installed = Arc::new(|_| true);
            let chain = test.build(answer("ok"));
            let bare = answer("ok");
            for (what, handler) in [("bare", &bare), ("chain", &chain), ("bare", &bare), ("chain", &chain)] {
                let n = 300_000;
                let started = Instant::now();
                for _ in 0..n {
                    std::hint::black_box(handler.handle(request(line)).await);
                }
                println!("{name} {what}: {:.0} ns", started.elapsed().as_nanos() as f64 / n as f64);
            }
        }
    });
}
