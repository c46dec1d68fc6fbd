//! Starts that cannot succeed, or not yet: the log says which flag, file or address it is, and what helps.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use kevel_test_support::process::{etcd_flags, ready};
use kevel_test_support::{Ca, EtcdServer, free_port, program, skip, until, write_pair};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::client::{Client, Version, read};
use crate::disk::Disk;
use crate::{Server, soon};

/// Time in which a user is told what the server waits for: three seconds, on a machine that other tests use too.
const TOLD_WITHIN: Duration = Duration::from_secs(10);
/// Time in which a server that waits ends: a second, on such a machine.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

/// A folder with the keys that a server on etcd is given.
async fn keys() -> TempDir {
    Server::start(&["--storage=memory"]).await.kill().await
}

/// Starts the program; its log is in `folder`.
fn spawn(folder: &Path, port: u16, flags: &[String]) -> Child {
    let log = File::create(folder.join("log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-apiserver"));
    command
        .arg(format!("--data-dir={}", folder.join("data").display()))
        .arg(format!("--secure-port={port}"))
        .arg("--bind-address=127.0.0.1")
        .args(flags)
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true);
    command.spawn().unwrap()
}

/// Waits until the log says something, within the time in which a user is told.
async fn told(folder: &Path, text: &str) -> String {
    let log = || fs::read_to_string(folder.join("log")).unwrap();
    let told = until(async || log().contains(text));
    assert!(tokio::time::timeout(TOLD_WITHIN, told).await.is_ok(), "{text}\n{}", log());
    log()
}

fn terminate(process: &Child) {
    let id = Pid::from_raw(process.id().unwrap() as i32).unwrap();
    kill_process(id, Signal::TERM).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn server_waits_for_etcd_says_so_and_can_be_stopped() {
    let folder = keys().await;
    let url = format!("http://127.0.0.1:{}", free_port());
    let mut process = spawn(folder.path(), free_port(), &etcd_flags(folder.path(), &url));
    let log = told(folder.path(), "etcd does not answer, trying again").await;
    let line = log.lines().find(|line| line.contains("does not answer")).unwrap();
    for part in ["flag=\"--etcd-servers\"", &url, "Connection refused"] {
        assert!(line.contains(part), "{part}\n{line}");
    }
    terminate(&process);
    let ended = tokio::time::timeout(ENDED_WITHIN, process.wait()).await;
    assert!(ended.expect("it does not end").unwrap().success(), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_goes_on_when_etcd_answers() {
    let folder = keys().await;
    let Some(mut etcd) = EtcdServer::start(folder.path()) else { return };
    etcd.kill();
    let port = free_port();
    let _process = spawn(folder.path(), port, &etcd_flags(folder.path(), &etcd.endpoint));
    told(folder.path(), "etcd does not answer, trying again").await;
    etcd.restart();
    until(async || ready(folder.path(), port).await.is_some()).await;
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("\"etcd answers\" flag=\"--etcd-servers\""), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_etcd_is_told_with_flag_of_authority() {
    let folder = keys().await;
    let (ca, other) = (Ca::new("etcd"), Ca::new("other"));
    let mut params = CertificateParams::new(["127.0.0.1".to_string()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    write_pair(folder.path(), "etcd", &ca.issue(params));
    other.write(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let flags =
        [format!("--cert-file={}", file("etcd.crt")), format!("--key-file={}", file("etcd.key"))];
    let Some(etcd) = EtcdServer::start_with(folder.path(), "https", &flags) else { return };
    let mut flags = etcd_flags(folder.path(), &etcd.endpoint);
    flags.push(format!("--etcd-cafile={}", file("ca.crt")));
    let _process = spawn(folder.path(), free_port(), &flags);
    let log = told(folder.path(), "etcd's certificate is not trusted, trying again").await;
    let line = log.lines().find(|line| line.contains("not trusted")).unwrap();
    let cafile = format!("files=\"--etcd-cafile={}\"", file("ca.crt"));
    for part in ["certificate signed by unknown authority", &etcd.endpoint, &cafile] {
        assert!(line.contains(part), "{part}\n{line}");
    }
}

#[tokio::test]
async fn files_that_do_not_do_are_told_with_their_flag() {
    let folder = tempfile::tempdir().unwrap();
    for (name, ca) in [("one", Ca::new("one")), ("other", Ca::new("other"))] {
        let params = CertificateParams::new(["127.0.0.1".to_string()]).unwrap();
        write_pair(folder.path(), name, &ca.issue(params));
    }
    fs::write(folder.path().join("empty.crt"), "").unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key, other) = (file("one.crt"), file("one.key"), file("other.key"));
    for (flags, expected) in [
        (
            vec![format!("--client-ca-file={}", file("none"))],
            format!("--client-ca-file: open {}: no such file or directory", file("none")),
        ),
        (
            vec![format!("--requestheader-client-ca-file={}", file("empty.crt"))],
            format!("--requestheader-client-ca-file: {}: data does not contain", file("empty.crt")),
        ),
        (
            vec![format!("--tls-cert-file={certificate}")],
            "--tls-cert-file is given without --tls-private-key-file".to_owned(),
        ),
        (
            vec![
                format!("--tls-cert-file={certificate}"),
                format!("--tls-private-key-file={other}"),
            ],
            format!(
                "--tls-cert-file={certificate} and --tls-private-key-file={other}: tls: private key does not match"
            ),
        ),
        (
            vec![format!("--tls-sni-cert-key={certificate},{other}:a.example")],
            format!(
                "--tls-sni-cert-key={certificate} and --tls-sni-cert-key={other}: tls: private key"
            ),
        ),
        (
            vec![format!("--etcd-keyfile={key}")],
            "--etcd-keyfile is given without --etcd-certfile".to_owned(),
        ),
        (
            vec![format!("--etcd-certfile={certificate}"), format!("--etcd-keyfile={}", file("."))],
            format!("--etcd-keyfile: open {}: is a directory", file(".")),
        ),
        (
            vec![format!("--token-auth-file={}", file("none"))],
            format!("--token-auth-file: open {}: no such file or directory", file("none")),
        ),
        (
            vec![
                format!("--service-account-key-file={}", file("none")),
                format!("--service-account-signing-key-file={key}"),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            ],
            format!("--service-account-key-file: open {}: no such file or directory", file("none")),
        ),
        (
            vec![format!("--audit-policy-file={}", file("none"))],
            format!("--audit-policy-file: open {}: no such file or directory", file("none")),
        ),
        (
            vec![format!("--proxy-client-cert-file={certificate}")],
            "--proxy-client-cert-file is given without --proxy-client-key-file".to_owned(),
        ),
    ] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let log = Server::refused(folder.path(), &flags).await;
        assert!(log.contains(&expected), "{expected}\n{log}");
        assert!(!folder.path().join("data").exists(), "nothing is made");
    }
}

#[tokio::test]
async fn unusable_address_is_told_with_flag_that_helps() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for (flags, expected) in [
        (
            vec![format!("--secure-port={port}")],
            format!(
                "failed to listen on 127.0.0.1:{port}: Address already in use (os error 98): another process \
                 listens there, choose another port with --secure-port"
            ),
        ),
        (
            vec!["--bind-address=2001:db8::1".to_owned(), "--secure-port=7443".to_owned()],
            "failed to listen on [2001:db8::1]:7443: Cannot assign requested address (os error 99): this machine does \
             not have the address, choose another with --bind-address"
                .to_owned(),
        ),
    ] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let log = Server::refused(folder.path(), &flags).await;
        assert!(log.contains(&expected), "{expected}\n{log}");
    }
}

#[tokio::test]
async fn unusable_data_folder_is_told_with_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let flag = format!("--data-dir={}", file.join("data").display());
    let log = Server::refused(folder.path(), &[&flag]).await;
    let expected = format!("cannot create the folder {}: File exists", file.join("data").display());
    assert!(log.contains(&expected) && log.contains("choose another with --data-dir"), "{log}");
}

#[tokio::test]
async fn places_that_cannot_be_written_are_told_with_their_flag() {
    let folder = keys().await;
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("file"), "").unwrap();
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n";
    fs::write(path("policy"), policy).unwrap();
    let on_etcd = [
        "--etcd-servers=http://127.0.0.1:1".to_owned(),
        format!("--service-account-key-file={}", path("data/pki/sa.pub")),
        format!("--service-account-signing-key-file={}", path("data/pki/sa.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--cert-dir={}", path("file/certificates")),
    ];
    let audited = [
        "--storage=memory".to_owned(),
        format!("--audit-policy-file={}", path("policy")),
        format!("--audit-log-path={}", path("file/audit.log")),
    ];
    for (flags, expected) in [
        (&on_etcd[..], format!("--cert-dir: {}: ", path("file/certificates"))),
        (&audited[..], format!("--audit-log-path={}: ", path("file/audit.log"))),
    ] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let log = Server::refused(folder.path(), &flags).await;
        assert!(log.contains(&expected), "{expected}\n{log}");
    }
}

#[tokio::test]
async fn low_port_is_told_with_the_flag_that_helps() {
    let (Some(unshare), Some(setpriv)) = (program("unshare"), program("setpriv")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(unshare);
    // In a new network, low ports need the capability.
    let output = command
        .arg("--net")
        .arg(setpriv)
        .args(["--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service"])
        .arg(env!("CARGO_BIN_EXE_kube-apiserver"))
        .arg(format!("--data-dir={}", folder.path().join("data").display()))
        .args(["--bind-address=0.0.0.0", "--secure-port=443"])
        .output();
    let log = String::from_utf8(soon(output).await.unwrap().stderr).unwrap();
    if log.contains("unshare:") || log.contains("setpriv:") {
        let root = rustix::process::geteuid().is_root();
        skip(if root { "the right to make networks" } else { "root" });
        return;
    }
    let expected = "failed to listen on 0.0.0.0:443: Permission denied (os error 13): low ports are for privileged \
                    processes, choose another with --secure-port";
    assert!(log.contains(expected), "{log}");
}

#[tokio::test]
async fn full_disk_is_told_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = Server::start_on(folder, &[]).await.kill().await;
    let (data, aside) = (folder.path().join("data"), folder.path().join("aside"));
    fs::rename(data.join("db"), &aside).unwrap();
    let Some(disk) = Disk::mount(&data.join("db")) else { return };
    disk.fill();
    let log = Server::refused(folder.path(), &[]).await;
    let db = data.join("db");
    let said = format!("cannot open the store in {} (--data-dir): ", db.display());
    assert!(log.contains(&said), "{log}");
    assert!(log.contains("is full") || log.contains("No space left on device"), "{log}");
}

#[tokio::test]
async fn store_of_newer_version_is_refused_with_remedy() {
    let server = Server::start(&[]).await;
    server.terminate();
    let (_, folder) = server.ended().await;
    let db = folder.path().join("data/db");
    let file = rusqlite::Connection::open(db.join("kevel.db")).unwrap();
    file.pragma_update(None, "user_version", 2).unwrap();
    drop(file);
    let log = Server::refused(folder.path(), &[]).await;
    let expected = format!(
        "cannot open the store in {} (--data-dir): the data has format 2, this version understands 1: start the \
         version that wrote it, or a newer one",
        db.display()
    );
    assert!(log.contains(&expected), "{expected}\n{log}");
}

#[tokio::test]
async fn ready_line_describes_server_and_build_is_same_everywhere() {
    let server = Server::start(&["--controllers="]).await;
    let ready =
        || server.log().lines().find(|line| line.contains("] \"Ready\" ")).map(str::to_owned);
    until(async || ready().is_some()).await;
    let line = ready().unwrap();
    let path = |name: &str| server.folder.path().join(name).display().to_string();
    for part in [
        "version=\"v1.36.3+kevel\"".to_owned(),
        "storage=\"embedded\"".to_owned(),
        format!("place=\"{}\"", path("data/db")),
        format!("address=\"127.0.0.1:{}\"", server.port),
        "controllers=\"off\"".to_owned(),
        "off=\"authorization,audit,encryption-at-rest\"".to_owned(),
        format!("kubeconfig=\"{}\"", path("data/admin.kubeconfig")),
        "stop=\"SIGTERM or Ctrl-C\"".to_owned(),
    ] {
        assert!(line.contains(&part), "{part}\n{line}");
    }
    assert!(!server.log().contains("export KUBECONFIG"), "this is no terminal");

    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let version = soon(read(client.get("/version").await.unwrap())).await.unwrap();
    let version: serde_json::Value = serde_json::from_slice(&version).unwrap();
    let (commit, date) = (&version["gitCommit"], &version["buildDate"]);
    assert!(!commit.as_str().unwrap().is_empty() && date.as_str().unwrap().ends_with('Z'));
    assert!(line.contains(&format!("commit={commit}")), "{line}");
    let metrics = soon(read(client.get("/metrics").await.unwrap())).await.unwrap();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    let shown = metrics.lines().find(|line| line.starts_with("kubernetes_build_info{")).unwrap();
    assert!(shown.ends_with("} 1"), "{shown}");
    for label in [format!("git_commit={commit}"), format!("build_date={date}")] {
        assert!(shown.contains(&label), "{label}\n{shown}");
    }
}
