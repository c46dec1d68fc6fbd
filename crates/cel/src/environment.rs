//! CEL environments: declarations of variables, types and functions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kevel_clock::Stopwatch;

use crate::checker::check;
use crate::composition::Variables;
use crate::declared::{DeclType, ObjectType};
use crate::evaluator::plan;
use crate::library::{BASE, Function, INCLUDES, JSON_PATCH};
use crate::metrics::COMPILATION_SECONDS;
use crate::parser::parse;
use crate::program::{CompileError, Program};
use crate::types::Type;

/// Declarations for expressions: CEL's standard library and Kubernetes' libraries, as of v1.36, and the host's
/// variables and types.
#[derive(Clone, Debug)]
pub struct Environment(Arc<Declarations>);

#[derive(Clone, Debug, Default)]
struct Declarations {
    variables: HashMap<Arc<str>, Arc<DeclType>>,
    objects: HashMap<Arc<str>, Arc<ObjectType>>,
    /// Object types that expressions can construct.
    made: HashSet<Arc<str>>,
    /// Name prefix (`Object`) of object types that expressions can construct with any fields.
    dynamic: Option<Arc<ObjectType>>,
    bindings: bool,
    json_patch: bool,
    includes: bool,
}

/// Builder of an [`Environment`].
#[derive(Debug, Default)]
pub struct Builder(Declarations);

/// Longest text that is compiled on the caller's stack, as it cannot nest deep.
const SHORT: usize = 200;
const STACK_SIZE: usize = 16 << 20;

impl Environment {
    /// Starts without variables.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts with the declarations of this environment.
    pub fn extend(&self) -> Builder {
        Builder(Declarations::clone(&self.0))
    }

    /// Parses, checks and plans an expression.
    pub fn compile(&self, text: &str) -> Result<Program, CompileError> {
        self.compile_on_stack(text, None)
    }

    /// Compiles an expression that may refer to these variables.
    pub fn compile_with(&self, text: &str, variables: &Variables) -> Result<Program, CompileError> {
        self.compile_on_stack(text, Some(variables))
    }

    fn compile_on_stack(
        &self,
        text: &str,
        variables: Option<&Variables>,
    ) -> Result<Program, CompileError> {
        if text.len() <= SHORT {
            return self.compile_here(text, variables);
        }
        // The deepest allowed nesting takes more stack than the caller may have left.
        let compile = || self.compile_here(text, variables);
        kevel_compute::with_stack(STACK_SIZE, compile).unwrap_or_else(|| {
            let why = "expression could not be compiled".to_owned();
            Err(CompileError::Program { why, output_type: Type::Dyn })
        })
    }

    fn compile_here(
        &self,
        text: &str,
        variables: Option<&Variables>,
    ) -> Result<Program, CompileError> {
        let started = Stopwatch::start();
        let compiled = self.compile_timed(text, variables);
        COMPILATION_SECONDS.observe_seconds(started.elapsed());
        compiled
    }

    fn compile_timed(
        &self,
        text: &str,
        variables: Option<&Variables>,
    ) -> Result<Program, CompileError> {
        let ast = parse(text, self.0.bindings)?;
        let checked = check(&ast, self, variables)?;
        let output_type = || checked.types.get(&ast.root.id).cloned().unwrap_or(Type::Dyn);
        let plan = plan(&ast, &checked, self)
            .map_err(|why| CompileError::Program { why, output_type: output_type() })?;
        Ok(Program::new(ast, checked, plan, self.clone()))
    }

    /// Declared type of a variable.
    pub(crate) fn variable(&self, name: &str) -> Option<&Arc<DeclType>> {
        self.0.variables.get(name)
    }

    /// Type of a variable, or of a type name used as a value.
    pub(crate) fn variable_type(&self, name: &str) -> Option<Type> {
        if let Some(declared) = self.0.variables.get(name) {
            return Some(declared.to_type());
        }
        self.named_type(name).map(|ty| Type::Type(Some(Arc::new(ty))))
    }

    pub(crate) fn named_type(&self, name: &str) -> Option<Type> {
        let opaque = |name: &str| Some(Type::Opaque(name.into(), Arc::new([])));
        match name {
            "bool" => Some(Type::Bool),
            "bytes" => Some(Type::Bytes),
            "double" => Some(Type::Double),
            "google.protobuf.Duration" | "duration" => Some(Type::Duration),
            "int" => Some(Type::Int),
            "list" => Some(Type::list(Type::Param('A'))),
            "map" => Some(Type::map(Type::Param('A'), Type::Param('B'))),
            "null_type" => Some(Type::Null),
            "string" => Some(Type::String),
            "google.protobuf.Timestamp" | "timestamp" => Some(Type::Timestamp),
            "type" => Some(Type::Type(None)),
            "uint" => Some(Type::Uint),
            "optional_type" => Some(Type::optional(Type::Dyn)),
            "net.IP" | "net.CIDR" => opaque(name),
            _ if self.is_dynamic(name) => Some(Type::object(name)),
            _ => self.0.objects.get(name).map(|object| Type::Object(object.name.clone())),
        }
    }

    /// Object type by name.
    pub(crate) fn object(&self, name: &str) -> Option<&ObjectType> {
        if self.is_dynamic(name) {
            return self.0.dynamic.as_deref();
        }
        self.0.objects.get(name).map(|object| &**object)
    }

    /// Whether expressions can construct an object type.
    pub(crate) fn can_make(&self, name: &str) -> bool {
        self.0.made.contains(name) || self.is_dynamic(name)
    }

    /// Whether a name is that of an object type with any fields.
    pub(crate) fn is_dynamic(&self, name: &str) -> bool {
        self.0.dynamic.as_ref().is_some_and(|root| {
            let below = name.strip_prefix(&*root.name);
            below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
        })
    }

    pub(crate) fn function(&self, name: &str) -> Option<&'static Function> {
        let patch = || if self.0.json_patch { JSON_PATCH.get(name) } else { None };
        let includes = || if self.0.includes { INCLUDES.get(name) } else { None };
        BASE.get(name).or_else(patch).or_else(includes)
    }
}

impl Builder {
    /// Declares a variable. Its name may have dots: `authorizer.requestResource`.
    pub fn variable(mut self, name: &str, declared: DeclType) -> Self {
        declared.for_each_object(&mut |object| {
            self.0.objects.insert(object.name.clone(), object.clone());
        });
        self.0.variables.insert(name.into(), Arc::new(declared));
        self
    }

    /// Declares object types that expressions can construct: `Object{spec: Object.spec{…}}`.
    pub fn object_types(mut self, declared: &DeclType) -> Self {
        declared.for_each_object(&mut |object| {
            self.0.objects.insert(object.name.clone(), object.clone());
            self.0.made.insert(object.name.clone());
        });
        self
    }

    /// Declares object types with any fields, by their name prefix: with `Object`, expressions can construct
    /// `Object{spec: Object.spec{…}}`.
    pub fn dynamic_object_types(mut self, root: &str) -> Self {
        let fields = Default::default();
        self.0.dynamic = Some(Arc::new(ObjectType { name: root.into(), fields, open: true }));
        self
    }

    /// Allows `cel.bind`.
    pub fn bindings(mut self) -> Self {
        self.0.bindings = true;
        self
    }

    /// Allows `includes`: whether a value equals another, or a list of at most 48 values contains it.
    ///
    /// ```
    /// use kevel_cel::{Activation, Budget, Environment};
    /// let program = Environment::builder().includes().build().compile("[1, 2].includes(2) && !'a'.includes(1)")?;
    /// let result = program.evaluate(&Activation::new(), Budget::default()).result?;
    /// assert_eq!(result.as_bool(), Some(true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn includes(mut self) -> Self {
        self.0.includes = true;
        self
    }

    /// Declares `JSONPatch{op: 'add', …}` and `jsonpatch.escapeKey`.
    pub fn json_patch(mut self) -> Self {
        self.0.json_patch = true;
        let patch = DeclType::object(
            "JSONPatch",
            [
                ("op", DeclType::string()),
                ("path", DeclType::string()),
                ("from", DeclType::string()),
                ("value", DeclType::simple(Type::Dyn)),
            ],
        );
        self.object_types(&patch)
    }

    /// Builds the environment.
    pub fn build(self) -> Environment {
        Environment(Arc::new(self.0))
    }
}
