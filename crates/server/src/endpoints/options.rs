//! Query parameters decoded as options and validated like the reference's.

use std::sync::Arc;

use kevel_api::field_error::{BadValue, FieldError, Path};
use kevel_api::gvk::GroupKind;
use kevel_api::quote::is_print;
use kevel_api::selector::field::{FieldSelector, Operator, Requirement};
use kevel_api::selector::shard::ShardSelector;
use kevel_api::status::StatusError;
use kevel_store::Revision;
use kevel_store::cache::Selection;

use super::{ResourceRequest, StoredRequest};
use kevel_registry::context::WriteOptions;
use kevel_registry::list_options::{ListOptions, parse_int, parse_revision, truthy};
use kevel_registry::resource::FieldLabels;
use kevel_registry::store::{ObjectSelection, VersionSelector};

/// Handling of unknown and duplicate fields (`fieldValidation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// Kind of a write's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionsKind {
    Create,
    Update,
    Patch,
    /// Apply patch: requires `fieldManager` and allows `force`.
    Apply,
}

impl OptionsKind {
    fn name(self) -> &'static str {
        match self {
            OptionsKind::Create => "CreateOptions",
            OptionsKind::Update => "UpdateOptions",
            OptionsKind::Patch | OptionsKind::Apply => "PatchOptions",
        }
    }
}

/// Longest name of a field manager in bytes.
const MAX_FIELD_MANAGER: usize = 128;

/// Options of a request that writes.
#[derive(Debug)]
pub(super) struct RequestOptions {
    pub field_validation: FieldValidation,
    pub write: WriteOptions,
}

impl ResourceRequest<'_> {
    pub(super) fn write_options(&self, kind: OptionsKind) -> Result<RequestOptions, StatusError> {
        let manager = self.parameter("fieldManager").unwrap_or_default();
        let mut errors = Vec::new();
        if kind == OptionsKind::Apply && manager.is_empty() {
            let why = "is required for apply patch";
            errors.push(FieldError::required(&Path::new("fieldManager"), why));
        }
        if kind == OptionsKind::Patch && self.parameter("force").is_some() {
            let why = "may not be specified for non-apply patch";
            errors.push(FieldError::forbidden(&Path::new("force"), why));
        }
        errors.extend(invalid_manager(manager));
        let dry_run: Vec<&str> = self.parameters("dryRun").collect();
        errors.extend(unsupported_dry_run(&dry_run));
        let field_validation = match self.parameter("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let path = Path::new("fieldValidation");
                let known = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported(&path, other, known));
                FieldValidation::Ignore
            }
        };
        if !errors.is_empty() {
            let kind = GroupKind::new("meta.k8s.io", kind.name());
            return Err(StatusError::invalid(&kind, "", errors));
        }
        let field_manager = match manager {
            "" => self.default_manager(),
            name => name.to_owned(),
        };
        let write = WriteOptions {
            dry_run: !dry_run.is_empty(),
            field_manager,
            tracked: kind != OptionsKind::Apply,
        };
        Ok(RequestOptions { field_validation, write })
    }

    /// Default field manager: the user agent up to the first slash.
    fn default_manager(&self) -> String {
        let agent = self.request.header(http::header::USER_AGENT);
        let program = agent.split('/').next().unwrap_or_default();
        let mut manager = String::new();
        for c in program.chars().filter(|c| is_print(*c)) {
            if manager.len() + c.len_utf8() > MAX_FIELD_MANAGER {
                break;
            }
            manager.push(c);
        }
        manager
    }
}

/// Validates the name of a field manager.
fn invalid_manager(manager: &str) -> Vec<FieldError> {
    let path = Path::new("fieldManager");
    let mut errors = Vec::new();
    if manager.len() > MAX_FIELD_MANAGER {
        errors.push(FieldError::too_long(&path, MAX_FIELD_MANAGER));
    }
    for (position, c) in manager.char_indices().filter(|(_, c)| !is_print(*c)) {
        let why = format!("invalid character U+{:04X} (at position {position})", u32::from(c));
        errors.push(FieldError::invalid(&path, manager, why));
    }
    errors
}

impl StoredRequest<'_> {
    /// Selection of a list or watch.
    pub(super) fn selection(&self) -> Result<ObjectSelection, StatusError> {
        let ListOptions { labels, mut fields, .. } = self.list_options()?.clone();
        for requirement in fields.requirements_mut() {
            let field = self.selectable(&requirement.field).ok_or_else(|| {
                let labels = self.resource.conventions.field_labels;
                StatusError::bad_request(labels.unknown(&requirement.field, &self.resource.kind))
            })?;
            requirement.field = field.into();
        }
        if !self.name().is_empty() {
            self.select_name(&mut fields)?;
        }
        let store = self.store();
        store.check_path(self.name())?;
        let prefix = match self.namespace() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        let of_version = VersionSelector::take(&store, &mut fields);
        let (paths, shard) = (self.storage.fields.clone(), self.shard()?);
        let cached = Selection { prefix, labels, fields, paths, shard };
        Ok(ObjectSelection { cached, of_version })
    }

    /// The requested shard of the objects, if there is one.
    fn shard(&self) -> Result<Option<Arc<ShardSelector>>, StatusError> {
        let Some(parse) = self.endpoints.shard_selectors else { return Ok(None) };
        let said = self.parameter("shardSelector").filter(|text| !text.is_empty());
        said.map(|text| parse(text).map(Arc::new)).transpose()
    }

    /// The request's ListOptions, validated.
    pub(super) fn list_options(&self) -> Result<&ListOptions, StatusError> {
        match &self.request.info.list_options {
            Some(Ok(options)) => {
                options.validate(self.endpoints.features.watch_list).map(|()| options)
            }
            Some(Err(error)) => Err(StatusError::bad_request(error.clone())),
            None => Err(StatusError::internal("a request for many objects without options")),
        }
    }

    /// Restricts the selector to the name that was authorized: from the path of a deprecated watch, or from the field
    /// selector itself.
    fn select_name(&self, fields: &mut FieldSelector) -> Result<(), StatusError> {
        let (field, name) = ("metadata.name", self.name());
        if fields.is_empty() {
            let (field, value) = (field.into(), name.into());
            let requirement = Requirement { field, operator: Operator::Equals, value };
            *fields = FieldSelector::new(vec![requirement]);
        }
        match fields.requires_exact_match(field) == Some(name) {
            true => Ok(()),
            false => Err(StatusError::bad_request(
                "fieldSelector metadata.name doesn't match requested name",
            )),
        }
    }

    /// The stored name of a field that the resource can be selected by.
    fn selectable<'f>(&self, field: &'f str) -> Option<&'f str> {
        let field = self.resource.strategy.selectable(field)?;
        let namespaces = self.resource.namespaced
            || self.resource.conventions.field_labels == FieldLabels::Metadata;
        let known = field == "metadata.name"
            || field == "metadata.namespace" && namespaces
            || self.storage.fields.iter().any(|known| *known.name == *field);
        known.then_some(field)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.parameter(name).is_some_and(truthy)
    }

    /// Integer parameter; the error text is Go's.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, StatusError> {
        let number = self.parameter(name).map(parse_int).transpose();
        number.map_err(StatusError::bad_request)
    }

    /// Parameter `resourceVersion`; `None` if it is empty.
    pub(super) fn revision(&self) -> Result<Option<Revision>, StatusError> {
        let text = self.parameter("resourceVersion").unwrap_or_default();
        parse_revision(text)
            .map_err(|error| StatusError::bad_request(format!("invalid resource version: {error}")))
    }

    /// Parameter `resourceVersion` of a watch. The reference answers an invalid one with a 500.
    pub(super) fn plain_revision(&self) -> Result<Option<Revision>, StatusError> {
        let text = self.parameter("resourceVersion").unwrap_or_default();
        parse_revision(text).map_err(|error| StatusError::unknown(500, error))
    }
}

/// Validates `dryRun`: the only supported stage is `All`.
pub(super) fn unsupported_dry_run(stages: &[impl AsRef<str>]) -> Option<FieldError> {
    let stages: Vec<&str> = stages.iter().map(AsRef::as_ref).collect();
    let known = stages.iter().all(|stage| *stage == "All");
    let error =
        || FieldError::not_supported(&Path::new("dryRun"), BadValue::strings(&stages), ["All"]);
    (!known).then(error)
}
