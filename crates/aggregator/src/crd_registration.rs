//! APIServices for served versions of custom resources (upstream: crdRegistrationController).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_api::crd_schema;
use kevel_api::schema::{Schema, Table, TypeId};
use kevel_api::value::Value;
use kevel_codec::json::{self, Unknown};
use kevel_component::signals::Signal;
use kevel_registry::storage::Storage;
use kevel_server::discovery::priority::CUSTOM;
use kevel_store::cache::{At, CacheError, Object, Selection};

use crate::api_service::Managed;
use crate::auto_register::{AutoRegister, Desired};

/// Pause before the cache is watched again.
const RETRY: Duration = Duration::from_millis(200);

/// Schema of the fields that tell which versions are served; the rest is not parsed.
const SERVED: &str = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
    "group":{"type":"string"},"versions":{"type":"array","items":{"type":"object","properties":{
    "name":{"type":"string"},"served":{"type":"boolean"}}}}}}}}"#;

/// API group and version.
type GroupVersion = (String, String);

/// Controller that requests an APIService for each version that a CustomResourceDefinition serves.
pub(crate) struct CrdRegistration {
    definitions: Arc<Storage>,
    registration: Arc<AutoRegister>,
    served: (Table, TypeId),
    /// Built-in versions: definitions neither register nor unregister them.
    built_in: BTreeSet<GroupVersion>,
    /// The aggregator's group, which is listed without an APIService: one of another version would list it twice.
    own_group: String,
    /// Served versions by the name of the CustomResourceDefinition.
    known: Mutex<HashMap<String, BTreeSet<GroupVersion>>>,
    /// Signaled when all stored CustomResourceDefinitions are processed.
    pub initial_sync: Signal,
}

impl CrdRegistration {
    pub fn new(
        definitions: Arc<Storage>,
        registration: Arc<AutoRegister>,
        built_in: BTreeSet<GroupVersion>,
        own_group: String,
    ) -> Result<Arc<Self>, String> {
        let schema = json::decode_any(SERVED.as_bytes(), Unknown::Ignore);
        let schema = schema.map_err(|error| error.to_string())?.value;
        let served = crd_schema::table(&schema, &|_| None).map_err(|error| error.to_string())?;
        Ok(Arc::new(CrdRegistration {
            definitions,
            registration,
            served,
            built_in,
            own_group,
            known: Mutex::default(),
            initial_sync: Signal::new("InitialCRDSync"),
        }))
    }

    /// Watches the CustomResourceDefinitions until their cache is closed.
    pub async fn run(self: Arc<Self>) {
        while !matches!(self.follow().await, Err(CacheError::Closed)) {
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn follow(&self) -> Result<(), CacheError> {
        let cache = &self.definitions.cache;
        let (snapshot, mut watcher) =
            cache.list_watch(Selection::default(), At::Consistent).await?;
        let mut served: BTreeMap<String, BTreeSet<GroupVersion>> = BTreeMap::new();
        for object in snapshot.range("", None) {
            served.insert(object.name().to_owned(), self.read(object));
        }
        let known: Vec<String> = self.known().keys().cloned().collect();
        let gone = known.into_iter().filter(|name| !served.contains_key(name)).collect::<Vec<_>>();
        gone.into_iter().for_each(|name| self.look_at(name, BTreeSet::new()));
        served.into_iter().for_each(|(name, served)| self.look_at(name, served));
        self.initial_sync.signal();
        let mut seen = Vec::new();
        loop {
            watcher.next(&mut seen).await?;
            for delivery in seen.drain(..) {
                let (current, previous) = (delivery.event.current(), delivery.event.previous());
                let Some(object) = current.or(previous) else { continue };
                let served = current.map(|object| self.read(object)).unwrap_or_default();
                self.look_at(object.name().to_owned(), served);
            }
        }
    }

    /// Adds versions that are served now, and removes versions that no definition serves any more.
    fn look_at(&self, name: String, served: BTreeSet<GroupVersion>) {
        let mut known = self.known();
        let before = match served.is_empty() {
            true => known.remove(&name),
            false => known.insert(name, served.clone()),
        };
        let before = before.unwrap_or_default();
        for (group, version) in served.difference(&before).cloned() {
            let desired = Desired { group, version, priority: CUSTOM, managed: Managed::Always };
            self.registration.add(desired);
        }
        for gone in before.difference(&served) {
            if !known.values().any(|served| served.contains(gone)) {
                self.registration.remove(&format!("{}.{}", gone.1, gone.0));
            }
        }
    }

    fn read(&self, object: &Object) -> BTreeSet<GroupVersion> {
        let (table, ty) = &self.served;
        let Ok(wire) = object.wire() else { return BTreeSet::new() };
        let read = json::decode(wire, Schema::new(table, *ty), Unknown::Ignore);
        let Ok(definition) = read.map(|decoded| decoded.value) else { return BTreeSet::new() };
        let group = definition.str_at(&["spec", "group"]);
        let versions = definition.list_at(&["spec", "versions"]).iter();
        let served = versions
            .filter(|version| version.at(&["served"]).and_then(Value::as_bool).unwrap_or(false));
        let served = served.map(|version| version.str_at(&["name"]));
        let served = served.map(|version| (group.to_owned(), version.to_owned()));
        let is_other = |version: &GroupVersion| {
            version.0 != self.own_group && !self.built_in.contains(version)
        };
        served.filter(is_other).collect()
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, BTreeSet<GroupVersion>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
