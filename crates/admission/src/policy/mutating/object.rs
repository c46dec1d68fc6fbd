//! Application of a mutation's patch to an object.

use kevel_api::gvk::GroupVersionKind;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_patch::json_patch::Error as JsonPatchError;
use kevel_patch::managed_fields::merge_configuration;
use kevel_registry::resource::api_version;
use kevel_registry::type_ref::TypeRef;

use crate::scheme;

use super::mutator::Change;

/// Limit on the bytes that the `copy` operations of one patch may add.
const COPY_LIMIT: usize = 3 << 20;

/// Error of applying a patch.
#[derive(Debug)]
pub(super) enum PatchError {
    /// Error that is subject to the policy's `failurePolicy`.
    Policy(String),
    /// Error that is returned to the client regardless of `failurePolicy`.
    Status(StatusError),
}

impl From<String> for PatchError {
    fn from(message: String) -> Self {
        PatchError::Policy(message)
    }
}

/// Type of the patched object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patched<'r> {
    pub kind: &'r GroupVersionKind,
    pub ty: &'r TypeRef,
    /// Whether the kind belongs to the group and version that serves it. For other kinds (`Scale`, `Eviction`), the
    /// reference does not find the type for the merge.
    pub at_home: bool,
}

impl Patched<'_> {
    /// Applies a change and decodes the result as an object, without defaulting.
    pub fn apply(&self, tree: &Value, change: Change) -> Result<Value, PatchError> {
        match change {
            Change::Apply(config) => self.merge(tree, config),
            Change::Patch(patch) => match patch.apply(tree.clone(), COPY_LIMIT) {
                Ok(patched) => self.read_patched(&patched),
                // A failed `test` operation leaves the object unchanged; it is no error.
                Err(JsonPatchError::TestFailed(_)) => self.read_patched(tree),
                Err(error) => Err(PatchError::Policy(format!("JSON Patch: {error}"))),
            },
        }
    }

    fn merge(&self, tree: &Value, mut config: Value) -> Result<Value, PatchError> {
        if !self.at_home {
            return Err(PatchError::Policy(format!(
                "error applying patch: failed to convert patch object to typed object: no \
                 corresponding type for {}",
                self.kind
            )));
        }
        if let Some(config) = config.as_map_mut() {
            config.insert(
                "apiVersion",
                api_version(&self.kind.group, &self.kind.version).as_str().into(),
            );
            config.insert("kind", self.kind.kind.as_str().into());
        }
        let merged = merge_configuration(tree, &config, self.ty.schema());
        let merged = merged.map_err(|error| format!("error applying patch: {error}"))?;
        let mut text = Vec::new();
        json::encode_any(&merged, &mut text);
        let read = json::decode(&text, self.ty.schema(), json::Unknown::Ignore);
        let read = read.map_err(|error| {
            let error = as_converted(&error.to_string());
            format!("unable to convert unstructured object to {}: {error}", self.kind)
        })?;
        Ok(read.value)
    }

    fn read_patched(&self, patched: &Value) -> Result<Value, PatchError> {
        let internal =
            |error: &dyn std::fmt::Display| PatchError::Status(StatusError::internal(error));
        let mut text = Vec::new();
        json::encode_any(patched, &mut text);
        let read = json::decode(&text, self.ty.schema(), json::Unknown::Report);
        let read = read.map_err(|error| internal(&error))?;
        if let TypeRef::BuiltIn(_) = self.ty {
            let problems: Vec<String> = read.strict.iter().map(ToString::to_string).collect();
            if !problems.is_empty() {
                return Err(internal(&json::strict_message(&problems)));
            }
            self.check_kind(&read.value).map_err(|error| internal(&error))?;
        }
        Ok(read.value)
    }

    fn check_kind(&self, object: &Value) -> Result<(), String> {
        let said = |field| object.str_at(&[field]);
        let found = GroupVersionKind::from_api_version_and_kind(said("apiVersion"), said("kind"));
        if found == *self.kind {
            return Ok(());
        }
        Err(scheme::not_registered(&found).unwrap_or_else(|| {
            let why = scheme::unknown_conversion(&found, self.kind);
            format!("failed to convert object: {why}")
        }))
    }
}

/// Rewrites the decoder's error for a number that does not fit: the reference's converter words it differently.
fn as_converted(error: &str) -> String {
    let number = error.starts_with("json: cannot unmarshal number");
    match error.rsplit_once(" of type ").filter(|_| number) {
        Some((_, go_type)) => format!("cannot convert float64 to {go_type}"),
        None => error.to_owned(),
    }
}
