//! Parser of the Prometheus text format.

use std::collections::{BTreeMap, BTreeSet};

/// Metric as a scrape shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScrapedFamily {
    /// Type, from the `# TYPE` line.
    pub kind: String,
    /// Stability, from the start of the help text; `-` if it has none.
    pub stability: String,
    /// Label names of all samples, without `le` and `quantile`.
    pub labels: BTreeSet<String>,
    /// Upper bounds of a histogram, as written, without infinity.
    pub buckets: Vec<String>,
    /// Number of samples.
    pub samples: usize,
    /// Whether a sample is not zero.
    pub counted: bool,
}

/// Families of a scrape, by name.
pub fn parse(text: &str) -> BTreeMap<String, ScrapedFamily> {
    let mut families: BTreeMap<String, ScrapedFamily> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            families.entry(name.to_owned()).or_default().stability = stability(help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            current = name.to_owned();
            families.entry(current.clone()).or_default().kind = kind.to_owned();
        } else if let Some(family) = families.get_mut(&current)
            && !line.starts_with('#')
        {
            family.add(line);
        }
    }
    families
}

fn stability(help: &str) -> String {
    let level = help.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    level.map_or("-", |(level, _)| level).to_owned()
}

impl ScrapedFamily {
    fn add(&mut self, line: &str) {
        let Some((series, value)) = line.rsplit_once(' ') else { return };
        self.samples += 1;
        self.counted |= value.parse::<f64>().is_ok_and(|value| value != 0.0);
        let labels = series.split_once('{').map_or("", |(_, labels)| labels);
        for (name, value) in pairs(labels.trim_end_matches('}')) {
            match name {
                "quantile" => {}
                "le" if value == "+Inf" || self.buckets.iter().any(|known| known == value) => {}
                "le" => self.buckets.push(value.to_owned()),
                _ => drop(self.labels.insert(name.to_owned())),
            }
        }
    }
}

/// Names and values of labels. Values may have commas and escaped quotes.
fn pairs(mut text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    while let Some((name, rest)) = text.split_once("=\"") {
        let mut escaped = false;
        let end = rest.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some((value, after)) = end.map(|end| rest.split_at(end)) else { break };
        found.push((name.trim_start_matches(','), value));
        text = &after[1..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_labels_and_buckets() {
        let text = "# HELP a_total [STABLE] x\n# TYPE a_total counter\na_total{code=\"2,\\\"\",verb=\"GET\"} 1\n\
                    # HELP b x\n# TYPE b histogram\nb_bucket{le=\"0.1\"} 0\nb_bucket{le=\"+Inf\"} 0\nb_sum 0\n";
        let families = parse(text);
        let a = &families["a_total"];
        assert_eq!((a.kind.as_str(), a.stability.as_str(), a.counted), ("counter", "STABLE", true));
        assert_eq!(a.labels, BTreeSet::from(["code".to_owned(), "verb".to_owned()]));
        let b = &families["b"];
        assert_eq!((b.stability.as_str(), b.samples, b.counted), ("-", 3, false));
        assert_eq!(b.buckets, ["0.1"]);
    }
}
