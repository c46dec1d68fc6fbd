//! Rows of the trust table with running servers: the outcome of each use is compared with Go's verdict.

use std::path::Path;

use futures_util::StreamExt as _;
use futures_util::stream;

use super::{Presenter, TrustRow};
use crate::until;

/// Number of cells that are tried concurrently.
const CONCURRENCY: usize = 8;

/// Row of the table, with a server that presents its chain.
#[derive(Debug)]
pub struct TrustCell {
    /// The row.
    pub row: TrustRow,
    /// The server.
    pub peer: Presenter,
}

impl TrustCell {
    /// Starts the server of a row; `answer` makes the response to a path and a body.
    pub async fn start(
        row: TrustRow,
        answer: impl Fn(&str, &[u8]) -> String + Send + Sync + 'static,
    ) -> Self {
        let peer = Presenter::answering(row.certified_key(), &["http/1.1"], answer).await;
        TrustCell { row, peer }
    }

    /// Starts the servers of several rows.
    pub async fn all(
        rows: impl IntoIterator<Item = TrustRow>,
        answer: impl Fn(&str, &[u8]) -> String + Clone + Send + Sync + 'static,
    ) -> Vec<Self> {
        let mut cells = Vec::new();
        for row in rows {
            cells.push(TrustCell::start(row, answer.clone()).await);
        }
        cells
    }

    /// URL of the server by the row's host, which must resolve to loopback.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}:{}{path}", self.row.host, self.peer.address.port())
    }

    /// Trusted certificates of the row, in base64 as in objects.
    pub fn ca_bundle(&self) -> String {
        kevel_codec::base64::encode(self.row.roots.as_bytes()).to_string()
    }

    /// Writes a kubeconfig file for a path of the server; returns the file's name.
    pub fn kubeconfig(&self, folder: &Path, path: &str) -> String {
        let (address, host, ca) = (self.peer.address, &self.row.host, self.ca_bundle());
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster:\n    \
             server: https://{address}{path}\n    tls-server-name: '{host}'\n    \
             certificate-authority-data: {ca}\n\
             contexts:\n- name: x\n  context: {{cluster: c}}\ncurrent-context: x\n"
        );
        let file = folder.join(format!("{}{}", self.row.name, path.replace('/', "-")));
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    /// Compares an attempt with Go's verdict: it succeeded, or the client got this message.
    pub async fn judge(&self, refusal: Option<&str>) {
        let name = &self.row.name;
        assert_eq!(refusal.is_none(), self.row.server.is_trusted(), "{name}: {refusal:?}");
        if let Some(error) = refusal {
            assert!(error.contains("tls: failed to verify certificate: x509: "), "{name}: {error}");
            assert!(self.row.server.is_told_by(error), "{name}: {error}");
        }
        self.judge_connection().await;
    }

    /// Compares the server's view with Go's verdict: a refused server is dialled, but gets no request.
    pub async fn judge_connection(&self) {
        let (name, peer) = (&self.row.name, &self.peer);
        match self.row.server.is_trusted() {
            true => assert_eq!((peer.requests() > 0, peer.refusals()), (true, 0), "{name}"),
            false => {
                until(async || peer.refusals() > 0).await;
                assert_eq!(peer.requests(), 0, "{name}");
            }
        }
    }
}

/// Tries all cells, several concurrently; returns their number.
pub async fn each<T>(cells: &[T], attempt: impl AsyncFn(&T)) -> usize {
    let attempts = stream::iter(cells).map(|cell| attempt(cell));
    attempts.buffer_unordered(CONCURRENCY).count().await
}
