//! Streams of kubectl: exec, attach, port-forward, cp, logs.

use std::io::Write as _;
use std::process::{Output, Stdio};

use kevel_test_support::{program, soon, until};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::{Node, PODS, backend, hostile, reachable, start};

/// The variables by which kubectl is told not to speak WebSocket.
const SPDY: [(&str, &str); 2] =
    [("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false"), ("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false")];
const WEBSOCKETS: [(&str, &str); 2] =
    [("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "true"), ("KUBECTL_PORT_FORWARD_WEBSOCKETS", "true")];

impl Node {
    fn kubectl(&self, protocol: [(&str, &str); 2], arguments: &[&str]) -> Option<Command> {
        let mut command = Command::new(program("kubectl")?);
        command.arg("--kubeconfig").arg(self.cluster.server.kubeconfig_path()).args(arguments);
        command.env("HOME", self.cluster.folder.path()).envs(protocol);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        Some(command)
    }

    /// Output of kubectl, and its exit code.
    async fn run_kubectl(&self, protocol: [(&str, &str); 2], what: &[&str]) -> (i32, String) {
        let output = soon(self.kubectl(protocol, what).unwrap().output()).await.unwrap();
        let Output { status, stdout, stderr } = output;
        let printed = [stdout, stderr].concat();
        (status.code().unwrap_or(-1), String::from_utf8_lossy(&printed).into_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_reads_logs_and_runs_commands() {
    if program("kubectl").is_none() {
        return;
    }
    let node = start(&[]).await;
    let (code, log) = node.run_kubectl(WEBSOCKETS, &["logs", "p", "--tail=3"]).await;
    assert_eq!((code, &*log), (0, "/containerLogs/default/p/c?tailLines=3\n"));
    for protocol in [WEBSOCKETS, SPDY] {
        let exec = async |command: &[&str]| {
            node.run_kubectl(protocol, &[&["exec", "p", "--"], command].concat()).await
        };
        assert_eq!(exec(&["echo", "a", "b"]).await, (0, "a b\n".to_owned()));
        assert_eq!(exec(&["complain", "oh"]).await, (0, "oh".to_owned()));
        let (code, told) = exec(&["exit", "7"]).await;
        assert_eq!((code, &*told), (7, "command terminated with exit code 7\n"));
        let (code, told) = exec(&["nonsense"]).await;
        assert!(code == 1 && told.contains("executable file not found"), "{code} {told}");

        let mut command = node.kubectl(protocol, &["exec", "-i", "p", "--", "cat"]).unwrap();
        let mut input = tempfile::tempfile().unwrap();
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
        input.write_all(&sent).unwrap();
        std::io::Seek::rewind(&mut input).unwrap();
        command.stdin(input);
        let output = soon(command.output()).await.unwrap();
        assert!(output.stdout == sent, "{} bytes", output.stdout.len());
    }
    until(async || node.kubelet.connections() == 0).await;
    node.cluster.stop().await;
}

/// kubectl speaks HTTP/2, which says elsewhere what the server is called.
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_asks_pods_through_the_proxy() {
    let (Some(_), Some(address)) = (program("kubectl"), reachable()) else { return };
    let node = start(&[]).await;
    let address = backend::start(address).await;
    hostile::create_web(&node, address.ip()).await;
    let path = format!("{PODS}/web:{}/proxy/x?y=z", address.port());
    let (code, told) = node.run_kubectl(WEBSOCKETS, &["get", "--raw", &path]).await;
    assert_eq!(code, 0, "{told}");
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["uri"], "/x?y=z");
    let host = format!("host: 127.0.0.1:{}", node.cluster.server.address().port());
    assert!(told["headers"].to_string().contains(&host), "{told}");
    node.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_forwards_ports() {
    if program("kubectl").is_none() {
        return;
    }
    let node = start(&[]).await;
    let running = json!({"status": {"phase": "Running"}}).to_string();
    node.cluster.ok("admin", &format!("PATCH {PODS}/p/status"), &running).await;
    for protocol in [WEBSOCKETS, SPDY] {
        let mut command = node.kubectl(protocol, &["port-forward", "pod/p", ":8080"]).unwrap();
        let mut kubectl = command.spawn().unwrap();
        let mut lines = BufReader::new(kubectl.stdout.take().unwrap()).lines();
        let line = soon(lines.next_line()).await.unwrap().unwrap();
        let address = line.strip_prefix("Forwarding from ").unwrap().split(' ').next().unwrap();
        for _ in 0..3 {
            let mut port = soon(TcpStream::connect(address)).await.unwrap();
            port.write_all(b"hello").await.unwrap();
            port.shutdown().await.unwrap();
            let mut heard = String::new();
            soon(port.read_to_string(&mut heard)).await.unwrap();
            assert_eq!(heard, "hello");
        }
        kubectl.kill().await.unwrap();
        until(async || node.kubelet.connections() == 0).await;
    }
    node.cluster.stop().await;
}

/// A file goes there and comes back, by the `tar` of this machine.
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_copies_files() {
    if program("kubectl").is_none() || program("tar").is_none() {
        return;
    }
    let node = start(&[]).await;
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|number| (number >> 3) as u8).collect();
    std::fs::write(path("here"), &sent).unwrap();
    for (round, protocol) in [WEBSOCKETS, SPDY].into_iter().enumerate() {
        let (there, back) = (path(&format!("there-{round}")), path(&format!("back-{round}")));
        let up = node.run_kubectl(protocol, &["cp", &path("here"), &format!("p:{there}")]).await;
        assert_eq!(up.0, 0, "{}", up.1);
        assert!(std::fs::read(&there).unwrap() == sent);
        let down = node.run_kubectl(protocol, &["cp", &format!("p:{there}"), &back]).await;
        assert_eq!(down.0, 0, "{}", down.1);
        assert!(std::fs::read(&back).unwrap() == sent);
    }
    until(async || node.kubelet.connections() == 0).await;
    node.cluster.stop().await;
}
