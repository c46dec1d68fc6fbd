//! Faults, and the schedule by which they come.

use std::fmt;
use std::time::Duration;

use crate::dice::Dice;

/// A kind of fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The server ends by SIGKILL and starts again on its data.
    Kill,
    /// The server is stopped for a while (SIGSTOP, SIGCONT).
    Pause,
    /// The server is told to stop and starts again.
    Terminate,
    /// The server aborts the n-th time it comes to a place in its code, and starts again.
    Failpoint(&'static str, u64),
    /// Calls to the server's disk fail for a while, as the shim is told; then it ends by SIGKILL.
    Disk(String),
    /// A client ends by SIGKILL, maybe in the middle of a request, and another takes its place.
    ClientKill,
    /// A member of etcd ends by SIGKILL and starts again.
    EtcdKill,
    /// The same, of the member that leads.
    EtcdKillLeader,
    /// A member of etcd is stopped for a while.
    EtcdPause,
    /// The others cannot reach a member of etcd for a while, and it cannot reach them.
    EtcdPartition,
    /// The cable of a member of etcd is pulled: what is sent to it, and what it sends, is lost in silence.
    EtcdUnplug,
    /// The disk of a member of etcd is slow for a while: each sync takes longer than a heartbeat.
    EtcdSlowDisk,
    /// Everything but the present is compacted away.
    EtcdCompact,
    /// A member of etcd writes its database anew.
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
    /// What.
    pub kind: Kind,
    /// How long everything works before it.
    pub after: Duration,
    /// How long it lasts, where it lasts.
    pub lasts: Duration,
    /// Which member, or client, of several.
    pub member: usize,
    /// Whether the server that starts afterwards compacts all the time.
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
    // What fails, how, and before which call it begins: there are several writes to a sync.
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

/// More than there are clients: which one it is, is the rest.
const MANY: u64 = 1000;
/// The longest that everything works between two faults. Short, so that faults meet recovery, too.
const MAX_AFTER_MS: u64 = 900;

/// So many faults of these kinds, by chance.
pub fn schedule(seed: u64, kinds: &[Kind], count: usize, members: usize) -> Vec<Planned> {
    let mut dice = Dice::of(seed, 0);
    let mut planned = Vec::new();
    for number in 0..count {
        // Each kind in turn: all come equally often.
        let Some(kind) = kinds.get(number % kinds.len().max(1)) else { break };
        let kind = match kind {
            Kind::Failpoint(name, most) => Kind::Failpoint(name, dice.between(1, *most)),
            Kind::Disk(_) => disk(&mut dice),
            kind => kind.clone(),
        };
        let after = match dice.roll(4) {
            // A disk needs time to fail, and the store to go on afterwards.
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
