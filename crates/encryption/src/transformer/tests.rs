//! Tests of ciphers against bytes of other implementations (Python's `cryptography` and `pynacl`, in the reference's
//! layouts), and of providers reading each other's values.

use bytes::Bytes;
use kevel_codec::base64;
use kevel_server::metrics::Metrics;

use super::*;
use crate::config::Key;

const KEY: &[u8] = b"/registry/secrets/default/token";
const PLAIN: &[u8] = br#"{"kind":"Secret","data":{"password":"aHVudGVyMg=="}}"#;

/// Provider, length of its key (the bytes 0, 1, 2, ...), and the stored bytes after the prefix.
const MADE_BY_OTHERS: &[(&str, usize, &str)] = &[
    (
        "aesgcm",
        16,
        "6465666768696a6b6c6d6e6f614025ccb5669ac0b96d3273f4af5fce1caa1c9ee6c8ff608f4dc1f6cf81809cc8\
         98701ea9796fc7ff3c6010f4cf233ae6bf600ea2210bec8ed3a5c0a50852645d9071cb",
    ),
    (
        "aesgcm",
        24,
        "6465666768696a6b6c6d6e6f924ad0153ccb2c02f18287628897ef9cf17b3aab8ee853d5fa6138abc51def2f28\
         3025a57a740ce60bf724e7554f47d15d4c5325e048cd48a043079d4b43aa4e05e3300d",
    ),
    (
        "aesgcm",
        32,
        "6465666768696a6b6c6d6e6f3339b50f178d74a41c313a8ba8001edf6ee0626bff0dd148dcf3dc2988d0d227e6\
         8d62fa6e73d35288973f69840fadf22679e59a5786c6f91a87d3ee22b5bea405248568",
    ),
    (
        "aescbc",
        16,
        "c8c9cacbcccdcecfd0d1d2d3d4d5d6d77e9537b04c5ab19cafe1d0f8e510c3622536b6c7b6fdc367e2aa37ec00\
         e333abfb8533259e5d1ada3165f82af23533e3bb63d3789c72743fafeb2987f37ea4cb",
    ),
    (
        "aescbc",
        24,
        "c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8f6b0370c427d3c5931dad0311989d631ba8457cb597f0228090a372d\
         5e52d6c553f43652bf89d0dc309a366e1c469fc2d40ad5367d8d1ded894e963aab4041",
    ),
    (
        "aescbc",
        32,
        "c8c9cacbcccdcecfd0d1d2d3d4d5d6d707d16fe6735d98b78b6abb88e36de89822ca2a9d8e5e5adfbd38d5dcbe\
         569eaeae18f3404270e375e18270ec23f2d8e03372a4a50b7b3238cd409a16c0d49ce5",
    ),
    (
        "secretbox",
        32,
        "32333435363738393a3b3c3d3e3f40414243444546474849aa1ebdc563962809833a8e09e49e47fb55263a9797\
         afd05c400464c9d2fdb65408242959fb835801e0bbac95987d984c5c0c224e34d66321b52395ac7e0f45cd52e0\
         e17d",
    ),
];

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Parses `aesgcm a b`: a provider and its keys, whose bytes follow from their names; or `identity`.
fn provider(text: &str, length: usize) -> ProviderConfiguration {
    let mut words = text.split(' ');
    let name = words.next().unwrap();
    let key = |name: &str| {
        let first = name.as_bytes()[0] - b'a';
        let secret: Vec<u8> = (0..length as u8).map(|byte| byte + first).collect();
        Key { name: name.to_owned(), secret: base64::encode(&secret).to_string() }
    };
    let keys = Some(words.map(key).collect());
    let mut config = ProviderConfiguration::default();
    match name {
        "aesgcm" => config.aesgcm = keys,
        "aescbc" => config.aescbc = keys,
        "secretbox" => config.secretbox = keys,
        _ => config.identity = true,
    }
    config
}

fn providers(texts: &str, length: usize) -> Providers {
    let mut providers = Providers::default();
    for text in texts.split(", ") {
        let config = provider(text, length);
        providers.extend(&[Arc::new(Provider::new(&config, |_| Err(String::new())).unwrap())]);
    }
    providers
}

struct Reader {
    metrics: EncryptionMetrics,
    runtime: tokio::runtime::Runtime,
}

impl Reader {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Reader { metrics: EncryptionMetrics::new(&Metrics::default()), runtime }
    }

    fn at<'a>(&'a self, key: &'a [u8]) -> Context<'a> {
        Context { key, resource: "secrets", metrics: &self.metrics }
    }

    fn seal(&self, providers: &Providers) -> Bytes {
        self.runtime.block_on(providers.to_storage(PLAIN, self.at(KEY))).unwrap().into()
    }

    /// `ok`, `stale`, or the error.
    fn read(&self, providers: &Providers, stored: &Bytes, key: &[u8]) -> String {
        let read = self.runtime.block_on(providers.from_storage(stored, self.at(key)));
        match read {
            Ok(read) => {
                assert_eq!(read.value, PLAIN);
                if read.stale { "stale" } else { "ok" }.to_owned()
            }
            Err(error) => error.to_string(),
        }
    }
}

#[test]
fn what_others_have_encrypted_is_read() {
    let reader = Reader::new();
    for (name, length, hex) in MADE_BY_OTHERS {
        let prefix = format!("k8s:enc:{name}:v1:a:").into_bytes();
        let stored = Bytes::from([prefix, unhex(hex)].concat());
        let providers = providers(&format!("{name} a"), *length);
        assert_eq!(reader.read(&providers, &stored, KEY), "ok", "{name} {length}");
        // Written values have the same length and prefix, and differ each time.
        let (one, other) = (reader.seal(&providers), reader.seal(&providers));
        assert_eq!(one.len(), stored.len());
        assert!(one.starts_with(format!("k8s:enc:{name}:v1:a:").as_bytes()));
        assert_ne!(one, other);
        assert_eq!(reader.read(&providers, &one, KEY), "ok");
    }
}

#[test]
fn the_first_writes_and_all_read() {
    const AUTHENTICATION: &str = "cipher: message authentication failed";
    let reader = Reader::new();
    for (written_by, read_by, said) in [
        ("aesgcm a", "aesgcm a", "ok"),
        ("aesgcm a", "aesgcm b a", "stale"),
        ("aesgcm a", "aesgcm b, aesgcm a", "stale"),
        ("aesgcm a", "aesgcm b", "no matching key was found for the provided AES transformer"),
        (
            "secretbox a",
            "secretbox b",
            "no matching key was found for the provided Secretbox transformer",
        ),
        ("aesgcm a", "aescbc a, secretbox a", "no matching prefix found"),
        ("aesgcm a", "aescbc b, aesgcm a", "stale"),
        ("aesgcm a", "identity, aesgcm a", "stale"),
        ("aesgcm a", "identity", "no matching prefix found"),
        ("identity", "identity", "ok"),
        ("identity", "identity, aesgcm a", "ok"),
        ("identity", "aesgcm a, identity", "stale"),
        ("identity", "aesgcm a", "no matching prefix found"),
    ] {
        let stored = reader.seal(&providers(written_by, 32));
        let read = reader.read(&providers(read_by, 32), &stored, KEY);
        assert_eq!(read, said, "{written_by} read by {read_by}");
    }
    // Several keys of the same name: each is tried.
    let stored = reader.seal(&providers("aesgcm a", 16));
    let mut other = providers("aesgcm a", 32);
    assert_eq!(reader.read(&other, &stored, KEY), AUTHENTICATION);
    other.extend(&providers("aesgcm a", 16).0);
    assert_eq!(reader.read(&other, &stored, KEY), "stale");
}

#[test]
fn authenticated_ciphers_bind_values_to_storage_keys() {
    let reader = Reader::new();
    let elsewhere = b"/registry/secrets/default/mine";
    for (name, said) in [
        ("aesgcm a", "cipher: message authentication failed"),
        ("aescbc a", "ok"),
        ("secretbox a", "ok"),
    ] {
        let providers = providers(name, 32);
        let stored = reader.seal(&providers);
        assert_eq!(reader.read(&providers, &stored, elsewhere), said, "{name}");
    }
}

#[test]
fn what_is_too_short_or_changed_is_said() {
    const SHORT: &str = "the stored data was shorter than the required size";
    let reader = Reader::new();
    for (name, rest, said) in [
        ("aesgcm", 11, SHORT),
        ("aesgcm", 12, "cipher: message authentication failed"),
        ("aesgcm", 60, "cipher: message authentication failed"),
        ("aescbc", 15, SHORT),
        ("aescbc", 16, "invalid PKCS7 data (empty or not padded)"),
        ("aescbc", 17, "the stored data is not a multiple of the block size"),
        ("secretbox", 39, SHORT),
        ("secretbox", 60, "output array was not large enough for encryption"),
    ] {
        let providers = providers(&format!("{name} a"), 32);
        let stored = reader.seal(&providers);
        let head = format!("k8s:enc:{name}:v1:a:").len();
        assert_eq!(
            reader.read(&providers, &stored.slice(..head + rest), KEY),
            said,
            "{name} {rest}"
        );
    }
}

/// Deterministic pseudo-random numbers.
pub(crate) struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn nothing_that_is_stored_ends_the_server() {
    let reader = Reader::new();
    let mut numbers = Numbers(0x5eed);
    for name in ["aesgcm a", "aescbc a", "secretbox a", "identity"] {
        let providers = providers(name, 32);
        let valid = reader.seal(&providers).to_vec();
        for _ in 0..5000 {
            let mut stored = valid.clone();
            // Truncated, changed or random after the prefix.
            let length = numbers.next() as usize % (stored.len() + 20);
            stored.resize(length, numbers.next() as u8);
            for _ in 0..numbers.next() % 4 {
                if let Some(place) = (numbers.next() as usize).checked_rem(stored.len()) {
                    stored[place] = numbers.next() as u8;
                }
            }
            let stored = Bytes::from(stored);
            let _ = reader.runtime.block_on(providers.from_storage(&stored, reader.at(KEY)));
        }
    }
}

#[test]
fn all_keys_of_one_name_are_tried() {
    let reader = Reader::new();
    let stored = reader.seal(&providers("aesgcm a", 16));
    let mut config = provider("aesgcm a", 32);
    config.aesgcm.as_mut().unwrap().extend(provider("aesgcm a", 16).aesgcm.unwrap());
    let mut both = Providers::default();
    both.extend(&[Arc::new(Provider::new(&config, |_| Err(String::new())).unwrap())]);
    assert_eq!(reader.read(&both, &stored, KEY), "stale");
}

#[test]
fn aescbc_pads_values_of_every_length() {
    let cipher = aes_cbc::cipher(&[7; 32]).unwrap();
    for length in 0..=48 {
        let plain = vec![1; length];
        let mut stored = Vec::new();
        cipher.seal(&plain, KEY, &mut stored).unwrap();
        assert_eq!(stored.len(), 16 + (length / 16 + 1) * 16, "{length}");
        assert_eq!(cipher.open(&stored, KEY), Ok(plain), "{length}");
    }
    // A changed byte of the block before changes the same byte of the padding: here the first of two.
    let mut stored = Vec::new();
    cipher.seal(&[1; 14], KEY, &mut stored).unwrap();
    stored[14] ^= 1;
    assert_eq!(cipher.open(&stored, KEY), Err("invalid padding on input".to_owned()));
}
