//! Plans as text: endpoints by slice.

use kevel_codec::json;

use super::*;

fn parse(text: &str) -> Value {
    json::decode_any(text.as_bytes(), json::Unknown::Ignore).unwrap().value
}

fn service() -> Value {
    parse(
        r#"{"metadata":{"namespace":"a","name":"s","uid":"u","labels":{"l":"1"}},
            "spec":{"clusterIP":"10.0.0.1","ipFamilies":["IPv4"],
                    "ports":[{"port":80,"protocol":"TCP","targetPort":8080}]}}"#,
    )
}

fn pods(numbers: std::ops::Range<usize>) -> Vec<Arc<EndpointPod>> {
    let pod = |number: usize| {
        let pod = format!(
            r#"{{"metadata":{{"namespace":"a","name":"p{number:03}"}},"spec":{{"nodeName":"n"}},
                "status":{{"podIPs":[{{"ip":"10.1.0.{number}"}}],
                           "conditions":[{{"type":"Ready","status":"True"}}]}}}}"#
        );
        Arc::new(EndpointPod::read(&parse(&pod)))
    };
    numbers.map(pod).collect()
}

fn planned(pods: &[Arc<EndpointPod>], existing: &[Value]) -> SliceChanges {
    let planned = plan(&service(), pods, &|_| Some(None), existing, "IPv4");
    assert_eq!(planned.errors, [""; 0]);
    planned.changes
}

/// Slices as the server would have stored them.
fn stored(slices: Vec<Value>) -> Vec<Value> {
    let named = |(at, mut slice): (usize, Value)| {
        slice.make_map(&["metadata"]).insert("name", format!("s{at}").as_str().into());
        // Decoded objects have no empty lists.
        slice.make_map(&[]).retain(|_, value| value.as_list().is_none_or(|list| !list.is_empty()));
        slice
    };
    slices.into_iter().enumerate().map(named).collect()
}

fn sizes(slices: &[Value]) -> Vec<usize> {
    slices.iter().map(|slice| slice.list_at(&["endpoints"]).len()).collect()
}

#[test]
fn slices_hold_a_hundred_endpoints_and_are_filled_up() {
    let changes = planned(&pods(0..150), &[]);
    assert_eq!(sizes(&changes.create), [100, 50]);
    let existing = stored(changes.create);
    let changes = planned(&pods(0..150), &existing);
    assert_eq!((changes.create.len(), changes.update.len(), changes.delete.len()), (0, 0, 0));
    let changes = planned(&pods(0..160), &existing);
    assert_eq!((sizes(&changes.create), sizes(&changes.update)), (vec![], vec![60]));
    // Five go from the first slice, which takes the new one.
    let changes = planned(&pods(5..151), &existing);
    assert_eq!((sizes(&changes.create), sizes(&changes.update)), (vec![], vec![96]));
}

#[test]
fn the_last_slice_of_a_service_stays_empty() {
    let changes = planned(&[], &[]);
    assert_eq!(sizes(&changes.create), [0]);
    let existing = stored(changes.create);
    let changes = planned(&[], &existing);
    assert_eq!((changes.create.len(), changes.update.len(), changes.delete.len()), (0, 0, 0));
    let mut changes = planned(&pods(0..1), &existing);
    changes.recycle(|_| true);
    assert_eq!((sizes(&changes.update), changes.create.len()), (vec![1], 0));
}

#[test]
fn a_pod_on_an_unknown_node_is_an_error() {
    let planned = plan(&service(), &pods(0..1), &|_| None, &[], "IPv4");
    assert_eq!(planned.errors, ["skipping Pod p000 for Service a/s: Node n Not Found"]);
    assert_eq!(sizes(&planned.changes.create), [0]);
}

#[test]
fn slices_of_an_earlier_service_are_deleted() {
    let mut existing = stored(planned(&pods(0..1), &[]).create);
    let owner = &mut existing[0].make_list(&["metadata"], "ownerReferences")[0];
    owner.make_map(&[]).insert("uid", "other".into());
    let changes = planned(&pods(0..1), &existing);
    assert_eq!((changes.create.len(), changes.delete.len()), (1, 1));
}

#[test]
fn hints_follow_the_traffic_distribution() {
    let mut service = service();
    service.make_map(&["spec"]).insert("trafficDistribution", "PreferSameNode".into());
    let zone = |_: &str| Some(Some("z".to_owned()));
    let changes = plan(&service, &pods(0..1), &zone, &[], "IPv4").changes;
    let hints = changes.create[0].list_at(&["endpoints"])[0].at(&["hints"]).cloned();
    let expected = parse(r#"{"forZones":[{"name":"z"}],"forNodes":[{"name":"n"}]}"#);
    assert_eq!(hints, Some(expected));
    service.make_map(&["spec"]).remove("trafficDistribution");
    let changes = plan(&service, &pods(0..1), &zone, &stored(changes.create), "IPv4").changes;
    assert_eq!(changes.update.len(), 1);
    assert_eq!(changes.update[0].list_at(&["endpoints"])[0].at(&["hints"]), None);
}
