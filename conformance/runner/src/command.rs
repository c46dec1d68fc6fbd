//! The command line.

use std::path::PathBuf;

use crate::control_plane::{Component, ControlPlane, Server};
use crate::{Result, diff, e2e, kubelet, matrix, rules, swap};

const USAGE: &str = "usage: conformance COMMAND
  up reference|kevel [--with controllers,scheduler,nodes] [--etcd]
  down [reference|kevel]
  nodes FOLDER [--count N]
  diff [--record | --recorded | --expect] [TOPIC...]
  matrix [--record | --recorded]
  rules [FILE...]
  e2e reference|kevel [--limit SECONDS] [--jobs N] [--skip-done] [--all] [FOCUS]
  swap
KEVEL_APISERVER names the Kevel to use instead of target/release/kube-apiserver.";

/// Runs a command; whether it found everything well.
pub async fn run(arguments: Vec<String>) -> Result<bool> {
    let mut arguments = Arguments(arguments);
    match arguments.word().as_deref() {
        Some("up") => {
            let server = arguments.server()?;
            let with = arguments.option("--with").unwrap_or_default();
            let etcd = arguments.switch("--etcd");
            up(server, &with, etcd).await?;
            Ok(true)
        }
        Some("down") => {
            let only = arguments.word();
            let all = Server::ALL.into_iter();
            for server in
                all.filter(|server| only.as_deref().is_none_or(|name| name == server.name()))
            {
                if let Ok(mut plane) = ControlPlane::open(&server.folder()) {
                    plane.stop_all()?;
                }
            }
            Ok(true)
        }
        Some("nodes") => {
            let count = arguments.number("--count", kubelet::NODES)?;
            let folder = PathBuf::from(arguments.word().ok_or(USAGE)?);
            kubelet::run(ControlPlane::open(&folder)?.client(4)?, count).await?;
            Ok(true)
        }
        Some("diff") => {
            let mode = match (arguments.switch("--record"), arguments.switch("--recorded")) {
                (true, _) => diff::Mode::Record,
                (false, true) => diff::Mode::Recorded,
                (false, false) if arguments.switch("--expect") => diff::Mode::Expect,
                (false, false) => diff::Mode::Both,
            };
            diff::run(mode, &arguments.0).await
        }
        Some("matrix") => {
            let mode = match (arguments.switch("--record"), arguments.switch("--recorded")) {
                (true, _) => matrix::Mode::Record,
                (false, true) => matrix::Mode::Recorded,
                (false, false) => matrix::Mode::Both,
            };
            matrix::run(mode).await
        }
        Some("e2e") => {
            let server = arguments.server()?;
            let plan = e2e::Plan {
                limit: arguments.number("--limit", 60)?,
                jobs: arguments.number("--jobs", 3)?,
                skip_done: arguments.switch("--skip-done"),
                all: arguments.switch("--all"),
                focus: arguments.word().unwrap_or_default(),
            };
            e2e::run(server, plan).await
        }
        Some("rules") => rules::run(&arguments.0).await,
        Some("swap") => swap::run().await,
        _ => Err(USAGE.into()),
    }
}

async fn up(server: Server, with: &str, etcd: bool) -> Result<()> {
    let parse = |name| Component::parse(name).ok_or_else(|| format!("no component {name}"));
    let components: Vec<_> = with
        .split(',')
        .filter(|name| !name.is_empty())
        .map(parse)
        .collect::<std::result::Result<_, _>>()?;
    let mut plane = ControlPlane::prepare(&server.folder())?;
    let took = plane.start_server(server, etcd || server == Server::Reference).await?;
    println!("{} is ready after {took:.1?}; logs in {}", server.name(), plane.folder.display());
    for component in components {
        plane.start(component)?;
    }
    println!("export KUBECONFIG={}", plane.kubeconfig().display());
    Ok(())
}

/// What is left of the command line.
struct Arguments(Vec<String>);

impl Arguments {
    /// The next one that is not a flag.
    fn word(&mut self) -> Option<String> {
        let place = self.0.iter().position(|argument| !argument.starts_with("--"))?;
        Some(self.0.remove(place))
    }

    fn server(&mut self) -> Result<Server> {
        let name = self.word().ok_or(USAGE)?;
        Server::parse(&name).ok_or_else(|| USAGE.into())
    }

    fn switch(&mut self, name: &str) -> bool {
        let place = self.0.iter().position(|argument| argument == name);
        place.map(|place| self.0.remove(place)).is_some()
    }

    /// `--name value` or `--name=value`.
    fn option(&mut self, name: &str) -> Option<String> {
        let begins = |argument: &String| argument.split('=').next() == Some(name);
        let place = self.0.iter().position(begins)?;
        let argument = self.0.remove(place);
        match argument.split_once('=') {
            Some((_, value)) => Some(value.to_owned()),
            None => (place < self.0.len()).then(|| self.0.remove(place)),
        }
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str, default: T) -> Result<T> {
        match self.option(name) {
            Some(value) => {
                value.parse().map_err(|_| format!("{name}: not a number: {value}").into())
            }
            None => Ok(default),
        }
    }
}
