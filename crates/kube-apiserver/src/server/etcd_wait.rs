//! Waiting for etcd before the server starts.
//!
//! The reference waits for 20 s and ends (upstream: `dialTimeout`), to be started again by whatever started it. Here the
//! wait goes on, and the log says for what.

use std::time::Duration;

use kevel_clock::Stopwatch;
use kevel_store::etcd::{Etcd, Unreachable};

use crate::options::Etcd as EtcdFlags;

/// Pause between two attempts.
const TRY_EVERY: Duration = Duration::from_millis(250);
/// Time between two lines of the log about the same wait.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// Waits until any member of a cluster answers; `flag` is the one that names its URLs.
pub async fn wait_for(etcd: &Etcd, flag: &'static str, flags: &EtcdFlags) {
    until_reached(flag, flags, async || etcd.reach().await).await;
}

/// Tries until it succeeds, and says what it waits for.
pub async fn until_reached<T>(
    flag: &'static str,
    flags: &EtcdFlags,
    mut reach: impl AsyncFnMut() -> Result<T, Unreachable>,
) -> T {
    let waiting = Stopwatch::start();
    let mut said: Option<Stopwatch> = None;
    loop {
        match reach().await {
            Ok(reached) => {
                if said.is_some() {
                    tracing::info!(flag, after = ?waiting.elapsed(), "etcd answers");
                }
                return reached;
            }
            Err(unreachable) if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) => {
                say(flag, flags, &unreachable);
                said = Some(Stopwatch::start());
            }
            Err(_) => {}
        }
        tokio::time::sleep(TRY_EVERY).await;
    }
}

fn say(flag: &str, flags: &EtcdFlags, unreachable: &Unreachable) {
    let files = tls_flags(flags);
    if unreachable.members.iter().any(|member| member.is_distrusted) {
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
            "etcd does not answer, trying again until it does or the server is stopped"
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
