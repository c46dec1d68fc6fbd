//! Patterns for modules.

/// Whether a pattern matches a module's path or its last part; `*` stands for any characters, `?`
/// for one.
pub(super) fn matches(pattern: &str, module: &str) -> bool {
    let last = module.rsplit("::").next().unwrap_or(module);
    glob(pattern.as_bytes(), last.as_bytes()) || glob(pattern.as_bytes(), module.as_bytes())
}

/// Goes back only to the last `*`, so that the time is at most the product of the lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&wanted) if wanted == b'?' || Some(&wanted) == text.get(t) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|&rest| rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, module, expected) in [
            ("watch", "kevel_store::watch", true),
            ("wat", "kevel_store::watch", false),
            ("wat*", "kevel_store::watch", true),
            ("w?tch", "kevel_store::watch", true),
            ("kevel_store::*", "kevel_store::watch", true),
            ("kevel_store", "kevel_store::watch", false),
            ("*a*a*b", "aaaaaaaaaa", false),
            ("*", "x", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, module), expected, "{pattern} {module}");
        }
    }
}
