//! Kubeconfig files as client-go reads them: the cluster of the current context, and the credentials of its users.
//!
//! Paths in a file are relative to it. Credential plug-ins (`exec`) are run by an [`ExecPlugin`].
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("config");
//! let text = "
//! current-context: there
//! contexts: [{name: there, context: {cluster: there, user: me}}]
//! clusters: [{name: there, cluster: {server: 'https://example.com'}}]
//! users: [{name: me, user: {token: secret}}]
//! ";
//! # std::fs::write(&path, text).unwrap();
//! use kevel_kubeconfig::{Credentials, Kubeconfig};
//! let (cluster, user) = Kubeconfig::read(&path).unwrap().current().unwrap();
//! assert_eq!(cluster.server, "https://example.com");
//! assert!(matches!(user.credentials, Credentials::Token(_)));
//! ```

mod authorization;
mod cluster;
mod error;
mod exec;
mod exec_config;
mod proxy;
mod user;

use std::path::{Path, PathBuf};

use kevel_api::value::Value;
use kevel_codec::json::Unknown;
use kevel_codec::{base64, yaml};

pub use self::authorization::{CallAuthorization, CallHeaders, CredentialsError, bearer};
pub use self::cluster::ClusterEntry;
pub use self::error::{ConfigFault, Error};
pub use self::exec::{ExecCredentials, ExecError, ExecKeyPair, ExecPlugin};
pub use self::proxy::ProxyUrl;
pub use self::user::{AuthInfo, CertificateAndKey, Credentials, ImpersonatedUser};

/// The content of a kubeconfig file.
#[derive(Clone, Default)]
pub struct Kubeconfig {
    config: Value,
    folder: PathBuf,
}

// Tokens, keys and passwords are not printed.
impl std::fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubeconfig").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Kubeconfig {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read(path).map_err(Error::Read)?;
        Kubeconfig::parse(&text, path.parent().unwrap_or(Path::new("")))
    }

    /// Parses a text whose paths are relative to a folder.
    pub fn parse(text: &[u8], folder: &Path) -> Result<Self, Error> {
        let read = yaml::decode_any(text, Unknown::Ignore);
        let config = read.map_err(|error| Error::Syntax(error.to_string()))?.value;
        Ok(Kubeconfig { config, folder: folder.to_owned() })
    }

    /// Cluster and user of the current context. A cluster or user that is not listed counts as an empty one; a server
    /// without TLS is sent no credentials.
    pub fn current(&self) -> Result<(ClusterEntry, AuthInfo), Error> {
        let name = self.config.str_at(&["current-context"]);
        let context = self.entry("contexts", name, "context");
        if !name.is_empty() && context.is_none() {
            return Err(Error::ContextNotFound(name.to_owned()));
        }
        let context = context.unwrap_or(&Value::Null);
        let (cluster_name, user_name) = (context.str_at(&["cluster"]), context.str_at(&["user"]));
        let cluster = self.entry("clusters", cluster_name, "cluster").unwrap_or(&Value::Null);
        let user = self.entry("users", user_name, "user").unwrap_or(&Value::Null);
        let mut faults = user::faults(user, user_name, &self.folder);
        faults.extend(cluster::faults(cluster, cluster_name, &self.folder));
        if let [ConfigFault::EmptyCluster] = faults[..] {
            faults = vec![ConfigFault::EmptyConfiguration];
        }
        if !faults.is_empty() {
            return Err(Error::Invalid(faults));
        }
        let mut read = ClusterEntry::read(cluster, &self.folder)?;
        let mut user = self.read_user(user, &read)?;
        if !read.is_secure() {
            read =
                ClusterEntry { server: read.server, proxy: read.proxy, ..ClusterEntry::default() };
            user = AuthInfo { impersonation: user.impersonation, ..AuthInfo::default() };
        }
        Ok((read, user))
    }

    /// User with a name.
    pub fn user(&self, name: &str) -> Option<Result<AuthInfo, Error>> {
        let user = self.entry("users", name, "user")?;
        Some(self.read_user(user, &ClusterEntry::default()))
    }

    /// Names of all users.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.config.list_at(&["users"]).iter().map(|user| user.str_at(&["name"]))
    }

    /// Name of the current context's user, if there is one.
    pub fn current_user(&self) -> Option<&str> {
        let name = self.config.str_at(&["current-context"]);
        let context = self.entry("contexts", name, "context")?;
        Some(context.str_at(&["user"])).filter(|name| !name.is_empty())
    }

    fn read_user(&self, user: &Value, cluster: &ClusterEntry) -> Result<AuthInfo, Error> {
        AuthInfo::read(user, &self.folder, cluster)
    }

    /// Field of the entry with a name in a list.
    fn entry<'v>(&'v self, list: &str, name: &str, field: &str) -> Option<&'v Value> {
        let named = |entry: &&Value| entry.str_at(&["name"]) == name;
        self.config.list_at(&[list]).iter().find(named)?.at(&[field])
    }
}

/// Text of a field, unless it is empty.
fn text<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    Some(value.str_at(&[field])).filter(|text| !text.is_empty())
}

/// Path in a field.
fn path(value: &Value, field: &str, folder: &Path) -> Option<PathBuf> {
    text(value, field).map(|path| folder.join(path))
}

fn flag(value: &Value, field: &str) -> bool {
    value.at(&[field]).and_then(Value::as_bool).unwrap_or(false)
}

/// Bytes of a field in base64.
fn data(value: &Value, field: &'static str) -> Result<Option<Vec<u8>>, Error> {
    let Some(text) = text(value, field) else { return Ok(None) };
    let mut bytes = Vec::new();
    base64::decode_into(text, &mut bytes).map_err(|at| Error::Base64 { field, at })?;
    Ok(Some(bytes))
}

/// Fault of a file that cannot be opened.
fn unreadable(what: &'static str, path: Option<&Path>, owner: &str) -> Option<ConfigFault> {
    let path = path?;
    let error = std::fs::File::open(path).err()?;
    let (path, owner) = (path.to_owned(), owner.to_owned());
    Some(ConfigFault::Unreadable { what, path, owner, error })
}

#[cfg(test)]
mod tests;
