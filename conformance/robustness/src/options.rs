//! The command line.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Usage text.
pub const USAGE: &str = "\
usage: robustness [--short]                 everything, in a minute: what CI runs
       robustness embedded [OPTION...]      traffic and faults on the embedded store
       robustness etcd [OPTION...]          the same on etcd
       robustness disk [OPTION...]          every write, sync and truncation of the embedded store fails once
       robustness power [OPTION...]         the embedded store after a power loss at every sync
options: --seed N       repeats a run's choices
         --faults N     how many faults (or writes, for disk and power)
         --kinds A,B    only these: kill, pause, terminate, client-kill, disk, failpoints (of a server that was built
                        with `--features failpoints`); for etcd also
                        etcd-kill, etcd-leader, etcd-pause, etcd-partition, etcd-unplug, etcd-slow-disk
                        (needs strace), etcd-compact, etcd-defragment
         --clients N, --watchers N, --keys N, --pause MILLISECONDS
         --members N    of etcd: 1 or 3
         --namespaces   each member in a network namespace, whose cable can be pulled (root)
         --min-rate N   operations per second that must be answered
         --stride N     only every N-th position of the disk
         --first N      from the N-th position on: a long run of the disk in parts
         --output DIR   where a history goes that breaks a promise (target/robustness)
KEVEL_APISERVER names the server: target/release/kube-apiserver, else target/debug/kube-apiserver.";

/// Options of the command line.
#[derive(Debug, Clone)]
pub struct Options {
    /// First word; `short` without one.
    pub command: String,
    /// Further words that are no options.
    pub words: Vec<String>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of faults, if given.
    pub faults: Option<usize>,
    /// Names of kinds of faults; all if empty.
    pub kinds: Vec<String>,
    /// Number of clients.
    pub clients: usize,
    /// Number of watchers.
    pub watchers: usize,
    /// Number of objects.
    pub keys: usize,
    /// Pause of a client after an operation, in milliseconds.
    pub pause: u64,
    /// Number of etcd members.
    pub members: usize,
    /// Whether each member has a network namespace.
    pub namespaces: bool,
    /// Lowest number of operations per second.
    pub min_rate: f64,
    /// Interval of the tried positions of a failing disk.
    pub stride: usize,
    /// First position of a failing disk.
    pub first: usize,
    /// Folder of histories.
    pub output: PathBuf,
}

impl Options {
    /// Parses the command line.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut options = Options {
            command: String::new(),
            words: Vec::new(),
            seed: now.as_millis() as u64 % 1_000_000_000,
            faults: None,
            kinds: Vec::new(),
            clients: 6,
            watchers: 6,
            keys: 4,
            pause: 0,
            members: 1,
            namespaces: false,
            min_rate: 20.0,
            stride: 1,
            first: 1,
            output: PathBuf::from("target/robustness"),
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let (name, given) = match argument.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (argument, None),
            };
            if name == "--short" {
                options.command = "short".to_owned();
                continue;
            }
            if name == "--namespaces" {
                options.namespaces = true;
                continue;
            }
            if !name.starts_with("--") {
                match options.command.is_empty() {
                    true => options.command = name,
                    false => options.words.push(name),
                }
                continue;
            }
            let value = given.or_else(|| arguments.next());
            let value = value.ok_or_else(|| format!("{name} needs a value"))?;
            options.set(&name, &value)?;
        }
        if options.command.is_empty() {
            options.command = "short".to_owned();
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
            value.parse().map_err(|_| format!("{name} is a number, not {value}"))
        }
        match name {
            "--seed" => self.seed = number(name, value)?,
            "--faults" => self.faults = Some(number(name, value)?),
            "--kinds" => self.kinds = value.split(',').map(str::to_owned).collect(),
            "--clients" => self.clients = number(name, value)?,
            "--watchers" => self.watchers = number(name, value)?,
            "--keys" => self.keys = number::<usize>(name, value)?.max(1),
            "--pause" => self.pause = number(name, value)?,
            "--members" => self.members = number::<usize>(name, value)?.max(1),
            "--min-rate" => self.min_rate = number(name, value)?,
            "--stride" => self.stride = number::<usize>(name, value)?.max(1),
            "--first" => self.first = number::<usize>(name, value)?.max(1),
            "--output" => self.output = PathBuf::from(value),
            _ => return Err(format!("there is no {name}")),
        }
        Ok(())
    }
}
