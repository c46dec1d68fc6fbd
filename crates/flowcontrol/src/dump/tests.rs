//! Tests that dumps have the reference's form.

use std::sync::Arc;

use kevel_clock::Clock;

use super::*;
use crate::{Controller, RequestDigest, Started, Unobserved, notation};

/// Lines without trailing spaces, which editors remove.
fn trimmed(text: &str) -> Vec<String> {
    text.lines().map(|line| line.trim().to_owned()).collect()
}

fn check(found: &str, expected: &str) {
    assert_eq!(trimmed(found), trimmed(expected.trim()));
}

fn request(seconds: u64, nanos: u32) -> RequestDump {
    let arrived = UNIX_EPOCH + Duration::new(seconds, nanos);
    RequestDump {
        flow_schema: "global-default".into(),
        flow_distinguisher: "jane".into(),
        arrived,
        started: Some(arrived + Duration::from_nanos(31_007)),
        estimate: WorkEstimate::seats(1),
        details: None,
    }
}

#[test]
fn levels_have_a_line_each() {
    let level = |name: &str, executing, dispatched| LevelDump {
        name: name.into(),
        idle: executing == 0,
        executing,
        dispatched,
        ..LevelDump::default()
    };
    let busy = LevelDump {
        quiescing: true,
        waiting: 2,
        rejected: 12,
        timed_out: 7,
        cancelled: 5,
        queues: vec![
            QueueDump { waiting: vec![request(0, 0); 2], ..QueueDump::default() },
            QueueDump::default(),
        ],
        ..level("workload-low", 3, 9)
    };
    check(
        &priority_levels(&[level("catch-all", 0, 3), level("exempt", 1, 199), busy]),
        "
PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests, ExecutingRequests, DispatchedRequests, RejectedRequests, TimedoutRequests, CancelledRequests
catch-all,         0,            true,   false,       0,               0,                 3,                  0,                0,                0
exempt,            0,            false,  false,       0,               1,                 199,                0,                0,                0
workload-low,      1,            false,  true,        2,               3,                 9,                  12,               7,                5
",
    );
}

#[test]
fn queues_have_a_line_each() {
    let work = |seats, micros| SeatSeconds::of(seats, Duration::from_micros(micros));
    let queues_of = vec![
        QueueDump::default(),
        QueueDump {
            index: 1,
            waiting: vec![request(0, 0)],
            executing: vec![request(0, 0); 2],
            seats_in_use: 4,
            next_dispatch_r: work(3, 1_500_007),
            initial_seats_sum: 1,
            max_seats_sum: 10,
            total_work_sum: work(1, 3000),
        },
    ];
    let level = LevelDump { name: "system".into(), queues: queues_of, ..LevelDump::default() };
    check(
        &queues(&[level]),
        "
PriorityLevelName, Index,  PendingRequests, ExecutingRequests, SeatsInUse, NextDispatchR, InitialSeatsSum, MaxSeatsSum, TotalWorkSum
system,            0,      0,               0,                 0,          0.00000000ss,  0,               0,           0.00000000ss
system,            1,      1,               2,                 4,          4.50002100ss,  1,               10,          0.00300000ss
",
    );
}

#[test]
fn requests_have_a_line_each() {
    let executing = request(1_794_869_325, 155_344_612);
    let details = DetailsDump {
        fields: [
            "jane",
            "get",
            "/debug/api_priority_and_fairness/dump_requests",
            "",
            "",
            "",
            "",
            "",
        ]
        .map(str::to_owned),
    };
    let of = |details: Option<DetailsDump>| {
        let executing = RequestDump { details: details.clone(), ..executing.clone() };
        let queue = QueueDump { index: 24, executing: vec![executing], ..QueueDump::default() };
        let name = "global-default".into();
        [LevelDump { name, queues: vec![queue], ..LevelDump::default() }]
    };
    check(
        &requests(&of(None), false),
        "
PriorityLevelName, FlowSchemaName, QueueIndex, RequestIndexInQueue, FlowDistingsher, ArriveTime,                     InitialSeats, FinalSeats, AdditionalLatency, StartTime
global-default,    global-default, 24,         -1,                  jane,            2026-11-16T22:48:45.155344612Z, 1,            0,          0s,                2026-11-16T22:48:45.155375619Z
",
    );
    check(
        &requests(&of(Some(details)), true),
        "
PriorityLevelName, FlowSchemaName, QueueIndex, RequestIndexInQueue, FlowDistingsher, ArriveTime,                     InitialSeats, FinalSeats, AdditionalLatency, StartTime,                      UserName, Verb,   APIPath,                                        Namespace, Name,   APIVersion, Resource, SubResource
global-default,    global-default, 24,         -1,                  jane,            2026-11-16T22:48:45.155344612Z, 1,            0,          0s,                2026-11-16T22:48:45.155375619Z, jane,     get,    /debug/api_priority_and_fairness/dump_requests, ,          ,       ,           ,
",
    );
}

#[test]
fn cells_and_lines_cannot_be_made_up() {
    let mut forged = request(0, 120_000_000);
    forged.flow_distinguisher = "a\nb\tc".into();
    forged.started = None;
    forged.estimate = WorkEstimate {
        initial_seats: 1,
        final_seats: 10,
        additional_latency: Duration::from_micros(12_500),
    };
    let queue = QueueDump { waiting: vec![forged], ..QueueDump::default() };
    let level = LevelDump { name: "l".into(), queues: vec![queue], ..LevelDump::default() };
    let text = requests(&[level], false);
    let cells: Vec<&str> = text.lines().nth(1).unwrap().split(',').map(str::trim).collect();
    assert_eq!(
        cells,
        [
            "l",
            "global-default",
            "0",
            "0",
            "a?b?c",
            "1970-01-01T00:00:00.12Z",
            "1",
            "10",
            "12.5ms",
            "0001-01-01T00:00:00Z"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_dump_shows_who_waits_and_who_is_executed() {
    let controller = Controller::new(4, Arc::new(Unobserved));
    let (levels, schemas) = notation::parse(
        "
level one queue shares=15 lendable=0 borrowing=0 queues=4 hand=1 length=10
schema all 100 one ByUser
  for user=jane
  on * * * *
",
    );
    controller.configure(&levels, &schemas, Time::now(&Clock::system()));
    let digest = RequestDigest {
        user: "jane",
        is_resource: true,
        verb: "list",
        path: "/apis/apps/v1/namespaces/a/deployments",
        group: "apps",
        version: "v1",
        resource: "deployments",
        namespace: "a",
        ..RequestDigest::default()
    };
    let until = kevel_clock::timer_now() + Duration::from_secs(1);
    let all: Vec<Started> = (0..3)
        .map(|_| {
            let estimate = WorkEstimate::seats(2);
            controller.start(&digest, controller.classify(&digest), estimate, until)
        })
        .collect();
    let anybody = RequestDigest { path: "/x", verb: "get", ..RequestDigest::default() };
    let estimate = WorkEstimate::seats(1);
    let other = controller.start(&anybody, controller.classify(&anybody), estimate, until);

    let dump = controller.dump(true, Clock::system().now());
    let names: Vec<_> = dump.iter().map(|level| level.name.as_str()).collect();
    assert_eq!(names, ["catch-all", "exempt", "one"]);
    let one = &dump[2];
    assert_eq!((one.waiting, one.executing, one.seats_in_use, one.seats_waiting), (2, 1, 2, 4));
    assert_eq!(one.queues.iter().map(|queue| queue.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let queue = one.queues.iter().find(|queue| !queue.waiting.is_empty()).unwrap();
    assert_eq!((queue.waiting.len(), queue.executing.len()), (2, 1));
    let shown = &queue.waiting[0];
    assert_eq!((&*shown.flow_schema, &*shown.flow_distinguisher), ("all", "jane"));
    assert!(shown.started.is_none() && queue.executing[0].started.is_some());
    let fields = &shown.details.as_ref().unwrap().fields;
    assert_eq!(
        fields.each_ref().map(String::as_str),
        ["jane", "list", digest.path, "a", "", "apps/v1", "deployments", ""]
    );
    assert_eq!(dump[0].queueless.len(), 1);
    assert_eq!(requests(&dump, true).lines().count(), 5);
    assert_eq!(requests(&controller.dump(false, Clock::system().now()), false).lines().count(), 5);
    assert_eq!(queues(&dump).lines().count(), 5);
    drop((all, other));
    assert!(controller.dump(false, Clock::system().now()).iter().all(|level| level.idle));
}
