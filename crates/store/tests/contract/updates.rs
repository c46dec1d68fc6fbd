use kevel_store::{Change, Error, Revision, UpdateError, Updated, guaranteed_update};

use crate::engines::{Store as AnyStore, owned, show};

/// Appends `suffix` to what `key` holds, given a first guess.
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
}
