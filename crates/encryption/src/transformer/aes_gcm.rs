//! `aesgcm`: AES-GCM. A value is a random nonce, the ciphertext, and the tag.
//!
//! With ring, which is four times as fast, except for keys of 24 bytes, which it does not support.

use aes_gcm::aead::AeadInPlace;
use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aes::Aes192;
use aes_gcm::{AesGcm, KeyInit, Nonce, Tag};
use ring::aead::{self, AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, UnboundKey};

use super::{Cipher, random};

const NONCE: usize = 12;
const TAG: usize = 16;

/// Cipher of a key of 16, 24 or 32 bytes.
pub(crate) fn cipher(key: &[u8]) -> Option<Box<dyn Cipher>> {
    Some(match key.len() {
        16 => Box::new(LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key).ok()?)),
        24 => Box::new(Gcm(AesGcm::<Aes192, U12>::new_from_slice(key).ok()?)),
        32 => Box::new(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?)),
        _ => return None,
    })
}

const SHORT: &str = "the stored data was shorter than the required size";
const FAILED: &str = "cipher: message authentication failed";
const LONG: &str = "the value is too long for AES-GCM";

impl Cipher for LessSafeKey {
    fn seal(&self, plain: &[u8], key: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        begin(plain, out)?;
        let mut written = out.get_mut(start..).unwrap_or_default();
        let nonce = written.split_off_mut(..NONCE).unwrap_or_default();
        let nonce = aead::Nonce::try_assume_unique_for_key(nonce).map_err(|_| LONG)?;
        let tag = self.seal_in_place_separate_tag(nonce, Aad::from(key), written);
        out.extend_from_slice(tag.map_err(|_| LONG)?.as_ref());
        Ok(())
    }

    fn open(&self, stored: &[u8], key: &[u8]) -> Result<Vec<u8>, String> {
        let (nonce, rest) = stored.split_at_checked(NONCE).ok_or(SHORT)?;
        let nonce = aead::Nonce::try_assume_unique_for_key(nonce).map_err(|_| SHORT)?;
        let mut plain = rest.to_vec();
        let opened = self.open_in_place(nonce, Aad::from(key), &mut plain);
        let length = opened.map_err(|_| FAILED)?.len();
        plain.truncate(length);
        Ok(plain)
    }
}

/// Appends a nonce and the plaintext, which is encrypted in place.
fn begin(plain: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    random(NONCE, out).map_err(|error| format!("failed to write nonce for AES-GCM: {error}"))?;
    out.extend_from_slice(plain);
    Ok(())
}

struct Gcm<A>(A);

impl<A> Cipher for Gcm<A>
where
    A: AeadInPlace<NonceSize = U12, TagSize = U16> + Send + Sync,
{
    fn seal(&self, plain: &[u8], key: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        begin(plain, out)?;
        let mut written = out.get_mut(start..).unwrap_or_default();
        let nonce = written.split_off_mut(..NONCE).unwrap_or_default();
        let tag = self.0.encrypt_in_place_detached(Nonce::from_slice(nonce), key, written);
        out.extend_from_slice(&tag.map_err(|_| LONG)?);
        Ok(())
    }

    fn open(&self, stored: &[u8], key: &[u8]) -> Result<Vec<u8>, String> {
        let (nonce, rest) = stored.split_at_checked(NONCE).ok_or(SHORT)?;
        let body = rest.len().checked_sub(TAG).ok_or(FAILED)?;
        let (body, tag) = rest.split_at(body);
        let mut plain = body.to_vec();
        let (nonce, tag) = (Nonce::from_slice(nonce), Tag::from_slice(tag));
        let opened = self.0.decrypt_in_place_detached(nonce, key, &mut plain, tag);
        opened.map(|()| plain).map_err(|_| FAILED.to_owned())
    }
}
