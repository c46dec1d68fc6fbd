//! Named keys of the providers with keys in the configuration.

use kevel_clock::Stopwatch;
use kevel_codec::base64;

use super::{Cipher, Context, TransformError, Transformed};
use crate::config::Key;

/// Keys of a provider. The first encrypts; all decrypt.
pub(super) struct Keys {
    /// By the prefix of their values: name and colon.
    keys: Vec<(String, Box<dyn Cipher>)>,
    /// Provider name in messages.
    provider: &'static str,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|(name, _)| name)).finish()
    }
}

impl Keys {
    pub fn new(
        keys: &[Key],
        provider: &'static str,
        cipher: impl Fn(&[u8]) -> Option<Box<dyn Cipher>>,
    ) -> Result<Self, String> {
        let key = |key: &Key| {
            let mut secret = Vec::new();
            base64::decode_into(&key.secret, &mut secret).map_err(|at| {
                let name = &key.name;
                format!(
                    "could not obtain secret for named key {name}: illegal base64 data at input \
                     byte {at}"
                )
            })?;
            let cipher = cipher(&secret)
                .ok_or_else(|| format!("error while creating cipher for named key {}", key.name))?;
            Ok((format!("{}:", key.name), cipher))
        };
        Ok(Keys { keys: keys.iter().map(key).collect::<Result<_, String>>()?, provider })
    }

    pub fn seal(
        &self,
        plain: &[u8],
        context: Context<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let started = Stopwatch::start();
        let (name, cipher) = self.keys.first().ok_or("there is no key to write with")?;
        out.extend_from_slice(name.as_bytes());
        cipher.seal(plain, context.key, out)?;
        context.metrics.written(context.resource, name, started, None);
        Ok(())
    }

    pub fn open(&self, stored: &[u8], context: Context<'_>) -> Result<Transformed, TransformError> {
        let started = Stopwatch::start();
        let mut errors = Vec::new();
        for (place, (name, cipher)) in self.keys.iter().enumerate() {
            let Some(rest) = stored.strip_prefix(name.as_bytes()) else { continue };
            let opened = cipher.open(rest, context.key).map_err(TransformError::Damaged);
            let (resource, error) = (context.resource, opened.as_ref().err());
            context.metrics.read(resource, name, started, error);
            match opened {
                Ok(value) => return Ok(Transformed { value: value.into(), stale: place != 0 }),
                Err(error) => errors.push(error),
            }
        }
        let none = || {
            let of = self.provider;
            let message = format!("no matching key was found for the provided {of} transformer");
            let error = TransformError::Damaged(message);
            context.metrics.read(context.resource, "unknown", started, Some(&error));
            error
        };
        Err(TransformError::all(errors).unwrap_or_else(none))
    }
}
