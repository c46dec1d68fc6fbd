//! `AuthenticationConfiguration`: issuers of JWTs, and anonymous access.

mod read;
#[cfg(test)]
mod tests;
mod validation;

use kevel_api::field_error::{FieldError, aggregate};

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationConfiguration {
    /// JWT authenticators, in the order in which they are tried.
    pub jwt: Vec<JwtConfiguration>,
    /// Anonymous access; `None` if the flags configure it.
    pub anonymous: Option<AnonymousConfiguration>,
}

/// Anonymous access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnonymousConfiguration {
    /// True if requests without credentials are admitted as `system:anonymous`.
    pub enabled: bool,
    /// Paths with anonymous access; empty for all.
    pub paths: Vec<String>,
}

/// A JWT authenticator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwtConfiguration {
    /// Issuer of the tokens.
    pub issuer: IssuerConfiguration,
    /// Validation rules of the claims.
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    /// Mapping of the user name.
    pub username: ClaimMapping,
    /// Mapping of the groups.
    pub groups: ClaimMapping,
    /// Mapping of the UID, without a prefix.
    pub uid: ClaimMapping,
    /// Mappings of the user's extra fields.
    pub extra: Vec<ExtraMapping>,
    /// Validation rules of the mapped user.
    pub user_validation_rules: Vec<UserValidationRule>,
}

/// Issuer, with its location and the accepted audiences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssuerConfiguration {
    /// URL of the issuer: the value of `iss`.
    pub url: String,
    /// URL of the discovery document, if it is not below the issuer's URL.
    pub discovery_url: String,
    /// CA bundle (PEM); empty for the system's CAs.
    pub certificate_authority: String,
    /// Accepted audiences.
    pub audiences: Vec<String>,
    /// Audience match policy: `MatchAny` with several audiences.
    pub audience_match_policy: String,
    /// Egress selection by which the issuer is reached.
    pub egress_selector_type: String,
}

/// Validation rule of claims: a required value, or a CEL expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimValidationRule {
    /// Claim with a required value.
    pub claim: String,
    /// Required value.
    pub required_value: String,
    /// CEL expression over the claims, instead of a claim.
    pub expression: String,
    /// Message if the expression is false.
    pub message: String,
}

/// Mapping of claims to a user attribute: a claim, or a CEL expression over the claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimMapping {
    /// Name of the claim.
    pub claim: String,
    /// Prefix of the value.
    pub prefix: Option<String>,
    /// CEL expression over the claims, instead of a claim.
    pub expression: String,
}

/// Mapping of claims to an extra field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraMapping {
    /// Key: a domain and a path.
    pub key: String,
    /// CEL expression over the claims.
    pub value_expression: String,
}

/// Validation rule of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserValidationRule {
    /// CEL expression over the user.
    pub expression: String,
    /// Message if the expression is false.
    pub message: String,
}

/// ConfigurationLimits of the server on a configuration.
#[derive(Clone, Copy, Debug)]
pub struct ConfigurationLimits<'a> {
    /// Issuers that a configuration may not name: those of service account tokens.
    pub disallowed_issuers: &'a [String],
    /// An issuer may name the network that leads to it (`StructuredAuthenticationConfigurationEgressSelector`).
    pub egress_selectors: bool,
}

impl AuthenticationConfiguration {
    /// Decodes a configuration file. It is not [checked](Self::check) yet.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        read::configuration(text)
    }

    /// Validates the configuration.
    pub fn check(&self, limits: ConfigurationLimits<'_>) -> Result<(), String> {
        aggregate(self.errors(limits)).map_or(Ok(()), Err)
    }

    /// All validation errors.
    pub fn errors(&self, limits: ConfigurationLimits<'_>) -> Vec<FieldError> {
        validation::errors(self, limits)
    }
}
