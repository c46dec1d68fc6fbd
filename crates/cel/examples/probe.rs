#![allow(clippy::unwrap_used)]
use kevel_api::value::{Map as TreeMap, Value as Tree};
use kevel_cel::*;
use kevel_codec::json::{Unknown, decode_any, encode_any};
use std::io::{BufRead, Write};

fn ascii_quote(s: &str) -> String {
    let mut o = String::from("\"");
    for c in s.chars() {
        match c {
            '"' => o.push_str("\\\""),
            '\\' => o.push_str("\\\\"),
            '\n' => o.push_str("\\n"),
            '\r' => o.push_str("\\r"),
            '\t' => o.push_str("\\t"),
            '\u{7}' => o.push_str("\\a"),
            '\u{8}' => o.push_str("\\b"),
            '\u{c}' => o.push_str("\\f"),
            '\u{b}' => o.push_str("\\v"),
            c if c.is_ascii() && !c.is_ascii_control() => o.push(c),
            c if (c as u32) < 0x80 => o.push_str(&format!("\\x{:02x}", c as u32)),
            c if (c as u32) < 0x10000 => o.push_str(&format!("\\u{:04x}", c as u32)),
            c => o.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    o.push('"');
    o
}

fn g(f: f64) -> String {
    if f.is_infinite() {
        return if f > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    let e = format!("{f:e}");
    let (m, x) = e.split_once('e').unwrap();
    let x: i32 = x.parse().unwrap();
    if !(-4..6).contains(&x) {
        format!("{m}e{}{:02}", if x < 0 { '-' } else { '+' }, x.abs())
    } else {
        format!("{f}")
    }
}

fn show(v: &Value<'_>) -> String {
    match v {
        Value::String(t) => ascii_quote(t),
        Value::Bytes(b) => format!("b{}", b.iter().map(|x| format!("{x:02x}")).collect::<String>()),
        Value::Double(d) if d.is_nan() => "NaN".into(),
        Value::Double(d) => format!("d{}", g(*d)),
        Value::Uint(u) => format!("{u}u"),
        Value::Int(i) => i.to_string(),
        Value::Bool(b) => b.to_string(),
        Value::Null => "null".into(),
        Value::Duration(n) => format!("duration({n})"),
        Value::Timestamp(t) => format!("timestamp({t})"),
        Value::Optional(Some(v)) => format!("optional({})", show(v)),
        Value::Optional(None) => "optional.none".into(),
        Value::Type(t) => format!("type({})", t.name()),
        Value::List(l) => {
            format!("[{}]", l.iter().map(|e| show(&e.unwrap())).collect::<Vec<_>>().join(", "))
        }
        Value::Map(m) => {
            let mut p: Vec<_> =
                m.entries().map(|(k, v)| format!("{}: {}", show(&k), show(&v.unwrap()))).collect();
            p.sort();
            format!("{{{}}}", p.join(", "))
        }
        Value::Extension(e) => {
            let name = match e {
                Extension::Quantity(_) => "quantity",
                Extension::Address(_) => "ip",
                Extension::Network(_) => "cidr",
                Extension::Url(_) => "url",
                Extension::Version(_) => "semver",
                Extension::Format(_) => "format",
                _ => "other",
            };
            format!("{name}({e})")
        }
        other => format!("{other:?}"),
    }
}

fn stack() {
    let kb: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let case = std::env::args().nth(3).unwrap();
    let (o, i, c, n) = match case.as_str() {
        "paren" => ("(", "1", ")", 249),
        "list" => ("[", "x", "]", 249),
        "not" => ("!(", "true", ")", 249),
        "dyn" => ("dyn(", "x", ")", 249),
        "plus" => ("", "1", " + 1", 248),
        "sel" => ("", "x", ".a", 248),
        "map" => ("x.map(a, ", "1", ")", 100),
        "idx" => ("x[", "0", "]", 200),
        "tern" => ("true ? x : (", "x", ")", 120),
        "and" => ("x && (x || ", "x", ")", 240),
        _ => ("{1: ", "x", "}", 249),
    };
    let text = format!("{}{i}{}", o.repeat(n), c.repeat(n));
    std::thread::Builder::new()
        .stack_size(kb << 10)
        .spawn(move || {
            let env = Environment::builder().variable("x", DeclType::simple(Type::Dyn)).build();
            let phase = std::env::args().nth(4).unwrap_or_default();
            match env.compile(&text) {
                Err(e) => println!("{case} {kb} {}", e.to_string().lines().next().unwrap()),
                Ok(p) => {
                    if phase == "compile" {
                        println!("{case} {kb} ok");
                        return;
                    }
                    p.estimate_cost();
                    let mut a = Activation::new();
                    a.bind("x", Value::list_of_one());
                    let r = p.evaluate(&a, Budget::default());
                    println!("{case} {kb} evaluated {:?}", r.result.is_ok());
                }
            }
        })
        .unwrap()
        .join()
        .unwrap();
}

trait One {
    fn list_of_one() -> Self;
}
impl One for Value<'_> {
    fn list_of_one() -> Self {
        Value::List(vec![Value::Int(1)].into())
    }
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("bench") {
        return bench();
    }
    if std::env::args().nth(1).as_deref() == Some("stack") {
        return stack();
    }
    let text = std::fs::read("/root/ref/cel/object.json").unwrap();
    let object = decode_any(&text, Unknown::Ignore).unwrap().value;
    let inner = || {
        DeclType::object(
            "test.Inner",
            [("name", DeclType::string()), ("count", DeclType::simple(Type::Int))],
        )
    };
    let strings = || DeclType::list(DeclType::string());
    let user = DeclType::object(
        "kubernetes.UserInfo",
        [
            ("username", DeclType::string()),
            ("uid", DeclType::string()),
            ("groups", strings()),
            ("extra", DeclType::map(strings())),
            ("inner", inner()),
            ("items", DeclType::list(inner())),
            ("any", DeclType::simple(Type::Dyn)),
        ],
    );
    let crd = std::env::args().nth(1).as_deref() == Some("crd");
    let schema = decode_any(&std::fs::read("/root/ref/cel/schema.json").unwrap(), Unknown::Ignore)
        .unwrap()
        .value;
    let custom = decode_any(&std::fs::read("/root/ref/cel/custom.json").unwrap(), Unknown::Ignore)
        .unwrap()
        .value;
    let self_type = DeclType::from_json_schema("selfType", &schema, true).unwrap();
    let crd_env = Environment::builder().variable("self", self_type.clone()).build();
    let simple = DeclType::simple;
    let env = Environment::builder()
        .variable("claims", DeclType::map(simple(Type::Any)))
        .variable("user", user)
        .variable("i", simple(Type::Int))
        .variable("u", simple(Type::Uint))
        .variable("d", simple(Type::Double))
        .variable("s", simple(Type::String))
        .variable("b", simple(Type::Bool))
        .variable("by", simple(Type::Bytes))
        .variable("li", simple(Type::list(Type::Int)))
        .variable("ls", simple(Type::list(Type::String)))
        .variable("m", simple(Type::map(Type::String, Type::Int)))
        .variable("object", simple(Type::Dyn))
        .variable("ts", simple(Type::Timestamp))
        .variable("dur", simple(Type::Duration))
        .variable("os", simple(Type::optional(Type::String)))
        .variable("missing", simple(Type::Dyn))
        .build();
    let li = decode_any(b"[1,2,3]", Unknown::Ignore).unwrap().value;
    let ls = decode_any(br#"["a","b","c"]"#, Unknown::Ignore).unwrap().value;
    let m = decode_any(br#"{"x":1,"y":2}"#, Unknown::Ignore).unwrap().value;
    let stdin = std::io::stdin();
    let mut out = std::io::BufWriter::new(std::io::stdout());
    for line in stdin.lock().lines() {
        let line = line.unwrap();
        let expr = decode_any(line.as_bytes(), Unknown::Ignore).unwrap().value;
        let expr = expr.as_str().unwrap();
        let mut r: Vec<(&str, Tree)> = vec![("expr", Tree::from(expr))];
        match if crd { &crd_env } else { &env }.compile(expr) {
            Err(CompileError::Issues(i)) => r.push(("issues", Tree::from(i.to_string().as_str()))),
            Err(CompileError::Program(p)) => r.push(("prog", Tree::from(p.as_str()))),
            Ok(program) => {
                r.push(("type", Tree::from(program.output_type().to_string().as_str())));
                let e = program.estimate_cost();
                r.push(("min", Tree::from(e.min.to_string().as_str())));
                r.push(("max", Tree::from(e.max.to_string().as_str())));
                let mut a = Activation::new();
                a.bind("self", Value::from_declared(&custom, &self_type).unwrap());
                a.bind("claims", Value::from_tree(object.at(&["claims"]).unwrap()));
                a.bind("user", Value::from_tree(object.at(&["user"]).unwrap()));
                a.bind("object", Value::from_tree(object.at(&["object"]).unwrap()));
                a.bind("i", Value::Int(5))
                    .bind("u", Value::Uint(7))
                    .bind("d", Value::Double(2.5))
                    .bind("s", Value::from("héllo"))
                    .bind("b", Value::Bool(true))
                    .bind("by", Value::Bytes(b"abc".as_slice().into()))
                    .bind("li", Value::from_tree(&li))
                    .bind("ls", Value::from_tree(&ls))
                    .bind("m", Value::from_tree(&m))
                    .bind(
                        "ts",
                        Value::Timestamp(Timestamp::parse("2024-02-29T12:34:56.789Z").unwrap()),
                    )
                    .bind("dur", Value::Duration(90_000_000_000))
                    .bind("os", Value::Optional(Some(std::sync::Arc::new(Value::from("opt")))));
                let ev = program.evaluate(&a, Budget::default());
                r.push(("cost", Tree::from(ev.cost.to_string().as_str())));
                match ev.result {
                    Ok(v) => r.push(("value", Tree::from(show(&v).as_str()))),
                    Err(e) => r.push(("error", Tree::from(e.to_string().as_str()))),
                }
            }
        }
        let mut bytes = Vec::new();
        encode_any(&Tree::Map(TreeMap::from_iter(r)), &mut bytes);
        out.write_all(&bytes).unwrap();
        out.write_all(b"\n").unwrap();
    }
}

fn bench() {
    let text = std::fs::read("/root/ref/cel/object.json").unwrap();
    let object = decode_any(&text, Unknown::Ignore).unwrap().value;
    let env = Environment::builder()
        .variable("object", DeclType::simple(Type::Dyn))
        .variable("claims", DeclType::map(DeclType::simple(Type::Any)))
        .build();
    for e in [
        "claims.sub",
        "'oidc:' + claims.sub",
        "has(claims.sub) && claims.sub.startsWith('a')",
        "object.spec.template.spec.containers.all(c, has(c.image) && c.image.matches('^[a-z]+(:.*)?$'))",
        "object.metadata.labels.exists(k, k == 'app') && object.spec.replicas <= 5",
        "lists.range(1000).map(x, x * 2).filter(x, x % 3 == 0).size()",
    ] {
        let n = 2000;
        let t = std::time::Instant::now();
        for _ in 0..n {
            std::hint::black_box(env.compile(e).unwrap());
        }
        let compile = t.elapsed() / n;
        let p = env.compile(e).unwrap();
        let t = std::time::Instant::now();
        let mut cost = 0;
        for _ in 0..n {
            let mut a = Activation::new();
            a.bind("claims", Value::from_tree(object.at(&["claims"]).unwrap()));
            a.bind("object", Value::from_tree(object.at(&["object"]).unwrap()));
            let ev = p.evaluate(&a, Budget::default());
            std::hint::black_box(ev.result.is_ok());
            cost = ev.cost;
        }
        println!("{e}\n  compile {compile:?} evaluate {:?} cost {cost}", t.elapsed() / n);
    }
}
