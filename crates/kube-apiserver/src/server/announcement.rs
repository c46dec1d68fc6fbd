//! The log line `"Ready"`, with version, storage and addresses.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::{Path, absolute};

use kevel_server::version::Info;

use super::storage::embedded_folder;
use crate::options::{CompletedOptions, ServerRunOptions, StorageKind};

/// Description of the server by its options.
#[derive(Debug)]
pub struct Announcement {
    info: Info,
    storage: &'static str,
    /// Folder or URLs of the storage.
    place: String,
    advertised: String,
    controllers: &'static str,
    off: String,
    /// Whether the server was started without any flag of the reference: most likely by hand.
    is_alone: bool,
}

impl Announcement {
    /// The server that the options describe.
    pub fn new(options: &CompletedOptions) -> Self {
        let flags = &options.flags;
        let (storage, place) = match options.storage {
            StorageKind::Embedded => ("embedded", shown(&embedded_folder(options))),
            StorageKind::Memory => ("memory", String::new()),
            _ => ("etcd", flags.etcd.etcd_servers.join(",")),
        };
        let has_controllers = !options.controllers().is_empty();
        Announcement {
            info: Info::reporting(flags.global.version.reported()),
            storage,
            place,
            advertised: options.advertise_address.to_string(),
            controllers: if has_controllers { "on" } else { "off" },
            off: off(flags),
            is_alone: is_alone(flags),
        }
    }

    /// Logs the line; and beside it, for a person at a terminal, how to use the server and how to stop it.
    pub fn say(&self, address: SocketAddr, kubeconfig: Option<&str>) {
        let Announcement { info, storage, place, advertised, controllers, off, is_alone } = self;
        let kubeconfig = kubeconfig.map(|file| shown(Path::new(file)));
        tracing::info!(
            version = info.git_version,
            commit = info.git_commit,
            storage,
            place,
            address = %address,
            advertised,
            controllers,
            off,
            kubeconfig = kubeconfig.as_deref().unwrap_or_default(),
            stop = "SIGTERM or Ctrl-C",
            "Ready"
        );
        if let Some(kubeconfig) = kubeconfig.filter(|_| *is_alone && io::stderr().is_terminal()) {
            eprintln!("To use it:  export KUBECONFIG={}", quoted(&kubeconfig));
            eprintln!("To stop it: Ctrl-C");
        }
    }
}

/// Parts that are off and that a user may expect to be on.
fn off(flags: &ServerRunOptions) -> String {
    let audit = &flags.audit;
    let modes = &flags.authorization.authorization_mode;
    let parts = [
        ("authorization", modes.iter().any(|mode| mode == "AlwaysAllow")),
        ("audit", audit.audit_log_path.is_empty() && audit.audit_webhook_config_file.is_empty()),
        ("encryption-at-rest", flags.etcd.encryption_provider_config.is_empty()),
        ("priority-and-fairness", !flags.features.enable_priority_and_fairness),
        ("watch-cache", !flags.etcd.watch_cache),
    ];
    parts.iter().filter(|(_, is_off)| *is_off).map(|(name, _)| *name).collect::<Vec<_>>().join(",")
}

fn is_alone(flags: &ServerRunOptions) -> bool {
    let own = flags.kevel.flag_names();
    flags.given.fields().all(|field| own.contains(&field))
}

/// The path from the root: the reader may be in another folder.
fn shown(path: &Path) -> String {
    absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// A path as a word of a shell.
fn quoted(path: &str) -> String {
    let is_plain =
        path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte));
    if is_plain { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_words_of_a_shell() {
        assert_eq!(quoted("/a/b.c_d-e"), "/a/b.c_d-e");
        assert_eq!(quoted("/my data/it's"), r"'/my data/it'\''s'");
    }

    #[test]
    fn flags_of_the_reference_hide_the_lines_for_a_terminal() {
        for (arguments, expected) in [
            (&[][..], true),
            (&["--storage=memory", "--data-dir=/x"], true),
            (&["--controllers="], true),
            (&["--secure-port=7443"], false),
            (&["--storage=memory", "-v=2"], false),
        ] {
            let mut flags = ServerRunOptions::default();
            flags.parse(arguments.iter().map(|text| (*text).to_owned()).collect()).unwrap();
            assert_eq!(is_alone(&flags), expected, "{arguments:?}");
        }
    }
}
