//! Prometheus text exposition format.

use std::fmt::Write as _;

/// Text of a scrape.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// The whole text.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Writes the help and type of a family.
    pub fn heading(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes a family of a single value.
    pub fn single(&mut self, name: &str, help: &str, kind: &str, value: f64) {
        self.heading(name, help, kind);
        self.sample(name, "", "", value);
    }

    /// Writes a sample.
    pub fn sample(&mut self, name: &str, suffix: &str, labels: &str, value: f64) {
        kevel_compute::charge(4);
        let value = number(value);
        let _ = match labels {
            "" => writeln!(self.0, "{name}{suffix} {value}"),
            labels => writeln!(self.0, "{name}{suffix}{{{labels}}} {value}"),
        };
    }

    /// Writes a bucket of a histogram.
    pub fn bucket(&mut self, name: &str, labels: &str, bound: f64, count: f64) {
        let comma = if labels.is_empty() { "" } else { "," };
        let labels = format!("{labels}{comma}le=\"{}\"", number(bound));
        self.sample(name, "_bucket", &labels, count);
    }

    /// Labels as written between the braces, sorted by name.
    pub fn labels<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable();
        let pairs = pairs.iter().map(|(name, value)| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            format!("{name}=\"{value}\"")
        });
        pairs.collect::<Vec<_>>().join(",")
    }
}

/// A number as the reference writes it: with an exponent from a million on and below 0.0001.
fn number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..21).contains(&exponent) || exponent >= 6 => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_dashboards_know_them() {
        for (value, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.005, "0.005"),
            (1.25, "1.25"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn labels_are_sorted_and_escaped() {
        let labels = Text::labels([("verb", "GET"), ("group", "a\"\\\n")].into_iter());
        assert_eq!(labels, r#"group="a\"\\\n",verb="GET""#);
    }
}
