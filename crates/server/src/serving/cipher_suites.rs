//! TLS cipher suites, versions and key exchange groups, by the names and numbers of flags.

use rustls::crypto::ring::{cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

/// Supported suites of TLS 1.2. Two of them have an older name, too.
const SPOKEN: [(&str, SupportedCipherSuite); 8] = [
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// Suites of TLS 1.3, always enabled.
const ALWAYS: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// Suites of the reference that are not supported here: without forward secrecy or authenticated encryption.
const NOT_SPOKEN: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// Supported key exchange groups, by their numbers in the TLS registry.
const GROUPS: [(i32, &dyn SupportedKxGroup); 3] =
    [(29, kx_group::X25519), (23, kx_group::SECP256R1), (24, kx_group::SECP384R1)];

/// The crypto provider for `--tls-cipher-suites` and `--tls-curve-preferences`; empty enables all.
pub(super) fn provider(suites: &[String], groups: &[i32]) -> Result<CryptoProvider, String> {
    let mut provider = rustls::crypto::ring::default_provider();
    if !suites.is_empty() {
        let (named, missing) = named_suites(suites)?;
        check_offered("--tls-cipher-suites", suites.len(), &missing)?;
        let is_1_3 = |suite: &SupportedCipherSuite| suite.tls13().is_some();
        provider.cipher_suites.retain(|suite| is_1_3(suite) || named.contains(suite));
    }
    if !groups.is_empty() {
        let is_spoken = |group: &&i32| GROUPS.iter().any(|(number, _)| number == *group);
        let missing: Vec<String> =
            groups.iter().filter(|group| !is_spoken(group)).map(i32::to_string).collect();
        check_offered("--tls-curve-preferences", groups.len(), &missing)?;
        let spoken = GROUPS.iter().filter(|(number, _)| groups.contains(number));
        provider.kx_groups = spoken.map(|(_, group)| *group).collect();
    }
    Ok(provider)
}

/// Refuses a flag none of whose values is supported. If some are, the others are logged: copied lists contain many that
/// clients no longer need.
fn check_offered(flag: &str, named: usize, missing: &[String]) -> Result<(), String> {
    let values = missing.join(",");
    if missing.len() == named {
        return Err(format!(
            "invalid argument {values:?} for {flag}: this server offers none of them"
        ));
    }
    if !missing.is_empty() {
        tracing::warn!(flag, values, "named, and not offered by this server");
    }
    Ok(())
}

/// Supported suites among the names, and the names of the others.
fn named_suites(names: &[String]) -> Result<(Vec<SupportedCipherSuite>, Vec<String>), String> {
    let (mut suites, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match SPOKEN.iter().find(|(known, _)| known == name) {
            Some((_, suite)) => suites.push(*suite),
            None if ALWAYS.contains(&name.as_str()) => {}
            None if NOT_SPOKEN.contains(&name.as_str()) => missing.push(name.clone()),
            None => return Err(format!("Cipher suite {name} not supported or doesn't exist")),
        }
    }
    Ok((suites, missing))
}

static ALL_VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];
static ONLY_1_3: [&SupportedProtocolVersion; 1] = [&version::TLS13];

/// Protocol versions for `--tls-min-version`. Versions below 1.2 are never enabled.
pub(super) fn versions(
    minimum: &str,
) -> Result<&'static [&'static SupportedProtocolVersion], String> {
    match minimum {
        "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => Ok(&ALL_VERSIONS),
        "VersionTLS13" => Ok(&ONLY_1_3),
        unknown => Err(format!("unknown tls version {unknown:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_chosen_by_name() {
        let chosen = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            provider(&names, &[]).map(|provider| {
                let suites = provider.cipher_suites.iter();
                suites.filter(|suite| suite.tls13().is_none()).count()
            })
        };
        for (names, expected) in [
            (&[][..], Ok(6)),
            (&["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"], Ok(1)),
            (&["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_AES_128_GCM_SHA256"], Ok(1)),
            (&["TLS_AES_128_GCM_SHA256"], Ok(0)),
            (&["TLS_RSA_WITH_AES_256_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], Ok(1)),
            (
                &["TLS_RSA_WITH_RC4_128_SHA", "TLS_RSA_WITH_AES_256_CBC_SHA"],
                Err("invalid argument \"TLS_RSA_WITH_RC4_128_SHA,TLS_RSA_WITH_AES_256_CBC_SHA\" \
                     for --tls-cipher-suites: this server offers none of them"
                    .to_owned()),
            ),
            (
                &["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "foo"],
                Err("Cipher suite foo not supported or doesn't exist".to_owned()),
            ),
        ] {
            assert_eq!(chosen(names), expected, "{names:?}");
        }
    }

    #[test]
    fn groups_are_chosen_by_number() {
        for (groups, expected) in [(&[][..], 3), (&[23], 1), (&[4588, 29], 1)] {
            assert_eq!(provider(&[], groups).unwrap().kx_groups.len(), expected);
        }
        let refused = provider(&[], &[25, 4588]).unwrap_err();
        let expected = "invalid argument \"25,4588\" for --tls-curve-preferences: this server \
                        offers none of them";
        assert_eq!(refused, expected);
    }

    #[test]
    fn versions_are_chosen_by_name() {
        for (name, expected) in [
            ("", Ok(2)),
            ("VersionTLS10", Ok(2)),
            ("VersionTLS13", Ok(1)),
            ("VersionTLS14", Err("unknown tls version \"VersionTLS14\"".to_owned())),
        ] {
            assert_eq!(versions(name).map(<[_]>::len), expected, "{name}");
        }
    }
}
