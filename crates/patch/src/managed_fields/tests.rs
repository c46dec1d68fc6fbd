mod records;
mod versions;

use kevel_api::builtin;
use kevel_api::schema::Schema;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_codec::json::{Unknown, decode, decode_any, encode_any};

use super::{ApplyError, FieldManager, Filter, OtherVersions, Set};

/// An object that is written once per second.
struct Object {
    kind: &'static str,
    api_version: &'static str,
    schema: Schema<'static>,
    live: Option<Value>,
    clock: Time,
}

impl Object {
    fn new(kind: &'static str) -> Object {
        let (group, api_version) = match kind {
            "Deployment" => ("apps", "apps/v1"),
            _ => ("", "v1"),
        };
        let schema = builtin::schema(group, "v1", kind).unwrap();
        Object { kind, api_version, schema, live: None, clock: Time { seconds: 0 } }
    }

    fn manager<'a>(&'a self, subresource: &'a str, filter: &'a Filter) -> FieldManager<'a> {
        FieldManager {
            schema: self.schema,
            api_version: self.api_version,
            kind: self.kind,
            subresource,
            filter,
            others: &(),
        }
    }

    fn update(&mut self, manager: &str, subresource: &str, json: &str) {
        self.clock.seconds += 1;
        let filter = match subresource {
            "status" => Filter::excluding(&[&["spec"]]),
            _ => Filter::excluding(&[&["status"]]),
        };
        let mut new = decode(json.as_bytes(), self.schema, Unknown::Ignore).unwrap().value;
        self.manager(subresource, &filter).update(
            self.live.as_ref(),
            &mut new,
            manager,
            self.clock,
        );
        self.store(new);
    }

    fn apply(&mut self, manager: &str, force: bool, json: &str) -> Result<(), ApplyError> {
        self.clock.seconds += 1;
        let filter = Filter::excluding(&[&["status"]]);
        let mut config = decode_any(json.as_bytes(), Unknown::Ignore).unwrap().value;
        if let Value::Map(map) = &mut config {
            map.insert("apiVersion", Value::from(self.api_version));
            map.insert("kind", Value::from(self.kind));
        }
        let field_manager = self.manager("", &filter);
        let tree = field_manager.apply(self.live.as_ref(), &config, manager, force, self.clock)?;
        let mut json = Vec::new();
        encode_any(&tree, &mut json);
        self.store(decode(&json, self.schema, Unknown::Ignore).unwrap().value);
        Ok(())
    }

    fn store(&mut self, mut new: Value) {
        let map = new.as_map_mut().unwrap();
        let metadata = map.entry_or_insert_with("metadata", || Value::Map(Map::new()));
        metadata.as_map_mut().unwrap().insert("uid", Value::from("u"));
        self.live = Some(new);
    }

    /// Entries in order, as `manager operation second: fields`.
    fn managers(&self) -> Vec<String> {
        let entries = self.live.as_ref().and_then(|o| o.at(&["metadata", "managedFields"]));
        let entries = entries.and_then(Value::as_list).unwrap_or_default();
        let text = |entry: &Value| {
            let part = |key| entry.str_at(&[key]);
            let Some(Value::Raw(fields)) = entry.at(&["fieldsV1"]) else { panic!("{entry:?}") };
            let second = part("time").get(17..19).unwrap_or("--");
            let sub = part("subresource");
            let sub = if sub.is_empty() { sub.to_owned() } else { format!("/{sub}") };
            format!("{}{sub} {} {second}: {fields}", part("manager"), part("operation"))
        };
        entries.iter().map(text).collect()
    }

    fn json(&self) -> String {
        let mut live = self.live.clone().unwrap_or_default();
        if let Some(Value::Map(metadata)) = live.at_mut(&["metadata"]) {
            metadata.retain(|key, _| key != "managedFields" && key != "uid");
        }
        let mut json = Vec::new();
        encode_any(&live, &mut json);
        String::from_utf8(json).unwrap()
    }
}

#[test]
fn sets_read_and_write_the_same_bytes() {
    let fields = [
        r#"{}"#,
        r#"{"f:metadata":{"f:labels":{".":{},"f:a/b<c":{}}}}"#,
        r#"{"f:spec":{"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}"#,
        r#"{"f:set":{"v:\"x\\u003c\"":{},"v:1":{},"v:true":{}},"f:x":{"i:3":{}}}"#,
    ];
    for fields in fields {
        let set = Set::from_fields(fields).unwrap();
        let written = set.to_fields();
        assert_eq!(Set::from_fields(&written).unwrap(), set);
        if !fields.contains("f:set") {
            assert_eq!(written, fields);
        }
    }
    // Elements are sorted by kind and value; path elements of unknown kinds are dropped.
    let set = Set::from_fields(r#"{"i:0":{},"v:10":{},"v:9":{},"f:b":null,"z:x":{},"f:a":{}}"#);
    assert_eq!(set.unwrap().to_fields(), r#"{"f:a":{},"f:b":{},"v:9":{},"v:10":{},"i:0":{}}"#);
    assert!(Set::from_fields(r#"{"f:a":3}"#).is_err());
    assert!(Set::from_fields(r#"{"i:x":{}}"#).is_err());
}

#[test]
fn sets_read_alike_in_all_their_forms() {
    let compact =
        r#"{"f:a\"b":{".":{},"k:{\"n\":\"x\",\"p\":80}":{".":{},"v:true":{}}},"v:\"\\\\\"":{}}"#;
    let spaced = compact.replace(":{", ": {").replace(",\"", ", \"");
    assert_eq!(Set::from_fields(compact), Set::from_fields(&spaced));
    assert_eq!(Set::from_fields(compact).unwrap().to_fields(), compact);
    let escaped = r#"{"f:\u0061":{}, "k:{\"n\":1.5}":{}, "k:{\"n\":-1}":{}}"#;
    let written = r#"{"f:a":{},"k:{\"n\":-1}":{},"k:{\"n\":1.5}":{}}"#;
    assert_eq!(Set::from_fields(escaped).unwrap().to_fields(), written);
    for broken in [
        "",
        "{",
        r#"{"f:a":{}"#,
        r#"{"f:a":{}}}"#,
        r#"{"k:{":{}}"#,
        r#"{"k:3":{}}"#,
        r#"{"v:01":{}}"#,
    ] {
        assert!(Set::from_fields(broken).is_err(), "{broken}");
    }
}

#[test]
fn set_arithmetic() {
    let a = Set::from_fields(r#"{"f:a":{".":{},"f:b":{},"f:c":{"f:d":{}}},"f:e":{}}"#).unwrap();
    let b = Set::from_fields(r#"{"f:a":{"f:b":{}},"f:e":{"f:f":{}}}"#).unwrap();
    let c = Set::from_fields(r#"{"f:a":{}}"#).unwrap();
    let text = |set: Set| set.to_fields();
    assert_eq!(
        text(a.union(&b)),
        r#"{"f:a":{".":{},"f:b":{},"f:c":{"f:d":{}}},"f:e":{".":{},"f:f":{}}}"#
    );
    assert_eq!(text(a.intersection(&b)), r#"{"f:a":{"f:b":{}}}"#);
    assert_eq!(text(a.difference(&b)), r#"{"f:a":{".":{},"f:c":{"f:d":{}}},"f:e":{}}"#);
    assert_eq!(text(a.difference(&c)), r#"{"f:a":{"f:b":{},"f:c":{"f:d":{}}},"f:e":{}}"#);
    assert_eq!(text(a.recursive_difference(&c)), r#"{"f:e":{}}"#);
    assert_eq!(a.to_string(), ".a\n.e\n.a.b\n.a.c.d");
}

#[test]
fn a_writer_owns_what_it_changes() {
    let mut object = Object::new("ConfigMap");
    object.update("a", "", r#"{"metadata":{"name":"x"},"data":{"k":"1","l":"1"}}"#);
    assert_eq!(object.managers(), [r#"a Update 01: {"f:data":{".":{},"f:k":{},"f:l":{}}}"#]);
    object.update("b", "", r#"{"metadata":{"name":"x"},"data":{"k":"2","l":"1","m":"1"}}"#);
    let two = [
        r#"a Update 01: {"f:data":{".":{},"f:l":{}}}"#,
        r#"b Update 02: {"f:data":{"f:k":{},"f:m":{}}}"#,
    ];
    assert_eq!(object.managers(), two);
    // A write without effect is not recorded, and removed fields have no owner.
    object.update("c", "", r#"{"metadata":{"name":"x"},"data":{"k":"2","l":"1"}}"#);
    let two =
        [r#"a Update 01: {"f:data":{".":{},"f:l":{}}}"#, r#"b Update 02: {"f:data":{"f:k":{}}}"#];
    assert_eq!(object.managers(), two);
    // The same manager again: one entry, with a new time.
    object.update("a", "", r#"{"metadata":{"name":"x"},"data":{"k":"2","l":"1","n":""}}"#);
    let two = [
        r#"b Update 02: {"f:data":{"f:k":{}}}"#,
        r#"a Update 04: {"f:data":{".":{},"f:l":{},"f:n":{}}}"#,
    ];
    assert_eq!(object.managers(), two);
}

#[test]
fn lists_structs_and_zeros_of_built_in_kinds() {
    let mut object = Object::new("Pod");
    let pod = r#"{"spec":{"containers":[{"name":"c","ports":[{"containerPort":80}]}],"nodeSelector":{"a":"b"},"imagePullSecrets":[{}]}}"#;
    object.update("a", "", pod);
    let fields = r#"a Update 01: {"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"f:resources":{}}},"f:imagePullSecrets":{".":{},"k:{\"name\":\"\"}":{}},"f:nodeSelector":{}}}"#;
    assert_eq!(object.managers(), [fields]);
}

#[test]
fn status_belongs_to_its_subresource() {
    let mut object = Object::new("Deployment");
    object.update("a", "", r#"{"spec":{"replicas":1},"status":{"replicas":5}}"#);
    object.update("c", "status", r#"{"spec":{"replicas":2},"status":{"replicas":1}}"#);
    let both = [
        r#"a Update 01: {"f:spec":{"f:replicas":{}}}"#,
        r#"c/status Update 02: {"f:status":{"f:replicas":{}}}"#,
    ];
    assert_eq!(object.managers(), both);
}

#[test]
fn a_subresource_may_let_only_some_fields_be_owned() {
    let path = ["spec", "containers", "*", "resources"];
    let step = |name: &&str| (*name != "*").then(|| super::PathElement::field(name));
    let filter = Filter::Include(vec![path.iter().map(step).collect()]);
    let object = Object::new("Pod");
    let pod = r#"{"spec":{"nodeName":"n","containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1"}}}]}}"#;
    let mut new = decode(pod.as_bytes(), object.schema, Unknown::Ignore).unwrap().value;
    object.manager("resize", &filter).update(None, &mut new, "m", object.clock);
    let entry = &new.at(&["metadata", "managedFields"]).unwrap().as_list().unwrap()[0];
    let fields = r#"{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{}}}}}}}"#;
    assert_eq!(entry.at(&["fieldsV1"]), Some(&Value::Raw(fields.into())));
}

#[test]
fn fields_that_became_atomic_are_owned_whole() {
    let mut object = Object::new("Pod");
    let entry = r#"{"manager":"z","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:nodeSelector":{"f:a":{}},"f:tolerations":{"i:0":{}}}}}"#;
    object.update("a", "", &format!(r#"{{"metadata":{{"managedFields":[{entry}]}}}}"#));
    let fields = r#"z Update --: {"f:spec":{"f:nodeSelector":{},"f:tolerations":{}}}"#;
    assert_eq!(object.managers(), [fields]);
}

#[test]
fn clients_may_reset_but_not_break_the_record() {
    let entry = r#"{"manager":"z","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:q":{}}}}"#;
    let data = r#"{".":{},"f:k":{}}"#;
    let kept = format!(r#"a Update 01: {{"f:data":{data}}}"#);
    let cases: [(&str, &[&str]); 6] = [
        ("[{}]", &[]),
        ("[]", &[]),
        ("null", &[&kept]),
        (r#"[{"manager":"q"}]"#, &[&kept]),
        (r#"[{"manager":"q","operation":"Update","apiVersion":"v1"}]"#, &[&kept]),
        (entry, &[r#"z Update --: {"f:data":{"f:q":{}}}"#]),
    ];
    for (managed_fields, expected) in cases {
        let mut object = Object::new("ConfigMap");
        object.update("a", "", r#"{"data":{"k":"1"}}"#);
        let list = if managed_fields.starts_with('{') {
            format!("[{managed_fields}]")
        } else {
            managed_fields.to_owned()
        };
        let json = format!(r#"{{"metadata":{{"managedFields":{list}}},"data":{{"k":"1"}}}}"#);
        object.update("a", "", &json);
        assert_eq!(object.managers(), expected, "{managed_fields}");
    }
}

#[test]
fn the_oldest_updaters_are_merged() {
    let mut object = Object::new("ConfigMap");
    let mut data = Vec::new();
    for i in 0..12 {
        data.push(format!(r#""k{i:02}":"""#));
        object.update(&format!("m{i:02}"), "", &format!(r#"{{"data":{{{}}}}}"#, data.join(",")));
    }
    let managers = object.managers();
    assert_eq!(managers.len(), 10);
    let ancient =
        r#"ancient-changes Update 03: {"f:data":{".":{},"f:k00":{},"f:k01":{},"f:k02":{}}}"#;
    assert_eq!(managers[0], ancient);
    assert_eq!(managers[1], r#"m03 Update 04: {"f:data":{"f:k03":{}}}"#);
}

#[test]
fn an_applier_owns_what_it_says() {
    let mut object = Object::new("ConfigMap");
    object.apply("a", false, r#"{"metadata":{"name":"x"},"data":{"k":"1","l":"1"}}"#).unwrap();
    assert_eq!(object.managers(), [r#"a Apply 01: {"f:data":{"f:k":{},"f:l":{}}}"#]);
    // Fields that it no longer applies are removed, unless another manager applies them too.
    object.apply("b", false, r#"{"data":{"l":"1"}}"#).unwrap();
    object.apply("a", false, r#"{"data":{"m":"1"}}"#).unwrap();
    let both = [r#"b Apply --: {"f:data":{"f:l":{}}}"#, r#"a Apply 03: {"f:data":{"f:m":{}}}"#];
    assert_eq!(object.managers(), both);
    assert!(object.json().contains(r#""data":{"l":"1","m":"1"}"#), "{}", object.json());
}

#[test]
fn lists_are_applied_element_by_element() {
    let mut object = Object::new("Pod");
    let one = r#"{"spec":{"containers":[{"name":"a","image":"x"},{"name":"b","image":"y"}]}}"#;
    object.apply("m", false, one).unwrap();
    object.update("injector", "", r#"{"metadata":{"name":"x"},"spec":{"containers":[{"name":"s","image":"z"},{"name":"a","image":"x"},{"name":"b","image":"y"}]}}"#);
    object.apply("m", false, r#"{"spec":{"containers":[{"name":"b","image":"q"}]}}"#).unwrap();
    let containers = r#""containers":[{"image":"z","name":"s","resources":{}},{"image":"q","name":"b","resources":{}}]"#;
    assert!(object.json().contains(containers), "{}", object.json());
}

#[test]
fn updated_items_keep_their_place_when_an_applier_leaves() {
    let mut object = Object::new("Service");
    object.apply("a", false, r#"{"spec":{"ports":[{"port":81,"protocol":"UDP"}]}}"#).unwrap();
    // The fields of a duplicate port have no owner.
    let ports = r#"{"port":81,"protocol":"TCP"},{"port":81,"protocol":"TCP","name":"b"}"#;
    object.update("b", "", &format!(r#"{{"spec":{{"ports":[{ports}]}}}}"#));
    object.update("c", "status", r#"{"spec":{"ports":[{"port":81,"protocol":"TCP"}]}}"#);
    object.apply("a", false, r#"{"metadata":{"labels":{"x":"y"}}}"#).unwrap();
    let spec = r#""spec":{"ports":[{"port":81,"protocol":"TCP"}]}"#;
    assert!(object.json().contains(spec), "{}", object.json());
}

#[test]
fn conflicts_name_managers_and_fields() {
    let mut object = Object::new("Deployment");
    object.update("kubectl", "", r#"{"spec":{"replicas":1,"paused":true,"minReadySeconds":3}}"#);
    object.update("scaler", "", r#"{"spec":{"replicas":2,"paused":true,"minReadySeconds":3}}"#);
    let config = r#"{"spec":{"replicas":5,"paused":false,"minReadySeconds":4}}"#;
    let error = object.apply("me", false, config).unwrap_err();
    let message = "Apply failed with 3 conflicts: conflicts with \"kubectl\" using apps/v1:\n\
                   - .spec.minReadySeconds\n- .spec.paused\nconflicts with \"scaler\" using \
                   apps/v1:\n- .spec.replicas";
    assert_eq!(error.to_string(), message);
    let ApplyError::Conflicts(conflicts) = error else { panic!("{error}") };
    let causes: Vec<_> = conflicts.told().into_iter().map(|c| (c.message(), c.field)).collect();
    let last = ("conflict with \"scaler\" using apps/v1", ".spec.replicas");
    assert_eq!(causes[2], (last.0.to_owned(), last.1.to_owned()));
    let error = object.apply("me", false, r#"{"spec":{"replicas":5}}"#).unwrap_err();
    let one =
        "Apply failed with 1 conflict: conflict with \"scaler\" using apps/v1: .spec.replicas";
    assert_eq!(error.to_string(), one);
    // With force the fields change owners; an equal value is no conflict.
    object.apply("me", true, config).unwrap();
    assert_eq!(object.managers().len(), 1, "{:?}", object.managers());
    object.apply("you", false, r#"{"spec":{"replicas":5}}"#).unwrap();
    assert_eq!(object.managers().len(), 2);
}

#[test]
fn untracked_object_belongs_to_before_first_apply() {
    let mut object = Object::new("ConfigMap");
    object.store(decode_any(br#"{"data":{"k":"1"}}"#, Unknown::Ignore).unwrap().value);
    object.update("a", "", r#"{"data":{"k":"2"}}"#);
    assert!(object.managers().is_empty());
    let error = object.apply("b", false, r#"{"data":{"k":"3"}}"#).unwrap_err();
    let message =
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.k";
    assert_eq!(error.to_string(), message);
}

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client() {
    let last = r#"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"data\":{\"k\":\"1\"}}"#;
    let annotation = format!(r#""kubectl.kubernetes.io/last-applied-configuration":"{last}""#);
    let live =
        format!(r#"{{"metadata":{{"annotations":{{{annotation}}}}},"data":{{"k":"1","l":"1"}}}}"#);
    let mut object = Object::new("ConfigMap");
    object.update("kubectl-client-side-apply", "", &live);
    // Fields that it did not apply before are still conflicts.
    let error = object.apply("kubectl", false, r#"{"data":{"k":"2","l":"2"}}"#).unwrap_err();
    assert!(error.to_string().ends_with("using v1: .data.l"), "{error}");
    object.apply("kubectl", false, r#"{"data":{"k":"2"}}"#).unwrap();
    let now = r#"{\"apiVersion\":\"v1\",\"data\":{\"k\":\"2\"},\"kind\":\"ConfigMap\"}\n"#;
    assert!(object.json().contains(now), "{}", object.json());
}

#[test]
fn what_cannot_be_applied() {
    let mut object = Object::new("Deployment");
    let cases = [
        (
            r#"{"metadata":{"name":"x"},"spec":{"bogus":1}}"#,
            "failed to create typed patch object (/x; apps/v1, Kind=Deployment): .spec.bogus: field not declared in schema",
        ),
        (
            r#"{"metadata":{"name":"x","namespace":"n"},"spec":{"replicas":"1","paused":1000000}}"#,
            "failed to create typed patch object (n/x; apps/v1, Kind=Deployment): errors:\n  .spec.paused: expected boolean, got &{1000000}\n  .spec.replicas: expected numeric (int or float), got string",
        ),
        (
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"a","image":5},{"name":"a"}]}}}}"#,
            "failed to create typed patch object (/; apps/v1, Kind=Deployment): errors:\n  .spec.template.spec.containers[name=\"a\"].image: expected string, got &value.valueUnstructured{Value:5}\n  .spec.template.spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (r#"{"metadata":{"managedFields":[{}]}}"#, "metadata.managedFields must be nil"),
    ];
    for (config, message) in cases {
        assert_eq!(object.apply("m", false, config).unwrap_err().to_string(), message);
    }
    let filter = Filter::All;
    let error = object.manager("", &filter).apply(None, &Value::Null, "m", true, object.clock);
    assert_eq!(error.unwrap_err().to_string(), "invalid object type: /, Kind=");
}

/// A kind whose other version has another name for `data`.
struct Renamed;

impl OtherVersions for Renamed {
    fn schema(&self, api_version: &str) -> Option<Schema<'_>> {
        (api_version == "old").then(|| builtin::schema("", "v1", "Secret")).flatten()
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let mut map = object.as_map()?.clone();
        let (from, to) = match api_version {
            "old" => ("data", "stringData"),
            _ => ("stringData", "data"),
        };
        if let Some(data) = map.remove(from) {
            map.insert(to, data);
        }
        map.insert("apiVersion", Value::from(api_version));
        Some(Value::Map(map))
    }

    fn filter(&self, _: &str) -> Option<&Filter> {
        None
    }
}

#[test]
fn managers_in_other_versions_own_their_fields_there() {
    let live = r#"{"metadata":{"uid":"u","managedFields":[
        {"manager":"o","operation":"Apply","apiVersion":"old","fieldsType":"FieldsV1","fieldsV1":{"f:stringData":{"f:k":{},"f:l":{}}}},
        {"manager":"gone","operation":"Update","apiVersion":"ancient","fieldsType":"FieldsV1","fieldsV1":{"f:x":{}}}]},
        "data":{"k":"1","l":"1"}}"#;
    let schema = builtin::schema("", "v1", "ConfigMap").unwrap();
    let manager = FieldManager {
        schema,
        api_version: "v1",
        kind: "ConfigMap",
        subresource: "",
        filter: &Filter::All,
        others: &Renamed,
    };
    let live = decode(live.as_bytes(), schema, Unknown::Ignore).unwrap().value;
    let fields = |object: &Value| -> Vec<String> {
        let entries = object.at(&["metadata", "managedFields"]).unwrap().as_list().unwrap();
        let text = |e: &Value| match e.at(&["fieldsV1"]) {
            Some(Value::Raw(fields)) => format!("{} {fields}", e.str_at(&["manager"])),
            _ => String::new(),
        };
        entries.iter().map(text).collect()
    };
    let now = Time { seconds: 9 };
    let mut new = decode(br#"{"data":{"k":"2","l":"1"}}"#, schema, Unknown::Ignore).unwrap().value;
    manager.update(Some(&live), &mut new, "u", now);
    let both = [r#"o {"f:stringData":{"f:l":{}}}"#, r#"u {"f:data":{"f:k":{}}}"#];
    assert_eq!(fields(&new), both);
    // An applier that moves to this version leaves nothing behind in the other.
    let config = br#"{"apiVersion":"v1","kind":"ConfigMap","data":{"l":"1"}}"#;
    let config = decode_any(config, Unknown::Ignore).unwrap().value;
    let applied = manager.apply(Some(&live), &config, "o", false, now).unwrap();
    assert_eq!(fields(&applied), [r#"o {"f:data":{"f:l":{}}}"#]);
    assert_eq!(applied.at(&["data", "k"]), None);
    let other = br#"{"apiVersion":"v1","kind":"ConfigMap","data":{"l":"2"}}"#;
    let other = decode_any(other, Unknown::Ignore).unwrap().value;
    let error = manager.apply(Some(&live), &other, "p", false, now).unwrap_err();
    let message = "Apply failed with 1 conflict: conflict with \"o\": .stringData.l";
    assert_eq!(error.to_string(), message);
}

#[test]
fn the_deepest_documents_fit_a_small_stack() {
    let schema = decode_any(
        br#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#,
        Unknown::Ignore,
    );
    let schema = schema.unwrap().value;
    let (table, id) = kevel_api::crd_schema::table(&schema, &|_| None).unwrap();
    let deep = |leaf: i64| {
        let depth = kevel_codec::json::MAX_DEPTH - 2;
        let json = format!("{}{leaf}{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let text = format!(r#"{{"apiVersion":"v1","kind":"Deep","x":{json}}}"#);
        decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    };
    let work = move || {
        let manager = FieldManager {
            schema: Schema::new(&table, id),
            api_version: "v1",
            kind: "Deep",
            subresource: "",
            filter: &Filter::All,
            others: &(),
        };
        let now = Time { seconds: 1 };
        let (mut old, mut new) = (deep(1), deep(2));
        manager.update(None, &mut old, "a", now);
        manager.update(Some(&old), &mut new, "b", now);
        assert!(manager.apply(Some(&new), &deep(3), "c", false, now).is_err());
        let applied = manager.apply(Some(&new), &deep(3), "c", true, now).unwrap();
        let applied = manager.apply(Some(&applied), &deep(4), "c", true, now).unwrap();
        let entries = applied.at(&["metadata", "managedFields"]).unwrap().as_list().unwrap();
        assert_eq!(entries.len(), 2);
        crate::merge_patch::apply(deep(1), deep(2))
    };
    // Worker threads have 2 MiB; without optimization the same takes four times as much.
    let stack = if cfg!(debug_assertions) { 4 << 20 } else { 1 << 20 };
    std::thread::Builder::new().stack_size(stack).spawn(work).unwrap().join().unwrap();
}
