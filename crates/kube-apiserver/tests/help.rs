//! Text of `--help`.

use kube_apiserver::help::help;
use kube_apiserver::options::{Admission, Global, Kevel, Logs, Misc, ServerRunOptions};

const NO_TERMINAL: &str = r#"
Usage:
  kube-apiserver [flags]
  kube-apiserver check -f FILES
  kube-apiserver store VERB

Kevel flags:

      --controllers strings   Controllers of kube-controller-manager that run in this server while no controller manager holds its lease, in its syntax: '*' enables all that are on by default, 'foo' enables the controller named 'foo', '-foo' disables it. Without the flag: all if the storage is embedded or memory, none if it is etcd.
      --data-dir string       Directory for what the server keeps itself: the embedded storage, and the keys, certificates and admin kubeconfig that it makes on its first start. (default "./kevel-data")
      --storage string        Store of objects: embedded (in --data-dir), memory (nowhere else) or etcd (in --etcd-servers). Without the flag: etcd if there are --etcd-servers, else embedded.
      --ui                    Page for browsers at /ui/. Without the flag: served if the storage is embedded or memory, not if it is etcd.

Global flags:

  -h, --help                     Show this help.
      --version version[=true]   --version and --version=raw print the version and quit; --version=vX.Y.Z... reports that version instead.
"#;

const TERMINAL: &str = r#"
Usage:
  kube-apiserver [flags]
  kube-apiserver check -f FILES
  kube-apiserver store VERB

Kevel flags:

      --controllers strings
                Controllers of kube-controller-manager that run
                in this server while no controller manager holds
                its lease, in its syntax: '*' enables all that
                are on by default, 'foo' enables the controller
                named 'foo', '-foo' disables it. Without the
                flag: all if the storage is embedded or memory,
                none if it is etcd.
      --data-dir string
                Directory for what the server keeps itself: the
                embedded storage, and the keys, certificates and
                admin kubeconfig that it makes on its first
                start. (default "./kevel-data")
      --storage string
                Store of objects: embedded (in --data-dir),
                memory (nowhere else) or etcd (in
                --etcd-servers). Without the flag: etcd if there
                are --etcd-servers, else embedded.
      --ui
                Page for browsers at /ui/. Without the flag:
                served if the storage is embedded or memory, not
                if it is etcd.

Global flags:

  -h, --help
                Show this help.
      --version version[=true]
                --version and --version=raw print the version
                and quit; --version=vX.Y.Z... reports that
                version instead.
"#;

#[test]
fn help_fits_the_terminal() {
    let (kevel, global) = (Kevel::default(), Global::default());
    for (columns, expected) in [(0, NO_TERMINAL), (39, NO_TERMINAL), (64, TERMINAL)] {
        let text = help(&[&kevel, &global], columns);
        let (_, sections) = text.split_once("\n\n").unwrap();
        assert_eq!(sections, expected.trim_start(), "{columns} columns");
    }
}

#[test]
fn help_shows_types_defaults_and_deprecation() {
    let options = ServerRunOptions::default();
    let text = help(&options.sections(), 0);
    for part in [
        "Generic flags:",
        "Secure serving flags:",
        "API enablement flags:",
        "  -v, --v Level   ",
        "--vmodule pattern=N,...   ",
        "--anonymous-auth   ",
        "--goaway-chance float   ",
        "(default 6443)\n",
        "(default 1m0s)\n",
        "(default \"/registry\")\n",
        "(default [RS256])\n",
        "(default 30000-32767)\n",
        "(DEPRECATED: Log handler functionality is deprecated)\n",
    ] {
        assert!(text.contains(part), "{part}");
    }
    let hidden = help(&[&Misc::default(), &Admission::default(), &Logs::default()], 0);
    assert!(
        !hidden.contains("--apiserver-count") && hidden.contains("--admission-control strings")
    );
}
