//! Proxies between members of etcd, which can be closed.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::Receiver;
use tokio::task::JoinHandle;

/// Limit on a request head: longer than any of a member.
const HEAD: usize = 8192;

/// Current partition.
#[derive(Debug, Default, Clone)]
pub struct Cut {
    /// Member IDs, which members send in requests.
    pub ids: Vec<u64>,
    /// Index of the member that is cut off in both directions.
    pub member: Option<usize>,
}

impl Cut {
    fn closes(&self, from: Option<u64>, to: usize) -> bool {
        self.member
            .is_some_and(|cut| cut == to || from.is_some_and(|id| self.ids.get(cut) == Some(&id)))
    }
}

/// Proxy in front of one member.
#[derive(Debug)]
pub struct Proxy(JoinHandle<()>);

impl Proxy {
    /// Forwards connections from a port.
    pub async fn start(
        member: usize,
        outside: u16,
        inside: u16,
        cut: Receiver<Cut>,
    ) -> Result<Proxy, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, outside)).await;
        let listener = listener.map_err(|error| error.to_string())?;
        Ok(Proxy(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, member, inside, cut.clone()));
            }
        })))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn pass(
    mut stream: TcpStream,
    member: usize,
    inside: u16,
    mut cut: Receiver<Cut>,
) -> Option<()> {
    let head = head(&mut stream).await?;
    let from = sender(&head);
    if cut.borrow_and_update().closes(from, member) {
        return None;
    }
    let mut target = TcpStream::connect((Ipv4Addr::LOCALHOST, inside)).await.ok()?;
    target.write_all(&head).await.ok()?;
    tokio::select! {
        _ = copy_bidirectional(&mut stream, &mut target) => {}
        _ = cut.wait_for(|cut| cut.closes(from, member)) => {}
    }
    Some(())
}

/// Head of the first request.
async fn head(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while head.len() < HEAD && !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// Member ID of a request's sender.
fn sender(head: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(head).to_lowercase();
    let id = text.lines().find_map(|line| line.strip_prefix("x-server-from:"))?;
    u64::from_str_radix(id.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_cut_off_both_ways() {
        let from = sender(b"GET /raft/stream/msgappv2/1 HTTP/1.1\r\nX-Server-From: ff\r\n\r\n");
        assert_eq!(from, Some(255));
        let cut = Cut { ids: vec![255, 7, 8], member: Some(0) };
        assert!(cut.closes(from, 1) && cut.closes(Some(7), 0));
        assert!(!cut.closes(Some(7), 2) && !Cut { member: None, ..cut }.closes(from, 1));
    }
}
