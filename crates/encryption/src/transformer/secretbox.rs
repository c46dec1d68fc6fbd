//! `secretbox`: NaCl's XSalsa20 and Poly1305. A value is a random nonce, the tag, and the ciphertext. It is not bound
//! to its storage key.

use crypto_secretbox::aead::AeadInPlace;
use crypto_secretbox::{KeyInit, Nonce, Tag, XSalsa20Poly1305};

use super::{Cipher, random};

const NONCE: usize = 24;
const TAG: usize = 16;

/// Cipher of a key of 32 bytes.
pub(super) fn cipher(key: &[u8]) -> Option<Box<dyn Cipher>> {
    Some(Box::new(Secretbox(XSalsa20Poly1305::new_from_slice(key).ok()?)))
}

struct Secretbox(XSalsa20Poly1305);

impl Cipher for Secretbox {
    fn seal(&self, plain: &[u8], _key: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        random(NONCE, out)?;
        out.resize(out.len() + TAG, 0);
        out.extend_from_slice(plain);
        let mut written = out.get_mut(start..).unwrap_or_default();
        let nonce = written.split_off_mut(..NONCE).unwrap_or_default();
        let place = written.split_off_mut(..TAG).unwrap_or_default();
        let tag = self.0.encrypt_in_place_detached(Nonce::from_slice(nonce), b"", written);
        place.copy_from_slice(&tag.map_err(|_| "the value is too long for secretbox")?);
        Ok(())
    }

    fn open(&self, stored: &[u8], _key: &[u8]) -> Result<Vec<u8>, String> {
        let short = || "the stored data was shorter than the required size".to_owned();
        let (nonce, rest) = stored.split_at_checked(NONCE).ok_or_else(short)?;
        let (tag, body) = rest.split_at_checked(TAG).ok_or_else(short)?;
        let mut plain = body.to_vec();
        let (nonce, tag) = (Nonce::from_slice(nonce), Tag::from_slice(tag));
        let opened = self.0.decrypt_in_place_detached(nonce, b"", &mut plain, tag);
        // The reference's message for a tampered value.
        let failed = |_| "output array was not large enough for encryption".to_owned();
        opened.map(|()| plain).map_err(failed)
    }
}
