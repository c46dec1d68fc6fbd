//! Errors of a manifest folder, with the reference's messages.

use std::fmt;
use std::io;
use std::path::PathBuf;

use kevel_api::field_error::{FieldErrors, aggregate};
use kevel_api::gvk::{GroupVersionKind, ParseGroupVersionError};
use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_codec::{json, yaml};

use super::STATIC_SUFFIX;
use super::loader::MAX_LISTS;
use crate::scheme::SCHEME;

/// Error of a manifest folder.
#[derive(Debug)]
pub struct ManifestError(ManifestFolderError);

impl From<ManifestFolderError> for ManifestError {
    fn from(error: ManifestFolderError) -> Self {
        ManifestError(error)
    }
}

impl std::error::Error for ManifestError {}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reason why a folder is refused.
#[derive(Debug)]
pub(super) enum ManifestFolderError {
    /// The folder cannot be read.
    ReadFolder { folder: PathBuf, error: io::Error },
    /// A file cannot be read.
    ReadFile { file: PathBuf, error: io::Error },
    /// A line that begins as a separator of documents goes on with something else.
    Separator { file: PathBuf, after: String },
    /// A document is refused.
    Document { file: PathBuf, error: DocumentError },
    /// The policy of a binding is not in the folder.
    MissingPolicy { binding: String, policy: String },
}

/// Reason why a document is refused.
#[derive(Debug)]
pub(super) enum DocumentError {
    /// Not YAML.
    Yaml(yaml::Error),
    /// No JSON, or not of the type that its kind has.
    Json(json::Error),
    /// `apiVersion` and `kind` cannot be read.
    TypeMeta(json::Error),
    /// No `kind`.
    MissingKind(String),
    /// No `apiVersion`.
    MissingVersion(String),
    /// `apiVersion` is none.
    GroupVersion(ParseGroupVersionError),
    /// A kind that no version of the group has.
    NotRegistered(GroupVersionKind),
    /// Duplicate and unknown fields.
    Strict(Vec<String>),
    /// Lists in lists beyond the limit.
    TooDeep,
    /// An item of a list cannot be decoded.
    ListItem(Box<DocumentError>),
    /// A kind or version that the plug-in does not take.
    Unsupported { version: String, kind: String },
    /// Too large for defaulting.
    Defaults(StatusError),
    /// Refused by the rules of its kind.
    Invalid { kind: &'static str, name: String, errors: FieldErrors },
    /// No name.
    Nameless { file: PathBuf },
    /// A name without the reserved suffix.
    Suffix { file: PathBuf, name: String },
    /// A name that another object of the kind has.
    Duplicate { name: String, file: PathBuf, before: PathBuf },
    /// A policy with parameters.
    ParamKind { kind: &'static str, name: String },
    /// A binding with parameters.
    ParamRef { binding: String },
    /// A binding without a policy.
    NoPolicyName { binding: String },
    /// A binding of a policy that cannot be in files.
    PolicySuffix { binding: String, policy: String },
    /// A webhook that is a Service.
    Service { webhook: String, configuration: String, file: PathBuf },
    /// A webhook without a URL.
    NoUrl { webhook: String, configuration: String, file: PathBuf },
}

impl fmt::Display for ManifestFolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestFolderError::ReadFolder { folder, error } => {
                write!(f, "failed to read manifest directory {}: {error}", shown(folder))
            }
            ManifestFolderError::ReadFile { file, error } => {
                write!(f, "failed to read file {}: {error}", shown(file))
            }
            ManifestFolderError::Separator { file, after } => write!(
                f,
                "failed to split YAML documents in file {}: invalid Yaml document separator: {after}",
                shown(file)
            ),
            ManifestFolderError::Document { file, error } => {
                write!(f, "error loading {}: {error}", file.display())
            }
            ManifestFolderError::MissingPolicy { binding, policy } => write!(
                f,
                "binding {} references policy {} which does not exist in the manifest directory",
                quote(binding),
                quote(policy)
            ),
        }
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DocumentError::Yaml(error) => error.fmt(f),
            DocumentError::Json(error) => error.fmt(f),
            DocumentError::TypeMeta(error) => {
                write!(f, "couldn't get version/kind; json parse error: {error}")
            }
            DocumentError::MissingKind(text) => write!(f, "Object 'Kind' is missing in '{text}'"),
            DocumentError::MissingVersion(text) => {
                write!(f, "Object 'apiVersion' is missing in '{text}'")
            }
            DocumentError::GroupVersion(error) => error.fmt(f),
            DocumentError::NotRegistered(kind) => write!(
                f,
                "no kind {} is registered for version {} in scheme {}",
                quote(&kind.kind),
                quote(&kind.group_version().to_string()),
                quote(SCHEME)
            ),
            DocumentError::Strict(problems) => f.write_str(&json::strict_message(problems)),
            DocumentError::TooDeep => {
                write!(f, "more than {MAX_LISTS} lists in one another are not supported")
            }
            DocumentError::ListItem(error) => write!(f, "failed to decode list item: {error}"),
            DocumentError::Unsupported { version, kind } => {
                write!(f, "unsupported resource type *{version}.{kind}")
            }
            DocumentError::Defaults(error) => error.fmt(f),
            DocumentError::Invalid { kind, name, errors } => {
                let errors = aggregate(errors.iter()).unwrap_or_default();
                write!(f, "{kind} {}: {errors}", quote(name))
            }
            DocumentError::Nameless { file } => {
                write!(f, "resource in file {} must have a name", shown(file))
            }
            DocumentError::Suffix { file, name } => write!(
                f,
                "{} in file {} must have a name ending with {}",
                quote(name),
                shown(file),
                quote(STATIC_SUFFIX)
            ),
            DocumentError::Duplicate { name, file, before } => write!(
                f,
                "duplicate name {} found in file {} (previously seen in {})",
                quote(name),
                shown(file),
                shown(before)
            ),
            DocumentError::ParamKind { kind, name } => write!(
                f,
                "{kind} {}: spec.paramKind is not supported for static manifests",
                quote(name)
            ),
            DocumentError::ParamRef { binding } => write!(
                f,
                "binding {}: spec.paramRef is not supported for static manifests",
                quote(binding)
            ),
            DocumentError::NoPolicyName { binding } => {
                write!(f, "binding {} must reference a policy (spec.policyName)", quote(binding))
            }
            DocumentError::PolicySuffix { binding, policy } => write!(
                f,
                "binding {}: spec.policyName {} must end with {}",
                quote(binding),
                quote(policy),
                quote(STATIC_SUFFIX)
            ),
            DocumentError::Service { webhook, configuration, file } => write!(
                f,
                "webhook {} in {} (file {}): clientConfig.service is not supported for static \
                 manifests; use clientConfig.url instead",
                quote(webhook),
                quote(configuration),
                shown(file)
            ),
            DocumentError::NoUrl { webhook, configuration, file } => write!(
                f,
                "webhook {} in {} (file {}): clientConfig.url is required for static manifests",
                quote(webhook),
                quote(configuration),
                shown(file)
            ),
        }
    }
}

fn shown(path: &std::path::Path) -> String {
    quote(&path.display().to_string())
}
