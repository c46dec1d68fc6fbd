//! Tests of limits, widths, lingering seats and changes of configuration.

use super::*;

#[test]
fn a_level_without_queues_refuses() {
    let mut bench = Bench::new(Queuing::Reject, 3);
    let slot = bench.execute(0, 2);
    assert_eq!(
        bench.arrive(0, WorkEstimate::seats(2)),
        Arrival::Rejected(RejectReason::ConcurrencyLimit)
    );
    let other = bench.execute(0, 1);
    bench.finish(slot);
    bench.finish(other);
    // A request wider than the level runs alone.
    let wide = bench.execute(0, 9);
    assert_eq!(
        bench.arrive(0, WorkEstimate::seats(1)),
        Arrival::Rejected(RejectReason::ConcurrencyLimit)
    );
    bench.finish(wide);
    assert_eq!((bench.set.totals().rejected, bench.set.totals().dispatched), (2, 3));
    assert!(bench.set.is_idle());
}

#[test]
fn an_exempt_level_rejects_no_request() {
    let mut bench = Bench::new(Queuing::Exempt, 0);
    let all: Vec<_> = (0..100).map(|_| bench.execute(0, 5)).collect();
    assert_eq!(bench.set.totals().seats_in_use, 500);
    all.into_iter().for_each(|slot| bench.finish(slot));
    assert_eq!(bench.set.totals().seats_in_use, 0);
}

#[test]
fn a_queue_takes_as_many_as_it_may() {
    let mut bench = Bench::new(queues(4, 1, 2), 1);
    let first = bench.execute(0, 1);
    let waiting = [bench.wait(0, 1), bench.wait(0, 1)];
    assert_eq!(bench.arrive(0, WorkEstimate::seats(1)), Arrival::Rejected(RejectReason::QueueFull));
    // Another queue has room.
    let other = bench.wait(1, 1);
    bench.at(millis(1)).finish(first);
    // The flow that has not been served comes first, then they take turns.
    assert!(bench.is_executing(other));
    bench.at(millis(2)).finish(other);
    assert!(bench.is_executing(waiting[0]) && !bench.is_executing(waiting[1]));
}

#[test]
fn a_flow_uses_the_emptiest_of_its_queues() {
    let mut bench = Bench::new(queues(8, 3, 9), 1);
    let _first = bench.execute(0, 1);
    for _ in 0..9 {
        bench.wait(0, 1);
    }
    let mut lengths: Vec<_> = bench.set.queues().iter().map(|(_, queue)| queue.waiting).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [3, 3, 3]);
}

#[test]
fn who_is_next_is_waited_for() {
    let mut bench = Bench::new(queues(2, 1, 9), 4);
    let running = [bench.execute(0, 2), bench.execute(0, 2)];
    let wide = bench.wait(1, 4);
    let narrow = [bench.wait(0, 1), bench.wait(0, 1)];
    bench.at(millis(10)).finish(running[0]);
    // There are two free seats, but the other flow is next.
    assert_eq!(bench.set.totals().seats_in_use, 2);
    bench.at(millis(11)).finish(running[1]);
    assert!(bench.is_executing(wide) && !bench.is_executing(narrow[0]));
    bench.at(millis(12)).finish(wide);
    assert!(bench.is_executing(narrow[0]) && bench.is_executing(narrow[1]));
}

#[test]
fn narrow_requests_do_not_wait_for_wide_ones() {
    let mut bench = Bench::new(queues(8, 1, 99), 32);
    // Two of the seats are reserved for requests of one seat.
    let mut lists: Vec<_> = (0..3).map(|_| bench.execute(0, 10)).collect();
    let waiting = bench.wait(0, 10);
    let small = [bench.execute(1, 1), bench.execute(2, 1)];
    assert_eq!(bench.set.totals().seats_in_use, 32);
    let third = bench.wait(3, 1);
    // A reserved seat goes to the next request of one seat, not to the list.
    bench.at(millis(1)).finish(small[0]);
    assert!(bench.is_executing(third) && !bench.is_executing(waiting));
    // A list's seats go to the next request in order.
    bench.at(millis(2)).finish(lists.remove(0));
    assert!(bench.is_executing(waiting));
    for slot in lists.into_iter().chain([waiting, third, small[1]]) {
        bench.finish(slot);
    }
    assert!(bench.set.is_idle());
    assert_eq!(bench.set.totals().seats_in_use, 0);
}

#[test]
fn small_requests_do_not_starve_a_list() {
    let mut bench = Bench::new(queues(8, 1, 999), 32);
    let mut small: Vec<_> = (0..32).map(|_| bench.execute(1, 1)).collect();
    let list = bench.wait(0, 10);
    let mut waiting: Vec<_> = (0..99).map(|_| bench.wait(1, 1)).collect();
    for at in 0..99 {
        if bench.is_executing(list) {
            break;
        }
        bench.at(millis(at)).finish(small.remove(0));
        waiting.retain(|slot| {
            let started = bench.is_executing(*slot);
            small.extend(started.then_some(*slot));
            !started
        });
    }
    assert!(bench.is_executing(list));
}

#[test]
fn who_leaves_makes_room_for_those_behind() {
    let mut bench = Bench::new(queues(2, 1, 9), 4);
    let running = bench.execute(0, 2);
    let wide = bench.wait(1, 3);
    let narrow = bench.wait(0, 1);
    assert!(bench.set.leave(bench.now, wide, RejectReason::Cancelled));
    bench.set.check();
    assert!(bench.is_executing(narrow));
    assert!(!bench.set.leave(bench.now, narrow, RejectReason::TimeOut));
    bench.finish(narrow);
    bench.finish(running);
    let totals = *bench.set.totals();
    assert_eq!((totals.rejected, totals.cancelled, totals.timed_out), (1, 1, 0));
    assert!(bench.set.is_idle());
}

#[test]
fn seats_linger_after_the_answer() {
    let mut bench = Bench::new(queues(2, 1, 9), 4);
    let estimate =
        WorkEstimate { initial_seats: 1, final_seats: 3, additional_latency: millis(20) };
    let Arrival::Executing(first) = bench.arrive(0, estimate) else { panic!() };
    let narrow = bench.execute(1, 1);
    let waiting = bench.wait(1, 1);
    bench.at(millis(5)).finish(first);
    assert_eq!((bench.set.totals().executing, bench.set.totals().seats_in_use), (1, 4));
    assert_eq!(bench.set.alarm(), Some(bench.start + millis(25)));
    bench.at(millis(24)).tick();
    assert!(!bench.is_executing(waiting));
    bench.at(millis(25)).tick();
    bench.set.check();
    assert!(bench.is_executing(waiting));
    assert_eq!(bench.set.alarm(), None);
    bench.finish(waiting);
    bench.finish(narrow);
    // The level is idle without queued and executing requests; the queue is removed when its lingering seats are
    // released.
    assert!(bench.set.is_idle() && bench.set.queues().iter().next().is_none());
}

#[test]
fn what_is_left_behind_is_made_to_fit() {
    let mut bench = Bench::new(queues(2, 1, 9), 2);
    let estimate =
        WorkEstimate { initial_seats: 1, final_seats: 8, additional_latency: millis(10) };
    let Arrival::Executing(slot) = bench.arrive(0, estimate) else { panic!() };
    let fitted = bench.set.requests()[slot].estimate;
    assert_eq!((fitted.final_seats, fitted.additional_latency), (2, millis(40)));
    // The same for a request that was queued.
    let waiting = match bench.arrive(1, estimate) {
        Arrival::Waiting(slot) => slot,
        other => panic!("{other:?}"),
    };
    bench.at(millis(1)).finish(slot);
    bench.at(millis(41)).tick();
    bench.set.check();
    assert_eq!(bench.set.requests()[waiting].estimate.final_seats, 2);
    assert_eq!((bench.set.totals().seats_in_use, bench.set.totals().seats_waiting), (2, 0));
}

#[test]
fn limits_and_queues_change_under_way() {
    let mut bench = Bench::new(queues(8, 1, 9), 1);
    let first = bench.execute(0, 1);
    let waiting: Vec<_> = (1..8).map(|hash| bench.wait(hash, 1)).collect();
    bench.set.set_limit(bench.now, 3, 3);
    bench.set.check();
    assert_eq!(bench.set.totals().executing, 3);
    // Fewer queues: requests in a removed queue stay there until they are dispatched.
    bench.set.set_queuing(bench.now, queues(2, 1, 9));
    assert_eq!(bench.set.totals().waiting, 5);
    // No queues: new requests are rejected, queued ones are dispatched.
    bench.set.set_queuing(bench.now, Queuing::Reject);
    assert_eq!(
        bench.arrive(0, WorkEstimate::seats(1)),
        Arrival::Rejected(RejectReason::ConcurrencyLimit)
    );
    bench.finish(first);
    assert_eq!(bench.set.totals().waiting, 4);
    bench.set.set_limit(bench.now, 0, 1);
    let running = waiting.iter().filter(|slot| bench.is_executing(**slot)).copied();
    for slot in running.collect::<Vec<_>>() {
        bench.finish(slot);
    }
    assert_eq!((bench.set.totals().executing, bench.set.totals().waiting), (0, 4));
    bench.set.set_limit(bench.now, 9, 9);
    assert_eq!((bench.set.totals().executing, bench.set.totals().waiting), (4, 0));
}

#[test]
fn millions_of_queues_cost_nothing() {
    let mut bench = Bench::new(queues(10_000_000, 2, 50), 5);
    let all: Vec<_> = (0..5).map(|hash| bench.execute(hash << 40, 1)).collect();
    assert_eq!(bench.set.queues().iter().count(), 5);
    all.into_iter().for_each(|slot| bench.finish(slot));
    assert_eq!(bench.set.queues().iter().count(), 0);
}
