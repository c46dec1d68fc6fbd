use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use kevel_api::default;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_store::Revision;
use kevel_store::cache::{At, Object};

use super::meta;
use super::options::WriteOptions;
use super::{Call, cache_error, store_error, unserved};
use crate::admission::{Attributes, Operation};
use crate::handler::Response;
use crate::resource::Part;
use crate::storage::local_key;
use crate::strategy::reset_fields;

/// How many other writers may come first before an update gives up.
const MAX_CONFLICTS: usize = 50;

/// What is there now: its tree in the served version, its stored bytes and revision.
pub(super) struct Existing {
    pub value: Value,
    pub revision: Revision,
}

impl Call<'_> {
    pub(super) async fn update(mut self) -> Result<Response, StatusError> {
        let options = self.write_options("UpdateOptions")?;
        if self.subresource.is_some_and(|sub| !matches!(sub.part, Part::Field(_))) {
            return Err(unserved());
        }
        let kind = self.resource.kind.clone();
        let ty = self.resource.ty.clone();
        let mut object = self.decode_body(&kind, &ty, options.field_validation).await?;
        self.fill_in_namespace(&mut object)?;
        let name = meta::text(&object, "name");
        if name.is_empty() {
            meta::set(&mut object, "name", Some(self.name().into()));
        } else if name != self.name() {
            let message = format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.name()
            );
            return Err(StatusError::bad_request(message));
        }
        default::apply(&mut object, ty.schema());
        self.replace(&options, |_, _| Ok(object.clone())).await
    }

    /// Replaces an object by what `make` makes of it, again when somebody else came first.
    pub(super) async fn replace(
        &self,
        options: &WriteOptions,
        make: impl Fn(&Self, &Existing) -> Result<Value, StatusError>,
    ) -> Result<Response, StatusError> {
        let mut found = self.existing(At::Any).await?;
        let mut fresh = false;
        for _ in 0..MAX_CONFLICTS {
            let Some(existing) = &found else {
                if !fresh {
                    fresh = true;
                    found = self.existing(At::Consistent).await?;
                    continue;
                }
                return Err(StatusError::not_found(&self.group_resource(), self.name()));
            };
            match self.replace_once(existing, options, &make).await {
                Ok(response) => return Ok(response),
                // What was read may be old: neither a conflict nor an error is believed before it
                // has been seen on what is there now.
                Err(Failed::Changed) => {}
                Err(Failed::Refused(error)) if fresh => return Err(error),
                Err(Failed::Refused(_)) => {}
            }
            fresh = true;
            found = self.existing(At::Consistent).await?;
        }
        Err(StatusError::modified(&self.group_resource(), self.name()))
    }

    pub(super) async fn existing(&self, at: At) -> Result<Option<Existing>, StatusError> {
        let key = local_key(self.namespace(), self.name());
        let found = self.storage.cache.get(&key, at).await.map_err(cache_error)?;
        found.map(|object| self.read_object(&object)).transpose()
    }

    pub(super) fn read_object(&self, object: &Arc<Object>) -> Result<Existing, StatusError> {
        let wire = object.wire().map_err(StatusError::internal)?;
        Ok(Existing { value: self.served(wire)?, revision: object.revision() })
    }

    pub(super) async fn replace_once(
        &self,
        existing: &Existing,
        options: &WriteOptions,
        make: impl Fn(&Self, &Existing) -> Result<Value, StatusError>,
    ) -> Result<Response, Failed> {
        let mut object = make(self, existing)?;
        let old = &existing.value;
        self.check_preconditions(&object, old)?;
        self.carry_over(&mut object, old);
        if options.tracked {
            self.record(Some(old), &mut object, options);
        }
        let attributes = Attributes {
            resource: self.resource,
            subresource: &self.request.info.subresource,
            operation: Operation::Update,
            namespace: self.namespace(),
            name: self.name(),
            user: &self.user,
            dry_run: options.dry_run,
            warnings: &self.request.warnings,
            old: Some(old),
        };
        let admission = &self.endpoints.admission;
        admission.admit(&attributes, Some(&mut object)).await?;
        let strategy = &self.resource.strategy;
        strategy.prepare_update(&mut object, old);
        self.count_generation(&mut object, old);
        let mut errors: Vec<FieldError> = meta::check(self.resource, &object);
        errors.extend(meta::check_update(&object, old));
        errors.extend(strategy.check_update(&object, old));
        if !errors.is_empty() {
            return Err(
                StatusError::invalid(&self.resource.group_kind(), self.name(), &errors).into()
            );
        }
        strategy.warnings(&object).into_iter().for_each(|w| self.request.warnings.add(w));
        admission.validate(&attributes, Some(&object)).await?;
        let code = StatusCode::OK;
        let stored = self.to_storage(object)?;
        if options.dry_run {
            return Ok(self.written(code, stored)?);
        }
        self.store_changed(existing, stored).await
    }

    /// Writes an object over the one that was read; nothing where nothing changed.
    async fn store_changed(&self, existing: &Existing, stored: Value) -> Result<Response, Failed> {
        let bytes = self.storage.encode(&stored);
        let before = self.storage.encode(&self.to_storage(existing.value.clone())?);
        let key = self.storage.key(self.namespace(), self.name());
        // An object whose last finalizer is gone while it is being deleted goes with it.
        let released = !meta::text(&stored, "deletionTimestamp").is_empty()
            && stored.at(&["metadata", "finalizers"]).is_none_or(Value::is_empty)
            && stored.at(&["metadata", "deletionGracePeriodSeconds"]).is_none_or(Value::is_empty)
            && !self.resource.strategy.held(&stored);
        let revision = if released {
            self.storage.engine.delete(&key, existing.revision).await.map_err(changed)?
        } else if bytes == before {
            existing.revision
        } else {
            let ttl = self.storage.time_to_live;
            let updated = self.storage.engine.update(&key, bytes.clone(), existing.revision, ttl);
            updated.await.map_err(changed)?
        };
        let wire = self.wire(&bytes, revision)?;
        Ok(self.object(StatusCode::OK, &wire)?)
    }

    pub(super) fn wire(&self, stored: &Bytes, revision: Revision) -> Result<Bytes, StatusError> {
        let wire = self.storage.wire(stored, revision).map_err(StatusError::internal)?;
        Ok(wire.bytes)
    }

    /// What a write says about the object it means to replace must be true.
    fn check_preconditions(&self, object: &Value, old: &Value) -> Result<(), Failed> {
        let (asked, there) = (meta::text(object, "uid"), meta::text(old, "uid"));
        if !asked.is_empty() && asked != there {
            let message = format!(
                "Precondition failed: UID in precondition: {asked}, UID in object meta: {there}"
            );
            let key = String::from_utf8_lossy(&self.storage.key(self.namespace(), self.name()))
                .into_owned();
            let error = kevel_api::status::StorageError::invalid_object(key, message);
            return Err(error.to_status("update", &self.group_resource(), self.name()).into());
        }
        let asked = meta::text(object, "resourceVersion");
        if asked.is_empty() || asked == "0" {
            if self.resource.strategy.unconditional_update() {
                return Ok(());
            }
            let root = Path::new("metadata");
            let path = root.child("resourceVersion");
            let error = FieldError::invalid(&path, asked, "must be specified for an update");
            let kind = self.resource.group_kind();
            return Err(StatusError::invalid(&kind, self.name(), &[error]).into());
        }
        if asked != meta::text(old, "resourceVersion") {
            return Err(StatusError::modified(&self.group_resource(), self.name()).into());
        }
        Ok(())
    }

    /// Keeps what this write may not change: what the server wrote, and the parts of the object
    /// that have a path of their own.
    fn carry_over(&self, object: &mut Value, old: &Value) {
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ] {
            let kept = old.at(&["metadata", field]).cloned();
            meta::set(object, field, kept);
        }
        let keep = |object: &mut Value, field: &str| {
            let Some(map) = object.as_map_mut() else { return };
            match old.as_map().and_then(|old| old.get(field)) {
                Some(value) => {
                    map.insert(field, value.clone());
                }
                None => {
                    map.remove(field);
                }
            }
        };
        match self.subresource.map(|sub| &sub.part) {
            None => reset_fields(self.resource).for_each(|field| keep(object, field)),
            Some(Part::Field(written)) => {
                let fields: Vec<String> = old
                    .as_map()
                    .into_iter()
                    .chain(object.as_map())
                    .flat_map(|map| map.iter().map(|(key, _)| key.to_owned()))
                    .filter(|field| field != *written && field != "metadata")
                    .collect();
                fields.iter().for_each(|field| keep(object, field));
            }
            Some(_) => {}
        }
        let generation = old.at(&["metadata", "generation"]).cloned();
        meta::set(object, "generation", generation);
    }

    /// A change of what is wanted, which is all but metadata and status, makes a new generation.
    fn count_generation(&self, object: &mut Value, old: &Value) {
        if !self.resource.strategy.counts_generation() || self.subresource.is_some() {
            return;
        }
        let wanted = |value: &'_ Value| -> Vec<(String, Value)> {
            let fields = value.as_map().into_iter().flat_map(|map| map.iter());
            let fields = fields.filter(|(name, _)| !matches!(*name, "metadata" | "status"));
            fields.map(|(name, value)| (name.to_owned(), value.clone())).collect()
        };
        if wanted(object) == wanted(old) {
            return;
        }
        let generation = old.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
        meta::set(object, "generation", Some(Value::Int(generation + 1)));
    }
}

/// Why a replacement did not come about.
pub(super) enum Failed {
    /// Somebody else came first.
    Changed,
    Refused(StatusError),
}

impl From<StatusError> for Failed {
    fn from(error: StatusError) -> Self {
        Failed::Refused(error)
    }
}

fn changed(error: kevel_store::Error) -> Failed {
    match error {
        kevel_store::Error::Conflict(_) | kevel_store::Error::NotFound => Failed::Changed,
        error => Failed::Refused(store_error(error)),
    }
}
