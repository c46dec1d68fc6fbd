//! Tests of configuration changes while requests are under way.

use kevel_clock::Clock;

use super::*;

const TWO_LEVELS: &str = "
level one queue shares=50 lendable=0 borrowing=0 queues=8 hand=2 length=10
level two queue shares=45 lendable=0 borrowing=0 queues=8 hand=2 length=10
schema first 100 one ByUser
  for user=jane
  at * *
schema second 200 two ByUser
  for user=*
  at * *
";

#[tokio::test(start_paused = true)]
async fn a_level_that_is_gone_drains() {
    let controller = controller(100, TWO_LEVELS);
    let runner = tokio::spawn({
        let controller = controller.clone();
        async move { controller.run().await }
    });
    let janes = admitted(&controller, "jane", 50);
    let waiting = tokio::spawn(waiting(&controller, "jane", 1));
    tokio::task::yield_now().await;

    let without = TWO_LEVELS.replace("level one", "level three");
    let digested = configure(&controller, &without);
    // The schema of the removed level dangles, and the next matching one is used.
    let messages: Vec<_> = digested
        .status_updates
        .iter()
        .map(|update| (update.flow_schema.as_str(), update.condition.str_at(&["reason"])))
        .collect();
    assert_eq!(messages, [("first", "NotFound"), ("second", "Found")]);
    drop(admitted(&controller, "jane", 1));
    assert_eq!(controller.classify(&by("jane")).name(), "second");

    // Its requests stay in the removed level, which keeps its shares.
    let one = level(&controller, "one").unwrap();
    assert!(one.quiescing && !one.idle);
    assert_eq!((one.executing, one.waiting), (1, 1));
    let gauges = controller.gauges();
    let nominal: Vec<_> = gauges.levels.iter().map(|level| level.limits.nominal).collect();
    // catch-all, exempt, one, three, two
    assert_eq!(nominal, [4, 0, 34, 34, 30]);
    drop(janes);
    let seats = waiting.await.unwrap().unwrap();
    assert_eq!(seats.flow_schema().priority_level(), "one");
    drop(seats);

    // The controller removes it when it is idle.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(level(&controller, "one").is_none());
    assert_eq!(controller.gauges().levels.len(), 4);
    runner.abort();
}

#[tokio::test(start_paused = true)]
async fn a_level_that_comes_back_goes_on() {
    let controller = controller(100, TWO_LEVELS);
    let janes = admitted(&controller, "jane", 50);
    configure(&controller, "");
    assert!(level(&controller, "one").unwrap().quiescing);
    assert!(level(&controller, "two").is_none());
    configure(&controller, TWO_LEVELS);
    let one = level(&controller, "one").unwrap();
    assert_eq!((one.quiescing, one.seats_in_use), (false, 50));
    drop(janes);
    assert_eq!(level(&controller, "one").unwrap().seats_in_use, 0);
}

#[tokio::test(start_paused = true)]
async fn who_comes_with_an_old_classification_classifies_again() {
    let controller = controller(100, TWO_LEVELS);
    let digest = by("jane");
    let old = controller.classify(&digest);
    configure(&controller, "");
    let started = controller.start(&digest, old, WorkEstimate::seats(1), later(1));
    let Started::Admitted(admitted) = started else { panic!("{started:?}") };
    assert_eq!(admitted.flow_schema().name(), "catch-all");
    assert_eq!(level(&controller, "catch-all").unwrap().executing, 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_used_is_said_and_ignored() {
    let controller = Controller::new(100, Arc::new(Unobserved));
    let (mut levels, schemas) = notation::parse(TWO_LEVELS);
    let mut broken = |at: usize, path: &[&str], key: &str, value: Value| {
        levels[at].make_map(path).insert(key, value);
    };
    broken(0, &["spec", "limited", "limitResponse", "queuing"], "handSize", 9.into());
    broken(1, &["spec"], "type", "Exempt".into());
    let digested = controller.configure(&levels, &schemas, Time::now(&Clock::system()));
    assert_eq!(
        digested.ignored,
        [
            (
                "one",
                "the QueueSetConfig implies an invalid shuffle sharding config (DesiredNumQueues \
                 is deckSize): handSize 9 is greater than deckSize 8"
            ),
            ("two", "broken union structure at the top, for Limited"),
        ]
        .map(|(name, why)| (name.to_owned(), why.to_owned()))
    );
    assert_eq!(controller.classify(&by("jane")).name(), "catch-all");
    // Only the level named `exempt` may be exempt, whatever its spec.
    let (levels, _) = notation::parse("level free exempt shares=1 lendable=0");
    let digested = controller.configure(&levels, &[] as &[Value], Time::now(&Clock::system()));
    assert_eq!(digested.ignored[0].1, "non-alignment between name and type");
}

#[tokio::test(start_paused = true)]
async fn queues_and_limits_change_under_way() {
    let controller = controller(100, ONE_LEVEL);
    let _all = admitted(&controller, "jane", 95);
    let waiting = tokio::spawn(waiting(&controller, "joe", 1));
    tokio::task::yield_now().await;
    // More shares: the queued request gets a seat.
    configure(&controller, &ONE_LEVEL.replace("shares=95", "shares=495"));
    let joes = waiting.await.unwrap().unwrap();
    // No queues: a request without a seat is rejected.
    let reject = ONE_LEVEL.replace("level one queue", "level one reject");
    let reject = reject.replace("queues=8 hand=2 length=10", "");
    configure(&controller, &reject.replace("shares=95", "shares=495"));
    let _rest = [(); 3].map(|()| admitted(&controller, "joe", 1));
    assert_eq!(rejected(&controller, "joe", 1).reason, RejectReason::ConcurrencyLimit);
    drop(joes);
    drop(admitted(&controller, "joe", 1));
}
