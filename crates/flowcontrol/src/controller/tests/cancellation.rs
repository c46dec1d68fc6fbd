//! Tests that no seat is lost or given twice, wherever requests are cancelled.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use kevel_clock::Clock;

use super::*;
use crate::random::Random;

const USERS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// Successive configurations.
const CONFIGURATIONS: [&str; 4] = [
    "
level one queue shares=20 lendable=50 queues=4 hand=2 length=3
level two reject shares=20 lendable=50
schema ones 100 one ByUser
  for user=a user=b user=c
  at * *
schema twos 100 two ByUser
  for user=d user=e
  at * *
",
    "
level one queue shares=5 lendable=0 queues=2 hand=1 length=5
level three queue shares=30 lendable=20 queues=6 hand=3 length=2
schema ones 100 one ByUser
  for user=a user=b
  at * *
schema threes 100 three ByUser
  for user=c user=d user=e
  at * *
",
    "
level one reject shares=9 lendable=0
schema ones 100 one ByUser
  for user=a user=b user=c user=d
  at * *
",
    "",
];

/// Requests under way: executing and queued.
#[derive(Default)]
struct Requests {
    admitted: Vec<Admitted>,
    waiting: Vec<Waiting>,
}

impl Requests {
    fn step(&mut self, controller: &Controller, random: &mut Random) {
        let user = USERS[random.below(USERS.len() as u64) as usize];
        match random.below(12) {
            0..5 => self.arrive(controller, user, random),
            5..7 => drop(take(&mut self.admitted, random)),
            7 => drop(take(&mut self.waiting, random)),
            8..10 => self.poll(random),
            10 => controller.adjust(),
            _ => {
                if random.below(4) == 0 {
                    let next = random.below(CONFIGURATIONS.len() as u64) as usize;
                    configure(controller, CONFIGURATIONS[next]);
                }
            }
        }
    }

    fn arrive(&mut self, controller: &Controller, user: &str, random: &mut Random) {
        let lingers = random.below(3) == 0;
        let estimate = WorkEstimate {
            initial_seats: 1 + random.below(4) as u32,
            final_seats: if lingers { random.below(6) as u32 } else { 0 },
            additional_latency: Duration::from_millis(if lingers { random.below(9) } else { 0 }),
        };
        let masters = ["system:masters".to_owned()];
        let groups = if user == "g" { &masters[..] } else { &[] };
        let digest = RequestDigest { groups, ..by(user) };
        let flow_schema = controller.classify(&digest);
        match controller.start(&digest, flow_schema, estimate, later(random.below(4))) {
            Started::Admitted(admitted) => self.admitted.push(admitted),
            Started::Waiting(waiting) => self.waiting.push(waiting),
            Started::Rejected(_) => {}
        }
    }

    fn poll(&mut self, random: &mut Random) {
        if let Some(mut waiting) = take(&mut self.waiting, random) {
            match Pin::new(&mut waiting).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => self.waiting.push(waiting),
                Poll::Ready(Ok(admitted)) => self.admitted.push(admitted),
                Poll::Ready(Err(_)) => {}
            }
        }
    }
}

fn take<T>(all: &mut Vec<T>, random: &mut Random) -> Option<T> {
    (!all.is_empty()).then(|| all.swap_remove(random.below(all.len() as u64) as usize))
}

/// Checks that the levels' counters, the observer's counters and the requests agree.
fn check(controller: &Controller, counter: &Counter, requests: &Requests) {
    controller.check();
    let levels = controller.dump(false, Clock::system().now());
    let sum = |of: fn(&LevelDump) -> u32| levels.iter().map(of).sum::<u32>();
    let (waiting, executing) = (sum(|level| level.waiting), sum(|level| level.executing));
    // Some of the waiting futures have been dispatched, but not polled yet.
    assert_eq!((waiting + executing) as usize, requests.waiting.len() + requests.admitted.len());
    assert!(executing as usize >= requests.admitted.len());
    let told = |count: &AtomicI64| count.load(Relaxed);
    assert_eq!(told(&counter.0.waiting), i64::from(waiting));
    assert_eq!(told(&counter.0.executing), i64::from(executing));
    assert_eq!(told(&counter.0.seats_waiting), i64::from(sum(|level| level.seats_waiting)));
    assert_eq!(told(&counter.0.seats_executing), i64::from(sum(|level| level.seats_in_use)));
}

#[tokio::test(start_paused = true)]
async fn no_seat_is_lost_or_given_twice() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let counter = Counter::default();
        let controller = Controller::new(20, Arc::new(counter.clone()));
        configure(&controller, CONFIGURATIONS[seed as usize % CONFIGURATIONS.len()]);
        let mut requests = Requests::default();
        for _ in 0..150 {
            requests.step(&controller, &mut random);
            if random.below(3) == 0 {
                tokio::time::advance(Duration::from_micros(random.below(20_000))).await;
            }
            check(&controller, &counter, &requests);
        }
        let Requests { admitted, waiting } = requests;
        // In either order.
        match seed % 2 {
            0 => drop((admitted, waiting)),
            _ => drop((waiting, admitted)),
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        configure(&controller, "");
        check(&controller, &counter, &Requests::default());
        for level in controller.dump(false, Clock::system().now()) {
            assert_eq!((level.seats_in_use, level.seats_waiting), (0, 0), "{}", level.name);
            assert!(level.idle && level.queues.is_empty());
        }
        assert_eq!(controller.dump(false, Clock::system().now()).len(), 2, "exempt and catch-all");
    }
}

/// Random requests from several threads, with tasks that are aborted anywhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_do_not_lose_seats_either() {
    let counter = Counter::default();
    let controller = Controller::new(20, Arc::new(counter.clone()));
    configure(&controller, CONFIGURATIONS[0]);
    let runner = tokio::spawn({
        let controller = controller.clone();
        async move { controller.run().await }
    });
    let mut random = Random::new(1);
    for round in 0..30 {
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let (controller, mut random) = (controller.clone(), Random::new(random.next()));
                tokio::spawn(async move {
                    for _ in 0..10 {
                        let user = USERS[random.below(5) as usize];
                        let seats = 1 + random.below(3) as u32;
                        let estimate = WorkEstimate::seats(seats);
                        let admitted = controller.admit(&by(user), |_| estimate, later(1)).await;
                        tokio::task::yield_now().await;
                        drop(admitted);
                    }
                })
            })
            .collect();
        configure(&controller, CONFIGURATIONS[round % 3]);
        for task in tasks {
            match random.below(3) {
                0 => task.abort(),
                _ => drop(task.await),
            }
        }
    }
    let idle = || {
        controller
            .dump(false, Clock::system().now())
            .iter()
            .all(|level| level.idle && level.seats_in_use == 0)
    };
    // Aborted tasks end some time later.
    for _ in 0..1000 {
        if idle() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(idle());
    controller.check();
    let told = |count: &AtomicI64| count.load(Relaxed);
    assert_eq!([&counter.0.waiting, &counter.0.executing].map(told), [0, 0]);
    assert_eq!([&counter.0.seats_waiting, &counter.0.seats_executing].map(told), [0, 0]);
    assert_eq!(told(&counter.0.dispatched), told(&counter.0.executed));
    runner.abort();
}
