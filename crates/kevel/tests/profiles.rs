//! Profiles of a running server.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use http_body_util::BodyExt as _;
use kevel_test_support::{Cluster, until};

/// Bytes with which gzip begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Response of the administrator's request: code, media type and body.
async fn get(cluster: &Cluster, path: &str) -> (u16, String, Vec<u8>) {
    let request = http::Request::get(path).body(kube::client::Body::empty()).unwrap();
    let (parts, body) = cluster.admin.0.send(request).await.unwrap().into_parts();
    let media = parts.headers["content-type"].to_str().unwrap().to_owned();
    (parts.status.as_u16(), media, body.collect().await.unwrap().to_bytes().to_vec())
}

async fn text(cluster: &Cluster, path: &str) -> (u16, String) {
    let (code, _, body) = get(cluster, path).await;
    (code, String::from_utf8(body).unwrap())
}

/// One CPU profile at a time; the next may begin when it has ended, also if its client has left.
#[tokio::test(flavor = "multi_thread")]
async fn cpu_profiles_are_recorded_one_at_a_time() {
    let cluster = Cluster::start(&[]).await;
    let profile = get(&cluster, "/debug/pprof/profile?seconds=2");
    let busy = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        text(&cluster, "/debug/pprof/profile?seconds=1").await
    };
    let (profile, busy) = tokio::join!(profile, busy);
    assert_eq!((profile.0, profile.1.as_str()), (200, "application/octet-stream"));
    assert_eq!(profile.2[..2], GZIP);
    let refused = "Could not enable CPU profiling: cpu profiling already in use\n";
    assert_eq!(busy, (500, refused.to_owned()));
    let left = get(&cluster, "/debug/pprof/profile?seconds=300");
    assert!(tokio::time::timeout(Duration::from_millis(500), left).await.is_err());
    until(async || get(&cluster, "/debug/pprof/profile?seconds=1").await.0 == 200).await;
    let (code, why) = text(&cluster, "/debug/pprof/profile?seconds=601").await;
    assert_eq!((code, why.as_str()), (400, "invalid value for \"seconds\" - at most 600\n"));
    cluster.stop().await;
}

/// Profiles that do not exist are answered with the reason, and all need permission.
#[tokio::test(flavor = "multi_thread")]
async fn profiles_need_permission_and_say_what_is_missing() {
    let cluster = Cluster::start(&[]).await;
    let (code, page) = text(&cluster, "/debug/pprof/").await;
    assert!(code == 200 && page.contains("href=\"profile\""), "{page}");
    let (code, tasks) = text(&cluster, "/debug/pprof/goroutine?debug=1").await;
    assert!(code == 200 && tasks.starts_with("goroutine profile: total "), "{tasks}");
    assert_eq!(get(&cluster, "/debug/pprof/goroutine").await.2[..2], GZIP);
    let heap = "There is no profile heap: the allocator keeps no samples\n";
    assert_eq!(text(&cluster, "/debug/pprof/heap").await, (501, heap.to_owned()));
    assert_eq!(text(&cluster, "/debug/pprof/trace").await.0, 501);
    assert_eq!(text(&cluster, "/debug/pprof/x").await, (404, "Unknown profile\n".to_owned()));
    assert_eq!(text(&cluster, "/debug/pprof/symbol").await, (200, "num_symbols: 0\n".to_owned()));
    assert_eq!(text(&cluster, "/debug/pprof").await.0, 302);
    let refused = cluster.refused("jane", "GET /debug/pprof/heap", "").await;
    assert!(refused.starts_with("403 "), "{refused}");
    cluster.stop().await;
    let cluster = Cluster::start(&["--profiling=false"]).await;
    for path in ["/debug/pprof", "/debug/pprof/", "/debug/pprof/profile", "/debug/flags/v"] {
        assert_eq!(get(&cluster, path).await.0, 404, "{path}");
    }
    cluster.stop().await;
}
