//! `aescbc`: AES-CBC with PKCS#7 padding. A value is a random IV and the ciphertext; it is not authenticated, and not
//! bound to its storage key.

use aes::cipher::block_padding::NoPadding;
use aes::cipher::{BlockCipher, BlockDecryptMut, BlockEncryptMut, InnerIvInit, KeyInit};
use aes::{Aes128, Aes192, Aes256};

use super::{Cipher, random};

const BLOCK: usize = 16;

/// Cipher of a key of 16, 24 or 32 bytes.
pub(crate) fn cipher(key: &[u8]) -> Option<Box<dyn Cipher>> {
    Some(match key.len() {
        16 => Box::new(Cbc(Aes128::new_from_slice(key).ok()?)),
        24 => Box::new(Cbc(Aes192::new_from_slice(key).ok()?)),
        32 => Box::new(Cbc(Aes256::new_from_slice(key).ok()?)),
        _ => return None,
    })
}

struct Cbc<C>(C);

impl<C> Cipher for Cbc<C>
where
    C: BlockCipher + BlockEncryptMut + BlockDecryptMut + Clone + Send + Sync,
{
    fn seal(&self, plain: &[u8], _key: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        random(BLOCK, out)?;
        out.extend_from_slice(plain);
        let padding = BLOCK - plain.len() % BLOCK;
        out.resize(out.len() + padding, padding as u8);
        let mut written = out.get_mut(start..).unwrap_or_default();
        let first = written.split_off_mut(..BLOCK).unwrap_or_default();
        let failed = |_| "the value does not fit the block size".to_owned();
        let mode = cbc::Encryptor::<C>::inner_iv_slice_init(self.0.clone(), first);
        let mode = mode.map_err(|_| "the first block is not a block")?;
        let length = written.len();
        mode.encrypt_padded_mut::<NoPadding>(written, length).map(drop).map_err(failed)
    }

    fn open(&self, stored: &[u8], _key: &[u8]) -> Result<Vec<u8>, String> {
        let (first, body) = stored
            .split_at_checked(BLOCK)
            .ok_or("the stored data was shorter than the required size")?;
        if !body.len().is_multiple_of(BLOCK) {
            return Err("the stored data is not a multiple of the block size".to_owned());
        }
        let mut plain = body.to_vec();
        let mode = cbc::Decryptor::<C>::inner_iv_slice_init(self.0.clone(), first);
        let mode = mode.map_err(|_| "the first block is not a block")?;
        mode.decrypt_padded_mut::<NoPadding>(&mut plain)
            .map_err(|_| "the stored data is not a multiple of the block size")?;
        let padding = plain.last().copied().unwrap_or(0);
        let length = plain.len().checked_sub(usize::from(padding)).filter(|_| padding != 0);
        let length = length.ok_or("invalid PKCS7 data (empty or not padded)")?;
        if plain.iter().skip(length).any(|byte| *byte != padding) {
            return Err("invalid padding on input".to_owned());
        }
        plain.truncate(length);
        Ok(plain)
    }
}
