use kevel_store::{Error, RangeOptions, Revision};

use crate::engines::{Store as AnyStore, show};

async fn list(store: &AnyStore, prefix: &str, options: RangeOptions) -> Vec<String> {
    let list = store.range(prefix.as_bytes(), options).await.unwrap();
    list.entries.iter().map(show).collect()
}

fn at(revision: u64) -> RangeOptions {
    RangeOptions { revision: Some(Revision(revision)), ..RangeOptions::default() }
}

crate::contract! {
    async fn a_range_is_the_keys_with_a_prefix_in_order(store: &Store) {
        for key in ["/pods/b", "/pods/a", "/podsx/a", "/pods", "/pods0", "/aaa", "/pods/a/b"] {
            store.put(key, "1").await;
        }
        for (prefix, expected) in [
            ("/pods/", vec!["/pods/a=1@3/3", "/pods/a/b=1@8/8", "/pods/b=1@2/2"]),
            ("/podsx", vec!["/podsx/a=1@4/4"]),
            ("/nothing/", vec![]),
        ] {
            assert_eq!(list(store, prefix, RangeOptions::default()).await, expected, "{prefix}");
            assert_eq!(store.count(prefix.as_bytes()).await.unwrap(), expected.len() as u64);
        }
        assert_eq!(store.count(b"").await.unwrap(), 7);
    }

    async fn the_past_can_be_read_as_it_was(store: &Store) {
        store.put("/a", "1").await;
        store.put("/b", "1").await;
        store.put("/a", "2").await;
        store.remove("/b").await;
        store.put("/b", "3").await;
        for (revision, expected) in [
            (1, vec![]),
            (2, vec!["/a=1@2/2"]),
            (3, vec!["/a=1@2/2", "/b=1@3/3"]),
            (4, vec!["/a=2@2/4", "/b=1@3/3"]),
            (5, vec!["/a=2@2/4"]),
            (6, vec!["/a=2@2/4", "/b=3@6/6"]),
        ] {
            assert_eq!(list(store, "/", at(revision)).await, expected, "at {revision}");
            let b = store.get(b"/b", Some(Revision(revision))).await.unwrap().entry;
            let b = b.iter().map(show).collect::<Vec<_>>();
            let expected: Vec<_> = expected.into_iter().filter(|e| e.starts_with("/b")).collect();
            assert_eq!(b, expected, "at {revision}");
        }
        let future = Error::FutureRevision { requested: Revision(7), current: Revision(6) };
        assert_eq!(store.range(b"/", at(7)).await, Err(future.clone()));
        assert_eq!(store.get(b"/a", Some(Revision(7))).await, Err(future));
    }

    async fn pages_stay_consistent_while_writes_go_on(store: &Store) {
        for name in 0..10 {
            store.put(&format!("/{name}"), "old").await;
        }
        let mut options = RangeOptions { limit: 4, count: true, ..RangeOptions::default() };
        let mut seen = Vec::new();
        let mut remaining = Vec::new();
        loop {
            let page = store.range(b"/", options.clone()).await.unwrap();
            assert_eq!(page.revision, Revision(11));
            seen.extend(page.entries.iter().map(show));
            remaining.push(page.remaining.unwrap());
            assert!(remaining.len() < 10, "pages without end");
            for name in 0..10 {
                store.put(&format!("/{name}"), "new").await;
            }
            store.put(&format!("/0{}", remaining.len()), "new").await;
            if !page.more {
                break;
            }
            options.revision = Some(page.revision);
            options.after = page.entries.last().map(|entry| entry.key.clone());
        }
        assert_eq!(remaining, [6, 2, 0]);
        let expected: Vec<_> = (0..10).map(|n| format!("/{n}=old@{0}/{0}", n + 2)).collect();
        assert_eq!(seen, expected);
    }

    async fn a_full_page_is_not_followed_by_an_empty_one(store: &Store) {
        for name in ["/a", "/b"] {
            store.put(name, "1").await;
        }
        for (limit, more) in [(1, true), (2, false), (3, false), (0, false)] {
            let page = store.range(b"/", RangeOptions { limit, ..RangeOptions::default() }).await;
            assert_eq!(page.unwrap().more, more, "limit {limit}");
        }
    }

    async fn compaction_ends_the_past(store: &Store) {
        store.put("/a", "1").await;
        store.put("/b", "1").await;
        store.put("/a", "2").await;
        store.remove("/b").await;
        store.put("/c", "1").await;
        store.compact(Revision(5)).await.unwrap();
        assert_eq!(store.compacted_revision(), Revision(5));
        for revision in [1, 2, 4] {
            let (requested, compacted) = (Revision(revision), Revision(5));
            let expected = Error::Compacted { requested, compacted };
            assert_eq!(store.range(b"/", at(revision)).await, Err(expected.clone()));
            assert_eq!(store.get(b"/a", Some(requested)).await, Err(expected));
        }
        assert_eq!(list(store, "/", at(5)).await, ["/a=2@2/4"]);
        assert_eq!(list(store, "/", at(6)).await, ["/a=2@2/4", "/c=1@6/6"]);
        assert_eq!(list(store, "/", RangeOptions::default()).await, ["/a=2@2/4", "/c=1@6/6"]);
        assert!(matches!(store.compact(Revision(5)).await, Err(Error::Compacted { .. })));
        assert!(matches!(store.compact(Revision(99)).await, Err(Error::FutureRevision { .. })));
        assert_eq!(store.put("/b", "2").await, Revision(7));
        assert_eq!(store.get(b"/b", None).await.unwrap().entry.unwrap().create_revision, Revision(7));
    }
}
