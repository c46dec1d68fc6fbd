//! Cost limits of the CEL rules in a definition.

use kevel_api::field_error::{FieldError, Path};

use crate::schema::props::{Additional, Props};

/// Limit on the estimated cost of one rule.
const RULE_LIMIT: u64 = 10_000_000;
/// Limit on the estimated cost of all rules of a schema.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// Number of the most expensive rules that errors name.
const MOST_EXPENSIVE: usize = 4;

/// Estimated costs of a schema's rules.
#[derive(Debug, Default)]
pub(crate) struct TotalCost {
    total: u64,
    most_expensive: Vec<(u64, String)>,
}

impl TotalCost {
    pub fn add(&mut self, path: &Path<'_>, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost < SCHEMA_LIMIT / 100 {
            return;
        }
        self.most_expensive.push((cost, path.to_string()));
        self.most_expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        self.most_expensive.truncate(MOST_EXPENSIVE);
    }

    /// Errors if all rules of the schema at `path` together exceed the limit.
    pub fn check(&self, path: &Path<'_>) -> Vec<FieldError> {
        if self.total <= SCHEMA_LIMIT {
            return Vec::new();
        }
        let contributed = "contributed to estimated rule cost total exceeding cost limit for \
                           entire OpenAPIv3 schema";
        let mut errors: Vec<FieldError> = self
            .most_expensive
            .iter()
            .map(|(_, rule)| FieldError::forbidden(&Path::new(rule), contributed))
            .collect();
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(path, exceeds(what, self.total, SCHEMA_LIMIT)));
        errors
    }
}

/// Error of an expression that exceeds the limit.
pub(crate) fn check(path: &Path<'_>, what: &str, cost: u64) -> Option<FieldError> {
    (cost > RULE_LIMIT).then(|| FieldError::forbidden(path, exceeds(what, cost, RULE_LIMIT)))
}

/// Highest number of elements in a value of the schema; `None` if unbounded.
pub(crate) fn max_elements(schema: Props<'_>) -> Option<u64> {
    let bound = |name| schema.int(name).map(|max| u64::try_from(max).unwrap_or(0));
    match (schema.kind(), schema.additional()) {
        ("array", _) => bound("maxItems"),
        ("object", Some(Additional::Allowed(_) | Additional::Schema(_))) => bound("maxProperties"),
        _ => Some(1),
    }
}

fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        100.000_000_1.. => "more than 100x".to_owned(),
        1.5.. => format!("{factor:.1}x"),
        _ => format!("{factor:.6}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding \
         maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
