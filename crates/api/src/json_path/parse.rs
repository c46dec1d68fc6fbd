//! Parser of JSONPath expressions.

use super::{Comparison, End, JsonPath, Step};
use crate::value::Value;

/// Limit on the nesting of expressions.
const MAX_DEPTH: usize = 16;

/// Parses the text between the braces of a template. The text may close them itself and go on with text and further
/// actions, which find nothing.
pub(super) fn parse(text: &str, depth: usize) -> Result<JsonPath, String> {
    if depth > MAX_DEPTH {
        return Err("expressions stand too deep in each other".to_owned());
    }
    let closed = format!("{text}}}");
    let (steps, mut rest) = action(&closed, depth)?;
    while let Some((_, behind)) = rest.split_once('{') {
        rest = action(behind, depth)?.1;
    }
    Ok(JsonPath(steps))
}

/// Parses up to the brace that ends an action.
fn action(text: &str, depth: usize) -> Result<(Vec<Step>, &str), String> {
    let mut rest = text;
    let mut steps = Vec::new();
    loop {
        let first = rest.chars().next().filter(|c| !is_end_of_line(*c)).ok_or("unclosed action")?;
        let behind = &rest[first.len_utf8()..];
        rest = match first {
            '}' => return Ok((steps, behind)),
            ' ' | '@' | '$' => behind,
            '[' => match rest.strip_prefix("[?(") {
                Some(behind) => filter(behind, depth, &mut steps)?,
                None => array(behind, depth, &mut steps)?,
            },
            '.' => match behind.strip_prefix('.') {
                Some(behind) => descend(behind, &mut steps)?,
                None => field(behind, &mut steps),
            },
            '"' | '\'' => quoted(rest, first, &mut steps)?,
            '+' | '-' => number(rest, &mut steps)?,
            digit if digit.is_numeric() => number(rest, &mut steps)?,
            letter if is_alphanumeric(letter) => identifier(rest, &mut steps),
            other => return Err(format!("unrecognized character in action: {}", shown(other))),
        };
    }
}

/// Character as Go prints it.
fn shown(c: char) -> String {
    let code = format!("U+{:04X}", u32::from(c));
    if c.is_control() { code } else { format!("{code} '{c}'") }
}

fn descend<'t>(text: &'t str, steps: &mut Vec<Step>) -> Result<&'t str, String> {
    if steps.last() == Some(&Step::Descend) {
        return Err("invalid multiple recursive descent".to_owned());
    }
    steps.push(Step::Descend);
    Ok(if text.starts_with(is_alphanumeric) { field(text, steps) } else { text })
}

/// Parses a name after a dot, in which a backslash escapes the next character.
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

fn identifier<'t>(text: &'t str, steps: &mut Vec<Step>) -> &'t str {
    let (word, rest) = text.split_at(text.find(is_terminator).unwrap_or(text.len()));
    steps.push(match word {
        "true" | "false" => Step::Constant(Value::Bool(word == "true")),
        _ => Step::Identifier,
    });
    rest
}

fn number<'t>(text: &'t str, steps: &mut Vec<Step>) -> Result<&'t str, String> {
    let signed = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = signed.find(|c: char| c != '.' && !c.is_numeric()).unwrap_or(signed.len());
    let (said, rest) = text.split_at(text.len() - signed.len() + end);
    let digits = said.strip_prefix('+').unwrap_or(said);
    let int = digits.parse().map(Value::Int);
    let number = int.or_else(|_| digits.parse().map(Value::Float));
    steps.push(Step::Constant(number.map_err(|_| format!("cannot parse number {said}"))?));
    Ok(rest)
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn is_end_of_line(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

fn is_terminator(c: char) -> bool {
    is_end_of_line(c) || matches!(c, ' ' | '\t' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Parses the text in brackets: a key, an index, a slice, or several of them.
fn array<'t>(text: &'t str, depth: usize, steps: &mut Vec<Step>) -> Result<&'t str, String> {
    let end = text.find([']', '\n']).filter(|end| text[*end..].starts_with(']'));
    let (inside, rest) = text.split_at(end.ok_or("unterminated array")?);
    let key = inside.strip_prefix('\'').and_then(|inside| inside.strip_suffix('\''));
    if inside.contains(',') {
        let part = |part: &str| parse(&format!("[{}]", part.trim_matches(' ')), depth + 1);
        steps.push(Step::Union(inside.split(',').map(part).collect::<Result<_, _>>()?));
    } else if let Some(key) = key.filter(|key| !key.contains('\'')) {
        steps.extend(parse(&format!(".{key}"), depth + 1)?.0);
    } else {
        steps.push(slice(if inside == "*" { ":" } else { inside })?);
    }
    Ok(&rest[1..])
}

/// Parses a slice: `1`, `1:2`, `1:2:3`; any number may be missing.
fn slice(text: &str) -> Result<Step, String> {
    let is_number = |part: &&str| {
        part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit())
    };
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 || !parts.iter().all(is_number) {
        return Err(format!("invalid array index {text}"));
    }
    let mut numbers = [None; 3];
    for (number, part) in numbers.iter_mut().zip(&parts).filter(|(_, part)| !part.is_empty()) {
        let parsed: Result<i64, _> = part.parse();
        *number = Some(parsed.map_err(|_| format!("array index {part} is not a number"))?);
    }
    let [start, end, step] = numbers;
    let end = match parts.len() {
        1 => End::Single,
        _ => end.map_or(End::Last, End::At),
    };
    Ok(Step::Slice { start, end, step })
}

/// Parses a filter: `@.type=="Ready")]`
fn filter<'t>(text: &'t str, depth: usize, steps: &mut Vec<Step>) -> Result<&'t str, String> {
    let end = filter_end(text).ok_or("unterminated filter")?;
    let (inside, rest) = text.split_at(end);
    let rest = rest.strip_prefix(")]").ok_or("unclosed array expect ]")?;
    let (left, operator, right) = match comparison(inside) {
        Some(parts) => parts,
        None => {
            steps.push(Step::Filter { left: parse(inside, depth + 1)?, right: None });
            return Ok(rest);
        }
    };
    let comparison = match operator {
        "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => Comparison::Unknown,
    };
    let left = parse(left, depth + 1)?;
    let right = Some((comparison, parse(right, depth + 1)?));
    steps.push(Step::Filter { left, right });
    Ok(rest)
}

/// Position of the parenthesis that ends a filter. Parentheses in the first pair of quotes are skipped.
fn filter_end(text: &str) -> Option<usize> {
    let (mut quote, mut closed) = (None, false);
    let mut before = '(';
    for (position, c) in text.char_indices() {
        match (c, quote) {
            ('\n', _) => return None,
            ('"' | '\'', None) => quote = Some(c),
            ('"' | '\'', Some(open)) => closed |= before != '\\' && c == open,
            (')', _) if quote.is_some() == closed => return Some(position),
            _ => {}
        }
        before = c;
    }
    None
}

/// Sides and operator of a comparison; both sides are non-empty.
fn comparison(text: &str) -> Option<(&str, &str, &str)> {
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let start = text.find(is_operator).filter(|start| *start > 0)?;
    let behind = &text[start..];
    let length = behind.find(|c| !is_operator(c)).unwrap_or(behind.len() - 1);
    if length == 0 {
        return None;
    }
    let (operator, right) = behind.split_at(length);
    Some((&text[..start], operator, right))
}

fn quoted<'t>(text: &'t str, quote: char, steps: &mut Vec<Step>) -> Result<&'t str, String> {
    let mut escaped = false;
    let mut constant = String::new();
    for (position, c) in text.char_indices().skip(1) {
        match c {
            '\n' => break,
            '\\' if !escaped => escaped = true,
            c if c == quote && !escaped => {
                steps.push(Step::Constant(Value::from(constant.as_str())));
                return Ok(&text[position + 1..]);
            }
            c => {
                escaped = false;
                constant.push(c);
            }
        }
    }
    Err("unterminated quoted string".to_owned())
}
