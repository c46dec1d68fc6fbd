//! Several authorizers, in order.

use std::sync::Arc;

use super::{Attributes, Authorizer, Decision, Opinion, Rules};
use kevel_component::future::Pending;
use kevel_registry::user::User;

/// Asks authorizers in order until one allows or denies. Without members, nothing is allowed.
#[derive(Clone, Default)]
pub struct Union(Vec<Arc<dyn Authorizer>>);

impl std::fmt::Debug for Union {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Union of {} authorizers", self.0.len())
    }
}

impl Union {
    /// A union of authorizers, in order.
    pub fn new(members: Vec<Arc<dyn Authorizer>>) -> Self {
        Union(members)
    }
}

impl Authorizer for Union {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        Box::pin(async move {
            let (mut reasons, mut errors) = (Vec::new(), Vec::new());
            for member in &self.0 {
                let opinion = member.authorize(attributes).await;
                if opinion.decision != Decision::NoOpinion {
                    return opinion;
                }
                errors.extend(opinion.error);
                if !opinion.reason.is_empty() {
                    reasons.push(opinion.reason);
                }
            }
            Opinion {
                error: kevel_registry::failure::aggregate(errors),
                ..Opinion::none(reasons.join("\n"))
            }
        })
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        let mut rules = Rules::default();
        self.0.iter().for_each(|member| rules.extend(member.rules_for(user, namespace)));
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AlwaysAllow, AlwaysDeny, PrivilegedGroups};
    use super::*;
    use crate::request_info::RequestInfo;

    struct Says(Opinion);

    impl Authorizer for Says {
        fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> Pending<'a, Opinion> {
            Box::pin(std::future::ready(self.0.clone()))
        }
    }

    async fn ask(members: Vec<Arc<dyn Authorizer>>, groups: &[&str]) -> Opinion {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        let user = User { name: "jane".into(), groups, ..User::default() };
        let info = RequestInfo::default();
        Union::new(members).authorize(&Attributes::of(&info, &user)).await
    }

    #[tokio::test]
    async fn the_first_who_decides_decides() {
        let failed = Opinion { error: Some("no lister".into()), ..Opinion::none("not found") };
        let privileged = || Arc::new(PrivilegedGroups::default()) as Arc<dyn Authorizer>;
        for (members, groups, expected) in [
            (vec![], &[][..], Opinion::none("")),
            (vec![privileged(), Arc::new(AlwaysAllow) as _], &[], Opinion::allow()),
            (
                vec![privileged(), Arc::new(AlwaysDeny) as _],
                &[],
                Opinion::none("Everything is forbidden."),
            ),
            (vec![privileged(), Arc::new(AlwaysDeny) as _], &["system:masters"], Opinion::allow()),
            (
                vec![Arc::new(Says(Opinion::deny("no"))) as _, Arc::new(AlwaysAllow) as _],
                &[],
                Opinion::deny("no"),
            ),
            (
                vec![Arc::new(Says(failed.clone())) as _, Arc::new(AlwaysDeny) as _],
                &[],
                Opinion {
                    error: Some("no lister".into()),
                    ..Opinion::none("not found\nEverything is forbidden.")
                },
            ),
            (vec![Arc::new(Says(failed)) as _, Arc::new(AlwaysAllow) as _], &[], Opinion::allow()),
        ] {
            assert_eq!(ask(members, groups).await, expected);
        }
    }
}
