use kevel_store::{Change, Engine, Error, Revision, UpdateError, Updated, guaranteed_update};

use crate::engines::{Store as AnyStore, events_until, owned, show, show_event};
use crate::outside::Outside;

/// Appends `suffix` to the value of `key`, given a cached entry as a first guess.
async fn append(
    store: &AnyStore,
    key: &str,
    guess: Option<kevel_store::Entry>,
    suffix: &str,
) -> Updated {
    let outcome = guaranteed_update(&**store, key.as_bytes(), guess, |current| async move {
        let old = current.map_or(String::new(), |e| String::from_utf8_lossy(&e.value).into());
        Ok::<_, Error>(Change::Put((old + suffix).into(), None))
    });
    outcome.await.unwrap()
}

crate::contract! {
    async fn concurrent_updates_are_all_applied(store: &Store) {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let engine = store.engine();
                tokio::spawn(async move {
                    for _ in 0..5 {
                        guaranteed_update(&*engine, b"/counter", None, |current| async move {
                            let old = current.map_or(0, |e| e.value.len());
                            Ok::<_, Error>(Change::Put(vec![b'x'; old + 1].into(), None))
                        })
                        .await
                        .unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let counter = store.get(b"/counter", None).await.unwrap().entry.unwrap();
        assert_eq!((counter.value.len(), counter.mod_revision), (40, Revision(41)));
    }

    async fn a_stale_guess_is_not_believed(store: &Store) {
        store.put("/a", "1").await;
        let stale = store.get(b"/a", None).await.unwrap().entry;
        store.put("/a", "2").await;

        let refused = |current: Option<kevel_store::Entry>| async move {
            Err::<Change, _>(show(&current.unwrap()))
        };
        let outcome = guaranteed_update(&**store, b"/a", stale.clone(), refused).await;
        assert_eq!(outcome, Err(UpdateError::Refused("/a=2@2/3".to_string())));

        let same = |_| async { Ok::<_, Error>(Change::Put(owned("1"), None)) };
        let outcome = guaranteed_update(&**store, b"/a", stale.clone(), same).await.unwrap();
        assert_eq!(outcome.written, Some(Revision(4)), "what looked like no change is one");

        let updated = append(store, "/a", stale, "+").await;
        assert_eq!(show(&updated.entry.unwrap()), "/a=1+@2/5");
    }

    async fn writing_the_same_bytes_is_no_write(store: &Store) {
        store.put("/a", "1").await;
        let guess = store.get(b"/a", None).await.unwrap().entry;
        for guess in [None, guess] {
            let updated = append(store, "/a", guess, "").await;
            assert_eq!((show(&updated.entry.unwrap()), updated.written), ("/a=1@2/2".into(), None));
        }
    }

    async fn an_update_may_create_and_delete(store: &Store) {
        let created = append(store, "/a", None, "x").await;
        assert_eq!(show(&created.entry.unwrap()), "/a=x@2/2");
        let delete = |_| async { Ok::<_, Error>(Change::Delete) };
        let deleted = guaranteed_update(&**store, b"/a", None, delete).await.unwrap();
        assert_eq!((show(&deleted.entry.unwrap()), deleted.written), ("/a=x@2/2".into(), Some(Revision(3))));
        let again = guaranteed_update(&**store, b"/a", None, delete).await;
        assert_eq!(again, Err(UpdateError::Store(Error::NotFound)));
    }

    async fn a_guess_of_what_is_gone_is_not_believed(store: &Store) {
        store.put("/a", "1").await;
        let gone = store.get(b"/a", None).await.unwrap().entry;
        store.remove("/a").await;
        let delete = |_| async { Ok::<_, Error>(Change::Delete) };
        let deleted = guaranteed_update(&**store, b"/a", gone.clone(), delete).await;
        assert_eq!(deleted, Err(UpdateError::Store(Error::NotFound)));
        // A refusal of the cached entry is repeated on the present state.
        let refuse = |current: Option<kevel_store::Entry>| async move {
            match current {
                Some(_) => Err("it is there"),
                None => Err("it is not there"),
            }
        };
        let refused = guaranteed_update(&**store, b"/a", gone.clone(), refuse).await;
        assert_eq!(refused, Err(UpdateError::Refused("it is not there")));
        // A later object of the same name is another one.
        store.put("/a", "2").await;
        assert_eq!(show(&append(store, "/a", gone, "+").await.entry.unwrap()), "/a=2+@4/5");
    }

    async fn a_deletion_by_a_stale_guess_deletes_what_is_there(store: &Store) {
        store.put("/a", "1").await;
        let stale = store.get(b"/a", None).await.unwrap().entry;
        store.put("/a", "2").await;
        let delete = |_| async { Ok::<_, Error>(Change::Delete) };
        let deleted = guaranteed_update(&**store, b"/a", stale.clone(), delete).await.unwrap();
        assert_eq!(show(&deleted.entry.unwrap()), "/a=2@2/3");
        store.put("/b", "1").await;
        let first = store.get(b"/b", None).await.unwrap().entry;
        store.put("/b", "2").await;
        // The precondition is checked on the present entry, though the cached one met it.
        let only_the_first = |current: Option<kevel_store::Entry>| async move {
            match current {
                Some(entry) if entry.value == "1" => Ok(Change::Delete),
                other => Err(format!("not {:?}", other.map(|entry| show(&entry)))),
            }
        };
        let kept = guaranteed_update(&**store, b"/b", first, only_the_first).await;
        let why = r#"not Some("/b=2@5/6")"#.to_owned();
        assert_eq!(kept, Err(UpdateError::Refused(why)));
        assert_eq!(store.count(b"/b").await.unwrap(), 1);
    }

    async fn an_update_gives_a_time_to_live(store: &Store) {
        store.put("/a", "1").await;
        let mut watch = store.watch(b"/", Revision(2)).await.unwrap();
        let second = std::time::Duration::from_secs(1);
        let mortal = move |_| async move { Ok::<_, Error>(Change::Put(owned("2"), Some(second))) };
        guaranteed_update(&**store, b"/a", None, mortal).await.unwrap();
        let events = events_until(&mut watch, Revision(2), Revision(4)).await;
        let events: Vec<_> = events.iter().map(show_event).collect();
        assert_eq!(events, ["3: /a=1@2/2 -> /a=2@2/3", "4: /a=2@2/3 -> none"]);
    }
}

/// The same bytes are written again where the stored form is stale, once; also if the caller guesses the entry.
#[tokio::test]
async fn stale_value_is_written_again_though_it_stays() {
    for is_guessed in [false, true] {
        for is_stale in [false, true] {
            for value in ["1", "2"] {
                let store = Outside::new();
                store.create(b"/a", owned("1"), None).await.unwrap();
                if is_stale {
                    store.make_stale(b"/a");
                }
                let entry = store.get(b"/a", None).await.unwrap().entry;
                let guess = entry.filter(|_| is_guessed);
                let put = |_| async { Ok::<_, Error>(Change::Put(owned(value), None)) };
                let first = guaranteed_update(&store, b"/a", guess, put).await.unwrap();
                let what = format!("guessed: {is_guessed}, stale: {is_stale}, {value}");
                let expected = (is_stale || value == "2").then_some(Revision(3));
                assert_eq!(first.written, expected, "{what}");
                let second = guaranteed_update(&store, b"/a", None, put).await.unwrap();
                assert_eq!(second.written, None, "{what}: it is written already");
                assert_eq!(second.entry, first.entry, "{what}");
            }
        }
    }
}
