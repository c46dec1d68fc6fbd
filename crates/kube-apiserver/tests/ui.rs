//! Servers that have the page for browsers.
#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use kube_apiserver::options::ServerRunOptions;

#[test]
fn page_is_served_on_own_stores_alone() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("sa.key");
    std::fs::write(&key, "a key").unwrap();
    let etcd = format!(
        "--etcd-servers=http://127.0.0.1:2379 --service-account-issuer=https://x \
         --service-account-key-file={0} --service-account-signing-key-file={0}",
        key.display()
    );
    for (arguments, expected) in [
        ("", true),
        ("--storage=memory", true),
        ("--secure-port=7443", true),
        ("--ui=false", false),
        (&etcd, false),
        (&format!("{etcd} --ui=false"), false),
        (&format!("{etcd} --ui"), true),
    ] {
        let mut options = ServerRunOptions::default();
        let arguments = format!("--advertise-address=10.1.1.1 {arguments}");
        options.parse(arguments.split_whitespace().map(str::to_owned).collect()).unwrap();
        assert_eq!(options.complete().unwrap().ui(), expected, "{arguments}");
    }
}
