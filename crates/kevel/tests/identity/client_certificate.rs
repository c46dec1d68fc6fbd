use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, date_time_ymd};
use serde_json::json;

use super::{Ca, Cluster, until};

/// A certificate for clients, and what a test changes about it.
fn certificate(change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "jane");
    params.distinguished_name.push(DnType::OrganizationName, "devs");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params);
    params
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_says_who_its_owner_is() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, stranger) = (Ca::new("clients"), Ca::new("clients"));
    let file = folder.path().join("clients.crt");
    std::fs::write(&file, &ca.pem).unwrap();
    // The kubeconfig that the server makes is of an authority that it does not believe here.
    let believed = format!("--client-ca-file={}", file.display());
    let cluster = Cluster::begin(folder, vec![believed, "--anonymous-auth=false".to_owned()]).await;
    assert_eq!(cluster.admin.whoami(&[]).await, None);
    let whoami = async |ca: &Ca, params: CertificateParams| {
        cluster.certified(&ca.issue(params)).whoami(&[]).await
    };
    let user = whoami(&ca, certificate(|_| {})).await.unwrap();
    assert_eq!(user["username"], "jane");
    assert_eq!(user["groups"], json!(["devs", "system:authenticated"]));
    for (what, ca, params) in [
        ("another authority of the same name", &stranger, certificate(|_| {})),
        ("expired", &ca, certificate(|params| params.not_after = date_time_ymd(2001, 1, 1))),
        ("not yet valid", &ca, certificate(|params| params.not_before = date_time_ymd(2999, 1, 1))),
        (
            "a server's",
            &ca,
            certificate(|params| {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            }),
        ),
        (
            "an unknown authority's",
            &ca,
            certificate(|params| {
                params.distinguished_name.remove(DnType::CommonName).then_some(()).unwrap()
            }),
        ),
    ] {
        assert_eq!(whoami(ca, params).await, None, "{what}");
    }
    // The authorities change while the server runs.
    std::fs::write(&file, &stranger.pem).unwrap();
    until(async || whoami(&stranger, certificate(|_| {})).await.is_some()).await;
    assert_eq!(whoami(&ca, certificate(|_| {})).await, None);
    let masters = |params: &mut CertificateParams| {
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    };
    let impostor = cluster.certified(&stranger.issue(certificate(masters)));
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = impostor.0.request_text(request).await.unwrap();
    // One of all was over.
    let expected = "apiserver_client_certificate_expiration_seconds_bucket{le=\"0\"} 1\n";
    assert!(metrics.contains(expected));
    cluster.stop().await;
}
