//! Tests on the table of `conformance/certificates`: the same bytes, verified by Go's `crypto/x509` and here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::rules::InForce;
use super::*;
use crate::pem_certificates;

/// 2026-11-18T00:00:00Z, the time of all recorded verdicts.
const NOW: Duration = Duration::from_secs(1_794_960_000);
/// Number of rows times purposes: a lost row is noticed.
const CELLS: usize = 196;

struct Row {
    roots: Arc<Roots>,
    chain: Vec<Bytes>,
    host: Host,
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/certificates"))
}

fn rows() -> BTreeMap<String, Row> {
    let files = std::fs::read_dir(folder().join("rows")).unwrap();
    let row = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, rest) = text.split_once("# roots\n").unwrap();
        let (roots, chain) = rest.split_once("# chain\n").unwrap();
        let host = head.split_once("# host: ").unwrap().1.trim();
        let mut trusted = Roots::default();
        assert_eq!(trusted.add_pem(roots.as_bytes()), None, "{path:?}");
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let chain = pem_certificates(chain.as_bytes());
        (name, Row { roots: Arc::new(trusted), chain, host: Host::parse(host) })
    };
    files.map(|file| row(file.unwrap().path())).collect()
}

/// Go's verdicts, by row and purpose.
fn recorded() -> BTreeMap<(String, String), String> {
    let text = std::fs::read_to_string(folder().join("verdicts.txt")).unwrap();
    let line = |line: &str| {
        let mut parts = line.splitn(3, ' ').map(str::to_owned);
        let mut next = || parts.next().unwrap();
        ((next(), next()), next())
    };
    text.lines().map(line).collect()
}

/// The verifier's verdicts, with a rule switched off.
fn verdicts(off: Option<Rule>) -> BTreeMap<(String, String), String> {
    let now = SystemTime::UNIX_EPOCH + NOW;
    let mut said = BTreeMap::new();
    for (name, row) in rows() {
        let verifier = Verifier { roots: row.roots, in_force: InForce { off } };
        for (kind, purpose, host) in [
            ("server", Purpose::ServerAuth, Some(&row.host)),
            ("client", Purpose::ClientAuth, None),
        ] {
            let verdict = match verifier.verify(&row.chain, purpose, now, host) {
                Ok(_) => "trusted".to_owned(),
                Err(error) => error.to_string(),
            };
            said.insert((name.clone(), kind.to_owned()), verdict);
        }
    }
    said
}

#[test]
fn verdicts_of_go_are_given_for_every_row() {
    let (recorded, said) = (recorded(), verdicts(None));
    assert_eq!(said.len(), CELLS);
    let differ = |(cell, go): (&(String, String), &String)| {
        let here = said.get(cell);
        (here != Some(go)).then(|| format!("{cell:?}\n  Go:   {go}\n  here: {here:?}"))
    };
    let wrong: Vec<_> = recorded.iter().filter_map(differ).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(recorded.len(), CELLS);
}

#[test]
fn verdicts_change_when_any_rule_is_switched_off() {
    let recorded = recorded();
    let mut table = String::new();
    for rule in Rule::ALL {
        let said = verdicts(Some(rule));
        let differ = said.iter().filter(|(cell, verdict)| recorded.get(*cell) != Some(verdict));
        let rows: BTreeSet<_> = differ.map(|((row, _), _)| row.as_str()).collect();
        assert!(!rows.is_empty(), "no row needs {rule:?}");
        let rows: Vec<_> = rows.into_iter().map(|row| format!("`{row}`")).collect();
        table += &format!("| `{rule:?}` | {} |\n", rows.join(", "));
    }
    let held = std::fs::read_to_string(folder().join("../HELD.md")).unwrap();
    assert!(held.contains(&table), "conformance/HELD.md must list the rules and rows:\n{table}");
}

/// Rows in which only the signer is wrong, which the server logs at start.
#[test]
fn anchors_that_cannot_sign_are_found_in_bundles() {
    let now = SystemTime::UNIX_EPOCH + NOW;
    let rows = rows();
    for (name, purpose, expected) in [
        ("anchor-good", Purpose::ClientAuth, None),
        ("anchor-v1", Purpose::ClientAuth, None),
        ("anchor-ca-false", Purpose::ClientAuth, Some(VerifyError::CannotSign)),
        ("anchor-ca-absent", Purpose::ClientAuth, Some(VerifyError::CannotSign)),
        ("anchor-no-cert-sign", Purpose::ClientAuth, Some(VerifyError::CannotSign)),
        ("anchor-server-usage", Purpose::ClientAuth, Some(VerifyError::IncompatibleUsage)),
        ("anchor-server-usage", Purpose::ServerAuth, None),
        (
            "anchor-critical-unknown",
            Purpose::ClientAuth,
            Some(VerifyError::UnhandledCriticalExtension),
        ),
    ] {
        let anchor = rows[name].roots.iter().next().unwrap();
        assert_eq!(anchor.check_as_signer(purpose, now).err(), expected, "{name}");
    }
    for (name, text) in [("anchor-expired", "is after"), ("anchor-not-yet-valid", "is before")] {
        let anchor = rows[name].roots.iter().next().unwrap();
        let error = anchor.check_as_signer(Purpose::ClientAuth, now).unwrap_err();
        assert!(error.to_string().contains(text), "{name}: {error}");
    }
}

/// Every truncation and every changed byte of a chain is rejected, or is in an unsigned part; never a panic.
#[test]
fn damaged_certificates_are_judged_without_panic() {
    let now = SystemTime::UNIX_EPOCH + NOW;
    for name in ["constraint-of-intermediate", "path-policy-given", "anchor-good"] {
        let row = &rows()[name];
        let verifier = Verifier::new(row.roots.clone());
        let own = &row.chain[0];
        for at in 0..own.len() {
            let mut chain = row.chain.clone();
            let mut damaged = own.to_vec();
            damaged[at] ^= 0x15;
            chain[0] = damaged.into();
            assert!(
                verifier.verify(&chain, Purpose::ClientAuth, now, None).is_err(),
                "{name} {at}"
            );
            chain[0] = own.slice(..at);
            assert!(
                verifier.verify(&chain, Purpose::ClientAuth, now, None).is_err(),
                "{name} {at}"
            );
        }
    }
}
