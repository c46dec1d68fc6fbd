//! Sending requests while the server is measured.

use std::sync::Arc;

use kevel_bench::probe::ServerLoad;
use kevel_conformance::Result;
use kevel_conformance::client::Request;

use crate::table::CostLimits;
use crate::world::HostileCluster;

/// Requests that are under way together.
pub const TOGETHER: u32 = 8;
/// A measurement over its limits is repeated: the machine may have had other work.
const TRIES: usize = 3;

/// Sends a request so many times at a time; the answers' codes (0: no answer), and the least load of a few attempts.
pub async fn send(
    world: &HostileCluster,
    limits: &CostLimits,
    request: &Request,
    at_a_time: u32,
) -> Result<(Vec<u16>, ServerLoad)> {
    let (mut codes, mut least) = once(world, request, at_a_time).await?;
    for _ in 1..TRIES {
        if limits.over(&least, at_a_time).is_empty() {
            break;
        }
        let (again, load) = once(world, request, at_a_time).await?;
        least = least.merge(load, f64::min);
        codes.extend(again);
    }
    Ok((codes, least))
}

async fn once(
    world: &HostileCluster,
    request: &Request,
    at_a_time: u32,
) -> Result<(Vec<u16>, ServerLoad)> {
    let all = async {
        let mut sent = Vec::new();
        for _ in 0..at_a_time {
            let (client, request) = (Arc::clone(&world.client), request.clone());
            sent.push(tokio::spawn(async move {
                client.send(request).await.map_or(0, |answer| answer.code)
            }));
        }
        let mut codes = Vec::new();
        for request in sent {
            codes.push(request.await.unwrap_or(0));
        }
        codes
    };
    world.probe.measure(all).await
}
