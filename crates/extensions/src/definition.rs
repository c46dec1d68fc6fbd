//! What custom resource definitions say, in the version `apiextensions.k8s.io/v1`.

use kevel_api::time::Time;
use kevel_api::value::{Map, Value};

/// The group of definitions.
pub const GROUP: &str = "apiextensions.k8s.io";
/// What definitions are called in a path.
pub const PLURAL: &str = "customresourcedefinitions";
/// What keeps a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The types of conditions.
pub mod condition {
    /// Nobody else in the group has the names.
    pub const NAMES_ACCEPTED: &str = "NamesAccepted";
    /// It is served.
    pub const ESTABLISHED: &str = "Established";
    /// Its objects are being deleted, before it is.
    pub const TERMINATING: &str = "Terminating";
    /// A schema is not structural.
    pub const NON_STRUCTURAL_SCHEMA: &str = "NonStructuralSchema";
    /// A group of `k8s.io` has been approved by its owners.
    pub const API_APPROVED: &str = "KubernetesAPIApprovalPolicyConformant";
}

/// A custom resource definition.
#[derive(Clone, Copy, Debug)]
pub struct Definition<'v>(pub &'v Value);

impl<'v> Definition<'v> {
    /// `widgets.example.com`
    pub fn name(self) -> &'v str {
        self.0.str_at(&["metadata", "name"])
    }

    /// The UID of the definition.
    pub fn uid(self) -> &'v str {
        self.0.str_at(&["metadata", "uid"])
    }

    /// The group of what it defines.
    pub fn group(self) -> &'v str {
        self.0.str_at(&["spec", "group"])
    }

    /// Whether its objects are in namespaces.
    pub fn is_namespaced(self) -> bool {
        self.0.str_at(&["spec", "scope"]) == "Namespaced"
    }

    /// The names that are wanted.
    pub fn names(self) -> Names<'v> {
        Names(self.0.at(&["spec", "names"]))
    }

    /// The names that it has.
    pub fn accepted_names(self) -> Names<'v> {
        Names(self.0.at(&["status", "acceptedNames"]))
    }

    /// Its versions, in the order in which they are written.
    pub fn versions(self) -> impl Iterator<Item = Version<'v>> + Clone {
        self.0.list_at(&["spec", "versions"]).iter().map(Version)
    }

    /// The version that objects are stored in.
    pub fn storage_version(self) -> Option<&'v str> {
        self.versions().find(|version| version.is_stored()).map(Version::name)
    }

    /// Whether objects keep what their schemas do not name: definitions from before 1.16 may say so.
    pub fn preserves_unknown_fields(self) -> bool {
        flag(self.0, &["spec", "preserveUnknownFields"])
    }

    /// The condition of a type.
    pub fn condition(self, ty: &str) -> Option<Condition<'v>> {
        let conditions = self.0.list_at(&["status", "conditions"]).iter().map(Condition::read);
        conditions.into_iter().find(|condition| condition.ty == ty)
    }

    /// Whether a condition is there and true.
    pub fn is(self, ty: &str) -> bool {
        self.condition(ty).is_some_and(|condition| condition.status == "True")
    }

    /// Whether it is to be deleted.
    pub fn is_being_deleted(self) -> bool {
        !self.0.str_at(&["metadata", "deletionTimestamp"]).is_empty()
    }

    /// Whether a finalizer holds it.
    pub fn has_finalizer(self, name: &str) -> bool {
        let finalizers = self.0.list_at(&["metadata", "finalizers"]);
        finalizers.iter().any(|finalizer| finalizer.as_str() == Some(name))
    }
}

/// What a custom kind is called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Names<'v>(Option<&'v Value>);

impl<'v> Names<'v> {
    /// The names that stand in a definition's `names` or `acceptedNames`.
    pub fn new(names: Option<&'v Value>) -> Self {
        Names(names)
    }

    /// A name, as `spec.names` or `status.acceptedNames` has it.
    pub fn get(self, field: &str) -> &'v str {
        self.0.map_or("", |names| names.str_at(&[field]))
    }

    /// What all of its objects are called in paths.
    pub fn plural(self) -> &'v str {
        self.get("plural")
    }

    /// What one of its objects is called.
    pub fn singular(self) -> &'v str {
        self.get("singular")
    }

    /// The kind of its objects.
    pub fn kind(self) -> &'v str {
        self.get("kind")
    }

    /// The kind of lists of them.
    pub fn list_kind(self) -> &'v str {
        self.get("listKind")
    }

    /// Short names, as `kubectl` takes them.
    pub fn short_names(self) -> Vec<&'v str> {
        self.list("shortNames")
    }

    /// Groups of resources it belongs to, such as `all`.
    pub fn categories(self) -> Vec<&'v str> {
        self.list("categories")
    }

    fn list(self, field: &str) -> Vec<&'v str> {
        let list = self.0.map_or(&[][..], |names| names.list_at(&[field]));
        list.iter().filter_map(Value::as_str).collect()
    }
}

/// A version of a custom kind.
#[derive(Clone, Copy, Debug)]
pub struct Version<'v>(&'v Value);

impl<'v> Version<'v> {
    /// The name of the version.
    pub fn name(self) -> &'v str {
        self.0.str_at(&["name"])
    }

    /// Whether it is served.
    pub fn is_served(self) -> bool {
        flag(self.0, &["served"])
    }

    /// Whether it is the version that objects are stored in.
    pub fn is_stored(self) -> bool {
        flag(self.0, &["storage"])
    }

    /// Whether it is on its way out.
    pub fn is_deprecated(self) -> bool {
        flag(self.0, &["deprecated"])
    }

    /// What those who use a deprecated version are told, if not the usual.
    pub fn deprecation_warning(self) -> Option<&'v str> {
        self.0.at(&["deprecationWarning"]).and_then(Value::as_str)
    }

    /// The schema of its objects.
    pub fn schema(self) -> Option<&'v Value> {
        self.0.at(&["schema", "openAPIV3Schema"])
    }

    /// Whether `status` is written apart.
    pub fn has_status(self) -> bool {
        self.0.at(&["subresources", "status"]).is_some()
    }

    /// What `scale` is made of, if there is one.
    pub fn scale(self) -> Option<&'v Value> {
        self.0.at(&["subresources", "scale"])
    }

    /// The columns that it declares.
    pub fn columns(self) -> &'v [Value] {
        self.0.list_at(&["additionalPrinterColumns"])
    }

    /// What selectors may name: `spec.color`.
    pub fn selectable_fields(self) -> impl Iterator<Item = &'v str> {
        let paths = self.0.list_at(&["selectableFields"]).iter();
        paths.map(|field| field.str_at(&["jsonPath"])).map(|path| path.trim_start_matches('.'))
    }
}

fn flag(value: &Value, path: &[&str]) -> bool {
    value.at(path).and_then(Value::as_bool) == Some(true)
}

/// What is known about a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition<'v> {
    /// Which condition it is.
    pub ty: &'v str,
    /// `True`, `False` or `Unknown`.
    pub status: &'v str,
    /// Why, in a word.
    pub reason: &'v str,
    /// Why, in a sentence.
    pub message: std::borrow::Cow<'v, str>,
}

impl<'v> Condition<'v> {
    /// A condition that begins now.
    pub const fn new(ty: &'v str, status: &'v str, reason: &'v str, message: &'v str) -> Self {
        Condition { ty, status, reason, message: std::borrow::Cow::Borrowed(message) }
    }

    fn read(value: &'v Value) -> Self {
        let text = |field| value.str_at(&[field]);
        Condition::new(text("type"), text("status"), text("reason"), text("message"))
    }
}

/// Sets a condition. When it last changed is when its status did.
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
