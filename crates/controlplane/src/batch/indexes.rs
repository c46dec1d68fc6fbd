//! Index lists of indexed Jobs: `1,3-5,7`.

/// Counts the listed indexes, which must increase and be below `completions`.
pub fn count(text: &str, completions: i64) -> Result<i64, String> {
    let (mut last, mut total) = (None, 0);
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, until) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += until - first + 1;
        last = Some(until);
    }
    Ok(total)
}

/// First index in both lists; parts that cannot be parsed are skipped.
pub fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let read = |text: &str| -> Vec<(i64, i64)> {
        let parts = text.split(',').filter(|_| !text.is_empty());
        parts.filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (read(completed), read(failed));
    let (mut c, mut f) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((c_first, c_last)), Some((f_first, f_last))) = (c.peek(), f.peek()) {
        if c_first <= f_last && f_first <= c_last {
            return Some(*c_first.max(f_first));
        }
        match c_first <= f_first {
            true => c.next(),
            false => f.next(),
        };
    }
    None
}

fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let mut limits = part.split('-');
    let first = limits.next().unwrap_or_default();
    let (second, more) = (limits.next(), limits.next());
    if more.is_some() {
        return Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at \
             most two parts separated by '-'"
        ));
    }
    let read = |text: &str| {
        let number: i64 = text
            .parse()
            .map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
        match number >= completions {
            true => Err(format!("too large index: {text:?}")),
            false => Ok(number),
        }
    };
    let first = read(first)?;
    let Some(second) = second else { return Ok((first, first)) };
    let second = read(second)?;
    if first >= second {
        return Err(format!("non-increasing order, previous: {first}, current: {second}"));
    }
    Ok((first, second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted() {
        for (text, expected) in [
            ("", Ok(0)),
            ("0", Ok(1)),
            ("1,3-5,7", Ok(5)),
            ("1-1", Err("non-increasing order, previous: 1, current: 1")),
            ("3,2", Err("non-increasing order, previous: 3, current: 2")),
            ("x", Err("cannot convert string to integer for index: \"x\"")),
            ("10", Err("too large index: \"10\"")),
            (
                "1-2-3",
                Err("the fragment \"1-2-3\" violates the requirement that an index interval can \
                     have at most two parts separated by '-'"),
            ),
        ] {
            assert_eq!(count(text, 10), expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn overlaps_are_found() {
        for (completed, failed, expected) in [
            ("", "1", None),
            ("1,3", "2,4", None),
            ("1,3-5", "2,4", Some(4)),
            ("0-9", "5", Some(5)),
        ] {
            assert_eq!(overlap(completed, failed, 10), expected, "{completed} {failed}");
        }
    }
}
