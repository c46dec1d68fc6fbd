//! Watches with large selectors: each write of the namespace is held against all of them.

use std::time::{Duration, Instant};

use kevel_conformance::Result;
use kevel_conformance::client::{Lines, Request};
use serde_json::json;

use crate::table::CostTable;
use crate::world::{HostileCluster, by_attacker, collection};

pub const NAME: &str = "watches";
const WATCHES: usize = 400;
const WRITES: usize = 40;
/// Bytes of a label selector: a path has 64 KiB at most.
pub const SELECTOR: usize = 57_000;
/// Writes in another namespace, whose watch is timed.
const OTHER: &str = "/api/v1/namespaces/victim/configmaps";
/// Limit of an event.
const EVENT_LIMIT: Duration = Duration::from_secs(30);

/// A label selector of so many bytes: requirements that every object meets, so that each of them is looked at.
pub fn selector(size: usize) -> String {
    let absent: Vec<String> = (0..size / 8).map(|index| format!("!k{index:05}")).collect();
    absent.join(",")
}

/// Opens watches, writes, and times another namespace's watch meanwhile.
pub async fn run(world: &HostileCluster, table: &mut CostTable) -> Result<()> {
    let maps = collection("v1", "configmaps");
    let selector = selector(world.part(SELECTOR));
    let (mut open, mut refused) = (Vec::new(), None);
    for _ in 0..world.part(WATCHES) {
        let path = format!("{maps}?watch=1&labelSelector={selector}");
        let watch = world.client.watch(by_attacker(Request::get(path))).await?;
        match watch.code {
            200 => open.push(watch),
            code => refused = Some(code),
        }
    }
    let mut other = world.admin.watch(Request::get(format!("{OTHER}?watch=1"))).await?;
    let writes = async {
        for number in 0..WRITES {
            let map = json!({"metadata": {"name": format!("m{number}"), "labels": {"a": "b"}}});
            world.create(&maps, &map).await?;
        }
        Ok(())
    };
    let both = async { tokio::join!(writes, latency(world, &mut other)) };
    let ((written, latency), load): ((Result<()>, _), _) = world.probe.measure(both).await?;
    written?;
    let latency = latency?;
    let late = table.limits.is_wait_over(latency);
    let wrong: Vec<String> = late.then(|| "other watch".to_owned()).into_iter().collect();
    let refused = refused.map(|code| format!(", others refused with {code}")).unwrap_or_default();
    let (count, ms) = (open.len(), latency.as_millis());
    let note = format!("{count} watches open{refused}, {WRITES} writes, other watch {ms} ms");
    table.add(NAME, &load, 1, &wrong, &note);
    Ok(())
}

/// The longest time from a write's answer to its event in a watch of another namespace.
async fn latency(world: &HostileCluster, watch: &mut Lines) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for number in 0..WRITES / 2 {
        let name = format!("other-{number}");
        let map = json!({"metadata": {"name": name}});
        let begun = Instant::now();
        world.admin.json(Request::post(OTHER, &map)).await?;
        let event = async {
            while let Some(line) = watch.next().await? {
                if String::from_utf8_lossy(&line).contains(&name) {
                    return Ok(());
                }
            }
            Err("the other watch has ended".into())
        };
        let event: Result<()> = tokio::time::timeout(EVENT_LIMIT, event).await?;
        event?;
        longest = longest.max(begun.elapsed());
    }
    Ok(longest)
}
