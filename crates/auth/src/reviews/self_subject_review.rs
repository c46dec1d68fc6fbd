//! `SelfSubjectReview`: the attributes of the requesting user.

use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_component::future::Pending;
use kevel_registry::resource::{CreateRequest, Created, Creater};
use kevel_registry::user::User;

/// Creater of `selfsubjectreviews`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SelfSubjectReview;

impl Creater for SelfSubjectReview {
    fn create<'a>(
        &'a self,
        request: &'a CreateRequest<'a>,
        object: Value,
    ) -> Pending<'a, Result<Created, StatusError>> {
        let now = Time::now(request.clock).to_string();
        let metadata = Map::from_iter([("creationTimestamp", Value::from(now.as_str()))]);
        let status = Map::from_iter([("userInfo", user_info(request.user))]);
        let mut answer = Map::from_iter([("metadata", metadata.into()), ("status", status.into())]);
        for field in ["apiVersion", "kind"] {
            answer.insert(field, object.str_at(&[field]).into());
        }
        Box::pin(std::future::ready(Ok(Created::Object(answer.into()))))
    }
}

/// UserInfo of a user.
pub(super) fn user_info(user: &User) -> Value {
    let strings = |all: &[String]| Value::List(all.iter().map(|s| s.as_str().into()).collect());
    let extra = user.extra.iter().map(|(key, values)| (key.as_str(), strings(values)));
    let fields = [
        ("username", user.name.as_str().into()),
        ("uid", user.uid.as_str().into()),
        ("groups", strings(&user.groups)),
        ("extra", Map::from_iter(extra).into()),
    ];
    Map::from_iter(fields.into_iter().filter(|(_, value): &(_, Value)| !value.is_empty())).into()
}
