use kevel_store::{Error, Revision};

use crate::engines::{events_until, next, show_event};

crate::contract! {
    async fn a_watch_tells_every_change_with_what_was_before(store: &Store) {
        let mut live = store.watch(b"/pods/", Revision(1)).await.unwrap();
        store.put("/pods/a", "1").await;
        store.put("/nodes/a", "1").await;
        store.put("/pods/a", "2").await;
        store.remove("/pods/a").await;
        store.put("/pods/a", "3").await;
        let last = store.current_revision().await.unwrap();
        let expected = [
            "2: none -> /pods/a=1@2/2",
            "4: /pods/a=1@2/2 -> /pods/a=2@2/4",
            "5: /pods/a=2@2/4 -> none",
            "6: none -> /pods/a=3@6/6",
        ];
        let told: Vec<_> = events_until(&mut live, Revision(1), last).await.iter().map(show_event).collect();
        assert_eq!(told, expected, "live");
        for (after, skipped) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 3), (6, 4)] {
            let mut watch = store.watch(b"/pods/", Revision(after)).await.unwrap();
            let told = events_until(&mut watch, Revision(after), last).await;
            let told: Vec<_> = told.iter().map(show_event).collect();
            assert_eq!(told, expected[skipped..], "after {after}");
        }
    }

    async fn a_watch_can_wait_for_the_future(store: &Store) {
        let mut watch = store.watch(b"/", Revision(4)).await.unwrap();
        for value in ["1", "2", "3", "4", "5"] {
            store.put("/a", value).await;
        }
        let told = events_until(&mut watch, Revision(4), Revision(6)).await;
        assert_eq!(
            told.iter().map(show_event).collect::<Vec<_>>(),
            ["5: /a=3@2/4 -> /a=4@2/5", "6: /a=4@2/5 -> /a=5@2/6"]
        );
    }

    async fn progress_is_told_when_nothing_changes(store: &Store) {
        store.put("/quiet/a", "1").await;
        let mut watch = store.watch(b"/quiet/", Revision(1)).await.unwrap();
        assert_eq!(next(&mut watch).await.unwrap().revision, Revision(2));
        let last = store.put("/loud/a", "1").await;
        if !store.reports_progress() {
            return kevel_test_support::skip("a newer etcd, which reports progress");
        }
        assert_eq!(events_until(&mut watch, Revision(2), last).await, []);
    }

    async fn a_watch_from_a_compacted_revision_is_told_so(store: &Store) {
        for value in ["1", "2", "3", "4"] {
            store.put("/a", value).await;
        }
        store.compact(Revision(4)).await.unwrap();
        for after in 1..4 {
            let outcome = match store.watch(b"/", Revision(after)).await {
                Ok(mut watch) => next(&mut watch).await.map(|_| ()),
                Err(error) => Err(error),
            };
            let (requested, compacted) = (Revision(after), Revision(4));
            assert_eq!(outcome, Err(Error::Compacted { requested, compacted }), "after {after}");
        }
        let mut watch = store.watch(b"/", Revision(4)).await.unwrap();
        let told = events_until(&mut watch, Revision(4), Revision(5)).await;
        assert_eq!(told.iter().map(show_event).collect::<Vec<_>>(), ["5: /a=3@2/4 -> /a=4@2/5"]);
    }

    async fn a_slow_watcher_misses_nothing(store: &Store) {
        let mut slow = store.watch(b"/", Revision(1)).await.unwrap();
        let mut last = Revision(1);
        for turn in 0..1000 {
            last = store.put(&format!("/{}", turn % 7), &turn.to_string()).await;
        }
        let told = events_until(&mut slow, Revision(1), last).await;
        let revisions: Vec<_> = told.iter().map(|event| event.revision.0).collect();
        assert_eq!(revisions, (2..=last.0).collect::<Vec<_>>());
    }

    async fn waiting_for_an_event_can_be_interrupted(store: &Store) {
        let mut watch = store.watch(b"/", Revision(1)).await.unwrap();
        let mut told = Vec::new();
        for turn in 0..50 {
            store.put("/a", &turn.to_string()).await;
            // Polled once and dropped.
            tokio::select! {
                biased;
                response = watch.next() => told.extend(response.unwrap().events),
                () = std::future::ready(()) => {}
            }
        }
        told.extend(events_until(&mut watch, Revision(1), Revision(51)).await);
        let revisions: Vec<_> = told.iter().map(|event| event.revision.0).collect();
        assert_eq!(revisions, (2..=51).collect::<Vec<_>>());
    }

    async fn interruptions_do_not_hold_up_a_watch(store: &Store) {
        let mut last = Revision(1);
        for turn in 0..200 {
            last = store.put("/a", &turn.to_string()).await;
        }
        let mut watch = store.watch(b"/", Revision(1)).await.unwrap();
        let (mut told, mut turns) = (Vec::new(), 0);
        while told.last() != Some(&last) {
            // `next` is dropped before it can be ready, again and again.
            tokio::select! {
                biased;
                response = watch.next() => {
                    told.extend(response.unwrap().events.iter().map(|event| event.revision));
                }
                () = tokio::task::yield_now() => turns += 1,
            }
            assert!(turns < 10_000_000, "{} of 200 events", told.len());
        }
        assert_eq!(told, (2..=last.0).map(Revision).collect::<Vec<_>>());
    }

    async fn closing_ends_watches(store: &Store) {
        let mut watch = store.watch(b"/", Revision(1)).await.unwrap();
        store.close().await;
        assert!(matches!(next(&mut watch).await, Err(Error::Unavailable(_))));
    }
}
