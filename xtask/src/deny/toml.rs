//! As much of TOML as `deny.toml` and advisories have: tables, strings, lists, inline tables, words.

use serde_json::{Map, Value};

/// Reads a document. Words that are no strings (numbers, dates) are read as strings.
pub fn read(text: &str) -> Result<Value, String> {
    let mut reader = Reader { rest: text };
    let mut root = Map::new();
    let mut table: Vec<String> = Vec::new();
    loop {
        reader.skip_blank();
        if reader.rest.is_empty() {
            return Ok(Value::Object(root));
        }
        if reader.eat('[') {
            table = reader.path()?;
            reader.expect(']')?;
            continue;
        }
        let path = [table.clone(), reader.path()?].concat();
        reader.expect('=')?;
        let value = reader.value()?;
        put(&mut root, &path, value)?;
    }
}

fn put(root: &mut Map<String, Value>, path: &[String], value: Value) -> Result<(), String> {
    let (last, parents) = path.split_last().ok_or("a value without a name")?;
    let mut at = root;
    for parent in parents {
        let inner = at.entry(parent.clone()).or_insert_with(|| Value::Object(Map::new()));
        at = inner.as_object_mut().ok_or_else(|| format!("{parent} is no table"))?;
    }
    at.insert(last.clone(), value);
    Ok(())
}

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    /// Skips space, ends of lines and comments.
    fn skip_blank(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.strip_prefix('#') {
                Some(comment) => self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest),
                None => return,
            }
        }
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.skip_blank();
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.eat(wanted) {
            true => Ok(()),
            false => Err(format!("expected {wanted:?} before {:?}", self.ahead())),
        }
    }

    fn ahead(&self) -> String {
        self.rest.chars().take(20).collect()
    }

    /// `a.b."c d"`
    fn path(&mut self) -> Result<Vec<String>, String> {
        let mut path = vec![self.word()?];
        while self.eat('.') {
            path.push(self.word()?);
        }
        Ok(path)
    }

    fn value(&mut self) -> Result<Value, String> {
        if self.eat('[') {
            let mut list = Vec::new();
            while !self.eat(']') {
                list.push(self.value()?);
                if !self.eat(',') {
                    self.expect(']')?;
                    break;
                }
            }
            return Ok(Value::Array(list));
        }
        if self.eat('{') {
            let mut table = Map::new();
            while !self.eat('}') {
                let path = self.path()?;
                self.expect('=')?;
                let value = self.value()?;
                put(&mut table, &path, value)?;
                if !self.eat(',') {
                    self.expect('}')?;
                    break;
                }
            }
            return Ok(Value::Object(table));
        }
        let is_text = self.rest.trim_start().starts_with(['"', '\'']);
        let word = self.word()?;
        Ok(match word.as_str() {
            "true" if !is_text => Value::Bool(true),
            "false" if !is_text => Value::Bool(false),
            _ => Value::String(word),
        })
    }

    /// A string, or letters, digits and what dates and numbers have.
    fn word(&mut self) -> Result<String, String> {
        self.skip_blank();
        for (fence, escapes) in [("\"\"\"", true), ("\"", true), ("'", false)] {
            if let Some(inside) = self.rest.strip_prefix(fence) {
                return self.string(inside, fence, escapes);
            }
        }
        let end =
            self.rest.find(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | ':' | '+'));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        match word.is_empty() {
            true => Err(format!("expected a word before {:?}", self.ahead())),
            false => Ok(word.to_owned()),
        }
    }

    fn string(&mut self, inside: &'t str, fence: &str, escapes: bool) -> Result<String, String> {
        let mut text = String::new();
        let mut rest = inside;
        loop {
            if let Some(after) = rest.strip_prefix(fence) {
                self.rest = after;
                return Ok(text);
            }
            let mut chars = rest.chars();
            match chars.next().ok_or("a string without an end")? {
                '\\' if escapes => match chars.next().ok_or("a string without an end")? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    other => text.push(other),
                },
                other => text.push(other),
            }
            rest = chars.as_str();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use serde_json::json;

    #[test]
    fn documents_are_read() {
        let text = r#"
            top = "a # no comment" # one
            [a]
            list = ["x", 'y', # and
                "z\"\\"]
            date = 2024-01-01
            flag = true
            tables = [{ crate = "c@1", reason = "r" }, {}]
            [b.c]
            "d::e" = ["< 1"]
            f.g = """two
lines"""
        "#;
        let expected = json!({
            "top": "a # no comment",
            "a": {"list": ["x", "y", "z\"\\"], "date": "2024-01-01", "flag": true,
                  "tables": [{"crate": "c@1", "reason": "r"}, {}]},
            "b": {"c": {"d::e": ["< 1"], "f": {"g": "two\nlines"}}},
        });
        assert_eq!(read(text), Ok(expected));
        for text in ["a", "a =", "[a", "a = [1", "a = \"b", "a = 1\na.b = 2"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
