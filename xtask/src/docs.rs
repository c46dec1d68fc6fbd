//! Links of the documentation: every relative link leads to a file and a heading that exist, and the book of `docs/` is
//! whole, that is, each page is in its `SUMMARY.md` and none leads out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Folder of the book's pages.
const BOOK: &str = "docs";
/// The book's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Reason that the documentation is not as it should be, or cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum DocsError {
    /// A file cannot be read.
    #[error("{}: {_1}", _0.display())]
    File(PathBuf, io::Error),
    /// Git does not list the files.
    #[error("git ls-files: {0}")]
    Git(String),
    /// Links that lead nowhere, and pages without a place.
    #[error("{}\n{} links or pages are wrong", _0.join("\n"), _0.len())]
    Faults(Vec<String>),
}

/// A page: its links with their lines, and its anchors.
#[derive(Debug, Default)]
struct MarkdownPage {
    links: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
}

/// Checks all Markdown files of a clone, but those that git ignores.
pub fn run(root: &Path) -> Result<(), DocsError> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]);
    let output = git.output().map_err(|error| DocsError::Git(error.to_string()))?;
    if !output.status.success() {
        return Err(DocsError::Git(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let mut pages = BTreeMap::new();
    for name in String::from_utf8_lossy(&output.stdout).lines() {
        let path = root.join(name);
        // A file that is deleted and not committed yet is still listed.
        if path.exists() {
            let text = fs::read_to_string(&path).map_err(|error| DocsError::File(path, error))?;
            pages.insert(PathBuf::from(name), read(&text));
        }
    }
    let faults = faults(&pages, &|path| root.join(path).exists());
    if !faults.is_empty() {
        return Err(DocsError::Faults(faults));
    }
    let links: usize = pages.values().map(|page| page.links.len()).sum();
    println!("{} pages, {links} links: 0 problems", pages.len());
    Ok(())
}

fn read(text: &str) -> MarkdownPage {
    let mut page = MarkdownPage::default();
    let mut heading: Option<String> = None;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let line = text[..range.start].matches('\n').count() + 1;
                page.links.push((line, dest_url.into_string()));
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                let again = (1..).map(|number| format!("{anchor}-{number}"));
                let mut names = std::iter::once(anchor.clone()).chain(again);
                page.anchors.extend(names.find(|name| !page.anchors.contains(name)));
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    page
}

/// Anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    };
    heading.trim().to_lowercase().chars().filter_map(kept).collect()
}

fn faults(pages: &BTreeMap<PathBuf, MarkdownPage>, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    let mut contents = BTreeSet::new();
    for (path, page) in pages {
        for (line, link) in page.links.iter().filter(|(_, link)| !is_url(link)) {
            let mut fault = |why: &str| {
                faults.push(format!("{}:{line}: {link}: {why}", path.display()));
            };
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let folder = path.parent().unwrap_or(Path::new(""));
            let target = if file.is_empty() { path.clone() } else { resolved(&folder.join(file)) };
            if path.starts_with(BOOK) && !target.starts_with(BOOK) {
                fault("leads out of the book");
            } else if !exists(&target) {
                fault("there is no such file");
            } else if !fragment.is_empty()
                && pages.get(&target).is_some_and(|page| !page.anchors.contains(fragment))
            {
                fault("there is no such heading");
            }
            if path == Path::new(SUMMARY) {
                contents.insert(target);
            }
        }
    }
    let summary = Path::new(SUMMARY);
    let in_book = pages.keys().filter(|path| path.starts_with(BOOK) && *path != summary);
    let missing = in_book.filter(|path| !contents.contains(*path));
    faults.extend(missing.map(|path| format!("{}: not in {SUMMARY}", path.display())));
    faults
}

/// Whether a link has a scheme, and so leads away.
fn is_url(link: &str) -> bool {
    let scheme = link.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// A path without `.` and `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if resolved.pop() => {}
            other => resolved.push(other),
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pages: &[(&str, &str)]) -> Vec<String> {
        let pages = pages.iter().map(|(path, text)| (PathBuf::from(path), read(text))).collect();
        faults(&pages, &|path| pages.contains_key(path) || path == Path::new("docs/a.svg"))
    }

    #[test]
    fn links_and_headings_that_exist_are_accepted() {
        let page = "# A `b` c!\n# A b c\n[1](#a-b-c) [2](a.md#a-b-c-1) ![3](a.svg) [4](https://x/#y)\n\
                    `[5](none)`\n\n```sh\n# No heading\n[6](none)\n```\n| [7](./a.md) |\n";
        let summary = "- [a](a.md)";
        assert_eq!(found(&[("docs/a.md", page), (SUMMARY, summary)]), [""; 0]);
        assert_eq!(
            found(&[
                ("x/y.md", "[1](../docs/a.md#top)"),
                ("docs/a.md", "# Top"),
                (SUMMARY, summary)
            ]),
            [""; 0]
        );
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        let page = "# A\n\n[1](none.md)\n[2](#b)\n\n```\n# B\n```\n[3](../README.md)\n[4][r]\n\n[r]: a.md#c\n";
        let faults = found(&[("README.md", ""), ("docs/a.md", page), (SUMMARY, "")]);
        let expected = [
            "docs/a.md:3: none.md: there is no such file",
            "docs/a.md:4: #b: there is no such heading",
            "docs/a.md:9: ../README.md: leads out of the book",
            "docs/a.md:10: a.md#c: there is no such heading",
            "docs/a.md: not in docs/SUMMARY.md",
        ];
        assert_eq!(faults, expected);
    }
}
