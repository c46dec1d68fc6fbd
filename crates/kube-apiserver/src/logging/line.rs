//! Text of one log message.

use kevel_api::json_string::write_json_string;
use kevel_api::quote::quote;
use kevel_api::time::MicroTime;
use kevel_clock::Clock;
use std::fmt::{self, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// The look of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// `I1115 21:36:01.123456   12345 file.rs:42] "message" key="value"`
    Text,
    /// `{"ts":1763242561123.456,"caller":"src/file.rs:42","msg":"message","v":0,"key":"value"}`
    Json,
}

/// Fields of one log message.
pub(super) struct Line {
    time: MicroTime,
    process: u32,
    level: Level,
    verbosity: u32,
    file: &'static str,
    number: u32,
    message: String,
    fields: Vec<(&'static str, Value)>,
}

/// A value beside the message.
enum Value {
    /// Printed in quotes.
    Text(String),
    /// Printed as it is: a number or a boolean.
    Plain(String),
}

impl Line {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let mut line = Line {
            // The log is that of the process, not of one of its servers.
            time: MicroTime::now(&Clock::system()),
            process: std::process::id(),
            level: *metadata.level(),
            verbosity: super::needed(metadata),
            file: metadata.file().unwrap_or("???"),
            number: metadata.line().unwrap_or(1),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut line);
        line
    }

    pub(super) fn print(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Text => self.text(),
            Format::Json => self.json(),
        }
    }

    /// A message with values stands in quotes, one without does not: so it does in the reference.
    fn text(&self) -> Vec<u8> {
        let letter = match self.level {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        };
        let file = self.file.rsplit('/').next().unwrap_or(self.file);
        let time = self.time.to_string();
        // Of `2006-01-02T15:04:05.000000Z`, all but the year and the zone.
        let (month, day) = (part(&time, 5, 7), part(&time, 8, 10));
        let clock = part(&time, 11, 26);
        let process = self.process;
        let mut out = format!("{letter}{month}{day} {clock} {process:>7} {file}:{}] ", self.number);
        if self.fields.is_empty() {
            out.push_str(self.message.trim_end_matches('\n'));
        } else {
            out.push_str(&quote(&self.message));
        }
        for (key, value) in &self.fields {
            out.push_str(&format!(" {key}="));
            match value {
                Value::Plain(text) => out.push_str(text),
                Value::Text(text) if text.contains('\n') => push_block(&mut out, text),
                Value::Text(text) => out.push_str(&quote(text)),
            }
        }
        out.push('\n');
        out.into_bytes()
    }

    fn json(&self) -> Vec<u8> {
        let micros = i128::from(self.time.seconds) * 1_000_000 + i128::from(self.time.nanos / 1000);
        let mut parts = self.file.rsplitn(3, '/');
        let (file, folder) = (parts.next().unwrap_or_default(), parts.next());
        let folder = folder.map_or(String::new(), |folder| format!("{folder}/"));
        let mut out = format!("{{\"ts\":{}", micros / 1000).into_bytes();
        if micros % 1000 != 0 {
            let fraction = format!(".{:03}", micros % 1000);
            out.extend(fraction.trim_end_matches('0').bytes());
        }
        push_member(&mut out, "caller", &format!("{folder}{file}:{}", self.number));
        push_member(&mut out, "msg", &self.message);
        if self.level != Level::ERROR {
            out.extend(format!(",\"v\":{}", self.verbosity).bytes());
        }
        for (key, value) in &self.fields {
            match value {
                Value::Text(text) => push_member(&mut out, key, text),
                Value::Plain(text) => {
                    out.push(b',');
                    write_json_string(&mut out, key);
                    out.push(b':');
                    out.extend(text.bytes());
                }
            }
        }
        out.extend(b"}\n");
        out
    }

    fn add(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::Text(text) | Value::Plain(text)) => self.message = text,
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        if write!(text, "{value:?}").is_err() {
            text.push_str("<cannot be printed>");
        }
        self.add(field, Value::Text(text));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, Value::Text(value.to_owned()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::Plain(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::Plain(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::Plain(value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        let text = value.to_string();
        let plain = value.is_finite();
        self.add(field, if plain { Value::Plain(text) } else { Value::Text(text) });
    }
}

fn part(text: &str, from: usize, to: usize) -> &str {
    text.get(from..to).unwrap_or_default()
}

fn push_member(out: &mut Vec<u8>, key: &str, value: &str) {
    out.push(b',');
    write_json_string(out, key);
    out.push(b':');
    write_json_string(out, value);
}

/// Several lines stand below each other, between `<` and `>`.
fn push_block(out: &mut String, text: &str) {
    out.push_str("<\n");
    for line in text.lines() {
        out.push_str(&format!("\t{line}\n"));
    }
    out.push_str(" >");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(level: Level, fields: Vec<(&'static str, Value)>) -> Line {
        Line {
            time: MicroTime { seconds: 1_763_242_561, nanos: 123_450_000 },
            process: 12345,
            level,
            verbosity: 0,
            file: "crates/server/src/chain.rs",
            number: 42,
            message: "the \"message\"".to_owned(),
            fields,
        }
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn text_and_json() {
        let plain = || line(Level::INFO, vec![]);
        let fields = || {
            let count = ("count", Value::Plain("3".to_owned()));
            line(Level::ERROR, vec![("err", text("no\tway")), count, ("body", text("a\nb"))])
        };
        for (line, format, expected) in [
            (plain(), Format::Text, "I1115 21:36:01.123450   12345 chain.rs:42] the \"message\"\n"),
            (
                fields(),
                Format::Text,
                "E1115 21:36:01.123450   12345 chain.rs:42] \"the \\\"message\\\"\" err=\"no\\tway\" \
                 count=3 body=<\n\ta\n\tb\n >\n",
            ),
            (
                plain(),
                Format::Json,
                "{\"ts\":1763242561123.45,\"caller\":\"src/chain.rs:42\",\"msg\":\"the \
                 \\\"message\\\"\",\"v\":0}\n",
            ),
            (
                fields(),
                Format::Json,
                "{\"ts\":1763242561123.45,\"caller\":\"src/chain.rs:42\",\"msg\":\"the \
                 \\\"message\\\"\",\"err\":\"no\\tway\",\"count\":3,\"body\":\"a\\nb\"}\n",
            ),
        ] {
            assert_eq!(String::from_utf8(line.print(format)).unwrap(), expected);
        }
    }
}
