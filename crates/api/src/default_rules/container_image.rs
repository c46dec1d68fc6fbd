//! Container image references: `registry.example:5000/team/app:v1@sha256:…`.

/// Limit on a repository's path, without its registry.
const MAX_PATH: usize = 255;
/// Default registry, and the default folder in it.
const HUB: &str = "docker.io";
const OLD_HUB: &str = "index.docker.io";
const HUB_FOLDER: &str = "library/";

/// Whether an image reference means the tag `latest`: by naming it, or by naming neither tag nor digest. An invalid
/// reference does not.
pub(super) fn is_latest(image: &str) -> bool {
    // A bare image ID would be parsed as a repository.
    if image.len() == 64 && image.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return false;
    }
    let (registry, rest) = split_registry(image);
    let (name, digest) = match rest.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (rest, None),
    };
    let (path, tag) = match name.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (name, None),
    };
    if tag.map_or(digest.is_some(), |tag| tag != "latest") {
        return false;
    }
    let folder = registry == HUB && !rest.contains('/');
    let length = path.len() + if folder { HUB_FOLDER.len() } else { 0 };
    is_registry(registry)
        && length <= MAX_PATH
        && path.split('/').all(is_path_component)
        && digest.is_none_or(is_digest)
}

fn split_registry(image: &str) -> (&str, &str) {
    match image.split_once('/') {
        Some((OLD_HUB, rest)) => (HUB, rest),
        Some((first, rest))
            if first == "localhost"
                || first.contains(['.', ':'])
                || first.to_lowercase() != first =>
        {
            (first, rest)
        }
        _ => (HUB, image),
    }
}

fn is_registry(registry: &str) -> bool {
    let (host, port) = match registry.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) => {
                let valid = |b: u8| b.is_ascii_hexdigit() || b == b':';
                if address.is_empty() || !address.bytes().all(valid) {
                    return false;
                }
                match port.strip_prefix(':') {
                    Some(port) => ("ipv6", Some(port)),
                    None if port.is_empty() => ("ipv6", None),
                    None => return false,
                }
            }
            None => return false,
        },
        None => match registry.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (registry, None),
        },
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    host.split('.').all(label)
        && port.is_none_or(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether a path component has lower-case letters and digits, separated by a dot, one or two underscores, or dashes.
fn is_path_component(component: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let separator = |run: &str| {
        matches!(run, "." | "_" | "__") || (!run.is_empty() && run.bytes().all(|b| b == b'-'))
    };
    let ends = [component.bytes().next(), component.bytes().last()];
    ends.iter().all(|end| end.is_some_and(alphanumeric))
        && component
            .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            .all(|run| run.is_empty() || separator(run))
}

fn is_digest(digest: &str) -> bool {
    let digits = match digest.split_once(':') {
        Some(("sha256", digits)) if digits.len() == 64 => digits,
        Some(("sha384", digits)) if digits.len() == 96 => digits,
        Some(("sha512", digits)) if digits.len() == 128 => digits,
        _ => return false,
    };
    digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::is_latest;

    const DIGEST: &str = "sha256:0123456789012345678901234567890123456789012345678901234567890123";

    #[test]
    fn names_that_lead_to_latest() {
        for (image, expected) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.27", false),
            ("team/app", true),
            ("localhost/app:latest", true),
            ("registry.example:5000/team/app", true),
            ("registry.example:5000/team/app:v1", false),
            ("[fd00::1]:5000/app", true),
            ("[fd00::1]/app", true),
            ("[fd00::1/app", false),
            ("UPPER/app", true),
            ("index.docker.io/app", true),
            ("a__b/c.d-e", true),
            ("a--b", true),
            ("", false),
            ("Nginx", false),
            ("a___b", false),
            ("a..b", false),
            ("-a", false),
            ("a/", false),
            ("a:", false),
            ("a:b/c", false),
            ("host:x/c", false),
            ("0123456789012345678901234567890123456789012345678901234567890123", false),
        ] {
            assert_eq!(is_latest(image), expected, "{image}");
        }
        assert!(!is_latest(&format!("nginx@{DIGEST}")));
        assert!(is_latest(&format!("nginx:latest@{DIGEST}")));
        assert!(!is_latest("nginx:latest@sha256:0123"));
        assert!(is_latest(&"a".repeat(247)) && !is_latest(&"a".repeat(248)));
    }
}
