//! Index of upstream names: where the counterpart of a type or function of kube-apiserver's source is in Kevel.
//!
//! `xtask/upstream.txt` lists the names, by repository. A line gives the counterpart as a file and an item, or leaves it
//! to a comment in the sources: `(upstream: NAME)`, or the name alone in parentheses. Names in comments that the file
//! does not list are found, too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// File with the names.
const LIST: &str = "xtask/upstream.txt";
/// Folder of the crates; files in the list are relative to it.
const CRATES: &str = "crates";
/// Names that have to resolve.
const LEAST: usize = 200;

/// Failure of the index.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// A file cannot be read.
    #[error("{}: {_1}", _0.display())]
    Unreadable(PathBuf, io::Error),
    /// A line of the list has another form.
    #[error("{LIST}:{0}: not `REPOSITORY NAME` or `REPOSITORY NAME FILE ITEM`")]
    Malformed(usize),
    /// No counterpart is known.
    #[error("no counterpart of {0} is known: see ARCHITECTURE.md and docs/glossary.md")]
    Unknown(String),
    /// Counterparts that are gone, or too few of them.
    #[error("{}\n{} names of {LIST} do not resolve, {_1} do, and {LEAST} have to", _0.join("\n"), _0.len())]
    Failed(Vec<String>, usize),
}

/// Counterpart of an upstream name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counterpart {
    /// `path:line`.
    position: String,
    /// Name of the item or module.
    item: String,
}

/// Line of the list.
#[derive(Debug)]
struct Listed<'a> {
    repository: &'a str,
    name: &'a str,
    place: Option<(&'a str, &'a str)>,
}

/// Counterparts by upstream name, as comments give them.
type Comments = BTreeMap<String, Vec<Counterpart>>;

/// Whether these are arguments of the index.
pub fn takes(arguments: &[&str]) -> bool {
    matches!(arguments, [] | ["--check"]) || matches!(arguments, [name] if !name.starts_with('-'))
}

/// Prints the counterpart of a name, or of all names; `["--check"]` only looks whether all resolve.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), UpstreamError> {
    let list = read(&root.join(LIST))?;
    let list = parse(&list)?;
    let mut comments = Comments::new();
    for file in sources(&root.join(CRATES))? {
        let path = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        note_comments(&path, &read(&file)?, &mut comments);
    }
    match arguments {
        ["--check"] => check(root, &list, &comments),
        [name] => {
            let name = name.rsplit('.').next().unwrap_or(name);
            let lines = lines_of(root, name, &list, &comments)?;
            lines.iter().for_each(|line| println!("{line}"));
            if lines.is_empty() { Err(UpstreamError::Unknown(name.to_owned())) } else { Ok(()) }
        }
        _ => {
            for listed in &list {
                for found in resolve(root, listed, &comments)? {
                    println!("{}", line(listed.name, &found, listed.repository));
                }
            }
            Ok(())
        }
    }
}

fn check(root: &Path, list: &[Listed<'_>], comments: &Comments) -> Result<(), UpstreamError> {
    let mut missing = Vec::new();
    for listed in list {
        if resolve(root, listed, comments)?.is_empty() {
            missing.push(format!("{} {}: no counterpart", listed.repository, listed.name));
        }
    }
    let resolved = list.len() - missing.len();
    if !missing.is_empty() || resolved < LEAST {
        return Err(UpstreamError::Failed(missing, resolved));
    }
    println!("{resolved} names of kube-apiserver's source have a counterpart");
    Ok(())
}

fn lines_of(
    root: &Path,
    name: &str,
    list: &[Listed<'_>],
    comments: &Comments,
) -> Result<Vec<String>, UpstreamError> {
    let mut lines = Vec::new();
    for listed in list.iter().filter(|listed| listed.name == name) {
        for found in resolve(root, listed, comments)? {
            lines.push(line(name, &found, listed.repository));
        }
    }
    if lines.is_empty() {
        let found = comments.get(name).into_iter().flatten();
        lines.extend(found.map(|found| line(name, found, "a comment")));
    }
    Ok(lines)
}

fn line(name: &str, found: &Counterpart, repository: &str) -> String {
    format!("{name}\t{}\t{}\t({repository})", found.position, found.item)
}

fn parse(text: &str) -> Result<Vec<Listed<'_>>, UpstreamError> {
    let mut list = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (repository, name, place) = match *words {
            [] => continue,
            [repository, name] => (repository, name, None),
            [repository, name, file, item] => (repository, name, Some((file, item))),
            _ => return Err(UpstreamError::Malformed(number + 1)),
        };
        list.push(Listed { repository, name, place });
    }
    Ok(list)
}

/// Counterparts of a listed name; none if they are gone.
fn resolve(
    root: &Path,
    listed: &Listed<'_>,
    comments: &Comments,
) -> Result<Vec<Counterpart>, UpstreamError> {
    let Some((file, item)) = listed.place else {
        return Ok(comments.get(listed.name).cloned().unwrap_or_default());
    };
    let path = Path::new(CRATES).join(file);
    let text = match fs::read_to_string(root.join(&path)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(UpstreamError::Unreadable(path, error)),
    };
    let declared = text.lines().position(|line| declared(line) == Some(item));
    Ok(declared
        .map(|line| Counterpart {
            position: format!("{}:{}", path.display(), line + 1),
            item: item.to_owned(),
        })
        .into_iter()
        .collect())
}

/// Name that a line declares: of an item, or of a field.
fn declared(line: &str) -> Option<&str> {
    const KEYWORDS: [&str; 8] =
        ["fn", "struct", "enum", "trait", "type", "const", "static", "macro_rules!"];
    let mut words = line.split_whitespace().skip_while(|word| {
        matches!(*word, "pub" | "async" | "pub(crate)" | "pub(super)" | "unsafe" | "mod")
    });
    let first = words.next()?;
    let name = match KEYWORDS.contains(&first) {
        true => words.next()?,
        false if first.ends_with([':', ',']) || line.trim_start().starts_with("pub") => first,
        false => return None,
    };
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some(&name[..end]).filter(|name| !name.is_empty())
}

/// Adds the upstream names of a source's comments.
fn note_comments(path: &str, text: &str, comments: &mut Comments) {
    let lines: Vec<&str> = text.lines().collect();
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let mut at = 0;
    while at < lines.len() {
        let run = lines[at..].iter().take_while(|line| is_comment(line)).count();
        if run > 0 {
            let end = at + run;
            let words = lines[at..end].iter().map(|line| line.trim_start().trim_start_matches('/'));
            let names = names_of(&words.collect::<Vec<_>>().join(" "));
            let found = counterpart(path, &lines, at, end);
            for name in names {
                let places = comments.entry(name).or_default();
                if !places.contains(&found) {
                    places.push(found.clone());
                }
            }
        }
        at += run.max(1);
    }
}

/// Item behind a comment, or the module that an inner comment is about.
fn counterpart(path: &str, lines: &[&str], begin: usize, end: usize) -> Counterpart {
    let behind = lines[end..].iter().position(|line| !line.trim_start().starts_with('#'));
    let item = behind.map(|skipped| end + skipped);
    let name = item.and_then(|item| declared(lines[item]));
    match (lines[begin].trim_start().starts_with("//!"), item, name) {
        (false, Some(item), Some(name)) => {
            Counterpart { position: format!("{path}:{}", item + 1), item: name.to_owned() }
        }
        (false, ..) => {
            Counterpart { position: format!("{path}:{}", begin + 1), item: module(path) }
        }
        _ => Counterpart { position: format!("{path}:{}", begin + 1), item: module(path) },
    }
}

/// Module of a file: its name, or that of its folder for `mod.rs` and `lib.rs`.
fn module(path: &str) -> String {
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    match *parts {
        [.., name, "mod"] | [.., name, "src", "lib" | "main"] => name.to_owned(),
        [.., name] => name.to_owned(),
        [] => String::new(),
    }
}

/// Names in the parentheses of a comment that begin with `upstream:` or with a name as code.
fn names_of(comment: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in comment.match_indices('(') {
        let inside = &comment[at + 1..];
        let inside = &inside[..inside.find([')', '(']).unwrap_or(inside.len())];
        if let Some(inside) = inside.strip_prefix("upstream:").or(inside.strip_prefix('`')) {
            let words = inside.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
            let words = words.filter_map(|word| word.trim_matches('.').rsplit('.').next());
            names.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
        }
    }
    names
}

fn read(path: &Path) -> Result<String, UpstreamError> {
    fs::read_to_string(path).map_err(|error| UpstreamError::Unreadable(path.to_owned(), error))
}

/// Sources below a folder, tests in files of their own excluded, in order.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, UpstreamError> {
    let unreadable = |error| UpstreamError::Unreadable(folder.to_owned(), error);
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        entries.push(entry.map_err(unreadable)?.path());
    }
    entries.sort();
    let mut files = Vec::new();
    for path in entries {
        let is_test = path.ends_with("tests") || path.ends_with("target");
        if path.is_dir() && !is_test {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(String, String, String)> {
        let mut comments = Comments::new();
        note_comments(path, text, &mut comments);
        let line = |(name, places): (&String, &Vec<Counterpart>)| {
            (name.clone(), places[0].position.clone(), places[0].item.clone())
        };
        comments.iter().map(line).collect()
    }

    #[test]
    fn comments_name_the_item_behind_them() {
        let text = "//! The cache (upstream:\n//! Cacher).\n\n/// Creates (`Store.Create`).\n#[must_use]\npub async fn create<T>() {}\n\
                    struct A {\n    /// A field (upstream: `rest.Creater`, `NamedCreater`).\n    pub b: u8,\n}\n";
        let expected = [
            ("Cacher", "a/src/cache/mod.rs:1", "cache"),
            ("Create", "a/src/cache/mod.rs:6", "create"),
            ("Creater", "a/src/cache/mod.rs:9", "b"),
            ("NamedCreater", "a/src/cache/mod.rs:9", "b"),
        ];
        let expected = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
        assert_eq!(found("a/src/cache/mod.rs", text), expected);
    }

    #[test]
    fn lines_of_the_list_have_two_or_four_words() {
        assert_eq!(parse("# x\na B\na B c.rs d\n").unwrap().len(), 2);
        assert!(matches!(parse("a B\na B c"), Err(UpstreamError::Malformed(2))));
    }
}
