//! The ratchet of typed errors: a caller can decide on a type, not on a text.

use std::collections::BTreeSet;

use super::items::items;
use super::source::{Crate, Source};
use super::{Hit, Hits};

/// Marks a text that the reference defines and a client sees; on the line itself or on the one above.
const MARK: &str = "// reference message";
/// Types that are texts, without lifetimes and paths.
const TEXTS: [&str; 6] = ["String", "&str", "Box<str>", "Arc<str>", "Rc<str>", "Cow<str>"];
/// Crates whose errors have no type.
const UNTYPED: [&str; 3] = ["anyhow", "eyre", "color_eyre"];

/// `string`: `Result`s whose error is a text, and uses of aliases of one.
/// `newtype`: `Result`s whose error is a struct of one field that is a text.
/// `dyn`: `dyn Error`. `anyhow`: names of crates whose errors have no type.
/// All in `src`, without tests and without what is marked.
pub fn measure(crates: &[Crate]) -> Hits {
    let mut hits = Hits::default();
    for place in places(crates).into_iter().filter(|place| !place.is_marked()) {
        let text = place.line().trim().to_owned();
        let position = place.source.position(place.offset);
        hits.add(place.owner, place.measure, Hit { position, text });
    }
    hits
}

/// Number of marked places, for the table.
pub fn marks(crates: &[Crate]) -> String {
    let marked = places(crates).iter().filter(|place| place.is_marked()).count();
    format!("{marked} results with texts are marked as the reference's")
}

/// A place where an error has no type.
struct Untyped<'a> {
    owner: &'a str,
    measure: &'static str,
    source: &'a Source,
    offset: usize,
}

impl<'a> Untyped<'a> {
    fn line(&self) -> &'a str {
        self.source.text[self.line_begin()..].lines().next().unwrap_or_default()
    }

    fn line_begin(&self) -> usize {
        self.source.text[..self.offset].rfind('\n').map_or(0, |at| at + 1)
    }

    fn is_marked(&self) -> bool {
        let above = self.source.text[..self.line_begin()].lines().last().unwrap_or_default();
        [self.line(), above].iter().any(|line| line.contains(MARK))
    }
}

fn places(crates: &[Crate]) -> Vec<Untyped<'_>> {
    let mut places = Vec::new();
    for Crate { name: owner, sources } in crates {
        let sources = || sources.iter().filter(|source| source.below_src.is_some());
        let aliases: BTreeSet<String> =
            sources().flat_map(|source| aliases(&source.production)).collect();
        let newtypes: BTreeSet<String> =
            sources().flat_map(|source| newtypes(&source.production)).collect();
        for source in sources() {
            let found = untyped(&source.production, &aliases, &newtypes).into_iter();
            places.extend(found.map(|(measure, offset)| Untyped {
                owner,
                measure,
                source,
                offset,
            }));
        }
    }
    places
}

fn untyped(
    code: &str,
    aliases: &BTreeSet<String>,
    newtypes: &BTreeSet<String>,
) -> Vec<(&'static str, usize)> {
    let mut found = Vec::new();
    for (offset, name) in words(code) {
        let arguments = arguments(code, offset + name.len());
        let error =
            arguments.as_ref().filter(|_| name == "Result").and_then(|arguments| arguments.get(1));
        match error {
            Some(error) if is_text(error) => found.push(("string", offset)),
            Some(error) if newtypes.contains(last_segment(error)) => {
                found.push(("newtype", offset))
            }
            _ => {}
        }
        let alias = aliases.contains(name)
            && arguments.is_some_and(|arguments| name != "Result" || arguments.len() == 1);
        // The alias itself is counted as the `Result` that it stands for.
        if alias && !code[..offset].trim_end().ends_with("type") {
            found.push(("string", offset));
        }
        if UNTYPED.contains(&name) {
            found.push(("anyhow", offset));
        }
        if name == "dyn" && bound(&code[offset + name.len()..]) == "Error" {
            found.push(("dyn", offset));
        }
    }
    found
}

/// Names of `type X<T> = Result<T, String>`.
fn aliases(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for item in items(code).iter().filter(|item| item.keyword == "type") {
        let rest = &code[item.offset..];
        let declaration = &rest[..rest.find(';').unwrap_or(rest.len())];
        let Some((_, target)) = declaration.split_once('=') else { continue };
        let target = target.trim();
        let is_result = target.split('<').next().is_some_and(|path| last_segment(path) == "Result");
        let error = arguments(target, target.find('<').unwrap_or(target.len()))
            .and_then(|mut list| list.pop());
        if is_result && error.is_some_and(|error| is_text(&error)) {
            names.push(item.name.to_owned());
        }
    }
    names
}

/// Names of structs with one field that is a text.
fn newtypes(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for item in items(code).iter().filter(|item| item.keyword == "struct") {
        let rest = &code[item.offset..];
        let Some(open) =
            rest.find(['(', '{', ';']).filter(|at| rest.as_bytes()[*at] != b';' && at > &0)
        else {
            continue;
        };
        // `pub(crate) struct`: the first bracket is the visibility's.
        let open = match rest[..open].trim_end().ends_with("pub") {
            true => match rest[open + 1..].find(['(', '{', ';']) {
                Some(next) => open + 1 + next,
                None => continue,
            },
            false => open,
        };
        let body =
            &rest[open + 1..super::source::closing(rest, open).min(rest.len()).max(open + 1)];
        let fields = split(body);
        let fields: Vec<&str> =
            fields.iter().map(String::as_str).filter(|field| !field.is_empty()).collect();
        if let [field] = fields.as_slice() {
            let kind = field.rsplit_once(": ").map_or(*field, |(_, kind)| kind);
            let kind = kind.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
            if is_text(kind) {
                names.push(item.name.to_owned());
            }
        }
    }
    names
}

/// Names and keywords with their places.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = code.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && !word(bytes[at]) {
            at += 1;
        }
        let begin = at;
        while at < bytes.len() && word(bytes[at]) {
            at += 1;
        }
        (begin < at).then(|| (begin, &code[begin..at]))
    })
}

/// The type arguments that begin at a place (`<…>` or `::<…>`), if some do.
fn arguments(code: &str, at: usize) -> Option<Vec<String>> {
    let rest = &code[at..];
    let rest = rest.strip_prefix("::").unwrap_or(rest).strip_prefix('<')?;
    let (mut depth, mut before) = (1_usize, ' ');
    for (end, c) in rest.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if before == '-' || before == '=' => {}
            '>' | ')' | ']' => depth -= 1,
            ';' | '{' if depth == 1 => return None,
            _ => {}
        }
        if depth == 0 {
            return Some(split(&rest[..end]));
        }
        before = c;
    }
    None
}

/// The parts of a list, with single blanks.
fn split(list: &str) -> Vec<String> {
    let (mut depth, mut before, mut parts) = (0_usize, ' ', vec![String::new()]);
    for c in list.chars() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if before == '-' || before == '=' => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
        match parts.last_mut() {
            Some(part) if c != ',' || depth > 0 => part.push(c),
            _ => parts.push(String::new()),
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts.iter().map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn is_text(kind: &str) -> bool {
    let bare = |part: &str| part.trim().to_owned();
    let kind = kind.trim();
    let kind = match kind.strip_prefix('&') {
        Some(rest) => format!("&{}", rest.split_whitespace().last().unwrap_or_default()),
        None => match kind.split_once('<') {
            Some((outer, inner)) => {
                let inner = split(inner.trim_end_matches('>'));
                let inner = inner
                    .into_iter()
                    .filter(|part| !part.starts_with('\''))
                    .map(|part| bare(&part));
                format!("{}<{}>", last_segment(outer), inner.collect::<Vec<_>>().join(", "))
            }
            None => last_segment(kind).to_owned(),
        },
    };
    TEXTS.contains(&kind.as_str())
}

fn last_segment(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path).trim()
}

/// The trait of a `dyn`.
fn bound(rest: &str) -> &str {
    let end = rest
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':' | ' ')))
        .unwrap_or(rest.len());
    last_segment(rest[..end].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str, measure: &str) -> usize {
        let sources = vec![Source::new("a.rs", text, Some("a.rs"))];
        let hits = super::measure(&[Crate { name: "a".to_owned(), sources }]);
        hits.counts().get(&("a".to_owned(), measure.to_owned())).copied().unwrap_or(0)
    }

    #[test]
    fn results_with_texts_as_errors_are_counted() {
        let text = "
            fn a() -> Result<Vec<(u8, String)>, String> {}
            fn b() -> Result<String, Error> {}
            fn c() -> std::result::Result<(), &'static str> {}
            fn d(f: impl Fn() -> Result<(), Cow<'static, str>>) { x::<Result<_, std::string::String>>() }
            fn e() -> Result<HashMap<u8, String>> {}";
        assert_eq!(count(text, "string"), 4);
    }

    #[test]
    fn aliases_and_newtypes_of_texts_are_seen_through() {
        let alias = "type Outcome<T> = Result<T, String>;\nfn a() -> Outcome<u8> {}\nfn b() -> Outcome<()> {}";
        assert_eq!(count(alias, "string"), 3);
        let newtype = "pub(crate) struct Text(pub String);\nstruct Wrapped { why: String }\nstruct Two(String, u8);
            fn a() -> Result<u8, Text> {}\nfn b() -> Result<u8, Wrapped> {}\nfn c() -> Result<u8, Two> {}";
        assert_eq!(count(newtype, "newtype"), 2);
    }

    #[test]
    fn dyn_error_and_anyhow_are_counted() {
        let text = "fn a() -> Result<(), Box<dyn std::error::Error + Send>> {}\nfn b(c: &dyn Errors) {}\nuse anyhow::Context;";
        assert_eq!((count(text, "dyn"), count(text, "anyhow")), (1, 1));
    }

    #[test]
    fn marked_messages_and_tests_are_not_counted() {
        let text = "fn a() -> Result<(), String> {} // reference message\n// reference message: quantities\nfn b() -> Result<(), String> {}
            #[cfg(test)]\nmod tests { fn c() -> Result<(), String> {} }";
        assert_eq!(count(text, "string"), 0);
    }
}
