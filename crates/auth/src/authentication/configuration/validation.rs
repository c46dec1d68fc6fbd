//! Validation of the configuration.

use std::collections::BTreeSet;

use kevel_api::field_error::{BadValue, FieldError, Path};
use kevel_api::name::is_domain_prefixed_path;
use kevel_api::quote::quote;
use kevel_cel::Program;
use kevel_server::certificates::CaBundle;

use super::super::jwt::expression::{self, Over};
use super::{
    AuthenticationConfiguration, ClaimMapping, ClaimValidationRule, ConfigurationLimits,
    ExtraMapping, IssuerConfiguration, JwtConfiguration, UserValidationRule,
};

/// Maximum number of issuers.
const MOST_ISSUERS: usize = 64;

const BOTH: &str = "claim and expression can't both be set";
const NEITHER: &str = "claim or expression is required";

pub(super) fn errors(
    configuration: &AuthenticationConfiguration,
    limits: ConfigurationLimits<'_>,
) -> Vec<FieldError> {
    let root = Path::new("jwt");
    let issuers = &configuration.jwt;
    if issuers.len() > MOST_ISSUERS {
        return vec![FieldError::too_many(&root, Some(issuers.len()), MOST_ISSUERS)];
    }
    let mut errors = Vec::new();
    let (mut urls, mut discovery_urls) = (BTreeSet::new(), BTreeSet::new());
    for (index, jwt) in issuers.iter().enumerate() {
        let path = root.index(index);
        jwt_errors(jwt, limits, &path, &mut errors);
        let at = path.child("issuer");
        let IssuerConfiguration { url, discovery_url, .. } = &jwt.issuer;
        if !urls.insert(url) {
            errors.push(FieldError::duplicate(&at.child("url"), url.as_str()));
        }
        if !discovery_url.is_empty() && !discovery_urls.insert(discovery_url) {
            errors.push(FieldError::duplicate(&at.child("discoveryURL"), discovery_url.as_str()));
        }
    }
    if let Some(anonymous) = &configuration.anonymous
        && !anonymous.enabled
        && !anonymous.paths.is_empty()
    {
        let conditions =
            anonymous.paths.iter().map(|path| format!(r#"{{"path":{}}}"#, quote(path)));
        let shown = format!("[{}]", conditions.collect::<Vec<_>>().join(","));
        let problem = "enabled should be set to true when conditions are defined";
        let at = Path::new("anonymous.conditions");
        errors.push(FieldError::invalid(&at, BadValue::Text(shown), problem));
    }
    errors
}

fn jwt_errors(
    jwt: &JwtConfiguration,
    limits: ConfigurationLimits<'_>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    issuer_errors(&jwt.issuer, limits, &path.child("issuer"), errors);
    let at = path.child("claimValidationRules");
    let mut verified = claim_rule_errors(&jwt.claim_validation_rules, &at, errors);
    let at = path.child("claimMappings");
    let username = mapping_errors(&jwt.username, true, &at.child("username"), errors);
    verified |= username.as_ref().is_some_and(|program| program.selects_field("email_verified"));
    mapping_errors(&jwt.groups, false, &at.child("groups"), errors);
    let uid = &at.child("uid");
    match (jwt.uid.claim.as_str(), jwt.uid.expression.as_str()) {
        ("", "") | (_, "") => {}
        ("", text) => drop(compiled(Over::Claims, text, &uid.child("expression"), errors)),
        _ => errors.push(FieldError::invalid(uid, "", BOTH)),
    }
    verified |= extra_errors(&jwt.extra, &at.child("extra"), errors);
    // An address that is not verified could be any user's.
    if username.is_some_and(|program| program.selects_field("email")) && !verified {
        errors.push(FieldError::invalid(
            &at.child("username.expression"),
            jwt.username.expression.as_str(),
            "claims.email_verified must be used in claimMappings.username.expression or \
             claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when \
             claims.email is used in claimMappings.username.expression",
        ));
    }
    user_rule_errors(&jwt.user_validation_rules, &path.child("userValidationRules"), errors);
}

fn issuer_errors(
    issuer: &IssuerConfiguration,
    limits: ConfigurationLimits<'_>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let disallowed = limits.disallowed_issuers;
    match issuer.url.as_str() {
        "" => errors.push(FieldError::required(&path.child("url"), "")),
        url => url_errors(url, disallowed, &path.child("url"), errors),
    }
    let (url, discovery) = (issuer.url.as_str(), issuer.discovery_url.as_str());
    if !discovery.is_empty() {
        let at = path.child("discoveryURL");
        if !url.is_empty() && url.trim_end_matches('/') == discovery.trim_end_matches('/') {
            let problem = "discoveryURL must be different from URL";
            errors.push(FieldError::invalid(&at, discovery, problem));
        }
        url_errors(discovery, &[], &at, errors);
    }
    audience_errors(issuer, path, errors);
    let ca = issuer.certificate_authority.as_bytes();
    if let Some(error) = CaBundle::parse(ca).err().filter(|_| !ca.is_empty()) {
        errors.push(FieldError::invalid(&path.child("certificateAuthority"), "<omitted>", error));
    }
    let egress = issuer.egress_selector_type.as_str();
    if !egress.is_empty() && !limits.egress_selectors {
        errors.push(FieldError::invalid(
            &path.child("egressSelectorType"),
            BadValue::named_string(egress),
            "egress selector is not supported when \
             StructuredAuthenticationConfigurationEgressSelector feature gate is disabled",
        ));
    } else if !matches!(egress, "" | "controlplane" | "cluster") {
        errors.push(FieldError::invalid(
            &path.child("egressSelectorType"),
            BadValue::named_string(egress),
            "egress selector must be either controlplane or cluster",
        ));
    }
}

fn url_errors(url: &str, disallowed: &[String], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut wrong = |problem: String| errors.push(FieldError::invalid(path, url, problem));
    if disallowed.iter().any(|issuer| issuer == url) {
        let disallowed: BTreeSet<_> = disallowed.iter().map(String::as_str).collect();
        let disallowed = disallowed.into_iter().collect::<Vec<_>>().join(" ");
        wrong(format!("URL must not overlap with disallowed issuers: [{disallowed}]"));
    }
    if url.contains(|c: char| c.is_ascii_control()) {
        let text = quote(url);
        return wrong(format!("parse {text}: net/url: invalid control character in URL"));
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once("://").unwrap_or(("", rest));
    let authority = rest.split('/').next().unwrap_or_default();
    for (is_wrong, problem) in [
        (!scheme.eq_ignore_ascii_case("https"), "URL scheme must be https"),
        (
            !scheme.is_empty() && authority.contains('@'),
            "URL must not contain a username or password",
        ),
        (!query.is_empty(), "URL must not contain a query"),
        (!fragment.is_empty(), "URL must not contain a fragment"),
    ] {
        if is_wrong {
            wrong(problem.to_owned());
        }
    }
}

fn audience_errors(issuer: &IssuerConfiguration, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let at = path.child("audiences");
    if issuer.audiences.is_empty() {
        errors.push(FieldError::required(&at, format!("at least one {at} is required")));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, audience) in issuer.audiences.iter().enumerate() {
        let at = at.index(index);
        if audience.is_empty() {
            errors.push(FieldError::required(&at, ""));
        }
        if !seen.insert(audience) {
            errors.push(FieldError::duplicate(&at, audience.as_str()));
        }
    }
    let policy = issuer.audience_match_policy.as_str();
    let problem = match (issuer.audiences.len(), policy) {
        (_, "MatchAny") | (1, "") => return,
        (1, _) => "audienceMatchPolicy must be empty or MatchAny for single audience",
        _ => "audienceMatchPolicy must be MatchAny for multiple audiences",
    };
    let at = path.child("audienceMatchPolicy");
    errors.push(FieldError::invalid(&at, BadValue::named_string(policy), problem));
}

/// Checks the rules; true if one of them uses `email_verified`.
fn claim_rule_errors(
    rules: &[ClaimValidationRule],
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) -> bool {
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    let mut verified = false;
    for (index, rule) in rules.iter().enumerate() {
        let at = path.index(index);
        match (rule.claim.as_str(), rule.expression.as_str()) {
            ("", "") => errors.push(FieldError::required(&at, NEITHER)),
            (claim, "") => {
                if !rule.message.is_empty() {
                    let problem = "may not be specified when claim is set";
                    let at = at.child("message");
                    errors.push(FieldError::invalid(&at, rule.message.as_str(), problem));
                }
                if !claims.insert(claim) {
                    errors.push(FieldError::duplicate(&at.child("claim"), claim));
                }
            }
            ("", text) => {
                if !rule.required_value.is_empty() {
                    let problem = "may not be specified when expression is set";
                    let at = at.child("requiredValue");
                    errors.push(FieldError::invalid(&at, rule.required_value.as_str(), problem));
                }
                if !expressions.insert(text) {
                    errors.push(FieldError::duplicate(&at.child("expression"), text));
                    continue;
                }
                let rule = compiled(Over::ClaimsRule, text, &at.child("expression"), errors);
                verified |= rule.is_some_and(|rule| rule.selects_field("email_verified"));
            }
            (claim, _) => errors.push(FieldError::invalid(&at, claim, BOTH)),
        }
    }
    verified
}

fn mapping_errors(
    mapping: &ClaimMapping,
    required: bool,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) -> Option<Program> {
    let at = path.child("prefix");
    match (mapping.claim.as_str(), mapping.expression.as_str(), &mapping.prefix) {
        ("", "", _) if required => errors.push(FieldError::required(path, NEITHER)),
        ("", "", _) => {}
        (_, "", None) => errors.push(FieldError::required(
            &at,
            "prefix is required when claim is set. It can be set to an empty string to disable \
             prefixing",
        )),
        (_, "", Some(_)) => {}
        ("", text, prefix) => {
            let before = errors.len();
            if let Some(prefix) = prefix {
                let problem = "may not be specified when expression is set";
                errors.push(FieldError::invalid(&at, prefix.as_str(), problem));
            }
            let program = compiled(Over::Claims, text, &path.child("expression"), errors);
            return program.filter(|_| errors.len() == before);
        }
        _ => errors.push(FieldError::invalid(path, "", BOTH)),
    }
    None
}

/// Checks the mappings; true if one of them uses `email_verified`.
fn extra_errors(extra: &[ExtraMapping], path: &Path<'_>, errors: &mut Vec<FieldError>) -> bool {
    let mut keys = BTreeSet::new();
    let mut verified = false;
    for (index, ExtraMapping { key, value_expression }) in extra.iter().enumerate() {
        let at = path.index(index);
        let at_key = at.child("key");
        errors.extend(is_domain_prefixed_path(&at_key, key));
        if key.to_lowercase() != *key {
            errors.push(FieldError::invalid(&at_key, key.as_str(), "must be lowercase"));
        }
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let reserved = |of: &str| domain == of || domain.ends_with(&format!(".{of}"));
        if reserved("kubernetes.io") || reserved("k8s.io") {
            let problem =
                "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
            errors.push(FieldError::invalid(&at_key, key.as_str(), problem));
        }
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(&at_key, key.as_str()));
            continue;
        }
        let at = at.child("valueExpression");
        if value_expression.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let program = compiled(Over::Claims, value_expression, &at, errors);
        verified |= program.is_some_and(|program| program.selects_field("email_verified"));
    }
    verified
}

fn user_rule_errors(rules: &[UserValidationRule], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (index, UserValidationRule { expression, .. }) in rules.iter().enumerate() {
        let at = path.index(index);
        let at = at.child("expression");
        if expression.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if !seen.insert(expression) {
            errors.push(FieldError::duplicate(&at, expression.as_str()));
        } else {
            compiled(Over::User, expression, &at, errors);
        }
    }
}

fn compiled(
    over: Over,
    text: &str,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) -> Option<Program> {
    let program = expression::compile(over, text);
    program.map_err(|error| errors.push(FieldError::invalid(path, text, error))).ok()
}
