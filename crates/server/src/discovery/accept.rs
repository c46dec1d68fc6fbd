//! Which form of a document a client accepts.

use kevel_api::status::StatusError;

use crate::negotiate::{self, MediaType, Shape};

/// A form of a discovery document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentForm {
    /// This group, version or list of groups alone.
    Unaggregated(MediaType),
    /// Everything in one document.
    Aggregated(MediaType),
}

/// The best form that can be served; `roots` for the paths that have an aggregated form.
pub(super) fn accept(header: &str, roots: bool) -> Result<DocumentForm, StatusError> {
    let mut clauses: Vec<(f32, &str)> = header.split(',').map(|c| (weight(c), c.trim())).collect();
    clauses.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    for (weight, clause) in clauses {
        if weight <= 0.0 {
            continue;
        }
        if roots && is_aggregated(clause) {
            let name = clause.split(';').next().unwrap_or_default();
            if let Ok(accepted) = negotiate::accept(name, false, true) {
                return Ok(DocumentForm::Aggregated(accepted.media));
            }
        } else if let Ok(accepted) = negotiate::accept(clause, false, true)
            && accepted.shape == Shape::Whole
        {
            return Ok(DocumentForm::Unaggregated(accepted.media));
        }
    }
    Err(StatusError::not_acceptable(&negotiate::ANSWER_TYPES))
}

/// The beta version of the aggregated document is gone, as it is from the reference.
fn is_aggregated(clause: &str) -> bool {
    let wanted = [("g", "apidiscovery.k8s.io"), ("v", "v2"), ("as", "APIGroupDiscoveryList")];
    wanted.iter().all(|(key, value)| parameter(clause, key) == Some(value))
}

fn weight(clause: &str) -> f32 {
    parameter(clause, "q").and_then(|q| q.parse::<f32>().ok()).unwrap_or(1.0).clamp(0.0, 1.0)
}

fn parameter<'c>(clause: &'c str, name: &str) -> Option<&'c str> {
    let parameters = clause.split(';').skip(1).filter_map(|p| p.split_once('='));
    let mut named = parameters.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
    named.next().map(|(_, value)| value.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_aggregated_form_is_for_those_who_ask() {
        use DocumentForm::*;
        use MediaType::*;
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let beta = v2.replace("v2;", "v2beta1;");
        let protobuf = v2.replace("json", "vnd.kubernetes.protobuf");
        for (header, roots, expected) in [
            (String::new(), true, Unaggregated(Json)),
            (v2.to_owned(), true, Aggregated(Json)),
            (format!("{v2},{beta},application/json"), true, Aggregated(Json)),
            (format!("{beta},application/yaml"), true, Unaggregated(Yaml)),
            (format!("{protobuf},{v2}"), true, Aggregated(Protobuf)),
            (format!("{v2};q=0.5,application/yaml"), true, Unaggregated(Yaml)),
            (format!("{v2},application/json"), false, Unaggregated(Json)),
            ("application/vnd.kubernetes.protobuf".to_owned(), false, Unaggregated(Protobuf)),
        ] {
            assert_eq!(accept(&header, roots).unwrap(), expected, "{header}");
        }
        assert_eq!(accept("text/html", true).unwrap_err().status().code, 406);
        assert_eq!(accept(&beta, true).unwrap_err().status().code, 406);
    }
}
