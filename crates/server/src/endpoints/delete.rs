//! Deletion: at once, or when finalizers and grace periods let go.

use bytes::Bytes;
use http::StatusCode;
use kevel_api::builtin;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::{GroupKind, GroupVersionKind};
use kevel_api::status::{SUCCESS, Status, StatusDetails, StatusError};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_store::cache::At;

use super::meta;
use super::options::FieldValidation;
use super::respond::status_response;
use super::update::{Existing, Failed};
use super::{Call, cache_error, store_error, unserved};
use crate::admission::{Attributes, Operation};
use crate::handler::Response;
use crate::negotiate::{self, MediaType};
use crate::resource::TypeRef;

/// How often a deletion is tried when others write at the same time.
const MAX_CONFLICTS: usize = 50;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// How to delete.
#[derive(Debug, Default)]
struct DeleteOptions {
    grace_period: Option<i64>,
    uid: Option<String>,
    resource_version: Option<String>,
    propagation: Option<String>,
    dry_run: bool,
}

/// What became of a deletion.
enum Deleted {
    /// It is gone; this was its last state.
    Gone(Value),
    /// It goes when its finalizers do.
    Pending(Bytes),
}

impl Call<'_> {
    pub(super) async fn delete(mut self) -> Result<Response, StatusError> {
        if self.subresource.is_some() {
            return Err(unserved());
        }
        let options = self.delete_options().await?;
        let mut fresh = false;
        for _ in 0..MAX_CONFLICTS {
            let at = if fresh { At::Consistent } else { At::Any };
            match self.existing(at).await? {
                None if fresh => {
                    return Err(StatusError::not_found(&self.group_resource(), self.name()));
                }
                None => {}
                Some(existing) => match self.delete_once(self.name(), &existing, &options).await {
                    Ok(deleted) => return self.delete_response(deleted),
                    Err(Failed::Refused(error)) if fresh => return Err(error),
                    Err(_) => {}
                },
            }
            fresh = true;
        }
        Err(StatusError::modified(&self.group_resource(), self.name()))
    }

    pub(super) async fn delete_collection(mut self) -> Result<Response, StatusError> {
        let options = self.delete_options().await?;
        let selection = self.selection()?;
        let snapshot = self.storage.cache.snapshot(At::Consistent).await.map_err(cache_error)?;
        let mut items = thin_vec::ThinVec::new();
        for object in snapshot.range(&selection.prefix, None).filter(|o| selection.matches(o)) {
            let existing = self.read_object(object)?;
            let shown = existing.value.clone();
            match self.delete_once(object.name(), &existing, &options).await {
                Ok(_) | Err(Failed::Changed) => items.push(shown),
                Err(Failed::Refused(error)) => return Err(error),
            }
        }
        let revision = snapshot.revision().to_string();
        let metadata = Map::from_iter([("resourceVersion", Value::from(revision.as_str()))]);
        self.list_of(items, metadata)
    }

    async fn delete_once(
        &self,
        name: &str,
        existing: &Existing,
        options: &DeleteOptions,
    ) -> Result<Deleted, Failed> {
        let old = &existing.value;
        self.check_delete_preconditions(name, old, options)?;
        let namespace = meta::text(old, "namespace");
        let attributes = Attributes {
            resource: self.resource,
            subresource: "",
            operation: Operation::Delete,
            namespace,
            name,
            user: &self.user,
            dry_run: options.dry_run,
            warnings: &self.request.warnings,
            old: Some(old),
        };
        let admission = &self.endpoints.admission;
        admission.admit(&attributes, None).await?;
        admission.validate(&attributes, None).await?;
        let mut object = old.clone();
        add_finalizers(&mut object, options);
        let held = object.at(&["metadata", "finalizers"]).is_some_and(|f| !f.is_empty())
            || self.resource.strategy.held(&object);
        let grace = self.resource.strategy.grace_period(old, options.grace_period);
        let waits = held || grace.is_some_and(|seconds| seconds > 0);
        let key = self.storage.key(namespace, name);
        if !waits {
            if !options.dry_run {
                let deleted = self.storage.engine.delete(&key, existing.revision).await;
                deleted.map_err(changed)?;
            }
            return Ok(Deleted::Gone(object));
        }
        let already = !meta::text(old, "deletionTimestamp").is_empty();
        if !already {
            let mut at = Time::now();
            at.seconds += grace.unwrap_or(0).max(0);
            meta::set(&mut object, "deletionTimestamp", Some(at.to_string().as_str().into()));
            self.resource.strategy.begin_delete(&mut object);
        }
        if !self.resource.strategy.held(&object) {
            let seconds = Value::Int(grace.unwrap_or(0));
            meta::set(&mut object, "deletionGracePeriodSeconds", Some(seconds));
        }
        if !already && object.at(&["metadata", "generation"]).is_some() {
            let generation = object.at(&["metadata", "generation"]).and_then(Value::as_int);
            meta::set(&mut object, "generation", Some(Value::Int(generation.unwrap_or(0) + 1)));
        }
        let bytes = self.storage.encode(&self.to_storage(object)?);
        let before = self.storage.encode(&self.to_storage(old.clone())?);
        let revision = if bytes == before || options.dry_run {
            existing.revision
        } else {
            let updated = self.storage.engine.update(&key, bytes.clone(), existing.revision, None);
            updated.await.map_err(changed)?
        };
        Ok(Deleted::Pending(self.wire(&bytes, revision)?))
    }

    /// An object that is gone is told about by a `Status`; one that is still there is shown.
    fn delete_response(&self, deleted: Deleted) -> Result<Response, StatusError> {
        let object = match deleted {
            Deleted::Pending(wire) => return self.object(StatusCode::OK, &wire),
            Deleted::Gone(object) => object,
        };
        if self.resource.strategy.returns_deleted() {
            return self.value(StatusCode::OK, object);
        }
        let status = Status {
            status: SUCCESS.into(),
            details: Some(Box::new(StatusDetails {
                name: self.name().to_owned().into(),
                group: self.resource.kind.group.to_string().into(),
                kind: self.resource.plural.clone().into(),
                uid: meta::text(&object, "uid").to_owned().into(),
                ..StatusDetails::default()
            })),
            ..Status::default()
        };
        Ok(status_response(StatusCode::OK, &status, &self.accepted))
    }

    fn check_delete_preconditions(
        &self,
        name: &str,
        old: &Value,
        options: &DeleteOptions,
    ) -> Result<(), Failed> {
        let kind = kevel_api::gvk::GroupResource::new("", self.resource.kind.kind.clone());
        let conflict = |message: String| Failed::from(StatusError::conflict(&kind, name, message));
        let uid = meta::text(old, "uid");
        if let Some(asked) = options.uid.as_deref().filter(|asked| *asked != uid) {
            return Err(conflict(format!(
                "the UID in the precondition ({asked}) does not match the UID in record ({uid}). \
                 The object might have been deleted and then recreated"
            )));
        }
        let version = meta::text(old, "resourceVersion");
        let asked = options.resource_version.as_deref();
        if let Some(asked) = asked.filter(|asked| *asked != version) {
            return Err(conflict(format!(
                "the ResourceVersion in the precondition ({asked}) does not match the \
                 ResourceVersion in record ({version}). The object might have been modified"
            )));
        }
        Ok(())
    }

    /// The options of a deletion: a body, or else the query.
    async fn delete_options(&mut self) -> Result<DeleteOptions, StatusError> {
        let media = self.request.header(http::header::CONTENT_TYPE).to_owned();
        let body = self.request.read_body().await?;
        let mut options = if body.is_empty() {
            DeleteOptions {
                grace_period: self.number("gracePeriodSeconds")?,
                propagation: self.parameter("propagationPolicy").map(str::to_owned),
                ..DeleteOptions::default()
            }
        } else {
            self.read_delete_options(&body, &media)?
        };
        let write = self.write_options("DeleteOptions")?;
        options.dry_run |= write.dry_run;
        let known = ["Foreground", "Background", "Orphan"];
        if let Some(other) = options.propagation.as_deref().filter(|p| !known.contains(p)) {
            let path = Path::new("propagationPolicy");
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            let error = FieldError::not_supported(&path, other, supported);
            let kind = GroupKind::new("meta.k8s.io", "DeleteOptions");
            return Err(StatusError::invalid(&kind, "", &[error]));
        }
        Ok(options)
    }

    fn read_delete_options(&self, body: &Bytes, media: &str) -> Result<DeleteOptions, StatusError> {
        let media = if media.is_empty() { MediaType::Json } else { negotiate::body(media)? };
        let schema = builtin::schema("meta.k8s.io", "v1", "DeleteOptions").ok_or_else(unserved)?;
        // Every group has the kind; the body may name it by any of them, or by none.
        let kind = GroupVersionKind::new("", "", "");
        let ty = TypeRef::BuiltIn(schema);
        let value = match media {
            MediaType::Protobuf => {
                let envelope = kevel_codec::protobuf::decode_object(body)
                    .map_err(|error| StatusError::bad_request(error.to_string()))?;
                let decoded = envelope.decode(schema);
                decoded.map_err(|error| StatusError::bad_request(error.to_string()))?
            }
            MediaType::Json => {
                let decoded =
                    kevel_codec::json::decode(body, schema, kevel_codec::json::Unknown::Ignore);
                decoded.map_err(|error| StatusError::bad_request(error.to_string()))?.value
            }
            MediaType::Yaml => self.decode(body, media, &kind, &ty, FieldValidation::Ignore)?,
        };
        let text = |path: &[&str]| value.at(path).and_then(Value::as_str).map(str::to_owned);
        let orphan = value.at(&["orphanDependents"]).and_then(Value::as_bool);
        let old_form = orphan.map(|orphan| if orphan { "Orphan" } else { "Background" }.to_owned());
        Ok(DeleteOptions {
            grace_period: value.at(&["gracePeriodSeconds"]).and_then(Value::as_int),
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
            propagation: text(&["propagationPolicy"]).or(old_form),
            dry_run: value.at(&["dryRun"]).is_some_and(|list| !list.is_empty()),
        })
    }
}

/// The finalizers by which the garbage collector is told what to do with dependents.
fn add_finalizers(object: &mut Value, options: &DeleteOptions) {
    let wanted = match options.propagation.as_deref() {
        Some("Foreground") => Some(FOREGROUND),
        Some("Orphan") => Some(ORPHAN),
        Some(_) => None,
        None => return,
    };
    let Some(metadata) = meta::metadata_mut(object) else { return };
    let list = metadata.entry_or_insert_with("finalizers", || Value::List(Default::default()));
    let Some(list) = list.as_list_mut() else { return };
    list.retain(|f| {
        let name = f.as_str().unwrap_or_default();
        !matches!(name, FOREGROUND | ORPHAN) || Some(name) == wanted
    });
    if let Some(wanted) = wanted.filter(|w| !list.iter().any(|f| f.as_str() == Some(w))) {
        list.push(wanted.into());
    }
}
fn changed(error: kevel_store::Error) -> Failed {
    match error {
        kevel_store::Error::Conflict(_) | kevel_store::Error::NotFound => Failed::Changed,
        error => Failed::Refused(store_error(error)),
    }
}
