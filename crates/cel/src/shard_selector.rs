//! Shard selectors in the syntax of CEL (upstream: `k8s.io/apiserver/pkg/sharding`). The expression is read, and never
//! evaluated: ranges of hashes joined with `||`.

use kevel_api::quote::quote;
use kevel_api::selector::shard::{ShardField, ShardRange, ShardSelector};

use crate::ast::{Expr, ExprKind, Literal, operator};
use crate::parser;

/// Error of a shard selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardSelectorError {
    /// There is no expression.
    #[error("empty shard selector is not allowed; omit the parameter for unfiltered lists")]
    Empty,
    /// The text is no expression.
    #[error("CEL parse error: {0}")]
    Syntax(String),
    /// A function other than `shardRange` and `||`.
    #[error("unsupported function {}; only shardRange() and || are allowed", quote(.0))]
    Function(String),
    /// Neither a call nor `||`.
    #[error("unexpected expression kind {0}; expected shardRange() call or || operator")]
    Expression(u8),
    /// The wrong number of arguments.
    #[error("shardRange() requires exactly 3 arguments, got {0}")]
    Arguments(usize),
    /// The first argument is no path.
    #[error(
        "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {0}"
    )]
    Path(u8),
    /// Field path that is not supported for shards.
    #[error("unsupported field path {}; supported: object.metadata.uid, object.metadata.namespace", quote(.0))]
    Field(String),
    /// A bound that is no text or no number.
    #[error("{0}")]
    Bound(String),
    /// A range without hashes.
    #[error("shard range start {0} must be less than end {1}")]
    Order(String, String),
    /// Ranges of different fields.
    #[error("all shard ranges must use the same field, got {} and {}", quote(.0.path()), quote(.1.path()))]
    Fields(ShardField, ShardField),
}

/// Parses a shard selector.
///
/// ```
/// let text = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
/// assert_eq!(kevel_cel::parse_shard_selector(text)?.to_string(), text);
/// # Ok::<(), kevel_cel::ShardSelectorError>(())
/// ```
pub fn parse_shard_selector(text: &str) -> Result<ShardSelector, ShardSelectorError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ShardSelectorError::Empty);
    }
    let parsed = parser::parse(text, false).map_err(|issues| {
        let first = issues.iter().next().map(|issue| issue.message.clone());
        ShardSelectorError::Syntax(first.unwrap_or_default())
    })?;
    let mut found = Vec::new();
    walk(&parsed.root, &mut found)?;
    let Some((field, _)) = found.first().copied() else { return Err(ShardSelectorError::Empty) };
    if let Some((other, _)) = found.iter().find(|(other, _)| *other != field) {
        return Err(ShardSelectorError::Fields(field, *other));
    }
    let ranges = found.into_iter().map(|(_, range)| range).collect();
    Ok(ShardSelector { field, ranges })
}

/// Collects the ranges of an expression, from left to right. The parser limits how deep it is.
fn walk(expr: &Expr, found: &mut Vec<(ShardField, ShardRange)>) -> Result<(), ShardSelectorError> {
    kevel_compute::charge(1);
    let ExprKind::Call { function, args, .. } = &expr.kind else {
        return Err(ShardSelectorError::Expression(number(expr)));
    };
    match &**function {
        operator::OR => args.iter().try_for_each(|side| walk(side, found)),
        "shardRange" => {
            found.push(range(args)?);
            Ok(())
        }
        other => Err(ShardSelectorError::Function(other.to_owned())),
    }
}

fn range(args: &[Expr]) -> Result<(ShardField, ShardRange), ShardSelectorError> {
    let [path, start, end] = args else { return Err(ShardSelectorError::Arguments(args.len())) };
    let path = path.qualified_name().ok_or_else(|| ShardSelectorError::Path(number(path)))?;
    let fields = [ShardField::Uid, ShardField::Namespace];
    let field = fields.into_iter().find(|field| field.path() == path);
    let field = field.ok_or(ShardSelectorError::Field(path))?;
    let (start, start_text) = bound(start, "hexStart")?;
    let (end, end_text) = bound(end, "hexEnd")?;
    match u64::try_from(start) {
        Ok(start) if u128::from(start) < end => Ok((field, ShardRange { start, end })),
        _ => Err(ShardSelectorError::Order(start_text.to_owned(), end_text.to_owned())),
    }
}

/// Digits of a bound; one more has 2^64 alone, behind the last hash.
const DIGITS: usize = 16;
const BEHIND_LAST: &str = "10000000000000000";

/// The number of a bound, and its text.
fn bound<'e>(expr: &'e Expr, name: &str) -> Result<(u128, &'e str), ShardSelectorError> {
    let refuse = |why: String| Err(ShardSelectorError::Bound(format!("{name}{why}")));
    let ExprKind::Literal(literal) = &expr.kind else {
        let kind = number(expr);
        return refuse(format!(
            " must be a string literal (e.g. '0xff'), got expression kind {kind}"
        ));
    };
    let Literal::String(text) = literal else {
        return refuse(format!(" must be a string literal, got {}", go_type(literal)));
    };
    let said = quote(text);
    let Some(hex) = text.strip_prefix("0x") else {
        return refuse(format!(" must have '0x' prefix, got {said}"));
    };
    if hex.is_empty() {
        return refuse(": hex value is required after '0x'".to_owned());
    }
    if hex.len() > BEHIND_LAST.len() {
        let (length, hex) = (hex.len(), quote(hex));
        return refuse(format!(": hex value too long ({length} chars, max 17): {hex}"));
    }
    let wrong = hex.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f'));
    if let Some(wrong) = wrong {
        let wrong = quote(&wrong.to_string());
        return refuse(format!(": invalid hex character {wrong} in {said}"));
    }
    if hex.len() > DIGITS && hex != BEHIND_LAST {
        return refuse(format!(
            ": 17-digit hex value must be '0x{BEHIND_LAST}' (2^64), got {said}"
        ));
    }
    if hex.len() < DIGITS {
        let meant = quote(&format!("0x{hex:0>16}"));
        return refuse(format!(
            " must be a 0x-prefixed 16-digit hex value, got {said} (did you mean {meant}?)"
        ));
    }
    match u128::from_str_radix(hex, 16) {
        Ok(number) => Ok((number, text)),
        Err(error) => refuse(format!(": {error}")),
    }
}

/// Number of a node's kind, by which messages name it (upstream: `ast.ExprKind`).
fn number(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Unspecified => 0,
        ExprKind::Call { .. } => 1,
        ExprKind::Comprehension(_) => 2,
        ExprKind::Ident(_) => 3,
        ExprKind::List { .. } => 4,
        ExprKind::Literal(_) => 5,
        ExprKind::Map { .. } => 6,
        ExprKind::Select { .. } => 7,
        ExprKind::Struct { .. } => 8,
    }
}

/// Go type of a constant, by which a message names it.
fn go_type(literal: &Literal) -> &'static str {
    match literal {
        Literal::Null => "structpb.NullValue",
        Literal::Bool(_) => "bool",
        Literal::Int(_) => "int64",
        Literal::Uint(_) => "uint64",
        Literal::Double(_) => "float64",
        Literal::String(_) => "string",
        Literal::Bytes(_) => "[]uint8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_printed_alike() {
        let one =
            "shardRange(object.metadata.namespace, '0x0000000000000000', '0x8000000000000000')";
        let other =
            "shardRange(object.metadata.namespace, '0xf000000000000000', '0x10000000000000000')";
        for text in
            [one.to_owned(), format!("{one} || {other}"), format!("{one} || {other} || {one}")]
        {
            assert_eq!(parse_shard_selector(&format!(" {text}\n")).unwrap().to_string(), text);
        }
        assert_eq!(parse_shard_selector(&format!("({one})")).unwrap().to_string(), one);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let uid = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
        let namespace = uid.replace("uid", "namespace");
        let with =
            |start: &str| format!("shardRange(object.metadata.uid, {start}, '0x8000000000000000')");
        for (text, expected) in [
            (
                " ".to_owned(),
                "empty shard selector is not allowed; omit the parameter for unfiltered lists",
            ),
            (
                format!("{uid} && {uid}"),
                "unsupported function \"_&&_\"; only shardRange() and || are allowed",
            ),
            (
                "true".to_owned(),
                "unexpected expression kind 5; expected shardRange() call or || operator",
            ),
            ("shardRange(a)".to_owned(), "shardRange() requires exactly 3 arguments, got 1"),
            (
                uid.replace("object.metadata.uid", "1"),
                "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression \
                 kind 5",
            ),
            (
                uid.replace("uid", "name"),
                "unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, \
                 object.metadata.namespace",
            ),
            (with("a"), "hexStart must be a string literal (e.g. '0xff'), got expression kind 3"),
            (with("1"), "hexStart must be a string literal, got int64"),
            (with("'1'"), "hexStart must have '0x' prefix, got \"1\""),
            (with("'0x'"), "hexStart: hex value is required after '0x'"),
            (
                with("'0x000000000000000000'"),
                "hexStart: hex value too long (18 chars, max 17): \"000000000000000000\"",
            ),
            (with("'0xA'"), "hexStart: invalid hex character \"A\" in \"0xA\""),
            (
                with("'0x10000000000000001'"),
                "hexStart: 17-digit hex value must be '0x10000000000000000' (2^64), got \
                 \"0x10000000000000001\"",
            ),
            (
                with("'0xa'"),
                "hexStart must be a 0x-prefixed 16-digit hex value, got \"0xa\" (did you mean \
                 \"0x000000000000000a\"?)",
            ),
            (
                with("'0x8000000000000000'"),
                "shard range start 0x8000000000000000 must be less than end 0x8000000000000000",
            ),
            (
                format!("{uid} || {namespace}"),
                "all shard ranges must use the same field, got \"object.metadata.uid\" and \
                 \"object.metadata.namespace\"",
            ),
        ] {
            assert_eq!(parse_shard_selector(&text).unwrap_err().to_string(), expected, "{text}");
        }
        let broken = parse_shard_selector("shardRange(").unwrap_err().to_string();
        assert!(broken.starts_with("CEL parse error: Syntax error: "), "{broken}");
    }
}
