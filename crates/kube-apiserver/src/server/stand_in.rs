//! Stand-in for etcd that controller tests start (`crates/envtest-etcd`), behind `--etcd-servers`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use kevel_envtest_etcd::{ANSWER, END, QUESTION};
use kevel_server::egress::{EgressSelector, EgressType};
use kevel_store::Engine;
use kevel_store::embedded::{self, Durability, Embedded};
use kevel_store::etcd::{SilentMember, Unreachable};
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::etcd_wait::{EtcdAway, until_reached};
use crate::options::{CompletedOptions, StorageKind};

/// Time for the answer. A stand-in and an etcd answer within a millisecond; an etcd that takes longer than this is
/// waited for anyway.
const ANSWER_TIME: Duration = Duration::from_secs(3);

/// Longest answer: a path of the system has at most 4 KiB.
const ANSWER_BYTES: usize = 8 << 10;

/// Port of a URL without one.
const HTTP_PORT: u16 = 80;

/// The stand-in whose store a server uses, with the connection that tells of its end.
#[derive(Debug)]
pub struct StandIn {
    /// URL, as the flag has it.
    url: String,
    /// Folder of the store.
    folder: PathBuf,
    connection: TcpStream,
}

/// The stand-in has ended, and with it the test that started it.
#[derive(Debug, Error)]
#[error("the stand-in for etcd at {0} has ended: this server ends with it")]
pub struct StandInGone(String);

/// Reason why the stand-in's store cannot be opened.
#[derive(Debug, Error)]
pub enum StandInError {
    /// Another server uses the stand-in's folder.
    #[error(
        "another kube-apiserver runs on the stand-in for etcd at {0}, which takes one at a time: stop it, or start a \
         real etcd for several"
    )]
    Taken(String),
    /// The store does not open.
    #[error("the stand-in for etcd at {0}: {1}")]
    Store(String, kevel_store::Error),
}

impl StandIn {
    /// Asks the etcd of the flags whether it is a stand-in, once something listens there. Only one plain URL on loopback
    /// can be; everything else is not asked.
    pub async fn find(
        options: &CompletedOptions,
        egress: &EgressSelector,
    ) -> Result<Option<StandIn>, EtcdAway> {
        let etcd = &options.flags.etcd;
        let [url] = etcd.etcd_servers.0.as_slice() else { return Ok(None) };
        let may_be = options.storage == StorageKind::Etcd
            && etcd.etcd_servers_overrides.is_empty()
            && egress.dialer(EgressType::Etcd).is_direct();
        let Some(address) = on_loopback(url).filter(|_| may_be) else { return Ok(None) };
        let answer = until_reached("--etcd-servers", etcd, async || {
            match timeout(ANSWER_TIME, ask(&address)).await {
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    Err(refused(url, &error))
                }
                // Whatever else goes wrong is told by the etcd engine, which connects next.
                answer => Ok(answer.ok().and_then(Result::ok).flatten()),
            }
        });
        let found = answer.await?;
        Ok(found.map(|(connection, folder)| StandIn { url: url.clone(), folder, connection }))
    }

    /// Opens its store, without syncs: the data is a test's.
    pub fn open(&self, options: embedded::Options) -> Result<Arc<dyn Engine>, StandInError> {
        let options = embedded::Options { durability: Durability::Process, ..options };
        let opened = Embedded::open(&self.folder, options).map_err(|error| match error {
            kevel_store::Error::Locked(_) => StandInError::Taken(self.url.clone()),
            error => StandInError::Store(self.url.clone(), error),
        })?;
        tracing::info!(
            url = self.url,
            folder = %self.folder.display(),
            "--etcd-servers leads to Kevel's stand-in for etcd: objects are kept in memory and in its folder, and are \
             not synced. This server ends with it"
        );
        Ok(Arc::new(opened))
    }
}

/// Waits until the stand-in has ended; for ever if there is none.
pub async fn gone(stand_in: Option<StandIn>) -> StandInGone {
    let Some(mut stand_in) = stand_in else { return std::future::pending().await };
    let mut buffer = [0; 64];
    while matches!(stand_in.connection.read(&mut buffer).await, Ok(1..)) {}
    StandInGone(stand_in.url)
}

fn refused(url: &str, error: &io::Error) -> Unreachable {
    let (url, why) = (url.to_owned(), error.to_string());
    Unreachable { members: vec![SilentMember { url, why, is_distrusted: false }] }
}

/// `HOST:PORT` of a plain URL that leads to this machine.
fn on_loopback(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    if uri.scheme_str() != Some("http") {
        return None;
    }
    let host = uri.host()?;
    let address: Option<std::net::IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let is_loopback = address.map_or(host == "localhost", |address| address.is_loopback());
    is_loopback.then(|| format!("{host}:{}", uri.port_u16().unwrap_or(HTTP_PORT)))
}

/// The folder that a stand-in names, and the connection; `None` if something else answers.
async fn ask(address: &str) -> io::Result<Option<(TcpStream, PathBuf)>> {
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(QUESTION.as_bytes()).await?;
    let mut answer = Vec::new();
    while is_begun(&answer) && answer.last() != Some(&END) && answer.len() < ANSWER_BYTES {
        if connection.read_buf(&mut answer).await? == 0 {
            break;
        }
    }
    let folder = answer.strip_prefix(ANSWER.as_bytes()).and_then(|rest| rest.strip_suffix(&[END]));
    let folder = folder.map(|path| PathBuf::from(OsString::from_vec(path.to_vec())));
    Ok(folder.filter(|folder| folder.is_absolute()).map(|folder| (connection, folder)))
}

/// Whether the bytes so far may become the answer of a stand-in.
fn is_begun(answer: &[u8]) -> bool {
    answer.iter().zip(ANSWER.as_bytes()).all(|(said, expected)| said == expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_urls_on_loopback_are_asked() {
        for (url, expected) in [
            ("http://127.0.0.1:2379", Some("127.0.0.1:2379")),
            ("http://localhost:2379/", Some("localhost:2379")),
            ("http://[::1]:1", Some("[::1]:1")),
            ("http://127.9.9.9", Some("127.9.9.9:80")),
            ("https://127.0.0.1:2379", None),
            ("http://10.0.0.1:2379", None),
            ("http://etcd:2379", None),
            ("127.0.0.1:2379", None),
            ("", None),
        ] {
            assert_eq!(on_loopback(url).as_deref(), expected, "{url}");
        }
    }
}
