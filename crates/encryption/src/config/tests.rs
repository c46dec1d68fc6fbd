//! Tests of configurations and their errors, in `cases.txt`.

use super::*;

#[test]
fn files_are_judged_as_the_reference_does() {
    let mut judged = 0;
    for case in include_str!("cases.txt").split("\n=== ").skip(1) {
        let (name, rest) = case.split_once('\n').unwrap();
        let (text, said) = rest.split_once("\n--- ").unwrap();
        let reload = name.ends_with(" (reload)");
        let read = EncryptionConfiguration::read(text.as_bytes());
        let checked = read.and_then(|config| config.check(reload)).err();
        assert_eq!(checked.as_deref().unwrap_or("ok"), said.trim_end(), "{name}");
        judged += 1;
    }
    assert!(judged > 25, "{judged}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let at = path.display();
    let load = || EncryptionConfiguration::load(&path, false).unwrap_err();
    let named = format!("encryption provider configuration file \"{at}\"");
    let said = load();
    let begin = "error while parsing file: error while loading file: ";
    let problem = format!("error reading {named}: open {at}: no such file or directory");
    assert_eq!(said, format!("{begin}{problem}"));
    std::fs::write(&path, "").unwrap();
    assert_eq!(load(), format!("{begin}{named} is empty"));
    std::fs::write(&path, "kind: [").unwrap();
    let begin = format!("error while parsing file: error decoding {named}: ");
    assert!(load().starts_with(&begin), "{}", load());
}

#[test]
fn secrets_are_not_shown() {
    let text = "{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, \
                resources: [{resources: [secrets], providers: [{aescbc: {keys: [{name: a, \
                secret: c2VjcmV0IGlzIHNlY3VyZQ==}]}}]}]}";
    let config = EncryptionConfiguration::read(text.as_bytes()).unwrap();
    assert!(!format!("{config:?}").contains("c2Vj"), "{config:?}");
}
