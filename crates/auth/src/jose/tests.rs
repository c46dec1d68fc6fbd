use super::algorithm::Algorithm;
use super::*;

const RSA_KEY: &[u8] = include_bytes!("../../tests/data/rsa.key");
const RSA_CERTIFICATE: &[u8] = include_bytes!("../../tests/data/rsa.crt");
const P384_KEY: &[u8] = include_bytes!("../../tests/data/p384.key");
const RS256: &str = include_str!("../../tests/data/rs256.jwt");
const P521_KEY: &[u8] = include_bytes!("../../tests/data/p521.key");
const ES512: &str = include_str!("../../tests/data/es512.jwt");
const PS256: &str = include_str!("../../tests/data/ps256.jwt");

/// Hash of the public key, computed with openssl.
const RSA_ID: &str = "t3YuPSZ8w1kR3XcAwwr5ERMFBPrysnMcqgMRtn9DPtM";
const P384_ID: &str = "FPV4hM3LVkc9s9S2SjMM5jBZjUMUY8TRmavmO3PkjVs";
const P521_ID: &str = "RxH1dpChAD2qfCAiSOwQdsGrUuNpcDcJ6MEnWcp_c8Q";

fn claims() -> Value {
    Map::from_iter([("iss", Value::from("me")), ("exp", Value::Int(7))]).into()
}

fn p256() -> (PrivateKey, Vec<PublicKey>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let private = PrivateKey::from_pem(key.serialize_pem().as_bytes()).unwrap();
    (private, PublicKey::all_from_pem(key.public_key_pem().as_bytes()).unwrap())
}

#[test]
fn keys_are_named_by_their_hash() {
    for (pem, expected) in
        [(RSA_KEY, RSA_ID), (RSA_CERTIFICATE, RSA_ID), (P384_KEY, P384_ID), (P521_KEY, P521_ID)]
    {
        let [key] = &PublicKey::all_from_pem(pem).unwrap()[..] else { panic!("one key") };
        assert_eq!(key.id(), expected);
    }
    let both = PublicKey::all_from_pem(&[RSA_CERTIFICATE, P384_KEY].concat()).unwrap();
    assert_eq!(both.len(), 2);
    for pem in
        [&b""[..], b"rubbish", b"-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n"]
    {
        let expected = "data does not contain any valid RSA or ECDSA public keys";
        assert_eq!(PublicKey::all_from_pem(pem).unwrap_err(), expected);
    }
    let no_private = PrivateKey::from_pem(RSA_CERTIFICATE).unwrap_err();
    assert_eq!(no_private, "data does not contain a valid RSA or ECDSA private key");
}

#[test]
fn tokens_of_others_are_verified() {
    let keys = PublicKey::all_from_pem(RSA_KEY).unwrap();
    for token in [RS256, PS256] {
        assert_eq!(Token::parse(token).unwrap().verify(&keys), Some(Map::new().into()));
        let (rest, _) = token.rsplit_once('.').unwrap();
        let other = format!("{rest}.{}", RS256.rsplit_once('.').unwrap().1);
        let swapped = Token::parse(&other).unwrap().verify(&keys);
        assert_eq!(swapped.is_some(), token == RS256);
    }
    let keys = PublicKey::all_from_pem(P521_KEY).unwrap();
    assert_eq!(Token::parse(ES512).unwrap().verify(&keys), Some(Map::new().into()));
}

#[test]
fn what_is_signed_is_verified() {
    let (ours, p256_keys) = p256();
    let p384 = PrivateKey::from_pem(P384_KEY).unwrap();
    let rsa = PrivateKey::from_pem(RSA_KEY).unwrap();
    let p521 = PrivateKey::from_pem(P521_KEY).unwrap();
    let p384_keys = PublicKey::all_from_pem(P384_KEY).unwrap();
    let p521_keys = PublicKey::all_from_pem(P521_KEY).unwrap();
    let rsa_keys = PublicKey::all_from_pem(RSA_CERTIFICATE).unwrap();
    let all_keys = [&p256_keys, &p384_keys, &p521_keys, &rsa_keys];
    for (key, public, algorithm) in [
        (&ours, &p256_keys, "ES256"),
        (&p384, &p384_keys, "ES384"),
        (&p521, &p521_keys, "ES512"),
        (&rsa, &rsa_keys, "RS256"),
    ] {
        let token = sign(key, &claims()).unwrap();
        let parsed = Token::parse(&token).unwrap();
        assert_eq!((parsed.algorithm(), parsed.key_id()), (algorithm, public[0].id()));
        assert_eq!(parsed.verify(public), Some(claims()));
        for others in all_keys.into_iter().filter(|keys| *keys != public) {
            assert_eq!(Token::parse(&token).unwrap().verify(others), None);
        }
        // Signed with the key, but by another algorithm than the header's.
        for Algorithm { name, .. } in &ALGORITHMS {
            let token = signed_as(key, name);
            let verified =
                all_keys.iter().any(|keys| Token::parse(&token).unwrap().verify(*keys).is_some());
            assert_eq!(verified, *name == algorithm, "{name} with a key for {algorithm}");
        }
        // A key is unchanged by a round trip through a key set.
        let decoded = json::decode_any(public[0].to_jwk().as_bytes(), json::Unknown::Report);
        let again = PublicKey::from_jwk(&decoded.unwrap().value).unwrap();
        assert_eq!(again, public[0]);
    }
}

/// Token with this algorithm in its header, whatever the key is for.
fn signed_as(key: &PrivateKey, algorithm: &str) -> String {
    let unsigned = forged(&format!(r#"{{"alg":"{algorithm}"}}"#), "{}", b"");
    let signature = key.sign(unsigned.trim_end_matches('.').as_bytes()).unwrap();
    format!("{unsigned}{}", base64::encode_url(&signature))
}

#[test]
fn points_that_are_none_of_their_curve_verify_nothing() {
    let keys = PublicKey::all_from_pem(P521_KEY).unwrap();
    let jwk = keys[0].to_jwk();
    let read = |jwk: &str| {
        let decoded = json::decode_any(jwk.as_bytes(), json::Unknown::Report).unwrap();
        PublicKey::from_jwk(&decoded.value)
    };
    // Too long, of another curve, and not on the curve.
    let x = jwk.split(r#""x":""#).nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(read(&jwk.replace(x, &format!("AAAA{x}"))), None);
    assert_eq!(read(&jwk.replace("P-521", "P-256")), None);
    let beside = read(&jwk.replace(x, &base64::encode_url(&[1; 66]))).unwrap();
    assert_eq!(Token::parse(ES512).unwrap().verify([&beside]), None);
}

/// Token with this header, claims and signature.
fn forged(header: &str, claims: &str, signature: &[u8]) -> String {
    let [header, claims] = [header, claims].map(|part| base64::encode_url(part.as_bytes()));
    format!("{header}.{claims}.{}", base64::encode_url(signature))
}

#[test]
fn what_was_not_signed_is_not_believed() {
    let keys = PublicKey::all_from_pem(RSA_KEY).unwrap();
    let spki = RSA_CERTIFICATE;
    let hmac = |header: &str, secret: &[u8]| {
        let signed = forged(header, "{}", b"");
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        let tag = ring::hmac::sign(&key, signed.trim_end_matches('.').as_bytes());
        forged(header, "{}", tag.as_ref())
    };
    let signature = base64::decode_url(RS256.rsplit_once('.').unwrap().1).unwrap();
    for token in [
        forged(r#"{"alg":"none"}"#, "{}", b""),
        forged(r#"{"alg":"None"}"#, "{}", b""),
        forged(r#"{}"#, "{}", b""),
        forged(r#"{"alg":"RS256"}"#, "{}", b""),
        // Public key used as a shared secret.
        hmac(r#"{"alg":"HS256"}"#, spki),
        hmac(r#"{"alg":"RS256"}"#, spki),
        // Another algorithm or other claims with a valid signature.
        forged(r#"{"alg":"PS256"}"#, "{}", &signature),
        forged(r#"{"alg":"ES256"}"#, "{}", &signature),
        forged(r#"{"alg":"RS256"}"#, r#"{"a":1}"#, &signature),
        forged(r#"{"alg":"RS256"} "#, "{}", &signature),
    ] {
        let verified = Token::parse(&token).and_then(|token| token.verify(&keys));
        assert_eq!(verified, None, "{token}");
    }
}

#[test]
fn what_is_no_token_is_not_taken_apart() {
    let signature = b"x";
    for token in [
        String::new(),
        "..".to_owned(),
        "a.b".to_owned(),
        "e30.e30.e30.e30".to_owned(),
        format!("{}x", "e30.e30.".repeat(200_000)),
        forged("[]", "{}", signature),
        forged("{}", "7", signature),
        forged(r#"{"alg":"RS256","crit":["exp"]}"#, "{}", signature),
        forged(r#"{"alg":"RS256"}"#, r#"{"iss":"a","iss":"b"}"#, signature),
        format!("{}=", forged("{}", "{}", signature)),
    ] {
        assert!(Token::parse(&token).is_none(), "{token:.100}");
    }
}

#[test]
fn claims_are_read() {
    let claims =
        |text: &str| json::decode_any(text.as_bytes(), json::Unknown::Ignore).unwrap().value;
    assert_eq!(time_claim(&claims(r#"{"exp":7}"#), "exp"), Ok(Some(7)));
    assert_eq!(time_claim(&claims(r#"{"exp":7.9}"#), "exp"), Ok(Some(7)));
    assert_eq!(time_claim(&claims(r#"{"exp":1e300}"#), "exp"), Ok(Some(i64::MAX)));
    assert_eq!(time_claim(&claims("{}"), "exp"), Ok(None));
    assert!(time_claim(&claims(r#"{"exp":"7"}"#), "exp").is_err());
    assert_eq!(audience_claim(&claims(r#"{"aud":"a"}"#)), Ok(vec!["a".to_owned()]));
    assert_eq!(audience_claim(&claims(r#"{"aud":["a"]}"#)), Ok(vec!["a".to_owned()]));
    assert!(audience_claim(&claims(r#"{"aud":[1]}"#)).is_err());
}
