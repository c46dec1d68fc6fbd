//! The ratchet of plain English (see "Style" in CONTRIBUTING.md).

use std::collections::{BTreeMap, BTreeSet};

use super::items::items;
use super::source::{Crate, Source};
use super::{Hit, Hits};

/// First words of a doc comment that asks a question instead of naming its subject.
const QUESTIONS: [&str; 11] =
    ["What", "Who", "Whom", "Whose", "Whoever", "How", "Where", "When", "Why", "Which", "Those"];
/// Words for software that make a reader guess which part is meant.
const PRONOUNS: [&str; 6] = ["whom", "whoever", "somebody", "nobody", "those who", "anew"];
/// A longer name of a test is a sentence.
const MOST_WORDS_OF_A_TEST: usize = 10;
/// Every module may have an `Error` and its `Result`.
const MANY_MEANINGS: [&str; 2] = ["Error", "Result"];

/// `doc-question`: doc comments (runs of `///` or `//!`) that begin with a question word.
/// `pronoun-comment`: comment lines with one of [`PRONOUNS`]. `pronoun-code`: other lines with one, in names and texts.
/// `type-name`: types at module level, tests excluded, whose name a second file of the workspace declares too.
/// `test-name`: tests with a name of more than ten words.
pub fn measure(crates: &[Crate]) -> Hits {
    let mut hits = Hits::default();
    let shared = shared_type_names(crates);
    for (owner, source) in sources(crates) {
        for comment in doc_comments(&source.text).iter().filter(|comment| comment.asks()) {
            hits.add(owner, "doc-question", hit(source, comment.line));
        }
        for (number, line) in source.text.lines().enumerate().filter(|(_, line)| has_pronoun(line))
        {
            let comment = line.trim_start().starts_with("//");
            let measure = if comment { "pronoun-comment" } else { "pronoun-code" };
            hits.add(owner, measure, hit(source, number + 1));
        }
        for (offset, name) in type_names(source).filter(|(_, name)| shared.contains(name)) {
            hits.add(
                owner,
                "type-name",
                Hit { position: source.position(offset), text: name.to_owned() },
            );
        }
        for (offset, name) in test_names(&source.code) {
            if name.split('_').count() > MOST_WORDS_OF_A_TEST {
                hits.add(
                    owner,
                    "test-name",
                    Hit { position: source.position(offset), text: name.to_owned() },
                );
            }
        }
    }
    hits
}

/// The share of doc comments that begin with a question word, for the table.
pub fn share(crates: &[Crate]) -> String {
    let comments: Vec<DocComment> =
        sources(crates).flat_map(|(_, source)| doc_comments(&source.text)).collect();
    let asking = comments.iter().filter(|comment| comment.asks()).count();
    let percent = asking as f64 * 100.0 / comments.len().max(1) as f64;
    format!(
        "{asking} of {} doc comments begin with a question word: {percent:.1} %",
        comments.len()
    )
}

fn sources(crates: &[Crate]) -> impl Iterator<Item = (&str, &Source)> {
    crates.iter().flat_map(|owner| owner.sources.iter().map(|source| (owner.name.as_str(), source)))
}

fn hit(source: &Source, line: usize) -> Hit {
    let text = source.text.lines().nth(line - 1).unwrap_or_default().trim();
    Hit { position: format!("{}:{line}", source.path), text: text.to_owned() }
}

struct DocComment<'a> {
    line: usize,
    first_line: &'a str,
}

impl DocComment<'_> {
    fn asks(&self) -> bool {
        let end =
            self.first_line.find(|c: char| !c.is_alphanumeric()).unwrap_or(self.first_line.len());
        QUESTIONS.contains(&&self.first_line[..end])
    }
}

fn doc_comments(text: &str) -> Vec<DocComment<'_>> {
    let (mut comments, mut before) = (Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let mark = ["///", "//!"].into_iter().find(|mark| line.starts_with(mark));
        let mark = mark.filter(|_| !line.starts_with("////"));
        if let Some(mark) = mark.filter(|_| before != mark) {
            comments.push(DocComment { line: number + 1, first_line: line[mark.len()..].trim() });
        }
        before = mark;
    }
    comments
}

/// Whole words; an underscore separates words of a name.
fn has_pronoun(line: &str) -> bool {
    let line = line.to_ascii_lowercase().replace('_', " ");
    PRONOUNS.iter().any(|word| {
        line.match_indices(word).any(|(at, _)| {
            let letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphabetic);
            let before = at.checked_sub(1).and_then(|at| line.as_bytes().get(at));
            !letter(before) && !letter(line.as_bytes().get(at + word.len()))
        })
    })
}

fn type_names(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let types = ["struct", "enum", "trait", "union", "type"];
    let items = items(&source.production).into_iter();
    items.filter(move |item| types.contains(&item.keyword)).map(|item| (item.offset, item.name))
}

fn shared_type_names(crates: &[Crate]) -> BTreeSet<&str> {
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (_, source) in sources(crates) {
        for (_, name) in type_names(source) {
            files.entry(name).or_default().insert(&source.path);
        }
    }
    let several =
        files.iter().filter(|(name, files)| files.len() > 1 && !MANY_MEANINGS.contains(name));
    several.map(|(name, _)| *name).collect()
}

/// Names of functions after `#[test]`, `#[tokio::test]` or `#[tokio::test(…)]`.
fn test_names(code: &str) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices("test") {
        let head = code[..at].rsplit(char::is_whitespace).next().unwrap_or_default();
        let after = code.as_bytes().get(at + "test".len());
        if !matches!(head, "#[" | "#[tokio::") || !matches!(after, Some(b']' | b'(')) {
            continue;
        }
        let Some(begin) = code[at..].find("fn ").map(|found| at + found + "fn ".len()) else {
            continue;
        };
        let end = code[begin..].find(['(', '<']).map_or(code.len(), |found| begin + found);
        names.push((begin, &code[begin..end]));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(texts: &[&str]) -> BTreeMap<String, usize> {
        let source = |(number, text): (usize, &&str)| {
            let name = format!("m{number}.rs");
            Source::new(&name, text, Some(&name))
        };
        let sources = texts.iter().enumerate().map(source).collect();
        let hits = measure(&[Crate { name: "a".to_owned(), sources }]);
        hits.counts().into_iter().map(|((_, measure), count)| (measure, count)).collect()
    }

    fn count(texts: &[&str], measure: &str) -> usize {
        counts(texts).get(measure).copied().unwrap_or(0)
    }

    #[test]
    fn doc_comments_with_question_words_are_counted_once_each() {
        let text = "//! What it is.\n\n/// Who asks.\n/// Whom it asks.\nfn a() {}\n/// Whatever.\n// Why not.\n";
        assert_eq!(count(&[text], "doc-question"), 2);
    }

    #[test]
    fn pronouns_are_counted_as_whole_words() {
        let text = "// Nobody is here, and whom.\nfn asked_by_whom() {}\n// renews, thoseX who\n\"those who\"\n";
        assert_eq!(count(&[text], "pronoun-comment"), 1);
        assert_eq!(count(&[text], "pronoun-code"), 2);
    }

    #[test]
    fn type_names_of_several_files_are_counted() {
        let texts = [
            "struct Place;\nenum Error {}\nimpl T { type Once = u8; }",
            "trait Place {}\nenum Error {}\nstruct Once;",
        ];
        assert_eq!(count(&texts, "type-name"), 2);
        let tests = ["struct Place;", "#[cfg(test)]\nmod tests { struct Place; }"];
        assert_eq!(count(&tests, "type-name"), 0);
    }

    #[test]
    fn long_test_names_are_counted() {
        let text = "#[test]\nfn a_b_c_d_e_f_g_h_i_j_k() {}\n#[tokio::test(flavor = \"x\")]\nasync fn a_b() {}\nfn a_b_c_d_e_f_g_h_i_j_k_l() {}";
        assert_eq!(count(&[text], "test-name"), 1);
    }
}
