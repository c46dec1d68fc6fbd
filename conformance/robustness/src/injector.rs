//! Injection of faults, one after the other, and repair.

use std::path::Path;
use std::time::Duration;

use kevel_test_support::process::etcd_flags;
use rustix::process::Signal;

use crate::client::Clients;
use crate::etcd::Cluster;
use crate::faults::{Kind, Planned};
use crate::history::{Fault, History, HistoryClock};
use crate::server::Server;

/// Flag of a server that compacts all the time.
const COMPACTING: &str = "--etcd-compaction-interval=300ms";
/// Flag of a server that never compacts.
const KEEPING: &str = "--etcd-compaction-interval=0s";
/// Time limit to reach a failpoint, after which the server is killed instead.
const FAILPOINT: Duration = Duration::from_secs(3);
/// Environment variable that arms failpoints (`crates/store/src/failpoint.rs`).
const FAILPOINTS: &str = "KEVEL_FAILPOINTS";

/// Storage of the server.
#[derive(Debug)]
pub enum Storage {
    /// Embedded store, in its folder.
    Embedded,
    /// An etcd cluster.
    Etcd(Cluster),
}

impl Storage {
    /// Starts etcd members, or none for the embedded store; each in a network namespace, if `apart`.
    pub async fn start(members: usize, folder: &Path, apart: bool) -> Result<Storage, String> {
        match members {
            0 => Ok(Storage::Embedded),
            members => Cluster::start(members, folder, apart).await.map(Storage::Etcd),
        }
    }

    /// Flags for the server; `None` for the embedded store.
    pub fn flags(&self, folder: &Path) -> Option<Vec<String>> {
        match self {
            Storage::Embedded => None,
            Storage::Etcd(cluster) => Some(etcd_flags(folder, &cluster.endpoints().join(","))),
        }
    }
}

/// Injects faults.
#[derive(Debug)]
pub struct Injector<'a> {
    /// Clock of the run.
    pub clock: HistoryClock,
    /// The server.
    pub server: &'a mut Server,
    /// Storage of the server.
    pub storage: &'a mut Storage,
    /// Clients of the server.
    pub clients: &'a Clients,
    /// Shim of a failing disk, if it is needed.
    pub shim: Option<&'a Path>,
}

impl Injector<'_> {
    /// Injects all faults of a schedule. An error means that something did not recover.
    pub async fn all(mut self, faults: &[Planned], history: &mut History) -> Result<(), String> {
        for (number, planned) in faults.iter().enumerate() {
            tokio::time::sleep(planned.after).await;
            let armed = matches!(planned.kind, Kind::Failpoint(..) | Kind::Disk(_));
            if let Some(status) = self.server.ended()?.filter(|_| !armed) {
                return Err(format!("the server ended by itself: {status}"));
            }
            let start = self.clock.now();
            let next = faults.get(number + 1);
            let put_in = self.put_in(planned, next, history).await;
            let reached =
                put_in.map_err(|error| format!("after {planned}, fault {number}: {error}"))?;
            let not = if reached { "" } else { ", not reached: kill -9" };
            let (end, what) = (self.clock.now(), format!("{}{not}", planned.kind));
            history.faults.push(Fault { start, end, what });
        }
        // A moment without faults.
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok(())
    }

    async fn put_in(
        &mut self,
        planned: &Planned,
        next: Option<&Planned>,
        history: &mut History,
    ) -> Result<bool, String> {
        let mut reached = true;
        match &planned.kind {
            Kind::Kill => self.server.kill().await?,
            // Armed at the start of the server, and has had its time.
            Kind::Disk(_) => self.server.kill().await?,
            Kind::Terminate => self.server.terminate().await?,
            Kind::Failpoint(..) => {
                // Armed at the start of the server.
                reached = self.server.wait(FAILPOINT).await?;
                if !reached {
                    self.server.kill().await?;
                }
            }
            Kind::Pause => {
                self.server.signal(Signal::STOP)?;
                tokio::time::sleep(planned.lasts).await;
                return self.server.signal(Signal::CONT).map(|()| true);
            }
            Kind::ClientKill => {
                self.clients.kill(planned.member);
                return Ok(true);
            }
            kind => return self.in_etcd(kind, planned).await.map(|()| true),
        }
        // Requests that it had sent to etcd may still take effect.
        if matches!(self.storage, Storage::Embedded) {
            history.deaths.push(self.clock.now());
        }
        self.start_again(planned, next).await.map(|()| reached)
    }

    /// Restarts the server, armed for the next fault.
    async fn start_again(
        &mut self,
        planned: &Planned,
        next: Option<&Planned>,
    ) -> Result<(), String> {
        let next = next.map(|next| &next.kind);
        let mut compacting = planned.compacting;
        let armed = match (next, self.shim) {
            (Some(Kind::Failpoint(name, times)), _) => {
                compacting |= name.contains("compact") || name.contains("sweep");
                vec![(FAILPOINTS, format!("{name}=abort:{times}"))]
            }
            (Some(Kind::Disk(what)), Some(shim)) => vec![
                ("LD_PRELOAD", shim.display().to_string()),
                ("KEVEL_SHIM_DIR", self.server.store().display().to_string()),
                ("KEVEL_SHIM_FAIL", what.clone()),
            ],
            _ => Vec::new(),
        };
        let flag = if compacting { COMPACTING } else { KEEPING };
        let started = self.server.start_again(&[flag.to_owned()], &armed).await;
        if armed.is_empty() {
            return started.map(|_| ());
        }
        // Some failpoints come before it is ready.
        match self.server.ended()? {
            Some(_) => Ok(()),
            None => started.map(|_| ()),
        }
    }

    async fn in_etcd(&mut self, kind: &Kind, planned: &Planned) -> Result<(), String> {
        let Storage::Etcd(cluster) = &mut *self.storage else {
            return Err(format!("there is no etcd for {kind}"));
        };
        cluster.fault(kind, planned.member, planned.lasts).await
    }
}
