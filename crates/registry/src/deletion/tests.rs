//! Deletions on a real store, compared with a naive model of the reference: every combination of grace period,
//! finalizers, deletion under way, propagation policy, dry run and kind.

mod model;

use std::sync::atomic::{AtomicUsize, Ordering};

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::status::reason;
use kevel_codec::json::{Unknown, decode};
use kevel_store::cache::Caches;
use kevel_store::embedded::{Embedded, Options};

use self::model::{At, Case, Fate, OWN, TestKind, UnderWay, expected};
use super::*;
use crate::allocation::Begin;
use crate::columns::NameAndCreation;
use crate::resource::Conventions;
use crate::storage::{Format, RegistryOptions, StorageConfig};
use crate::type_ref::TypeRef;
use kevel_component::future::Pending;

/// Counts released allocations.
#[derive(Debug, Default)]
struct Released(AtomicUsize);

impl Allocation for Released {
    fn begin_create(self: Arc<Self>, _: Value, _: bool) -> Begin {
        unreachable!("nothing is created through the row")
    }

    fn begin_update(self: Arc<Self>, _: Value, _: Value, _: bool) -> Begin {
        unreachable!("nothing is updated through the row")
    }

    fn after_delete<'a>(&'a self, _: &'a Value) -> Pending<'a, ()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

/// A store with a storage for each setting of garbage collection, and the resources.
struct World {
    engine: Arc<Embedded>,
    released: Arc<Released>,
    storages: [Arc<Storage>; 2],
    objects: AtomicUsize,
    _caches: Caches,
}

impl World {
    fn new() -> Self {
        let engine = Arc::new(Embedded::memory(Options::default()).unwrap());
        let caches = Caches::start(engine.clone(), "/registry/");
        let storage = |garbage_collection: bool| {
            let config = StorageConfig {
                kind: GroupVersionKind::from_static("", "v1", "ConfigMap"),
                ty: TypeRef::BuiltIn(builtin::schema("", "v1", "ConfigMap").unwrap()),
                prefix: format!("/registry/maps-{garbage_collection}/"),
                format: Format::Json,
                keeps_empty: false,
                fields: Vec::new(),
                indexed: Vec::new(),
                time_to_live: None,
                form: None,
                conversion: None,
                registry: RegistryOptions { garbage_collection, ..RegistryOptions::default() },
            };
            Arc::new(Storage::new(config, engine.clone(), &caches))
        };
        let storages = [storage(false), storage(true)];
        let (released, objects) = Default::default();
        World { engine, released, storages, objects, _caches: caches }
    }

    fn row(&self, kind: TestKind, garbage_collection: bool) -> Resource {
        let storage = self.storages[usize::from(garbage_collection)].clone();
        Resource {
            kind: storage.kind.clone(),
            list_kind: "ConfigMapList".into(),
            plural: "configmaps".into(),
            singular: "configmap".into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            verbs: Vec::new(),
            ty: storage.ty.clone(),
            strategy: Arc::new(kind),
            allocation: Some(self.released.clone()),
            columns: Arc::new(NameAndCreation),
            storage: Some(storage),
            creater: None,
            lister: None,
            subresources: Default::default(),
            conventions: Conventions::typed(false),
        }
    }

    /// Stores the object that a case begins with; returns its name.
    async fn create(&self, case: &Case) -> (String, Time) {
        let name = format!("a{}", self.objects.fetch_add(1, Ordering::Relaxed));
        let storage = &self.storages[usize::from(case.garbage_collection)];
        let json = format!(r#"{{"metadata":{{"name":"{name}","namespace":"ns","generation":5}}}}"#);
        let mut object =
            decode(json.as_bytes(), storage.ty.schema(), Unknown::Ignore).unwrap().value;
        let list: Vec<Value> = case.finalizers.iter().map(|f| Value::from(*f)).collect();
        if !list.is_empty() {
            metadata::set(&mut object, "finalizers", Some(Value::List(list.into_iter().collect())));
        }
        let now = Time::now(&kevel_clock::Clock::system());
        if let Some((granted, at)) = case.under_way {
            set_deletion(&mut object, after(now, at), granted);
        }
        storage.insert(object).await.unwrap();
        (name, now)
    }

    async fn revision(&self) -> u64 {
        use kevel_store::Engine as _;
        self.engine.current_revision().await.unwrap().0
    }

    async fn check(&self, case: &Case) {
        let fate = expected(case);
        let (name, created) = self.create(case).await;
        let row = self.row(case.kind, case.garbage_collection);
        let (stored, before) = (row.storage.as_ref().unwrap(), self.revision().await);
        let (key, released) = (format!("ns/{name}"), self.released.0.load(Ordering::Relaxed));
        let untouched = stored.fetch(&key).await.unwrap().unwrap();
        let requested = Time::now(&kevel_clock::Clock::system());
        row.remove("ns", &name, &case.options).await.unwrap();
        let answered = Time::now(&kevel_clock::Clock::system());
        let left = stored.fetch(&key).await.unwrap();
        let writes = self.revision().await - before;
        let gave_back = self.released.0.load(Ordering::Relaxed) - released;
        let fate = if case.options.is_dry_run() { Fate::Untouched } else { fate };
        match fate {
            Fate::Untouched => {
                assert_eq!((writes, gave_back), (0, 0), "{case:?}");
                assert_eq!(left, Some(untouched), "{case:?}");
            }
            Fate::Removed { seen } => {
                assert_eq!(left, None, "{case:?}");
                assert_eq!((writes, gave_back), (1 + u64::from(seen), 1), "{case:?}");
            }
            Fate::Marked { finalizers, grace, at, generation } => {
                let left = left.unwrap_or_else(|| panic!("gone: {case:?}"));
                let number = |field| left.at(&["metadata", field]).and_then(Value::as_int);
                let list = left.list_at(&["metadata", "finalizers"]).iter();
                let list: Vec<_> = list.filter_map(Value::as_str).collect();
                assert_eq!(list, finalizers, "{case:?}");
                assert_eq!(number("deletionGracePeriodSeconds"), Some(grace), "{case:?}");
                assert_eq!(number("generation"), Some(generation), "{case:?}");
                let set: Time = metadata::text(&left, "deletionTimestamp").parse().unwrap();
                let within = match at {
                    At::AfterCreation(seconds) => set == after(created, seconds),
                    At::AfterRequest(seconds) => {
                        after(requested, seconds) <= set && set <= after(answered, seconds)
                    }
                };
                assert!(within, "{set}, requested {requested}: {case:?}");
                let changed = u64::from(left != untouched);
                assert_eq!((writes, gave_back), (changed, 0), "{case:?}");
            }
        }
    }
}

const FINALIZERS: [&[&str]; 5] =
    [&[], &[OWN], &["orphan"], &[OWN, "orphan"], &[OWN, "foregroundDeletion"]];

/// No deletion yet; one under way, with and without time left, and as older servers left it.
const UNDER_WAY: [UnderWay; 6] = [
    None,
    Some((None, -5)),
    Some((Some(0), -5)),
    Some((Some(30), 30)),
    Some((Some(30), -100)),
    Some((Some(-1), 1000)),
];

fn policies() -> Vec<DeleteOptions> {
    let propagation = ["Orphan", "Foreground", "Background"].map(|policy| DeleteOptions {
        propagation: Some(policy.to_owned()),
        ..DeleteOptions::default()
    });
    let orphan = [true, false].map(|orphan| DeleteOptions {
        orphan_dependents: Some(orphan),
        ..DeleteOptions::default()
    });
    [DeleteOptions::default()].into_iter().chain(propagation).chain(orphan).collect()
}

fn kinds() -> Vec<(TestKind, bool)> {
    let kind = |graceful, dependents| TestKind { graceful, dependents };
    let mut kinds = Vec::new();
    for graceful in [false, true] {
        for dependents in [Dependents::Collected, Dependents::Orphaned, Dependents::Ignored] {
            kinds.push((kind(graceful, dependents), true));
        }
        kinds.push((kind(graceful, Dependents::Orphaned), false));
    }
    kinds
}

/// All combinations except preconditions. A dry run of each leaves the object unchanged.
#[tokio::test]
async fn deletions_equal_a_naive_model_in_every_combination() {
    let world = World::new();
    let mut fates = [0; 4];
    for (kind, garbage_collection) in kinds() {
        for under_way in UNDER_WAY {
            for finalizers in FINALIZERS {
                for policy in policies() {
                    for asked in [None, Some(0), Some(5), Some(60)] {
                        for dry_run in [Vec::new(), vec!["All".to_owned()]] {
                            let options =
                                DeleteOptions { grace_period: asked, dry_run, ..policy.clone() };
                            let case =
                                Case { kind, garbage_collection, under_way, finalizers, options };
                            world.check(&case).await;
                            fates[match expected(&case) {
                                Fate::Untouched => 0,
                                Fate::Removed { seen: false } => 1,
                                Fate::Removed { seen: true } => 2,
                                Fate::Marked { .. } => 3,
                            }] += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(fates.iter().all(|count| *count > 50), "{fates:?}");
}

/// An object that does not match the preconditions stays unchanged, whatever the other options.
#[tokio::test]
async fn failed_preconditions_leave_the_object_alone() {
    let world = World::new();
    let options = |asked: Option<i64>, dry_run: bool| DeleteOptions {
        grace_period: asked,
        dry_run: if dry_run { vec!["All".to_owned()] } else { Vec::new() },
        ..DeleteOptions::default()
    };
    for graceful in [false, true] {
        for finalizers in [&[][..], &[OWN]] {
            for (asked, dry_run) in [(None, false), (Some(0), false), (Some(0), true)] {
                for (uid, version) in [(false, true), (true, false), (false, false), (true, true)] {
                    let kind = TestKind { graceful, dependents: Dependents::Collected };
                    let options = options(asked, dry_run);
                    let case = Case {
                        kind,
                        garbage_collection: true,
                        under_way: None,
                        finalizers,
                        options,
                    };
                    let (name, _) = world.create(&case).await;
                    let row = world.row(kind, true);
                    let object = row.find("ns", &name).await.unwrap();
                    let right = |right: bool, field: &str| match right {
                        true => Some(metadata::text(&object, field).to_owned()),
                        false => Some("7".to_owned()),
                    };
                    let options = DeleteOptions {
                        uid: right(uid, "uid"),
                        resource_version: right(version, "resourceVersion"),
                        ..case.options.clone()
                    };
                    let before = world.revision().await;
                    let removed = row.remove("ns", &name, &options).await;
                    let wrote = world.revision().await > before;
                    match uid && version {
                        true => assert_eq!((removed.is_ok(), wrote), (true, !dry_run), "{case:?}"),
                        false => {
                            assert_eq!(removed.unwrap_err().reason(), reason::CONFLICT, "{case:?}");
                            assert!(!wrote, "{case:?}");
                        }
                    }
                }
            }
        }
    }
}

/// A cached state may be stale: without a write, which would detect that, it must not decide.
#[tokio::test]
async fn stale_state_decides_nothing_without_a_write() {
    let world = World::new();
    let kind = TestKind { graceful: true, dependents: Dependents::Collected };
    let case = Case {
        kind,
        garbage_collection: true,
        under_way: None,
        finalizers: &[],
        options: DeleteOptions::default(),
    };
    for fresh in [true, false] {
        for dry_run in [true, false] {
            for plan in ["already", "remove", "same", "mark", "mark and remove"] {
                let (name, _) = world.create(&case).await;
                let row = world.row(kind, true);
                let (storage, before) = (row.storage.clone().unwrap(), world.revision().await);
                let mut object = row.find("ns", &name).await.unwrap();
                metadata::set(&mut object, "resourceVersion", None);
                let mut marked = object.clone();
                set_deletion(&mut marked, Time::now(&kevel_clock::Clock::system()), Some(0));
                let (plan, writes) = match plan {
                    "already" => (DeletionPlan::AlreadyDeleting, 0),
                    "remove" => (DeletionPlan::Remove, 1),
                    "same" => (DeletionPlan::Mark(object.clone()), 0),
                    "mark" => (DeletionPlan::Mark(marked), 1),
                    _ => (DeletionPlan::MarkAndRemove(marked), 2),
                };
                let what = format!("fresh {fresh}, dry run {dry_run}: {plan:?}");
                let key = storage.key("ns", &name);
                let revision = Revision(before);
                let deletion =
                    Deletion { storage, key, revision, fresh, allocation: None, exact: false };
                let outcome = deletion.carry_out(plan, object, dry_run).await;
                let decided = fresh || (writes > 0 && !dry_run);
                match outcome {
                    Ok(_) => assert!(decided, "{what}"),
                    Err(Failed::Changed) => assert!(!decided, "{what}"),
                    Err(_) => panic!("{what}"),
                }
                let writes = if dry_run { 0 } else { writes };
                assert_eq!(world.revision().await - before, writes, "{what}");
            }
        }
    }
}

/// Removal of a marked object that another component changes before.
#[tokio::test]
async fn marked_object_is_removed_despite_changes_by_others() {
    let engine = Embedded::memory(Options::default()).unwrap();
    for (position, (change, exact, expected, is_left)) in [
        ("none", true, Ok(()), false),
        ("remove", true, Ok(()), false),
        ("update", false, Ok(()), false),
        ("update", true, Err("conflict"), true),
        ("replace", false, Ok(()), true),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("/registry/pods/a{position}").into_bytes();
        let value = || Bytes::from_static(b"{}");
        let marked = engine.create(&key, value(), None).await.unwrap();
        match change {
            "remove" => drop(engine.delete(&key, marked).await.unwrap()),
            "update" => drop(engine.update(&key, value(), marked, None).await.unwrap()),
            "replace" => {
                engine.delete(&key, marked).await.unwrap();
                engine.create(&key, value(), None).await.unwrap();
            }
            _ => {}
        }
        let removed = remove_marked(&engine, &key, marked, exact).await;
        let removed = removed.map_err(|error| match error {
            Error::Conflict(_) => "conflict",
            _ => "another error",
        });
        assert_eq!(removed, expected, "{change}, exact {exact}");
        let found = engine.get(&key, None).await.unwrap().entry;
        assert_eq!(found.is_some(), is_left, "{change}, exact {exact}");
    }
}
