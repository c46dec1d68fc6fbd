//! The name that was meant by one that does not exist.

/// Fewest letters for each wrong one: shorter names would be taken for unrelated ones.
const LETTERS_PER_MISTAKE: usize = 3;
/// Most wrong letters, however long the name is.
const MAX_MISTAKES: usize = 4;
/// Longest name that is compared: the time grows with the square of it.
const MAX_NAME: usize = 128;

/// The known name that is nearest to a wrong one, if any is near: letters added, left out, replaced or swapped, whatever
/// their case. Of equally near names it is the first.
pub fn nearest<'k>(wrong: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let wrong = letters(wrong);
    if wrong.len() > MAX_NAME {
        return None;
    }
    let most = (wrong.len() / LETTERS_PER_MISTAKE).min(MAX_MISTAKES);
    let distances = known.into_iter().map(|name| (distance(&wrong, &letters(name)), name));
    let near = distances.filter(|(mistakes, _)| *mistakes <= most);
    near.min_by_key(|(mistakes, _)| *mistakes).map(|(_, name)| name)
}

fn letters(name: &str) -> Vec<char> {
    name.chars().map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Optimal string alignment distance (Damerau–Levenshtein without overlapping swaps).
fn distance(one: &[char], other: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let at =
                |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX / 2);
            let replaced = at(&last, j) + usize::from(a != b);
            let added = at(&row, j) + 1;
            let left_out = at(&last, j + 1) + 1;
            let mut least = replaced.min(added).min(left_out);
            let is_swapped =
                i > 0 && j > 0 && one.get(i - 1) == Some(b) && other.get(j - 1) == Some(a);
            if is_swapped {
                least = least.min(at(&before, j - 1) + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_others_are_not() {
        let known = ["etcd-servers", "etcd-servers-overrides", "secure-port", "storage", "v"];
        for (wrong, expected) in [
            ("etcd-server", Some("etcd-servers")),
            ("ectd-servers", Some("etcd-servers")),
            ("etcd-servers-override", Some("etcd-servers-overrides")),
            ("Secure-Port", Some("secure-port")),
            ("sercure-prot", Some("secure-port")),
            ("stroage", Some("storage")),
            ("insecure-port", Some("secure-port")),
            ("x", None),
            ("kubeconfig", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, known), expected, "{wrong}");
        }
        assert_eq!(nearest(&"x".repeat(100_000), known), None);
    }

    #[test]
    fn distance_counts_mistakes() {
        for (one, other, mistakes) in [
            ("", "", 0),
            ("a", "", 1),
            ("ab", "ba", 1),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(&letters(one), &letters(other)), mistakes, "{one} {other}");
            assert_eq!(distance(&letters(other), &letters(one)), mistakes, "{other} {one}");
        }
    }
}
