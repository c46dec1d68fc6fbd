//! Headers with the credentials of a client.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use kevel_pki::Dynamic;
use thiserror::Error;

use crate::{Credentials, ExecCredentials, ExecError, ExecPlugin, ImpersonatedUser};

/// Credentials of a client, as request headers.
#[derive(Debug)]
pub struct CallAuthorization {
    source: CredentialsSource,
    /// `Impersonate-User` and the others.
    impersonation: HeaderMap,
}

#[derive(Debug)]
enum CredentialsSource {
    None,
    Fixed(HeaderValue),
    File(Dynamic<HeaderValue>),
    Exec(Arc<ExecPlugin>),
}

/// Reason why credentials cannot be sent.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// The token is empty.
    #[error("the token is empty")]
    EmptyToken,
    /// The credentials do not fit into a header.
    #[error("credentials have characters that no header may have")]
    Characters,
    /// The file of the token cannot be read.
    #[error("{0}")]
    File(String),
    /// The impersonated user does not fit into headers.
    #[error("{0}")]
    Impersonation(#[from] http::Error),
}

/// Headers of one call.
#[derive(Debug)]
pub struct CallHeaders {
    /// `Authorization`, `Impersonate-User` and the others.
    pub headers: HeaderMap,
    /// The credentials of a plug-in among them.
    pub of_plugin: Option<Arc<ExecCredentials>>,
}

impl CallAuthorization {
    /// The headers of credentials. A file that they name must be readable.
    pub fn new(
        credentials: &Credentials,
        as_user: Option<&ImpersonatedUser>,
    ) -> Result<Self, CredentialsError> {
        let source = match credentials {
            Credentials::None => CredentialsSource::None,
            Credentials::Token(token) => CredentialsSource::Fixed(bearer(token.as_bytes())?),
            Credentials::TokenFile(path) => {
                let token = Dynamic::load("token", &[path], |files| {
                    let token = files.first().map(Vec::as_slice).unwrap_or_default();
                    bearer(token).map_err(|error| error.to_string())
                });
                CredentialsSource::File(token.map_err(CredentialsError::File)?)
            }
            Credentials::Basic { username, password } => {
                let pair = format!("{username}:{password}");
                let pair = kevel_codec::base64::encode(pair.as_bytes());
                CredentialsSource::Fixed(secret(&format!("Basic {pair}"))?)
            }
            Credentials::Exec(plugin) => CredentialsSource::Exec(plugin.clone()),
        };
        let impersonation = as_user.map(impersonation).transpose()?.unwrap_or_default();
        Ok(CallAuthorization { source, impersonation })
    }

    /// The headers of a call. A plug-in is asked, if there is one.
    pub async fn current(&self) -> Result<CallHeaders, ExecError> {
        let mut of_plugin = None;
        let authorization = match &self.source {
            CredentialsSource::None => None,
            CredentialsSource::Fixed(value) => Some(value.clone()),
            CredentialsSource::File(file) => Some((*file.current()).clone()),
            CredentialsSource::Exec(plugin) => {
                let credentials = plugin.credentials().await?;
                let token = credentials.token.as_deref().map(|token| bearer(token.as_bytes()));
                let token =
                    token.transpose().map_err(|error| ExecError::Output(error.to_string()))?;
                of_plugin = Some(credentials);
                token
            }
        };
        let mut headers = self.impersonation.clone();
        if let Some(authorization) = authorization {
            headers.insert(header::AUTHORIZATION, authorization);
        }
        Ok(CallHeaders { headers, of_plugin })
    }

    /// Runs the plug-in again after the server has refused its credentials. The next call has the new ones.
    pub async fn refused(&self, shown: Option<Arc<ExecCredentials>>) {
        let (CredentialsSource::Exec(plugin), Some(refused)) = (&self.source, shown) else {
            return;
        };
        if let Err(error) = plugin.refresh(&refused).await {
            tracing::error!(%error, "refreshing credentials");
        }
    }
}

/// The header of a bearer's token.
pub fn bearer(token: &[u8]) -> Result<HeaderValue, CredentialsError> {
    match token.trim_ascii() {
        [] => Err(CredentialsError::EmptyToken),
        token => secret(&format!("Bearer {}", String::from_utf8_lossy(token))),
    }
}

/// A header value that no log shows.
fn secret(value: &str) -> Result<HeaderValue, CredentialsError> {
    let value = HeaderValue::from_str(value);
    let mut value = value.map_err(|_| CredentialsError::Characters)?;
    value.set_sensitive(true);
    Ok(value)
}

fn impersonation(user: &ImpersonatedUser) -> Result<HeaderMap, http::Error> {
    let mut headers = HeaderMap::new();
    let mut add = |name: &str, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes())?;
        headers.append(name, HeaderValue::from_str(value)?);
        Ok::<_, http::Error>(())
    };
    add("Impersonate-User", &user.user)?;
    if !user.uid.is_empty() {
        add("Impersonate-Uid", &user.uid)?;
    }
    for group in &user.groups {
        add("Impersonate-Group", group)?;
    }
    for (key, values) in &user.extra {
        let name = format!("Impersonate-Extra-{}", escaped(key));
        values.iter().try_for_each(|value| add(&name, value))?;
    }
    Ok(headers)
}

/// A key of extra fields as part of a header's name: what no name may have is written `%XX`.
fn escaped(key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    let mut out = String::new();
    for byte in key.bytes() {
        if plain(byte) {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
