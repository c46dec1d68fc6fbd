use kevel_api::value::{Map, Value};

use super::claims::KubernetesClaims;
use super::*;
use crate::jose::PublicKey;

#[test]
fn claims_are_read_as_they_were_written() {
    let reference = |name: &str| Reference { name: name.to_owned(), uid: format!("{name}-uid") };
    let all = KubernetesClaims {
        namespace: "ns".to_owned(),
        account: reference("bot"),
        pod: Some(reference("p")),
        secret: Some(reference("s")),
        node: Some(Reference { name: "n".to_owned(), uid: String::new() }),
        warn_after: Some(7),
    };
    for claims in [all, KubernetesClaims::default()] {
        let mut map = Map::new();
        claims.write(&mut map);
        assert_eq!(KubernetesClaims::read(&map.into()), Ok(claims));
    }
    assert_eq!(KubernetesClaims::read(&Value::Null), Ok(KubernetesClaims::default()));
}

#[test]
fn an_issuer_that_others_cannot_find_tells_nothing() {
    let keys = PublicKey::all_from_pem(include_bytes!("../../tests/data/rsa.key")).unwrap();
    let keys = Keys::Files(keys.into());
    let none = Keys::Files([].into());
    for (issuer, keys, expected) in [
        ("kubernetes", &keys, "issuer URL must use https scheme, got: kubernetes"),
        ("https://a?b", &keys, "issuer URL may not include a query, got: https://a?b"),
        ("https://a#b", &keys, "issuer URL may not include a fragment, got: https://a#b"),
        ("https://a", &none, "no keys provided for validating keyset"),
    ] {
        assert_eq!(OpenIdMetadata::new(issuer, "https://a/keys", keys).unwrap_err(), expected);
    }
    assert!(OpenIdMetadata::new("https://a", "https://a/keys", &keys).is_ok());
}
