use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use kevel_api::field_error::FieldError;
use kevel_server::metrics::Metrics;

use super::error::ManifestFolderError;
use super::folder::split;
use super::*;

/// A folder that is removed with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kevel-manifests-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    /// The folder as a plug-in has it, with rules that refuse the label `refused`.
    fn configured(&self, metrics: &Metrics) -> ManifestFolder {
        let validate: Validate = Arc::new(|_, object: &Value| {
            let metadata = kevel_api::field_error::Path::new("metadata");
            let labels = metadata.child("labels");
            let refused = object.at(&["metadata", "labels", "refused"]).is_some();
            refused.then(|| FieldError::invalid(&labels, "refused", "no")).into_iter().collect()
        });
        let metrics = ManifestMetrics::new(metrics, "server");
        ManifestFolder { path: self.0.clone(), validate, metrics }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Names of the objects of a folder, or the error with the folder's path as `DIR`.
fn names(kinds: ManifestKinds, files: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let folder = Folder::new();
    files.iter().for_each(|(name, text)| folder.write(name, text));
    let loaded = load(&folder.configured(&Metrics::default()), kinds);
    let objects = loaded.map_err(|error| {
        let path = folder.0.display().to_string();
        ManifestError::from(error).to_string().replace(&path, "DIR")
    })?;
    Ok(objects.objects.into_iter().map(|object| object.name).collect())
}

const API: &str = "apiVersion: admissionregistration.k8s.io/v1\n";

fn configuration(name: &str, more: &str) -> String {
    format!(
        "{API}kind: ValidatingWebhookConfiguration\nmetadata: {{name: {name}{more}}}\nwebhooks:\n\
         - {{name: a.b.c, clientConfig: {{url: 'https://x'}}}}\n"
    )
}

fn policy(name: &str, spec: &str) -> String {
    format!("{API}kind: ValidatingAdmissionPolicy\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n")
}

fn binding(name: &str, spec: &str) -> String {
    format!(
        "{API}kind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )
}

#[test]
fn files_are_split_at_separator_lines() {
    let documents = |text: &str| {
        let documents = split(text.as_bytes(), Path::new("f"))?;
        let text = |text: Vec<u8>| String::from_utf8(text).unwrap();
        Ok::<_, ManifestFolderError>(documents.into_iter().map(text).collect::<Vec<_>>())
    };
    for (text, expected) in [
        ("", &[][..]),
        ("a\n", &["a"]),
        ("a\r\n---\r\nb", &["a", "b"]),
        ("a\n--- # more\nb\n---\n", &["a", "b"]),
        ("a\n \n---\n\n---\nb", &["a", "b"]),
        // The first separator belongs to the document after it.
        ("---\na\n---\nb", &["---\na", "b"]),
        ("a: |\n  x\n  ---\n  y", &["a: |\n  x\n  ---\n  y"]),
    ] {
        assert_eq!(documents(text).unwrap(), expected, "{text:?}");
    }
    let error = documents("a\n--- b\nc").unwrap_err().to_string();
    assert!(error.ends_with("invalid Yaml document separator: b"), "{error}");
}

#[test]
fn objects_are_read_from_documents_lists_and_typed_lists() {
    let (b, c) = (configuration("b.static.k8s.io", ""), configuration("c.static.k8s.io", ""));
    let two = format!("{c}---\n{b}");
    let typed = format!(
        "{API}kind: ValidatingWebhookConfigurationList\nitems:\n- metadata: {{name: d.static.k8s.io}}\n- metadata: {{name: a.static.k8s.io}}\n"
    );
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion":
        "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "e.static.k8s.io"}}]}"#;
    let files = [
        ("1.YAML", two.as_str()),
        ("2.yml", &typed),
        ("3.json", list),
        ("empty.yaml", ""),
        ("read.me", "no: [manifest"),
    ];
    let expected = ["a", "b", "c", "d", "e"].map(|name| format!("{name}.static.k8s.io"));
    assert_eq!(names(VALIDATING_WEBHOOKS, &files), Ok(expected.to_vec()));
    assert_eq!(names(VALIDATING_WEBHOOKS, &[]), Ok(Vec::new()));
}

#[test]
fn any_document_with_an_error_refuses_the_folder() {
    let good = configuration("a.static.k8s.io", "");
    let cases = [
        ("# nothing", "error loading DIR/f.yaml: Object 'Kind' is missing in '# nothing'"),
        ("kind: A", "error loading DIR/f.yaml: Object 'apiVersion' is missing in 'kind: A'"),
        (
            "apiVersion: v1\nkind: Pod",
            "error loading DIR/f.yaml: no kind \"Pod\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: [{kind: A}]",
            "error loading DIR/f.yaml: failed to decode list item: Object 'apiVersion' is missing in '{\"kind\":\"A\"}'",
        ),
        (
            "apiVersion: v1\nkind: List\nitem: []",
            "error loading DIR/f.yaml: strict decoding error: unknown field \"item\"",
        ),
        (
            "apiVersion: admissionregistration.k8s.io/v1beta1\nkind: ValidatingWebhookConfiguration",
            "error loading DIR/f.yaml: unsupported resource type *v1beta1.ValidatingWebhookConfiguration",
        ),
        (
            "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration",
            "error loading DIR/f.yaml: unsupported resource type *v1.MutatingWebhookConfiguration",
        ),
        (
            "a: b\n--- c",
            "failed to split YAML documents in file \"DIR/f.yaml\": invalid Yaml document separator: c",
        ),
        (
            &configuration("b.static.k8s.io", ", nickname: b"),
            "error loading DIR/f.yaml: strict decoding error: unknown field \"metadata.nickname\"",
        ),
        (
            &configuration("b", ""),
            "error loading DIR/f.yaml: \"b\" in file \"DIR/f.yaml\" must have a name ending with \".static.k8s.io\"",
        ),
        (
            &configuration("''", ", generateName: b"),
            "error loading DIR/f.yaml: resource in file \"DIR/f.yaml\" must have a name",
        ),
        (
            &good,
            "error loading DIR/f.yaml: duplicate name \"a.static.k8s.io\" found in file \"DIR/f.yaml\" (previously seen in \"DIR/a.yaml\")",
        ),
        (
            &configuration("b", ", labels: {refused: ''}"),
            "error loading DIR/f.yaml: ValidatingWebhookConfiguration \"b\": metadata.labels: Invalid value: \"refused\": no",
        ),
        (
            &configuration("b.static.k8s.io", "")
                .replace("url: 'https://x'", "service: {namespace: ns, name: s}"),
            "error loading DIR/f.yaml: webhook \"a.b.c\" in \"b.static.k8s.io\" (file \"DIR/f.yaml\"): clientConfig.service is not supported for static manifests; use clientConfig.url instead",
        ),
        (
            &configuration("b.static.k8s.io", "").replace("url: 'https://x'", ""),
            "error loading DIR/f.yaml: webhook \"a.b.c\" in \"b.static.k8s.io\" (file \"DIR/f.yaml\"): clientConfig.url is required for static manifests",
        ),
    ];
    for (text, expected) in cases {
        let files = [("a.yaml", good.as_str()), ("f.yaml", text)];
        assert_eq!(names(VALIDATING_WEBHOOKS, &files), Err(expected.to_owned()), "{text}");
    }
    let deep = "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[".repeat(20) + &"]}".repeat(20);
    assert_eq!(
        names(VALIDATING_WEBHOOKS, &[("deep.json", &deep)]).unwrap_err(),
        "error loading DIR/deep.json: more than 16 lists in one another are not supported"
    );
    let gone = ManifestFolder {
        path: Path::new("/nonexistent/manifests").to_owned(),
        ..Folder::new().configured(&Metrics::default())
    };
    let error = ManifestError::from(load(&gone, VALIDATING_WEBHOOKS).unwrap_err()).to_string();
    let expected = "failed to read manifest directory \"/nonexistent/manifests\": ";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn policies_and_bindings_of_files_stand_alone() {
    let good = policy("p.static.k8s.io", "")
        + "---\n"
        + &binding("p.static.k8s.io", "policyName: p.static.k8s.io");
    let both = ["p.static.k8s.io"; 2].map(str::to_owned).to_vec();
    assert_eq!(names(VALIDATING_POLICIES, &[("p.yaml", &good)]), Ok(both));
    for (text, expected) in [
        (
            policy("a.static.k8s.io", "paramKind: {apiVersion: v1, kind: ConfigMap}"),
            "ValidatingAdmissionPolicy \"a.static.k8s.io\": spec.paramKind is not supported for static manifests",
        ),
        (
            binding("b.static.k8s.io", ""),
            "binding \"b.static.k8s.io\" must reference a policy (spec.policyName)",
        ),
        (
            binding("b.static.k8s.io", "policyName: other"),
            "binding \"b.static.k8s.io\": spec.policyName \"other\" must end with \".static.k8s.io\"",
        ),
        (
            binding("b.static.k8s.io", "policyName: p.static.k8s.io, paramRef: {name: one}"),
            "binding \"b.static.k8s.io\": spec.paramRef is not supported for static manifests",
        ),
    ] {
        let found = names(VALIDATING_POLICIES, &[("p.yaml", &good), ("x.yaml", &text)]);
        assert_eq!(found, Err(format!("error loading DIR/x.yaml: {expected}")));
    }
    let missing = binding("b.static.k8s.io", "policyName: q.static.k8s.io");
    let missing = names(VALIDATING_POLICIES, &[("p.yaml", &good), ("x.yaml", &missing)]);
    let expected = "binding \"b.static.k8s.io\" references policy \"q.static.k8s.io\" which does not exist in the manifest directory";
    assert_eq!(missing, Err(expected.to_owned()));
}

#[test]
fn the_state_of_a_folder_tells_changes_of_manifests() {
    let folder = Folder::new();
    folder.write("a.yaml", "1");
    let before = state(&folder.0);
    folder.write("b.txt", "no manifest");
    assert_eq!(state(&folder.0), before);
    folder.write("a.yaml", "1, 2");
    let longer = state(&folder.0);
    assert_ne!(longer, before);
    folder.write("new", "3, 4");
    fs::rename(folder.0.join("new"), folder.0.join("a.yaml")).unwrap();
    let replaced = state(&folder.0);
    assert_ne!(replaced, longer);
    fs::remove_file(folder.0.join("a.yaml")).unwrap();
    assert_eq!(state(&folder.0), Some(Vec::new()));
    assert_eq!(state(&folder.0.join("missing")), None);
}

#[test]
fn a_reload_with_an_error_changes_nothing() {
    let (folder, metrics) = (Folder::new(), Metrics::default());
    folder.write("a.yaml", &configuration("a.static.k8s.io", ""));
    let compile = |objects: Vec<ManifestObject>| objects.into_iter().map(|o| o.name).collect();
    let configured = folder.configured(&metrics);
    let manifests = Manifests::load("Plugin", configured, VALIDATING_WEBHOOKS, compile).unwrap();
    let of_api = Arc::new(vec!["z".to_owned()]);
    let all = manifests.and(of_api.clone());
    assert_eq!(*all, ["a.static.k8s.io", "z"]);
    manifests.reload();
    assert!(Arc::ptr_eq(&all, &manifests.and(of_api.clone())));
    let count = |status: &str| {
        let shown = metrics.show();
        let name = "apiserver_manifest_admission_config_controller_automatic_reloads_total";
        let mut lines = shown.lines().filter(|line| line.starts_with(name));
        let line = lines.find(|line| line.contains(&format!("status=\"{status}\"")));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    let hash = || {
        let shown = metrics.show();
        let name = "apiserver_manifest_admission_config_controller_last_config_info{";
        let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with(name)).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let (_, hash) = lines[0].split_once("hash=\"sha256:").unwrap();
        hash.to_owned()
    };
    let first = hash();
    assert_eq!((count("success"), count("failure")), (1, 0));
    folder.write("b.yaml", "kind: Broken");
    manifests.reload();
    manifests.reload();
    assert_eq!((count("success"), count("failure")), (1, 2));
    assert_eq!((manifests.current().len(), hash()), (1, first.clone()));
    folder.write("b.yaml", &configuration("b.static.k8s.io", ""));
    manifests.reload();
    assert_eq!((count("success"), count("failure")), (2, 2));
    assert_eq!(*manifests.and(of_api), ["a.static.k8s.io", "b.static.k8s.io", "z"]);
    assert_ne!(hash(), first);
}
