//! Generation of names (`generateName`).

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Used length of a `generateName`: what a DNS label leaves beside the suffix.
pub const MAX_GENERATED_NAME_BASE: usize = 63 - SUFFIX_LENGTH;

const SUFFIX_LENGTH: usize = 5;
/// Letters and digits without vowels and their look-alikes, so that no words result.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Name with the given base, cut to 58 bytes, and five random characters.
///
/// ```
/// let name = kevel_api::name::generate_name("web-");
/// assert!(name.starts_with("web-") && name.len() == 9);
/// ```
pub fn generate_name(base: &str) -> String {
    let mut end = base.len().min(MAX_GENERATED_NAME_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = String::with_capacity(end + SUFFIX_LENGTH);
    name.push_str(&base[..end]);
    // The standard library's hasher has a new key for every state, from the operating system's randomness: as good as
    // the reference's generator, which is seeded with the clock.
    let mut random = RandomState::new().build_hasher().finish();
    for _ in 0..SUFFIX_LENGTH {
        let index = random % ALPHABET.len() as u64;
        random /= ALPHABET.len() as u64;
        name.push(char::from(ALPHABET[index as usize]));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_cut_and_extended() {
        let long = "x".repeat(100);
        for (base, kept) in [("", ""), ("web-", "web-"), (&*long, &long[..58])] {
            let name = generate_name(base);
            let suffix = name.strip_prefix(kept).unwrap();
            assert_eq!(suffix.len(), 5, "{name}");
            assert!(suffix.bytes().all(|b| ALPHABET.contains(&b)), "{name}");
        }
        // 57 letters and one of two bytes exceed 58 bytes.
        assert_eq!(generate_name(&format!("{}é", "x".repeat(57))).len(), 62);
    }

    #[test]
    fn names_differ() {
        let names: HashSet<String> = (0..1000).map(|_| generate_name("a-")).collect();
        assert!(names.len() > 990, "{}", names.len());
    }
}
