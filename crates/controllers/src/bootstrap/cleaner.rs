//! Deletes bootstrap tokens that have expired.

use super::{expiration, is_token};
use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::expiry::Expiry;
use crate::lister::CacheLister;
use crate::unavailable::Unavailable;

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let expiry = Expiry {
        name: "token-cleaner-controller",
        queue: "token_cleaner",
        client: context.client("token-cleaner"),
        objects: CacheLister::new(context.storage("", "secrets")?),
        path: |namespace, name| format!("/api/v1/namespaces/{namespace}/secrets/{name}"),
        end: |secret| if is_token(secret) { expiration(secret) } else { None },
        bound: true,
    };
    Ok(expiry.build(context))
}
