//! Content negotiation of discovery documents.

use kevel_api::status::StatusError;

use crate::negotiate::{self, Clause, MediaType, clauses};
use kevel_registry::resource::Cbor;

/// Form of a discovery document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentForm {
    /// A single group, version or list of groups.
    Unaggregated(MediaType),
    /// The aggregated document (`APIGroupDiscoveryList`); `true` for this server only (`profile=nopeer`).
    Aggregated(MediaType, bool),
}

/// Negotiates the form; `roots` for the paths that have an aggregated form, which has no CBOR encoding.
pub(super) fn accept(header: &str, roots: bool, cbor: Cbor) -> Result<DocumentForm, StatusError> {
    for clause in clauses(header) {
        if roots && is_aggregated(&clause) {
            if let Some(media) = MediaType::parse(&clause.media, Cbor(false)) {
                let alone = clause.parameter("profile") == "nopeer";
                return Ok(DocumentForm::Aggregated(media, alone));
            }
        } else if let Some(media) = clause.document(cbor) {
            return Ok(DocumentForm::Unaggregated(media));
        }
    }
    Err(StatusError::not_acceptable(negotiate::body_types(cbor)))
}

/// Whether a clause asks for the aggregated document. Its beta version is gone, as in the reference.
fn is_aggregated(clause: &Clause) -> bool {
    let wanted = [("g", "apidiscovery.k8s.io"), ("v", "v2"), ("as", "APIGroupDiscoveryList")];
    wanted.iter().all(|(name, value)| clause.parameter(name) == *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregated_form_is_sent_if_accepted() {
        use DocumentForm::*;
        use MediaType::{Json, Protobuf, Yaml};
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let beta = v2.replace("v2;", "v2beta1;");
        let protobuf = v2.replace("json", "vnd.kubernetes.protobuf");
        for (header, roots, expected) in [
            (String::new(), true, Unaggregated(Json)),
            (v2.to_owned(), true, Aggregated(Json, false)),
            (format!("{v2},{beta},application/json"), true, Aggregated(Json, false)),
            (format!("{v2};profile=nopeer,{v2}"), true, Aggregated(Json, true)),
            (format!("{beta},application/yaml"), true, Unaggregated(Yaml)),
            (format!("{protobuf},{v2}"), true, Aggregated(Protobuf, false)),
            (format!("{v2};q=0.5,application/yaml"), true, Unaggregated(Yaml)),
            (format!("{v2},application/json"), false, Unaggregated(Json)),
            ("application/vnd.kubernetes.protobuf".to_owned(), false, Unaggregated(Protobuf)),
        ] {
            assert_eq!(accept(&header, roots, Cbor(false)).unwrap(), expected, "{header}");
        }
        assert_eq!(accept("text/html", true, Cbor(false)).unwrap_err().status().code, 406);
        assert_eq!(accept(&beta, true, Cbor(false)).unwrap_err().status().code, 406);
    }
}
