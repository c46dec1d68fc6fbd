//! Rules of certificates.k8s.io, with the reference's error messages as expectations.

use std::collections::HashMap;

use kevel_api::value::Value;
use kevel_codec::base64;
use kevel_registry::user::User;
use kevel_server::certificates::PemBlock;

use super::{pod_request, signing_request, trust_bundle};
use crate::capabilities::Capabilities;
use crate::rules::Rules;
use crate::rules::cases::{Cases, Update, value};

/// A request, a certificate and a CA certificate, as PEM.
struct Made {
    request: rcgen::CertificateSigningRequest,
    certificate: rcgen::Certificate,
    authority: rcgen::Certificate,
    key: rcgen::KeyPair,
}

fn made() -> Made {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
    let request = parameters.serialize_request(&key).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let mut parameters = parameters;
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&key).unwrap();
    Made { request, certificate, authority, key }
}

fn bytes(text: impl AsRef<[u8]>) -> Value {
    base64::encode(text.as_ref()).as_str().into()
}

fn pem(label: &str, contents: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64::encode(contents))
}

/// Long error messages of names.
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const USAGES: &str = r#"supported values: "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping""#;

fn texts() -> HashMap<&'static str, &'static str> {
    HashMap::from([("LABEL", LABEL), ("SUBDOMAIN", SUBDOMAIN), ("USAGES", USAGES)])
}

fn updates(rules: Rules) -> Vec<(&'static str, Update)> {
    vec![
        ("update", (rules.prepare_for_update, rules.validate_update)),
        ("status", (rules.prepare_for_status_update, rules.validate_status_update)),
    ]
}

#[test]
fn signing_requests() {
    let Made { request, certificate, authority, key } = made();
    let (der, leaf) = (request.der().to_vec(), certificate.pem());
    let mut forged = der.clone();
    *forged.last_mut().unwrap() ^= 1;
    let mut object = value(
        r#"{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": "r"}, "status": {}, "spec": {"signerName": "example.com/s",
            "usages": ["client auth"], "username": "jane"}}"#,
    );
    let good = bytes(request.pem().unwrap());
    object.make_map(&["spec"]).insert("request", good);
    let label = "CERTIFICATE REQUEST";
    let mut all = updates(signing_request::KIND.rules);
    let approval = signing_request::APPROVAL;
    all.push(("approval", (approval.prepare_for_update, approval.validate_update)));
    let certificate = certificate.der();
    let cases = Cases {
        object,
        create: signing_request::KIND.rules,
        updates: all,
        values: HashMap::from([
            ("FORGED", bytes(pem(label, &forged))),
            ("LONGER", bytes(pem(label, &[&der[..], &[0]].concat()))),
            ("NO_REQUEST", bytes(pem(label, &[0x30, 0]))),
            ("CERTIFICATE_AS_REQUEST", bytes(pem(label, certificate))),
            ("KEY_FIRST", bytes(format!("{}{}", key.serialize_pem(), request.pem().unwrap()))),
            ("LEAF", bytes(&leaf)),
            ("CHAIN", bytes(format!("text\n{leaf}{}text", authority.pem()))),
            ("TWO_IN_ONE", bytes(pem("CERTIFICATE", &[&certificate[..], certificate].concat()))),
            ("OTHER", bytes(authority.pem())),
            ("KEY", bytes(key.serialize_pem())),
            ("HEADERS", bytes(leaf.replacen("-----\n", "-----\nA: b\n\n", 1))),
            ("EMPTY_BLOCK", bytes("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")),
            ("CUT", bytes(pem("CERTIFICATE", &certificate[..certificate.len() - 4]))),
            ("REQUEST_AS_CERTIFICATE", bytes(pem("CERTIFICATE", &der))),
            ("TEXT", bytes("hello")),
            ("LONG_DOMAIN", format!("{}/c", [&*"x".repeat(60); 5].join(".")).as_str().into()),
            ("LONG_PATH", format!("a.b/{}", [&*"x".repeat(200); 3].join(".")).as_str().into()),
        ]),
        texts: texts(),
        capabilities: Capabilities::default(),
    };
    cases.run(include_str!("cases/signing_requests.txt"));
}

#[test]
fn who_asks_is_written_down_whatever_the_client_said() {
    let mut request = value(
        r#"{"spec": {"signerName": "example.com/s", "username": "system:node:evil",
            "uid": "1", "groups": ["system:masters"], "extra": {"a": ["b"]}}}"#,
    );
    let mut user = User {
        name: "jane".into(),
        uid: "7".into(),
        groups: vec!["dev".into(), "system:authenticated".into()],
        extra: vec![("scopes".into(), vec!["x".into(), "y".into()])],
    };
    (signing_request::KIND.rules.sign)(&mut request, &user);
    let expected = value(
        r#"{"spec": {"signerName": "example.com/s", "username": "jane", "uid": "7",
            "groups": ["dev", "system:authenticated"], "extra": {"scopes": ["x", "y"]}}}"#,
    );
    assert_eq!(request, expected);
    // Fields that the user lacks are not taken from the client.
    user = User { name: "joe".into(), ..User::default() };
    (signing_request::KIND.rules.sign)(&mut request, &user);
    let expected = value(r#"{"spec": {"signerName": "example.com/s", "username": "joe"}}"#);
    assert_eq!(request, expected);
}

#[test]
fn trust_bundles() {
    let Made { certificate, authority, key, .. } = made();
    let mut object = value(
        r#"{"metadata": {"name": "example.com:s:b"}, "spec": {"signerName": "example.com/s"}}"#,
    );
    let bundle = authority.pem();
    object.make_map(&["spec"]).insert("trustBundle", bundle.as_str().into());
    let text = |text: String| Value::from(text.as_str());
    let cases = Cases {
        object,
        create: trust_bundle::KIND.rules,
        updates: updates(trust_bundle::KIND.rules),
        values: HashMap::from([
            ("LEAF", text(certificate.pem())),
            ("TWICE", text(format!("{bundle}text\n{bundle}"))),
            ("KEY", text(key.serialize_pem())),
            ("HEADERS", text(bundle.replacen("-----\n", "-----\nA: b\n\n", 1))),
            ("CUT", text(pem("CERTIFICATE", &authority.der()[..99]))),
            ("LONG", text("x".repeat((1 << 20) + 1))),
        ]),
        texts: texts(),
        capabilities: Capabilities::default(),
    };
    cases.run(include_str!("cases/trust_bundles.txt"));
}

fn conditions(ty: &str) -> Value {
    value(&format!(
        r#"[{{"type": "{ty}", "status": "True", "reason": "r", "lastTransitionTime": "2020-01-01T00:00:00Z"}}]"#
    ))
}

#[test]
fn pod_requests() {
    let Made { request, certificate, key, .. } = made();
    let mut object = value(
        r#"{"apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest",
            "metadata": {"name": "r", "namespace": "n"}, "status": {}, "spec": {
            "signerName": "example.com/s", "podName": "p", "podUID": "1",
            "serviceAccountName": "s", "serviceAccountUID": "2", "nodeName": "n", "nodeUID": "3",
            "maxExpirationSeconds": 86400}}"#,
    );
    let der = request.der().to_vec();
    let mut forged = der.clone();
    *forged.last_mut().unwrap() ^= 1;
    object.make_map(&["spec"]).insert("stubPKCS10Request", bytes(&der));
    let key_info = PemBlock::first(key.public_key_pem().as_bytes()).unwrap().0.contents;
    let spec = format!(
        r#"{{"SignerName":"example.com/s","PodName":"p","PodUID":"9","ServiceAccountName":"s","ServiceAccountUID":"2","NodeName":"n","NodeUID":"3","MaxExpirationSeconds":86400,"PKIXPublicKey":null,"ProofOfPossession":null,"StubPKCS10Request":"{}","UnverifiedUserAnnotations":null}}"#,
        base64::encode(&der)
    );
    let cases = Cases {
        object,
        create: pod_request::KIND.rules,
        updates: updates(pod_request::KIND.rules),
        values: HashMap::from([
            ("FORGED", bytes(&forged)),
            ("TEXT", bytes("hello")),
            ("KEY", bytes(key_info)),
            ("LEAF", Value::from(certificate.pem().as_str())),
            ("OTHER", Value::from(made().certificate.pem().as_str())),
            ("LONG", Value::from("x".repeat(129).as_str())),
            ("DENIED", conditions("Denied")),
            ("ISSUED", conditions("Issued")),
        ]),
        texts: HashMap::from([("SUBDOMAIN", SUBDOMAIN), ("SPEC", spec.as_str())]),
        capabilities: Capabilities::default(),
    };
    cases.run(include_str!("cases/pod_requests.txt"));
}
