//! Label selectors: `app=web,tier in (a,b),!legacy`.

mod merged;
mod parse;

use merged::ByLabel;
pub use merged::LabelSet;
pub use parse::ParseLabelSelectorError;

use crate::field_error::{BadValue, FieldError, Path, aggregate};
use crate::name::{is_label_key, is_label_value};
use crate::quote::quote;
use crate::selector::FEW_REQUIREMENTS;
use crate::value::{Map, Value};
use compact_str::CompactString;
use std::fmt;
use std::sync::Arc;
use thin_vec::{ThinVec, thin_vec};

/// Requirements on an object's labels, all of which must hold. An empty selector selects everything.
///
/// ```
/// use kevel_api::selector::label::LabelSelector;
/// use kevel_api::value::Map;
/// let selector: LabelSelector = "app in (web,api),!legacy".parse()?;
/// assert!(selector.selects(&Map::from_iter([("app", "web".into())])));
/// # Ok::<(), kevel_api::selector::label::ParseLabelSelectorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    selects_nothing: bool,
    requirements: Vec<Requirement>,
    /// Requirements by label, if there are many.
    merged: Option<Arc<ByLabel>>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: CompactString,
    operator: Operator,
    /// Sorted. Both types are small, because a selector may have very many requirements.
    values: ThinVec<CompactString>,
}

/// Relation of a label to a requirement's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`
    NotIn,
    /// `key=a`
    Equals,
    /// `key==a`
    DoubleEquals,
    /// `key!=a`
    NotEquals,
    /// `key>1`
    GreaterThan,
    /// `key<1`
    LessThan,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
}

/// One of an API object's `matchExpressions`.
#[derive(Clone, Copy, Debug)]
pub struct MatchExpression<'a, V> {
    /// The label's key.
    pub key: &'a str,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: &'a str,
    /// The values for `In` and `NotIn`.
    pub values: V,
}

impl LabelSelector {
    /// The selector that selects everything.
    pub const EVERYTHING: LabelSelector =
        LabelSelector { selects_nothing: false, requirements: Vec::new(), merged: None };

    /// The selector that selects nothing, of an API object without a selector.
    pub const NOTHING: LabelSelector =
        LabelSelector { selects_nothing: true, requirements: Vec::new(), merged: None };

    /// Makes a selector, with requirements sorted by key.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        let merged =
            (requirements.len() > FEW_REQUIREMENTS).then(|| Arc::new(ByLabel::new(&requirements)));
        LabelSelector { selects_nothing: false, requirements, merged }
    }

    /// Selector from `matchLabels` and `matchExpressions` of an API object. The error is the message about the first
    /// invalid part.
    pub fn from_parts<'a, V>(
        match_labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        match_expressions: impl IntoIterator<Item = MatchExpression<'a, V>>,
    ) -> Result<Self, ParseLabelSelectorError>
    where
        V: IntoIterator<Item = &'a str>,
    {
        let mut requirements = Vec::new();
        let mut add = |key: &str, operator, values| {
            let requirement = Requirement::new(key, operator, values, &Path::NONE);
            requirements.push(requirement.map_err(ParseLabelSelectorError::from_errors)?);
            Ok(())
        };
        for (key, value) in match_labels {
            add(key, Operator::Equals, thin_vec![value.into()])?;
        }
        for MatchExpression { key, operator, values } in match_expressions {
            let operator = match operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let message =
                        format!("{} is not a valid label selector operator", quote(other));
                    return Err(ParseLabelSelectorError::new(message));
                }
            };
            add(key, operator, values.into_iter().map(CompactString::from).collect())?;
        }
        Ok(LabelSelector::new(requirements))
    }

    /// Selector from an API object; a missing one selects nothing.
    pub fn from_value(selector: Option<&Value>) -> Result<Self, ParseLabelSelectorError> {
        let Some(selector) = selector else { return Ok(LabelSelector::NOTHING) };
        let labels = selector.at(&["matchLabels"]).and_then(Value::as_map);
        let labels = labels.into_iter().flat_map(Map::iter);
        let labels = labels.map(|(key, value)| (key, value.as_str().unwrap_or_default()));
        let expressions = selector.at(&["matchExpressions"]).and_then(Value::as_list);
        let expressions = expressions.unwrap_or_default().iter().map(|expression| {
            let values = expression.at(&["values"]).and_then(Value::as_list).unwrap_or_default();
            MatchExpression {
                key: expression.str_at(&["key"]),
                operator: expression.str_at(&["operator"]),
                values: values.iter().filter_map(Value::as_str),
            }
        });
        LabelSelector::from_parts(labels, expressions)
    }

    /// The requirements, in the order of their keys.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        !self.selects_nothing && self.requirements.is_empty()
    }

    /// Whether nothing is selected, whatever its labels.
    pub fn selects_nothing(&self) -> bool {
        self.selects_nothing
    }

    /// Whether the labels of an object satisfy every requirement. Takes no more steps than there are labels, or named
    /// labels.
    pub fn selects(&self, labels: &impl LabelSet) -> bool {
        if self.selects_nothing {
            return false;
        }
        match &self.merged {
            Some(merged) => merged.matches(labels),
            None => self.requirements.iter().all(|one| one.matches(labels.get(&one.key))),
        }
    }

    /// Whether the selector has so many requirements that sharing its evaluation pays off.
    pub fn is_large(&self) -> bool {
        self.merged.is_some()
    }

    /// Value that the label must have, if the first requirement on it allows only one.
    pub fn requires_exact_match(&self, key: &str) -> Option<&str> {
        let requirement = self.requirements.iter().find(|requirement| requirement.key == key)?;
        match (requirement.operator, requirement.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl Requirement {
    /// Makes a requirement after validating key, operator and values; all errors are at paths below `path`.
    pub fn new(
        key: impl Into<CompactString>,
        operator: Operator,
        mut values: ThinVec<CompactString>,
        path: &Path<'_>,
    ) -> Result<Self, Vec<FieldError>> {
        let key = key.into();
        let mut errors = Vec::from_iter(check_key(&key, &path.child("key")));
        errors.extend(check_values(&key, operator, &values, &path.child("values")));
        if !errors.is_empty() {
            return Err(errors);
        }
        values.sort_unstable();
        Ok(Requirement { key, operator, values })
    }

    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Relation of the label to the values.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values, sorted.
    pub fn values(&self) -> &[CompactString] {
        &self.values
    }

    /// Whether a label with this value, or a missing label, satisfies the requirement.
    pub fn matches(&self, label: Option<&str>) -> bool {
        kevel_compute::charge(1);
        let listed = |label: &str| self.lists(label);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => self.compares(label, |label, bound| label > bound),
            Operator::LessThan => self.compares(label, |label, bound| label < bound),
        }
    }

    fn lists(&self, value: &str) -> bool {
        self.values.binary_search_by(|known| known.as_str().cmp(value)).is_ok()
    }

    fn compares(&self, label: Option<&str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        label.and_then(parse_integer).is_some_and(|label| holds(label, self.bound()))
    }

    /// Number with which a label is compared. It was validated when the requirement was made.
    fn bound(&self) -> i64 {
        self.values.first().and_then(|value| parse_integer(value)).unwrap_or_default()
    }
}

impl Operator {
    /// Message if the operator does not allow this number of values.
    fn rejects(self, values: usize) -> Option<&'static str> {
        match self {
            Self::In | Self::NotIn => {
                (values == 0).then_some("for 'in', 'notin' operators, values set can't be empty")
            }
            Self::Equals | Self::DoubleEquals | Self::NotEquals => {
                (values != 1).then_some("exact-match compatibility requires one single value")
            }
            Self::Exists | Self::DoesNotExist => {
                (values != 0).then_some("values set must be empty for exists and does not exist")
            }
            Self::GreaterThan | Self::LessThan => {
                (values != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
        }
    }

    /// Symbol between key and values; before the key for `DoesNotExist`.
    fn symbol(self) -> &'static str {
        match self {
            Self::In => " in ",
            Self::NotIn => " notin ",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::GreaterThan => ">",
            Self::LessThan => "<",
            Self::Exists => "",
            Self::DoesNotExist => "!",
        }
    }
}

fn check_key(key: &str, path: &Path<'_>) -> Option<FieldError> {
    let problems = is_label_key(key);
    (!problems.is_empty()).then(|| FieldError::invalid(path, key, problems.join("; ")))
}

/// Validates a requirement's values, at `path`.
fn check_values(
    key: &str,
    operator: Operator,
    values: &[CompactString],
    path: &Path<'_>,
) -> Vec<FieldError> {
    // Enough to show the problem; a list of a million values need not cause as many errors.
    const MAX_ERRORS: usize = 256;
    let mut errors = Vec::new();
    if let Some(detail) = operator.rejects(values.len()) {
        let shown = match values {
            [] => BadValue::Text("null".to_owned()),
            values => BadValue::strings(values),
        };
        errors.push(FieldError::invalid(path, shown, detail));
    }
    if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
        for (index, value) in values.iter().enumerate() {
            if parse_integer(value).is_none() {
                errors.push(FieldError::invalid(
                    &path.index(index),
                    value.as_str(),
                    "for 'Gt', 'Lt' operators, the value must be an integer",
                ));
            }
        }
    }
    for (index, value) in values.iter().enumerate() {
        if errors.len() >= MAX_ERRORS {
            break;
        }
        let problems = is_label_value(value);
        if !problems.is_empty() {
            let (at, detail) = (path.index(index), problems.join("; "));
            errors.push(FieldError::invalid(&at.key(key), value.as_str(), detail));
        }
    }
    errors
}

fn parse_integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, symbol) = (&self.key, self.operator.symbol());
        match self.operator {
            Operator::DoesNotExist => write!(f, "{symbol}{key}"),
            Operator::In | Operator::NotIn => {
                write!(f, "{key}{symbol}({})", self.values.join(","))
            }
            _ => write!(f, "{key}{symbol}{}", self.values.join(",")),
        }
    }
}

impl ParseLabelSelectorError {
    fn from_errors(errors: Vec<FieldError>) -> Self {
        Self::new(aggregate(&errors).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
