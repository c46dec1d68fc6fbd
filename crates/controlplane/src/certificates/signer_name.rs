//! Validation of signer names: `example.com/name`.

use kevel_api::name::{self, Problems};
use kevel_api::quote::quote;

use crate::validation::Field;

/// Maximum length of the domain.
const MAX_DOMAIN: usize = 253;
/// Maximum length of the path: a namespace, a dot and an object's name.
const MAX_PATH: usize = 63 + 1 + 253;

/// Checks a signer name.
pub fn check(signer: Field) {
    if !signer.must("") {
        return;
    }
    let parts = (signer.str().split_once('/')).filter(|(_, path)| !path.contains('/'));
    let Some((domain, path)) = parts else {
        let form = "must be a fully qualified domain and path of the form \
                    'example.com/signer-name'";
        return signer.invalid(form);
    };
    if domain.len() > MAX_DOMAIN {
        signer.too_long(MAX_DOMAIN);
    }
    labels(signer, domain, name::is_dns1123_label);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        signer.invalid_as(domain, why);
    }
    labels(signer, path, name::is_dns1123_subdomain);
    let longest = MAX_DOMAIN + 1 + MAX_PATH;
    if signer.len() > longest {
        signer.too_long(longest);
    }
}

/// True for signers in `kubernetes.io`.
pub fn is_kubernetes(signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}

/// Checks labels separated by dots; reports the first invalid one.
fn labels(signer: Field, part: &str, problems: fn(&str) -> Problems) {
    let wrong = part.split('.').find_map(|label| {
        let problems = problems(label);
        (!problems.is_empty()).then_some((label, problems))
    });
    let Some((label, problems)) = wrong else { return };
    for problem in problems {
        signer.invalid_as(part, format!("validating label {}: {problem}", quote(label)));
    }
}
