//! Updates: replacing an object (upstream: `Store.Update`, `BeforeUpdate`).

use std::sync::Arc;

use bytes::Bytes;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::GroupKind;
use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_store::Revision;
use kevel_store::cache::{At, Object};

use super::create::drop_managed_fields;
use super::timestamps::ignore_managed_fields_timestamps;
use super::{Store, Written, WrittenObject};
use crate::admission::{Attributes, Operation};
use crate::allocation::{self, Claim};
use crate::context::WriteOptions;
use crate::failure::{cache_error, store_error};
use crate::guaranteed_update::{Failed, Versioned, guaranteed_update};
use crate::latency::Phase;
use crate::list_options::parse_uint;
use crate::metadata;
use crate::owner_references::Sent;
use crate::resource::SubresourceKind;
use crate::storage::shown_key;
use crate::verb::Verb;

/// Stored object: its tree in the served version, its wire bytes and revision.
#[derive(Debug)]
pub struct Existing {
    /// Tree in the served version.
    pub value: Value,
    wire: Bytes,
    pub(crate) revision: Revision,
    /// Whether this is the latest state; the cache may be older.
    pub(crate) fresh: bool,
}

impl Versioned for Existing {
    fn revision(&self) -> Revision {
        self.revision
    }
}

impl Store<'_> {
    /// Updates an object, as sent and defaulted, or creates it where the kind allows that.
    pub async fn update(
        &self,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Written, StatusError> {
        self.identify(&mut object)?;
        self.dedup_owner_references(&mut object, Sent::ByClient);
        let creates = self.subresource.is_none() && self.strategy().allow_create_on_update();
        let make = |store: &Self, existing: &Existing| {
            store.check_uid(&object, &existing.value)?;
            store.unview(object.clone(), &existing.value)
        };
        self.context.span.event("About to store object in database");
        match self.update_with(options, make).await {
            Err(error) if creates && error.reason() == reason::NOT_FOUND => {
                self.create_missing(object, options).await
            }
            result => result,
        }
    }

    /// Creates the object that is to be replaced, if the user may create it.
    async fn create_missing(
        &self,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Written, StatusError> {
        let uid = metadata::text(&object, "uid");
        if !uid.is_empty() {
            return Err(self.other_uid(uid, ""));
        }
        self.context.create_permission.ensure().await?;
        Self::check_version(&object)?;
        self.create_once(object, options).await
    }

    /// Updates an object to the result of `make`, which is called again after a conflict (upstream:
    /// `UpdatedObjectInfo`): patches, for example.
    pub async fn update_with(
        &self,
        options: &WriteOptions,
        make: impl Fn(&Self, &Existing) -> Result<Value, StatusError>,
    ) -> Result<Written, StatusError> {
        let make = &make;
        let read = |at| self.existing(at);
        let write = |existing: Option<Existing>| async move {
            let missing = || StatusError::not_found(&self.group_resource(), self.name());
            self.replace_once(&existing.ok_or_else(missing)?, options, make).await
        };
        let span = self.storage_span("GuaranteedUpdate etcd3", self.name());
        let updated = guaranteed_update(At::Any, read, write, || self.modified(self.name()));
        span.scope(updated).await
    }

    /// Applies a configuration: `make` merges it into the object, or makes a new one where there is none. An error of the
    /// configuration is told after the object has been read: NotFound comes first.
    pub async fn apply<C>(
        &self,
        configuration: &Result<C, StatusError>,
        options: &WriteOptions,
        make: impl Fn(&Self, Option<&Existing>, &C) -> Result<Value, StatusError>,
    ) -> Result<Written, StatusError> {
        let make = &make;
        let read = |at| self.existing(at);
        let write = |existing: Option<Existing>| async move {
            if existing.is_none() && self.subresource.is_some() {
                return Err(StatusError::not_found(&self.group_resource(), self.name()).into());
            }
            let configuration = configuration.as_ref().map_err(StatusError::clone)?;
            let Some(existing) = existing else {
                self.context.create_permission.ensure().await?;
                return self.create_applied(make(self, None, configuration)?, options).await;
            };
            let merge = || drop(make(self, Some(&existing), configuration));
            self.convert_versions(merge).await?;
            let make = |_: &Self, existing: &Existing| make(self, Some(existing), configuration);
            self.replace_once(&existing, options, make).await
        };
        let span = self.storage_span("GuaranteedUpdate etcd3", self.name());
        let updated = guaranteed_update(At::Any, read, write, || self.modified(self.name()));
        span.scope(updated).await
    }

    async fn create_applied(
        &self,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Written, Failed> {
        Self::check_version(&object)?;
        match self.create_once(object, options).await {
            Err(error) if error.reason() == reason::ALREADY_EXISTS => Err(Failed::Changed),
            result => Ok(result?),
        }
    }

    /// A resourceVersion in the request must be a number.
    pub(crate) fn check_version(object: &Value) -> Result<u64, StatusError> {
        match metadata::text(object, "resourceVersion") {
            "" => Ok(0),
            text => parse_uint(text).map_err(|error| StatusError::unknown(500, error)),
        }
    }

    /// The error of a write with too many conflicts.
    pub(crate) fn modified(&self, name: &str) -> StatusError {
        StatusError::modified(&self.group_resource(), name)
    }

    pub(crate) async fn existing(&self, at: At) -> Result<Option<Existing>, StatusError> {
        self.existing_named(self.name(), at).await
    }

    pub(crate) async fn existing_named(
        &self,
        name: &str,
        at: At,
    ) -> Result<Option<Existing>, StatusError> {
        let key = self.local_key(name)?;
        let found = self.storage.cache.get(&key, at).await.map_err(cache_error)?;
        match found {
            Some(object) => {
                let existing = self.read_object(&object).await?;
                Ok(Some(Existing { fresh: at == At::Consistent, ..existing }))
            }
            None => Ok(None),
        }
    }

    pub(crate) async fn read_object(&self, object: &Arc<Object>) -> Result<Existing, StatusError> {
        let wire = object.wire().map_err(|_| self.unreadable(object))?;
        let value = self.served(wire).await?;
        Ok(Existing { value, wire: wire.clone(), revision: object.revision(), fresh: false })
    }

    pub(crate) async fn replace_once(
        &self,
        existing: &Existing,
        options: &WriteOptions,
        make: impl Fn(&Self, &Existing) -> Result<Value, StatusError>,
    ) -> Result<Written, Failed> {
        // Only a write finds out that what was read is old.
        if options.dry_run && !existing.fresh {
            return Err(Failed::Changed);
        }
        kevel_trace::event("initial value restored");
        let patches = self.context.verb == Verb::Patch;
        if patches {
            self.context.span.event("About to apply patch");
        }
        let mut object = make(self, existing)?;
        let old = &existing.value;
        self.check_preconditions(&object, old)?;
        if options.tracked {
            let record = || self.record(Some(old), &mut object.clone(), options);
            self.convert_versions(record).await?;
            self.record(Some(old), &mut object, options);
        }
        let attributes = self.attributes(Operation::Update, options.dry_run);
        let attributes = Attributes { old: Some(old), ..attributes };
        if patches {
            self.context.span.event("About to check admission control");
        }
        self.admit(&attributes, &mut object).await?;
        self.dedup_owner_references(&mut object, Sent::AfterAdmission);
        // After the plug-ins: they may change no more than their client.
        self.carry_over(&mut object, old);
        let mut claim = Claim::default();
        let allocation = self.resource.allocation.as_ref().filter(|_| self.subresource.is_none());
        if let Some(allocation) = allocation.cloned() {
            let begin = allocation.begin_update(object, old.clone(), options.dry_run);
            (object, claim) = Claim::begin(begin).await?;
        }
        let result =
            self.replace_admitted(existing, object, &attributes, options, &mut claim).await;
        claim.give_back().await;
        result.map(|object| Written { created: false, object })
    }

    async fn replace_admitted(
        &self,
        existing: &Existing,
        mut object: Value,
        attributes: &Attributes<'_>,
        options: &WriteOptions,
        claim: &mut Claim,
    ) -> Result<WrittenObject, Failed> {
        let (strategy, old) = (self.strategy(), &existing.value);
        let status = matches!(self.subresource.map(|sub| &sub.role), Some(SubresourceKind::Status));
        match status {
            true => strategy.prepare_for_status_update(&mut object, old),
            false => strategy.prepare_for_update(&mut object, old),
        }
        self.count_generation(&mut object, old);
        let mut errors = self.admission.check_update(attributes, &object).await?;
        errors.append(match status {
            true => strategy.validate_status_update(&object, old),
            false => strategy.validate_update(&object, old),
        });
        let errors = self.resource.validate_update(&object, old, errors);
        if !errors.is_empty() {
            let kind = self.said_group_kind(&object);
            return Err(StatusError::invalid(&kind, self.name(), errors).into());
        }
        let warnings = match status {
            true => strategy.status_warnings(&object),
            false => strategy.warnings(&object, Some(old)),
        };
        warnings.into_iter().for_each(|warning| self.context.warnings.add(warning));
        // A write that names no version is one of the version that is there.
        let version = old.at(&["metadata", "resourceVersion"]).cloned();
        metadata::set(&mut object, "resourceVersion", version.clone());
        ignore_managed_fields_timestamps(&mut object, old, &self.resource.ty);
        self.validate(attributes, &object).await?;
        let stored_work = self.admission.update_stored(attributes, &object);
        let link = object.at(&["metadata", "selfLink"]).cloned();
        let mut stored = self.to_storage(object).await?;
        if options.dry_run {
            // What is not stored is dropped by the store, which a dry run does not reach.
            metadata::set(&mut stored, "selfLink", link);
            return Ok(self.as_seen(stored, version).await?);
        }
        let response = self.store_changed(existing, stored, options, claim).await?;
        stored_work.into_iter().for_each(|work| work());
        Ok(response)
    }

    /// Writes an object over the one that was read; nothing where nothing changed.
    async fn store_changed(
        &self,
        existing: &Existing,
        mut stored: Value,
        options: &WriteOptions,
        claim: &mut Claim,
    ) -> Result<WrittenObject, Failed> {
        let key = self.write_key(&stored)?;
        kevel_trace::event("About to Encode");
        let bytes = self.storage.encode(&stored);
        let len = bytes.len();
        kevel_trace::event_with("Encode succeeded", || vec![kevel_trace::number("len", len)]);
        let wire = self.storage.wire(&bytes, existing.revision).map_err(StatusError::internal)?;
        // An object whose last finalizer is gone while it is being deleted goes with it.
        let released = !metadata::text(&stored, "deletionTimestamp").is_empty()
            && stored.at(&["metadata", "finalizers"]).is_none_or(Value::is_empty)
            && stored.at(&["metadata", "deletionGracePeriodSeconds"]).is_none_or(Value::is_empty)
            && !self.resource.strategy.held(&stored);
        let in_hand = self.context.takes_trees.then(|| stored.clone());
        let (storage, expected) = (self.storage.clone(), existing.revision);
        let revision = if released {
            let allocation = self.resource.allocation.clone();
            let deleted = async move { storage.engine.delete(&key, expected).await };
            let deleted = allocation::delete(allocation, stored, deleted);
            claim.write(deleted).await?
        } else if wire.bytes == existing.wire && !self.is_stale(&key).await? {
            if !existing.fresh && !self.is_current(existing).await? {
                return Err(Failed::Changed);
            }
            existing.revision
        } else {
            let updated = claim.write(async move {
                storage.engine.update(&key, bytes, expected, storage.time_to_live).await
            });
            match self.context.track(Phase::Storage, updated).await {
                Err(kevel_store::Error::TooLarge(_))
                    if drop_managed_fields(&mut stored, options) =>
                {
                    let again = self.store_changed(existing, stored, options, claim);
                    return Box::pin(again).await;
                }
                updated => updated?,
            }
        };
        kevel_trace::event("Txn call completed");
        kevel_trace::event("Transaction committed");
        kevel_trace::event("decode succeeded");
        if let Some(stored) = in_hand {
            let version = Value::from(revision.to_string().as_str());
            return Ok(self.as_seen(stored, Some(version)).await?);
        }
        Ok(WrittenObject::Wire(wire.restamped(revision).bytes))
    }

    /// Whether the stored form must be rewritten although the object does not change.
    async fn is_stale(&self, key: &[u8]) -> Result<bool, StatusError> {
        self.storage.is_stale(key).await.map_err(store_error)
    }

    /// Whether the cached object is the stored one.
    async fn is_current(&self, existing: &Existing) -> Result<bool, StatusError> {
        let key = self.local_key(self.name())?;
        let found = self.storage.cache.get(&key, At::Consistent).await.map_err(cache_error)?;
        Ok(found.is_some_and(|object| object.revision() == existing.revision))
    }

    pub(crate) fn wire(&self, stored: &Bytes, revision: Revision) -> Result<Bytes, StatusError> {
        let wire = self.storage.wire(stored, revision).map_err(StatusError::internal)?;
        Ok(wire.bytes)
    }

    /// A UID in the request must be that of the object.
    fn check_uid(&self, object: &Value, old: &Value) -> Result<(), StatusError> {
        let (asked, there) = (metadata::text(object, "uid"), metadata::text(old, "uid"));
        match asked.is_empty() || asked == there {
            true => Ok(()),
            false => Err(self.other_uid(asked, there)),
        }
    }

    /// A resourceVersion in the request must be that of the object.
    fn check_preconditions(&self, object: &Value, old: &Value) -> Result<(), Failed> {
        let asked = Self::check_version(object)?;
        if asked == 0 {
            if self.strategy().allow_unconditional_update() {
                return Ok(());
            }
            let root = Path::new("metadata");
            let path = root.child("resourceVersion");
            let error = FieldError::invalid(&path, 0, "must be specified for an update");
            let resource = self.group_resource();
            let kind = GroupKind::new(resource.group, resource.resource);
            return Err(StatusError::invalid(&kind, self.name(), error).into());
        }
        if asked.to_string() != metadata::text(old, "resourceVersion") {
            return Err(StatusError::modified(&self.group_resource(), self.name()).into());
        }
        Ok(())
    }

    /// The error of a UID that is not the object's.
    fn other_uid(&self, asked: &str, there: &str) -> StatusError {
        let message = format!(
            "Precondition failed: UID in precondition: {asked}, UID in object meta: {there}"
        );
        let key = shown_key(&self.storage.key(self.namespace(), self.name()));
        let error = kevel_api::status::StorageError::invalid_object(key, message);
        error.to_status("update", &self.group_resource(), self.name())
    }

    /// Keeps fields that this write may not change: system fields, and parts of the object with a subresource of their
    /// own.
    fn carry_over(&self, object: &mut Value, old: &Value) {
        if metadata::text(object, "uid").is_empty() {
            metadata::set(object, "uid", old.at(&["metadata", "uid"]).cloned());
        }
        let created = old.at(&["metadata", "creationTimestamp"]).cloned();
        metadata::set(object, "creationTimestamp", created);
        if let Some(time) = old.at(&["metadata", "deletionTimestamp"]) {
            metadata::set(object, "deletionTimestamp", Some(time.clone()));
        }
        let period = ["metadata", "deletionGracePeriodSeconds"];
        if let (None, Some(period)) = (object.at(&period), old.at(&period)) {
            metadata::set(object, "deletionGracePeriodSeconds", Some(period.clone()));
        }
        match self.subresource.map(|sub| &sub.role) {
            None => self.resource.reset_fields().for_each(|field| copy(old, object, &[field])),
            Some(SubresourceKind::Status) => {
                let all = old.as_map().into_iter().chain(object.as_map());
                let others: Vec<String> = all
                    .flat_map(|map| map.iter().map(|(field, _)| field.to_owned()))
                    .filter(|field| field != "status" && field != "metadata")
                    .collect();
                others.iter().for_each(|field| copy(old, object, &[field]));
                let kept = self.resource.strategy.kept_by_status();
                kept.iter().for_each(|field| copy(old, object, &["metadata", field]));
            }
            Some(SubresourceKind::Fields(fields)) => {
                keep_all_but(fields.paths, fields.metadata, object, old);
            }
            Some(_) => {}
        }
        let generation = old.at(&["metadata", "generation"]).cloned();
        metadata::set(object, "generation", generation);
    }

    /// Increments the generation if anything but metadata and status changes.
    fn count_generation(&self, object: &mut Value, old: &Value) {
        if !self.resource.strategy.counts_generation() {
            return;
        }
        // Without a path of its own, the status is a field as any other.
        let status = !self.resource.has_status();
        let schema = self.resource.ty.schema();
        let exact = self.resource.strategy.counts_empty_lists();
        let same_field = |name: &str| match (object.at(&[name]), old.at(&[name])) {
            (new, old) if !exact => {
                schema.field(name).is_none_or(|field| field.schema().equal(new, old))
            }
            (Some(new), Some(old)) => {
                schema.field(name).is_none_or(|field| field.schema().deep_equal(new, old))
            }
            (new, old) => new.or(old).is_none_or(|one| schema.is_nothing(name, one)),
        };
        let same = match self.resource.ty.is_unstructured() {
            true => wanted(object, status).eq(wanted(old, status)),
            false => {
                wanted(object, status).chain(wanted(old, status)).all(|(name, _)| same_field(name))
            }
        };
        if same {
            return;
        }
        metadata::count_generation(object, old);
    }
}

/// Fields of an object except metadata and status.
fn wanted(object: &Value, status: bool) -> impl Iterator<Item = (&str, &Value)> {
    let fields = object.as_map().into_iter().flat_map(Map::iter);
    fields.filter(move |(name, _)| *name != "metadata" && (status || *name != "status"))
}

/// Keeps everything of an object but the fields that may be written.
fn keep_all_but(paths: &[&[&str]], metadata: bool, object: &mut Value, old: &Value) {
    let mut kept = old.clone();
    paths.iter().for_each(|path| copy(object, &mut kept, path));
    // Who owns what, and which version is replaced, is written whichever the fields are.
    let written: &[&[&str]] = match metadata {
        true => &[&["metadata"]],
        false => &[
            &["metadata", "managedFields"],
            &["metadata", "resourceVersion"],
            &["metadata", "uid"],
        ],
    };
    written.iter().for_each(|path| copy(object, &mut kept, path));
    *object = kept;
}

/// Copies the value at a path, or nothing if there is none: a missing struct on the way counts as an empty one. Lists
/// that do not correspond are copied whole, for validation.
fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    let [name, rest @ ..] = path else {
        *to = from.clone();
        return;
    };
    if *name == "*" {
        return copy_items(from.as_list().unwrap_or_default(), to, rest);
    }
    let Some(map) = to.as_map_mut() else { return };
    match (from.as_map().and_then(|map| map.get(name)), rest) {
        (Some(value), []) => {
            map.insert(*name, value.clone());
        }
        (None, []) => {
            map.remove(name);
        }
        (value, [next, ..]) => {
            let nothing = || match *next {
                "*" => Value::List(Default::default()),
                _ => Map::new().into(),
            };
            let field = map.entry_or_insert_with(name, nothing);
            copy(value.unwrap_or(&nothing()), field, rest);
        }
    }
}

fn copy_items(items: &[Value], to: &mut Value, rest: &[&str]) {
    let Some(kept) = to.as_list_mut() else { return };
    let name = |item: &Value| item.str_at(&["name"]).to_owned();
    if !items.iter().map(name).eq(kept.iter().map(name)) {
        *kept = items.iter().cloned().collect();
        return;
    }
    items.iter().zip(kept.iter_mut()).for_each(|(item, kept)| copy(item, kept, rest));
}
