//! Rust sources as the ratchets read them: without comments, the contents of strings and tests.
//!
//! A small scanner instead of a parser: it builds in a second, and its few rules are all that counting needs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders of workspace members: all below the first ones, and the second ones themselves.
const MEMBER_PARENTS: [&str; 2] = ["crates", "conformance"];
const MEMBERS: [&str; 3] = ["bench", "xtask", "fuzz"];

/// A crate of the repository with its sources.
#[derive(Debug)]
pub struct Crate {
    /// Name of its folder.
    pub name: String,
    pub sources: Vec<Source>,
}

/// A source file.
#[derive(Debug)]
pub struct Source {
    /// Path from the root of the repository.
    pub path: String,
    pub text: String,
    /// The text with blanks for comments and the contents of strings; as long as the text.
    pub code: String,
    /// The code with blanks for tests.
    pub production: String,
    /// Path below the crate's `src`, if it is production code.
    pub below_src: Option<String>,
    line_ends: Vec<usize>,
}

impl Source {
    /// Reads a text. `below_src` is none for a file of tests.
    pub fn new(path: &str, text: &str, below_src: Option<&str>) -> Self {
        let code = mask(text);
        let production = match below_src {
            Some(_) => without_tests(&code),
            None => String::new(),
        };
        let below_src = below_src.map(str::to_owned);
        let line_ends = text.match_indices('\n').map(|(at, _)| at).collect();
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
            production,
            below_src,
            line_ends,
        }
    }

    /// `path:line` of a byte of the text.
    pub fn position(&self, offset: usize) -> String {
        format!("{}:{}", self.path, self.line_ends.partition_point(|end| *end < offset) + 1)
    }
}

/// Reads all crates of a repository, by name.
pub fn crates(root: &Path) -> io::Result<Vec<Crate>> {
    let mut folders: Vec<PathBuf> = MEMBERS.iter().map(|name| root.join(name)).collect();
    for parent in MEMBER_PARENTS {
        for entry in fs::read_dir(root.join(parent))? {
            folders.push(entry?.path());
        }
    }
    folders.retain(|folder| folder.join("Cargo.toml").is_file());
    let mut crates =
        folders.iter().map(|folder| read(root, folder)).collect::<io::Result<Vec<_>>>()?;
    crates.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(crates)
}

fn read(root: &Path, folder: &Path) -> io::Result<Crate> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort();
    let src = folder.join("src");
    let mut texts = Vec::new();
    let mut tests = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        tests.extend(test_modules(&mask(&text)).into_iter().map(|name| children(&file).join(name)));
        texts.push((file, text));
    }
    let is_test = |file: &Path| {
        file.ancestors()
            .any(|part| tests.contains(part) || tests.contains(&part.with_extension("")))
    };
    let source = |(file, text): &(PathBuf, String)| {
        let path = file.strip_prefix(root).unwrap_or(file).display().to_string();
        let below = file.strip_prefix(&src).ok().filter(|_| !is_test(file));
        Source::new(&path, text, below.map(|below| below.display().to_string()).as_deref())
    };
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Crate { name, sources: texts.iter().map(source).collect() })
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true if path.ends_with("target") => {}
            true => collect(&path, files)?,
            false => files.extend(path.extension().is_some_and(|end| end == "rs").then_some(path)),
        }
    }
    Ok(())
}

/// Folder of the modules that a file declares.
fn children(file: &Path) -> PathBuf {
    let parent = file.parent().unwrap_or(Path::new("")).to_owned();
    match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") | None => parent,
        Some(stem) => parent.join(stem),
    }
}

/// Names of the modules in files of their own that are built for tests only.
fn test_modules(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, attribute) in code.match_indices(CFG_TEST) {
        let rest = &code[at + attribute.len()..];
        let Some(end) = rest.find([';', '{']) else { continue };
        let mut words = rest[..end].split_whitespace().rev();
        if let (b';', Some(name), Some("mod")) = (rest.as_bytes()[end], words.next(), words.next())
        {
            names.push(name.to_owned());
        }
    }
    names
}

const CFG_TEST: &str = "#[cfg(test)]";

/// Blanks for items that are built for tests only.
fn without_tests(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for (at, attribute) in code.match_indices(CFG_TEST) {
        let begin = at + attribute.len();
        let end = match code[begin..].find([';', '{']) {
            Some(stop) if code.as_bytes()[begin + stop] == b'{' => closing(code, begin + stop) + 1,
            Some(stop) => begin + stop + 1,
            None => code.len(),
        };
        blank(&mut bytes, at, end);
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// The byte of the bracket that closes the one at a place; the end where none does.
pub fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in (open..).zip(&code.as_bytes()[open..]) {
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

fn blank(bytes: &mut [u8], begin: usize, end: usize) {
    let end = end.min(bytes.len());
    bytes[begin..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

/// Blanks for comments and for the contents of strings and characters.
pub fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut masked = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = at
            + match rest {
                [b'/', b'/', ..] => find(rest, b"\n", 2),
                [b'/', b'*', ..] => block_comment(rest),
                [b'r', b'"' | b'#', ..] if !is_inside_word(bytes, at) => raw_string(rest),
                [b'"', ..] => string(rest),
                [b'\'', ..] => character(rest),
                _ => 0,
            };
        if end > at {
            let kept = usize::from(bytes[at] == b'"');
            blank(&mut masked, at + kept, end - kept.min(end - at - kept));
        }
        at = end.max(at + 1);
    }
    String::from_utf8(masked).unwrap_or_default()
}

/// A raw string's `r` may follow a `b`, but is no end of a name.
fn is_inside_word(bytes: &[u8], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map(|place| bytes[place]);
    let word =
        |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match before(1) {
        Some(b'b' | b'c') => word(before(2)),
        byte => word(byte),
    }
}

fn find(bytes: &[u8], end: &[u8], from: usize) -> usize {
    let found = bytes[from..].windows(end.len()).position(|part| part == end);
    found.map_or(bytes.len(), |found| from + found)
}

fn block_comment(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of a raw string; 0 for a raw name such as `r#type`.
fn raw_string(bytes: &[u8]) -> usize {
    let marks = bytes[1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(1 + marks) != Some(&b'"') {
        return 0;
    }
    let end = [b"\"".as_slice(), &b"#".repeat(marks)].concat();
    (find(bytes, &end, 2 + marks) + end.len()).min(bytes.len())
}

fn string(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Length of a character; 0 for a lifetime.
fn character(bytes: &[u8]) -> usize {
    if bytes.get(1) == Some(&b'\\') {
        return (find(bytes, b"'", 3.min(bytes.len())) + 1).min(bytes.len());
    }
    let width = match bytes.get(1) {
        Some(0xf0..) => 4,
        Some(0xe0..) => 3,
        Some(0xc0..) => 2,
        _ => 1,
    };
    if bytes.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_blanks_comments_and_strings() {
        let text = r##"a /* b /* c */ */ "d\"{" r#"e""# 'f' '\'' '{' <'g> r#type // h"##;
        let expected = r##"a                 "    "                      <'g> r#type     "##;
        assert_eq!(mask(text), expected);
        assert_eq!(mask("br\"{\" x"), "b     x");
    }

    #[test]
    fn tests_are_no_production_code() {
        let source = Source::new(
            "a.rs",
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}",
            Some("a.rs"),
        );
        assert!(source.production.contains("fn a"));
        assert!(!source.production.contains("fn b"));
        assert!(source.production.contains("fn c"));
        assert_eq!(source.position(source.text.find("fn c").unwrap_or(0)), "a.rs:4");
    }

    #[test]
    fn test_modules_in_files_are_found() {
        assert_eq!(test_modules("#[cfg(test)]\npub mod a;\n#[cfg(test)]\nmod b {}\nmod c;"), ["a"]);
        assert_eq!(children(Path::new("src/x/mod.rs")), Path::new("src/x"));
        assert_eq!(children(Path::new("src/x.rs")), Path::new("src/x"));
    }
}
