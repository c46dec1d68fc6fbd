//! Waiting for etcd before the server starts.
//!
//! As the reference, the server gives up after 20 s (upstream: `dialTimeout`), to be started again by whatever started it.
//! The log says at once what it waits for.

use std::time::Duration;

use kevel_clock::Stopwatch;
use kevel_store::etcd::{Etcd, Unreachable};

use crate::options::Etcd as EtcdFlags;

/// Pause between two attempts.
const TRY_EVERY: Duration = Duration::from_millis(250);
/// Time between two lines of the log about the same wait.
const SAY_EVERY: Duration = Duration::from_secs(5);
/// Time after which the server gives up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);

/// etcd has not answered in time.
#[derive(Debug, thiserror::Error)]
#[error("{flag}: etcd has not answered within {GIVE_UP_AFTER:?}: {unreachable}")]
pub struct EtcdAway {
    flag: &'static str,
    unreachable: Unreachable,
}

/// Waits until any member of a cluster answers; `flag` is the one that names its URLs.
pub async fn wait_for(etcd: &Etcd, flag: &'static str, flags: &EtcdFlags) -> Result<(), EtcdAway> {
    until_reached(flag, flags, async || etcd.reach().await).await.map(drop)
}

/// Retries until success or timeout, and logs the reason of the wait.
pub async fn until_reached<T>(
    flag: &'static str,
    flags: &EtcdFlags,
    mut reach: impl AsyncFnMut() -> Result<T, Unreachable>,
) -> Result<T, EtcdAway> {
    let waiting = Stopwatch::start();
    // When the last line was written, and whether it was about a certificate: another reason is said at once.
    let mut said: Option<(Stopwatch, bool)> = None;
    loop {
        match reach().await {
            Ok(reached) => {
                if said.is_some() {
                    tracing::info!(flag, after = ?waiting.elapsed(), "etcd answers");
                }
                return Ok(reached);
            }
            Err(unreachable) if waiting.elapsed() >= GIVE_UP_AFTER => {
                return Err(EtcdAway { flag, unreachable });
            }
            Err(unreachable) => {
                let distrusted = is_distrusted(&unreachable);
                if said.is_none_or(|(at, of)| at.elapsed() >= SAY_EVERY || of != distrusted) {
                    say(flag, flags, &unreachable);
                    said = Some((Stopwatch::start(), distrusted));
                }
            }
        }
        tokio::time::sleep(TRY_EVERY).await;
    }
}

/// Whether the certificate of a member is not trusted.
fn is_distrusted(unreachable: &Unreachable) -> bool {
    unreachable.members.iter().any(|member| member.is_distrusted)
}

fn say(flag: &str, flags: &EtcdFlags, unreachable: &Unreachable) {
    let files = tls_flags(flags);
    if is_distrusted(unreachable) {
        tracing::error!(
            flag,
            err = %unreachable,
            files,
            "etcd's certificate is not trusted, trying again: is --etcd-cafile the authority that signed it?"
        );
    } else {
        tracing::error!(
            flag,
            err = %unreachable,
            files,
            "etcd does not answer, trying again"
        );
    }
}

/// The flags of the files that a connection by TLS depends on.
fn tls_flags(flags: &EtcdFlags) -> String {
    let files = [
        ("--etcd-cafile", &flags.etcd_cafile),
        ("--etcd-certfile", &flags.etcd_certfile),
        ("--etcd-keyfile", &flags.etcd_keyfile),
    ];
    let given = files.iter().filter(|(_, path)| !path.is_empty());
    given.map(|(flag, path)| format!("{flag}={path}")).collect::<Vec<_>>().join(" ")
}
