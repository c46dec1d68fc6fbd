//! The command line.

use std::path::{Path, PathBuf};

use crate::control_plane::{Component, ControlPlane, Server, etcd_program};
use crate::flags::ExtraFlags;
use crate::namespaces::{self, Namespaces};
use crate::store::StoreKind;
use crate::{
    Result, diff, e2e, graphs, integration, kms, kubelet, matrix, metrics, peers, random, rolling,
    rules, services, stored, swap,
};

const USAGE: &str = "usage: conformance COMMAND
  up reference|kevel [--with controllers,scheduler,nodes|node] [--etcd]
  down [reference|kevel]
  in reference|kevel PROGRAM [ARGUMENT...]
  nodes FOLDER [--count N]
  diff [--record | --recorded | --expect] [--store embedded|etcd] [TOPIC...]
  matrix [--record | --recorded] [--store embedded|etcd]
  random [--record | --recorded] [--store embedded|etcd] [--seed N] [--n N] [--all-gates] [--flag FLAG]...
  rules [--recorded] [--store embedded|etcd] [FILE...]
  e2e reference|kevel [--limit SECONDS] [--jobs N] [--skip-done] [--all] [--beyond] [FOCUS]
  integration [--quick] [--record] [--tests REGEX] [--limit SECONDS] [--jobs N] [PACKAGE...]
  graphs [--kills] [--seed N] [--n N]
  swap [--encrypted] [--all-gates] [--flag FLAG]...
  stored [--all-gates] [--flag FLAG]...
  rolling reference|kevel [--rounds N]
  services reference|kevel [--servers N] [--count N]
  peers
  kms
  metrics [--store embedded|etcd]
KEVEL_APISERVER names the Kevel to use instead of target/release/kube-apiserver.";

/// Runs a command; false if a check failed.
pub async fn run(arguments: Vec<String>) -> Result<bool> {
    let mut arguments = Arguments(arguments);
    match arguments.word().as_deref() {
        Some("up") => {
            let server = arguments.server()?;
            let with = arguments.option("--with").unwrap_or_default();
            let etcd = arguments.switch("--etcd");
            up(server, &with, etcd).await
        }
        Some("down") => {
            let only = arguments.word();
            let all = Server::ALL.into_iter();
            for server in
                all.filter(|server| only.as_deref().is_none_or(|name| name == server.name()))
            {
                ControlPlane::end(&server.folder())?;
            }
            Ok(true)
        }
        Some("in") => {
            let server = arguments.server()?;
            let namespaces =
                node_of(server).ok_or("there is no node: conformance up --with node")?;
            let (program, arguments) = arguments.0.split_first().ok_or(USAGE)?;
            namespaces.run(Path::new(program), arguments)
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
            let Some(store) = arguments.store()? else { return Ok(true) };
            diff::run(mode, store, &arguments.0).await
        }
        Some("matrix") => {
            let mode = match (arguments.switch("--record"), arguments.switch("--recorded")) {
                (true, _) => matrix::Mode::Record,
                (false, true) => matrix::Mode::Recorded,
                (false, false) => matrix::Mode::Both,
            };
            let Some(store) = arguments.store()? else { return Ok(true) };
            matrix::run(mode, store).await
        }
        Some("e2e") => {
            let server = arguments.server()?;
            if let Some(namespaces) = node_of(server).filter(|_| !namespaces::is_inside()) {
                return namespaces.run_again();
            }
            let plan = e2e::Plan {
                limit: arguments.number("--limit", 60)?,
                jobs: arguments.number("--jobs", 3)?,
                skip_done: arguments.switch("--skip-done"),
                all: arguments.switch("--all"),
                beyond: arguments.switch("--beyond"),
                focus: arguments.word().unwrap_or_default(),
            };
            e2e::run(server, plan).await
        }
        Some("graphs") => {
            let kills = arguments.switch("--kills");
            let seed = arguments.number("--seed", random::SEED)?;
            if kills {
                graphs::with_kills(seed, arguments.number("--n", 200)?).await
            } else {
                graphs::compare(seed, arguments.number("--n", 1000)?).await
            }
        }
        Some("integration") => {
            let mut plan = integration::IntegrationPlan {
                quick: arguments.switch("--quick"),
                record: arguments.switch("--record"),
                tests: arguments.option("--tests"),
                limit: arguments.number("--limit", 120)?,
                jobs: arguments.number("--jobs", 3)?,
                packages: Vec::new(),
            };
            plan.packages = arguments.0;
            integration::run(plan).await
        }
        Some("random") => {
            let mode = match (arguments.switch("--record"), arguments.switch("--recorded")) {
                (true, _) => random::Mode::Record,
                (false, true) => random::Mode::Recorded,
                (false, false) => random::Mode::Both,
            };
            let seed = arguments.number("--seed", random::SEED)?;
            let count = arguments.number("--n", random::COUNT)?;
            let Some(store) = arguments.store()? else { return Ok(true) };
            random::run(mode, store, seed, count, arguments.flags()).await
        }
        Some("rules") => {
            let recorded = arguments.switch("--recorded");
            let Some(store) = arguments.store()? else { return Ok(true) };
            match recorded {
                true => rules::compare(store, &arguments.0).await,
                false => rules::record(&arguments.0).await,
            }
        }
        Some("services") => {
            let server = arguments.server()?;
            let servers = arguments.number("--servers", 3)?;
            services::run(server, servers, arguments.number("--count", 2000)?).await
        }
        Some("kms") => kms::run().await,
        Some("metrics") => {
            let Some(store) = arguments.store()? else { return Ok(true) };
            metrics::run(store).await
        }
        Some("peers") => peers::run().await,
        Some("rolling") => {
            let server = arguments.server()?;
            rolling::run(server, arguments.number("--rounds", 1)?).await
        }
        Some("swap") => {
            let encrypted = arguments.switch("--encrypted");
            swap::run(encrypted, arguments.flags()).await
        }
        Some("stored") => stored::run(arguments.flags()).await,
        _ => Err(USAGE.into()),
    }
}

async fn up(server: Server, with: &str, etcd: bool) -> Result<bool> {
    let parse = |name| Component::parse(name).ok_or_else(|| format!("no component {name}"));
    let components: Vec<_> = with
        .split(',')
        .filter(|name| !name.is_empty())
        .map(parse)
        .collect::<std::result::Result<_, _>>()?;
    let node = components.contains(&Component::Node);
    if node && !namespaces::is_inside() {
        ControlPlane::clear(&server.folder())?;
        return Namespaces::make(&server.folder().join("node"))?.run_again();
    }
    let mut plane = ControlPlane::prepare(&server.folder())?;
    let took = plane.start_server(server, etcd || server == Server::Reference).await?;
    println!("{} is ready after {took:.1?}; logs in {}", server.name(), plane.folder.display());
    for component in components {
        plane.start(component).await?;
    }
    match node {
        true => println!("node1 is ready: conformance in {} kubectl get nodes", server.name()),
        false => println!("export KUBECONFIG={}", plane.kubeconfig().display()),
    }
    Ok(true)
}

/// Namespaces of a running server with a real node.
fn node_of(server: Server) -> Option<Namespaces> {
    Namespaces::open(&server.folder().join("node"))
}

/// Remaining arguments of the command line.
struct Arguments(Vec<String>);

impl Arguments {
    /// Next argument that is not a flag.
    fn word(&mut self) -> Option<String> {
        let place = self.0.iter().position(|argument| !argument.starts_with("--"))?;
        Some(self.0.remove(place))
    }

    fn server(&mut self) -> Result<Server> {
        let name = self.word().ok_or(USAGE)?;
        Server::parse(&name).ok_or_else(|| USAGE.into())
    }

    /// Store of the compared Kevel; `None` if its program is missing on this machine, which has been reported.
    fn store(&mut self) -> Result<Option<StoreKind>> {
        let store = match self.option("--store") {
            Some(name) => {
                StoreKind::parse(&name).ok_or_else(|| format!("--store: no store {name}"))?
            }
            None => StoreKind::default(),
        };
        let at_hand = store == StoreKind::Embedded || etcd_program().is_some();
        Ok(at_hand.then_some(store))
    }

    /// Additional flags of both servers.
    fn flags(&mut self) -> ExtraFlags {
        let all_gates = self.switch("--all-gates");
        ExtraFlags::new(std::iter::from_fn(|| self.option("--flag")).collect(), all_gates)
    }

    fn switch(&mut self, name: &str) -> bool {
        let place = self.0.iter().position(|argument| argument == name);
        place.map(|place| self.0.remove(place)).is_some()
    }

    /// Value of `--name value` or `--name=value`.
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
