//! Comma-separated values (RFC 4180), as strict as the reference's reader.

/// Records of a text, without empty lines.
pub(super) fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut reader = Reader { rest: text, line: 1, column: 1 };
    let mut records = Vec::new();
    while !reader.rest.is_empty() {
        if reader.end_of_line() {
            continue;
        }
        records.push(reader.record()?);
    }
    Ok(records)
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    /// Column in bytes, from 1.
    column: usize,
}

impl Reader<'_> {
    fn record(&mut self) -> Result<Vec<String>, String> {
        let start = self.line;
        let mut fields = Vec::new();
        loop {
            let quoted = self.rest.starts_with('"');
            fields.push(if quoted { self.quoted(start)? } else { self.bare(start)? });
            if self.rest.starts_with(',') {
                self.advance(1);
            } else {
                self.end_of_line();
                return Ok(fields);
            }
        }
    }

    fn bare(&mut self, start: usize) -> Result<String, String> {
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let field = self.rest.get(..end).unwrap_or_default();
        let field = match self.rest.get(end..) {
            Some(rest) if !rest.starts_with(',') => field.strip_suffix('\r').unwrap_or(field),
            _ => field,
        };
        if let Some(at) = field.find('"') {
            return Err(self.error(start, self.column + at, r#"bare " in non-quoted-field"#));
        }
        let (field, length) = (field.to_owned(), field.len());
        self.advance(length);
        Ok(field)
    }

    fn quoted(&mut self, start: usize) -> Result<String, String> {
        let mut field = String::new();
        self.advance(1);
        loop {
            let Some(end) = self.rest.find('"') else {
                let lines = self.rest.matches('\n').count();
                let ended = self.rest.is_empty() || self.rest.ends_with('\n');
                self.line += lines;
                let column = if ended && lines > 0 { 0 } else { self.column + self.rest.len() };
                return Err(self.error(start, column, MISSING_QUOTE));
            };
            let part = self.rest.get(..end).unwrap_or_default().to_owned();
            field.push_str(&part.replace("\r\n", "\n"));
            self.pass(&part);
            self.advance(1);
            match self.rest.bytes().next() {
                Some(b'"') => {
                    field.push('"');
                    self.advance(1);
                }
                None | Some(b',' | b'\n') => return Ok(field),
                Some(b'\r') if self.rest.starts_with("\r\n") => return Ok(field),
                Some(_) => return Err(self.error(start, self.column - 1, MISSING_QUOTE)),
            }
        }
    }

    fn end_of_line(&mut self) -> bool {
        let length = match self.rest {
            rest if rest.starts_with('\n') => 1,
            rest if rest.starts_with("\r\n") => 2,
            _ => return false,
        };
        self.advance(length);
        (self.line, self.column) = (self.line + 1, 1);
        true
    }

    fn pass(&mut self, text: &str) {
        self.advance(text.len());
        if let Some(last) = text.rfind('\n') {
            self.line += text.matches('\n').count();
            self.column = text.len() - last;
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
        self.column += bytes;
    }

    fn error(&self, start: usize, column: usize, problem: &str) -> String {
        let at = format!("parse error on line {}, column {column}: {problem}", self.line);
        if start == self.line { at } else { format!("record on line {start}; {at}") }
    }
}

const MISSING_QUOTE: &str = r#"extraneous or missing " in quoted-field"#;
