//! Output formats.

use serde_json::Value;

use crate::check;

const MANIFEST: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: p
spec:
  containers:
  - name: C
    image: i
    imag: x
  nodeSelector:
    beta.kubernetes.io/os: linux
---
apiVersion: v1
kind: Service
metadata:
  name: s
spec:
  ports: []
  sessionAffinity: \"100%: a,b\\nc\"
---
apiVersion: v1
kind: Pod
metadata:
  name: q
spec:
  nodeSelector:
    beta.kubernetes.io/os: linux
  containers:
  - name: c
    image: i
";

#[test]
fn json_has_place_object_and_messages() {
    let checked = check(&["-f", "-", "-o", "json"], MANIFEST.as_bytes());
    assert_eq!(checked.code, Some(1), "{checked:?}");
    let report: Value = serde_json::from_str(&checked.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let first = &findings[0];
    assert_eq!((&first["file"], &first["line"]), (&"<stdin>".into(), &9.into()), "{first}");
    assert_eq!(first["reason"], "BadRequest");
    let message = "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown \
                   field \"spec.containers[0].imag\"";
    assert_eq!(first["message"], message);
    let affinity = findings.iter().find(|one| one["field"] == "spec.sessionAffinity").unwrap();
    assert_eq!((&affinity["line"], &affinity["documentLine"]), (&19.into(), &13.into()));
    assert_eq!(affinity["reason"], "FieldValueNotSupported");
    assert_eq!(affinity["object"]["kind"], "Service");
    assert_eq!(affinity["object"]["namespace"], "default");
    assert!(affinity["status"].as_str().unwrap().contains("spec.ports: Required value"));
    let warning = findings.iter().find(|one| one["level"] == "warning").unwrap();
    assert_eq!((&warning["line"], &warning["object"]["name"]), (&27.into(), &"q".into()));
    let summary = &report["summary"];
    assert_eq!((&summary["documents"], &summary["errors"]), (&3.into(), &3.into()), "{summary}");
}

#[test]
fn github_commands_cannot_be_forged() {
    let checked = check(&["-f", "-", "--output=github"], MANIFEST.as_bytes());
    let lines: Vec<&str> = checked.stdout.lines().collect();
    let commands = lines.iter().filter(|line| line.starts_with("::"));
    assert_eq!(commands.count(), 4, "{}", checked.stdout);
    let affinity = lines.iter().find(|line| line.contains("spec.sessionAffinity")).unwrap();
    let start = "::error file=<stdin>,line=19,title=FieldValueNotSupported::Service \"s\" is invalid: \
                 spec.sessionAffinity: Unsupported value: \"100%25: a,b\\nc\"";
    assert!(affinity.starts_with(start), "{affinity}");
    assert!(lines.iter().any(|line| line.starts_with("::warning file=<stdin>,line=27,")));
}

type Fits = fn(&Value) -> bool;

/// Fails unless an object has exactly these fields of these types.
fn has(object: &Value, fields: &[(&str, Fits)]) {
    let object = object.as_object().unwrap();
    let names: Vec<&str> = object.keys().map(String::as_str).collect();
    assert_eq!(names, fields.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (name, fits) in fields {
        assert!(fits(&object[*name]), "{name}: {}", object[*name]);
    }
}

#[test]
fn sarif_has_the_shape_of_its_schema() {
    let checked = check(&["-f", "-", "-o", "sarif"], MANIFEST.as_bytes());
    let log: Value = serde_json::from_str(&checked.stdout).unwrap();
    has(
        &log,
        &[("$schema", Value::is_string), ("runs", Value::is_array), ("version", Value::is_string)],
    );
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    has(
        run,
        &[
            ("columnKind", Value::is_string),
            ("results", Value::is_array),
            ("tool", Value::is_object),
        ],
    );
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    let driver = &run["tool"]["driver"];
    has(
        driver,
        &[("name", Value::is_string), ("rules", Value::is_array), ("version", Value::is_string)],
    );
    let rules: Vec<&str> = driver["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| {
            has(rule, &[("id", Value::is_string), ("name", Value::is_string)]);
            rule["id"].as_str().unwrap()
        })
        .collect();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for result in results {
        has(
            result,
            &[
                ("level", |level| ["error", "warning"].contains(&level.as_str().unwrap())),
                ("locations", |locations| locations.as_array().unwrap().len() == 1),
                ("message", |message| {
                    message["text"].as_str().is_some_and(|text| !text.is_empty())
                }),
                ("ruleId", Value::is_string),
            ],
        );
        assert!(rules.contains(&result["ruleId"].as_str().unwrap()));
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["region"]["startLine"].as_u64().unwrap() >= 1);
        // A URI has no angle brackets.
        assert_eq!(place["artifactLocation"]["uri"], "%3Cstdin%3E");
    }
}

#[test]
fn clean_manifests_print_a_summary() {
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";
    for (format, expected) in [
        ("text", "1 document in 1 file: 0 errors, 0 warnings\n"),
        ("github", "1 document in 1 file: 0 errors, 0 warnings\n"),
    ] {
        let checked = check(&["-", "-o", format], manifest.as_bytes());
        assert_eq!((checked.code, checked.stdout.as_str()), (Some(0), expected), "{checked:?}");
    }
    for format in ["json", "sarif"] {
        let checked = check(&["-", "-o", format], manifest.as_bytes());
        assert_eq!(checked.code, Some(0), "{checked:?}");
        assert!(serde_json::from_str::<Value>(&checked.stdout).is_ok());
    }
}
