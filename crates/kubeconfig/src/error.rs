//! Errors of kubeconfig files, in the words of client-go.

use std::path::PathBuf;

use thiserror::Error;

/// Reason why a kubeconfig file cannot be used.
#[derive(Debug, Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{0}")]
    Read(std::io::Error),
    /// The file is neither YAML nor JSON.
    #[error("error loading config file: {0}")]
    Syntax(String),
    /// The current context is not listed.
    #[error("context was not found for specified context: {0}")]
    ContextNotFound(String),
    /// Cluster or user of the context are incomplete or contradictory.
    #[error("invalid configuration: {}", listed(.0))]
    Invalid(Vec<ConfigFault>),
    /// A field is not base64.
    #[error("{field}: illegal base64 data at input byte {at}")]
    Base64 {
        /// The field.
        field: &'static str,
        /// Offset of the first illegal byte.
        at: usize,
    },
    /// A file that is named cannot be read.
    #[error("unable to read {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// A CA is named for a server that is not verified.
    #[error("specifying a root certificates file with the insecure flag is not allowed")]
    InsecureWithCa,
    /// An `auth-provider`, none of which is built into the server.
    #[error("no Auth Provider found for name {0:?}")]
    AuthProvider(String),
    /// The URL of a proxy has no host.
    #[error("proxy-url: invalid URL")]
    ProxyUrl,
    /// The protocol of a proxy is not spoken here.
    #[error("proxy-url: scheme {0:?} is not supported")]
    ProxyScheme(String),
    /// The `apiVersion` of a credential plug-in is unknown.
    #[error("exec plugin: invalid apiVersion {0:?}")]
    ExecVersion(String),
}

/// Fault of a cluster or user.
#[derive(Debug, Error)]
pub enum ConfigFault {
    /// The cluster is empty.
    #[error("cluster has no server defined")]
    EmptyCluster,
    /// Nothing is configured.
    #[error(
        "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
    )]
    EmptyConfiguration,
    /// The cluster without a name has no server.
    #[error("default cluster has no server defined")]
    NoDefaultServer,
    /// A cluster has no server.
    #[error("no server found for cluster {0:?}")]
    NoServer(String),
    /// The proxy's URL is invalid.
    #[error("invalid 'proxy-url' {url:?} for cluster {cluster:?}: {reason}")]
    ProxyUrl {
        /// The URL.
        url: String,
        /// The cluster.
        cluster: String,
        /// The reason.
        reason: String,
    },
    /// A field and its `-data` form are both set.
    #[error("{data} and {file} are both specified for {owner}. {data} will override.")]
    Both {
        /// The field with the data.
        data: &'static str,
        /// The field with the path.
        file: &'static str,
        /// Name of the cluster or user.
        owner: String,
    },
    /// A file cannot be opened.
    #[error("unable to read {what} {} for {owner} due to {error}", path.display())]
    Unreadable {
        /// The field.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Name of the cluster or user.
        owner: String,
        /// The reason.
        error: std::io::Error,
    },
    /// A certificate has no key.
    #[error(
        "client-key-data or client-key must be specified for {0} to use the clientCert \
         authentication method."
    )]
    NoKey(String),
    /// A token and a password are both set.
    #[error(
        "more than one authentication method found for {0}; found [token basicAuth], only one is \
         allowed"
    )]
    ManyMethods(String),
    /// Groups or others are impersonated without a user.
    #[error("requesting uid, groups or user-extra for {0} without impersonating a user")]
    NobodyImpersonated(String),
    /// A field of a credential plug-in is missing.
    #[error("{field} must be specified for {user} to use exec authentication plugin")]
    ExecField {
        /// The field.
        field: &'static str,
        /// The user.
        user: String,
    },
    /// The interactive mode of a credential plug-in is unknown.
    #[error("invalid interactiveMode for {user}: {mode:?}")]
    InteractiveMode {
        /// The user.
        user: String,
        /// The mode.
        mode: String,
    },
    /// A plug-in and an `auth-provider` are both set.
    #[error("authProvider cannot be provided in combination with an exec plugin for {0}")]
    ExecWithProvider(String),
}

fn listed(faults: &[ConfigFault]) -> String {
    let all: Vec<String> = faults.iter().map(ConfigFault::to_string).collect();
    if let [only] = &all[..] { only.clone() } else { format!("[{}]", all.join(", ")) }
}
