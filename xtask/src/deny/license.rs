//! SPDX expressions: `(MIT OR Apache-2.0) AND Unicode-3.0`.

/// Whether an expression can be kept with licences that may be used. An exception to a licence (`WITH`) takes
/// nothing away from it, and `/` is what `OR` was once.
pub fn is_satisfied(expression: &str, may: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let satisfied = any(&mut words, may).ok_or_else(|| format!("no licence: {expression:?}"))?;
    match words.next() {
        None => Ok(satisfied),
        Some(_) => Err(format!("no licence: {expression:?}")),
    }
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, may: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut satisfied = all(words, may)?;
    while words.next_if_eq(&"OR").is_some() {
        satisfied |= all(words, may)?;
    }
    Some(satisfied)
}

fn all(words: &mut Words<'_>, may: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut satisfied = one(words, may)?;
    while words.next_if_eq(&"AND").is_some() {
        satisfied &= one(words, may)?;
    }
    Some(satisfied)
}

fn one(words: &mut Words<'_>, may: &dyn Fn(&str) -> bool) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let satisfied = any(words, may)?;
        return (words.next()? == ")").then_some(satisfied);
    }
    if matches!(word, ")" | "AND" | "OR" | "WITH") {
        return None;
    }
    if words.next_if_eq(&"WITH").is_some() {
        words.next()?;
    }
    Some(may(word.trim_end_matches('+')))
}

#[cfg(test)]
mod tests {
    use super::is_satisfied;

    #[test]
    fn expressions_are_judged() {
        let may = |license: &str| matches!(license, "MIT" | "ISC");
        for (expression, expected) in [
            ("MIT", Ok(true)),
            ("MIT+", Ok(true)),
            ("GPL-3.0", Ok(false)),
            ("GPL-3.0 OR MIT", Ok(true)),
            ("GPL-3.0/MIT", Ok(true)),
            ("MIT AND ISC", Ok(true)),
            ("MIT AND GPL-3.0", Ok(false)),
            ("GPL-3.0 OR MIT AND ISC", Ok(true)),
            ("(GPL-3.0 OR MIT) AND GPL-3.0", Ok(false)),
            ("GPL-3.0 WITH X OR ISC WITH Y", Ok(true)),
            ("", Err(())),
            ("MIT OR", Err(())),
            ("(MIT", Err(())),
            ("MIT ISC", Err(())),
        ] {
            assert_eq!(is_satisfied(expression, &may).map_err(|_| ()), expected, "{expression}");
        }
    }
}
