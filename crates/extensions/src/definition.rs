//! Accessors for the fields of a CustomResourceDefinition, in the version `apiextensions.k8s.io/v1`.

use kevel_api::time::Time;
use kevel_api::value::{Map, Value};

/// API group of CustomResourceDefinitions.
pub const GROUP: &str = "apiextensions.k8s.io";
/// Plural of CustomResourceDefinitions in paths.
pub const PLURAL: &str = "customresourcedefinitions";
/// Finalizer that keeps a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Types of a definition's conditions.
pub mod condition {
    /// No other definition in the group has the names.
    pub const NAMES_ACCEPTED: &str = "NamesAccepted";
    /// The custom resource is served.
    pub const ESTABLISHED: &str = "Established";
    /// The objects are being deleted, because the definition is.
    pub const TERMINATING: &str = "Terminating";
    /// A schema is not structural.
    pub const NON_STRUCTURAL_SCHEMA: &str = "NonStructuralSchema";
    /// The API of a protected group (`*.k8s.io`, `*.kubernetes.io`) is approved.
    pub const API_APPROVED: &str = "KubernetesAPIApprovalPolicyConformant";
}

/// View of a CustomResourceDefinition.
#[derive(Clone, Copy, Debug)]
pub struct Definition<'v>(pub &'v Value);

impl<'v> Definition<'v> {
    /// Name, such as `widgets.example.com`.
    pub fn name(self) -> &'v str {
        self.0.str_at(&["metadata", "name"])
    }

    /// UID of the definition.
    pub fn uid(self) -> &'v str {
        self.0.str_at(&["metadata", "uid"])
    }

    /// API group of the custom resource.
    pub fn group(self) -> &'v str {
        self.0.str_at(&["spec", "group"])
    }

    /// Whether the custom resource is namespaced.
    pub fn is_namespaced(self) -> bool {
        self.0.str_at(&["spec", "scope"]) == "Namespaced"
    }

    /// Wanted names (`spec.names`).
    pub fn names(self) -> Names<'v> {
        Names(self.0.at(&["spec", "names"]))
    }

    /// Accepted names (`status.acceptedNames`).
    pub fn accepted_names(self) -> Names<'v> {
        Names(self.0.at(&["status", "acceptedNames"]))
    }

    /// Versions, in the order of the spec.
    pub fn versions(self) -> impl Iterator<Item = Version<'v>> + Clone {
        self.0.list_at(&["spec", "versions"]).iter().map(Version)
    }

    /// Name of the storage version.
    pub fn storage_version(self) -> Option<&'v str> {
        self.versions().find(|version| version.is_stored()).map(Version::name)
    }

    /// `spec.preserveUnknownFields`: possible in definitions created as v1beta1.
    pub fn preserves_unknown_fields(self) -> bool {
        flag(self.0, &["spec", "preserveUnknownFields"])
    }

    /// Condition of a type.
    pub fn condition(self, ty: &str) -> Option<Condition<'v>> {
        let conditions = self.0.list_at(&["status", "conditions"]).iter().map(Condition::read);
        conditions.into_iter().find(|condition| condition.ty == ty)
    }

    /// Whether a condition is present and True.
    pub fn is(self, ty: &str) -> bool {
        self.condition(ty).is_some_and(|condition| condition.status == "True")
    }

    /// Whether the definition has a deletionTimestamp.
    pub fn is_being_deleted(self) -> bool {
        !self.0.str_at(&["metadata", "deletionTimestamp"]).is_empty()
    }

    /// Whether the definition has a finalizer.
    pub fn has_finalizer(self, name: &str) -> bool {
        let finalizers = self.0.list_at(&["metadata", "finalizers"]);
        finalizers.iter().any(|finalizer| finalizer.as_str() == Some(name))
    }
}

/// Names of a custom resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Names<'v>(Option<&'v Value>);

impl<'v> Names<'v> {
    /// Names from `spec.names` or `status.acceptedNames`.
    pub fn new(names: Option<&'v Value>) -> Self {
        Names(names)
    }

    /// Name in a field of `spec.names` or `status.acceptedNames`.
    pub fn get(self, field: &str) -> &'v str {
        self.0.map_or("", |names| names.str_at(&[field]))
    }

    /// Plural name, as in paths.
    pub fn plural(self) -> &'v str {
        self.get("plural")
    }

    /// Singular name.
    pub fn singular(self) -> &'v str {
        self.get("singular")
    }

    /// Kind of the objects.
    pub fn kind(self) -> &'v str {
        self.get("kind")
    }

    /// Kind of lists.
    pub fn list_kind(self) -> &'v str {
        self.get("listKind")
    }

    /// Short names for `kubectl`.
    pub fn short_names(self) -> Vec<&'v str> {
        self.list("shortNames")
    }

    /// Categories, such as `all`.
    pub fn categories(self) -> Vec<&'v str> {
        self.list("categories")
    }

    fn list(self, field: &str) -> Vec<&'v str> {
        let list = self.0.map_or(&[][..], |names| names.list_at(&[field]));
        list.iter().filter_map(Value::as_str).collect()
    }
}

/// View of a version of a custom resource.
#[derive(Clone, Copy, Debug)]
pub struct Version<'v>(&'v Value);

impl<'v> Version<'v> {
    /// Name of the version.
    pub fn name(self) -> &'v str {
        self.0.str_at(&["name"])
    }

    /// Whether the version is served.
    pub fn is_served(self) -> bool {
        flag(self.0, &["served"])
    }

    /// Whether this is the storage version.
    pub fn is_stored(self) -> bool {
        flag(self.0, &["storage"])
    }

    /// Whether the version is deprecated.
    pub fn is_deprecated(self) -> bool {
        flag(self.0, &["deprecated"])
    }

    /// `deprecationWarning`, which replaces the default warning.
    pub fn deprecation_warning(self) -> Option<&'v str> {
        self.0.at(&["deprecationWarning"]).and_then(Value::as_str)
    }

    /// `openAPIV3Schema` of the version.
    pub fn schema(self) -> Option<&'v Value> {
        self.0.at(&["schema", "openAPIV3Schema"])
    }

    /// Whether the version has the `status` subresource.
    pub fn has_status(self) -> bool {
        self.0.at(&["subresources", "status"]).is_some()
    }

    /// `scale` subresource, if there is one.
    pub fn scale(self) -> Option<&'v Value> {
        self.0.at(&["subresources", "scale"])
    }

    /// `additionalPrinterColumns`.
    pub fn columns(self) -> &'v [Value] {
        self.0.list_at(&["additionalPrinterColumns"])
    }

    /// Field paths that field selectors may use: `spec.color`.
    pub fn selectable_fields(self) -> impl Iterator<Item = &'v str> {
        let paths = self.0.list_at(&["selectableFields"]).iter();
        paths.map(|field| field.str_at(&["jsonPath"])).map(|path| path.trim_start_matches('.'))
    }
}

fn flag(value: &Value, path: &[&str]) -> bool {
    value.at(path).and_then(Value::as_bool) == Some(true)
}

/// Condition of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition<'v> {
    /// Type of the condition.
    pub ty: &'v str,
    /// `True`, `False` or `Unknown`.
    pub status: &'v str,
    /// Reason, in CamelCase.
    pub reason: &'v str,
    /// Message for humans.
    pub message: std::borrow::Cow<'v, str>,
}

impl<'v> Condition<'v> {
    /// Makes a condition.
    pub const fn new(ty: &'v str, status: &'v str, reason: &'v str, message: &'v str) -> Self {
        Condition { ty, status, reason, message: std::borrow::Cow::Borrowed(message) }
    }

    fn read(value: &'v Value) -> Self {
        let text = |field| value.str_at(&[field]);
        Condition::new(text("type"), text("status"), text("reason"), text("message"))
    }
}

/// Sets a condition. `lastTransitionTime` changes only with the status.
pub fn set_condition(definition: &mut Value, condition: &Condition<'_>, now: Time) {
    let conditions = definition.make_list(&["status"], "conditions");
    let known = conditions.iter_mut().find(|known| known.str_at(&["type"]) == condition.ty);
    let now = now.to_string();
    let mut entry = Map::from_iter(
        [
            ("type", condition.ty),
            ("status", condition.status),
            ("reason", condition.reason),
            ("message", &condition.message),
            ("lastTransitionTime", now.as_str()),
        ]
        .map(|(field, text)| (field, Value::from(text))),
    );
    entry.retain(|_, value| !value.is_empty());
    let Some(known) = known else { return conditions.push(entry.into()) };
    let since = known.at(&["lastTransitionTime"]).filter(|since| !since.is_empty());
    if let Some(since) = since.filter(|_| known.str_at(&["status"]) == condition.status) {
        entry.insert("lastTransitionTime", since.clone());
    }
    if let Some(generation) = known.at(&["observedGeneration"]) {
        entry.insert("observedGeneration", generation.clone());
    }
    *known = entry.into();
}

/// Removes a condition.
pub fn remove_condition(definition: &mut Value, ty: &str) {
    definition
        .make_list(&["status"], "conditions")
        .retain(|condition| condition.str_at(&["type"]) != ty);
}

/// Removes a finalizer.
pub fn remove_finalizer(definition: &mut Value, name: &str) {
    definition
        .make_list(&["metadata"], "finalizers")
        .retain(|finalizer| finalizer.as_str() != Some(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_remembers_when_its_status_changed() {
        let mut definition = Value::Map(Map::new());
        let first = Condition::new("Established", "False", "Installing", "");
        let now = Time::now(&kevel_clock::Clock::system());
        set_condition(&mut definition, &first, now);
        let path = ["status", "conditions"];
        let old = "2020-01-01T00:00:00Z";
        if let Some(Value::List(list)) = definition.at_mut(&path) {
            list[0].as_map_mut().unwrap().insert("lastTransitionTime", old.into());
        }
        for (status, reason, kept) in [("False", "Other", true), ("True", "Done", false)] {
            let condition = Condition::new("Established", status, reason, "x");
            set_condition(&mut definition, &condition, now);
            let [condition] = definition.list_at(&path) else { panic!("one condition") };
            assert_eq!(condition.str_at(&["reason"]), reason);
            assert_eq!(condition.str_at(&["lastTransitionTime"]) == old, kept, "{status}");
        }
        assert!(Definition(&definition).is("Established"));
        remove_condition(&mut definition, "Established");
        assert!(Definition(&definition).condition("Established").is_none());
    }
}
