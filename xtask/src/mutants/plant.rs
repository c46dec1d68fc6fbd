//! Faults in the text of a source.

use std::ops::Range;

use super::list::PlantedFault;

/// Reason for which a fault does not fit its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MisplacedError {
    #[error("the place is not there")]
    NotFound,
    #[error("the place is there more than once: it needs more around it")]
    Ambiguous,
    #[error("`«` and `»` do not mark an expression")]
    Unmarked,
    #[error("the expression overlaps with that of another fault")]
    Overlapping,
}

/// The first line of a crate with faults: lints have nothing to say there.
pub const HEAD: &str = "#![allow(warnings)]\n";

/// The module that is added to a crate: whether a fault is on. With `KEVEL_FAULT_TRACE=FILE` it also appends a line to the
/// file when a process reaches a fault for the first time.
pub const MODULE: &str = r#"
#[doc(hidden)]
#[allow(missing_docs)]
pub mod planted {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    const PACKAGE: &str = env!("CARGO_PKG_NAME");

    static ON: LazyLock<u32> = LazyLock::new(|| {
        let on = std::env::var("KEVEL_FAULT").unwrap_or_default();
        let (package, number) = on.split_once(' ').unwrap_or_default();
        if package == PACKAGE { number.parse().unwrap_or(0) } else { 0 }
    });

    static TRACE: LazyLock<Option<std::fs::File>> = LazyLock::new(|| {
        let path = std::env::var_os("KEVEL_FAULT_TRACE")?;
        std::fs::File::options().append(true).create(true).open(path).ok()
    });

    static REACHED: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

    pub fn fault(number: u32) -> bool {
        if let Some(trace) = &*TRACE {
            reach(trace, number);
        }
        *ON == number
    }

    fn reach(mut trace: &std::fs::File, number: u32) {
        let bit = 1u64 << (number % 64);
        let Some(word) = REACHED.get((number / 64) as usize) else { return };
        if word.load(Ordering::Relaxed) & bit == 0
            && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
        {
            let line = format!("{PACKAGE} {number}\n");
            let _ = std::io::Write::write_all(&mut trace, line.as_bytes());
        }
    }
}
"#;

/// The text with faults, each with its number. Of those that do not fit, the reasons.
pub fn plant(
    text: &str,
    faults: &[(usize, &PlantedFault)],
) -> Result<String, Vec<(usize, MisplacedError)>> {
    let (mut spans, mut misplaced) = (Vec::new(), Vec::new());
    for (number, fault) in faults {
        match find(text, &fault.place) {
            Ok(span) => spans.push(Planted { span, number: *number, faulty: &fault.faulty }),
            Err(error) => misplaced.push((*number, error)),
        }
    }
    // Outer expressions first.
    spans.sort_by_key(|planted| (planted.span.start, usize::MAX - planted.span.end));
    let overlapping = spans.iter().zip(spans.iter().skip(1));
    let overlapping = overlapping
        .filter(|(one, next)| next.span.start < one.span.end && next.span.end > one.span.end);
    misplaced.extend(overlapping.map(|(_, next)| (next.number, MisplacedError::Overlapping)));
    match misplaced.is_empty() {
        true => Ok(render(text, 0..text.len(), &spans)),
        false => Err(misplaced),
    }
}

struct Planted<'f> {
    span: Range<usize>,
    number: usize,
    faulty: &'f str,
}

/// A part of the text with the faults inside of it.
fn render(text: &str, part: Range<usize>, mut spans: &[Planted<'_>]) -> String {
    let (mut out, mut at) = (String::new(), part.start);
    while let Some((first, rest)) = spans.split_first() {
        out.push_str(&text[at..first.span.start]);
        let inside = rest.iter().take_while(|inner| inner.span.start < first.span.end).count();
        let (inner, rest) = rest.split_at(inside);
        let right = render(text, first.span.clone(), inner);
        let Planted { number, faulty, .. } = first;
        out.push_str(&format!(
            "(if crate::planted::fault({number}) {{ {faulty} }} else {{ {right} }})"
        ));
        (at, spans) = (first.span.end, rest);
    }
    out.push_str(&text[at..part.end]);
    out
}

/// The expression that a place marks.
fn find(text: &str, place: &str) -> Result<Range<usize>, MisplacedError> {
    let marks = |mark| place.matches(mark).count();
    if marks('«') != marks('»') || marks('«') > 1 {
        return Err(MisplacedError::Unmarked);
    }
    let starts = text.char_indices().map(|(index, _)| index);
    let mut found = starts.filter_map(|start| matches_at(text, start, place));
    let first = found.next().ok_or(MisplacedError::NotFound)?;
    match found.next() {
        Some(_) => Err(MisplacedError::Ambiguous),
        None => Ok(first),
    }
}

fn matches_at(text: &str, start: usize, place: &str) -> Option<Range<usize>> {
    let mut rest = text.get(start..)?;
    let (mut from, mut to) = (start, None);
    let mut wanted = place.trim().chars().peekable();
    while let Some(next) = wanted.next() {
        let at = text.len() - rest.len();
        match next {
            '«' => from = at,
            '»' => to = Some(at),
            space if space.is_whitespace() => {
                while wanted.next_if(|next| next.is_whitespace()).is_some() {}
                let trimmed = rest.trim_start();
                if trimmed.len() == rest.len() {
                    return None;
                }
                rest = trimmed;
            }
            other => rest = rest.strip_prefix(other)?,
        }
    }
    Some(from..to.unwrap_or(text.len() - rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::list::Fate;

    fn fault(place: &str, faulty: &str) -> PlantedFault {
        let (place, faulty) = (place.to_owned(), faulty.to_owned());
        PlantedFault { file: "a.rs".into(), name: "n".into(), place, faulty, fate: Fate::Unknown }
    }

    fn planted(
        text: &str,
        faults: &[(&str, &str)],
    ) -> Result<String, Vec<(usize, MisplacedError)>> {
        let faults: Vec<_> = faults.iter().map(|(place, faulty)| fault(place, faulty)).collect();
        let numbered: Vec<_> = faults.iter().enumerate().map(|(i, fault)| (i + 1, fault)).collect();
        let planted = plant(text, &numbered)?;
        Ok(planted.replace("crate::planted::fault", "f"))
    }

    #[test]
    fn expressions_get_their_faults() {
        let text = "match x {\n    Some(0)\n        if !pending => a(b + 1),\n}";
        for (faults, expected) in [
            (
                &[("Some(0) if «!pending» =>", "true")][..],
                "match x {\n    Some(0)\n        if (if f(1) { true } else { !pending }) => a(b + 1),\n}",
            ),
            (
                &[("b + 1", "b"), ("a(b + 1)", "c()"), ("«a(b + 1)»,", "d()")],
                "match x {\n    Some(0)\n        if !pending => (if f(2) { c() } else { (if f(3) { d() } else { a((if f(1) { b } else { b + 1 })) }) }),\n}",
            ),
        ] {
            assert_eq!(planted(text, faults).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn places_must_be_there_once_and_apart() {
        use MisplacedError::*;
        let text = "a(1) + a(2) + b";
        for (faults, expected) in [
            (&[("c", "d")][..], vec![(1, NotFound)]),
            (&[("«a»(", "d")], vec![(1, Ambiguous)]),
            (&[("«b", "d")], vec![(1, Unmarked)]),
            (&[("a(1) + a(2)", "d"), ("a(2) + b", "d")], vec![(2, Overlapping)]),
        ] {
            assert_eq!(planted(text, faults), Err(expected), "{faults:?}");
        }
    }
}
