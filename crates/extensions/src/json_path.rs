//! JSONPath as definitions write it for columns: the dialect of kubectl, one expression.

use kevel_api::value::Value;

/// How deep expressions may stand in each other.
const MAX_DEPTH: usize = 16;
/// How many values an expression may find on its way.
const MAX_FOUND: usize = 1 << 16;

/// A path that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// Every element, field or value.
    All,
    /// Everything below.
    Descend,
    Slice {
        start: Option<i64>,
        end: End,
        step: Option<i64>,
    },
    Union(Vec<JsonPath>),
    Filter {
        left: JsonPath,
        /// Without one, the left side must find something.
        right: Option<(Comparison, JsonPath)>,
    },
    Constant(Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Last,
    At(i64),
    /// One element: the one after this is the end.
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
}

impl JsonPath {
    /// Reads a path.
    ///
    /// ```
    /// use kevel_extensions::json_path::JsonPath;
    /// assert!(JsonPath::parse(".status.conditions[?(@.type==\"Ready\")].status").is_ok());
    /// assert_eq!(JsonPath::parse(".spec[").unwrap_err(), "unterminated array");
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        parse(text, 0)
    }

    /// What an object has there; what is missing is left out. `None` where the path makes no sense
    /// for the object.
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
    })
}

fn parse(text: &str, depth: usize) -> Result<JsonPath, String> {
    if depth > MAX_DEPTH {
        return Err("expressions stand too deep in each other".to_owned());
    }
    let mut rest = text;
    let mut steps = Vec::new();
    while let Some(first) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("[?(") {
            let (filter, behind) = filter(behind, depth)?;
            steps.push(filter);
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("..") {
            if steps.last() == Some(&Step::Descend) {
                return Err("invalid multiple recursive descent".to_owned());
            }
            steps.push(Step::Descend);
            rest = behind;
            if rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
                rest = field(rest, &mut steps);
            }
        } else if first == '[' {
            let inside = rest.get(1..).and_then(|rest| rest.split_once(']'));
            let (inside, behind) = inside.ok_or("unterminated array")?;
            bracket(inside, depth, &mut steps)?;
            rest = behind;
        } else if first == '"' || first == '\'' {
            let (constant, behind) = quoted(rest, first)?;
            steps.push(Step::Constant(Value::from(constant.as_str())));
            rest = behind;
        } else if first == '.' {
            rest = field(rest.get(1..).unwrap_or_default(), &mut steps);
        } else if first == '+' || first == '-' || first.is_ascii_digit() {
            let digits = |c: char| c != '.' && !c.is_ascii_digit();
            let end =
                rest.get(1..).and_then(|rest| rest.find(digits)).map_or(rest.len(), |n| n + 1);
            let (number, behind) = rest.split_at(end);
            steps.push(Step::Constant(parse_number(number)?));
            rest = behind;
        } else if matches!(first, ' ' | '@' | '$') {
            rest = rest.get(1..).unwrap_or_default();
        } else if first == '_' || first.is_alphanumeric() {
            let end = rest.find(is_terminator).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            match word {
                "true" | "false" => steps.push(Step::Constant(Value::Bool(word == "true"))),
                _ => return Err(format!("unrecognized identifier {word}")),
            }
            rest = behind;
        } else {
            return Err(format!("unrecognized character in action: {first:?}"));
        }
    }
    Ok(JsonPath(steps))
}

/// A name after a dot, in which a backslash takes the next character as it is.
fn field<'t>(text: &'t str, steps: &mut Vec<Step>) -> &'t str {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = !escaped && is_terminator(c);
        escaped = !escaped && c == '\\';
        ends
    });
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    steps.push(match name {
        "*" => Step::All,
        name => Step::Field(name.replace('\\', "")),
    });
    rest
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// What stands between brackets: a key, an index, a slice, or several of them.
fn bracket(inside: &str, depth: usize, steps: &mut Vec<Step>) -> Result<(), String> {
    if inside.contains(',') {
        let paths = inside.split(',').map(|part| parse(&format!("[{}]", part.trim()), depth + 1));
        steps.push(Step::Union(paths.collect::<Result<_, _>>()?));
        return Ok(());
    }
    let key = inside.strip_prefix('\'').and_then(|inside| inside.strip_suffix('\''));
    if let Some(key) = key.filter(|key| !key.contains('\'')) {
        steps.extend(parse(&format!(".{key}"), depth + 1)?.0);
        return Ok(());
    }
    if inside == "*" {
        steps.push(Step::Slice { start: None, end: End::Last, step: None });
        return Ok(());
    }
    let index = |text: &str| match text {
        "" => Ok(None),
        digits => digits.parse().map(Some).map_err(|_| format!("invalid array index {inside}")),
    };
    let parts: Vec<Option<i64>> = inside.split(':').map(index).collect::<Result<_, _>>()?;
    let (start, end, step) = match parts.as_slice() {
        [start] => (*start, End::Single, None),
        [start, end] => (*start, end.map_or(End::Last, End::At), None),
        [start, end, step] => (*start, end.map_or(End::Last, End::At), *step),
        _ => return Err(format!("invalid array index {inside}")),
    };
    steps.push(Step::Slice { start, end, step });
    Ok(())
}

/// `@.type=="Ready")]`
fn filter(text: &str, depth: usize) -> Result<(Step, &str), String> {
    let mut quote = None;
    let end = text.find(|c| match (quote, c) {
        (None, ')') => true,
        (None, '"' | '\'') => {
            quote = Some(c);
            false
        }
        (Some(begun), c) if c == begun => {
            quote = None;
            false
        }
        _ => false,
    });
    let (inside, rest) = text.split_at(end.ok_or("unterminated filter")?);
    let rest = rest.strip_prefix(")]").ok_or("unclosed array expect ]")?;
    let is_operator = |c| matches!(c, '!' | '<' | '>' | '=');
    let Some(start) = inside.find(is_operator).filter(|start| *start > 0) else {
        return Ok((Step::Filter { left: parse(inside, depth + 1)?, right: None }, rest));
    };
    let (left, behind) = inside.split_at(start);
    let (operator, right) =
        behind.split_at(behind.find(|c| !is_operator(c)).unwrap_or(behind.len()));
    let comparison = match operator {
        "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        other => return Err(format!("unrecognized filter operator {other}")),
    };
    let right = Some((comparison, parse(right, depth + 1)?));
    Ok((Step::Filter { left: parse(left, depth + 1)?, right }, rest))
}

fn quoted(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut escaped = false;
    let mut constant = String::new();
    for (position, c) in text.char_indices().skip(1) {
        match c {
            '\n' => break,
            '\\' if !escaped => escaped = true,
            c if c == quote && !escaped => {
                return Ok((constant, text.get(position + 1..).unwrap_or_default()));
            }
            c => {
                escaped = false;
                constant.push(c);
            }
        }
    }
    Err("unterminated quoted string".to_owned())
}

fn parse_number(text: &str) -> Result<Value, String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let int = digits.parse().map(Value::Int);
    let number = int.or_else(|_| digits.parse().map(Value::Float));
    number.map_err(|_| format!("cannot parse number {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_codec::json;

    #[test]
    fn paths_find_what_they_say() {
        let object = json::decode_any(
            br#"{"spec": {"n": 3, "a.b": "dotted", "list": [1, 2, 3], "null": null,
                "map": {"x": {"v": 1}, "y": {"v": 2}}},
              "status": {"conditions": [{"type": "Ready", "status": "True", "n": 1},
                {"type": "Old", "status": "False"}]}}"#,
            json::Unknown::Ignore,
        );
        let object = object.unwrap().value;
        for (path, expected) in [
            (".spec.n", "[3]"),
            ("$.spec.n", "[3]"),
            (".spec.missing.deeper", "[]"),
            (".spec.null.deeper", "[]"),
            (".spec.a\\.b", r#"["dotted"]"#),
            (".spec['a\\.b']", r#"["dotted"]"#),
            (".spec.list[0]", "[1]"),
            (".spec.list[-1]", "[3]"),
            (".spec.list[1:]", "[2,3]"),
            (".spec.list[0:3:2]", "[1,3]"),
            (".spec.list[*]", "[1,2,3]"),
            (".spec.list[0,2]", "[1,3]"),
            (".spec.map.*.v", "[1,2]"),
            (".spec.map..v", "[1,2]"),
            (".spec.map['x'].v", "[1]"),
            (r#".status.conditions[?(@.type=="Ready")].status"#, r#"["True"]"#),
            (".status.conditions[?(@.type!='Ready')].status", r#"["False"]"#),
            (".status.conditions[?(@.n)].type", r#"["Ready"]"#),
            (".status.conditions[?(@.n>=1)].type", r#"["Ready"]"#),
            // Nonsense for this object.
            (".spec.list[7]", "-"),
            (".spec.n[0]", "-"),
        ] {
            let path_read = JsonPath::parse(path).unwrap();
            let found = path_read.find(&object).map(|found| {
                let mut text = Vec::new();
                let found = Value::List(found.into_iter().cloned().collect());
                json::encode_any(&found, &mut text);
                String::from_utf8(text).unwrap()
            });
            assert_eq!(found.as_deref().unwrap_or("-"), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for (path, why) in [
            ("spec.n", "unrecognized identifier spec"),
            (".a[", "unterminated array"),
            (".a[x]", "invalid array index x"),
            (".a[?(@.b", "unterminated filter"),
            (".a[?(@.b)", "unclosed array expect ]"),
            (".a....b", "invalid multiple recursive descent"),
            (".a{", "unrecognized character in action: '{'"),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap_err(), why, "{path}");
        }
        let deep = "[?(".repeat(500) + &")]".repeat(500);
        assert!(JsonPath::parse(&deep).is_err());
    }
}
