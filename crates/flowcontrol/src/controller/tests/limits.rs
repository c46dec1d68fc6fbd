//! Tests of the levels' seats.

use kevel_clock::Clock;

use super::*;
use crate::bootstrap;

fn with_bootstrap(seats: u32) -> Arc<Controller> {
    let controller = Controller::new(seats, Arc::new(Unobserved));
    let levels: Vec<_> = bootstrap::mandatory_priority_levels()
        .chain(bootstrap::suggested_priority_levels())
        .collect();
    let schemas: Vec<_> =
        bootstrap::mandatory_flow_schemas().chain(bootstrap::suggested_flow_schemas()).collect();
    controller.configure(&levels, &schemas, Time::now(&Clock::system()));
    controller
}

/// `NAME nominal lower upper current target`, from the gauges.
fn limits(controller: &Controller) -> (Vec<String>, f64) {
    let gauges = controller.gauges();
    let line = |level: &crate::LevelGauges| {
        let Limits { nominal, lower, upper, current } = level.limits;
        format!("{} {nominal} {lower} {upper} {current} {}", level.name, level.target)
    };
    (gauges.levels.iter().map(line).collect(), gauges.fair_fraction)
}

/// Expected values are the reference's metrics on a fresh cluster with 60 seats and two concurrent requests of an
/// administrator.
#[tokio::test(start_paused = true)]
async fn a_fresh_cluster_has_the_references_limits() {
    let controller = with_bootstrap(60);
    let masters = ["system:masters".to_owned()];
    let digest = RequestDigest { groups: &masters, ..by("system:admin") };
    let exempt: Vec<_> = (0..2)
        .map(|_| {
            let flow_schema = controller.classify(&digest);
            controller.start(&digest, flow_schema, WorkEstimate::seats(1), later(15))
        })
        .collect();
    drop(exempt);
    controller.adjust();
    let (levels, fair_fraction) = limits(&controller);
    assert_eq!(
        levels,
        [
            "catch-all 2 2 62 5 2",
            "exempt 0 0 60 2 2",
            "global-default 5 2 65 5 2",
            "leader-election 3 3 63 7 3",
            "node-high 10 7 70 17 7",
            "system 8 5 68 12 5",
            "workload-high 10 5 70 12 5",
            "workload-low 25 2 85 5 2",
        ]
    );
    assert!((fair_fraction - 2.423_076_923_076_923).abs() < 1e-12, "{fair_fraction}");
}

#[tokio::test(start_paused = true)]
async fn requests_are_no_wider_than_their_levels_allow() {
    let of = |seats: u32, user: &'static str| {
        let controller = with_bootstrap(seats);
        let groups = ["system:authenticated".to_owned()];
        controller.classify(&RequestDigest { groups: &groups, ..by(user) }).max_seats()
    };
    // max(1, min(15 % of the level's seats, seats / hand size)); 0 without queues.
    assert_eq!(of(600, "jane"), 8);
    assert_eq!(of(6000, "jane"), 74);
    assert_eq!(of(60, "jane"), 1);
    assert_eq!(of(6000, "system:kube-scheduler"), 147);
    let controller = Controller::new(6000, Arc::new(Unobserved));
    assert_eq!(controller.classify(&by("jane")).max_seats(), 0);
}

/// Checks the seats of levels with given demands.
fn check(text: &str) {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let seats: u32 =
        lines.next().and_then(|line| line.strip_prefix("seats ")?.parse().ok()).unwrap();
    let (mut configuration, mut demands, mut expected) = (String::new(), Vec::new(), Vec::new());
    for line in lines {
        let (level, rest) = line.split_once(" : ").unwrap();
        let (demand, current) = rest.split_once(" = ").unwrap();
        let name = level.split(' ').nth(1).unwrap();
        configuration += &format!("{level}\n");
        let demand: Vec<f64> = demand.split(' ').map(|number| number.parse().unwrap()).collect();
        demands.push((name, demand[0] as u32, demand[1]));
        expected.push(format!("{name} {current}"));
    }
    let controller = controller(seats, &configuration);
    let mut state = controller.lock();
    for (name, high_watermark, smoothed) in demands {
        let level = state.levels.get_mut(name).unwrap();
        level.demand = SeatDemand { high_watermark, smoothed, ..SeatDemand::default() };
    }
    levels::set_current_limits(&mut state.levels);
    let found: Vec<_> = state
        .levels
        .values()
        .filter(|level| {
            expected.iter().any(|line| line.starts_with(&format!("{} ", level.level.name())))
        })
        .map(|level| format!("{} {}", level.level.name(), level.limits.current))
        .collect();
    expected.sort_unstable();
    assert_eq!(found, expected, "{text}");
}

/// Each line: a level, the high watermark and smoothed value of its seat demand, and its seats.
#[tokio::test(start_paused = true)]
async fn seats_are_lent_to_levels_that_can_use_them() {
    // No demand: lendable seats are spread in proportion to the seats that must be kept.
    check(
        "seats 100
        level a reject shares=45 lendable=50 : 0 0 = 41
        level b reject shares=45 lendable=50 : 0 0 = 41
        level catch-all reject shares=10 lendable=0 : 0 0 = 19",
    );
    // One level demands more than it has: it gets what the other lends.
    check(
        "seats 100
        level a reject shares=45 lendable=50 : 200 200 = 68
        level b reject shares=45 lendable=50 : 0 0 = 22
        level catch-all reject shares=10 lendable=0 : 0 0 = 10",
    );
    // No more than its borrowing limit; the rest goes to the others.
    check(
        "seats 100
        level a reject shares=45 lendable=50 borrowing=20 : 200 200 = 54
        level b reject shares=45 lendable=50 : 0 0 = 32
        level catch-all reject shares=10 lendable=0 : 0 0 = 14",
    );
    // Levels that lend nothing keep their seats.
    check(
        "seats 100
        level a reject shares=45 lendable=0 : 200 200 = 45
        level b reject shares=45 lendable=0 : 0 0 = 45
        level catch-all reject shares=10 lendable=0 : 0 0 = 10",
    );
    // Recently used seats are kept, up to the nominal ones.
    check(
        "seats 100
        level a reject shares=45 lendable=50 : 200 200 = 50
        level b reject shares=45 lendable=50 : 40 10 = 40
        level catch-all reject shares=10 lendable=0 : 0 0 = 10",
    );
    // Exempt requests take lendable seats; the others are kept.
    check(
        "seats 100
        level a reject shares=45 lendable=50 : 45 45 = 31
        level b reject shares=45 lendable=50 : 45 45 = 31
        level catch-all reject shares=10 lendable=0 : 0 0 = 10
        level exempt exempt shares=0 lendable=0 : 29 29 = 29",
    );
    check(
        "seats 100
        level a reject shares=45 lendable=50 : 45 45 = 22
        level b reject shares=45 lendable=50 : 0 0 = 22
        level catch-all reject shares=10 lendable=0 : 0 0 = 10
        level exempt exempt shares=0 lendable=0 : 500 500 = 500",
    );
}

#[tokio::test(start_paused = true)]
async fn demand_is_seen_and_seats_move() {
    let text = "
level one queue shares=45 lendable=50 queues=8 hand=2 length=100
level two queue shares=45 lendable=50 queues=8 hand=2 length=100
level catch-all reject shares=10 lendable=0
schema all 100 one ByUser
  for user=jane
  at * *
";
    let controller = controller(100, text);
    let runner = tokio::spawn({
        let controller = controller.clone();
        async move { controller.run().await }
    });
    tokio::time::sleep(BORROWING_ADJUSTMENT_PERIOD).await;
    let current = || {
        let gauges = controller.gauges();
        let of = |name: &str| gauges.levels.iter().find(|level| level.name == name);
        (of("one").unwrap().limits.current, of("two").unwrap().limits.current)
    };
    assert_eq!(current(), (41, 41));
    let mut executing: Vec<_> = (0..41).map(|_| admitted(&controller, "jane", 1)).collect();
    let mut waiting: Vec<_> = (0..40)
        .map(|_| {
            let waiting = waiting(&controller, "jane", 1);
            tokio::spawn(async move { waiting.await.unwrap() })
        })
        .collect();
    tokio::time::sleep(BORROWING_ADJUSTMENT_PERIOD + Duration::from_millis(1)).await;
    let (one, two) = current();
    // The other level keeps its minimum; the waiting requests get the rest.
    assert_eq!((one, two), (68, 22));
    let woken = waiting.iter().filter(|task| task.is_finished()).count();
    assert_eq!(woken as u32, one - 41);
    // When they have finished, the seats are given back slowly.
    executing.clear();
    waiting.drain(..).for_each(|task| task.abort());
    tokio::time::sleep(60 * BORROWING_ADJUSTMENT_PERIOD).await;
    let (one, two) = current();
    assert!(one < 60 && two > 30, "{one} {two}");
    runner.abort();
}
