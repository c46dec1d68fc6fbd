//! Policies in CEL: `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`, with their bindings and parameters.
