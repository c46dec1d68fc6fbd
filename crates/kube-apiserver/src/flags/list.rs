//! Lists: comma-separated, repeated, or both.

use super::number::parse_int;
use super::{Value, ValueType};
use std::ops::{Deref, DerefMut};

/// A list of texts, separated by commas; a text with a comma stands in double quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings(pub Vec<String>);

/// A list of texts, one each time that the flag is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringArray(pub Vec<String>);

/// A list of whole numbers, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Int32Slice(pub Vec<i32>);

macro_rules! is_a_list {
    ($($type:ty: $item:ty),*) => {$(
        impl Deref for $type {
            type Target = Vec<$item>;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl DerefMut for $type {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }
    )*};
}
is_a_list!(Strings: String, StringArray: String, Int32Slice: i32);

impl Value for Strings {
    fn value_type(&self) -> ValueType {
        ValueType::new("strings", "[]")
    }

    fn set(&mut self, text: &str, repeated: bool) -> Result<(), String> {
        extend(&mut self.0, read_csv(text)?, repeated);
        Ok(())
    }

    fn text(&self) -> String {
        format!("[{}]", write_csv(&self.0))
    }
}

impl Value for StringArray {
    fn value_type(&self) -> ValueType {
        ValueType::new("stringArray", "[]")
    }

    fn set(&mut self, text: &str, repeated: bool) -> Result<(), String> {
        extend(&mut self.0, vec![text.to_owned()], repeated);
        Ok(())
    }

    fn text(&self) -> String {
        format!("[{}]", write_csv(&self.0))
    }
}

impl Value for Int32Slice {
    /// Type of the flag: its help shows `[]` as the default, as the reference's.
    fn value_type(&self) -> ValueType {
        ValueType::new("int32Slice", "")
    }

    fn set(&mut self, text: &str, repeated: bool) -> Result<(), String> {
        let numbers = text.split(',').map(|number| Ok(parse_int(number, 32)? as i32));
        extend(&mut self.0, numbers.collect::<Result<_, String>>()?, repeated);
        Ok(())
    }

    fn text(&self) -> String {
        let numbers: Vec<String> = self.0.iter().map(i32::to_string).collect();
        format!("[{}]", numbers.join(","))
    }
}

/// The first values replace the default; more of them join it.
fn extend<T>(list: &mut Vec<T>, items: Vec<T>, repeated: bool) {
    if repeated {
        list.extend(items);
    } else {
        *list = items;
    }
}

/// Reads the first line as comma-separated fields (RFC 4180). No text is no field.
pub(super) fn read_csv(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let record = text.trim_start_matches(['\n', '\r']);
    if record.is_empty() {
        return Err("EOF".to_owned());
    }
    let mut reader = CsvReader { text: record, at: 0 };
    let mut fields = Vec::new();
    loop {
        fields.push(reader.field()?);
        match reader.text.as_bytes().get(reader.at) {
            Some(b',') => reader.at += 1,
            _ => return Ok(fields),
        }
    }
}

struct CsvReader<'a> {
    text: &'a str,
    at: usize,
}

impl CsvReader<'_> {
    /// Reads one field, up to the comma or the end of the line.
    fn field(&mut self) -> Result<String, String> {
        let rest = &self.text[self.at..];
        if let Some(quoted) = rest.strip_prefix('"') {
            self.at += 1;
            return self.quoted(quoted);
        }
        let end = rest.find([',', '\n']).unwrap_or(rest.len());
        let field = rest[..end].trim_end_matches('\r');
        if let Some(quote) = field.find('"') {
            return Err(self.problem(self.at + quote, "bare \" in non-quoted-field"));
        }
        self.at += end;
        Ok(field.to_owned())
    }

    /// Reads a quoted value behind its opening quote. Two quotes stand for one.
    fn quoted(&mut self, mut rest: &str) -> Result<String, String> {
        const PROBLEM: &str = "extraneous or missing \" in quoted-field";
        let mut field = String::new();
        loop {
            let Some(end) = rest.find('"') else {
                return Err(self.problem(self.at + rest.len(), PROBLEM));
            };
            field.push_str(&rest[..end]);
            self.at += end + 1;
            rest = &rest[end + 1..];
            match rest.as_bytes().first() {
                Some(b'"') => {
                    field.push('"');
                    self.at += 1;
                    rest = &rest[1..];
                }
                None | Some(b',' | b'\n') => return Ok(field),
                Some(_) => return Err(self.problem(self.at - 1, PROBLEM)),
            }
        }
    }

    fn problem(&self, at: usize, what: &str) -> String {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = at - before.rfind('\n').map_or(0, |newline| newline + 1) + 1;
        format!("parse error on line {line}, column {column}: {what}")
    }
}

/// Writes fields with commas between them, in quotes where that is needed to read them back.
pub(super) fn write_csv<S: AsRef<str>>(fields: &[S]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|field| match field.as_ref() {
            field
                if field.contains([',', '"', '\r', '\n'])
                    || field.starts_with(char::is_whitespace)
                    || field == "\\." =>
            {
                format!("\"{}\"", field.replace('"', "\"\""))
            }
            field => field.to_owned(),
        })
        .collect();
    fields.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_texts() {
        for (text, fields) in [
            ("", &[][..]),
            ("a", &["a"]),
            ("a,b", &["a", "b"]),
            ("a,", &["a", ""]),
            (",", &["", ""]),
            ("a, b", &["a", " b"]),
            ("\"a,b\",c", &["a,b", "c"]),
            ("\"say \"\"hi\"\"\"", &["say \"hi\""]),
            ("a\nb", &["a"]),
            ("\"a\nb\",c", &["a\nb", "c"]),
        ] {
            assert_eq!(read_csv(text).unwrap(), fields, "{text}");
        }
    }

    #[test]
    fn what_is_no_list() {
        const BARE: &str = "bare \" in non-quoted-field";
        const QUOTED: &str = "extraneous or missing \" in quoted-field";
        for (text, column, problem) in
            [("a\"b", 2, BARE), ("x,a\"b", 4, BARE), ("\"a", 3, QUOTED), ("\"a\"b", 3, QUOTED)]
        {
            let message = format!("parse error on line 1, column {column}: {problem}");
            assert_eq!(read_csv(text), Err(message), "{text}");
        }
        assert_eq!(read_csv("\n"), Err("EOF".to_owned()));
    }

    #[test]
    fn lists_replace_their_default_and_then_grow() {
        let mut list = Strings(vec!["default".to_owned()]);
        list.set("a,b", false).unwrap();
        list.set("c d,\"e,f\"", true).unwrap();
        assert_eq!(list.text(), "[a,b,c d,\"e,f\"]");
        let mut array = StringArray::default();
        array.set("a,b", false).unwrap();
        array.set("c", true).unwrap();
        assert_eq!(array.0, ["a,b", "c"]);
    }
}
