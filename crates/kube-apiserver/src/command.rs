//! The command: from arguments to a running server.

use crate::options::{ServerRunOptions, Suggestion, VersionRequest};
use crate::{check, help, logging, server, store};
use kevel_api::field_error::aggregate;
use kevel_api::quote::quote;
use kevel_features::{BINARY, FeatureGates, Notice};
use kevel_server::version::{Info, ProgramBuild, set_build};
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use tracing::{error, info, warn};

/// Facts that the build script has found.
const BUILD: ProgramBuild = ProgramBuild {
    git_commit: env!("KEVEL_GIT_COMMIT"),
    git_tree_state: env!("KEVEL_GIT_TREE_STATE"),
    date: env!("KEVEL_BUILD_DATE"),
};

/// Runs the command on its arguments, the program's name not among them. The first may be a command of Kevel's own.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    set_build(BUILD);
    let mut arguments: Vec<String> =
        arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    match arguments.first().map(String::as_str) {
        Some("check") => return check::main(arguments.drain(1..)),
        Some("store") => return store::main(arguments.drain(1..)),
        _ => {}
    }
    let mut options = ServerRunOptions::default();
    let parsed = match options.parse(arguments) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error),
    };
    for warning in &parsed.warnings {
        eprintln!("{warning}");
    }
    if options.global.help {
        // The defaults that the help shows are those of no flags.
        let sections = ServerRunOptions::default();
        return print(&help::help(&sections.sections(), terminal_columns()));
    }
    if parsed.arguments.iter().any(|argument| !argument.is_empty()) {
        let arguments: Vec<String> = parsed.arguments.iter().map(|text| quote(text)).collect();
        let arguments = arguments.join(" ");
        return refuse(&format!(
            "\"kube-apiserver\" does not take any arguments, got [{arguments}]"
        ));
    }
    let suggestions = options.suggestions();
    match start(options) {
        Ok(code) => code,
        Err(error) => {
            for Suggestion { flag, name, meant } in suggestions {
                info!(flag, name, "Did you mean {meant}?");
            }
            error!(err = %error, "command failed");
            ExitCode::FAILURE
        }
    }
}

fn start(options: ServerRunOptions) -> Result<ExitCode, Box<dyn Error>> {
    let globals = options.component_globals();
    if globals.is_ok() {
        let info = Info::reporting(options.global.version.reported());
        match options.global.version {
            VersionRequest::Print => {
                return Ok(print(&format!("Kubernetes {}\n", info.git_version)));
            }
            VersionRequest::PrintRaw => return Ok(print(&format!("{info}\n"))),
            _ => {}
        }
    }
    let gates = globals.map(|(gates, _)| gates).map_err(|error| error.to_string());
    let gates = start_logging(&options, gates)?;
    log_gates(&gates);
    if logging::verbosity() >= 1 {
        for (flag, value) in options.flags() {
            info!("FLAG: --{}={}", flag.name(), quote(&value.text()));
        }
    }
    let without_effect = options.without_effect();
    if !without_effect.is_empty() {
        warn!(flags = without_effect.join(" "), "These flags are accepted but have no effect yet");
    }
    let completed = options.complete()?;
    if let Some(message) = aggregate(completed.validate()) {
        return Err(message.into());
    }
    if completed.effective_version.is_emulated() {
        for (group, version) in completed.resource_config().alpha_versions() {
            warn!(
                "alpha api enabled with emulated version {} instead of the binary's version \
                 {BINARY}, this is unsupported, proceed at your own risk: api={group}/{version}",
                completed.effective_version.emulation
            );
        }
    }
    for warning in completed.flags.authentication.warnings() {
        warn!("{warning}");
    }
    info!("Version: {}", completed.flags.global.version.reported());
    server::run(completed)?;
    Ok(ExitCode::SUCCESS)
}

/// Logs the effect of the given feature gates.
fn log_gates(gates: &FeatureGates) {
    for Notice { stage, feature, value } in gates.notices() {
        info!(
            featureGate = %feature,
            value, "Warning: setting {stage} feature gate. It will be removed in a future release."
        );
    }
    let alphas = gates.emulated_alphas();
    if !alphas.is_empty() {
        warn!(
            "component has alpha features enabled in emulated version, this is unsupported: \
             features={alphas:?}"
        );
    }
    for (gates, message) in [
        (gates.without_effect(), "These feature gates are not looked at by this server"),
        (gates.unfollowed(), "This server does not act by these values of feature gates"),
    ] {
        if !gates.is_empty() {
            warn!(gates = gates.join(" "), "{message}");
        }
    }
}

/// Starts logging as the flags say, or as text if they are invalid, so that the error can be logged.
fn start_logging(
    options: &ServerRunOptions,
    gates: Result<FeatureGates, String>,
) -> Result<FeatureGates, String> {
    let checked = gates.and_then(|gates| match aggregate(options.logs.validate(&gates)) {
        None => Ok(gates),
        Some(errors) => Err(errors),
    });
    match &checked {
        Ok(_) => logging::install(&options.logs),
        Err(_) => logging::install(&ServerRunOptions::default().logs),
    }
    checked
}

/// Prints an error of the arguments: there is no log yet.
fn refuse(message: &str) -> ExitCode {
    eprintln!("Error: {message}");
    ExitCode::FAILURE
}

/// A closed pipe is no error: its reader has read enough.
fn print(text: &str) -> ExitCode {
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// The width of the terminal, 0 if there is none.
fn terminal_columns() -> usize {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col))
}
