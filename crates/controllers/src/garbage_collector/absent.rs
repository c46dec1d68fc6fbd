//! Owners that are known not to exist.

use std::collections::{BTreeMap, HashMap};

use super::identity::ObjectIdentity;

/// Absent owners that are remembered (upstream: the size of `absentOwnerCache`).
const MAX: usize = 500;

/// Owners that do not exist, so that many dependents cost one look-up. The least recently used is forgotten first.
#[derive(Debug, Default)]
pub(super) struct AbsentOwners {
    used: HashMap<ObjectIdentity, u64>,
    by_use: BTreeMap<u64, ObjectIdentity>,
    clock: u64,
}

impl AbsentOwners {
    pub fn add(&mut self, identity: ObjectIdentity) {
        self.clock += 1;
        if let Some(before) = self.used.insert(identity.clone(), self.clock) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.clock, identity);
        if self.used.len() > MAX
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.used.remove(&oldest);
        }
    }

    pub fn has(&mut self, identity: &ObjectIdentity) -> bool {
        let known = self.used.contains_key(identity);
        if known {
            self.add(identity.clone());
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_owner_is_forgotten() {
        let identity = |uid: usize| ObjectIdentity {
            kind: "Pod".into(),
            api_version: "v1".into(),
            namespace: "a".into(),
            name: "b".into(),
            uid: uid.to_string().into(),
        };
        let mut absent = AbsentOwners::default();
        (0..MAX).for_each(|uid| absent.add(identity(uid)));
        assert!(absent.has(&identity(0)));
        absent.add(identity(MAX));
        assert!(absent.has(&identity(0)));
        assert!(!absent.has(&identity(1)));
        assert_eq!(absent.used.len(), absent.by_use.len());
    }
}
