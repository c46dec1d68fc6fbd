//! Selection of a pod's container and of the kubelet that runs it.

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_server::connecter::ConnectRequest;

use crate::kubelet::{ConnectionInfo, NodeConnectionInfoGetter};

/// The named container, which must exist, or the only one.
pub fn container<'p>(pod: &'p Value, named: &'p str) -> Result<&'p str, StatusError> {
    let name = pod.str_at(&["metadata", "name"]);
    let all = || {
        let lists = ["initContainers", "containers", "ephemeralContainers"].into_iter();
        let lists = lists.flat_map(|list| pod.list_at(&["spec", list]));
        lists.map(|container| container.str_at(&["name"]))
    };
    let wrong = |why: String| Err(StatusError::bad_request(why));
    match (named, pod.list_at(&["spec", "containers"])) {
        ("", [only]) => Ok(only.str_at(&["name"])),
        ("", []) => wrong(format!("a container name must be specified for pod {name}")),
        ("", _) => {
            let choice = all().collect::<Vec<_>>().join(" ");
            wrong(format!(
                "a container name must be specified for pod {name}, choose one of: [{choice}]"
            ))
        }
        (named, _) if all().any(|known| known == named) => Ok(named),
        (named, _) => wrong(format!("container {named} is not valid for pod {name}")),
    }
}

/// Connection info of the kubelet on a pod's node; `None` if the pod is not bound.
pub async fn kubelet_of(
    pod: &Value,
    request: &ConnectRequest<'_>,
    kubelets: &NodeConnectionInfoGetter,
) -> Result<Option<ConnectionInfo>, StatusError> {
    match pod.str_at(&["spec", "nodeName"]) {
        "" => Ok(None),
        node => kubelets.connection_info(request, node).await.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    #[test]
    fn a_container_is_named_unless_there_is_one_alone() {
        let pod = |spec: &str| {
            let text = format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#);
            decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
        };
        let one = r#"{"initContainers":[{"name":"i"}],"containers":[{"name":"a"}]}"#;
        let two = r#"{"initContainers":[{"name":"i"}],"containers":[{"name":"a"},{"name":"b"}],
                      "ephemeralContainers":[{"name":"e"}]}"#;
        for (spec, named, expected) in [
            (one, "", Ok("a")),
            (one, "i", Ok("i")),
            (two, "e", Ok("e")),
            (one, "x", Err("container x is not valid for pod p")),
            (
                two,
                "",
                Err("a container name must be specified for pod p, choose one of: [i a b e]"),
            ),
            ("{}", "", Err("a container name must be specified for pod p")),
        ] {
            let pod = pod(spec);
            let found = container(&pod, named).map_err(|error| error.into_status().message);
            assert_eq!(
                found.as_deref().map_err(|error| &**error),
                expected.as_deref().map_err(|e| *e)
            );
        }
    }
}
