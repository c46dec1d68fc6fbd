//! Semver library.

use std::cmp::Ordering;
use std::fmt;

use kevel_api::quote::quote;

use super::{Extension, Row, row};
use crate::error::Error;
use crate::value::Value;

pub(super) const ROWS: &[Row] = &[
    row("semver", "string_to_semver", "(string) -> kubernetes.Semver", |args| {
        let version = parse_argument(args)?;
        version.map(value).map_err(Error::new)
    }),
    row("semver", "string_bool_to_semver", "(string, bool) -> kubernetes.Semver", |args| {
        let version = parse_argument(args)?;
        version.map(value).map_err(Error::new)
    }),
    row("isSemver", "is_semver_string", "(string) -> bool", |args| {
        Ok(Value::Bool(parse_argument(args)?.is_ok()))
    }),
    row("isSemver", "is_semver_string_bool", "(string, bool) -> bool", |args| {
        Ok(Value::Bool(parse_argument(args)?.is_ok()))
    }),
    row("isGreaterThan", "semver_is_greater_than", COMPARE_BOOL, |args| {
        Ok(Value::Bool(order(args)?.is_gt()))
    }),
    row("isLessThan", "semver_is_less_than", COMPARE_BOOL, |args| {
        Ok(Value::Bool(order(args)?.is_lt()))
    }),
    row("compareTo", "semver_compare_to", "kubernetes.Semver.(kubernetes.Semver) -> int", |args| {
        Ok(Value::Int(order(args)? as i64))
    }),
    row("major", "semver_major", "kubernetes.Semver.() -> int", |args| number(args, 0)),
    row("minor", "semver_minor", "kubernetes.Semver.() -> int", |args| number(args, 1)),
    row("patch", "semver_patch", "kubernetes.Semver.() -> int", |args| number(args, 2)),
];

const COMPARE_BOOL: &str = "kubernetes.Semver.(kubernetes.Semver) -> bool";

/// Semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    pre_release: Vec<Identifier>,
    build: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    /// Numbers come before words.
    Number(u64),
    Word(String),
}

impl Version {
    /// Precedence of versions, without build metadata.
    pub(super) fn cmp_precedence(&self, other: &Version) -> Ordering {
        let without = |version: &Version| version.pre_release.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then(without(self).cmp(&without(other)))
            .then(self.pre_release.cmp(&other.pre_release))
    }

    fn parse(text: &str) -> Result<Version, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (*rest, None),
        };
        let (patch, pre_release) = match rest.split_once('-') {
            Some((patch, pre_release)) => (patch, Some(pre_release)),
            None => (rest, None),
        };
        let numbers = [
            parse_number(major, "major", "Major")?,
            parse_number(minor, "minor", "Minor")?,
            parse_number(patch, "patch", "Patch")?,
        ];
        let pre_release = pre_release.map_or(Ok(Vec::new()), |text| {
            text.split('.').map(parse_identifier).collect::<Result<_, _>>()
        })?;
        let build = build.map_or(Ok(Vec::new()), |text| {
            text.split('.').map(parse_build).collect::<Result<_, _>>()
        })?;
        Ok(Version { numbers, pre_release, build })
    }

    /// Parses leniently: `v1.2` and `1.02.3` too.
    fn parse_normalized(text: &str) -> Result<Version, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(normalized).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|part| part.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Version::parse(&parts.join("."))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (i, identifier) in self.pre_release.iter().enumerate() {
            f.write_str(if i == 0 { "-" } else { "." })?;
            match identifier {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Word(word) => f.write_str(word)?,
            }
        }
        for (i, part) in self.build.iter().enumerate() {
            f.write_str(if i == 0 { "+" } else { "." })?;
            f.write_str(part)?;
        }
        Ok(())
    }
}

fn normalized(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    match trimmed.starts_with(|c: char| c.is_ascii_digit()) {
        true => trimmed.to_owned(),
        false => format!("0{trimmed}"),
    }
}

fn parse_number(text: &str, name: &str, title: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Err("strconv.ParseUint: parsing \"\": invalid syntax".to_owned());
    }
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {}", quote(text)));
    }
    let out_of_range =
        |_| format!("strconv.ParseUint: parsing {}: value out of range", quote(text));
    text.parse().map_err(out_of_range)
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn parse_identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            let text = quote(text);
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {text}"
            ));
        }
        let out_of_range =
            |_| format!("strconv.ParseUint: parsing {}: value out of range", quote(text));
        return text.parse().map(Identifier::Number).map_err(out_of_range);
    }
    match is_word(text) {
        true => Ok(Identifier::Word(text.to_owned())),
        false => Err(format!("Invalid character(s) found in prerelease {}", quote(text))),
    }
}

fn parse_build(text: &str) -> Result<String, String> {
    match text {
        "" => Err("Build meta data is empty".to_owned()),
        _ if is_word(text) => Ok(text.to_owned()),
        _ => Err(format!("Invalid character(s) found in build meta data {}", quote(text))),
    }
}

fn value<'a>(version: Version) -> Value<'a> {
    Value::Extension(Extension::Version(version.into()))
}

fn parse_argument(args: &[Value<'_>]) -> Result<Result<Version, String>, Error> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => {
            Ok(Version::parse(text))
        }
        [Value::String(text), Value::Bool(true)] => Ok(Version::parse_normalized(text)),
        _ => Err(Error::no_such_overload()),
    }
}

fn order(args: &[Value<'_>]) -> Result<Ordering, Error> {
    match args {
        [Value::Extension(Extension::Version(a)), Value::Extension(Extension::Version(b))] => {
            Ok(a.cmp_precedence(b))
        }
        _ => Err(Error::no_such_overload()),
    }
}

fn number<'a>(args: &[Value<'_>], index: usize) -> Result<Value<'a>, Error> {
    match args {
        [Value::Extension(Extension::Version(version))] => {
            Ok(Value::Int(version.numbers.get(index).copied().unwrap_or(0) as i64))
        }
        _ => Err(Error::no_such_overload()),
    }
}
