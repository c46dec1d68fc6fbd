use super::*;

fn parse(text: &str) -> Result<LabelSelector, String> {
    text.parse().map_err(|e: ParseLabelSelectorError| e.to_string())
}

#[test]
fn selectors_parse_and_print() {
    for (text, printed) in [
        ("", ""),
        (" \t\r\n", ""),
        ("x=a,y=b,z=c", "x=a,y=b,z=c"),
        ("z=c,x=a,y==b", "x=a,y==b,z=c"),
        ("x!=a,y=b", "x!=a,y=b"),
        ("x=", "x="),
        ("x= ", "x="),
        ("x=,z= ", "x=,z="),
        ("x", "x"),
        ("!x", "!x"),
        ("! x , y", "!x,y"),
        ("x in (b,a,b)", "x in (a,b)"),
        ("x notin (b)", "x notin (b)"),
        ("x in ()", "x in ()"),
        ("x in (,)", "x in ()"),
        ("x in (a,)", "x in (,a)"),
        ("x in (,a)", "x in (,a)"),
        ("x in (a,,b)", "x in (,a,b)"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("notin=in", "notin=in"),
        ("x>1,x<5", "x>1,x<5"),
        ("b,a,b=1,a=1", "a,a=1,b,b=1"),
        ("a=b\0,c=d", "a=b,c=d"),
        ("a=\0b", "a=b"),
        ("a=b,c=d\0 \0junk", "a=b,c=d"),
        ("example.com/x=Y_1.z", "example.com/x=Y_1.z"),
        ("x=b,c=d", "c=d,x=b"),
    ] {
        assert_eq!(parse(text).map(|s| s.to_string()).as_deref(), Ok(printed), "{text:?}");
    }
}

const KEY_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and \
                        must start and end with an alphanumeric character (e.g. 'MyName',  or \
                        'my.name',  or '123-abc', regex used for validation is \
                        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric \
                          characters, '-', '_' or '.', and must start and end with an \
                          alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
                          regex used for validation is \
                          '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

#[test]
fn errors_speak_as_the_reference() {
    let requirement = |message: &str| format!("unable to parse requirement: {message}");
    for (text, message) in [
        ("==", "found '==', expected: !, identifier, or 'end of string'".to_owned()),
        (",", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
        ("a,", "found '', expected: identifier after ','".to_owned()),
        ("a,,b", "found ',', expected: identifier after ','".to_owned()),
        ("a=b c", "found 'c', expected: ',' or 'end of string'".to_owned()),
        ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
        ("!a in (b)", "found 'in', expected: ',' or 'end of string'".to_owned()),
        ("!", requirement("found '', expected: identifier")),
        ("!=a", "found '!=', expected: !, identifier, or 'end of string'".to_owned()),
        ("a b", requirement("found 'b', expected: in, notin, =, ==, !=, gt, lt")),
        ("a(b)", requirement("found '(', expected: in, notin, =, ==, !=, gt, lt")),
        ("a==!b", requirement("found '!', expected: identifier")),
        ("a in b", requirement("found 'b' expected: '('")),
        ("a in (", requirement("found '', expected: ',', ')' or identifier")),
        ("a in (=", requirement("found '=', expected: ',', ')' or identifier")),
        ("a in (b", requirement("found '', expected: ',' or ')'")),
        ("a in (b c)", requirement("found 'c', expected: ',' or ')'")),
        ("a in (b,", requirement("found '', expected: ',', or identifier")),
        ("a in (b,=)", requirement("found '=', expected: ',', or identifier")),
        ("a!b", requirement("found '!', expected: in, notin, =, ==, !=, gt, lt")),
        ("-a=b", requirement(&format!(r#"<nil>: Invalid value: "-a": {KEY_RULE}"#))),
        ("/a", requirement(r#"<nil>: Invalid value: "/a": prefix part must be non-empty"#)),
        ("a=-b", requirement(&format!(r#"values[0][a]: Invalid value: "-b": {VALUE_RULE}"#))),
        (
            "a in (b,c*)",
            requirement(&format!(r#"values[1][a]: Invalid value: "c*": {VALUE_RULE}"#)),
        ),
        (
            "a>x",
            requirement(
                r#"values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer"#,
            ),
        ),
        (
            "a<-x",
            requirement(&format!(
                r#"[values[0]: Invalid value: "-x": for 'Gt', 'Lt' operators, the value must be an integer, values[0][a]: Invalid value: "-x": {VALUE_RULE}]"#
            )),
        ),
    ] {
        assert_eq!(parse(text), Err(message), "{text:?}");
    }
}

#[test]
fn selectors_match() {
    let labels = [("app", "web"), ("n", "5"), ("empty", "")];
    let labels = Map::from_iter(labels.map(|(key, value)| (key, Value::from(value))));
    for (text, matches) in [
        ("", true),
        ("app=web", true),
        ("app==web,n=5", true),
        ("app=api", false),
        ("app=web,none=x", false),
        ("none!=x", true),
        ("app!=web", false),
        ("app in (api,web)", true),
        ("app notin (api,web)", false),
        ("none notin (x)", true),
        ("app,!none", true),
        ("!app", false),
        ("none", false),
        ("empty=", true),
        ("none=", false),
        ("n>4,n<6", true),
        ("n>5", false),
        ("app>1", false),
        ("none<1", false),
    ] {
        let selector = parse(text).unwrap();
        assert_eq!(selector.selects(&labels), matches, "{text}");
        assert_eq!(naively(&selector, |key| LabelSet::get(&labels, key)), matches, "{text}");
    }
    assert!(!LabelSelector::NOTHING.selects(&labels));
    assert!(LabelSelector::EVERYTHING.is_empty() && !LabelSelector::NOTHING.is_empty());
}

#[test]
fn exact_matches_are_found() {
    let selector = parse("a=1,b in (2),c in (3,4),d!=5").unwrap();
    for (key, value) in [("a", Some("1")), ("b", Some("2")), ("c", None), ("d", None), ("e", None)]
    {
        assert_eq!(selector.requires_exact_match(key), value, "{key}");
    }
}

#[test]
fn api_objects_become_selectors() {
    let expression = |key, operator, values: &[&'static str]| MatchExpression {
        key,
        operator,
        values: values.to_vec(),
    };
    let selector = LabelSelector::from_parts(
        [("z", "1"), ("b", "2")],
        [expression("c", "NotIn", &["y", "x"]), expression("a", "DoesNotExist", &[])],
    );
    assert_eq!(selector.unwrap().to_string(), "!a,b=2,c notin (x,y),z=1");
    for (expression, message) in [
        (expression("a", "Equals", &["b"]), r#""Equals" is not a valid label selector operator"#),
        (
            expression("a", "In", &[]),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            expression("a", "Exists", &["b"]),
            r#"values: Invalid value: ["b"]: values set must be empty for exists and does not exist"#,
        ),
        (
            expression("/a", "Exists", &[]),
            r#"key: Invalid value: "/a": prefix part must be non-empty"#,
        ),
    ] {
        let error = LabelSelector::from_parts([], [expression]).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn hostile_texts_stay_small() {
    let long = "a,".repeat(crate::selector::MAX_SELECTOR_LENGTH / 2);
    assert_eq!(
        parse(&format!("{long}a")).unwrap_err(),
        "selector must be no more than 1048576 bytes"
    );
    let keys = parse(&long[..long.len() - 1]).unwrap();
    assert_eq!(keys.requirements().len(), 524_288);
    let wrong: Vec<String> = (0..100_000).map(|i| format!("-{i}")).collect();
    let error = parse(&format!("a in ({})", wrong.join(","))).unwrap_err();
    assert_eq!(error.matches("Invalid value").count(), 256);
}

/// Whether labels satisfy all requirements, checked one by one.
fn naively<'a>(selector: &LabelSelector, find: impl Fn(&str) -> Option<&'a str>) -> bool {
    selector.requirements().iter().all(|requirement| requirement.matches(find(&requirement.key)))
}

/// Labels that count lookups.
struct Counted<'l> {
    labels: &'l [(&'l str, &'l str)],
    asked: std::cell::Cell<usize>,
}

impl LabelSet for Counted<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.asked.set(self.asked.get() + 1);
        self.labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    fn count(&self) -> usize {
        self.labels.len()
    }

    fn all(&self, mut holds: impl FnMut(&str, &str) -> bool) -> bool {
        self.asked.set(self.asked.get() + self.labels.len());
        self.labels.iter().all(|(key, value)| holds(key, value))
    }
}

#[test]
fn large_selector_agrees_with_its_requirements_one_by_one() {
    let parts = [
        "a",
        "!b",
        "c=1",
        "c==1",
        "d!=1",
        "e in (1,2,3)",
        "e in (2,3,4)",
        "f notin (1,2)",
        "f notin (3)",
        "g>1",
        "g>3",
        "g<9",
        "h<5",
        "i!=1",
        "i!=2",
        "i",
        "!j",
        "c in (1,x)",
        "k=",
    ];
    let values = ["1", "2", "3", "4", "x", ""];
    // Every part is left out in turn, to cover few and many, needed and excluded labels.
    for skipped in 0..parts.len() {
        for only in [parts.len(), 3] {
            let chosen = parts.iter().enumerate().filter(|(at, _)| *at != skipped);
            let chosen: Vec<&str> = chosen.map(|(_, part)| *part).take(only).collect();
            let selector = parse(&chosen.join(",")).unwrap();
            assert_eq!(selector.is_large(), chosen.len() > FEW_REQUIREMENTS);
            for seed in 0..600_usize {
                let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"];
                let given = keys.iter().enumerate().filter(|(at, key)| match **key {
                    "b" | "j" => (seed + at) % 7 == 0,
                    _ => (seed / (at + 1)) % 5 != 0,
                });
                let value = |at: usize, key: &str| match (seed % 3, key) {
                    (0, "c") => "1",
                    (0, "e") => "3",
                    (0, "g") => "4",
                    (0, "k") => "",
                    _ => values[(seed * 7 + at * 3 + seed / 11) % values.len()],
                };
                let labels: Vec<_> = given.map(|(at, key)| (*key, value(at, key))).collect();
                let find = |key: &str| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
                let counted = Counted { labels: &labels, asked: Default::default() };
                assert_eq!(
                    selector.selects(&counted),
                    naively(&selector, find),
                    "{selector} {labels:?}"
                );
            }
        }
    }
}

#[test]
fn selector_asks_for_no_more_labels_than_there_are() {
    let many = (0..10_000).map(|i| format!("!k{i}")).collect::<Vec<_>>().join(",");
    let labels = [("app", "web"), ("tier", "back"), ("k77x", "")];
    let counted = Counted { labels: &labels, asked: Default::default() };
    assert!(parse(&many).unwrap().selects(&counted));
    assert_eq!(counted.asked.take(), labels.len());
    // Requirements on one label are merged.
    let many = (0..10_000).map(|i| format!("app!=v{i}")).collect::<Vec<_>>().join(",");
    assert!(parse(&many).unwrap().selects(&counted));
    assert_eq!(counted.asked.take(), 1);
    let needed = (0..10_000).map(|i| format!("k{i}=v")).collect::<Vec<_>>().join(",");
    assert!(!parse(&needed).unwrap().selects(&counted));
    assert_eq!(counted.asked.take(), 0);
}
