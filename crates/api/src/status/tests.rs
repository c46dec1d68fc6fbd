use super::*;
use crate::field_error::{FieldError, FieldErrors, MAX_ERROR_BYTES, MAX_ERRORS, Path};
use crate::gvk::{GroupKind, GroupResource};

fn json(error: StatusError) -> String {
    String::from_utf8(error.status().to_json()).unwrap()
}

/// JSON of a failure with these fields.
fn failure(rest: &str) -> String {
    format!(r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure",{rest}}}"#)
}

#[test]
fn failures_are_written_as_the_reference_writes_them() {
    let maps = GroupResource::from_static("", "configmaps");
    let apps = GroupResource::from_static("apps", "deployments");
    let none = GroupResource::default();
    let key = "/registry/configmaps/d/x";
    for (error, rest) in [
        (
            StatusError::not_found(&maps, "none"),
            r#""message":"configmaps \"none\" not found","reason":"NotFound","details":{"name":"none","kind":"configmaps"},"code":404"#,
        ),
        (
            StatusError::already_exists(&apps, "x"),
            r#""message":"deployments.apps \"x\" already exists","reason":"AlreadyExists","details":{"name":"x","group":"apps","kind":"deployments"},"code":409"#,
        ),
        (
            StatusError::generate_name_conflict(&maps, "x-", 1),
            r#""message":"configmaps \"x-\" already exists, the server was not able to generate a unique name for the object","reason":"AlreadyExists","details":{"name":"x-","kind":"configmaps","retryAfterSeconds":1},"code":409"#,
        ),
        (
            StatusError::unauthorized("Unauthorized"),
            r#""message":"Unauthorized","reason":"Unauthorized","code":401"#,
        ),
        (
            StatusError::unauthorized(""),
            r#""message":"not authorized","reason":"Unauthorized","code":401"#,
        ),
        (
            StatusError::forbidden(&maps, "", "no"),
            r#""message":"configmaps is forbidden: no","reason":"Forbidden","details":{"kind":"configmaps"},"code":403"#,
        ),
        (
            StatusError::forbidden(&maps, "x", "no"),
            r#""message":"configmaps \"x\" is forbidden: no","reason":"Forbidden","details":{"name":"x","kind":"configmaps"},"code":403"#,
        ),
        (
            StatusError::forbidden(&none, "", "no"),
            r#""message":"forbidden: no","reason":"Forbidden","details":{},"code":403"#,
        ),
        (
            StatusError::modified(&maps, "x"),
            r#""message":"Operation cannot be fulfilled on configmaps \"x\": the object has been modified; please apply your changes to the latest version and try again","reason":"Conflict","details":{"name":"x","kind":"configmaps"},"code":409"#,
        ),
        (
            StatusError::apply_conflict(
                vec![StatusCause {
                    reason: cause::FIELD_MANAGER_CONFLICT.into(),
                    message: "conflict with \"a\" using v1".into(),
                    field: ".data.k".into(),
                }],
                0,
                "Apply failed with 1 conflict: conflict with \"a\" using v1: .data.k",
            ),
            r#""message":"Apply failed with 1 conflict: conflict with \"a\" using v1: .data.k","reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"a\" using v1","field":".data.k"}]},"code":409"#,
        ),
        (StatusError::gone("gone"), r#""message":"gone","reason":"Gone","code":410"#),
        (
            StatusError::resource_expired("too old resource version: 1 (2)"),
            r#""message":"too old resource version: 1 (2)","reason":"Expired","code":410"#,
        ),
        (
            StatusError::bad_request("<&>"),
            r#""message":"\u003c\u0026\u003e","reason":"BadRequest","code":400"#,
        ),
        (
            StatusError::too_many_requests("slow down", 10),
            r#""message":"slow down","reason":"TooManyRequests","details":{"retryAfterSeconds":10},"code":429"#,
        ),
        (
            StatusError::too_many_requests_error("x"),
            r#""message":"Too many requests: x","reason":"TooManyRequests","code":429"#,
        ),
        (
            StatusError::service_unavailable("x"),
            r#""message":"x","reason":"ServiceUnavailable","code":503"#,
        ),
        (
            StatusError::method_not_supported(&apps, "create"),
            r#""message":"create is not supported on resources of kind \"deployments.apps\"","reason":"MethodNotAllowed","details":{"group":"apps","kind":"deployments"},"code":405"#,
        ),
        (
            StatusError::server_timeout(&maps, "list", 2),
            r#""message":"The list operation against configmaps could not be completed at this time, please try again.","reason":"ServerTimeout","details":{"name":"list","kind":"configmaps","retryAfterSeconds":2},"code":500"#,
        ),
        (
            StatusError::internal("boom"),
            r#""message":"Internal error occurred: boom","reason":"InternalError","details":{"causes":[{"message":"boom"}]},"code":500"#,
        ),
        (
            StatusError::timeout("late", 0),
            r#""message":"Timeout: late","reason":"Timeout","details":{},"code":504"#,
        ),
        (
            StatusError::too_large_resource_version(99, 7, 1),
            r#""message":"Timeout: Too large resource version: 99, current: 7","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504"#,
        ),
        (
            StatusError::not_acceptable(&["application/json", "application/yaml"]),
            r#""message":"only the following media types are accepted: application/json, application/yaml","reason":"NotAcceptable","code":406"#,
        ),
        (
            StatusError::not_acceptable_conversion("meta.k8s.io/v1, Kind=Table", &["a/b"]),
            r#""message":"only the following media types are accepted when converting to meta.k8s.io/v1, Kind=Table: a/b","reason":"NotAcceptable","code":406"#,
        ),
        (
            StatusError::unsupported_media_type(&["a/b", "c/d"]),
            r#""message":"the body of the request was in an unknown format - accepted media types include: a/b, c/d","reason":"UnsupportedMediaType","code":415"#,
        ),
        (
            StatusError::request_entity_too_large("limit is 3145728"),
            r#""message":"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge","code":413"#,
        ),
        (
            StatusError::generic(404, "GET", &none, "", "404 page not found", 0, false),
            r#""message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404"#,
        ),
        (
            StatusError::generic(409, "POST", &apps, "x", "", 3, true),
            r#""message":"the server reported a conflict (post deployments.apps x)","reason":"AlreadyExists","details":{"name":"x","group":"apps","kind":"deployments","causes":[{"reason":"UnexpectedServerResponse"}],"retryAfterSeconds":3},"code":409"#,
        ),
        (
            StatusError::generic(502, "PUT", &maps, "", "bad \"x\"", 0, false),
            r#""message":"an error on the server (\"bad \\\"x\\\"\") has prevented the request from succeeding (put configmaps)","reason":"InternalError","details":{"kind":"configmaps"},"code":502"#,
        ),
        (
            StatusError::generic(418, "GET", &none, "", "", 0, false),
            r#""message":"the server responded with the status code 418 but did not return more information","details":{},"code":418"#,
        ),
        (
            StatusError::unknown(500, "resourceVersion should not be set on objects to be created"),
            r#""message":"resourceVersion should not be set on objects to be created","code":500"#,
        ),
        (
            StorageError::invalid_object(
                key,
                "Precondition failed: UID in precondition: a, UID in object meta: b",
            )
            .to_status("delete", &maps, "x"),
            r#""message":"Operation cannot be fulfilled on configmaps \"x\": StorageError: invalid object, Code: 4, Key: /registry/configmaps/d/x, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: a, UID in object meta: b","reason":"Conflict","details":{"name":"x","kind":"configmaps"},"code":409"#,
        ),
    ] {
        assert_eq!(json(error), failure(rest));
    }
}

#[test]
fn invalid_objects_list_their_errors() {
    let spec = Path::new("spec");
    let (name, ports) = (spec.child("name"), spec.child("ports"));
    let errors = [
        FieldError::required(&name, ""),
        FieldError::invalid(&ports, 0, "no"),
        FieldError::required(&name, ""),
    ];
    let kind = GroupKind::from_static("apps", "Deployment");
    assert_eq!(
        json(StatusError::invalid(&kind, "x", errors)),
        failure(
            r#""message":"Deployment.apps \"x\" is invalid: [spec.name: Required value, spec.ports: Invalid value: 0: no]","reason":"Invalid","details":{"name":"x","group":"apps","kind":"Deployment","causes":[{"reason":"FieldValueRequired","message":"Required value","field":"spec.name"},{"reason":"FieldValueInvalid","message":"Invalid value: 0: no","field":"spec.ports"},{"reason":"FieldValueRequired","message":"Required value","field":"spec.name"}]},"code":422"#
        )
    );
    assert_eq!(
        json(StatusError::invalid(&kind, "", [])),
        failure(
            r#""message":"Deployment.apps \"\" is invalid","reason":"Invalid","details":{"group":"apps","kind":"Deployment"},"code":422"#
        )
    );
}

#[test]
fn store_reports_become_statuses() {
    use StorageErrorCode::*;
    let maps = GroupResource::from_static("", "configmaps");
    for (code, operation, http_code, reason) in [
        (KeyNotFound, "get", 404, reason::NOT_FOUND),
        (KeyNotFound, "create", 500, reason::UNKNOWN),
        (KeyExists, "create", 409, reason::ALREADY_EXISTS),
        (KeyExists, "update", 409, reason::CONFLICT),
        (ResourceVersionConflicts, "update", 409, reason::CONFLICT),
        (ResourceVersionConflicts, "create", 409, reason::UNKNOWN),
        (Unreachable, "get", 500, reason::SERVER_TIMEOUT),
        (Timeout, "list", 500, reason::SERVER_TIMEOUT),
        (Timeout, "get", 500, reason::UNKNOWN),
        (CorruptObj, "get", 500, reason::INTERNAL_ERROR),
    ] {
        let error = StorageError { code, key: "k".into(), resource_version: 3, message: None };
        let status = error.to_status(operation, &maps, "x");
        assert_eq!((status.status().code, status.reason()), (http_code, reason), "{code:?}");
    }
    let error =
        StorageError { code: KeyNotFound, key: "k".into(), resource_version: 3, message: None };
    assert_eq!(
        error.to_string(),
        "StorageError: key not found, Code: 1, Key: k, ResourceVersion: 3, AdditionalErrorMsg: <nil>"
    );
}

#[test]
fn a_success_and_its_metadata() {
    let status = Status {
        metadata: ListMeta {
            resource_version: "7".into(),
            continue_token: "abc".into(),
            remaining_item_count: Some(0),
        },
        status: SUCCESS.into(),
        details: Some(Box::new(StatusDetails { uid: "u".into(), ..Default::default() })),
        ..Default::default()
    };
    assert_eq!(
        String::from_utf8(status.to_json()).unwrap(),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"abc","remainingItemCount":0},"status":"Success","details":{"uid":"u"}}"#
    );
}

/// The reference quotes every value whole and lists every error; see the limits' descriptions.
#[test]
fn answers_to_hostile_objects_are_bounded() {
    const LARGEST: usize = 8 * MAX_ERROR_BYTES;
    let kind = GroupKind::from_static("", "Pod");
    let spec = Path::new("spec");
    let check = |found: usize, value: &str, told: usize| {
        let mut errors = FieldErrors::new();
        for index in 0..found {
            errors.add(|| FieldError::invalid(&spec.index(index), value, "no"));
        }
        let status = StatusError::invalid(&kind, "x", errors).into_status();
        assert!(status.to_json().len() < LARGEST, "{} bytes", status.to_json().len());
        let causes = status.details.as_ref().map(|details| &details.causes[..]).unwrap();
        assert_eq!(causes.len(), told + usize::from(found > told));
        if found > told {
            let more = format!("{} more errors", found - told);
            assert_eq!(causes[told].message, more);
            assert!(status.message.ends_with(&format!(", {more}]")), "{}", status.message.len());
        }
    };
    check(MAX_ERRORS, "a", MAX_ERRORS);
    check(100_000, "a", MAX_ERRORS);
    check(100, &"a".repeat(3 << 20), 4);
    // Each character takes ten bytes when quoted, and a backslash more as JSON.
    check(100, &"\u{10ffff}".repeat(1 << 18), 2);

    let long = "x".repeat(3 << 20);
    let name = GroupResource::from_static("", "pods");
    for error in [
        StatusError::bad_request(long.clone()),
        StatusError::internal(&long),
        StatusError::forbidden(&name, "a", &long),
        StatusError::apply_conflict([], 5, long.clone()),
    ] {
        assert!(error.status().to_json().len() < LARGEST);
    }
}
