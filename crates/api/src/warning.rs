//! Warnings in responses, limited to the room in headers.

/// Limit on the characters of all warnings of a response, beyond which each is cut.
pub const MAX_TOTAL: usize = 4 * 1024;
/// Limit on the characters of each warning then.
pub const MAX_EACH: usize = 256;

/// Warnings of one response. Warnings that will not be sent are not kept and, if possible, not made: an object of 3 MiB
/// may cause a million.
///
/// ```
/// use kevel_api::warning::WarningList;
/// let mut warnings = WarningList::default();
/// warnings.add("spec.foo: deprecated");
/// warnings.add("spec.foo: deprecated");
/// assert_eq!(warnings.into_said(), ["spec.foo: deprecated"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct WarningList {
    said: Vec<String>,
    /// Number of characters.
    total: usize,
    /// Number of characters if each warning is cut.
    cut: usize,
}

impl WarningList {
    /// Adds a warning, unless it is a duplicate or cannot be sent in a header.
    pub fn add(&mut self, warning: impl Into<String>) {
        self.add_with(|| warning.into());
    }

    /// Adds a warning that is made only if there is room for it.
    pub fn add_with(&mut self, warning: impl FnOnce() -> String) {
        if self.is_full() {
            return;
        }
        let warning = warning();
        let sayable = !warning.is_empty() && !warning.chars().any(char::is_control);
        if sayable && !self.said.contains(&warning) {
            let length = warning.chars().count();
            self.total += length;
            self.cut += length.min(MAX_EACH);
            self.said.push(warning);
        }
    }

    /// Whether no further warning will be sent.
    pub fn is_full(&self) -> bool {
        self.total > MAX_TOTAL && self.cut >= MAX_TOTAL
    }

    /// Warnings to send: all of them, or the first ones, cut.
    pub fn into_said(self) -> Vec<String> {
        if self.total <= MAX_TOTAL {
            return self.said;
        }
        let mut room = MAX_TOTAL;
        let mut cut = Vec::new();
        for warning in self.said {
            if room == 0 {
                break;
            }
            let text: String = warning.chars().take(MAX_EACH).collect();
            room = room.saturating_sub(text.chars().count());
            cut.push(text);
        }
        cut
    }
}

impl<S: Into<String>> Extend<S> for WarningList {
    /// Stops when there is no more room.
    fn extend<I: IntoIterator<Item = S>>(&mut self, warnings: I) {
        for warning in warnings {
            self.add(warning);
            if self.is_full() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(warnings: &[String]) -> Vec<String> {
        let mut list = WarningList::default();
        list.extend(warnings.iter().cloned());
        list.into_said()
    }

    #[test]
    fn what_cannot_stand_in_a_header_is_not_said() {
        assert_eq!(said(&["a".into(), "line\nbreak".into(), String::new()]), ["a"]);
    }

    #[test]
    fn many_long_warnings_are_cut_and_then_left_out() {
        let long = |letter: char| letter.to_string().repeat(2048);
        assert_eq!(said(&[long('a'), long('b')])[1].len(), 2048);
        let lengths = |warnings: &[String]| -> Vec<usize> {
            said(warnings).iter().map(String::len).collect()
        };
        assert_eq!(lengths(&[long('a'), long('b'), "c".into()]), [256, 256, 1]);
        let many: Vec<_> = (0..100).map(|n| format!("{n:0300}")).collect();
        assert_eq!(lengths(&many), [256; MAX_TOTAL / MAX_EACH]);
        let many: Vec<_> = (0..17).map(|n| format!("{n:0256}")).collect();
        assert_eq!(lengths(&many), [256; MAX_TOTAL / MAX_EACH]);
    }

    #[test]
    fn a_million_warnings_are_not_made() {
        let mut list = WarningList::default();
        let mut made = 0;
        list.extend((0..1_000_000).map(|n| {
            made += 1;
            format!("{n}: a warning")
        }));
        assert!(made < MAX_TOTAL, "{made}");
    }
}
