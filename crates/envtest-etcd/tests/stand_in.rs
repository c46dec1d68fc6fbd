//! The program: answers, its folder, and its end.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use kevel_clock::Stopwatch;
use kevel_envtest_etcd::{ANSWER, END, QUESTION};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Limit of every wait: far more than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program on a port that the system chooses, killed when dropped.
struct StandIn {
    process: Child,
    address: String,
    _log: BufReader<ChildStderr>,
}

impl StandIn {
    fn start(data_dir: &Path, more: &[&str]) -> StandIn {
        let mut process = command(data_dir).args(more).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        StandIn { process, address: address(&line), _log: log }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Response to a request that is not an API server's; empty if the connection is closed or reset.
    fn ask(&self, request: &str) -> String {
        let (mut stream, mut response) = (self.connect(), String::new());
        let written = stream.write_all(request.as_bytes());
        let _ = written.and_then(|()| stream.read_to_string(&mut response));
        response
    }

    /// Connection of an API server, and the folder that it is given.
    fn hold(&self) -> (TcpStream, String) {
        let mut stream = self.connect();
        stream.write_all(QUESTION.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut answer = Vec::new();
        reader.read_until(END, &mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let folder = answer.strip_prefix(ANSWER).unwrap().trim_end_matches('\0');
        (stream, folder.to_owned())
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kevel-etcd"));
    command.arg("--listen-client-urls=http://127.0.0.1:0").arg("--data-dir").arg(data_dir);
    command
}

/// Address in the first line of the log.
fn address(line: &str) -> String {
    let (_, rest) = line.split_once("http://").unwrap_or_else(|| panic!("no address: {line}"));
    rest.split(',').next().unwrap().to_owned()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Stopwatch::start();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn requests_are_answered_as_by_etcd() {
    let folder = tempfile::tempdir().unwrap();
    let stand_in = StandIn::start(folder.path(), &["--unsafe-no-fsync=true"]);
    for (request, status, body) in [
        ("GET /health", "200 OK", r#"{"health":"true","reason":""}"#),
        ("GET /readyz?verbose", "200 OK", "ok\n"),
        ("GET /version", "200 OK", r#""etcdcluster":"3.6.0","#),
        ("GET /metrics", "404 Not Found", "404 page not found\n"),
        ("POST /health", "405 Method Not Allowed", "Method Not Allowed\n"),
    ] {
        let response = stand_in.ask(&format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(response.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {response}");
        assert!(response.contains(body), "{request}: {response}");
    }
    // Neither ends it: a request without end, and a client of etcd.
    assert_eq!(stand_in.ask(&"x".repeat(20_000)), "");
    assert_eq!(stand_in.ask("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "");
    assert!(stand_in.ask("GET /health HTTP/1.1\r\n\r\n").contains("true"));
}

#[test]
fn api_server_is_held_until_the_stand_in_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut stand_in = StandIn::start(&folder.path().join("data"), &[]);
    let (mut stream, store) = stand_in.hold();
    assert_eq!(Path::new(&store), folder.path().canonicalize().unwrap().join("data/kevel"));
    assert!(Path::new(&store).is_dir());
    let pid = Pid::from_child(&stand_in.process);
    kill_process(pid, Signal::TERM).unwrap();
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    let begun = Stopwatch::start();
    stand_in.process.wait().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn killed_parent_takes_stand_in_and_temporary_folder_along() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("k8s_test_framework_1");
    let log = folder.path().join("log");
    // A shell between this process and the program, which is killed as a test may be.
    let script = r#""$0" "$@" 2>"$LOG" & echo $!; wait"#;
    let mut shell = Command::new("sh")
        .args([
            "-c",
            script,
            env!("CARGO_BIN_EXE_kevel-etcd"),
            "--listen-client-urls=http://127.0.0.1:0",
        ])
        .arg(format!("--data-dir={}", data_dir.display()))
        .env("LOG", &log)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    until("it serves", || fs::read_to_string(&log).unwrap_or_default().contains("stand-in"));
    assert!(data_dir.join("kevel").is_dir());
    shell.kill().unwrap();
    shell.wait().unwrap();
    until("it ends", || test_kill_process(pid).is_err());
    assert!(!data_dir.exists());
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("etcd/member")).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("--listen-client-urls=http://{}", taken.local_addr().unwrap());
    for (arguments, expected) in [
        (vec!["--data-dir=etcd"], "holds the data of a real etcd"),
        (vec!["--nonsense"], "flag provided but not defined: -nonsense"),
        (vec!["--trusted-ca-file=ca.crt"], "--trusted-ca-file needs a real etcd"),
        (vec!["--data-dir=data", &taken], "Address already in use"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kevel-etcd"));
        let output = command.args(&arguments).current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn help_and_version_end_well() {
    for (flag, expected) in
        [("--help", "\n  --unsafe-no-fsync\n"), ("--version", "etcd Version: 3.6.8\n")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_kevel-etcd")).arg(flag).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains(expected), "{flag}");
    }
}
