//! Command line, in the syntax of etcd (Go's `flag`): `-name value`, `--name=value`, `--name` for a switch.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use thiserror::Error;

use FlagEffect::{Followed, Ignored, Refused};
use FlagForm::{Switch, Value};

/// Flags of a stand-in that serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandInFlags {
    /// `HOST:PORT` of each of `--listen-client-urls`.
    pub addresses: Vec<String>,
    /// `--data-dir`; the store is in a folder of its own below it.
    pub data_dir: PathBuf,
}

/// Command line, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandInCommand {
    /// Print the help.
    Help,
    /// Print the version.
    Version,
    /// Serve.
    Serve(StandInFlags),
}

/// Mistake in the command line.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum StandInFlagError {
    /// etcd has no such flag.
    #[error("flag provided but not defined: -{0}")]
    Unknown(String),
    /// The flag needs a value.
    #[error("flag needs an argument: -{0}")]
    NoValue(String),
    /// Only an etcd can do what the flag asks for.
    #[error(
        "--{0} needs a real etcd: this is Kevel's stand-in for controller tests, which serves plain HTTP and no etcd protocol"
    )]
    NeedsEtcd(String),
    /// An argument that is no flag.
    #[error("{0:?} is not a valid flag")]
    Positional(String),
    /// A URL that cannot be listened on.
    #[error("--listen-client-urls: {0:?} must be http://HOST:PORT")]
    Url(String),
}

/// Whether a flag has a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlagForm {
    Switch,
    Value,
}

/// Effect of a flag of etcd on the stand-in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlagEffect {
    /// The flag has an effect; the text is its help.
    Followed(&'static str),
    /// The flag is accepted without an effect: the stand-in has no peers, no log of its own, no syncs.
    Ignored,
    /// The flag is refused unless it is off: only an etcd can follow it.
    Refused,
}

const LISTEN: &str = "listen-client-urls";
const DATA_DIR: &str = "data-dir";
const NAME: &str = "name";
const HELP: &str = "help";
const VERSION: &str = "version";

/// Flags of etcd 3.6 and 3.5. Those that begin with `experimental-` are accepted without being listed.
const FLAGS: &[(&str, FlagForm, FlagEffect)] = &[
    (HELP, Switch, Followed("Print this help.")),
    (VERSION, Switch, Followed("Print the version.")),
    (
        LISTEN,
        Value,
        Followed(
            "URLs to serve on (http only), comma separated; http://localhost:2379 by default.",
        ),
    ),
    (DATA_DIR, Value, Followed("Folder of the data; NAME.etcd by default.")),
    (
        NAME,
        Value,
        Followed("Name that --data-dir is made of without the flag; default by default."),
    ),
    ("advertise-client-urls", Value, Ignored),
    ("auth-token", Value, Ignored),
    ("auth-token-ttl", Value, Ignored),
    ("auto-compaction-mode", Value, Ignored),
    ("auto-compaction-retention", Value, Ignored),
    ("auto-tls", Switch, Refused),
    ("backend-batch-interval", Value, Ignored),
    ("backend-batch-limit", Value, Ignored),
    ("backend-bbolt-freelist-type", Value, Ignored),
    ("bcrypt-cost", Value, Ignored),
    ("bootstrap-defrag-threshold-megabytes", Value, Ignored),
    ("cert-file", Value, Refused),
    ("cipher-suites", Value, Ignored),
    ("client-cert-allowed-hostname", Value, Refused),
    ("client-cert-auth", Switch, Refused),
    ("client-cert-file", Value, Ignored),
    ("client-crl-file", Value, Refused),
    ("client-key-file", Value, Ignored),
    ("compact-hash-check-time", Value, Ignored),
    ("compaction-batch-limit", Value, Ignored),
    ("compaction-sleep-interval", Value, Ignored),
    ("config-file", Value, Refused),
    ("corrupt-check-time", Value, Ignored),
    ("cors", Value, Ignored),
    ("discovery", Value, Refused),
    ("discovery-endpoints", Value, Refused),
    ("discovery-srv", Value, Refused),
    ("discovery-token", Value, Refused),
    ("downgrade-check-time", Value, Ignored),
    ("election-timeout", Value, Ignored),
    ("enable-grpc-gateway", Switch, Ignored),
    ("enable-log-rotation", Switch, Ignored),
    ("enable-pprof", Switch, Ignored),
    ("enable-v2", Switch, Ignored),
    ("feature-gates", Value, Ignored),
    ("force-new-cluster", Switch, Ignored),
    ("grpc-keepalive-interval", Value, Ignored),
    ("grpc-keepalive-min-time", Value, Ignored),
    ("grpc-keepalive-timeout", Value, Ignored),
    ("heartbeat-interval", Value, Ignored),
    ("host-whitelist", Value, Ignored),
    ("initial-advertise-peer-urls", Value, Ignored),
    ("initial-cluster", Value, Ignored),
    ("initial-cluster-state", Value, Ignored),
    ("initial-cluster-token", Value, Ignored),
    ("initial-election-tick-advance", Switch, Ignored),
    ("key-file", Value, Refused),
    ("listen-client-http-urls", Value, Refused),
    ("listen-metrics-urls", Value, Refused),
    ("listen-peer-urls", Value, Ignored),
    ("log-format", Value, Ignored),
    ("log-level", Value, Ignored),
    ("log-outputs", Value, Ignored),
    ("log-rotation-config-json", Value, Ignored),
    ("logger", Value, Ignored),
    ("max-concurrent-streams", Value, Ignored),
    ("max-learners", Value, Ignored),
    ("max-request-bytes", Value, Ignored),
    ("max-snapshots", Value, Ignored),
    ("max-txn-ops", Value, Ignored),
    ("max-wals", Value, Ignored),
    ("memory-mlock", Switch, Ignored),
    ("metrics", Value, Ignored),
    ("peer-auto-tls", Switch, Ignored),
    ("peer-cert-allowed-cn", Value, Ignored),
    ("peer-cert-allowed-hostname", Value, Ignored),
    ("peer-cert-file", Value, Ignored),
    ("peer-client-cert-auth", Switch, Ignored),
    ("peer-client-cert-file", Value, Ignored),
    ("peer-client-key-file", Value, Ignored),
    ("peer-crl-file", Value, Ignored),
    ("peer-key-file", Value, Ignored),
    ("peer-skip-client-san-verification", Switch, Ignored),
    ("peer-trusted-ca-file", Value, Ignored),
    ("pre-vote", Switch, Ignored),
    ("quota-backend-bytes", Value, Ignored),
    ("raft-read-timeout", Value, Ignored),
    ("raft-write-timeout", Value, Ignored),
    ("self-signed-cert-validity", Value, Ignored),
    ("snapshot-catchup-entries", Value, Ignored),
    ("snapshot-count", Value, Ignored),
    ("socket-reuse-address", Switch, Ignored),
    ("socket-reuse-port", Switch, Ignored),
    ("stop-grpc-service-on-defrag", Switch, Ignored),
    ("strict-reconfig-check", Switch, Ignored),
    ("tls-max-version", Value, Ignored),
    ("tls-min-version", Value, Ignored),
    ("trusted-ca-file", Value, Refused),
    ("unsafe-no-fsync", Switch, Ignored),
    ("v2-deprecation", Value, Ignored),
    ("wal-dir", Value, Ignored),
    ("warning-apply-duration", Value, Ignored),
    ("warning-unary-request-duration", Value, Ignored),
    ("watch-progress-notify-interval", Value, Ignored),
];

/// Prefix of flags that come and go with etcd's versions.
const EXPERIMENTAL: &str = "experimental-";

/// Reads the command line, the program's name not among the arguments.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<StandInCommand, StandInFlagError> {
    let mut arguments = arguments.into_iter();
    let (mut listen, mut data_dir, mut name) =
        ("http://localhost:2379".to_owned(), None, OsString::from("default"));
    while let Some(argument) = arguments.next() {
        let (flag, given) = split(&argument)?;
        let Some((flag, kind, effect)) = known(&flag) else {
            if flag.starts_with(EXPERIMENTAL) && given.is_some() {
                continue;
            }
            return Err(StandInFlagError::Unknown(flag));
        };
        let value = match (given, kind) {
            (Some(value), _) => value,
            (None, Switch) => OsString::from("true"),
            (None, Value) => {
                arguments.next().ok_or_else(|| StandInFlagError::NoValue(flag.to_owned()))?
            }
        };
        match (flag, effect) {
            (HELP, _) => return Ok(StandInCommand::Help),
            (VERSION, _) => return Ok(StandInCommand::Version),
            (LISTEN, _) => listen = value.to_string_lossy().into_owned(),
            (DATA_DIR, _) => data_dir = Some(PathBuf::from(value)),
            (NAME, _) => name = value,
            (flag, Refused) if !is_off(&value) => {
                return Err(StandInFlagError::NeedsEtcd(flag.to_owned()));
            }
            _ => {}
        }
    }
    let addresses = listen.split(',').map(address).collect::<Result<_, _>>()?;
    let data_dir = data_dir.unwrap_or_else(|| {
        name.push(".etcd");
        PathBuf::from(name)
    });
    Ok(StandInCommand::Serve(StandInFlags { addresses, data_dir }))
}

/// Text of `--help`. Every flag that is accepted begins a line: envtest looks for `--unsafe-no-fsync` there.
pub fn help() -> String {
    let mut text = "Usage: etcd [flags]\n\nKevel's stand-in for etcd in controller tests: kube-apiserver of Kevel keeps its \
                    store in the folder of this\nprogram. It speaks no etcd protocol, and ends with the process that \
                    started it.\n\nFlags:\n"
        .to_owned();
    for (name, _, effect) in FLAGS {
        if let Followed(help) = effect {
            text.push_str(&format!("  --{name}\n    {help}\n"));
        }
    }
    text.push_str("\nAccepted without effect:\n");
    for (name, _, effect) in FLAGS {
        if *effect == Ignored {
            text.push_str(&format!("  --{name}\n"));
        }
    }
    text
}

/// Name and value of a flag.
fn split(argument: &OsStr) -> Result<(String, Option<OsString>), StandInFlagError> {
    let bytes = argument.as_bytes();
    let flag = bytes.strip_prefix(b"--").or_else(|| bytes.strip_prefix(b"-"));
    let positional = || StandInFlagError::Positional(argument.to_string_lossy().into_owned());
    let flag = flag.filter(|flag| !flag.is_empty()).ok_or_else(positional)?;
    let mut parts = flag.splitn(2, |byte| *byte == b'=');
    let name = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    Ok((name, parts.next().map(|value| OsString::from_vec(value.to_vec()))))
}

fn known(name: &str) -> Option<(&'static str, FlagForm, FlagEffect)> {
    let name = if name == "h" { HELP } else { name };
    FLAGS.iter().find(|(known, ..)| *known == name).copied()
}

/// Whether a value leaves its flag off.
fn is_off(value: &OsStr) -> bool {
    ["", "0", "f", "F", "false", "False", "FALSE"].iter().any(|off| value == *off)
}

/// `HOST:PORT` of a URL.
fn address(url: &str) -> Result<String, StandInFlagError> {
    let mistaken = || StandInFlagError::Url(url.to_owned());
    let url = url.trim();
    if url.starts_with("https://") {
        return Err(StandInFlagError::NeedsEtcd(format!("{LISTEN}={url}")));
    }
    let address = url.strip_prefix("http://").ok_or_else(mistaken)?.trim_end_matches('/');
    let (host, port) = address.rsplit_once(':').ok_or_else(mistaken)?;
    let whole = !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok();
    if whole { Ok(address.to_owned()) } else { Err(mistaken()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &str) -> Result<StandInCommand, StandInFlagError> {
        parse(arguments.split_whitespace().map(OsString::from))
    }

    fn serve(address: &str, folder: &str) -> Result<StandInCommand, StandInFlagError> {
        Ok(StandInCommand::Serve(StandInFlags {
            addresses: vec![address.into()],
            data_dir: folder.into(),
        }))
    }

    #[test]
    fn flags_of_envtest_are_followed() {
        let flags = "--advertise-client-urls=http://127.0.0.1:40001 --data-dir=/tmp/k8s_test_framework_1 \
                     --listen-client-urls=http://127.0.0.1:40001 --listen-peer-urls=http://127.0.0.1:40002 \
                     --unsafe-no-fsync=true";
        assert_eq!(parsed(flags), serve("127.0.0.1:40001", "/tmp/k8s_test_framework_1"));
    }

    #[test]
    fn syntax_and_defaults_are_those_of_etcd() {
        for (flags, expected) in [
            ("", serve("localhost:2379", "default.etcd")),
            ("-name a --unsafe-no-fsync -log-level debug", serve("localhost:2379", "a.etcd")),
            ("--data-dir d --listen-client-urls http://[::1]:0/", serve("[::1]:0", "d")),
            (
                "--experimental-x=1 --auto-tls=false --cert-file=",
                serve("localhost:2379", "default.etcd"),
            ),
            ("--data-dir=x --help", Ok(StandInCommand::Help)),
            ("-h", Ok(StandInCommand::Help)),
            ("--version", Ok(StandInCommand::Version)),
            ("--nonsense=1", Err(StandInFlagError::Unknown("nonsense".into()))),
            ("--data-dir", Err(StandInFlagError::NoValue("data-dir".into()))),
            ("gateway", Err(StandInFlagError::Positional("gateway".into()))),
            ("--client-cert-auth", Err(StandInFlagError::NeedsEtcd("client-cert-auth".into()))),
            (
                "--listen-client-urls=http://localhost",
                Err(StandInFlagError::Url("http://localhost".into())),
            ),
            (
                "--listen-client-urls=https://localhost:1",
                Err(StandInFlagError::NeedsEtcd("listen-client-urls=https://localhost:1".into())),
            ),
        ] {
            assert_eq!(parsed(flags), expected, "{flags}");
        }
    }

    #[test]
    fn every_accepted_flag_begins_a_line_of_the_help() {
        let help = help();
        let begins = |name: &str| help.lines().any(|line| line.trim() == format!("--{name}"));
        assert!(FLAGS.iter().all(|(name, _, effect)| begins(name) == (*effect != Refused)));
    }
}
