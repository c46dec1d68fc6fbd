//! Compiled CEL rules of a schema (`x-kubernetes-validations`).

use kevel_cel::{CompileError, DeclType, Environment, Issues, MAX_REQUEST_SIZE, Program, Type};

use super::field_path;
use super::props::Props;

/// Rules of one schema.
#[derive(Debug)]
pub(crate) struct Rules {
    pub declared: DeclType,
    /// Type of the schema.
    pub kind: Box<str>,
    pub rules: Vec<Rule>,
    /// Highest number of values of the schema in one request.
    pub max_cardinality: u64,
}

/// A compiled rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Name of the rule in messages: its message or its expression.
    pub title: Box<str>,
    /// Error message, unless a messageExpression gives one.
    pub message: Box<str>,
    pub reason: Box<str>,
    /// `fieldPath`: the field of the error, if it is not the value itself.
    pub field: Box<str>,
    pub optional_old: bool,
    /// `None` for an empty expression.
    pub program: Option<Result<Program, String>>,
    pub uses_old: bool,
    pub message_expression: Option<(Box<str>, Result<Program, String>)>,
}

impl Rules {
    /// Compiles the rules; `None` if there are none, or if CEL has no type for the values.
    pub fn compile(schema: Props<'_>, is_root: bool) -> Option<Rules> {
        if schema.rules().is_empty() {
            return None;
        }
        let declared = schema.declared("selfType", is_root)?;
        let optional = DeclType::simple(Type::optional(declared.to_type()));
        let with_old = |old: DeclType| {
            let builder = Environment::builder().variable("self", declared.clone());
            builder.variable("oldSelf", old).build()
        };
        let (plain, optional) = (with_old(declared.clone()), with_old(optional));
        let rules = schema.schemas("x-kubernetes-validations").map(|rule| {
            let is_optional = rule.flag("optionalOldSelf");
            Rule::compile(schema, rule, if is_optional { &optional } else { &plain })
        });
        Some(Rules {
            kind: schema.kind().into(),
            rules: rules.collect(),
            max_cardinality: MAX_REQUEST_SIZE / (declared.min_size() + 1),
            declared,
        })
    }

    pub fn use_old(&self) -> bool {
        self.rules.iter().any(|rule| rule.uses_old)
    }
}

impl Rule {
    fn compile(schema: Props<'_>, rule: Props<'_>, environment: &Environment) -> Rule {
        let (text, message) = (rule.text("rule"), rule.text("message"));
        let title = if message.is_empty() { text.trim() } else { message.trim() };
        let program = (!text.trim().is_empty()).then(|| {
            let (program, output_type) = compile(text, environment)
                .map_err(|issues| format!("compilation failed: {issues}"))?;
            match output_type {
                Type::Bool => program.map_err(|why| format!("program instantiation failed: {why}")),
                _ => Err("cel expression must evaluate to a bool".to_owned()),
            }
        });
        let expression = rule.text("messageExpression");
        let message_expression = (!expression.is_empty() && matches!(program, Some(Ok(_))))
            .then(|| (expression.into(), compile_message(expression, environment)));
        let field = rule.text("fieldPath");
        Rule {
            title: title.into(),
            message: match message {
                "" => format!("failed rule: {title}").into(),
                message => message.trim().into(),
            },
            reason: rule.text("reason").into(),
            field: match field {
                "" => "".into(),
                // The reference returns before it reads fieldPath.
                _ if matches!(message_expression, Some((_, Err(_)))) => "".into(),
                field => field_path::parse(field, schema, true)
                    .map_or_else(|_| "".into(), |path| path.text.into()),
            },
            optional_old: rule.flag("optionalOldSelf"),
            uses_old: matches!(&program, Some(Ok(program)) if program.uses_variable("oldSelf")),
            program,
            message_expression,
        }
    }
}

fn compile_message(text: &str, environment: &Environment) -> Result<Program, String> {
    let (program, output_type) = compile(text, environment)
        .map_err(|issues| format!("messageExpression compilation failed: {issues}"))?;
    match output_type {
        Type::String => {
            program.map_err(|why| format!("messageExpression instantiation failed: {why}"))
        }
        _ => Err("messageExpression must evaluate to a string".to_owned()),
    }
}

/// Compiles an expression to its program and type. An error of building the program is returned with the type, because
/// a wrong type is reported first.
fn compile(
    text: &str,
    environment: &Environment,
) -> Result<(Result<Program, String>, Type), Issues> {
    match environment.compile(text) {
        Ok(program) => {
            let output_type = program.output_type();
            Ok((Ok(program), output_type))
        }
        Err(CompileError::Program { why, output_type }) => Ok((Err(why), output_type)),
        Err(CompileError::Issues(issues)) => Err(issues),
    }
}
