//! Faults, and their schedule.

use std::fmt;
use std::time::Duration;

use crate::dice::Dice;

/// A kind of fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The server is killed (SIGKILL) and restarted on its data.
    Kill,
    /// The server is stopped for a while (SIGSTOP, SIGCONT).
    Pause,
    /// The server is terminated (SIGTERM) and restarted.
    Terminate,
    /// The server aborts when it reaches a failpoint for the n-th time, and is restarted.
    Failpoint(&'static str, u64),
    /// Disk calls of the server fail for a while, by the shim; then it is killed.
    Disk(String),
    /// A client is killed, perhaps in the middle of a request, and another takes its place.
    ClientKill,
    /// A member of etcd is killed and restarted.
    EtcdKill,
    /// The leader of etcd is killed and restarted.
    EtcdKillLeader,
    /// A member of etcd is stopped for a while.
    EtcdPause,
    /// A member of etcd is partitioned from the others for a while.
    EtcdPartition,
    /// A member of etcd is unplugged: packets in both directions are lost silently.
    EtcdUnplug,
    /// A member of etcd has a slow disk for a while: each sync takes longer than a heartbeat.
    EtcdSlowDisk,
    /// All old revisions are compacted.
    EtcdCompact,
    /// A member of etcd defragments its database.
    EtcdDefragment,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Kill => f.write_str("kill -9"),
            Kind::Pause => f.write_str("SIGSTOP"),
            Kind::Terminate => f.write_str("SIGTERM"),
            Kind::Failpoint(name, _) => write!(f, "failpoint {name}"),
            Kind::Disk(what) => {
                let words: Vec<&str> = what.split(':').collect();
                let name = |place: usize| words.get(place).copied().unwrap_or_default();
                write!(f, "disk {} {}", name(0), name(2))
            }
            Kind::ClientKill => f.write_str("client kill -9"),
            Kind::EtcdKill => f.write_str("etcd kill -9"),
            Kind::EtcdKillLeader => f.write_str("etcd leader kill -9"),
            Kind::EtcdPause => f.write_str("etcd SIGSTOP"),
            Kind::EtcdPartition => f.write_str("etcd partition"),
            Kind::EtcdUnplug => f.write_str("etcd unplugged"),
            Kind::EtcdSlowDisk => f.write_str("etcd slow disk"),
            Kind::EtcdCompact => f.write_str("etcd compaction"),
            Kind::EtcdDefragment => f.write_str("etcd defragmentation"),
        }
    }
}

/// A fault with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Kind of fault.
    pub kind: Kind,
    /// Time without faults before it.
    pub after: Duration,
    /// Duration, if it has one.
    pub lasts: Duration,
    /// Index of the member or client.
    pub member: usize,
    /// Whether the restarted server compacts all the time.
    pub compacting: bool,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{}ms {}", self.after.as_millis(), self.kind)?;
        match &self.kind {
            Kind::Pause
            | Kind::EtcdPause
            | Kind::EtcdPartition
            | Kind::EtcdUnplug
            | Kind::EtcdSlowDisk => write!(f, " for {}ms", self.lasts.as_millis()),
            Kind::Failpoint(_, times) => write!(f, " at the {times}. time"),
            Kind::Disk(what) => write!(f, " ({what})"),
            _ => Ok(()),
        }
    }
}

/// A disk that fails from some call on, for a number of calls.
fn disk(dice: &mut Dice) -> Kind {
    // Failing call, error, and the call before which it begins: there are several writes per sync.
    const FAILURES: &[(&str, &str, u64)] = &[
        ("write", "enospc", 600),
        ("write", "eio", 600),
        ("write", "short", 600),
        ("sync", "eio", 100),
        ("sync", "slow", 60),
        ("write", "slow", 300),
        ("truncate", "eio", 2),
        ("read", "estale", 1500),
    ];
    let (what, how, before) = dice.pick(FAILURES).copied().unwrap_or(("sync", "eio", 100));
    let (from, times) = (dice.between(1, before), dice.between(1, 40));
    Kind::Disk(format!("{what}:{from}:{how}:{times}"))
}

/// More than the number of clients: the client is the remainder.
const MANY: u64 = 1000;
/// Longest time without faults between two of them. Short, so that faults also hit recovery.
const MAX_AFTER_MS: u64 = 900;

/// Random faults of these kinds.
pub fn schedule(seed: u64, kinds: &[Kind], count: usize, members: usize) -> Vec<Planned> {
    let mut dice = Dice::of(seed, 0);
    let mut planned = Vec::new();
    for number in 0..count {
        // Each kind in turn, so that all are equally frequent.
        let Some(kind) = kinds.get(number % kinds.len().max(1)) else { break };
        let kind = match kind {
            Kind::Failpoint(name, most) => Kind::Failpoint(name, dice.between(1, *most)),
            Kind::Disk(_) => disk(&mut dice),
            kind => kind.clone(),
        };
        let after = match dice.roll(4) {
            // A disk needs time to fail, and the store to recover.
            _ if matches!(kind, Kind::Disk(_)) => dice.between(1000, 3000),
            0 => dice.between(5, 80),
            _ => dice.between(80, MAX_AFTER_MS),
        };
        planned.push(Planned {
            after: Duration::from_millis(after),
            lasts: Duration::from_millis(dice.between(50, 1500)),
            member: match kind {
                Kind::ClientKill => dice.roll(MANY) as usize,
                _ => dice.roll(members.max(1) as u64) as usize,
            },
            compacting: dice.chance(12),
            kind,
        });
    }
    planned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_schedule() {
        let kinds = [Kind::Kill, Kind::Pause];
        let one = schedule(5, &kinds, 50, 1);
        assert_eq!(one, schedule(5, &kinds, 50, 1));
        assert_ne!(one, schedule(6, &kinds, 50, 1));
        assert_eq!(one.iter().filter(|planned| planned.kind == Kind::Kill).count(), 25);
    }
}
