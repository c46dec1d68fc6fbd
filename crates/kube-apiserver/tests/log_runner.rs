//! The program under the name of the reference's log runner.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

fn runner(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-apiserver"));
    command.arg0("/go-runner").args(arguments);
    command
}

fn text(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn output_goes_where_the_flags_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let file = format!("--log-file={}", path.display());
    let shell = ["sh", "-c", "echo out; echo err >&2; exit 3"];
    for (flags, log, stdout, stderr) in [
        (&[][..], "", "out\nerr\n", ""),
        (&["--redirect-stderr=false"], "", "out\n", "err\n"),
        (&[&file], "out\nerr\n", "", ""),
        (&[&file, "--redirect-stderr=false"], "out\n", "", "err\n"),
        (&[&file, "--also-stdout"], "out\nerr\n", "out\nerr\n", ""),
        (&[&file, "--also-stdout", "--redirect-stderr=false"], "out\n", "out\n", "err\n"),
    ] {
        fs::write(&path, "").unwrap();
        let output = runner(&[flags, &shell].concat()).output().unwrap();
        assert_eq!(text(&output), (Some(3), stdout.to_owned(), stderr.to_owned()), "{flags:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), log, "{flags:?}");
    }
}

#[test]
fn the_command_gets_the_signals() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("--log-file={}", folder.path().join("log").display());
    let shell = "trap 'echo stopped; exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let mut child = runner(&[&file, "--also-stdout", "sh", "-c", shell])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut ready = [0; 6];
    stdout.read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("stopped\n", Some(7)));
}

#[test]
fn commands_that_cannot_run_are_told() {
    let (code, _, stderr) = text(&runner(&["/no/such/program"]).output().unwrap());
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("starting command: "), "{stderr}");
    let (code, _, stderr) = text(&runner(&["--log-file=/no/such/log", "true"]).output().unwrap());
    assert_eq!(code, Some(1));
    assert!(stderr.starts_with("failed to create log file /no/such/log: "), "{stderr}");
    assert_eq!(runner(&["--foo", "true"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn the_server_runs_under_it() {
    let server = env!("CARGO_BIN_EXE_kube-apiserver");
    let output = runner(&[server, "--version"]).output().unwrap();
    assert_eq!(text(&output), (Some(0), "Kubernetes v1.36.3+kevel\n".to_owned(), String::new()));
}
