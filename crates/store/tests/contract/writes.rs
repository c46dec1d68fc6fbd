use std::time::Duration;

use kevel_store::{Error, Revision};

use crate::engines::{events_until, owned, show, show_event};

crate::contract! {
    async fn every_write_takes_the_next_revision(store: &Store) {
        assert_eq!(store.current_revision().await.unwrap(), Revision(1));
        assert_eq!(store.put("/a", "1").await, Revision(2));
        assert_eq!(store.put("/b", "1").await, Revision(3));
        assert_eq!(store.put("/a", "2").await, Revision(4));
        assert_eq!(store.remove("/b").await, Revision(5));
        assert_eq!(store.put("/b", "3").await, Revision(6));
        assert_eq!(store.current_revision().await.unwrap(), Revision(6));
        for (key, expected) in [("/a", "/a=2@2/4"), ("/b", "/b=3@6/6")] {
            let found = store.get(key.as_bytes(), None).await.unwrap();
            assert_eq!(show(&found.entry.unwrap()), expected);
            assert_eq!(found.revision, Revision(6));
        }
    }

    async fn create_is_for_keys_that_are_absent(store: &Store) {
        store.put("/a", "1").await;
        match store.create(b"/a", owned("2"), None).await {
            Err(Error::Exists(current)) => assert_eq!(show(&current), "/a=1@2/2"),
            other => panic!("{other:?}"),
        }
        store.remove("/a").await;
        assert_eq!(store.create(b"/a", owned("2"), None).await.unwrap(), Revision(4));
    }

    async fn update_and_delete_compare_the_revision(store: &Store) {
        let first = store.put("/a", "1").await;
        let second = store.update(b"/a", owned("2"), first, None).await.unwrap();
        let stale = [
            store.update(b"/a", owned("3"), first, None).await,
            store.delete(b"/a", first).await,
        ];
        for outcome in stale {
            match outcome {
                Err(Error::Conflict(current)) => assert_eq!(show(&current), "/a=2@2/3"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(store.delete(b"/a", second).await.unwrap(), Revision(4));
        assert_eq!(store.update(b"/a", owned("3"), second, None).await, Err(Error::NotFound));
        assert_eq!(store.delete(b"/a", second).await, Err(Error::NotFound));
        assert_eq!(store.current_revision().await.unwrap(), Revision(4), "failures are no writes");
    }

    async fn values_are_bytes(store: &Store) {
        let binary: Vec<u8> = (0..=255).collect();
        for (key, value) in [("/empty", vec![]), ("/binary", binary), ("/large", vec![7; 1 << 20])] {
            store.create(key.as_bytes(), value.clone().into(), None).await.unwrap();
            let entry = store.get(key.as_bytes(), None).await.unwrap().entry.unwrap();
            assert_eq!(entry.value, value, "{key}");
        }
    }

    async fn what_is_too_large_is_refused(store: &Store) {
        let outcome = store.create(b"/a", vec![0; 5 << 20].into(), None).await;
        assert!(matches!(outcome, Err(Error::TooLarge(_))), "{outcome:?}");
        let update = store.put("/b", "small").await;
        let outcome = store.update(b"/b", vec![0; 5 << 20].into(), update, None).await;
        assert!(matches!(outcome, Err(Error::TooLarge(_))), "{outcome:?}");
        assert_eq!(store.put("/a", "small").await, Revision(3));
    }

    async fn a_time_to_live_ends_in_a_deletion(store: &Store) {
        let mut watch = store.watch(b"/", Revision(1)).await.unwrap();
        let ttl = Some(Duration::from_secs(1));
        let created = store.create(b"/mortal", owned("1"), ttl).await.unwrap();
        // An update replaces the time to live too.
        let saved = store.create(b"/saved", owned("1"), ttl).await.unwrap();
        store.update(b"/saved", owned("2"), saved, None).await.unwrap();
        let events = events_until(&mut watch, Revision(1), Revision(5)).await;
        assert_eq!(created, Revision(2));
        assert_eq!(
            events.iter().map(show_event).collect::<Vec<_>>(),
            [
                "2: none -> /mortal=1@2/2",
                "3: none -> /saved=1@3/3",
                "4: /saved=1@3/3 -> /saved=2@3/4",
                "5: /mortal=1@2/2 -> none",
            ]
        );
        assert_eq!(store.count(b"/").await.unwrap(), 1);
    }

    async fn keys_live_for_their_own_time(store: &Store) {
        let mut watch = store.watch(b"/", Revision(1)).await.unwrap();
        for (key, seconds) in [(b"/long1", 3600), (b"/short", 1), (b"/long2", 3600)] {
            let ttl = Some(Duration::from_secs(seconds));
            store.create(key, owned("1"), ttl).await.unwrap();
        }
        let events = events_until(&mut watch, Revision(1), Revision(5)).await;
        assert_eq!(events.last().map(show_event).as_deref(), Some("5: /short=1@3/3 -> none"));
        assert_eq!(store.count(b"/long").await.unwrap(), 2);
    }
}
