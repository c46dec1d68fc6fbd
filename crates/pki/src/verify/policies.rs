//! Certificate policies (RFC 5280 with RFC 9618; upstream: `policiesValid`).
//!
//! Policies invalidate a chain only if one of its certificates requires an explicit policy. Of RFC 9618's graph the
//! current level is enough: a level without nodes invalidates the chain.

use std::collections::HashSet;
use std::sync::Arc;

use super::error::VerifyError;
use super::x509::{X509, malformed};
use crate::der::{self, Reader};

/// `anyPolicy`
const ANY: &[u8] = &[0x55, 0x1d, 32, 0];

type Oid = Vec<u8>;

/// Policies of one certificate.
#[derive(Clone, Debug, Default)]
pub(super) struct Policies {
    list: Vec<Oid>,
    /// Mappings from policies of the issuer to equivalent ones of the subject.
    mappings: Vec<(Oid, Oid)>,
    require_explicit: Option<u64>,
    inhibit_mapping: Option<u64>,
    inhibit_any: Option<u64>,
}

impl Policies {
    /// Takes the extension with this number (2.5.29.32, 33, 36, 54).
    pub fn take(&mut self, number: u8, value: &[u8]) -> Result<(), VerifyError> {
        match number {
            32 => self.list = list(value)?,
            33 => self.mappings = mappings(value)?,
            36 => (self.require_explicit, self.inhibit_mapping) = constraints(value)?,
            _ => self.inhibit_any = Some(inhibit_any(value)?),
        }
        Ok(())
    }
}

fn list(value: &[u8]) -> Result<Vec<Oid>, VerifyError> {
    let invalid = || malformed("x509: invalid certificate policies");
    let mut elements = Reader(value).open(der::SEQUENCE).ok_or_else(invalid)?;
    // A certificate is read before its signature is checked: comparing each policy with each would let any client have a
    // processor for a tenth of a second.
    let (mut list, mut known) = (Vec::new(), HashSet::new());
    while !elements.0.is_empty() {
        let mut policy = elements.open(der::SEQUENCE).ok_or_else(invalid)?;
        let policy = policy.read(der::OBJECT_IDENTIFIER).ok_or_else(invalid)?.contents;
        if !known.insert(policy) {
            return Err(invalid());
        }
        list.push(policy.to_vec());
    }
    Ok(list)
}

fn mappings(value: &[u8]) -> Result<Vec<(Oid, Oid)>, VerifyError> {
    let invalid = || malformed("x509: invalid policy mappings extension");
    let mut elements = Reader(value).open(der::SEQUENCE).ok_or_else(invalid)?;
    let mut found = Vec::new();
    while !elements.0.is_empty() {
        let mut pair = elements.open(der::SEQUENCE).ok_or_else(invalid)?;
        let mut next = || Some(pair.read(der::OBJECT_IDENTIFIER)?.contents.to_vec());
        found.push(next().zip(next()).ok_or_else(invalid)?);
    }
    Ok(found)
}

fn constraints(value: &[u8]) -> Result<(Option<u64>, Option<u64>), VerifyError> {
    let invalid = || malformed("x509: invalid policy constraints extension");
    let mut fields = Reader(value).open(der::SEQUENCE).ok_or_else(invalid)?;
    let mut field = |tag| match fields.read(tag) {
        Some(number) => der::unsigned(number.contents).map(Some).ok_or_else(invalid),
        None => Ok(None),
    };
    Ok((field(0x80)?, field(0x81)?))
}

fn inhibit_any(value: &[u8]) -> Result<u64, VerifyError> {
    let number = Reader(value).read(der::INTEGER);
    let number = number.and_then(|number| der::unsigned(number.contents));
    number.ok_or_else(|| malformed("x509: invalid inhibit any policy extension"))
}

/// Policy that is valid at a level, and the policies that the level below may use for it.
#[derive(Clone, Debug)]
struct Node {
    valid: Oid,
    expected: Vec<Oid>,
}

/// Walk from below the trust anchor to the leaf.
struct Walk {
    /// `None` when no policy is valid any more.
    level: Option<Vec<Node>>,
    explicit: u64,
    mapping: u64,
    any: u64,
}

/// Whether the policies of a chain are valid.
pub(super) fn are_valid(chain: &[Arc<X509>]) -> bool {
    let Some((_, below)) = chain.split_last().filter(|(_, below)| !below.is_empty()) else {
        return true;
    };
    let most = below.len() as u64 + 1;
    let root = Node { valid: ANY.to_vec(), expected: vec![ANY.to_vec()] };
    let mut walk = Walk { level: Some(vec![root]), explicit: most, mapping: most, any: most };
    for (place, certificate) in below.iter().enumerate().rev() {
        if !walk.step(certificate, place == 0) {
            return false;
        }
    }
    let leaf_requires = below.first().map(|leaf| leaf.extensions.policies.require_explicit);
    if leaf_requires == Some(Some(0)) {
        walk.explicit = 0;
    }
    walk.explicit.saturating_sub(1) > 0 || walk.level.is_some_and(|level| !level.is_empty())
}

impl Walk {
    fn step(&mut self, certificate: &X509, is_leaf: bool) -> bool {
        let policies = &certificate.extensions.policies;
        let self_issued = certificate.issuer == certificate.subject;
        if policies.list.is_empty() {
            self.level = None;
        }
        if self.explicit == 0 && self.level.is_none() {
            return false;
        }
        if let Some(level) = self.level.take() {
            let any_counts = self.any > 0 || !is_leaf && self_issued;
            let mut next = descend(&level, &policies.list, any_counts);
            if !is_leaf && !map(&mut next, &policies.mappings, self.mapping > 0) {
                return false;
            }
            self.level = Some(next);
        }
        if !is_leaf {
            self.count_down(policies, self_issued);
        }
        true
    }

    fn count_down(&mut self, policies: &Policies, self_issued: bool) {
        let limits = [
            (&mut self.explicit, policies.require_explicit),
            (&mut self.mapping, policies.inhibit_mapping),
            (&mut self.any, policies.inhibit_any),
        ];
        for (left, limit) in limits {
            if !self_issued {
                *left = left.saturating_sub(1);
            }
            *left = limit.map_or(*left, |limit| limit.min(*left));
        }
    }
}

/// The level below, for a certificate with these policies.
fn descend(level: &[Node], policies: &[Oid], any_counts: bool) -> Vec<Node> {
    let has_any = level.iter().any(|node| node.valid == ANY);
    let expected = |policy: &Oid| level.iter().any(|node| node.expected.contains(policy));
    let own = policies.iter().filter(|policy| *policy != ANY && (expected(policy) || has_any));
    let mut next: Vec<Oid> = own.cloned().collect();
    if any_counts && policies.iter().any(|policy| policy == ANY) {
        for policy in level.iter().flat_map(|node| &node.expected) {
            if !next.contains(policy) {
                next.push(policy.clone());
            }
        }
    }
    next.into_iter().map(|valid| Node { expected: vec![valid.clone()], valid }).collect()
}

/// Applies mappings. Returns `false` if one of them contains `anyPolicy`.
fn map(level: &mut Vec<Node>, mappings: &[(Oid, Oid)], allowed: bool) -> bool {
    if !allowed {
        level.retain(|node| !mappings.iter().any(|(issuer, _)| *issuer == node.valid));
        return true;
    }
    if mappings.iter().any(|(issuer, subject)| issuer == ANY || subject == ANY) {
        return false;
    }
    for (issuer, _) in mappings {
        let names = mappings.iter().filter(|(other, _)| other == issuer);
        let expected: Vec<Oid> = names.map(|(_, subject)| subject.clone()).collect();
        let has_any = level.iter().any(|node| node.valid == ANY);
        match level.iter_mut().find(|node| node.valid == *issuer) {
            Some(node) => node.expected = expected,
            None if has_any => level.push(Node { valid: issuer.clone(), expected }),
            None => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use kevel_clock::Stopwatch;

    use super::*;

    /// As many as fit into the certificates that a client may send.
    const MANY: u16 = 9_000;

    /// Far above what reading takes without optimization on a busy machine, far below what comparing each with each does.
    const LIMIT: std::time::Duration = std::time::Duration::from_millis(500);

    #[test]
    fn many_policies_of_a_client_are_read_in_little_time() {
        let policy = |number: u16| {
            // A digit of seven bits, and one that ends the number.
            let identifier = [0x2a, 0x80 | (number >> 7) as u8, (number & 0x7f) as u8];
            let identifier = der::element(der::OBJECT_IDENTIFIER, &[&identifier]);
            der::element(der::SEQUENCE, &[&identifier])
        };
        let policies: Vec<u8> = (0..MANY).flat_map(policy).collect();
        let extension = der::element(der::SEQUENCE, &[&policies]);
        let started = Stopwatch::start();
        let read = list(&extension).unwrap();
        assert!(started.elapsed() < LIMIT, "{:?}", started.elapsed());
        assert_eq!(read.len(), usize::from(MANY));
        let twice = der::element(der::SEQUENCE, &[&policies[..7], &policies[..7]]);
        assert!(list(&twice).is_err());
    }
}
