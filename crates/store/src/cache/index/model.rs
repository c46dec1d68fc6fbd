//! Lists by indexes beside lists by a look at every object: objects that change at random, and all sorts of selections.

use bytes::Bytes;

use super::*;
use crate::Revision;
use crate::cache::{Decode, JsonDecode, KeyOrder};

/// Numbers that look random, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }

    fn key(&mut self) -> String {
        format!("{}/p{:02}", self.pick(&["a", "b", "b-c"]), self.below(40))
    }

    /// An object; a damaged one now and then.
    fn object(&mut self, key: &str, revision: u64) -> Object {
        let labels = [("app", 4), ("tier", 2)].map(|(label, values)| match self.below(5) {
            0 => String::new(),
            _ => format!(r#""{label}":"v{}","#, self.below(values)),
        });
        let labels = labels.concat();
        let node = match self.below(12) {
            0 => "n".repeat(MAX_VALUE + 1),
            number => ["", "n1", "n2"][number % 3].to_owned(),
        };
        let stored = format!(
            r#"{{"metadata":{{"name":"x","labels":{{{}}}}},"spec":{{"nodeName":"{node}"}}}}"#,
            labels.trim_end_matches(',')
        );
        let decode = JsonDecode { order: KeyOrder::Struct };
        let wire = decode.decode(&Bytes::from(stored), Revision(revision));
        let wire =
            wire.and_then(|wire| if self.below(20) == 0 { Err("no".into()) } else { Ok(wire) });
        Object::new(key, Revision(revision), wire)
    }

    fn selection(&mut self, paths: &Arc<[FieldPath]>) -> Selection {
        let long = format!("spec.nodeName={}", "n".repeat(MAX_VALUE + 1));
        let labels = self.pick(&[
            "",
            "app=v1",
            "app in (v1,v3)",
            "app in (v0,v0,v9)",
            "app=v1,tier=v0",
            "app=v1,app=v2",
            "app!=v1",
            "!app",
            "app,tier in (v0,v1)",
            "app=no",
        ]);
        let fields = self.pick(&[
            "",
            "",
            "spec.nodeName=n1",
            "spec.nodeName=",
            "spec.nodeName!=n1",
            "metadata.name=p07",
            "metadata.name=p07,spec.nodeName=n2",
            "metadata.namespace=a",
            "spec.nodeName=n1,spec.nodeName=n2",
            &long,
        ]);
        Selection {
            prefix: self.pick(&["", "a/", "b/", "b-c/", "d/"]).to_owned(),
            labels: labels.parse().unwrap(),
            fields: fields.parse().unwrap(),
            paths: paths.clone(),
            ..Selection::default()
        }
    }
}

/// Lists a snapshot both ways. Returns whether an index was used.
fn check(snapshot: &Snapshot, selection: &Selection, after: Option<&str>) -> bool {
    let keys = |objects: &mut dyn Iterator<Item = &Arc<Object>>| -> Vec<(String, Revision)> {
        let selected = objects.filter(|object| selection.matches(object));
        selected.map(|object| (object.key().to_owned(), object.revision())).collect()
    };
    let expected = keys(&mut snapshot.range(&selection.prefix, after));
    let mut candidates = snapshot.candidates(selection, after);
    let (is_indexed, is_all) = (candidates.index.is_some(), candidates.are_all());
    assert_eq!(keys(&mut candidates), expected, "{selection:?} after {after:?}");
    let range = snapshot.range(&selection.prefix, after).count();
    assert_eq!(snapshot.count(&selection.prefix, after), range, "{selection:?} after {after:?}");
    let looked_at = snapshot.candidates(selection, after).count();
    assert!(looked_at <= range, "{looked_at} of {range}");
    is_indexed && !is_all
}

#[tokio::test]
async fn indexed_lists_equal_lists_of_all_objects() {
    let paths: Arc<[FieldPath]> = [FieldPath::new("spec.nodeName", "spec.nodeName")].into();
    let keys = [IndexKey::Label("app".into()), IndexKey::Label("tier".into()), IndexKey::Field(0)];
    let mut indexed = 0;
    for seed in 1..=8 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        let (mut snapshot, mut kept) = (Snapshot::default(), Vec::new());
        for revision in 0..600 {
            let key = random.key();
            match random.below(4) {
                0 => snapshot.remove(&key),
                _ => snapshot.insert(Arc::new(random.object(&key, revision))),
            }
            if revision == 100 {
                for key in &keys[..1 + seed as usize % 3] {
                    let index = SnapshotIndex::build(&snapshot, key.clone(), paths.clone()).await;
                    snapshot = snapshot.indexed(index);
                }
            }
            if revision == 500 {
                snapshot = snapshot.retaining(|key| *key != keys[0]);
            }
            if revision % 40 == 0 {
                kept.push(snapshot.clone());
            }
            let after = Some(random.key()).filter(|_| revision % 3 == 0);
            let selection = random.selection(&paths);
            indexed += usize::from(check(&snapshot, &selection, after.as_deref()));
        }
        for snapshot in &kept {
            check(snapshot, &random.selection(&paths), None);
        }
    }
    assert!(indexed > 500, "{indexed}");
}

#[tokio::test]
async fn selection_with_other_fields_does_not_use_the_index() {
    let paths: Arc<[FieldPath]> = [FieldPath::new("spec.nodeName", "spec.nodeName")].into();
    let mut snapshot = Snapshot::default();
    snapshot.insert(Arc::new(Random(1).object("a/p", 1)));
    let index = SnapshotIndex::build(&snapshot, IndexKey::Field(0), paths.clone()).await;
    let snapshot = snapshot.indexed(index);
    for (paths, uses) in [(paths.clone(), true), (paths.iter().cloned().collect(), false)] {
        let fields = "spec.nodeName=n1".parse().unwrap();
        let selection = Selection { fields, paths, ..Selection::default() };
        assert_eq!(snapshot.candidates(&selection, None).index.is_some(), uses);
    }
}
