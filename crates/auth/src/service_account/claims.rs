//! Claims of service account tokens.

use kevel_api::value::{Map, Value};

use crate::jose::time_claim;

/// Reference to an object by name and UID; a later object of the same name has another UID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// Name of the object.
    pub name: String,
    /// UID of the object.
    pub uid: String,
}

impl Reference {
    /// Reference to an object.
    pub fn of(object: &Value) -> Self {
        let text = |field| object.str_at(&["metadata", field]).to_owned();
        Reference { name: text("name"), uid: text("uid") }
    }

    fn read(claims: &Value) -> Self {
        let text = |field| claims.str_at(&[field]).to_owned();
        Reference { name: text("name"), uid: text("uid") }
    }

    fn write(&self) -> Value {
        let fields = [("name", &self.name), ("uid", &self.uid)];
        let fields = fields.into_iter().filter(|(_, text)| !text.is_empty());
        Map::from_iter(fields.map(|(name, text)| (name, Value::from(text.as_str())))).into()
    }
}

/// Private claims under `kubernetes.io`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KubernetesClaims {
    pub namespace: String,
    pub account: Reference,
    pub pod: Option<Reference>,
    pub secret: Option<Reference>,
    pub node: Option<Reference>,
    /// Time after which a use counts as stale: the token should have been renewed.
    pub warn_after: Option<i64>,
}

const CLAIM: &str = "kubernetes.io";

impl KubernetesClaims {
    pub fn read(claims: &Value) -> Result<Self, String> {
        let empty = Value::Map(Map::new());
        let own = claims.at(&[CLAIM]).unwrap_or(&empty);
        let reference = |name: &str| own.at(&[name]).map(Reference::read);
        Ok(KubernetesClaims {
            namespace: own.str_at(&["namespace"]).to_owned(),
            account: reference("serviceaccount").unwrap_or_default(),
            pod: reference("pod"),
            secret: reference("secret"),
            node: reference("node"),
            warn_after: time_claim(own, "warnafter")?,
        })
    }

    pub fn write(&self, claims: &mut Map) {
        let mut own = Map::from_iter([
            ("namespace", Value::from(self.namespace.as_str())),
            ("serviceaccount", self.account.write()),
        ]);
        let references = [("pod", &self.pod), ("secret", &self.secret), ("node", &self.node)];
        for (name, reference) in references {
            if let Some(reference) = reference {
                own.insert(name, reference.write());
            }
        }
        if let Some(time) = self.warn_after {
            own.insert("warnafter", time.into());
        }
        claims.insert(CLAIM, own.into());
    }
}
