//! Patterns of names: checks and descriptions.

use super::Problems;

/// A pattern of names.
pub(super) struct Pattern {
    /// Whether a value matches.
    matches: fn(&[u8]) -> bool,
    /// Description.
    words: &'static str,
    /// Regular expression quoted in the description.
    regex: &'static str,
    examples: &'static [&'static str],
}

impl Pattern {
    /// Message if a value does not match.
    pub(super) fn check(&self, value: &[u8]) -> Option<String> {
        (!(self.matches)(value)).then(|| self.message())
    }

    /// Description with regular expression and examples.
    pub(super) fn message(&self) -> String {
        let Pattern { words, regex, examples, .. } = self;
        if examples.is_empty() {
            return format!("{words} (regex used for validation is '{regex}')");
        }
        let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
        format!("{words} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
    }
}

/// Unit in messages about length; the length is always counted in bytes.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Bytes,
    Characters,
}

pub(super) fn too_long(value: &[u8], max: usize, unit: Unit) -> Problems {
    if value.len() <= max {
        return Vec::new();
    }
    let unit = match unit {
        Unit::Bytes => "bytes",
        Unit::Characters => "characters",
    };
    vec![format!("must be no more than {max} {unit}")]
}

pub(super) const DNS1123_LABEL: Pattern = Pattern {
    matches: is_label,
    words: "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
            and must start and end with an alphanumeric character",
    regex: "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    examples: &["my-name", "123-abc"],
};

pub(super) const DNS1123_SUBDOMAIN: Pattern = Pattern {
    matches: |value| value.split(is_dot).all(is_label),
    words: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
            '-' or '.', and must start and end with an alphanumeric character",
    regex: r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    examples: &["example.com"],
};

pub(super) const DNS1123_SUBDOMAIN_CASELESS: Pattern = Pattern {
    matches: |value| {
        value.split(is_dot).all(|label| {
            bounded(
                label,
                |b| b.is_ascii_alphanumeric(),
                |b| b.is_ascii_alphanumeric() || b == b'-',
            )
        })
    },
    words: "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must \
            start and end with an alphanumeric character",
    regex: DNS1123_SUBDOMAIN.regex,
    examples: &["Example.com"],
};

pub(super) const DNS1123_SUBDOMAIN_WITH_UNDERSCORE: Pattern = Pattern {
    matches: |value| {
        value.split(is_dot).all(|label| {
            let label = label.strip_prefix(b"_").unwrap_or(label);
            bounded(label, is_lower_alphanumeric, |b| is_lower_alphanumeric_or_dash(b) || b == b'_')
        })
    },
    words: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
            '_', '-' or '.', and must start and end with an alphanumeric character",
    regex: r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
    examples: &["example.com"],
};

pub(super) const WILDCARD_DNS1123_SUBDOMAIN: Pattern = Pattern {
    matches: |value| {
        value.strip_prefix(b"*.").is_some_and(|value| value.split(is_dot).all(is_label))
    },
    words: "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
            subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and \
            end with an alphanumeric character",
    regex: r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    examples: &["*.example.com"],
};

pub(super) const DNS1035_LABEL: Pattern = Pattern {
    matches: |value| is_label(value) && value.first().is_some_and(u8::is_ascii_lowercase),
    words: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
            with an alphabetic character, and end with an alphanumeric character",
    regex: "[a-z]([-a-z0-9]*[a-z0-9])?",
    examples: &["my-name", "abc-123"],
};

pub(super) const LABEL_KEY: Pattern = Pattern {
    matches: is_label_name,
    words: "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
            an alphanumeric character",
    regex: "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    examples: &["MyName", "my.name", "123-abc"],
};

pub(super) const LABEL_VALUE: Pattern = Pattern {
    matches: |value| value.is_empty() || is_label_name(value),
    words: "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
            or '.', and must start and end with an alphanumeric character",
    regex: "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    examples: &["MyValue", "my_value", "12345"],
};

pub(super) const C_IDENTIFIER: Pattern = Pattern {
    matches: |value| {
        value.first().is_some_and(|b| !b.is_ascii_digit())
            && non_empty_of(value, |b| b.is_ascii_alphanumeric() || b == b'_')
    },
    words: "a valid C identifier must start with alphabetic character or '_', followed by a \
            string of alphanumeric characters or '_'",
    regex: "[A-Za-z_][A-Za-z0-9_]*",
    examples: &["my_name", "MY_NAME", "MyName"],
};

pub(super) const PERCENT: Pattern = Pattern {
    matches: |value| {
        value.strip_suffix(b"%").is_some_and(|number| non_empty_of(number, |b| b.is_ascii_digit()))
    },
    words: "a valid percent string must be a numeric string followed by an ending '%'",
    regex: "[0-9]+%",
    examples: &["1%", "93%"],
};

pub(super) const HTTP_HEADER_NAME: Pattern = Pattern {
    matches: |value| non_empty_of(value, |b| b.is_ascii_alphanumeric() || b == b'-'),
    words: "a valid HTTP header must consist of alphanumeric characters or '-'",
    regex: "[-A-Za-z0-9]+",
    examples: &["X-Header-Name"],
};

pub(super) const HTTP_PATH: Pattern = Pattern {
    matches: |value| {
        non_empty_of(value, |b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b))
    },
    words: "Invalid path",
    regex: r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+",
    examples: &[],
};

pub(super) const ENV_VAR_NAME: Pattern = Pattern {
    matches: |value| {
        value.first().is_some_and(|b| !b.is_ascii_digit()) && non_empty_of(value, is_label_char)
    },
    words: "a valid environment variable name must consist of alphabetic characters, digits, '_', \
            '-', or '.', and must not start with a digit",
    regex: "[-._a-zA-Z][-._a-zA-Z0-9]*",
    examples: &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
};

pub(super) const CONFIG_MAP_KEY: Pattern = Pattern {
    matches: |value| non_empty_of(value, is_label_char),
    words: "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    regex: "[-._a-zA-Z0-9]+",
    examples: &["key.name", "KEY_NAME", "key-name"],
};

fn is_label(value: &[u8]) -> bool {
    bounded(value, is_lower_alphanumeric, is_lower_alphanumeric_or_dash)
}

fn is_label_name(value: &[u8]) -> bool {
    bounded(value, |b| b.is_ascii_alphanumeric(), is_label_char)
}

/// Whether a value consists of `inner` bytes, and begins and ends with an `outer` one.
fn bounded(value: &[u8], outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let ends = value.first().zip(value.last());
    ends.is_some_and(|(&first, &last)| outer(first) && outer(last))
        && value.iter().all(|&b| inner(b))
}

pub(super) fn non_empty_of(value: &[u8], allowed: impl Fn(u8) -> bool) -> bool {
    !value.is_empty() && value.iter().all(|&b| allowed(b))
}

fn is_dot(b: &u8) -> bool {
    *b == b'.'
}

fn is_lower_alphanumeric(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

pub(super) fn is_lower_alphanumeric_or_dash(b: u8) -> bool {
    is_lower_alphanumeric(b) || b == b'-'
}

fn is_label_char(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}
