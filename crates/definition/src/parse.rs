use crate::{Facts, FieldDef, Module, Resource, TypeDef};

/// Error in a file of `api/`.
#[derive(Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Message.
    pub message: String,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

/// Parses a definition file.
pub fn parse(stem: &str, text: &str) -> Result<Module, ParseError> {
    read(stem, text, full_field)
}

/// Parses an overlay file: the same format, but a field is its name and the facts to add.
pub fn parse_overlay(stem: &str, text: &str) -> Result<Module, ParseError> {
    read(stem, text, |words| {
        let [name, facts @ ..] = words else { return Err("a field needs a name".into()) };
        Ok(FieldDef { name: name.clone(), facts: facts_of(facts), ..FieldDef::default() })
    })
}

fn read(
    stem: &str,
    text: &str,
    field: impl Fn(&[String]) -> Result<FieldDef, String>,
) -> Result<Module, ParseError> {
    let mut module = Module { stem: stem.to_owned(), ..Module::default() };
    for (index, line) in text.lines().enumerate() {
        let content = line.split_once(" #").map_or(line, |(before, _)| before);
        if content.trim().is_empty() || content.starts_with('#') {
            continue;
        }
        read_line(&mut module, content, &field)
            .map_err(|message| ParseError { line: index + 1, message })?;
    }
    Ok(module)
}

fn read_line(
    module: &mut Module,
    line: &str,
    field: impl Fn(&[String]) -> Result<FieldDef, String>,
) -> Result<(), String> {
    let words = words(line)?;
    if line.starts_with(' ') {
        let ty = module.types.last_mut().ok_or("a field before any type")?;
        ty.fields.push(field(&words)?);
        return Ok(());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["group", gv, facts @ ..] => {
            let (group, version) = gv.split_once('/').unwrap_or(("", gv));
            module.group = group.to_owned();
            module.version = version.to_owned();
            module.facts = facts_of(facts);
        }
        ["resource", path, kind, scope @ ("namespaced" | "cluster"), facts @ ..] => {
            module.resources.push(Resource {
                path: (*path).to_owned(),
                kind: (*kind).to_owned(),
                namespaced: *scope == "namespaced",
                facts: facts_of(facts),
            });
        }
        ["sub", path, kind, facts @ ..] => {
            let of = path.split('/').next().unwrap_or_default();
            let parent = module.resources.iter().find(|r| r.path == of);
            module.resources.push(Resource {
                path: (*path).to_owned(),
                kind: (*kind).to_owned(),
                namespaced: parent.ok_or("a subresource before its resource")?.namespaced,
                facts: facts_of(facts),
            });
        }
        [word @ ("kind" | "type"), name, facts @ ..] => module.types.push(TypeDef {
            name: (*name).to_owned(),
            kind: *word == "kind",
            facts: facts_of(facts),
            fields: Vec::new(),
        }),
        _ => return Err(format!("cannot read {line:?}")),
    }
    Ok(())
}

fn full_field(words: &[String]) -> Result<FieldDef, String> {
    let [name, tag, ty, facts @ ..] = words else {
        return Err("a field needs a name, a tag and a type".into());
    };
    let tag = match tag.as_str() {
        "-" => 0,
        tag => tag.parse().map_err(|_| format!("{tag:?} is not a protobuf tag"))?,
    };
    Ok(FieldDef { name: name.clone(), tag, ty: ty.parse()?, facts: facts_of(facts) })
}

fn facts_of<S: AsRef<str>>(words: &[S]) -> Facts {
    let fact = |word: &str| match word.split_once('=') {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => (word.to_owned(), None),
    };
    Facts(words.iter().map(|word| fact(word.as_ref())).collect())
}

/// Splits at white space outside JSON strings.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut quoted, mut escaped) = (false, false);
    for c in line.chars() {
        if !quoted && c.is_whitespace() {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            continue;
        }
        word.push(c);
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            _ => {}
        }
    }
    if quoted {
        return Err("a string without an end".into());
    }
    if !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use crate::{parse, print};

    #[test]
    fn what_is_printed_reads_back() {
        let text = r#"group apps/v1 stage=beta

resource deployments Deployment namespaced singular=deployment verbs=create,get
sub deployments/scale autoscaling.v1.Scale verbs=get

kind Deployment
  metadata  1  meta.v1.ObjectMeta
  spec      2  DeploymentSpec

type DeploymentSpec
  -         1  Inlined
  replicas  2  *int32                    default=1
  names     -  map[string][]core.v1.Pod  default={"a":"b c"} enum=A,B
"#;
        let module = parse("apps.v1", text).unwrap();
        assert_eq!(module.group, "apps");
        assert_eq!(module.types[1].fields[2].facts.get("default"), Some(r#"{"a":"b c"}"#));
        assert_eq!(print(&module), text);
    }

    #[test]
    fn errors_name_their_line() {
        for (text, message) in [
            ("kind A\n  x 1", "line 2: a field needs a name, a tag and a type"),
            ("  x 1 string", "line 1: a field before any type"),
            ("kind A\n\n  x a string", "line 3: \"a\" is not a protobuf tag"),
            ("frob", "line 1: cannot read \"frob\""),
            ("kind A\n  x 1 string default=\"a", "line 2: a string without an end"),
        ] {
            assert_eq!(parse("t", text).unwrap_err().to_string(), message);
        }
    }
}
