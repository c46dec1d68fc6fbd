//! `AuthenticationConfiguration`: whose JSON web tokens are accepted, and where nobody needs any.

mod read;
#[cfg(test)]
mod tests;
mod validation;

use kevel_api::field_error::{FieldError, aggregate};

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationConfiguration {
    /// Those who issue tokens, in the order in which they are asked.
    pub jwt: Vec<JwtConfiguration>,
    /// Who may come without a name; `None` if the flags say so.
    pub anonymous: Option<AnonymousConfiguration>,
}

/// Who may come without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnonymousConfiguration {
    /// Whether requests without credentials are let in as `system:anonymous`.
    pub enabled: bool,
    /// The paths on which they may; everywhere if there are none.
    pub paths: Vec<String>,
}

/// One issuer of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwtConfiguration {
    /// Who issues the tokens.
    pub issuer: IssuerConfiguration,
    /// What the claims must be.
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    /// Where the name of the user comes from.
    pub username: ClaimMapping,
    /// Where the groups come from.
    pub groups: ClaimMapping,
    /// Without a prefix.
    pub uid: ClaimMapping,
    /// What else is told about the user.
    pub extra: Vec<ExtraMapping>,
    /// What the user must be once it is known.
    pub user_validation_rules: Vec<UserValidationRule>,
}

/// Where an issuer is, and whom its tokens must be for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssuerConfiguration {
    /// The issuer's URL, as `iss` says it.
    pub url: String,
    /// Where it says what it does, if that is not below its URL.
    pub discovery_url: String,
    /// Who vouches for it (PEM); the system's authorities if empty.
    pub certificate_authority: String,
    /// Whom tokens must be for.
    pub audiences: Vec<String>,
    /// How many of the audiences must match: `MatchAny` with several.
    pub audience_match_policy: String,
    /// Which egress the issuer is reached by.
    pub egress_selector_type: String,
}

/// What must be true of a token's claims: that one has a value, or that an expression says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimValidationRule {
    /// The claim that must have a value.
    pub claim: String,
    /// That value.
    pub required_value: String,
    /// Or: what must hold of the claims, in CEL.
    pub expression: String,
    /// What is said when it does not.
    pub message: String,
}

/// Where something about the user stands in a token: in a claim, or in what an expression makes of
/// the claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimMapping {
    /// The claim to take.
    pub claim: String,
    /// What goes before it.
    pub prefix: Option<String>,
    /// Or: how it is computed of the claims, in CEL.
    pub expression: String,
}

/// What else is to be known about the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraMapping {
    /// The key, a domain and a path.
    pub key: String,
    /// How its values are computed of the claims, in CEL.
    pub value_expression: String,
}

/// What must be true of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserValidationRule {
    /// What must hold of the user, in CEL.
    pub expression: String,
    /// What is said when it does not.
    pub message: String,
}

impl AuthenticationConfiguration {
    /// Reads a configuration file's text. It is not [checked](Self::check) yet.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        read::configuration(text)
    }

    /// What is wrong with it, if anything. The issuers of service accounts' tokens are not to be
    /// among its own.
    pub fn check(&self, disallowed_issuers: &[String]) -> Result<(), String> {
        aggregate(self.errors(disallowed_issuers)).map_or(Ok(()), Err)
    }

    /// Everything that is wrong with it.
    pub fn errors(&self, disallowed_issuers: &[String]) -> Vec<FieldError> {
        validation::errors(self, disallowed_issuers)
    }
}
