//! The program, run.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let program = env!("CARGO_BIN_EXE_kube-apiserver");
    let output: Output = Command::new(program).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn it_tells_its_version() {
    let plain = "Kubernetes v1.36.3+kevel\n";
    for arguments in [&["--version"][..], &["--version=true"], &["--version", "--secure-port=0"]] {
        assert_eq!(run(arguments), (Some(0), plain.to_owned(), String::new()));
    }
    let (code, stdout, _) = run(&["--version=raw"]);
    assert_eq!(code, Some(0));
    assert!(stdout.starts_with("version.Info{Major:\"1\", Minor:\"36\", "), "{stdout}");
    assert!(stdout.contains("GitVersion:\"v1.36.3+kevel\""), "{stdout}");
    for unknown in ["GitCommit:\"\"", "BuildDate:\"\""] {
        assert!(!stdout.contains(unknown), "{stdout}");
    }
}

#[test]
fn it_refuses_what_it_cannot_read() {
    for (arguments, message) in [
        (&["--foo"][..], "unknown flag: --foo"),
        (&["--etcd-server=http://a"], "unknown flag: --etcd-server\ndid you mean --etcd-servers?"),
        (&["--secure_prot", "1"], "unknown flag: --secure_prot\ndid you mean --secure-port?"),
        (
            &["--storage=embeded"],
            "invalid argument \"embeded\" for \"--storage\" flag: must be one of embedded, memory, etcd\n\
             did you mean embedded?",
        ),
        (&["dev"], "\"kube-apiserver\" does not take any arguments, got [\"dev\"]"),
        (
            &["--storage=memory", "check"],
            "\"kube-apiserver\" does not take any arguments, got [\"check\"]",
        ),
        (
            &["--storage=memory", "store"],
            "\"kube-apiserver\" does not take any arguments, got [\"store\"]",
        ),
        (
            &["serve", "now"],
            "\"kube-apiserver\" does not take any arguments, got [\"serve\" \"now\"]",
        ),
        (&["--", "--help"], "\"kube-apiserver\" does not take any arguments, got [\"--help\"]"),
        (
            &["--profiling", "false"],
            "\"kube-apiserver\" does not take any arguments, got [\"false\"]",
        ),
    ] {
        let refused = (Some(1), String::new(), format!("Error: {message}\n"));
        assert_eq!(run(arguments), refused, "{arguments:?}");
    }
}

#[test]
fn it_helps() {
    for arguments in [&["--help"][..], &["-h"], &["--help", "stray"], &["-hv2"]] {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(stdout.contains("\nUsage:\n  kube-apiserver [flags]\n"), "{stdout}");
    }
}

#[test]
fn it_logs_why_it_does_not_start() {
    for (arguments, message) in [
        (
            &["--feature-gates=Foo=true"][..],
            "\"command failed\" err=\"unrecognized feature gate: Foo\"",
        ),
        (
            &["--logging-format=xml"],
            "\"command failed\" err=\"format: Invalid value: \\\"xml\\\": Unsupported log format\"",
        ),
        (
            &["--encryption-provider-config=/no/such/file", "--storage=memory"],
            "\"command failed\" err=\"error while parsing file: error while loading file: error \
             reading encryption provider configuration file \\\"/no/such/file\\\": open \
             /no/such/file: no such file or directory\"",
        ),
        (
            &["--goaway-chance=1", "--secure-port=0"],
            "\"command failed\" err=\"[--goaway-chance can not be less than 0 or greater than 0.02, \
             --secure-port 0 must be between 1 and 65535, inclusive. It cannot be turned off with \
             0]\"",
        ),
    ] {
        let (code, _, stderr) = run(arguments);
        let last = stderr.lines().last().unwrap();
        assert_eq!(code, Some(1), "{stderr}");
        assert!(last.starts_with('E') && last.ends_with(&format!("] {message}")), "{stderr}");
    }
    let (_, _, stderr) = run(&["--logging-format=json", "--goaway-chance=1"]);
    let last: serde_json::Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
    assert_eq!(last["msg"], "command failed");
    assert_eq!(last["err"], "--goaway-chance can not be less than 0 or greater than 0.02");
}

#[test]
fn wrong_names_are_told_with_those_that_were_meant() {
    for (argument, meant, refusal) in [
        (
            "--feature-gates=ComponentFlags=true",
            "\"Did you mean ComponentFlagz?\" flag=\"--feature-gates\" name=\"ComponentFlags\"",
            "unrecognized feature gate: ComponentFlags",
        ),
        (
            "--authorization-mode=Node,RBCA",
            "\"Did you mean RBAC?\" flag=\"--authorization-mode\" name=\"RBCA\"",
            "authorization-mode \\\"RBCA\\\" is not a valid mode",
        ),
        (
            "--enable-admission-plugins=PodSecurtiy",
            "\"Did you mean PodSecurity?\" flag=\"--enable-admission-plugins\" name=\"PodSecurtiy\"",
            "enable-admission-plugins plugin \\\"PodSecurtiy\\\" is unknown",
        ),
    ] {
        let (code, _, stderr) = run(&[argument, "--storage=memory"]);
        let lines: Vec<&str> = stderr.lines().rev().take(2).collect();
        assert_eq!(code, Some(1), "{stderr}");
        assert!(lines[1].ends_with(meant), "{stderr}");
        // The reference's message is the last one, and unchanged.
        assert!(lines[0].ends_with(&format!("] \"command failed\" err=\"{refusal}\"")), "{stderr}");
    }
}

#[test]
fn it_tells_what_flags_it_was_given() {
    // A mistake, so that it does not serve.
    let mistake = "--secure-port=0";
    let shown = "] FLAG: --secure-port=\"0\"\n";
    let (_, _, quiet) = run(&[mistake]);
    let (_, _, loud) = run(&[mistake, "-v=1"]);
    assert!(!quiet.contains("FLAG:") && loud.contains(shown), "{loud}");
    assert!(loud.contains("] FLAG: --etcd-servers=\"[]\"\n"), "{loud}");
    let (_, _, warned) = run(&[mistake, "--admission-control=Priority"]);
    let deprecated = "Flag --admission-control has been deprecated, Use --enable-admission-plugins \
                      or --disable-admission-plugins instead. Will be removed in a future \
                      version.\n";
    assert!(warned.starts_with(deprecated), "{warned}");
}
