//! Command line of `kube-apiserver store`.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let program = env!("CARGO_BIN_EXE_kube-apiserver");
    let output: Output = Command::new(program).arg("store").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn usage_names_all_verbs() {
    let (code, stdout, stderr) = run(&["--help"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    for verb in ["check", "backup", "restore", "defragment", "export", "import"] {
        assert!(stdout.contains(&format!("\n  kube-apiserver store {verb} ")), "{stdout}");
    }
    assert_eq!(run(&[]), (Some(2), String::new(), stdout));
}

#[test]
fn wrong_arguments_are_refused_with_the_place_of_the_usage() {
    for (arguments, why) in [
        (&["chekc", "db"][..], "unknown verb: chekc\ndid you mean check?"),
        (&["move", "db"], "unknown verb: move"),
        (&["check"], "these are not the arguments of `kube-apiserver store check`"),
        (&["check", "a", "b"], "these are not the arguments of `kube-apiserver store check`"),
        (
            &["backup", "--drop", "a", "b"],
            "these are not the arguments of `kube-apiserver store backup`",
        ),
        (&["export", "db"], "--etcd-servers must be given"),
        (
            &["export", "db", "--etcd-server=http://a"],
            "unknown flag: --etcd-server\ndid you mean --etcd-servers?",
        ),
    ] {
        let said = format!("Error: {why}\nSee `kube-apiserver store --help`.\n");
        assert_eq!(run(arguments), (Some(2), String::new(), said), "{arguments:?}");
    }
}
