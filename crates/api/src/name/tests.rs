use super::*;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
                     or '-', and must start and end with an alphanumeric character (e.g. \
                     'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                         characters, '-' or '.', and must start and end with an alphanumeric \
                         character (e.g. 'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or \
                          '-', start with an alphabetic character, and end with an alphanumeric \
                          character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
                          '[a-z]([-a-z0-9]*[a-z0-9])?')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid \
                        DNS subdomain, which must consist of lower case alphanumeric characters, \
                        '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', \
                        regex used for validation is \
                        '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const KEY_NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
                        and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                        '123-abc', regex used for validation is \
                        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
                           characters, '-', '_' or '.', and must start and end with an \
                           alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
                           regex used for validation is \
                           '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or \
                          '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for \
                          validation is '[-._a-zA-Z0-9]+')";
const ENV_NAME: &str = "a valid environment variable name must consist of alphabetic characters, \
                        digits, '_', '-', or '.', and must not start with a digit (e.g. \
                        'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for \
                        validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')";

fn check(validate: impl Fn(&str) -> Problems, cases: &[(&str, &[&str])]) {
    for (value, problems) in cases {
        assert_eq!(validate(value), *problems, "{value:?}");
    }
}

#[test]
fn dns_labels() {
    let long = "a".repeat(64);
    check(
        is_dns1123_label,
        &[
            ("a", &[]),
            ("0-9", &[]),
            (&long[1..], &[]),
            (&long, &["must be no more than 63 characters"]),
            ("", &[LABEL]),
            ("-a", &[LABEL]),
            ("a-", &[LABEL]),
            ("A", &[LABEL]),
            ("a_b", &[LABEL]),
            ("a.b", &["must not contain dots"]),
            ("a..b", &[LABEL]),
            ("a\n", &[LABEL]),
            ("é", &[LABEL]),
        ],
    );
    check(is_short_name, &[(&long, &["must be no more than 63 bytes"]), ("a", &[])]);
    check(
        is_dns1035_label,
        &[
            ("a0", &[]),
            ("0a", &[LABEL_1035]),
            ("", &[LABEL_1035]),
            (&long, &["must be no more than 63 characters"]),
        ],
    );
}

#[test]
fn dns_subdomains() {
    let long = "a".repeat(254);
    check(
        is_dns1123_subdomain,
        &[
            ("a", &[]),
            ("a.b-c.0", &[]),
            (&long[1..], &[]),
            (&long, &["must be no more than 253 characters"]),
            ("", &[SUBDOMAIN]),
            ("a..b", &[SUBDOMAIN]),
            (".a", &[SUBDOMAIN]),
            ("a.", &[SUBDOMAIN]),
            ("Bad_Name", &[SUBDOMAIN]),
        ],
    );
    check(is_long_name, &[(&long, &["must be no more than 253 bytes"])]);
    check(is_long_name_caseless, &[("Example.COM", &[])]);
    check(is_dns1123_subdomain_with_underscore, &[("_a.b_c", &[]), ("a.b", &[])]);
    check(
        is_wildcard_dns1123_subdomain,
        &[
            ("*.a.com", &[]),
            ("a.com", &[WILDCARD]),
            ("*", &[WILDCARD]),
            ("*.", &[WILDCARD]),
            ("*.*.com", &[WILDCARD]),
        ],
    );
}

#[test]
fn label_keys_and_values() {
    let long = "a".repeat(64);
    let name = format!("name part {KEY_NAME}");
    let prefix = format!("prefix part {SUBDOMAIN}");
    let form = format!(
        "a valid label key {KEY_NAME} with an optional DNS subdomain prefix and '/' (e.g. \
         'example.com/MyName')"
    );
    check(
        is_label_key,
        &[
            ("a", &[]),
            ("A.b_c-D", &[]),
            ("example.com/a", &[]),
            ("", &["name part must be non-empty", &name]),
            ("/a", &["prefix part must be non-empty"]),
            ("a/", &["name part must be non-empty", &name]),
            ("A/a", &[&prefix]),
            ("a/b/c", &[&form]),
            ("-a", &[&name]),
            (&long, &["name part must be no more than 63 bytes"]),
        ],
    );
    check(is_annotation_key, &[("Example.COM/A", &[]), ("a b", &[&name])]);
    check(
        is_label_value,
        &[
            ("", &[]),
            ("a.B_c-1", &[]),
            ("-", &[LABEL_VALUE]),
            ("a b", &[LABEL_VALUE]),
            (&long, &["must be no more than 63 bytes"]),
        ],
    );
}

#[test]
fn keys_ports_and_variables() {
    check(
        is_config_map_key,
        &[
            ("a.B_c-1", &[]),
            (".a", &[]),
            ("", &[CONFIG_KEY]),
            ("bad key!", &[CONFIG_KEY]),
            (".", &["must not be '.'"]),
            ("..", &["must not be '..'"]),
            ("..a", &["must not start with '..'"]),
        ],
    );
    check(
        is_env_var_name,
        &[("a.b-C_1", &[]), ("1a", &[ENV_NAME]), ("", &[ENV_NAME]), ("..", &["must not be '..'"])],
    );
    check(
        is_relaxed_env_var_name,
        &[
            ("1 a", &[]),
            ("", &["environment variable name must be non-empty"]),
            (
                "a=b",
                &["a valid environment variable name must consist only of printable ASCII \
                   characters other than '='"],
            ),
        ],
    );
    check(
        is_valid_port_name,
        &[
            ("http-8080", &[]),
            (
                "",
                &[
                    "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                    "must contain at least one letter (a-z)",
                ],
            ),
            ("80", &["must contain at least one letter (a-z)"]),
            ("a--b", &["must not contain consecutive hyphens"]),
            ("-a", &["must not begin or end with a hyphen"]),
            ("abcdefghijklmnop", &["must be no more than 15 characters"]),
        ],
    );
    let range = "must be between 1 and 65535, inclusive";
    assert_eq!(is_valid_port_num(0), [range]);
    assert_eq!(is_valid_port_num(65_536), [range]);
    assert!(is_valid_port_num(65_535).is_empty());
    assert_eq!(is_valid_user_or_group_id(-1), ["must be between 0 and 2147483647, inclusive"]);
    check(
        is_valid_percent,
        &[
            ("93%", &[]),
            (
                "%",
                &[
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                ],
            ),
        ],
    );
    check(
        is_http_header_name,
        &[
            ("X-A", &[]),
            (
                "X A",
                &[
                    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
                ],
            ),
        ],
    );
    check(
        is_c_identifier,
        &[
            ("_a1", &[]),
            (
                "1a",
                &[
                    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')",
                ],
            ),
        ],
    );
    let integer = "must be a valid decimal integer in canonical form";
    check(
        is_decimal_integer,
        &[
            ("0", &[]),
            ("-10", &[]),
            ("", &["must be non-empty"]),
            ("-", &[integer]),
            ("-0", &[integer]),
            ("01", &[integer]),
            ("+1", &[integer]),
        ],
    );
}

#[test]
fn object_names_and_their_prefixes() {
    for (validate, name, prefix, problems) in [
        (name_is_dns_subdomain as ValidateName, "a.b", false, &[][..]),
        (name_is_dns_subdomain, "a-", false, &[SUBDOMAIN]),
        (name_is_dns_subdomain, "a-", true, &[]),
        (name_is_dns_subdomain, "a--", true, &[]),
        (name_is_dns_subdomain, "-", true, &[SUBDOMAIN]),
        // The byte before the dash is not checked.
        (name_is_dns_subdomain, "a_-", true, &[]),
        (name_is_dns_label, "a.b-", true, &["must not contain dots"]),
        (name_is_dns_label, "a-", false, &[LABEL]),
        (name_is_dns1035_label, "a-", true, &[]),
        (name_is_dns1035_label, "1-", false, &[LABEL_1035]),
        (is_path_segment_name, "system:a", false, &[]),
        (is_path_segment_name, ".", false, &["may not be '.'"]),
        (is_path_segment_name, "..", true, &[]),
        (is_path_segment_name, "a/b%c", true, &["may not contain '/'", "may not contain '%'"]),
    ] {
        assert_eq!(validate(name, prefix), problems, "{name}");
    }
}

#[test]
fn domains_in_fields() {
    let path = Path::new("p");
    let print = |errors: Vec<FieldError>| {
        errors.iter().map(FieldError::to_string).collect::<Vec<_>>().join("; ")
    };
    let label = "a".repeat(64);
    for (printed, expected) in [
        (print(is_fully_qualified_name(&path, "a.b.c")), String::new()),
        (print(is_fully_qualified_name(&path, "")), "p: Required value".to_owned()),
        (
            print(is_fully_qualified_name(&path, "a.b")),
            "p: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots".to_owned(),
        ),
        (print(is_fully_qualified_domain_name(&path, "a.b.")), String::new()),
        (
            print(is_fully_qualified_domain_name(&path, "a.")),
            "p: Invalid value: \"a\": should be a domain with at least two segments separated by dots".to_owned(),
        ),
        (
            print(is_fully_qualified_domain_name(&path, &format!("b.{label}"))),
            format!("p: Invalid value: \"{label}\": must be no more than 63 characters"),
        ),
        (print(is_domain_prefixed_path(&path, "acme.io/a/b?")),
            "p: Invalid value: \"a/b?\": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')".to_owned()),
        (
            print(is_domain_prefixed_path(&path, "acme.io/")),
            "p: Invalid value: \"acme.io/\": must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned(),
        ),
        (print(is_domain_prefixed_path(&path, "A/b")), format!("p: Invalid value: \"A\": {SUBDOMAIN}")),
        (print(is_domain_prefixed_key(&path, "acme.io/foo")), String::new()),
        (
            print(is_domain_prefixed_key(&path, "foo")),
            "p: Invalid value: \"foo\": must be a domain-prefixed key (such as \"acme.io/foo\")".to_owned(),
        ),
    ] {
        assert_eq!(printed, expected);
    }
}
