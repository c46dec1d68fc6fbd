//! Requirements of a large selector, merged by label, so that its evaluation takes no more steps than there are labels
//! in the object or in the selector, whichever are fewer.

use compact_str::CompactString;

use super::{Operator, Requirement, parse_integer};
use crate::value::{Map, Value};

/// The labels of an object (upstream: `labels.Labels`).
pub trait LabelSet {
    /// The value of a label.
    fn get(&self, key: &str) -> Option<&str>;

    /// Number of labels.
    fn count(&self) -> usize;

    /// Whether a predicate holds for all labels, each a key and a value.
    fn all(&self, holds: impl FnMut(&str, &str) -> bool) -> bool;
}

impl LabelSet for Map {
    fn get(&self, key: &str) -> Option<&str> {
        Map::get(self, key)?.as_str()
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn all(&self, mut holds: impl FnMut(&str, &str) -> bool) -> bool {
        let mut labels = self.iter().filter_map(|(key, value)| Some((key, value.as_str()?)));
        labels.all(|(key, value)| holds(key, value))
    }
}

/// Labels that may be absent.
impl LabelSet for Option<&Map> {
    fn get(&self, key: &str) -> Option<&str> {
        (*self)?.get(key)?.as_str()
    }

    fn count(&self) -> usize {
        self.map_or(0, Map::len)
    }

    fn all(&self, holds: impl FnMut(&str, &str) -> bool) -> bool {
        self.is_none_or(|labels| labels.all(holds))
    }
}

/// Labels of an object's tree.
impl LabelSet for Value {
    fn get(&self, key: &str) -> Option<&str> {
        labels(self)?.get(key)?.as_str()
    }

    fn count(&self) -> usize {
        labels(self).count()
    }

    fn all(&self, holds: impl FnMut(&str, &str) -> bool) -> bool {
        labels(self).all(holds)
    }
}

fn labels(object: &Value) -> Option<&Map> {
    object.at(&["metadata", "labels"])?.as_map()
}

/// Requirements of a selector, by label.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ByLabel {
    /// Labels, sorted by key.
    labels: Vec<OfLabel>,
    /// Number of labels that an object must have.
    needed: usize,
}

impl ByLabel {
    /// Merges requirements that are sorted by key.
    pub fn new(requirements: &[Requirement]) -> Self {
        let same = requirements.chunk_by(|one, other| one.key == other.key);
        let labels: Vec<OfLabel> = same.filter_map(OfLabel::new).collect();
        ByLabel { needed: labels.iter().filter(|label| label.needed).count(), labels }
    }

    /// Whether labels satisfy every requirement.
    pub fn matches(&self, labels: &impl LabelSet) -> bool {
        let count = labels.count();
        if count < self.needed {
            return false;
        }
        if count >= self.labels.len() {
            return self.labels.iter().all(|label| label.matches(labels.get(&label.key)));
        }
        let mut needed = 0;
        let hold = labels.all(|key, value| {
            let found = self.labels.binary_search_by(|label| label.key.as_str().cmp(key));
            let Some(label) = found.ok().and_then(|found| self.labels.get(found)) else {
                return true;
            };
            needed += usize::from(label.needed);
            label.matches(Some(value))
        });
        hold && needed == self.needed
    }
}

/// All requirements on one label.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct OfLabel {
    key: CompactString,
    /// Whether an object must have the label.
    needed: bool,
    /// Whether an object must not have the label.
    excluded: bool,
    /// Allowed values, sorted; `None` allows any.
    listed: Option<Vec<CompactString>>,
    /// Forbidden values, sorted.
    unlisted: Vec<CompactString>,
    /// Exclusive bounds of the value as a number.
    above: Option<i64>,
    below: Option<i64>,
}

impl OfLabel {
    /// Merges requirements on one label.
    fn new(requirements: &[Requirement]) -> Option<Self> {
        let key = requirements.first()?.key.clone();
        let mut label = OfLabel { key, ..OfLabel::default() };
        for requirement in requirements {
            label.add(requirement);
        }
        label.unlisted.sort_unstable();
        label.unlisted.dedup();
        Some(label)
    }

    fn add(&mut self, requirement: &Requirement) {
        let absent_will_do = [Operator::NotIn, Operator::NotEquals, Operator::DoesNotExist];
        self.needed |= !absent_will_do.contains(&requirement.operator);
        match requirement.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => match &mut self.listed {
                Some(listed) => listed.retain(|value| requirement.lists(value)),
                None => self.listed = Some(requirement.values.to_vec()),
            },
            Operator::NotIn | Operator::NotEquals => {
                self.unlisted.extend(requirement.values.iter().cloned());
            }
            Operator::Exists => {}
            Operator::DoesNotExist => self.excluded = true,
            Operator::GreaterThan => {
                let bound = requirement.bound();
                self.above = Some(self.above.map_or(bound, |above| above.max(bound)));
            }
            Operator::LessThan => {
                let bound = requirement.bound();
                self.below = Some(self.below.map_or(bound, |below| below.min(bound)));
            }
        }
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let Some(value) = value else { return !self.needed };
        let within = |values: &[CompactString]| {
            values.binary_search_by(|known| known.as_str().cmp(value)).is_ok()
        };
        !self.excluded
            && self.listed.as_deref().is_none_or(within)
            && !within(&self.unlisted)
            && self.is_between(value)
    }

    fn is_between(&self, value: &str) -> bool {
        if self.above.is_none() && self.below.is_none() {
            return true;
        }
        parse_integer(value).is_some_and(|number| {
            self.above.is_none_or(|above| number > above)
                && self.below.is_none_or(|below| number < below)
        })
    }
}
