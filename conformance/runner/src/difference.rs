//! Differences of two JSON documents.

use serde_json::Value;

/// Longest printed part of a value.
const SHOWN: usize = 160;

/// Differences, one line each: the path, the first value, the second value.
pub fn differences(first: &Value, second: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", first, second, &mut found);
    found
}

fn compare(place: &str, first: &Value, second: &Value, found: &mut Vec<String>) {
    match (first, second) {
        (Value::Object(ones), Value::Object(others)) => {
            for (name, one) in ones {
                let place = format!("{place}.{name}");
                match others.get(name) {
                    Some(other) => compare(&place, one, other, found),
                    None => found.push(format!("{place}: {} -> nothing", shown(one))),
                }
            }
            for (name, other) in others.iter().filter(|(name, _)| !ones.contains_key(*name)) {
                found.push(format!("{place}.{name}: nothing -> {}", shown(other)));
            }
        }
        (Value::Array(ones), Value::Array(others)) => {
            if ones.len() != others.len() {
                found.push(format!("{place}: {} items -> {} items", ones.len(), others.len()));
            }
            for (index, (one, other)) in ones.iter().zip(others).enumerate() {
                compare(&format!("{place}[{index}]"), one, other, found);
            }
        }
        _ if first == second => {}
        _ => found.push(format!("{place}: {} -> {}", shown(first), shown(second))),
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_the_place_and_both_values() {
        let first = json!({"a": 1, "b": [1, {"c": "x"}], "d": null});
        let second = json!({"a": 1, "b": [2, {"c": "y"}, 3], "e": true});
        let expected = [
            ".b: 2 items -> 3 items",
            ".b[0]: 1 -> 2",
            ".b[1].c: \"x\" -> \"y\"",
            ".d: null -> nothing",
            ".e: nothing -> true",
        ];
        assert_eq!(differences(&first, &second), expected);
        assert!(differences(&first, &first).is_empty());
    }
}
