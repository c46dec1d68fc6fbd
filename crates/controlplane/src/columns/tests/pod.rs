//! Cells of pods by the state of their containers.

use kevel_api::value::Value;
use kevel_registry::columns::Columns as _;

use super::{now, object, of};

#[test]
fn pods_are_told_by_what_their_containers_do() {
    const TWO: &str = r#""containers":[{"name":"a"},{"name":"b"}]"#;
    const INIT: &str =
        r#""initContainers":[{"name":"i"},{"name":"j"}],"containers":[{"name":"a"}]"#;
    const SIDECAR: &str =
        r#""initContainers":[{"name":"s","restartPolicy":"Always"}],"containers":[{"name":"a"}]"#;
    for (spec, status, ready, reason, restarts) in [
        (TWO, r#""phase":"Pending""#, "0/2", "Pending", "0"),
        (TWO, r#""phase":"Failed","reason":"Evicted""#, "0/2", "Evicted", "0"),
        (
            TWO,
            r#""phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"SchedulingGated"}]"#,
            "0/2",
            "SchedulingGated",
            "0",
        ),
        (
            TWO,
            r#""phase":"Running","containerStatuses":[{"name":"a","ready":true,"state":{"running":{}}},{"name":"b","ready":true,"state":{"running":{}},"restartCount":2}]"#,
            "2/2",
            "Running",
            "2",
        ),
        (
            TWO,
            r#""phase":"Running","containerStatuses":[{"name":"a","restartCount":1,"lastState":{"terminated":{"exitCode":1,"finishedAt":"2026-01-01T00:04:00Z"}},"state":{"waiting":{"reason":"CrashLoopBackOff"}}},{"name":"b","restartCount":1,"lastState":{"terminated":{"exitCode":1,"finishedAt":"2026-01-01T00:03:00Z"}},"state":{"terminated":{"exitCode":2}}}]"#,
            "0/2",
            "CrashLoopBackOff",
            "2 (60s ago)",
        ),
        (
            TWO,
            r#""phase":"Running","containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0,"signal":9}}}]"#,
            "0/2",
            "Signal:9",
            "0",
        ),
        (
            TWO,
            r#""phase":"Running","containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":3}}}]"#,
            "0/2",
            "ExitCode:3",
            "0",
        ),
        (
            TWO,
            r#""phase":"Running","conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0,"reason":"Completed"}}},{"name":"b","ready":true,"state":{"running":{}}}]"#,
            "1/2",
            "Running",
            "0",
        ),
        (
            TWO,
            r#""phase":"Running","containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0,"reason":"Completed"}}},{"name":"b","ready":true,"state":{"running":{}}}]"#,
            "1/2",
            "NotReady",
            "0",
        ),
        (
            TWO,
            r#""phase":"Failed","containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0,"reason":"Completed"}}},{"name":"b","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]"#,
            "0/2",
            "OOMKilled",
            "0",
        ),
        (
            INIT,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","restartCount":3,"state":{"terminated":{"exitCode":0}}},{"name":"j","state":{"running":{}}}]"#,
            "0/1",
            "Init:1/2",
            "3",
        ),
        (
            INIT,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":5}}}]"#,
            "0/1",
            "Init:ExitCode:5",
            "0",
        ),
        (
            INIT,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":1,"signal":9}}}]"#,
            "0/1",
            "Init:Signal:9",
            "0",
        ),
        (
            INIT,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":1,"reason":"Error"}}}]"#,
            "0/1",
            "Init:Error",
            "0",
        ),
        (
            INIT,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","state":{"waiting":{"reason":"ImagePullBackOff"}}}]"#,
            "0/1",
            "Init:ImagePullBackOff",
            "0",
        ),
        (
            INIT,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","state":{"waiting":{"reason":"PodInitializing"}}}]"#,
            "0/1",
            "Init:0/2",
            "0",
        ),
        (
            INIT,
            r#""phase":"Running","initContainerStatuses":[{"name":"i","restartCount":3,"state":{"terminated":{"exitCode":0}}}],"containerStatuses":[{"name":"a","restartCount":1,"ready":true,"state":{"running":{}}}]"#,
            "1/1",
            "Running",
            "1",
        ),
        (
            INIT,
            r#""phase":"Running","conditions":[{"type":"Initialized","status":"True"}],"initContainerStatuses":[{"name":"i","restartCount":3,"state":{"running":{}}}],"containerStatuses":[{"name":"a","restartCount":1,"ready":true,"state":{"running":{}}}]"#,
            "1/1",
            "Init:0/2",
            "1",
        ),
        (
            SIDECAR,
            r#""phase":"Running","initContainerStatuses":[{"name":"s","restartCount":4,"started":true,"ready":true,"state":{"running":{}},"lastState":{"terminated":{"exitCode":1,"finishedAt":"2026-01-01T00:04:58Z"}}}],"containerStatuses":[{"name":"a","ready":true,"restartCount":1,"state":{"running":{}}}]"#,
            "2/2",
            "Running",
            "5 (2s ago)",
        ),
        (
            SIDECAR,
            r#""phase":"Pending","initContainerStatuses":[{"name":"s","started":false,"state":{"running":{}}}]"#,
            "0/2",
            "Init:0/1",
            "0",
        ),
    ] {
        let pod =
            object("", "v1", "Pod", &format!(r#"{{"spec":{{{spec}}},"status":{{{status}}}}}"#));
        let shown = of("", "pods").cells(&pod, now());
        let shown: Vec<_> = shown[1..4].iter().filter_map(Value::as_str).collect();
        assert_eq!(shown, [ready, reason, restarts], "{status}");
    }
}

#[test]
fn pods_that_are_deleted_say_so_until_they_have_ended() {
    for (status, expected) in [
        (r#""phase":"Running""#, "Terminating"),
        (r#""phase":"Running","reason":"NodeLost""#, "Unknown"),
        (
            r#""phase":"Succeeded","containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]"#,
            "Completed",
        ),
    ] {
        let rest = format!(
            r#"{{"metadata":{{"deletionTimestamp":"2026-01-01T00:04:00Z"}},"status":{{{status}}}}}"#
        );
        let shown = of("", "pods").cells(&object("", "v1", "Pod", &rest), now());
        assert_eq!(shown[2].as_str(), Some(expected), "{status}");
    }
}

#[test]
fn wide_tables_say_where_a_pod_is() {
    for (rest, expected) in [
        ("{}", ["<none>", "<none>", "<none>", "<none>"]),
        (
            r#"{"spec":{"nodeName":"h","readinessGates":[{"conditionType":"a"},{"conditionType":"b"}]},"status":{"podIPs":[{"ip":"10.0.0.2"}],"nominatedNodeName":"o","conditions":[{"type":"b","status":"True"}]}}"#,
            ["10.0.0.2", "h", "o", "1/2"],
        ),
        (
            r#"{"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.2"}]}}"#,
            ["10.0.0.1", "<none>", "<none>", "<none>"],
        ),
    ] {
        let shown = of("", "pods").cells(&object("", "v1", "Pod", rest), now());
        let shown: Vec<_> = shown[5..].iter().filter_map(Value::as_str).collect();
        assert_eq!(shown, expected, "{rest}");
    }
}

#[test]
fn pods_that_have_ended_are_marked() {
    for (phase, expected) in
        [("Running", None), ("Succeeded", Some("Succeeded")), ("Failed", Some("Failed"))]
    {
        let pod = object("", "v1", "Pod", &format!(r#"{{"status":{{"phase":"{phase}"}}}}"#));
        let completed = of("", "pods").completed(&pod);
        assert_eq!(completed.map(|completed| completed.reason), expected, "{phase}");
    }
}
