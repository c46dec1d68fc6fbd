//! Name constraints of CAs (RFC 5280, 4.2.1.10; upstream: `checkChainConstraints`).

use std::net::IpAddr;
use std::sync::Arc;

use kevel_api::quote::quote;

use super::error::VerifyError;
use super::x509::{X509, malformed};
use crate::certificate::address;
use crate::der::{self, Reader};

/// Maximum number of comparisons of a name with a constraint in one chain: a CA with thousands of constraints and a
/// certificate with thousands of names must not block a thread.
const MAX_COMPARISONS: usize = 250_000;

/// Subtrees of names for which a CA may sign.
#[derive(Clone, Debug, Default)]
pub(super) struct NameConstraints {
    permitted: Subtrees,
    excluded: Subtrees,
}

#[derive(Clone, Debug, Default)]
struct Subtrees {
    dns_names: Vec<String>,
    networks: Vec<Network>,
    emails: Vec<String>,
    uri_domains: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Network {
    address: IpAddr,
    prefix: u32,
}

impl NameConstraints {
    /// Parses the extension. Also returns whether all kinds of names in it are supported.
    pub fn parse(value: &[u8]) -> Result<(Self, bool), VerifyError> {
        let mut outer = Reader(value);
        let mut fields = outer.open(der::SEQUENCE).ok_or_else(invalid)?;
        let permitted = fields.read(der::context(0)).map_or(&[][..], |list| list.contents);
        let excluded = fields.read(der::context(1)).map_or(&[][..], |list| list.contents);
        if !outer.0.is_empty() || !fields.0.is_empty() {
            return Err(invalid());
        }
        if permitted.is_empty() && excluded.is_empty() {
            return Err(malformed("x509: empty name constraints extension"));
        }
        let (permitted, all) = Subtrees::parse(permitted)?;
        let (excluded, all_excluded) = Subtrees::parse(excluded)?;
        Ok((NameConstraints { permitted, excluded }, all && all_excluded))
    }
}

fn invalid() -> VerifyError {
    malformed("x509: invalid NameConstraints extension")
}

impl Subtrees {
    fn parse(list: &[u8]) -> Result<(Self, bool), VerifyError> {
        let (mut subtrees, mut handled) = (Subtrees::default(), true);
        let mut list = Reader(list);
        while !list.0.is_empty() {
            let base = list.open(der::SEQUENCE).and_then(|mut subtree| subtree.next());
            let base = base.ok_or_else(invalid)?;
            match base.tag {
                0x81 => subtrees.emails.push(domain("rfc822Name", base.contents)?),
                0x82 => subtrees.dns_names.push(domain("dnsName", base.contents)?),
                0x86 => subtrees.uri_domains.push(domain("URI", base.contents)?),
                0x87 => subtrees.networks.push(network(base.contents)?),
                _ => handled = false,
            }
        }
        Ok((subtrees, handled))
    }

    fn len(&self) -> usize {
        self.dns_names.len() + self.networks.len() + self.emails.len() + self.uri_domains.len()
    }
}

fn domain(kind: &str, value: &[u8]) -> Result<String, VerifyError> {
    let text = std::str::from_utf8(value).ok().filter(|text| text.is_ascii());
    let text = text.ok_or_else(invalid)?;
    let mailbox = kind == "rfc822Name" && text.contains('@');
    let is_address = kind == "URI" && text.parse::<IpAddr>().is_ok();
    let valid = match mailbox {
        true => parse_mailbox(text).is_some(),
        false => is_domain(text.strip_prefix('.').unwrap_or(text)) && !is_address,
    };
    match valid || text.is_empty() {
        true => Ok(text.to_owned()),
        false => {
            Err(malformed(&format!("x509: failed to parse {kind} constraint {}", quote(text))))
        }
    }
}

fn network(value: &[u8]) -> Result<Network, VerifyError> {
    let wrong =
        || malformed(&format!("x509: IP constraint contained value of length {}", value.len()));
    let (own, mask) = value.split_at(value.len() / 2);
    let (Some(address), Some(mask)) = (address(own), address(mask)) else { return Err(wrong()) };
    let (bits, width) = match mask {
        IpAddr::V4(mask) => (u128::from(mask.to_bits()) << 96, 32),
        IpAddr::V6(mask) => (mask.to_bits(), 128),
    };
    let prefix = bits.leading_ones();
    match bits.count_ones() == prefix && prefix <= width {
        true => Ok(Network { address, prefix }),
        false => Err(malformed("x509: IP constraint contained invalid mask")),
    }
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        let differing = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()).leading_zeros()
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()).leading_zeros()
            }
            _ => return false,
        };
        differing >= self.prefix
    }
}

/// Checks that all names of a chain are within the constraints of all certificates above them.
pub(super) fn check(chain: &[Arc<X509>]) -> Result<(), String> {
    let constrained = |above: &'_ Arc<X509>| above.extensions.name_constraints.is_some();
    let mut comparisons = 0_usize;
    for (place, certificate) in chain.iter().enumerate() {
        let above = chain.get(place + 1..).unwrap_or_default();
        if certificate.alt_names.is_none() || !above.iter().any(constrained) {
            continue;
        }
        let names = Names::of(certificate)?;
        for constraints in
            above.iter().filter_map(|above| above.extensions.name_constraints.as_ref())
        {
            let count = constraints.permitted.len() + constraints.excluded.len();
            comparisons = comparisons.saturating_add(count.saturating_mul(names.len()));
            if comparisons > MAX_COMPARISONS {
                return Err("too many name constraints to compare with".to_owned());
            }
            names.check(constraints)?;
        }
    }
    Ok(())
}

/// Names of a certificate, parsed for constraints.
struct Names<'a> {
    certificate: &'a X509,
    uris: Vec<(&'a str, String)>,
    emails: Vec<(&'a str, String, String)>,
}

impl<'a> Names<'a> {
    fn of(certificate: &'a X509) -> Result<Self, String> {
        let uris = certificate.names.uris.iter().map(|uri| Ok((uri.as_str(), uri_host(uri)?)));
        let emails = certificate.names.emails.iter().map(|email| {
            let mailbox = parse_mailbox(email);
            let (local, domain) =
                mailbox.ok_or_else(|| format!("cannot parse rfc822Name {}", quote(email)))?;
            Ok((email.as_str(), local.to_owned(), domain.to_ascii_lowercase()))
        });
        Ok(Names {
            certificate,
            uris: uris.collect::<Result<_, String>>()?,
            emails: emails.collect::<Result<_, String>>()?,
        })
    }

    fn len(&self) -> usize {
        let names = &self.certificate.names;
        names.ips.len() + names.dns_names.len() + self.uris.len() + self.emails.len()
    }

    fn check(&self, constraints: &NameConstraints) -> Result<(), String> {
        let NameConstraints { permitted, excluded } = constraints;
        for ip in &self.certificate.names.ips {
            let outside = |network: &&Network| network.contains(*ip);
            let shown = |network: &Network| format!("{}/{}", network.address, network.prefix);
            judge(
                ("IP address", &ip.to_string()),
                (!permitted.networks.is_empty(), permitted.networks.iter().any(|n| outside(&n))),
                excluded.networks.iter().find(outside).map(shown),
            )?;
        }
        for name in &self.certificate.names.dns_names {
            if !is_domain(name) && !name.is_empty() {
                return Err(format!("x509: cannot parse dnsName {}", quote(name)));
            }
            domains(("DNS name", name), name, &permitted.dns_names, &excluded.dns_names)?;
        }
        for (uri, host) in &self.uris {
            domains(("URI", uri), host, &permitted.uri_domains, &excluded.uri_domains)?;
        }
        for (email, local, domain) in &self.emails {
            let inside = |constraint: &&String| match parse_mailbox(constraint) {
                Some((own, other)) => own == local && other.eq_ignore_ascii_case(domain),
                None => is_below(domain, constraint),
            };
            judge(
                ("email address", email),
                (!permitted.emails.is_empty(), permitted.emails.iter().any(|c| inside(&c))),
                excluded.emails.iter().find(inside).cloned(),
            )?;
        }
        Ok(())
    }
}

fn domains(
    shown: (&str, &str),
    name: &str,
    permitted: &[String],
    excluded: &[String],
) -> Result<(), String> {
    let is_excluded =
        |constraint: &&String| is_below(name, constraint) || wildcard_covers(name, constraint);
    judge(
        shown,
        (!permitted.is_empty(), permitted.iter().any(|constraint| is_below(name, constraint))),
        excluded.iter().find(is_excluded).cloned(),
    )
}

/// A name is permitted if there are no permitted subtrees of its kind or one contains it, and no excluded subtree
/// contains it.
fn judge(
    (kind, name): (&str, &str),
    (constrained, permitted): (bool, bool),
    excluded: Option<String>,
) -> Result<(), String> {
    if constrained && !permitted {
        return Err(format!("{kind} {} is not permitted by any constraint", quote(name)));
    }
    match excluded {
        Some(by) => Err(format!("{kind} {} is excluded by constraint {}", quote(name), quote(&by))),
        None => Ok(()),
    }
}

/// Whether a domain is a constraint's or below it. A constraint with a leading dot covers only the domains below, and
/// an empty one all.
fn is_below(name: &str, constraint: &str) -> bool {
    let Some(start) = name.len().checked_sub(constraint.len()) else { return false };
    let Some((head, tail)) = name.split_at_checked(start) else { return false };
    tail.eq_ignore_ascii_case(constraint)
        && (constraint.is_empty()
            || constraint.starts_with('.')
            || head.is_empty()
            || head.ends_with('.'))
}

/// Whether a wildcard covers an excluded name: `*.a.example` covers `b.a.example`.
fn wildcard_covers(name: &str, constraint: &str) -> bool {
    let parent = |name: &str| name.find('.').and_then(|dot| name.get(dot..)).map(str::to_lowercase);
    name.starts_with('*') && parent(name).is_some() && parent(name) == parent(constraint)
}

/// Whether all labels are nonempty visible ASCII.
fn is_domain(text: &str) -> bool {
    text.split('.').all(|label| !label.is_empty() && label.bytes().all(|b| (33..=126).contains(&b)))
}

/// Local part and domain of an email address. Quoted local parts are not supported.
fn parse_mailbox(text: &str) -> Option<(&str, &str)> {
    let (local, domain) = text.split_once('@')?;
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&byte);
    let dots = local.starts_with('.') || local.ends_with('.') || local.contains("..");
    let valid = !local.is_empty() && local.bytes().all(letter) && !dots && is_domain(domain);
    valid.then_some((local, domain))
}

/// Host of a URI, which must be a name.
fn uri_host(uri: &str) -> Result<String, String> {
    let rest = uri.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_ascii_lowercase();
    let host = match host.split_once(':') {
        Some((host, _)) if !host.starts_with('[') => host.to_owned(),
        _ => host,
    };
    let matched = "cannot be matched against constraints";
    if host.is_empty() {
        return Err(format!("URI with empty host ({}) {matched}", quote(uri)));
    }
    if host.starts_with('[') || host.parse::<IpAddr>().is_ok() {
        return Err(format!("URI with IP ({}) {matched}", quote(uri)));
    }
    Ok(host)
}
