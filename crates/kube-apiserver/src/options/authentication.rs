//! Flags that say how a client is recognised.

use crate::flags::{EFFECTIVE, Given, StringArray, StringPairs, Strings, section};
use kevel_api::duration::Duration;
use kevel_api::quote::quote;
use kevel_features::{Feature, FeatureGates};
use std::collections::BTreeSet;

section! {
    /// Options that say how a client is recognised.
    Authentication, "authentication" {
        /// Let in requests without credentials, as user system:anonymous in group system:unauthenticated. Off while
        /// everything is allowed (AlwaysAllow).
        anonymous_auth: bool = "true", EFFECTIVE;
        /// Names of this API, one of which a service account token must be meant for, comma
        /// separated. The token issuers unless given.
        api_audiences: Strings, EFFECTIVE;
        /// File with the configuration of JWT authenticators and of anonymous requests, in place of
        /// the --oidc-* flags and --anonymous-auth.
        authentication_config: String, EFFECTIVE;
        /// Cache lifetime of the token webhook's answers.
        authentication_token_webhook_cache_ttl: Duration = "2m0s", EFFECTIVE;
        /// Kubeconfig file of the webhook that reviews bearer tokens.
        authentication_token_webhook_config_file: String, EFFECTIVE;
        /// Version of the TokenReview that is sent to the webhook.
        authentication_token_webhook_version: String = "v1beta1", EFFECTIVE;
        /// File with the authorities whose client certificates name their users: the common name is
        /// the user, the organizations are the groups.
        client_ca_file: String, EFFECTIVE;
        /// Accept the tokens in secrets of type bootstrap.kubernetes.io/token in namespace
        /// kube-system.
        enable_bootstrap_token_auth: bool = "false", EFFECTIVE;
        /// File with the authorities that the OpenID issuer's certificate is checked against; the
        /// host's unless given.
        oidc_ca_file: String, EFFECTIVE;
        /// Client that OpenID tokens must be issued for. Needed with --oidc-issuer-url.
        oidc_client_id: String, EFFECTIVE;
        /// Claim with the user's groups: a string or a list of strings.
        oidc_groups_claim: String, EFFECTIVE;
        /// Prefix of the groups of a token.
        oidc_groups_prefix: String, EFFECTIVE;
        /// URL of the OpenID issuer whose tokens are accepted, with https.
        oidc_issuer_url: String, EFFECTIVE;
        /// A claim=value that a token must have; may be repeated.
        oidc_required_claim: StringPairs, EFFECTIVE;
        /// Accepted signature algorithms, comma separated: RS256, RS384, RS512, ES256, ES384,
        /// ES512, PS256, PS384, PS512.
        oidc_signing_algs: Strings = "RS256", EFFECTIVE;
        /// Claim with the user's name. Of other claims than the default it is not certain that they
        /// are unique and never change.
        oidc_username_claim: String = "sub", EFFECTIVE;
        /// Prefix of the user's name, '-' for none. Without it, names from other claims than email get the issuer's
        /// URL.
        oidc_username_prefix: String, EFFECTIVE;
        /// Common names of the client certificates that may name users in headers, comma separated.
        /// Without any, every certificate of --requestheader-client-ca-file may.
        requestheader_allowed_names: Strings, EFFECTIVE;
        /// File with the authorities whose clients may name users in headers.
        requestheader_client_ca_file: String, EFFECTIVE;
        /// Beginnings of the headers with further facts about the user, usually X-Remote-Extra-.
        requestheader_extra_headers_prefix: Strings, EFFECTIVE;
        /// Headers with the user's groups, usually X-Remote-Group.
        requestheader_group_headers: Strings, EFFECTIVE;
        /// Headers with the user's uid, usually X-Remote-Uid. Needs the feature
        /// RemoteRequestHeaderUID.
        requestheader_uid_headers: Strings, EFFECTIVE;
        /// Headers with the user's name, usually X-Remote-User.
        requestheader_username_headers: Strings, EFFECTIVE;
        /// Let the tokens that are mounted into pods be valid for up to a year, whatever
        /// --service-account-max-token-expiration says, while clients learn to read them again.
        service_account_extend_token_expiration: bool = "true", EFFECTIVE;
        /// Issuer of service account tokens; an https URL makes OpenID discovery possible. When
        /// repeated, the first issues tokens, and those of all are accepted.
        service_account_issuer: StringArray, EFFECTIVE;
        /// URL of the key set in the OpenID discovery document, if others see this server under
        /// another URL.
        service_account_jwks_uri: String, EFFECTIVE;
        /// File with public or private keys, one or more of which sign service account tokens; may
        /// be repeated.
        service_account_key_file: StringArray, EFFECTIVE;
        /// Accept the token of a service account only while the account exists.
        service_account_lookup: bool = "true", EFFECTIVE;
        /// Longest validity of a service account token; longer requests get this.
        service_account_max_token_expiration: Duration = "0s", EFFECTIVE;
        /// File with bearer tokens and their users, one per line.
        token_auth_file: String, EFFECTIVE;
    }
}

impl Authentication {
    /// Validation errors of these options alone.
    pub(super) fn validate(
        &self,
        given: &Given,
        gates: &FeatureGates,
        signs_externally: bool,
    ) -> Vec<String> {
        let mut errors = self.oidc_errors(given, gates);
        errors.extend(self.issuer_errors());
        if self.service_account_key_file.is_empty() && !signs_externally {
            errors.push(
                "either `--service-account-key-file` or `--service-account-signing-endpoint` must \
                 be set"
                    .to_owned(),
            );
        }
        errors.extend(self.jwks_error());
        errors.extend(self.request_header_errors(gates));
        errors
    }

    fn oidc_errors(&self, given: &Given, gates: &FeatureGates) -> Vec<String> {
        let flags = given.has_prefix("oidc_");
        let incomplete = self.oidc_issuer_url.is_empty() || self.oidc_client_id.is_empty();
        if self.authentication_config.is_empty() {
            let error = "oidc-issuer-url and oidc-client-id must be specified together when any \
                         oidc-* flags are set";
            return (flags && incomplete).then(|| error.to_owned()).into_iter().collect();
        }
        let mut errors = Vec::new();
        let gate = Feature::StructuredAuthenticationConfiguration;
        if !gates.enabled(gate) {
            errors
                .push(format!("set --feature-gates={gate}=true to use authentication-config file"));
        }
        if flags {
            errors.push(
                "authentication-config file and oidc-* flags are mutually exclusive".to_owned(),
            );
        }
        errors
    }

    fn issuer_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        let mut seen = BTreeSet::new();
        for issuer in self.service_account_issuer.iter() {
            let name = quote(issuer);
            let not_a_url = issuer.contains(':').then(|| url_scheme(issuer).err()).flatten();
            if let Some(problem) = not_a_url {
                errors.push(format!(
                    "service-account-issuer {name} contained a ':' but was not a valid URL: \
                     {problem}"
                ));
            } else if issuer.is_empty() {
                errors.push("service-account-issuer should not be an empty string".to_owned());
            } else if !seen.insert(issuer) {
                errors.push(format!("service-account-issuer {name} is already specified"));
            }
        }
        if self.service_account_issuer.is_empty() {
            errors.push("service-account-issuer is a required flag".to_owned());
        }
        errors
    }

    fn jwks_error(&self) -> Option<String> {
        let uri = &self.service_account_jwks_uri;
        match url_scheme(uri) {
            _ if uri.is_empty() => None,
            Err(problem) => {
                Some(format!("service-account-jwks-uri must be a valid URL: {problem}"))
            }
            Ok(scheme) if scheme != "https" => {
                Some(format!("service-account-jwks-uri requires https scheme, parsed as: {uri}"))
            }
            Ok(_) => None,
        }
    }

    fn request_header_errors(&self, gates: &FeatureGates) -> Vec<String> {
        let blank = |flag: &str, names: &Strings| {
            let blank = names.iter().any(|name| name.trim().is_empty());
            blank.then(|| format!("empty value in {}", quote(flag)))
        };
        let mut errors: Vec<String> = [
            ("requestheader-username-headers", &self.requestheader_username_headers),
            ("requestheader-group-headers", &self.requestheader_group_headers),
            ("requestheader-extra-headers-prefix", &self.requestheader_extra_headers_prefix),
            ("requestheader-allowed-names", &self.requestheader_allowed_names),
        ]
        .into_iter()
        .filter_map(|(flag, names)| blank(flag, names))
        .collect();
        let uid = &self.requestheader_uid_headers;
        if uid.is_empty() {
            return errors;
        }
        if gates.enabled(Feature::RemoteRequestHeaderUID) {
            errors.extend(blank("requestheader-uid-headers", uid));
            if !uid.iter().any(|name| name.eq_ignore_ascii_case("X-Remote-Uid")) {
                errors.push(
                    "--requestheader-uid-headers is set without specifying the standard \
                     X-Remote-Uid header - API aggregation will not work"
                        .to_owned(),
                );
            }
        } else {
            errors.push(
                "--requestheader-uid-headers requires the \"RemoteRequestHeaderUID\" feature to be \
                 enabled"
                    .to_owned(),
            );
        }
        errors
    }

    /// Warnings about values that are allowed but do not work with aggregated servers, which read the standard headers.
    pub fn warnings(&self) -> Vec<String> {
        let lacks = |names: &Strings, standard: &str| {
            !names.is_empty() && !names.iter().any(|name| name.eq_ignore_ascii_case(standard))
        };
        [
            (&self.requestheader_username_headers, "username-headers", "X-Remote-User", ""),
            (&self.requestheader_group_headers, "group-headers", "X-Remote-Group", ""),
            (
                &self.requestheader_extra_headers_prefix,
                "extra-headers-prefix",
                "X-Remote-Extra-",
                " prefix",
            ),
        ]
        .into_iter()
        .filter(|(names, _, standard, _)| lacks(names, standard))
        .map(|(_, flag, standard, prefix)| {
            format!(
                "--requestheader-{flag} is set without specifying the standard {standard} \
                 header{prefix} - API aggregation will not work"
            )
        })
        .collect()
    }
}

/// The scheme of a URL, which may be empty, or why it is none (RFC 3986, as lenient as the
/// reference).
fn url_scheme(text: &str) -> Result<&str, String> {
    url_parts(text).map_err(|problem| format!("parse {}: {problem}", quote(text)))
}

fn url_parts(text: &str) -> Result<&str, String> {
    if text.contains(|c: char| c.is_ascii_control()) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (before, after) = text.split_once(':').unwrap_or(("", text));
    let is_scheme = before.starts_with(|c: char| c.is_ascii_alphabetic())
        && before.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    if !is_scheme {
        let first = text.find([':', '/', '?', '#']).and_then(|at| text.as_bytes().get(at));
        return match first {
            Some(b':') if text.starts_with(':') => Err("missing protocol scheme".to_owned()),
            Some(b':') => Err("first path segment in URL cannot contain colon".to_owned()),
            _ => bad_escape(text).map_or(Ok(""), Err),
        };
    }
    let problem = match after.strip_prefix("//") {
        Some(rest) => bad_host(rest.split(['/', '?', '#']).next().unwrap_or_default())
            .or_else(|| bad_escape(rest)),
        None if after.starts_with('/') => bad_escape(after),
        // What follows such a scheme is its own business: `urn:`.
        None => None,
    };
    problem.map_or(Ok(before), Err)
}

fn bad_escape(mut text: &str) -> Option<String> {
    while let Some(at) = text.find('%') {
        let escape = text.get(at..at + 3).unwrap_or(&text[at..]);
        if escape.len() < 3 || !escape.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit()) {
            return Some(format!("invalid URL escape {}", quote(escape)));
        }
        text = &text[at + 3..];
    }
    None
}

fn bad_host(host: &str) -> Option<String> {
    if host.contains('[') && !host.contains(']') {
        return Some("missing ']' in host".to_owned());
    }
    let port = host.rsplit_once(']').map_or(host, |(_, port)| port);
    let port = port.rfind(':').map_or("", |at| &port[at..]);
    if port.bytes().skip(1).any(|byte| !byte.is_ascii_digit()) {
        return Some(format!("invalid port {} after host", quote(port)));
    }
    let foreign =
        |c: &char| matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}');
    let found = host.chars().find(foreign)?;
    Some(format!("invalid character {} in host name", quote(&found.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes() {
        for (text, scheme) in [
            ("https://example.com", Ok("https")),
            ("https://example.com:8443/a:b", Ok("https")),
            ("https://[::1]:443", Ok("https")),
            ("kubernetes/serviceaccount", Ok("")),
            ("urn:x", Ok("urn")),
            (":foo", Err("parse \":foo\": missing protocol scheme")),
            ("1a:b", Err("parse \"1a:b\": first path segment in URL cannot contain colon")),
            ("http://a/%zz", Err("parse \"http://a/%zz\": invalid URL escape \"%zz\"")),
            ("http://a:b", Err("parse \"http://a:b\": invalid port \":b\" after host")),
            ("http://a b", Err("parse \"http://a b\": invalid character \" \" in host name")),
            ("urn:x%2", Ok("urn")),
            ("http://[::1", Err("parse \"http://[::1\": missing ']' in host")),
        ] {
            assert_eq!(url_scheme(text), scheme.map_err(str::to_owned), "{text}");
        }
    }
}
