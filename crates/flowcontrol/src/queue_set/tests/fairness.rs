//! Tests of fairness between flows.

use std::collections::BTreeMap;

use super::*;
use crate::random::Random;

/// Runs flows against each other: each keeps a number of requests of this width and duration in the level. Returns the
/// number of served requests of each flow, and their maximum wait.
fn run(limit: u32, flows: &[(u64, u32, u64)], end: Duration) -> Vec<(u64, Duration)> {
    let mut bench = Bench::new(queues(flows.len() as i64, 1, 1000), limit);
    bench.checked = false;
    let mut random = Random::new(7);
    // Executing requests by end, and queued requests.
    let mut running: BTreeMap<(Duration, Slot), usize> = BTreeMap::new();
    let mut waiting: Vec<(Slot, usize, Duration)> = Vec::new();
    let mut served = vec![(0, Duration::ZERO); flows.len()];
    let mut now = Duration::ZERO;
    let arrive = |bench: &mut Bench, flow: usize, now: Duration| match bench
        .at(now)
        .arrive(flow as u64, WorkEstimate::seats(flows[flow].1))
    {
        Arrival::Executing(slot) | Arrival::Waiting(slot) => (slot, flow, now),
        rejected @ Arrival::Rejected(_) => panic!("{rejected:?}"),
    };
    for (flow, (count, ..)) in flows.iter().enumerate() {
        (0..*count).for_each(|_| waiting.push(arrive(&mut bench, flow, now)));
    }
    while now < end {
        waiting.retain(|&(slot, flow, since)| {
            if bench.is_executing(slot) {
                let took = flows[flow].2 * 1000 + random.below(1000);
                running.insert((now + Duration::from_micros(took), slot), flow);
                served[flow].0 += 1;
                served[flow].1 = served[flow].1.max(now - since);
            }
            !bench.is_executing(slot)
        });
        let Some(((at, slot), flow)) = running.pop_first() else { panic!("all stand still") };
        now = at;
        bench.at(now).finish(slot);
        waiting.push(arrive(&mut bench, flow, now));
    }
    served
}

#[test]
fn a_quiet_flow_does_not_wait_for_a_greedy_one() {
    let served = run(4, &[(300, 1, 10), (1, 1, 10)], Duration::from_secs(20));
    // The quiet flow waits for the next seat, not for the 300 requests.
    assert!(served[1].1 <= millis(12), "{served:?}");
    // It is served nearly all of the time.
    assert!(served[1].0 > 1200, "{served:?}");
}

/// Seats that flows held, times the duration.
fn held(limit: u32, flows: &[(u64, u32, u64)]) -> Vec<u64> {
    let served = run(limit, flows, Duration::from_secs(60));
    let held = |((count, _), (_, seats, millis)): (&(u64, Duration), &(u64, u32, u64))| {
        // Half a millisecond more on average.
        count * u64::from(*seats) * (2 * millis + 1)
    };
    served.iter().zip(flows).map(held).collect()
}

#[test]
fn greedy_flows_share_evenly_by_the_seats_that_they_hold() {
    let spread = |held: &[u64]| {
        let (least, most) = (held.iter().min().unwrap(), held.iter().max().unwrap());
        (most - least) as f64 / *least as f64
    };
    let narrow = held(8, &[(50, 1, 10), (200, 1, 10), (100, 1, 3), (50, 1, 40)]);
    assert!(spread(&narrow) < 0.02, "{narrow:?}");
    // Seats stay empty while a wide request waits for another seat: virtual time runs ahead of the work done, and a
    // flow with fewer requests has no claim to service from before they arrived.
    let wide = held(8, &[(50, 1, 10), (200, 1, 10), (50, 2, 10), (50, 1, 40)]);
    assert!(spread(&wide) < 0.1, "{wide:?}");
}

#[test]
fn unused_seats_are_not_saved_up() {
    // A flow that was alone for long is not penalized when another comes.
    let mut bench = Bench::new(queues(2, 1, 100), 1);
    let mut now = Duration::ZERO;
    let mut slot = bench.execute(0, 1);
    for _ in 0..1000 {
        let next = bench.wait(0, 1);
        now += millis(10);
        bench.at(now).finish(slot);
        slot = next;
    }
    let mut waiting: Vec<(Slot, usize)> =
        (0..20).map(|n| (bench.wait(n % 2, 1), (n % 2) as usize)).collect();
    let mut served = [0, 0];
    for _ in 0..10 {
        now += millis(10);
        bench.at(now).finish(slot);
        let place = waiting.iter().position(|(slot, _)| bench.is_executing(*slot)).unwrap();
        let (next, flow) = waiting.remove(place);
        served[flow] += 1;
        slot = next;
    }
    assert!((4..=6).contains(&served[0]), "{served:?}");
}
