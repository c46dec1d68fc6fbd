//! Requests of kubelets, for their client and serving certificates.

use std::collections::BTreeSet;

use kevel_pki::CertificateRequest;

const ORGANIZATION: &str = "system:nodes";
const PREFIX: &str = "system:node:";
const OPTIONAL: &str = "key encipherment";

/// Rule that a kubelet's request breaks.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotOfKubelet {
    #[error("subject organization is not {ORGANIZATION}")]
    Organization,
    #[error("subject common name does not begin with {PREFIX}")]
    CommonName,
    #[error("DNS or IP subjectAltName is required")]
    NoName,
    #[error("{0} subjectAltNames are not allowed")]
    Name(&'static str),
    #[error("usages did not match [{0}]")]
    Usages(String),
}

/// Checks a request for a client certificate.
pub(super) fn check_client(
    request: &CertificateRequest<'_>,
    usages: &[&str],
) -> Result<(), NotOfKubelet> {
    check_organization(request)?;
    let names = request.alt_names();
    refuse("DNS", names.dns_names.is_empty())?;
    refuse("Email", names.emails.is_empty())?;
    refuse("IP", names.ips.is_empty())?;
    refuse("URI", names.uris.is_empty())?;
    check_common_name(request)?;
    check_usages(usages, "client auth")
}

/// Checks a request for a serving certificate.
pub(super) fn check_serving(
    request: &CertificateRequest<'_>,
    usages: &[&str],
) -> Result<(), NotOfKubelet> {
    check_organization(request)?;
    let names = request.alt_names();
    if names.dns_names.is_empty() && names.ips.is_empty() {
        return Err(NotOfKubelet::NoName);
    }
    refuse("Email", names.emails.is_empty())?;
    refuse("URI", names.uris.is_empty())?;
    check_usages(usages, "server auth")?;
    check_common_name(request)
}

fn refuse(kind: &'static str, empty: bool) -> Result<(), NotOfKubelet> {
    if empty { Ok(()) } else { Err(NotOfKubelet::Name(kind)) }
}

fn check_organization(request: &CertificateRequest<'_>) -> Result<(), NotOfKubelet> {
    let fits = request.subject().organizations == [ORGANIZATION];
    if fits { Ok(()) } else { Err(NotOfKubelet::Organization) }
}

fn check_common_name(request: &CertificateRequest<'_>) -> Result<(), NotOfKubelet> {
    let fits = request.subject().common_name.starts_with(PREFIX);
    if fits { Ok(()) } else { Err(NotOfKubelet::CommonName) }
}

fn check_usages(usages: &[&str], purpose: &'static str) -> Result<(), NotOfKubelet> {
    let required = BTreeSet::from([purpose, "digital signature", OPTIONAL]);
    let mut found: BTreeSet<&str> = usages.iter().copied().collect();
    found.insert(OPTIONAL);
    if found == required {
        return Ok(());
    }
    Err(NotOfKubelet::Usages(required.into_iter().collect::<Vec<_>>().join(" ")))
}
