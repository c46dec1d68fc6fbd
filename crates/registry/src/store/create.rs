//! Creation of objects (upstream: `Store.Create`).

use std::sync::atomic::Ordering;

use bytes::Bytes;
use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_store::Revision;
use kevel_store::cache::At;

use super::{Store, Written, WrittenObject};
use crate::admission::{Attributes, Operation};
use crate::allocation::Claim;
use crate::context::WriteOptions;
use crate::failure::store_error;
use crate::latency::Phase;
use crate::list_options::parse_uint;
use crate::metadata;
use crate::owner_references::Sent;
use crate::storage::drop_empty;
use crate::verb::Verb;

/// Attempts at a generated name.
const NAME_ATTEMPTS: usize = 8;

/// The labels that some objects have where they have none of their own.
const TEMPLATE_LABELS: [&str; 4] = ["spec", "template", "metadata", "labels"];

/// Seconds after which a client may try again to have a name generated.
const NAME_RETRY_SECONDS: i32 = 1;

impl Store<'_> {
    /// Creates an object, as sent and defaulted. A generated name that is taken is generated again.
    pub async fn create(
        &self,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Written, StatusError> {
        match self.name() {
            "" => self.fill_in_namespace(&mut object)?,
            _ => self.identify(&mut object)?,
        }
        wipe_system_fields(&mut object);
        self.dedup_owner_references(&mut object, Sent::ByClient);
        let generated = metadata::text(&object, "name").is_empty()
            && !metadata::text(&object, "generateName").is_empty();
        if generated {
            for _ in 1..NAME_ATTEMPTS {
                self.context.span.event("About to store object in database");
                match self.create_once(object.clone(), options).await {
                    Err(error) if exists(&error) => {}
                    result => return result,
                }
            }
        }
        self.context.span.event("About to store object in database");
        self.create_once(object, options).await
    }

    pub(crate) async fn create_once(
        &self,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Written, StatusError> {
        if options.tracked {
            let record = || self.record(None, &mut object.clone(), options);
            self.convert_versions(record).await?;
            self.record(None, &mut object, options);
        }
        // Empty where a name is made up, which comes after what plug-ins change.
        let name = metadata::text(&object, "name").to_owned();
        let mut attributes = self.attributes(Operation::Create, options.dry_run);
        attributes.name = &name;
        if self.is_of_namespaces() {
            attributes.namespace = &name;
        }
        self.admission.admit(&attributes, Some(&mut object)).await?;
        self.dedup_owner_references(&mut object, Sent::AfterAdmission);
        // Plug-ins can take away what the request says, and name what it does not.
        self.fill_in_namespace(&mut object)?;
        fill_system_fields(&mut object, Time::now(self.context.clock));
        let base = metadata::text(&object, "generateName");
        if metadata::text(&object, "name").is_empty() && !base.is_empty() {
            let name = self.resource.strategy.generate_name(base);
            metadata::set(&mut object, "name", Some(name.as_str().into()));
        }
        let mut claim = Claim::default();
        if let Some(allocation) = self.resource.allocation.clone() {
            let begin = allocation.begin_create(object, options.dry_run);
            (object, claim) = Claim::begin(begin).await?;
        }
        let result = self.create_admitted(object, &attributes, options, &mut claim).await;
        claim.give_back().await;
        result.map(|object| Written { created: true, object })
    }

    async fn create_admitted(
        &self,
        mut object: Value,
        attributes: &Attributes<'_>,
        options: &WriteOptions,
        claim: &mut Claim,
    ) -> Result<WrittenObject, StatusError> {
        self.reset_new(&mut object);
        self.resource.strategy.sign(&mut object, self.context.user);
        let warnings = self.resource.strategy.warnings_as_sent(&object);
        warnings.into_iter().for_each(|warning| self.context.warnings.add(warning));
        let shared = self.shares_labels(&object);
        self.resource.strategy.prepare_for_create(&mut object);
        if shared {
            let labels = object.at(&TEMPLATE_LABELS).cloned();
            metadata::set(&mut object, "labels", labels);
        }
        let mut errors = self.admission.check_new(attributes, &object).await?;
        errors.append(self.resource.validate_create(&object));
        if !errors.is_empty() {
            let name = metadata::text(&object, "name");
            return Err(StatusError::invalid(&self.said_group_kind(&object), name, errors));
        }
        let warnings = self.resource.strategy.warnings(&object, None);
        warnings.into_iter().for_each(|warning| self.context.warnings.add(warning));
        let name = metadata::text(&object, "name").to_owned();
        let attributes = Attributes { name: &name, ..*attributes };
        self.admission.validate(&attributes, Some(&object)).await?;
        self.store_new(object, &name, options, claim).await
    }

    async fn store_new(
        &self,
        object: Value,
        name: &str,
        options: &WriteOptions,
        claim: &mut Claim,
    ) -> Result<WrittenObject, StatusError> {
        let version =
            object.at(&["metadata", "resourceVersion"]).filter(|v| !v.is_empty()).cloned();
        let link = object.at(&["metadata", "selfLink"]).cloned();
        let mut stored = self.to_storage(object).await?;
        let key = self.write_key(&stored)?;
        // The store minds, which a dry run does not reach, and an update or apply that creates does not tell.
        let minded = !options.dry_run && self.context.verb == Verb::Create;
        let number = version.as_ref().and_then(Value::as_str).map(parse_uint);
        if minded && matches!(number, Some(Ok(1..))) {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(StatusError::unknown(500, why));
        }
        let span = self.storage_span("Create etcd3", name);
        span.event("About to Encode");
        let mut bytes = self.storage.encode(&stored);
        span.event_with("Encode succeeded", || vec![kevel_trace::number("len", bytes.len())]);
        let revision = if options.dry_run {
            let there = self.storage.engine.get(&key, None).await.map_err(store_error)?;
            if there.entry.is_some() {
                return Err(self.taken(&stored, name).await);
            }
            // What is not stored is dropped by the store.
            metadata::set(&mut stored, "selfLink", link);
            return self.as_seen(stored, version).await;
        } else {
            let mut created = span.scope(self.write_new(&key, &bytes, claim)).await;
            if matches!(created, Err(kevel_store::Error::TooLarge(_)))
                && drop_managed_fields(&mut stored, options)
            {
                bytes = self.storage.encode(&stored);
                created = span.scope(self.write_new(&key, &bytes, claim)).await;
            }
            match created {
                Ok(revision) => revision,
                Err(kevel_store::Error::Exists(_)) => return Err(self.taken(&stored, name).await),
                Err(error) => return Err(store_error(error)),
            }
        };
        span.event("Txn call succeeded");
        if self.context.takes_trees {
            let version = Value::from(revision.to_string().as_str());
            return self.as_seen(stored, Some(version)).await;
        }
        let wire = self.storage.wire(&bytes, revision).map_err(StatusError::internal)?;
        span.event("decode succeeded");
        Ok(WrittenObject::Wire(wire.bytes))
    }

    async fn write_new(
        &self,
        key: &[u8],
        bytes: &Bytes,
        claim: &mut Claim,
    ) -> Result<Revision, kevel_store::Error> {
        let (storage, key, value) = (self.storage.clone(), key.to_vec(), bytes.clone());
        let created = claim
            .write(async move { storage.engine.create(&key, value, storage.time_to_live).await });
        self.context.track(Phase::Storage, created).await
    }

    /// The error of a name that another object has, which may have been made up for this one
    /// (`CheckGeneratedNameError`).
    async fn taken(&self, object: &Value, name: &str) -> StatusError {
        let resource = self.group_resource();
        let error = match metadata::text(object, "generateName") {
            "" => StatusError::already_exists(&resource, name),
            _ => {
                let kind = self.resource.group_kind();
                let resource = GroupResource::new(kind.group, resource.resource);
                StatusError::generate_name_conflict(&resource, name, NAME_RETRY_SECONDS)
            }
        };
        match self.existing_named(name, At::Consistent).await {
            Ok(Some(there)) if !metadata::text(&there.value, "deletionTimestamp").is_empty() => {
                error.being_deleted()
            }
            _ => error,
        }
    }

    /// Whether the labels of an object are by default those of its template. In the reference they are one map then:
    /// what is added to one is in the other.
    fn shares_labels(&self, object: &Value) -> bool {
        let labels = object.at(&["metadata", "labels"]).filter(|labels| !labels.is_empty());
        let own = self.context.has_own_labels.load(Ordering::Relaxed);
        !own && labels.is_some() && labels == object.at(&TEMPLATE_LABELS)
    }

    /// An object that has been written, or would have been, without reading it again.
    pub(crate) async fn as_seen(
        &self,
        mut stored: Value,
        version: Option<Value>,
    ) -> Result<WrittenObject, StatusError> {
        metadata::set(&mut stored, "resourceVersion", version);
        if self.storage.ty.is_unstructured() {
            kevel_api::default::apply(&mut stored, self.storage.ty.schema());
        }
        let to = self.resource.kind.group_version();
        let value = self.storage.convert(stored, &self.storage.kind, &to).await?;
        self.view(value).map(WrittenObject::Tree)
    }

    /// Converts an object to the storage version, and removes fields that are not stored.
    pub(crate) async fn to_storage(&self, object: Value) -> Result<Value, StatusError> {
        let to = self.storage.kind.group_version();
        let mut object = self.storage.convert(object, &self.resource.kind, &to).await?;
        metadata::set(&mut object, "resourceVersion", None);
        metadata::set(&mut object, "selfLink", None);
        let schema = self.storage.ty.schema();
        if !self.storage.keeps_empty {
            drop_empty(&mut object, schema);
        }
        Ok(object)
    }

    /// Removes the status of a new object, and sets its generation to 1 if generations are counted.
    fn reset_new(&self, object: &mut Value) {
        let reset = self.resource.has_status() && !self.resource.strategy.keeps_status();
        if let Some(object) = object.as_map_mut().filter(|_| reset) {
            object.remove("status");
        }
        if self.resource.strategy.counts_generation() {
            metadata::set(object, "generation", Some(Value::Int(1)));
        }
    }
}

/// Drops `managedFields` of an object that is too large to store. Returns whether there is something to retry; an apply
/// keeps them.
pub(crate) fn drop_managed_fields(object: &mut Value, options: &WriteOptions) -> bool {
    let dropped = options.tracked && object.at(&["metadata", "managedFields"]).is_some();
    if dropped {
        metadata::set(object, "managedFields", None);
    }
    dropped
}

/// Drops system fields that a client has set (`WipeObjectMetaSystemFields`).
pub fn wipe_system_fields(object: &mut Value) {
    const SYSTEM: [&str; 5] =
        ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];
    SYSTEM.into_iter().for_each(|field| metadata::set(object, field, None));
}

/// Sets UID and creation time, whatever client and plug-ins set (`FillObjectMetaSystemFields`).
fn fill_system_fields(object: &mut Value, now: Time) {
    metadata::set(object, "uid", Some(metadata::new_uid().as_str().into()));
    metadata::set(object, "creationTimestamp", Some(now.to_string().as_str().into()));
}

fn exists(error: &StatusError) -> bool {
    error.reason() == kevel_api::status::reason::ALREADY_EXISTS
}
