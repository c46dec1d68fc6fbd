//! Credential plug-ins: programs that print an ExecCredential (upstream: `plugin/pkg/client/auth/exec`).

use std::fmt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_clock::Clock;
use kevel_codec::json::{self, Unknown};
use thiserror::Error;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::exec_config::ExecConfig;

/// Time that a plug-in may take: those that ask a cloud take seconds, and a call waits for it.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Largest output of a plug-in: a token and a chain of certificates are a few kilobytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// Variable in which a plug-in is given its ExecCredential.
const EXEC_INFO: &str = "KUBERNETES_EXEC_INFO";

/// A credential plug-in. It is run when there are no credentials yet, when they have expired, and when a server has
/// refused them; one at a time.
pub struct ExecPlugin {
    config: ExecConfig,
    clock: Clock,
    /// Held while the plug-in runs.
    running: Mutex<()>,
    current: ArcSwapOption<ExecCredentials>,
}

/// Credentials that a plug-in has printed.
pub struct ExecCredentials {
    /// Bearer token.
    pub token: Option<String>,
    /// Certificate that is shown to the server.
    pub key_pair: Option<ExecKeyPair>,
    expires: Option<Time>,
}

/// A certificate and its key (PEM).
#[derive(Clone, PartialEq, Eq)]
pub struct ExecKeyPair {
    /// The certificate, and those of the authorities above it.
    pub certificate: String,
    /// The key of the first.
    pub key: String,
}

/// Reason why a plug-in gave no credentials.
#[derive(Debug, Error)]
pub enum ExecError {
    /// The plug-in needs a terminal.
    #[error("exec plugin cannot support interactive mode: standard input is not a terminal")]
    NoTerminal,
    /// The credential plug-in is not installed.
    #[error("exec: executable {command} not found{hint}")]
    NotFound {
        /// The program.
        command: String,
        /// The hint of the kubeconfig, after an empty line.
        hint: String,
    },
    /// The program failed.
    #[error("exec: executable {command} failed with exit code {code}")]
    Failed {
        /// The program.
        command: String,
        /// Its exit code; -1 if a signal ended it.
        code: i32,
    },
    /// The program could not be run.
    #[error("exec: {0}")]
    Run(std::io::Error),
    /// The program took too long.
    #[error("exec: executable {0} did not end in time")]
    Timeout(String),
    /// The output is no ExecCredential.
    #[error("decoding stdout: {0}")]
    Output(String),
    /// The output is of another version.
    #[error(
        "exec plugin is configured to use API version {wanted}, plugin returned version {found}"
    )]
    Version {
        /// Version of the configuration.
        wanted: String,
        /// Version of the output.
        found: String,
    },
    /// The output has no status.
    #[error("exec plugin didn't return a status field")]
    NoStatus,
    /// The output has no credentials.
    #[error("exec plugin didn't return a token or cert/key pair")]
    NoCredentials,
    /// The output has one half of a pair.
    #[error("exec plugin returned only certificate or key, not both")]
    HalfPair,
}

impl ExecPlugin {
    pub(crate) fn new(config: ExecConfig) -> Self {
        // Another system's credentials expire by the time of day, which a test's clock does not move.
        let clock = Clock::system();
        ExecPlugin { config, clock, running: Mutex::default(), current: ArcSwapOption::empty() }
    }

    /// Credentials that the plug-in printed last, if it has been run.
    pub fn current(&self) -> Option<Arc<ExecCredentials>> {
        self.current.load_full()
    }

    /// Valid credentials: the plug-in is run if there are none.
    pub async fn credentials(&self) -> Result<Arc<ExecCredentials>, ExecError> {
        if let Some(valid) = self.valid() {
            return Ok(valid);
        }
        let _running = self.running.lock().await;
        match self.valid() {
            Some(valid) => Ok(valid),
            None => self.run().await,
        }
    }

    /// Runs the plug-in again because a server refused these credentials, unless there are newer ones.
    pub async fn refresh(&self, refused: &Arc<ExecCredentials>) -> Result<(), ExecError> {
        let _running = self.running.lock().await;
        match self.current() {
            Some(current) if !Arc::ptr_eq(&current, refused) => Ok(()),
            _ => self.run().await.map(drop),
        }
    }

    fn valid(&self) -> Option<Arc<ExecCredentials>> {
        let current = self.current()?;
        let expired = current.expires.is_some_and(|expires| Time::now(&self.clock) > expires);
        (!expired).then_some(current)
    }

    async fn run(&self) -> Result<Arc<ExecCredentials>, ExecError> {
        if self.config.needs_terminal {
            return Err(ExecError::NoTerminal);
        }
        let credentials = Arc::new(self.read(&self.output().await?)?);
        self.current.store(Some(credentials.clone()));
        Ok(credentials)
    }

    /// Output of the program.
    async fn output(&self) -> Result<Vec<u8>, ExecError> {
        let ExecConfig { command, args, env, install_hint, .. } = &self.config;
        let shown = command.display().to_string();
        let mut program = Command::new(command);
        program.args(args).envs(env.iter().map(|(name, value)| (name, value)));
        program.env(EXEC_INFO, self.told());
        program.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = program.spawn().map_err(|error| {
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let hint = if install_hint.is_empty() { "" } else { "\n\n" };
            let hint = format!("{hint}{install_hint}");
            let command = shown.clone();
            if missing { ExecError::NotFound { command, hint } } else { ExecError::Run(error) }
        })?;
        let run = async {
            let mut output = Vec::new();
            if let Some(stdout) = child.stdout.take() {
                stdout.take(MAX_OUTPUT).read_to_end(&mut output).await?;
            }
            Ok((child.wait().await?, output))
        };
        let ended = timeout(TIMEOUT, run).await.map_err(|_| ExecError::Timeout(shown.clone()))?;
        let (status, output) = ended.map_err(ExecError::Run)?;
        if status.success() {
            return Ok(output);
        }
        Err(ExecError::Failed { command: shown, code: status.code().unwrap_or(-1) })
    }

    /// The ExecCredential that the program is given.
    fn told(&self) -> String {
        let mut spec = Map::from_iter([("interactive", Value::from(false))]);
        if let Some(cluster) = &self.config.cluster {
            spec.insert("cluster", cluster.clone());
        }
        let credential = Map::from_iter([
            ("kind", Value::from("ExecCredential")),
            ("apiVersion", self.config.api_version.as_str().into()),
            ("spec", spec.into()),
        ]);
        let mut text = Vec::new();
        json::encode_any(&credential.into(), &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The credentials of the ExecCredential that the program has printed.
    fn read(&self, output: &[u8]) -> Result<ExecCredentials, ExecError> {
        let invalid = |error: &dyn fmt::Display| ExecError::Output(error.to_string());
        let read = json::decode_any(output, Unknown::Ignore).map_err(|error| invalid(&error))?;
        let (found, wanted) = (read.value.str_at(&["apiVersion"]), &self.config.api_version);
        if read.value.str_at(&["kind"]) != "ExecCredential" {
            return Err(invalid(&"Object 'Kind' is not ExecCredential"));
        }
        if found != wanted {
            let (wanted, found) = (wanted.clone(), found.to_owned());
            return Err(ExecError::Version { wanted, found });
        }
        let status = read.value.at(&["status"]).and_then(Value::as_map);
        let status = Value::Map(status.ok_or(ExecError::NoStatus)?.clone());
        let field = |name| crate::text(&status, name).map(str::to_owned);
        let token = field("token");
        let key_pair = match (field("clientCertificateData"), field("clientKeyData")) {
            (Some(certificate), Some(key)) => Some(ExecKeyPair { certificate, key }),
            (None, None) => None,
            _ => return Err(ExecError::HalfPair),
        };
        if token.is_none() && key_pair.is_none() {
            return Err(ExecError::NoCredentials);
        }
        let expires = field("expirationTimestamp").map(|text| text.parse::<Time>());
        let expires = expires.transpose().map_err(|error| invalid(&error))?;
        Ok(ExecCredentials { token, key_pair, expires })
    }
}

// Tokens and keys are not printed.
impl fmt::Debug for ExecPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecPlugin").field("command", &self.config.command).finish_non_exhaustive()
    }
}

impl fmt::Debug for ExecCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExecCredentials")
    }
}

impl fmt::Debug for ExecKeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExecKeyPair")
    }
}
