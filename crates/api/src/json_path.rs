//! JSONPath expressions as in kubectl and in columns of custom resources.

mod parse;

use crate::value::Value;

/// Limit on the values that an expression may find at each step.
const MAX_FOUND: usize = 1 << 16;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// All elements, fields or values.
    All,
    /// All values below.
    Descend,
    Slice {
        start: Option<i64>,
        end: End,
        step: Option<i64>,
    },
    Union(Vec<JsonPath>),
    Filter {
        left: JsonPath,
        /// `None`: the left side must find a value.
        right: Option<(Comparison, JsonPath)>,
    },
    Constant(Value),
    /// A word without meaning here.
    Identifier,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Last,
    At(i64),
    /// One element: the end is the next index.
    Single,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Unknown operator.
    Unknown,
}

impl JsonPath {
    /// Parses an expression, the text between the braces of a template. Errors are worded as in the reference.
    ///
    /// ```
    /// use kevel_api::json_path::JsonPath;
    /// assert!(JsonPath::parse(".status.conditions[?(@.type==\"Ready\")].status").is_ok());
    /// assert_eq!(JsonPath::parse(".spec[").unwrap_err(), "unterminated array");
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text, 0)
    }

    /// Values of an object at the path, without missing ones. `None` if the path does not apply to the object.
    pub fn find<'v>(&'v self, object: &'v Value) -> Option<Vec<&'v Value>> {
        self.walk(vec![object])
    }

    fn walk<'v>(&'v self, input: Vec<&'v Value>) -> Option<Vec<&'v Value>> {
        self.0.iter().try_fold(input, |found, step| {
            let found = step.take(found)?;
            (found.len() <= MAX_FOUND).then_some(found)
        })
    }
}

impl Step {
    fn take<'v>(&'v self, input: Vec<&'v Value>) -> Option<Vec<&'v Value>> {
        let given = input.iter().copied().filter(|value| !value.is_null());
        match self {
            Step::Field(name) => {
                Some(given.filter_map(|value| value.as_map()?.get(name)).collect())
            }
            Step::All => Some(given.flat_map(children).collect()),
            Step::Descend => {
                let mut found = Vec::new();
                given.for_each(|value| descend(value, &mut found));
                Some(found)
            }
            Step::Constant(value) => Some(input.iter().map(|_| value).collect()),
            Step::Identifier => None,
            Step::Union(paths) => {
                let mut found = Vec::new();
                for path in paths {
                    found.extend(path.walk(input.clone())?);
                }
                Some(found)
            }
            Step::Slice { start, end, step } => {
                let mut found = Vec::new();
                for value in given {
                    found.extend(slice(value.as_list()?, *start, *end, *step)?);
                }
                Some(found)
            }
            Step::Filter { left, right } => {
                let mut found = Vec::new();
                for value in input {
                    for item in value.as_list()? {
                        if passes(item, left, right.as_ref())? {
                            found.push(item);
                        }
                    }
                }
                Some(found)
            }
        }
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Map(map) => map.iter().map(|(_, value)| value).collect(),
        Value::List(list) => list.iter().collect(),
        _ => Vec::new(),
    }
}

fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>) {
    let below = children(value);
    if below.is_empty() || found.len() > MAX_FOUND {
        return;
    }
    found.push(value);
    below.into_iter().filter(|value| !value.is_null()).for_each(|value| descend(value, found));
}

fn slice(list: &[Value], start: Option<i64>, end: End, step: Option<i64>) -> Option<Vec<&Value>> {
    let length = i64::try_from(list.len()).ok()?;
    let from_end = |index: i64| if index < 0 { index + length } else { index };
    let first = from_end(start.unwrap_or(0));
    let last = match end {
        End::Last => length,
        End::At(index) => from_end(index),
        End::Single => first.checked_add(1)?,
    };
    if first == last {
        return Some(Vec::new());
    }
    let inside = 0 <= first && first < length && last <= length && first < last;
    let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0)?;
    let range = usize::try_from(first).ok()?..usize::try_from(last).ok()?;
    inside.then(|| list.get(range)).flatten().map(|items| items.iter().step_by(step).collect())
}

fn passes(item: &Value, left: &JsonPath, right: Option<&(Comparison, JsonPath)>) -> Option<bool> {
    let Some((comparison, right)) = right else {
        return Some(left.walk(vec![item]).is_some_and(|found| !found.is_empty()));
    };
    match (left.walk(vec![item])?.as_slice(), right.walk(vec![item])?.as_slice()) {
        ([], _) | (_, []) => Some(false),
        ([left], [right]) => compare(left, right, *comparison),
        _ => None,
    }
}

fn compare(left: &Value, right: &Value, comparison: Comparison) -> Option<bool> {
    let order = match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b)?,
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) if matches!(comparison, Comparison::Equal) => {
            return Some(a == b);
        }
        (Value::Bool(a), Value::Bool(b)) if matches!(comparison, Comparison::NotEqual) => {
            return Some(a != b);
        }
        _ => return None,
    };
    Some(match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
        Comparison::Unknown => return None,
    })
}
