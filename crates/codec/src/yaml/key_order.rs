//! Order of keys in the reference's YAML: letters after other characters, numbers by value.

/// Sorts items by an order that need not be transitive, as [`before`] is not (`12`, `1a`, `2`, `12`): the standard
/// library's sorts may panic on it, merging does not.
pub(super) fn merge_sort<T: Copy>(items: &mut [T], before: impl Fn(&T, &T) -> bool) {
    let mut merged = Vec::with_capacity(items.len());
    let mut run = 1;
    while run < items.len() {
        for pair in items.chunks_mut(2 * run) {
            let Some((left, right)) = pair.split_at_mut_checked(run) else { continue };
            if !left.last().zip(right.first()).is_some_and(|(left, right)| before(right, left)) {
                continue;
            }
            merged.clear();
            let (mut l, mut r) = (0, 0);
            while let (Some(a), Some(b)) = (left.get(l), right.get(r)) {
                if before(b, a) {
                    merged.push(*b);
                    r += 1;
                } else {
                    merged.push(*a);
                    l += 1;
                }
            }
            merged.extend_from_slice(&left[l..]);
            merged.extend_from_slice(&right[r..]);
            pair.copy_from_slice(&merged);
        }
        run *= 2;
    }
}

/// Whether one key is written before another.
pub(super) fn before(a: &str, b: &str) -> bool {
    let mut same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    while !a.is_char_boundary(same) || !b.is_char_boundary(same) {
        same -= 1;
    }
    let (rest_a, rest_b) = (&a[same..], &b[same..]);
    let (Some(first_a), Some(first_b)) = (rest_a.chars().next(), rest_b.chars().next()) else {
        return rest_a.len() < rest_b.len();
    };
    match (first_a.is_alphabetic(), first_b.is_alphabetic()) {
        (true, true) => return first_a < first_b,
        (false, false) => {}
        (_, b_is_letter) => return b_is_letter,
    }
    // `10` and `1-`: preceding digits belong to the number, which a zero would not show.
    let behind_digits = a[..same].chars().rev().take_while(|c| c.is_numeric()).any(|c| c != '0');
    let start = i64::from(behind_digits && (first_a == '0' || first_b == '0'));
    let (number_a, number_b) = (number(rest_a, start), number(rest_b, start));
    (number_a, first_a) < (number_b, first_b)
}

/// Value and length of the leading digits.
fn number(text: &str, start: i64) -> (i64, usize) {
    let digits = text.chars().take_while(|c| c.is_numeric());
    digits.fold((start, 0), |(value, len), digit| {
        let digit = i64::from(u32::from(digit)) - i64::from(b'0');
        (value.wrapping_mul(10).wrapping_add(digit), len + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_last_numbers_by_value() {
        for keys in [
            &["a", "b", "c"][..],
            &["", "-", "_", "A", "a", "é"],
            &["1", "2", "10", "100", "101", "1000"],
            &["a1", "a2", "a10", "a10b", "aa"],
            &["1-", "01", "10"],
            &["1", "01", "001", "2"],
            &["f:.", "f:1", "f:a", "k:{\"a\":1}"],
            &["v1-9", "v1-10", "v1.2", "v1beta1", "v2"],
        ] {
            let mut sorted: Vec<&str> = keys.iter().rev().copied().collect();
            merge_sort(&mut sorted, |a, b| before(a, b));
            assert_eq!(sorted, keys);
        }
    }

    #[test]
    fn sorts_in_spite_of_a_circle() {
        let keys: Vec<String> = (0..1000).map(|n| format!("{:x}", n * 7919 % 4096)).collect();
        let mut sorted: Vec<&String> = keys.iter().collect();
        merge_sort(&mut sorted, |a, b| before(a, b));
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), keys.len());
    }
}
