//! Choice of the style of strings, as in the reference.

use super::emit::{is_break, is_printable};
use super::resolve::{Resolved, implicit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

/// Styles that a string allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    multiline: bool,
    plain: bool,
    single_quoted: bool,
    literal: bool,
}

impl Allowed {
    /// Style of a string; `block` says whether it may take several lines.
    pub(super) fn choose(self, text: &str, block: bool) -> Style {
        if text.contains('\n') {
            return if self.literal && block { Style::Literal } else { Style::DoubleQuoted };
        }
        if !matches!(implicit(text, true), Resolved::Str) || is_base60(text) {
            return Style::DoubleQuoted;
        }
        if self.multiline && !block {
            Style::DoubleQuoted
        } else if self.plain {
            Style::Plain
        } else if self.single_quoted {
            Style::SingleQuoted
        } else {
            Style::DoubleQuoted
        }
    }
}

/// Determines the styles that a string allows.
pub(super) fn style_of(text: &str) -> Allowed {
    // Most strings are names.
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'/');
    if text.bytes().all(is_name) {
        return Allowed { multiline: false, plain: true, single_quoted: true, literal: true };
    }
    let mut indicators = text.starts_with("---") || text.starts_with("...");
    let mut special = false;
    let mut breaks = false;
    let mut break_space = false;
    let mut space_break = false;
    let mut previous = None;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        let ends_word = chars.as_str().chars().next().is_none_or(|next| matches!(next, ' ' | '\t'));
        let starts_word = previous.is_none_or(|p| matches!(p, ' ' | '\t' | '\0') || is_break(p));
        indicators |= match c {
            ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
            | '`' => at == 0,
            '?' | '-' => at == 0 && ends_word,
            ':' => ends_word,
            '#' => starts_word,
            _ => false,
        };
        special |= !is_printable(c);
        break_space |= c == ' ' && previous.is_some_and(is_break);
        space_break |= is_break(c) && previous == Some(' ');
        breaks |= is_break(c);
        previous = Some(c);
    }
    let edge = |c: char| c == ' ' || is_break(c);
    let edges = text.starts_with(edge) || text.ends_with(edge);
    Allowed {
        multiline: breaks,
        plain: !(indicators || special || breaks || edges),
        single_quoted: !(break_space || space_break || special),
        literal: !(text.ends_with(' ') || space_break || special),
    }
}

/// Whether a text is a base 60 number to some decoders of YAML 1.1: `1:30`.
fn is_base60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (places, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut places = places.split(':');
    let first = places.next().unwrap_or_default();
    let mut rest = 0;
    let sixty =
        |place: &str| matches!(place.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    first.starts_with(|c: char| c.is_ascii_digit())
        && digits(first)
        && digits(fraction)
        && places.all(|place| {
            rest += 1;
            sixty(place)
        })
        && rest > 0
}
