//! Items at module level: what a source declares, and whether it is `pub`.

use super::source::closing;

/// An item.
#[derive(Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Byte where its text begins.
    pub offset: usize,
    /// `pub` without a restriction.
    pub public: bool,
    /// `fn`, `struct`, `mod`, …
    pub keyword: &'a str,
    pub name: &'a str,
}

const KEYWORDS: [&str; 11] =
    ["fn", "struct", "enum", "trait", "union", "type", "const", "static", "mod", "use", "macro"];
/// Words that may stand before the keyword.
const MODIFIERS: [&str; 4] = ["unsafe", "async", "extern", "auto"];

/// The items of a masked source, those of inline modules too; not those of functions, traits and `impl`s.
pub fn items(code: &str) -> Vec<Item<'_>> {
    let bytes = code.as_bytes();
    let (mut found, mut begin, mut at) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'{' => {
                let item = item(code, begin, at);
                if item.as_ref().is_none_or(|item| item.keyword != "mod") {
                    at = closing(code, at);
                }
                found.extend(item);
                begin = at + 1;
            }
            b'(' | b'[' => at = closing(code, at),
            b';' => {
                found.extend(item(code, begin, at));
                begin = at + 1;
            }
            b'}' => begin = at + 1,
            _ => {}
        }
        at += 1;
    }
    found
}

/// The item that a piece of text begins.
fn item(code: &str, begin: usize, end: usize) -> Option<Item<'_>> {
    let mut offset = begin;
    loop {
        offset += code[offset..end].len() - code[offset..end].trim_start().len();
        if !code[offset..end].starts_with('#') {
            break;
        }
        let open = offset + code[offset..end].find('[')?;
        offset = (closing(code, open) + 1).min(end);
    }
    let mut rest = &code[offset..end];
    let mut public = false;
    if let Some(after) = rest.strip_prefix("pub") {
        rest = after.trim_start();
        public = !rest.starts_with('(');
        if !public {
            rest = rest[closing(rest, 0).min(rest.len() - 1) + 1..].trim_start();
        }
    }
    let mut words = rest
        .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '!'))
        .filter(|w| !w.is_empty());
    let mut keyword = words.find(|word| !MODIFIERS.contains(word))?;
    let mut name = words.next().unwrap_or_default();
    if keyword == "const" && MODIFIERS.contains(&name) {
        name = words.next()?;
    }
    if keyword == "const" && name == "fn" {
        (keyword, name) = ("fn", words.next()?);
    }
    KEYWORDS.contains(&keyword).then_some(Item { offset, public, keyword, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_at_module_level_are_found() {
        let code = "
            pub use a::{b, c};
            #[derive(Debug)]
            pub struct S { pub field: u8 }
            pub(crate) struct T(u8);
            pub const fn f() { struct Inner; }
            pub const C: [u8; 2] = [0; 2];
            impl S { type Out = u8; pub fn method() {} }
            mod m { pub enum E {} }
            static ONCE: Lock = Lock::new(|| { 1 });
            trait U {}";
        let found: Vec<String> = items(code)
            .iter()
            .map(|item| {
                format!("{}{} {}", if item.public { "pub " } else { "" }, item.keyword, item.name)
            })
            .collect();
        let expected = [
            "pub use a",
            "pub struct S",
            "struct T",
            "pub fn f",
            "pub const C",
            "mod m",
            "pub enum E",
            "static ONCE",
            "trait U",
        ];
        assert_eq!(found, expected);
    }
}
