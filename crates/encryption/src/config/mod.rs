//! `EncryptionConfiguration`: which resources are encrypted in the store, and how.

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

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptionConfiguration {
    /// Which resources have which providers.
    pub resources: Vec<ResourceConfiguration>,
}

/// Some resources and what they are encrypted with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceConfiguration {
    /// `secrets`, `deployments.apps`, `*.apps`, `*.` (the core group), `*.*`.
    pub resources: Vec<String>,
    /// The first writes; all of them read.
    pub providers: Vec<ProviderConfiguration>,
}

/// A provider: exactly one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderConfiguration {
    /// AES in GCM, with a random nonce.
    pub aesgcm: Option<Vec<Key>>,
    /// AES in CBC with PKCS#7 padding.
    pub aescbc: Option<Vec<Key>>,
    /// XSalsa20 and Poly1305.
    pub secretbox: Option<Vec<Key>>,
    /// Nothing is encrypted.
    pub identity: bool,
    /// A key management service.
    pub kms: Option<KmsConfiguration>,
}

/// A key with its name, which stands before what was encrypted with it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Key {
    /// What it is called.
    pub name: String,
    /// In base64.
    pub secret: String,
}

impl std::fmt::Debug for Key {
    /// Without the secret, which belongs into no log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Name: {}, Secret: [REDACTED]", self.name)
    }
}

/// A plug-in that holds keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KmsConfiguration {
    /// The plug-in's API: `v1` or `v2`.
    pub api_version: String,
    /// What it is called; it stands before what was encrypted with it.
    pub name: String,
    /// How many keys are kept that it has decrypted (v1).
    pub cache_size: Option<i32>,
    /// Its socket: `unix:///run/kms.sock`.
    pub endpoint: String,
    /// How long it may take to answer.
    pub timeout: Duration,
}

/// A file as it was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Loaded {
    /// What it says.
    pub configuration: EncryptionConfiguration,
    /// Its text, of which no more than a hash is kept: there are keys in it.
    pub text: Vec<u8>,
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.configuration.fmt(f)
    }
}

impl EncryptionConfiguration {
    /// Reads a file and checks it, in the reference's words. `reload`: it will be read again as it
    /// changes, for which the names of plug-ins have to be unique.
    pub fn load(path: &Path, reload: bool) -> Result<Loaded, String> {
        let loaded = load(path, reload);
        loaded.map_err(|error| format!("error while parsing file: {error}"))
    }

    /// Reads a text, without checking it.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        read::configuration(text)
    }

    /// What is wrong with it, if anything.
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

/// The text of a file that must have one.
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

/// `deployments.apps` in its parts; the group of the core is empty.
pub(crate) fn group_resource(text: &str) -> GroupResource {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    GroupResource::new(group, resource)
}
