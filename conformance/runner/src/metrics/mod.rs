//! Metrics of Kevel beside the reference's: names, types, stability, labels and buckets, after the same kinds of traffic.

mod compare;
mod exposition;
mod traffic;

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use self::compare::{MetricComparison, MetricFact};
use crate::Result;
use crate::client::{Client, Request};
use crate::control_plane::{ControlPlane, Server, cache, tree};
use crate::store::StoreKind;

/// Time for metrics that the server fills by itself to appear.
const SETTLE_LIMIT: Duration = Duration::from_secs(40);
/// Interval between scrapes.
const SCRAPE_INTERVAL: Duration = Duration::from_millis(500);
/// Facts about the reference's metrics.
const FACTS: &str = "conformance/facts/metrics.txt";
/// Metrics of the reference that Kevel does not have, each with the reason.
const REASONS: &str = "conformance/metrics-absent.txt";

/// Starts Kevel, sends traffic and compares its metrics with the facts. Returns whether all are the same, or have a
/// reason.
pub async fn run(store: StoreKind) -> Result<bool> {
    let facts = MetricFact::all(&fs::read_to_string(tree().join(FACTS))?)?;
    let reasons = reasons(&fs::read_to_string(tree().join(REASONS))?)?;
    let mut plane = ControlPlane::prepare(&cache().join("run").join(format!("metrics-{store:?}")))?;
    plane.flags = traffic::flags(&plane.folder)?;
    plane.start_fresh(Server::Kevel, store).await?;
    let compared = compare_with(&plane, store, &facts, &reasons).await;
    plane.stop_all()?;
    let comparison = compared?;
    comparison.print();
    Ok(comparison.passed())
}

async fn compare_with(
    plane: &ControlPlane,
    store: StoreKind,
    facts: &[MetricFact],
    reasons: &BTreeMap<String, String>,
) -> Result<MetricComparison> {
    let client = plane.client(2)?;
    traffic::send(&client).await?;
    let until = Instant::now() + SETTLE_LIMIT;
    loop {
        let comparison = MetricComparison::new(facts, &scrape(&client).await?, reasons, store);
        if comparison.passed() || Instant::now() >= until {
            return Ok(comparison);
        }
        tokio::time::sleep(SCRAPE_INTERVAL).await;
    }
}

async fn scrape(client: &Client) -> Result<BTreeMap<String, exposition::ScrapedFamily>> {
    let answer = client.send(Request::get("/metrics")).await?;
    if answer.code != 200 {
        return Err(format!("GET /metrics: {}", answer.code).into());
    }
    Ok(exposition::parse(&String::from_utf8_lossy(&answer.body)))
}

/// Reasons by name. A line is `name: reason`, and `name (embedded): reason` for one store alone.
fn reasons(text: &str) -> Result<BTreeMap<String, String>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_once(": ") {
            Some((name, reason)) => Ok((name.to_owned(), reason.to_owned())),
            None => Err(format!("{REASONS}: a line without a reason: {line}").into()),
        })
        .collect()
}
