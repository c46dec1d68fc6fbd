//! Clients that ask without end, in a process of their own.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use kevel_conformance::Result;
use kevel_conformance::client::{Client, Request};
use kevel_conformance::control_plane::ControlPlane;
use serde_json::{Value, json};

use crate::setup::GREEDY;

/// The first argument of this program as a flood.
pub const COMMAND: &str = "flood";
/// Delay after a failed connection.
const RETRY: Duration = Duration::from_millis(100);

/// Kind of flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// One user lists all Pods.
    Lists,
    /// Anonymous clients list all Pods.
    Anonymous,
    /// One user watches all Pods, reads the initial state, and starts again.
    Watches,
}

const FLOODS: [(Flood, &str); 3] =
    [(Flood::Lists, "lists"), (Flood::Anonymous, "anonymous"), (Flood::Watches, "watches")];

/// A flood that is under way.
pub struct Flooding(Child);

impl Flooding {
    pub fn start(plane: &ControlPlane, flood: Flood, clients: usize) -> Result<Self> {
        let name = FLOODS.iter().find(|(known, _)| *known == flood).map_or("", |(_, name)| name);
        // Clients of a real flood have machines of their own. Here they take what the server leaves: niceness is not
        // enough for that, since Linux lets a process that was just chosen run until the next tick, 4 ms away.
        let child = Command::new("chrt")
            .args(["--idle", "0"])
            .arg(std::env::current_exe()?)
            .args([COMMAND, name])
            .arg(plane.folder.join("pki"))
            .args([plane.port.to_string(), clients.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Flooding(child))
    }

    /// Ends it; what it was answered.
    pub fn stop(mut self) -> Result<Value> {
        // The end of its input is the sign.
        drop(self.0.stdin.take());
        let mut said = String::new();
        if let Some(output) = self.0.stdout.take() {
            BufReader::new(output).read_line(&mut said)?;
        }
        self.0.wait()?;
        Ok(serde_json::from_str(&said)?)
    }
}

#[derive(Default)]
struct Counts {
    served: AtomicU64,
    refused: AtomicU64,
    forbidden: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
}

/// Floods until the input ends: `flood KIND CREDENTIALS PORT CLIENTS`.
pub async fn run(arguments: &[String]) -> Result<()> {
    let [_, kind, credentials, port, clients] = arguments else {
        return Err("flood KIND CREDENTIALS PORT CLIENTS".into());
    };
    let flood = FLOODS.iter().find(|(_, name)| name == kind).ok_or("no such flood")?.0;
    let (port, clients): (u16, usize) = (port.parse()?, clients.parse()?);
    let counts = Arc::new(Counts::default());
    for _ in 0..clients {
        let client = Client::anonymous(Path::new(credentials), port, 1)?;
        let counts = counts.clone();
        tokio::spawn(async move {
            loop {
                if ask(&client, flood, &counts).await.is_err() {
                    counts.failed.fetch_add(1, Relaxed);
                    tokio::time::sleep(RETRY).await;
                }
            }
        });
    }
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    let Counts { served, refused, forbidden, failed, bytes } = &*counts;
    let said = json!({
        "served": served.load(Relaxed), "refused": refused.load(Relaxed),
        "forbidden": forbidden.load(Relaxed), "failed": failed.load(Relaxed),
        "bytes": bytes.load(Relaxed),
    });
    println!("{said}");
    Ok(())
}

/// Asks, and reads all that is answered, without keeping it.
async fn ask(client: &Client, flood: Flood, counts: &Counts) -> Result<()> {
    let path = match flood {
        Flood::Lists | Flood::Anonymous => "/api/v1/pods?resourceVersion=0",
        // It ends when there was time to read the state.
        Flood::Watches => "/api/v1/pods?watch=1&timeoutSeconds=1",
    };
    let mut request = Request::get(path);
    if flood != Flood::Anonymous {
        request = request.with_header("authorization", &format!("Bearer {GREEDY}"));
    }
    let mut answer = client.watch(request).await?;
    while let Some(bytes) = answer.chunk().await? {
        counts.bytes.fetch_add(bytes.len() as u64, Relaxed);
    }
    let count = match answer.code {
        200 => &counts.served,
        429 => &counts.refused,
        403 => &counts.forbidden,
        code => return Err(format!("{code}").into()),
    };
    count.fetch_add(1, Relaxed);
    Ok(())
}
