//! `EncryptionConfiguration`: the resources that are encrypted in the store, and their providers.

mod read;
mod shown;
#[cfg(test)]
mod tests;
mod validation;

use std::path::Path;

use kevel_api::duration::Duration;
use kevel_api::field_error::aggregate;
use kevel_api::gvk::GroupResource;
use kevel_api::quote::quote;

/// The EncryptionConfiguration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptionConfiguration {
    /// Resources with their providers.
    pub resources: Vec<ResourceConfiguration>,
}

/// Resources and their encryption providers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceConfiguration {
    /// `secrets`, `deployments.apps`, `*.apps`, `*.` (the core group), `*.*`.
    pub resources: Vec<String>,
    /// The first provider encrypts; all of them decrypt.
    pub providers: Vec<ProviderConfiguration>,
}

/// A provider: exactly one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderConfiguration {
    /// AES-GCM with a random nonce.
    pub aesgcm: Option<Vec<Key>>,
    /// AES-CBC with PKCS#7 padding.
    pub aescbc: Option<Vec<Key>>,
    /// XSalsa20 and Poly1305.
    pub secretbox: Option<Vec<Key>>,
    /// No encryption.
    pub identity: bool,
    /// A KMS plug-in.
    pub kms: Option<KmsConfiguration>,
}

/// A named key; the name is part of the prefix of values encrypted with it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Key {
    /// Name of the key.
    pub name: String,
    /// Secret, in base64.
    pub secret: String,
}

impl std::fmt::Debug for Key {
    /// Omits the secret, which must not be logged.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Name: {}, Secret: [REDACTED]", self.name)
    }
}

/// A KMS plug-in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KmsConfiguration {
    /// Version of the plug-in's API: `v1` or `v2`.
    pub api_version: String,
    /// Name of the plug-in; part of the prefix of values encrypted with it.
    pub name: String,
    /// Number of cached decrypted keys (v1).
    pub cache_size: Option<i32>,
    /// Socket of the plug-in: `unix:///run/kms.sock`.
    pub endpoint: String,
    /// Timeout of calls.
    pub timeout: Duration,
}

/// A loaded configuration file.
#[derive(Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The parsed configuration.
    pub configuration: EncryptionConfiguration,
    /// Text of the file, of which only a hash is kept: it contains keys.
    pub text: Vec<u8>,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.configuration.fmt(f)
    }
}

impl EncryptionConfiguration {
    /// Reads and validates a file, with the reference's error messages. With `reload` the file is read again when it
    /// changes, for which the names of plug-ins have to be unique.
    pub fn load(path: &Path, reload: bool) -> Result<Loaded, String> {
        let loaded = load(path, reload);
        loaded.map_err(|error| format!("error while parsing file: {error}"))
    }

    /// Parses a text, without validation.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        read::configuration(text)
    }

    /// Validates the configuration.
    pub fn check(&self, reload: bool) -> Result<(), String> {
        aggregate(validation::errors(self, reload)).map_or(Ok(()), Err)
    }
}

fn load(path: &Path, reload: bool) -> Result<Loaded, String> {
    let text = read_file(path).map_err(|error| format!("error while loading file: {error}"))?;
    let name = quote(&path.display().to_string());
    let configuration = EncryptionConfiguration::read(&text).map_err(|error| {
        format!("error decoding encryption provider configuration file {name}: {error}")
    })?;
    configuration.check(reload)?;
    Ok(Loaded { configuration, text })
}

/// Text of a file, which must not be empty.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let (file, name) = (path.display(), quote(&path.display().to_string()));
    let text = std::fs::read(path).map_err(|error| {
        let problem = match error.kind() {
            std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
            std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        format!(
            "error reading encryption provider configuration file {name}: open {file}: {problem}"
        )
    })?;
    match text.is_empty() {
        true => Err(format!("encryption provider configuration file {name} is empty")),
        false => Ok(text),
    }
}

/// Parses `deployments.apps`; the core group is empty.
pub(crate) fn group_resource(text: &str) -> GroupResource {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    GroupResource::new(group, resource)
}
