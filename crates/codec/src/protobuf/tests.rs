use kevel_api::builtin;
use kevel_api::schema::Schema;
use kevel_api::value::Value;

use super::{Error, decode, decode_object, encode, encode_item, encode_list, encode_object};
use crate::json;

/// Type by its path: `apps/v1 Deployment spec strategy`; `[]` is an element.
fn schema(path: &str) -> Schema<'static> {
    let mut words = path.split(' ');
    let group_version = words.next().unwrap();
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let kind = builtin::schema(group, version, words.next().unwrap()).expect(path);
    words.fold(kind, |schema, word| match word {
        "[]" => schema.item().or(schema.value()).expect(path),
        field => schema.field(field).expect(path).schema(),
    })
}

/// Bytes in test notation: hexadecimal, with texts in quotes; `{…}` is a length-delimited content.
fn bytes(text: &str) -> Vec<u8> {
    let mut levels = vec![Vec::new()];
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        rest = &rest[1..];
        match c {
            '{' => levels.push(Vec::new()),
            '}' => {
                let inner = levels.pop().unwrap();
                let outer = levels.last_mut().unwrap();
                outer.push(u8::try_from(inner.len()).unwrap());
                assert!(inner.len() < 128);
                outer.extend(inner);
            }
            '\'' => {
                let (quoted, after) = rest.split_once('\'').unwrap();
                levels.last_mut().unwrap().extend_from_slice(quoted.as_bytes());
                rest = after;
            }
            first => {
                let byte = u8::from_str_radix(&format!("{first}{}", &rest[..1]), 16).unwrap();
                levels.last_mut().unwrap().push(byte);
                rest = &rest[1..];
            }
        }
        rest = rest.trim_start();
    }
    assert_eq!(levels.len(), 1);
    levels.pop().unwrap()
}

fn read_json(text: &str, schema: Schema<'_>) -> Value {
    let read = json::decode(text.as_bytes(), schema, json::Unknown::Report).expect(text);
    assert!(read.strict.is_empty(), "{text}: {:?}", read.strict);
    read.value
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

/// Checks cases in both directions: a type, a value as JSON, and its message.
#[track_caller]
fn both_ways(cases: &[(&str, &str, &str)]) {
    for (path, text, message) in cases {
        let (schema, message) = (schema(path), bytes(message));
        let value = read_json(text, schema);
        assert_eq!(hex(&encode(&value, schema)), hex(&message), "{path} {text}");
        assert_eq!(decode(&message, schema).as_ref(), Ok(&value), "{path} {text}");
    }
}

#[test]
fn what_is_no_pointer_is_always_written() {
    both_ways(&[
        // A string, an integer, a boolean.
        ("v1 Pod spec containers [] env []", "{}", "0a{} 12{}"),
        (
            "v1 Pod spec containers [] ports []",
            r#"{"containerPort":80}"#,
            "0a{} 10 00 18 50 22{} 2a{}",
        ),
        (
            "v1 Pod spec containers [] volumeMounts []",
            r#"{"readOnly":true}"#,
            "0a{} 10 01 1a{} 22{} 32{}",
        ),
        // A struct within a struct, with the fields that it always writes.
        (
            "apps/v1 ControllerRevision",
            "{}",
            "0a{0a{} 12{} 1a{} 22{} 2a{} 32{} 38 00 42{}} 12{} 18 00",
        ),
        ("v1 Namespace spec", "{}", ""),
    ]);
}

#[test]
fn pointers_are_written_when_they_are_there() {
    both_ways(&[
        ("v1 Pod spec securityContext", "{}", ""),
        (
            "v1 Pod spec securityContext",
            r#"{"runAsUser":0,"runAsNonRoot":false,"fsGroupChangePolicy":""}"#,
            "10 00 18 00 4a{}",
        ),
        ("v1 Pod spec securityContext", r#"{"seLinuxOptions":{}}"#, "0a{0a{} 12{} 1a{} 22{}}"),
    ]);
}

#[test]
fn numbers() {
    both_ways(&[
        ("v1 Pod spec securityContext", r#"{"runAsUser":-1}"#, "10 ff ff ff ff ff ff ff ff ff 01"),
        (
            "v1 Pod spec tolerations []",
            r#"{"tolerationSeconds":300}"#,
            "0a{} 12{} 1a{} 22{} 28 ac 02",
        ),
        // A negative 32-bit number takes as many bytes as a 64-bit one.
        (
            "apps/v1 Deployment spec strategy rollingUpdate",
            r#"{"maxSurge":-1}"#,
            "12{08 00 10 ff ff ff ff ff ff ff ff ff 01 1a{}}",
        ),
        (
            "apiextensions.k8s.io/v1 CustomResourceDefinition spec versions [] schema openAPIV3Schema",
            r#"{"maximum":1.5,"minimum":0}"#,
            "0a{} 12{} 22{} 2a{} 32{} 3a{} 49 00 00 00 00 00 00 f8 3f 50 00 59 00 00 00 00 00 00 00 00 \
             60 00 7a{} 90 01 00 a8 02 00 b8 02 00 c0 02 00",
        ),
    ]);
}

#[test]
fn lists_and_maps() {
    both_ways(&[
        (
            "v1 Pod spec securityContext",
            r#"{"supplementalGroups":[1,0,300]}"#,
            "20 01 20 00 20 ac 02",
        ),
        (
            "v1 Pod spec affinity nodeAffinity",
            r#"{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1},{}]}"#,
            "12{08 01 12{}} 12{08 00 12{}}",
        ),
        (
            "v1 ConfigMap",
            r#"{"data":{"b":"","a":"x"}}"#,
            "0a{0a{} 12{} 1a{} 22{} 2a{} 32{} 38 00 42{}} 12{0a{'a'} 12{'x'}} 12{0a{'b'} 12{}}",
        ),
        // Lists that are messages of their own: empty and absent differ.
        (
            "v1 APIResourceList resources []",
            r#"{"verbs":[]}"#,
            "0a{} 10 00 1a{} 22{} 32{} 42{} 4a{} 52{}",
        ),
        (
            "v1 APIResourceList resources []",
            r#"{"verbs":["get"]}"#,
            "0a{} 10 00 1a{} 22{0a{'get'}} 32{} 42{} 4a{} 52{}",
        ),
        (
            "authentication.k8s.io/v1 TokenReview status user",
            r#"{"extra":{"a":["x","y"],"b":[]}}"#,
            "0a{} 12{} 22{0a{'a'} 12{0a{'x'} 0a{'y'}}} 22{0a{'b'} 12{}}",
        ),
    ]);
}

#[test]
fn times_and_durations() {
    both_ways(&[
        (
            "v1 Pod status conditions []",
            r#"{"lastProbeTime":"1970-01-01T00:00:01Z"}"#,
            "0a{} 12{} 1a{08 01 10 00} 22{} 2a{} 32{} 38 00",
        ),
        (
            "coordination.k8s.io/v1 Lease spec",
            r#"{"renewTime":"2001-09-09T01:46:40.000123Z"}"#,
            "22{08 80 94 eb dc 03 10 f8 c0 07}",
        ),
        (
            "policy/v1 PodDisruptionBudget status",
            r#"{"disruptedPods":{"p":null},"currentHealthy":1}"#,
            "08 00 12{0a{'p'} 12{}} 18 00 20 01 28 00 30 00",
        ),
    ]);
}

#[test]
fn quantities_and_int_or_strings() {
    both_ways(&[
        (
            "v1 Pod spec containers [] resources",
            r#"{"limits":{"cpu":"1","memory":"2Gi"}}"#,
            "0a{0a{'cpu'} 12{0a{'1'}}} 0a{0a{'memory'} 12{0a{'2Gi'}}}",
        ),
        (
            "v1 Pod spec containers [] env [] valueFrom resourceFieldRef",
            r#"{"resource":"r","divisor":"1m"}"#,
            "0a{} 12{'r'} 1a{0a{'1m'}}",
        ),
        (
            "v1 Service spec ports []",
            r#"{"targetPort":8080}"#,
            "0a{} 12{} 18 00 22{08 00 10 90 3f 1a{}} 28 00",
        ),
        (
            "v1 Service spec ports []",
            r#"{"targetPort":"web"}"#,
            "0a{} 12{} 18 00 22{08 01 10 00 1a{'web'}} 28 00",
        ),
        (
            "v1 Service spec ports []",
            r#"{"targetPort":""}"#,
            "0a{} 12{} 18 00 22{08 01 10 00 1a{}} 28 00",
        ),
        ("v1 Service spec ports []", "{}", "0a{} 12{} 18 00 22{08 00 10 00 1a{}} 28 00"),
    ]);
    // An absent quantity is zero.
    let divisor = schema("v1 Pod spec containers [] env [] valueFrom resourceFieldRef");
    assert_eq!(
        hex(&encode(&read_json("{}", divisor), divisor)),
        hex(&bytes("0a{} 12{} 1a{0a{'0'}}"))
    );
}

#[test]
fn bytes_and_documents() {
    both_ways(&[
        (
            "v1 Secret",
            r#"{"data":{"a":"aGVsbG8=","b":""}}"#,
            "0a{0a{} 12{} 1a{} 22{} 2a{} 32{} 38 00 42{}} 12{0a{'a'} 12{'hello'}} 12{0a{'b'} 12{}} 1a{}",
        ),
        (
            "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration webhooks [] clientConfig",
            r#"{"caBundle":"AP8="}"#,
            "12{00 ff}",
        ),
        (
            "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration webhooks [] clientConfig",
            r#"{"caBundle":""}"#,
            "12{}",
        ),
        (
            "v1 Pod metadata managedFields []",
            r#"{"fieldsV1":{"f:a":{}}}"#,
            r#"0a{} 12{} 1a{} 32{} 3a{0a{'{"f:a":{}}'}} 42{}"#,
        ),
        (
            "resource.k8s.io/v1 ResourceClaim spec devices config [] opaque",
            r#"{"parameters":{"b":1.0,"a":[]}}"#,
            r#"0a{} 12{0a{'{"b":1.0,"a":[]}'}}"#,
        ),
        ("resource.k8s.io/v1 ResourceClaim spec devices config [] opaque", "{}", "0a{} 12{}"),
    ]);
}

#[test]
fn inlined_structs_are_embedded_protobuf_messages() {
    both_ways(&[
        ("v1 Pod spec volumes []", r#"{"name":"v","emptyDir":{}}"#, "0a{'v'} 12{12{0a{}}}"),
        (
            "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy spec matchConstraints resourceRules []",
            r#"{"apiGroups":["apps"],"operations":["CREATE"],"resourceNames":["n"],"scope":"*"}"#,
            "0a{'n'} 12{0a{'CREATE'} 12{0a{'apps'} 22{'*'}}}",
        ),
    ]);
}

#[test]
fn unions_are_messages_with_a_member_for_each_form() {
    let path =
        "apiextensions.k8s.io/v1 CustomResourceDefinition spec versions [] schema openAPIV3Schema";
    let schema = schema(path);
    let empty = encode(&read_json("{}", schema), schema);
    assert!(empty.len() < 128);
    let length = format!("{:02x}", empty.len());
    let empty = format!("{length} {}", hex(&empty));
    for (text, member) in [
        (r#"{"additionalItems":true}"#, "8a 02 {08 01}".to_owned()),
        (r#"{"additionalItems":false}"#, "8a 02 {08 00}".to_owned()),
        (r#"{"additionalItems":{}}"#, format!("8a 02 {{08 01 12 {empty}}}")),
        (r#"{"items":{}}"#, format!("c2 01 {{0a {empty}}}")),
        (r#"{"items":[{},{}]}"#, format!("c2 01 {{12 {empty} 12 {empty}}}")),
        (r#"{"dependencies":{"a":["b","c"]}}"#, "82 02 {0a{'a'} 12{12{'b'} 12{'c'}}}".to_owned()),
        (r#"{"dependencies":{"a":{}}}"#, format!("82 02 {{0a{{'a'}} 12{{0a {empty}}}}}")),
        (r#"{"enum":[1,null,"x"]}"#, "a2 01 {0a{'1'}} a2 01 {} a2 01 {0a{'\"x\"'}}".to_owned()),
    ] {
        let value = read_json(text, schema);
        let (message, member) = (encode(&value, schema), bytes(&member));
        assert!(
            message.windows(member.len()).any(|window| window == member),
            "{text}: {} not in {}",
            hex(&member),
            hex(&message)
        );
        assert_eq!(decode(&message, schema), Ok(value), "{text}");
    }
}

#[test]
fn the_envelope_names_the_kind() {
    let schema = schema("v1 Namespace");
    let value = read_json(
        r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n"},"spec":{"finalizers":["f"]}}"#,
        schema,
    );
    let expected = bytes(
        "'k8s' 00 0a{0a{'v1'} 12{'Namespace'}} \
         12{0a{0a{'n'} 12{} 1a{} 22{} 2a{} 32{} 38 00 42{}} 12{0a{'f'}} 1a{0a{}}} 1a{} 22{}",
    );
    assert_eq!(hex(&encode_object(&value, schema)), hex(&expected));
    let envelope = decode_object(&expected).unwrap();
    assert_eq!((&*envelope.api_version, &*envelope.kind), ("v1", "Namespace"));
    assert_eq!(envelope.decode(schema).as_ref(), Ok(&value));
    // The message alone has no kind.
    let mut without = value;
    let map = without.as_map_mut().unwrap();
    map.remove("kind");
    map.remove("apiVersion");
    assert_eq!(decode(envelope.raw, schema), Ok(without));
}

#[test]
fn what_was_written_otherwise_is_read_all_the_same() {
    for (path, message, expected) in [
        // In any order; the last one counts.
        (
            "v1 Pod spec containers [] env []",
            "12{'v'} 0a{'n'} 12{'w'}",
            r#"{"name":"n","value":"w"}"#,
        ),
        ("v1 Pod spec containers [] env []", "0a{'n'} 12{'v'} 12{}", r#"{"name":"n"}"#),
        // Unknown members of every wire type; groups within groups.
        (
            "v1 Pod spec containers [] env []",
            "78 01 79 0102030405060708 7a{'x'} 7d 01020304 0a{'n'}",
            r#"{"name":"n"}"#,
        ),
        ("v1 Pod spec containers [] env []", "7b 0b 08 01 0c 7c 0a{'n'}", r#"{"name":"n"}"#),
        // Messages merge; so do inlined ones.
        (
            "v1 Pod spec affinity",
            "0a{12{08 01}} 0a{12{08 02}}",
            r#"{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1},{"weight":2}]}}"#,
        ),
        (
            "v1 Pod spec volumes []",
            "12{12{0a{'Memory'}}} 0a{'v'} 12{12{12{0a{'1Gi'}}}}",
            r#"{"name":"v","emptyDir":{"medium":"Memory","sizeLimit":"1Gi"}}"#,
        ),
        // Packed numbers, and interrupted lists.
        (
            "v1 Pod spec securityContext",
            "22{01 ac 02} 10 05 20 03",
            r#"{"runAsUser":5,"supplementalGroups":[1,300,3]}"#,
        ),
        // Map entries without a key or value, and duplicates.
        (
            "v1 ConfigMap",
            "12{} 12{0a{'a'} 12{'1'}} 12{12{'2'} 0a{'a'}} 12{0a{'b'}}",
            r#"{"data":{"":"","a":"2","b":""}}"#,
        ),
        // Numbers too wide for their field.
        (
            "v1 Pod spec containers [] ports []",
            "10 ff ff ff ff 1f 18 80 80 80 80 10",
            r#"{"hostPort":-1}"#,
        ),
        // Only whole seconds of a time are kept; the zero time is absent.
        (
            "v1 Pod status conditions []",
            "1a{08 01 10 05} 22{08 80 92 b8 c3 98 fe ff ff ff 01}",
            r#"{"lastProbeTime":"1970-01-01T00:00:01Z"}"#,
        ),
        (
            "coordination.k8s.io/v1 Lease spec",
            "22{08 02 10 f8 ff ff ff ff ff ff ff ff 01}",
            r#"{"renewTime":"1970-01-01T00:00:02.000000Z"}"#,
        ),
        // Quantities are printed as by the reference.
        (
            "v1 Pod spec containers [] resources",
            "0a{0a{'cpu'} 12{0a{'1000m'}}} 0a{0a{'x'} 12{}}",
            r#"{"limits":{"cpu":"1","x":"0"}}"#,
        ),
        (
            "v1 Pod spec containers [] env []",
            "0a{'a' ff fe 'b'}",
            "{\"name\":\"a\u{fffd}\u{fffd}b\"}",
        ),
    ] {
        let schema = schema(path);
        let expected = read_json(expected, schema);
        assert_eq!(decode(&bytes(message), schema), Ok(expected), "{path} {message}");
    }
}

#[test]
fn errors_read_as_the_references() {
    for (path, message, expected) in [
        ("v1 Pod spec containers [] env []", "0a", "unexpected EOF"),
        ("v1 Pod spec containers [] env []", "0a 05 'abcd'", "unexpected EOF"),
        (
            "v1 Pod spec containers [] env []",
            "0a ff ff ff ff ff ff ff ff ff 01",
            "proto: negative length found during unmarshaling",
        ),
        (
            "v1 Pod spec containers [] env []",
            "80 80 80 80 80 80 80 80 80 80 01",
            "proto: integer overflow",
        ),
        ("v1 Pod spec containers [] env []", "00", "proto: EnvVar: illegal tag 0 (wire type 0)"),
        (
            "v1 Pod spec containers [] env []",
            "82 80 80 80 80 01",
            "proto: EnvVar: illegal tag 0 (wire type 34359738370)",
        ),
        (
            "v1 Pod spec containers [] env []",
            "0c",
            "proto: EnvVar: wiretype end group for non-group",
        ),
        ("v1 Pod spec containers [] env []", "7f", "proto: illegal wireType 7"),
        ("v1 Pod spec containers [] env []", "7b 7f", "proto: illegal wireType 7"),
        ("v1 Pod spec containers [] env []", "7b", "unexpected EOF"),
        ("v1 Pod spec containers [] env []", "08 01", "proto: wrong wireType = 0 for field Name"),
        ("apps/v1 Deployment spec", "0a{}", "proto: wrong wireType = 2 for field Replicas"),
        ("v1 Pod", "08 01", "proto: wrong wireType = 0 for field ObjectMeta"),
        ("v1 Pod metadata", "28 01", "proto: wrong wireType = 0 for field UID"),
        ("v1 Pod status", "38 01", "proto: wrong wireType = 0 for field StartTime"),
        ("v1 Pod status", "60 01 70 01", "proto: wrong wireType = 0 for field PodIPs"),
        ("v1 Pod spec volumes []", "10 01", "proto: wrong wireType = 0 for field VolumeSource"),
        ("v1 Pod status", "3a{0a{}}", "proto: wrong wireType = 2 for field Seconds"),
        ("v1 Service spec ports []", "22{08 02}", "impossible IntOrString.Type"),
        (
            "v1 Pod spec containers [] resources",
            "0a{0a{'cpu'} 12{0a{'x'}}}",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "resource.k8s.io/v1 ResourceClaim spec devices config [] opaque",
            "12{0a{'{'}}",
            "unexpected end of JSON input",
        ),
    ] {
        let error = decode(&bytes(message), schema(path)).expect_err(message);
        assert_eq!(error.to_string(), expected, "{path} {message}");
    }
    for (input, expected) in [
        (&b""[..], Error::EmptyData),
        (b"k8s", Error::NoMagic),
        (b"{\"kind\":\"Pod\"}", Error::NoMagic),
        (b"k8s\0", Error::EmptyBody),
        (b"k8s\0\x0a", Error::UnexpectedEof),
    ] {
        assert_eq!(decode_object(input), Err(expected));
    }
}

#[test]
fn the_number_of_structs_is_bounded() {
    let status = schema("v1 Pod status");
    let many = bytes("42{20 01}").repeat(525_000);
    assert_eq!(decode(&many, status), Err(Error::TooMany));
    // A long list of objects is legitimate.
    let list = bytes("12{0a{0a{'a-name'} 1a{'a-space'}}}").repeat(265_000);
    assert!(decode(&list, schema("v1 PodList")).is_ok());
}

#[test]
fn the_number_of_packed_numbers_is_bounded() {
    let packed = |count: usize| {
        // Member 4 of a pod's security context, with a length of three bytes.
        let length = [count as u8 | 0x80, (count >> 7) as u8 | 0x80, (count >> 14) as u8];
        let mut message = vec![4 << 3 | 2];
        message.extend(length);
        message.resize(message.len() + count, 1);
        decode(&message, schema("v1 Pod spec securityContext"))
    };
    let groups = packed(1 << 20).expect("they are not too many");
    let groups = groups.at(&["supplementalGroups"]).and_then(Value::as_list);
    assert_eq!(groups.map(<[_]>::len), Some(1 << 20));
    assert_eq!(packed((1 << 20) + 1), Err(Error::TooMany));
}

#[test]
fn depth_is_bounded_and_fits_a_small_stack() {
    /// Messages inside messages, each level behind these keys.
    fn nest(keys: &[&[u8]], levels: usize) -> Vec<u8> {
        // Built from the inside out, so that each length is known.
        let mut reversed: Vec<u8> = Vec::new();
        for key in std::iter::repeat_n(keys.iter().rev(), levels).flatten() {
            let mut length = reversed.len();
            let mut prefix = key.to_vec();
            while length > 0x7f {
                prefix.push(length as u8 | 0x80);
                length >>= 7;
            }
            prefix.push(length as u8);
            reversed.extend(prefix.iter().rev());
        }
        reversed.reverse();
        reversed
    }
    let run = || {
        let schema = schema(
            "apiextensions.k8s.io/v1 CustomResourceDefinition spec versions [] schema openAPIV3Schema",
        );
        let (not, all_of, properties, items): (&[u8], &[u8], &[u8], &[u8]) =
            (&[0xe2, 0x01], &[0xca, 0x01], &[0xea, 0x01], &[0xc2, 0x01]);
        for (keys, depth) in [
            (&[not][..], 1),
            (&[all_of], 2),
            (&[properties, &[0x12]], 2),
            (&[items, &[0x0a]], 2),
            (&[items, &[0x12]], 3),
        ] {
            let levels = 999 / depth;
            let value = decode(&nest(keys, levels), schema).unwrap();
            assert_eq!(decode(&encode(&value, schema), schema), Ok(value));
            for too_many in [levels + 1, 200_000] {
                assert_eq!(decode(&nest(keys, too_many), schema), Err(Error::TooDeep));
            }
        }
    };
    // The stack size of the server's threads.
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn a_list_is_the_same_in_parts() {
    let mut lists = 0;
    for kind in builtin::kinds() {
        let Some(items) = kind.schema().field("items").map(|field| field.schema()) else {
            continue;
        };
        let Some(item) = items.item().filter(|item| item.as_struct().is_some()) else { continue };
        let text = r#"{"metadata":{"name":"a","labels":{"b":"c"}}}"#;
        let one = json::decode(text.as_bytes(), item, json::Unknown::Ignore).unwrap().value;
        for count in [0, 1, 40] {
            let text = format!(
                r#"{{"kind":"{}","apiVersion":"v1","metadata":{{"resourceVersion":"7","continue":"x"}}}}"#,
                kind.name
            );
            let decoded = json::decode(text.as_bytes(), kind.schema(), json::Unknown::Ignore);
            let mut list = decoded.unwrap().value;
            let mut middle = Vec::new();
            (0..count).for_each(|_| encode_item(&one, item, &mut middle));
            let (head, tail) = encode_list(&list, kind.schema(), middle.len());
            let all = Value::List(std::iter::repeat_n(one.clone(), count).collect());
            list.make_map(&[]).insert("items", all);
            let whole = encode_object(&list, kind.schema());
            assert!([head, middle, tail].concat() == whole, "{} {count}", kind.name);
        }
        lists += 1;
    }
    assert!(lists > 50, "{lists}");
}
