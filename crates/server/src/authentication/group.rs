//! `system:authenticated`: the group of all authenticated users.

use std::sync::Arc;

use super::{Authenticated, Authenticator};
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::user::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, User};

/// Adds users to the group `system:authenticated`.
#[derive(Clone, Debug)]
pub struct AuthenticatedGroup<A>(pub A);

impl<A: Authenticator> Authenticator for AuthenticatedGroup<A> {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        Box::pin(async move {
            let user = self.0.authenticate(request).await?;
            Ok(user.map(|user| if is_grouped(&user) { user } else { joined(user) }))
        })
    }
}

fn joined(user: Arc<User>) -> Arc<User> {
    Arc::new(in_authenticated_group(Arc::unwrap_or_clone(user)))
}

/// The user as a member of `system:authenticated`. Authenticators that cache users call this once, instead of for each
/// request.
pub(super) fn in_authenticated_group(mut user: User) -> User {
    if !is_grouped(&user) {
        user.groups.push(ALL_AUTHENTICATED.to_owned());
    }
    user
}

fn is_grouped(user: &User) -> bool {
    let of_all = |group: &String| group == ALL_AUTHENTICATED || group == ALL_UNAUTHENTICATED;
    user.name == ANONYMOUS || user.groups.iter().any(of_all)
}
