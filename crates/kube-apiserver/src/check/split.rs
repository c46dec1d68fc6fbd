//! InputDocuments of a file: YAML between lines of `---`, JSON values one after another.

use std::ops::Range;

/// A document in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentPart {
    /// Bytes of the file.
    pub bytes: Range<usize>,
    /// Line at which the bytes begin, counted from 1.
    pub line: usize,
    /// Whether it is JSON.
    pub json: bool,
}

/// The byte order mark of UTF-8, which some editors write.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Splits a file. InputDocuments without content are left out.
pub fn split(file: &[u8]) -> Vec<DocumentPart> {
    json_values(file).unwrap_or_else(|| yaml_documents(file))
}

/// The objects of a file that consists of JSON objects; `None` if it does not.
fn json_values(file: &[u8]) -> Option<Vec<DocumentPart>> {
    let (mut parts, mut at, mut line) = (Vec::new(), skip_mark(file), 1);
    while let Some(byte) = file.get(at) {
        match byte {
            b'{' => {
                let end = at + object_length(file.get(at..)?)?;
                parts.push(DocumentPart { bytes: at..end, line, json: true });
                line += lines(file.get(at..end)?);
                at = end;
            }
            b' ' | b'\t' | b'\r' | b'\n' => {
                line += usize::from(*byte == b'\n');
                at += 1;
            }
            _ => return None,
        }
    }
    (!parts.is_empty()).then_some(parts)
}

/// Length of a JSON object, by its braces and strings; `None` if it does not end.
fn object_length(text: &[u8]) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            // A brace without quotes around the keys is YAML.
            b'#' if !in_string => return None,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn yaml_documents(file: &[u8]) -> Vec<DocumentPart> {
    let (mut parts, mut line) = (Vec::new(), 1);
    let mut part = DocumentPart { bytes: skip_mark(file)..file.len(), line: 1, json: false };
    let mut at = part.bytes.start;
    for text in file.get(at..).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
        let (start, end) = (at, at + text.len());
        if is_separator(text) {
            let next = DocumentPart { bytes: end..file.len(), line: line + 1, json: false };
            let done = std::mem::replace(&mut part, next);
            parts.push(DocumentPart { bytes: done.bytes.start..start, ..done });
        }
        at = end;
        line += 1;
    }
    parts.push(part);
    parts.retain(|part| file.get(part.bytes.clone()).is_some_and(has_content));
    parts
}

/// Whether a line separates documents: `---`, with a comment at most. After another marker the document may begin.
fn is_separator(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"---") else { return false };
    let rest = rest.trim_ascii();
    rest.is_empty() || rest.starts_with(b"#")
}

/// Whether there is more than comments, blank lines and directives of Helm's `# Source:` kind.
fn has_content(document: &[u8]) -> bool {
    document.split(|byte| *byte == b'\n').any(is_content)
}

fn is_content(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    !line.is_empty() && !line.starts_with(b"#") && line != b"..."
}

/// Number of lines before the content of a document.
pub fn leading_lines(document: &[u8]) -> usize {
    document.split(|byte| *byte == b'\n').take_while(|line| !is_content(line)).count()
}

fn skip_mark(file: &[u8]) -> usize {
    if file.starts_with(MARK) { MARK.len() } else { 0 }
}

fn lines(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(file: &str) -> Vec<(String, usize, bool)> {
        let text = |part: DocumentPart| (file[part.bytes].to_owned(), part.line, part.json);
        split(file.as_bytes()).into_iter().map(text).collect()
    }

    #[test]
    fn yaml_is_split_at_separators() {
        let file =
            "# c\n---\na: 1\n--- # next\n# only a comment\n---\nb: |\n  ---\n  -----BEGIN\n---\n";
        let expected =
            [("a: 1\n".to_owned(), 3, false), ("b: |\n  ---\n  -----BEGIN\n".to_owned(), 7, false)];
        assert_eq!(texts(file), expected);
        assert_eq!(
            texts("\u{feff}a: 1\r\n---\r\nb: 2"),
            [("a: 1\r\n".to_owned(), 1, false), ("b: 2".to_owned(), 3, false),]
        );
        assert_eq!(texts("# nothing\n---\n\n"), []);
        assert_eq!(texts("--- {a: 1}\n"), [("--- {a: 1}\n".to_owned(), 1, false)]);
    }

    #[test]
    fn json_is_split_after_each_object() {
        let file = "{\"a\": \"}\\\"{\"}\n\n{\"b\": {}} {}";
        let expected = [("{\"a\": \"}\\\"{\"}", 1), ("{\"b\": {}}", 3), ("{}", 3)];
        assert_eq!(texts(file), expected.map(|(text, line)| (text.to_owned(), line, true)));
        assert_eq!(texts("{a: 1}\n---\n{b: 2}\n").len(), 2);
        assert_eq!(texts("{\"a\": 1").len(), 1);
    }
}
