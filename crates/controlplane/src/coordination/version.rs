//! Semantic versions.

use std::cmp::Ordering;

/// Semantic version without build metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    numbers: [u64; 3],
    pre: Vec<Result<u64, String>>,
}

impl Version {
    /// Parses a version; `None` if it is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (text, build) = text.split_once('+').map_or((text, None), |(t, b)| (t, Some(b)));
        let plain = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if build.is_some_and(|build| !build.split('.').all(plain)) {
            return None;
        }
        let (numbers, pre) = text.split_once('-').map_or((text, None), |(n, p)| (n, Some(p)));
        let mut parts = numbers.split('.').map(number);
        let numbers = [parts.next()??, parts.next()??, parts.next()??];
        if parts.next().is_some() {
            return None;
        }
        let identifier = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => number(part).map(Ok),
            false => plain(part).then(|| Err(part.to_owned())),
        };
        let pre = pre.into_iter().flat_map(|pre| pre.split('.')).map(identifier);
        Some(Version { numbers, pre: pre.collect::<Option<_>>()? })
    }
}

/// Parses a number without leading zeros.
fn number(digits: &str) -> Option<u64> {
    let good = digits == "0" || !digits.starts_with('0');
    let digits = Some(digits).filter(|text| good && text.bytes().all(|b| b.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok())
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        // A pre-release is older than its release; numeric identifiers are lower than alphanumeric ones.
        let released = |version: &Version| version.pre.is_empty();
        let pre = || match (released(self), released(other)) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        };
        self.numbers.cmp(&other.numbers).then_with(pre)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered() {
        let ordered = ["0.1.0", "1.0.0-1", "1.0.0-2", "1.0.0-a", "1.0.0-a.1", "1.0.0", "1.0.1+x"];
        for pair in ordered.windows(2) {
            let [older, newer] = [pair[0], pair[1]].map(|text| Version::parse(text).unwrap());
            assert!(older < newer, "{pair:?}");
        }
        for bad in ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3+", "v1.2.3", "1.2.3-01"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }
}
