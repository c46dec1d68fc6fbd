//! Names of the claims of a pod.

use kevel_api::value::Value;

use crate::object::is_deleted;
use crate::pod::is_terminal;

/// Claim of a pod (upstream: `resourceclaim.Name`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimNames<'a> {
    /// A claim that the user made.
    Given(&'a str),
    /// A claim that was made from a template, for the pod.
    Made(&'a str),
    /// A template was decided to give no claim.
    NotNeeded,
    /// A template whose claim is yet to be made.
    NotMade,
}

/// Name of one of a pod's claims.
pub(super) fn claim_name<'a>(pod: &'a Value, claim: &'a Value) -> ClaimNames<'a> {
    let given = claim.str_at(&["resourceClaimName"]);
    if !given.is_empty() {
        return ClaimNames::Given(given);
    }
    let statuses = pod.list_at(&["status", "resourceClaimStatuses"]);
    let of = |status: &&Value| status.str_at(&["name"]) == claim.str_at(&["name"]);
    match statuses.iter().find(of).map(|status| status.str_at(&["resourceClaimName"])) {
        None => ClaimNames::NotMade,
        Some("") => ClaimNames::NotNeeded,
        Some(made) => ClaimNames::Made(made),
    }
}

/// Whether a pod names a claim.
pub(super) fn names_claim(pod: &Value, name: &str) -> bool {
    let mut claims = pod.list_at(&["spec", "resourceClaims"]).iter();
    claims.any(|claim| {
        matches!(claim_name(pod, claim), ClaimNames::Given(known) | ClaimNames::Made(known) if known == name)
    })
}

/// Whether a pod may still run, and needs its claims.
pub(super) fn needs_claims(pod: &Value) -> bool {
    let is_scheduled = !pod.str_at(&["spec", "nodeName"]).is_empty();
    !is_terminal(pod) && (!is_deleted(pod) || is_scheduled)
}
