//! A machine without IPv4, and a server that a person starts at a terminal there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kevel_test_support::{program, skip, until};
use tokio::process::{Child, Command as Spawn};

use crate::soon;

/// Makes `::1` the only address, and runs the rest.
const WITHOUT_IPV4: &str =
    r#"ip link set lo up && ip address delete 127.0.0.1/8 dev lo && exec "$@""#;

/// A server in a network of its own without IPv4, at a terminal.
struct Isolated {
    process: Child,
    output: PathBuf,
}

impl Isolated {
    /// `None` where this process may not make networks, or lacks a program for it.
    fn start(folder: &Path) -> Option<Isolated> {
        let (unshare, script) = (program("unshare")?, program("script")?);
        program("ip")?;
        if !Command::new(&unshare).args(["--net", "true"]).output().unwrap().status.success() {
            let root = rustix::process::geteuid().is_root();
            skip(if root { "the right to make networks" } else { "root" });
            return None;
        }
        let output = folder.join("terminal");
        let server = format!(
            "exec '{}' --data-dir='{}'",
            env!("CARGO_BIN_EXE_kube-apiserver"),
            folder.join("data").display()
        );
        let mut command = Spawn::new(unshare);
        command
            .args(["--net", "sh", "-c", WITHOUT_IPV4, "sh"])
            .arg(script)
            .args(["-qefc", &server])
            .arg(&output)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        Some(Isolated { process: command.spawn().unwrap(), output })
    }

    /// Output of the server on its terminal.
    fn terminal(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// Runs a program in the server's network.
    fn run(&self, program: &Path, arguments: &[&str]) -> (bool, String) {
        let id = self.process.id().unwrap().to_string();
        let mut command = Command::new("nsenter");
        let output = command.args(["-t", &id, "-n"]).arg(program).args(arguments).output().unwrap();
        (output.status.success(), format!("{output:?}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_ipv4_has_a_kubeconfig_that_works() {
    let folder = tempfile::tempdir().unwrap();
    let Some(kubectl) = program("kubectl") else { return };
    let Some(server) = Isolated::start(folder.path()) else { return };
    until(async || server.terminal().contains("To stop it: Ctrl-C")).await;
    let kubeconfig = folder.path().join("data/admin.kubeconfig").display().to_string();
    let said = server.terminal();
    assert!(said.contains(&format!("To use it:  export KUBECONFIG={kubeconfig}")), "{said}");
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    assert!(text.contains("server: https://[::1]:6443\n"), "{text}");
    let flag = format!("--kubeconfig={kubeconfig}");
    let (ok, output) = server.run(&kubectl, &[&flag, "get", "service", "kubernetes"]);
    assert!(ok && output.contains("fd00:10:96::1"), "{output}\n{said}");
    drop(server);
}

#[tokio::test]
async fn kubeconfig_names_the_address_that_is_listened_on() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        skip("IPv6");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(kubectl) = program("kubectl") else { return };
    let mut process = Spawn::new(env!("CARGO_BIN_EXE_kube-apiserver"));
    let port = kevel_test_support::free_port();
    process
        .arg(format!("--data-dir={}", folder.path().join("data").display()))
        .args(["--bind-address=::1", "--storage=memory", &format!("--secure-port={port}")])
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut process = process.spawn().unwrap();
    let kubeconfig = folder.path().join("data/admin.kubeconfig");
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    until(async || {
        let mut command = Command::new(&kubectl);
        command.args([&flag, "get", "namespace", "default"]).output().unwrap().status.success()
    })
    .await;
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    assert!(text.contains(&format!("server: https://[::1]:{port}\n")), "{text}");
    soon(process.kill()).await.unwrap();
}
