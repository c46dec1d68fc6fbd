//! Starts that end with an error, and what survives a restart.

#![allow(clippy::unwrap_used)] // Helpers of tests are not in a test module here.

use std::fs;

use kevel_generic_apiserver::{ApiKind, ApiServerError, GenericApiServer};
use tempfile::TempDir;

const FLUNDERS: &str = include_str!("../../../examples/sample-apiserver/flunders.yaml");

fn server(folder: &TempDir) -> GenericApiServer {
    let kind = ApiKind::from_yaml(FLUNDERS).unwrap();
    GenericApiServer::new("wardle").kind(kind).data_dir(folder.path())
}

#[test]
fn definitions_are_validated() {
    let error = |text: &str| ApiKind::from_yaml(text).unwrap_err();
    assert!(matches!(error("a: [").to_string(), text if text.contains("cannot be decoded")));
    assert!(
        matches!(error("spec: {grope: a}"), ApiServerError::Decode(why) if why.contains("grope"))
    );
    let open = FLUNDERS.replace("enum: [Flunder, Fischer]", "maxLength: -1");
    let ApiServerError::Invalid { name, errors } = error(&open) else { panic!("{open}") };
    assert_eq!(name, "flunders.wardle.example.com");
    assert!(errors.iter().any(|error| error.to_string().contains("referenceType")), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_and_port_serve_one_server_at_a_time() {
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let running = server(&folder).start().await.unwrap();
    let address = running.address();
    let kubeconfig = fs::read_to_string(running.kubeconfig()).unwrap();
    assert!(kubeconfig.contains(&address.to_string()), "{kubeconfig}");
    let taken = server(&other).listen(address).start().await.unwrap_err();
    assert!(matches!(taken, ApiServerError::Listen(at, _) if at == address), "{taken}");
    let in_use = server(&folder).start().await.unwrap_err();
    assert!(matches!(in_use, ApiServerError::Store(..)), "{in_use}");
    assert_eq!(fs::read_to_string(running.kubeconfig()).unwrap(), kubeconfig);
    let ca = fs::read(running.ca_certificate()).unwrap();
    running.stop().await.unwrap();

    let again = server(&folder).listen(address).start().await.unwrap();
    assert_eq!(fs::read(again.ca_certificate()).unwrap(), ca);
    again.stop().await.unwrap();
}
