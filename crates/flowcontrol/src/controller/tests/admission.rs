//! Tests of requests that are executed, queued or rejected.

use super::*;
use crate::digest::MAX_DETAILS;
use crate::queue_set::Request;

#[tokio::test(start_paused = true)]
async fn seats_are_given_back_when_the_guard_is_dropped() {
    // 95 of 100 shares.
    let controller = controller(100, ONE_LEVEL);
    let mut all: Vec<_> = (0..95).map(|_| admitted(&controller, "jane", 1)).collect();
    let waiting = waiting(&controller, "joe", 1);
    let task = tokio::spawn(waiting);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!task.is_finished());
    all.pop();
    let joes = task.await.unwrap().unwrap();
    assert_eq!(joes.waited(), Duration::from_secs(2));
    assert_eq!((joes.flow_schema().name(), joes.flow_schema().uid()), ("all", "uid-all"));
    assert_eq!(joes.flow_schema().priority_level_uid(), "uid-one");
    drop((joes, all));
    let level = level(&controller, "one").unwrap();
    assert_eq!((level.seats_in_use, level.dispatched, level.rejected), (0, 96, 0));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_too_long_is_refused() {
    let controller = controller(100, ONE_LEVEL);
    let _all = admitted(&controller, "jane", 95);
    let began = kevel_clock::timer_now();
    let rejected = waiting(&controller, "joe", 1).await.unwrap_err();
    assert_eq!(began.elapsed(), Duration::from_secs(15));
    assert_eq!((rejected.reason, rejected.retry_after), (RejectReason::TimeOut, 1));
    assert_eq!(rejected.waited, Duration::from_secs(15));
    assert_eq!(rejected.flow_schema.name(), "all");
    let level = level(&controller, "one").unwrap();
    assert_eq!((level.timed_out, level.rejected, level.waiting), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn who_finds_no_place_is_refused_at_once() {
    let controller = controller(100, ONE_LEVEL);
    let _all = admitted(&controller, "jane", 95);
    // Two queues of ten places.
    let waiting: Vec<_> = (0..20).map(|_| waiting(&controller, "jane", 1)).collect();
    let refused = rejected(&controller, "jane", 1);
    assert_eq!((refused.reason, refused.reason.as_str()), (RejectReason::QueueFull, "queue-full"));
    drop(waiting);
    let level = level(&controller, "one").unwrap();
    assert_eq!((level.cancelled, level.rejected, level.waiting), (20, 21, 0));

    // The catch-all level has no queues.
    let controller = Controller::new(3, Arc::new(Unobserved));
    let _all = admitted(&controller, "jane", 3);
    let refused: Vec<_> = (0..9).map(|_| rejected(&controller, "jane", 1)).collect();
    assert_eq!(refused[0].reason, RejectReason::ConcurrencyLimit);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(rejected(&controller, "jane", 1).retry_after, 2);
}

#[tokio::test(start_paused = true)]
async fn admit_is_all_of_it() {
    let controller = controller(100, ONE_LEVEL);
    let digest = by("jane");
    let mut seen = 0;
    let estimate = |schema: &FlowSchema| {
        seen = schema.max_seats();
        WorkEstimate::seats(95)
    };
    let admitted = controller.admit(&digest, estimate, later(1)).await.unwrap();
    assert_eq!(seen, 15);
    let rejected = controller.admit(&digest, |_| WorkEstimate::seats(1), later(1)).await;
    assert_eq!(rejected.unwrap_err().reason, RejectReason::TimeOut);
    drop(admitted);
    assert!(controller.admit(&digest, |_| WorkEstimate::seats(1), later(1)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn lingering_seats_are_waited_for() {
    let controller = controller(100, ONE_LEVEL);
    let runner = tokio::spawn({
        let controller = controller.clone();
        async move { controller.run().await }
    });
    let digest = by("jane");
    let estimate = WorkEstimate {
        initial_seats: 1,
        final_seats: 95,
        additional_latency: Duration::from_millis(40),
    };
    let first = controller.admit(&digest, |_| estimate, later(1)).await.unwrap();
    let began = kevel_clock::timer_now();
    drop(first);
    // Only time passes.
    let second = controller.admit(&digest, |_| WorkEstimate::seats(1), later(1)).await.unwrap();
    assert!((40..=42).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    drop(second);
    runner.abort();
}

#[tokio::test(start_paused = true)]
async fn watches_and_writes_are_told_apart() {
    let counter = Counter::default();
    let controller = Controller::new(100, Arc::new(counter.clone()));
    configure(&controller, ONE_LEVEL);
    let watch = RequestDigest { verb: "watch", ..by("jane") };
    drop(controller.admit(&watch, |_| WorkEstimate::seats(1), later(1)).await);
    assert_eq!(counter.0.executed.load(Relaxed), 1);
    assert_eq!(counter.0.dispatched.load(Relaxed), 1);
    assert_eq!(ExecutionType::of_verb("watch").as_str(), "watch");
    assert_eq!(ExecutionType::of_verb("list").as_str(), "regular");
}

#[test]
fn queue_wait_is_a_fraction_of_the_deadline() {
    let (now, seconds) = (kevel_clock::timer_now(), Duration::from_secs);
    for (deadline, default, expected) in
        [(Some(60), 15, 15), (Some(4), 15, 1), (Some(600), 15, 60), (None, 15, 15), (None, 600, 60)]
    {
        let deadline = deadline.map(|deadline| now + seconds(deadline));
        assert_eq!(wait_until(now, deadline, seconds(default)), now + seconds(expected));
    }
    assert_eq!(wait_until(now + seconds(5), Some(now), seconds(1)), now + seconds(5));
}

#[tokio::test(start_paused = true)]
async fn nothing_outlives_the_controller_but_requests() {
    let controller = controller(100, ONE_LEVEL);
    let digest = by("jane");
    let latency = Duration::from_secs(9);
    let lingering = WorkEstimate { initial_seats: 1, final_seats: 9, additional_latency: latency };
    drop(controller.admit(&digest, |_| lingering, later(1)).await);
    let list = admitted(&controller, "jane", 81);
    let seats = [(); 5].map(|()| admitted(&controller, "jane", 1));
    let waiting = waiting(&controller, "jane", 1);
    let schema = Arc::downgrade(&controller.classify(&digest));
    drop(controller);
    assert!(schema.upgrade().is_some());
    drop((list, seats));
    drop(waiting.await);
    assert!(schema.upgrade().is_none());
}

/// Memory of a queued request: its slot, its details for dumps, its future and its timer.
#[test]
fn who_waits_holds_little() {
    let bytes = size_of::<Request>() + MAX_DETAILS + size_of::<Waiting>();
    let bytes = bytes + size_of::<tokio::time::Sleep>();
    assert!(bytes <= 2048, "{bytes}");
}
