//! Memory of an idle stream. Alone in its process, as it measures the process's memory.

#![allow(clippy::unwrap_used)]

mod common;

use common::{soon, translated, until};
use kevel_streaming::channel::{STDIN, STDOUT};
use kevel_streaming::testing::Kubelet;
use kevel_streaming::translator::Options;

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Commands that have sent output and wait. Client, translator and kubelet are all in this process, so this is more
/// than the server's share.
#[tokio::test]
async fn an_idle_command_costs_less_than_forty_kilobytes() {
    const SESSIONS: usize = 300;
    let kubelet = Kubelet::start().await.unwrap();
    let address = kubelet.address.to_string();
    let options = Options { stdin: true, stdout: true, stderr: true, tty: false };
    let mut sessions = Vec::new();
    let mut before = 0;
    // The first sessions warm up caches.
    for index in 0..SESSIONS + 50 {
        if index == 50 {
            before = resident();
        }
        let path = "exec/default/pod/c?command=cat";
        let (mut client, translation) = translated(&address, path, options, None).await;
        client.say(STDIN, &[b'x'; 20_000]).await.unwrap();
        let echoed = |heard: &[Vec<u8>]| heard[usize::from(STDOUT)].len() == 20_000;
        soon("an echo", client.converse(b"", echoed)).await.unwrap();
        client.forget();
        sessions.push((client, translation));
    }
    until("all of them", || kubelet.connections() == SESSIONS + 50).await;
    let each = (resident().saturating_sub(before)) / SESSIONS;
    eprintln!("{each} bytes for each idle command: client, translator and kubelet together");
    assert!(each < 40 << 10, "{each}");
}
