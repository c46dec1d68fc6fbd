//! `--anonymous-auth`: requests without credentials get the user `system:anonymous`.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use super::{Authenticated, Authenticator};
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::user::User;

/// Authenticates every request as `system:anonymous`.
#[derive(Clone, Debug, Default)]
pub struct Anonymous {
    /// Paths that anonymous requests are limited to, if any.
    pub paths: HashSet<String>,
}

static USER: LazyLock<Arc<User>> = LazyLock::new(|| Arc::new(User::anonymous()));

impl Authenticator for Anonymous {
    fn authenticate<'a>(&'a self, request: &'a mut Request) -> Pending<'a, Authenticated> {
        let here = self.paths.is_empty() || self.paths.contains(&request.info.path);
        Box::pin(std::future::ready(Ok(here.then(|| USER.clone()))))
    }
}
