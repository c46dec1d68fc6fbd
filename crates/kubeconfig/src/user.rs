//! Users of kubeconfig files: certificates, tokens, passwords, plug-ins.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kevel_api::value::Value;

use crate::exec_config::{self, ExecConfig};
use crate::{ClusterEntry, ConfigFault, Error, ExecPlugin, data, path, text, unreadable};

/// Credentials of a user.
#[derive(Clone, Debug, Default)]
pub struct AuthInfo {
    /// Certificate that is shown to the server.
    pub identity: Option<CertificateAndKey>,
    /// Content of the `Authorization` header.
    pub credentials: Credentials,
    /// User that is impersonated.
    pub impersonation: Option<ImpersonatedUser>,
}

/// A certificate and its key (PEM).
#[derive(Clone)]
pub enum CertificateAndKey {
    /// The texts.
    Pem {
        /// The certificate, and those of the authorities above it.
        certificate: Vec<u8>,
        /// The key of the first.
        key: Vec<u8>,
    },
    /// Files, which are read again when they change.
    Files {
        /// The certificate, and those of the authorities above it.
        certificate: PathBuf,
        /// The key of the first.
        key: PathBuf,
    },
}

/// The credentials that are sent.
#[derive(Clone, Default)]
pub enum Credentials {
    /// No credentials.
    #[default]
    None,
    /// A bearer token.
    Token(String),
    /// A bearer token in a file, which is read again when it changes.
    TokenFile(PathBuf),
    /// A user and its password.
    Basic {
        /// The user.
        username: String,
        /// The password.
        password: String,
    },
    /// A token or a certificate of a credential plug-in.
    Exec(Arc<ExecPlugin>),
}

/// A user that is impersonated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImpersonatedUser {
    /// User name.
    pub user: String,
    /// UID, if not empty.
    pub uid: String,
    /// Groups to impersonate.
    pub groups: Vec<String>,
    /// Extra fields, each with its values.
    pub extra: Vec<(String, Vec<String>)>,
}

impl AuthInfo {
    pub(crate) fn read(user: &Value, folder: &Path, cluster: &ClusterEntry) -> Result<Self, Error> {
        if let Some(provider) = user.at(&["auth-provider"]).filter(|value| !value.is_empty()) {
            return Err(Error::AuthProvider(provider.str_at(&["name"]).to_owned()));
        }
        let identity = identity(user, folder)?;
        let mut credentials = credentials(user, folder)?;
        let exec = user.at(&["exec"]).filter(|exec| !exec.is_empty());
        // A plug-in is not asked where there is something else to show.
        if let Some(exec) = exec
            && identity.is_none()
            && matches!(credentials, Credentials::None)
        {
            let config = ExecConfig::read(exec, folder, cluster)?;
            credentials = Credentials::Exec(Arc::new(ExecPlugin::new(config)));
        }
        Ok(AuthInfo { identity, credentials, impersonation: impersonation(user) })
    }
}

/// Faults of a user.
pub(crate) fn faults(user: &Value, name: &str, folder: &Path) -> Vec<ConfigFault> {
    let has = |field| text(user, field).is_some();
    let mut faults = Vec::new();
    if has("client-certificate") || has("client-certificate-data") {
        let both = |data, file| ConfigFault::Both { data, file, owner: name.to_owned() };
        if has("client-certificate") && has("client-certificate-data") {
            faults.push(both("client-cert-data", "client-cert"));
        }
        if has("client-key") && has("client-key-data") {
            faults.push(both("client-key-data", "client-key"));
        }
        if !has("client-key") && !has("client-key-data") {
            faults.push(ConfigFault::NoKey(name.to_owned()));
        }
        let file = |field| path(user, field, folder);
        faults.extend(unreadable("client-cert", file("client-certificate").as_deref(), name));
        faults.extend(unreadable("client-key", file("client-key").as_deref(), name));
    }
    if let Some(exec) = user.at(&["exec"]).filter(|exec| !exec.is_empty()) {
        if user.at(&["auth-provider"]).is_some_and(|value| !value.is_empty()) {
            faults.push(ConfigFault::ExecWithProvider(name.to_owned()));
        }
        faults.extend(exec_config::faults(exec, name));
    }
    if has("token") && (has("username") || has("password")) {
        faults.push(ConfigFault::ManyMethods(name.to_owned()));
    }
    let others = ["as-uid", "as-groups", "as-user-extra"];
    if !has("as") && others.iter().any(|field| user.at(&[field]).is_some_and(|v| !v.is_empty())) {
        faults.push(ConfigFault::NobodyImpersonated(name.to_owned()));
    }
    faults
}

fn identity(user: &Value, folder: &Path) -> Result<Option<CertificateAndKey>, Error> {
    let certificate = data(user, "client-certificate-data")?;
    let key = data(user, "client-key-data")?;
    let file = |field| path(user, field, folder);
    let (certificate_file, key_file) = (file("client-certificate"), file("client-key"));
    let read = |path: PathBuf| std::fs::read(&path).map_err(|error| Error::File { path, error });
    Ok(match (certificate, certificate_file, key, key_file) {
        (Some(certificate), _, Some(key), _) => Some(CertificateAndKey::Pem { certificate, key }),
        (None, Some(certificate), None, Some(key)) => {
            Some(CertificateAndKey::Files { certificate, key })
        }
        (Some(certificate), _, None, Some(key)) => {
            Some(CertificateAndKey::Pem { certificate, key: read(key)? })
        }
        (None, Some(certificate), Some(key), _) => {
            Some(CertificateAndKey::Pem { certificate: read(certificate)?, key })
        }
        (None, None, _, _) => None,
        (_, _, None, None) => return Err(Error::Invalid(vec![ConfigFault::NoKey(String::new())])),
    })
}

fn credentials(user: &Value, folder: &Path) -> Result<Credentials, Error> {
    let token_file = path(user, "tokenFile", folder);
    let token = text(user, "token").map(str::to_owned);
    let username = user.str_at(&["username"]).to_owned();
    let password = user.str_at(&["password"]).to_owned();
    let basic = !username.is_empty() || !password.is_empty();
    match (token_file, token, basic) {
        (_, Some(_), true) => Err(Error::Invalid(vec![ConfigFault::ManyMethods(String::new())])),
        (Some(file), _, _) => Ok(Credentials::TokenFile(file)),
        (None, Some(token), _) => Ok(Credentials::Token(token)),
        (None, None, true) => Ok(Credentials::Basic { username, password }),
        (None, None, false) => Ok(Credentials::None),
    }
}

fn impersonation(user: &Value) -> Option<ImpersonatedUser> {
    let name = text(user, "as")?;
    let strings = |value: &Value| -> Vec<String> {
        let all = value.as_list().unwrap_or_default().iter().filter_map(Value::as_str);
        all.map(str::to_owned).collect()
    };
    let extra = user.at(&["as-user-extra"]).and_then(Value::as_map);
    Some(ImpersonatedUser {
        user: name.to_owned(),
        uid: user.str_at(&["as-uid"]).to_owned(),
        groups: user.at(&["as-groups"]).map(strings).unwrap_or_default(),
        extra: extra
            .map(|extra| extra.iter().map(|(key, all)| (key.to_owned(), strings(all))).collect())
            .unwrap_or_default(),
    })
}

// Keys, tokens and passwords are not printed.
impl fmt::Debug for CertificateAndKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateAndKey")
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}
