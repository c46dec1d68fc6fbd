//! Reasons why controllers cannot run.

/// Reason why a controller cannot run on this server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// A resource that it needs is switched off.
    #[error("{plural}.{group} is not served")]
    NotServed {
        /// Group of the resource.
        group: &'static str,
        /// Plural of the resource.
        plural: &'static str,
    },
    /// The controller needs a certificate authority, and the server has none of its own.
    #[error("the server has no certificate authority of its own")]
    NoAuthority,
    /// The controller signs tokens, and the server has no key for that.
    #[error("the server has no key that signs tokens of service accounts")]
    NoSigningKey,
}
