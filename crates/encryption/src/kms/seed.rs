//! A seed, from which each value's key is derived (HKDF): no key is used so often that nonces could collide. A value is
//! 32 random bytes of derivation info, followed by AES-GCM output.

use ring::hkdf::{HKDF_SHA256, KeyType, Prk};

use crate::transformer::{Cipher, aes_gcm, random};

/// Length of generated seeds, and minimum length of accepted ones.
pub(super) const SEED_LENGTH: usize = 32;

const INFO: usize = 32;

/// A seed.
pub(super) struct Seed(Prk);

impl Seed {
    pub fn new(seed: &[u8]) -> Result<Self, String> {
        match seed.len() {
            SEED_LENGTH.. => Ok(Seed(Prk::new_less_safe(HKDF_SHA256, seed))),
            length => Err(format!("invalid seed length {length} used for key generation")),
        }
    }

    fn derived(&self, info: &[u8]) -> Result<Box<dyn Cipher>, String> {
        let failed = || "failed to KDF expand seed with info".to_owned();
        let mut key = [0; DERIVED];
        let info = [info];
        let derived = self.0.expand(&info, Length).map_err(|_| failed())?;
        derived.fill(&mut key).map_err(|_| failed())?;
        aes_gcm::cipher(&key).ok_or_else(failed)
    }
}

/// Length of an AES-256 key.
const DERIVED: usize = 32;

struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        DERIVED
    }
}

impl Cipher for Seed {
    fn seal(&self, plain: &[u8], key: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        random(INFO, out).map_err(|error| format!("failed to generate info for KDF: {error}"))?;
        let derived = self.derived(out.get(start..).unwrap_or_default());
        let derived =
            derived.map_err(|error| format!("failed to derive write key from KDF: {error}"))?;
        derived.seal(plain, key, out)
    }

    fn open(&self, stored: &[u8], key: &[u8]) -> Result<Vec<u8>, String> {
        let (info, rest) = stored
            .split_at_checked(INFO)
            .ok_or("the stored data was shorter than the required size")?;
        let derived = self.derived(info);
        let derived =
            derived.map_err(|error| format!("failed to derive read key from KDF: {error}"))?;
        derived.open(rest, key)
    }
}
