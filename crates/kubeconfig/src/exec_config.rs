//! Configuration of credential plug-ins.

use std::path::{Path, PathBuf};

use kevel_api::value::Value;

use crate::{ClusterEntry, ConfigFault, Error, flag, text};

/// Versions of ExecCredential that plug-ins may speak.
const VERSIONS: [&str; 2] =
    ["client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1"];
/// Values of `interactiveMode`.
const MODES: [&str; 3] = [NEVER, "IfAvailable", ALWAYS];
const NEVER: &str = "Never";
const ALWAYS: &str = "Always";

/// A credential plug-in: a program, and what it is given.
#[derive(Clone, Debug)]
pub(crate) struct ExecConfig {
    pub command: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub api_version: String,
    /// Hint that is shown if the program is not installed.
    pub install_hint: String,
    /// The plug-in insists on a terminal, which a server does not have.
    pub needs_terminal: bool,
    /// Description of the cluster for the plug-in, if `provideClusterInfo` is set.
    pub cluster: Option<Value>,
}

impl ExecConfig {
    pub fn read(exec: &Value, folder: &Path, cluster: &ClusterEntry) -> Result<Self, Error> {
        let api_version = exec.str_at(&["apiVersion"]).to_owned();
        if !VERSIONS.contains(&api_version.as_str()) {
            return Err(Error::ExecVersion(api_version));
        }
        let command = exec.str_at(&["command"]);
        // A name without a separator is looked for on the path.
        let command = if command.contains('/') { folder.join(command) } else { command.into() };
        let args = exec.list_at(&["args"]).iter().filter_map(Value::as_str);
        let env = exec.list_at(&["env"]).iter();
        let cluster = flag(exec, "provideClusterInfo").then(|| cluster.described.clone());
        Ok(ExecConfig {
            command,
            args: args.map(str::to_owned).collect(),
            env: env.map(|v| (v.str_at(&["name"]).into(), v.str_at(&["value"]).into())).collect(),
            needs_terminal: mode(exec) == ALWAYS,
            install_hint: exec.str_at(&["installHint"]).to_owned(),
            api_version,
            cluster,
        })
    }
}

/// The interactive mode; v1beta1 has a default.
fn mode(exec: &Value) -> &str {
    let default = if exec.str_at(&["apiVersion"]) == VERSIONS[0] { "IfAvailable" } else { "" };
    text(exec, "interactiveMode").unwrap_or(default)
}

/// Faults of a plug-in's configuration.
pub(crate) fn faults(exec: &Value, user: &str) -> Vec<ConfigFault> {
    let missing = |field| ConfigFault::ExecField { field, user: user.to_owned() };
    let mut faults = Vec::new();
    for field in ["command", "apiVersion"] {
        if text(exec, field).is_none() {
            faults.push(missing(field));
        }
    }
    let unnamed = exec.list_at(&["env"]).iter().filter(|env| text(env, "name").is_none());
    faults.extend(unnamed.map(|_| missing("env variable name")));
    match mode(exec) {
        "" => faults.push(missing("interactiveMode")),
        mode if MODES.contains(&mode) => {}
        mode => faults.push(ConfigFault::InteractiveMode { user: user.into(), mode: mode.into() }),
    }
    faults
}
