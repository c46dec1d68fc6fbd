//! Certificates that the path builder does not take and the reference does: of X.509's first version, of an authority
//! that uses its own, and those that are trusted by themselves. People make all of them: `openssl x509 -req` without
//! extensions, a self-signed certificate that is its own `caBundle`.

use std::time::SystemTime;

use rustls::pki_types::{TrustAnchor, UnixTime};
use webpki::Error;

use super::certificate::Certificate;
use super::der::{self, Reader};

pub(super) const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
const ANY_USAGE: &[u8] = &[0x55, 0x1d, 37, 0];

/// What a certificate is shown for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To a client.
    ServerAuth,
    /// To a server.
    ClientAuth,
}

impl Purpose {
    fn oid(self) -> &'static [u8] {
        match self {
            Purpose::ServerAuth => &[0x2b, 6, 1, 5, 5, 7, 3, 1],
            Purpose::ClientAuth => &[0x2b, 6, 1, 5, 5, 7, 3, 2],
        }
    }
}

/// Whether the path builder's refusal may be one of what it does not take.
pub fn is_worth_another_look(error: &Error) -> bool {
    matches!(error, Error::CaUsedAsEndEntity | Error::UnknownIssuer | Error::UnsupportedCertVersion)
}

/// Judges a certificate without a path: one that an authority itself has signed, or that is one of those trusted. It
/// must be valid now, and for the purpose. Whose it is, is for others to judge.
pub fn verify_directly(
    certificate: &Certificate<'_>,
    anchors: &[TrustAnchor<'_>],
    purpose: Purpose,
) -> Result<(), Error> {
    // Constraints of names are for the path builder.
    let mut anchors = anchors.iter().filter(|anchor| anchor.name_constraints.is_none());
    let trusted = anchors.any(|anchor| {
        let (subject, key) = (&*anchor.subject, &*anchor.subject_public_key_info);
        subject == certificate.raw_issuer() && certificate.is_signed_by(key)
            || subject == certificate.raw_subject() && has_key(certificate, key)
    });
    if !trusted {
        return Err(Error::UnknownIssuer);
    }
    if !is_for(certificate, purpose) {
        return Err(Error::UnknownIssuer);
    }
    valid_now(certificate)
}

/// Whether it is about a key, given without the sequence around it.
fn has_key(certificate: &Certificate<'_>, key: &[u8]) -> bool {
    let own = Reader(certificate.public_key()).read(der::SEQUENCE);
    own.is_some_and(|own| own.contents == key)
}

/// Whether its extension, if it has one, names the purpose.
fn is_for(certificate: &Certificate<'_>, purpose: Purpose) -> bool {
    let Some(usages) = certificate.extension(EXTENDED_KEY_USAGE) else { return true };
    let usages = Reader(usages).open(der::SEQUENCE);
    let mut usages = usages.into_iter().flatten().map(|usage| usage.contents);
    usages.any(|usage| usage == purpose.oid() || usage == ANY_USAGE)
}

fn valid_now(certificate: &Certificate<'_>) -> Result<(), Error> {
    let now = SystemTime::now();
    let (Some(from), Some(to)) = (certificate.not_before(), certificate.not_after()) else {
        return Err(Error::BadDerTime);
    };
    let time = UnixTime::now();
    if now < from {
        return Err(Error::CertNotValidYet { time, not_before: time });
    }
    if now > to {
        return Err(Error::CertExpired { time, not_after: time });
    }
    Ok(())
}
