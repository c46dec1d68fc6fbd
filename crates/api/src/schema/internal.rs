//! Internal form of built-in types: the Go structs that the reference validates.
//!
//! Internal structs have no JSON names, so that messages with such a struct have Go's names. Names and fields of an
//! internal struct follow from the versioned one, except for a few facts in `api/`: other names (`name=`), another
//! order or other fields (`internal=`), and values that are no pointers (`direct`).

use super::{Field, FieldFlags, Role, Schema, StructFlags, StructSchema};

/// Field of the internal form of a struct.
#[derive(Clone, Copy, Debug)]
pub enum InternalField<'t> {
    /// A field of the struct itself.
    Own(Field<'t>),
    /// A field of the enclosing struct, by its JSON name.
    Outer(&'t str),
    /// A field that no version has: name and constant value.
    Constant(&'t str, &'t str),
}

impl<'t> StructSchema<'t> {
    /// Whether the struct has no internal form.
    pub fn is_external(self) -> bool {
        self.flags().has(StructFlags::EXTERNAL)
    }

    /// Inlined struct of this name.
    pub fn inlined(self, name: &str) -> Option<Schema<'t>> {
        let inlined = self.members().iter().filter_map(|member| match member.role {
            Role::Inline(id) => Some(self.other(id)),
            Role::Field(_) => None,
        });
        let mut inlined =
            inlined.filter(|schema| schema.as_struct().is_some_and(|s| s.name() == name));
        inlined.next()
    }

    /// Fields in the order of the Go struct.
    pub fn fields_in_order(self) -> Vec<Field<'t>> {
        let mut fields: Vec<Field<'t>> = self.fields().collect();
        fields.sort_by_key(|field| field.rank());
        fields
    }

    /// Fields of the internal form, in order.
    pub fn internal_fields(self) -> Vec<InternalField<'t>> {
        let told = self.table.list(self.entry.internal);
        if told.len() == 0 {
            return self.fields_in_order().into_iter().map(InternalField::Own).collect();
        }
        let field = |name: &'t str| match (name.strip_prefix('^'), name.split_once(':')) {
            (Some(outer), _) => Some(InternalField::Outer(outer)),
            (None, Some((name, value))) => Some(InternalField::Constant(name, value)),
            (None, None) => self.field(name).map(InternalField::Own),
        };
        told.filter_map(field).collect()
    }
}

impl<'t> Field<'t> {
    /// Go name.
    ///
    /// ```
    /// let pod = kevel_api::builtin::schema("", "v1", "Pod").unwrap();
    /// let spec = pod.field("spec").unwrap();
    /// let name = |field| spec.schema().field(field).unwrap().go_name();
    /// assert_eq!(name("nodeName"), "NodeName");
    /// assert_eq!(name("dnsPolicy"), "DNSPolicy");
    /// assert_eq!(name("serviceAccount"), "DeprecatedServiceAccount");
    /// ```
    pub fn go_name(self) -> String {
        let told = (self.entry.go_name as usize).checked_sub(1);
        match told.and_then(|at| self.table.names.get(at)) {
            Some(name) => self.table.str(*name).to_owned(),
            None => go_name(self.name()),
        }
    }

    /// Whether the internal form has a pointer here.
    pub fn internal_pointer(self) -> bool {
        self.pointer() && !self.flags().has(FieldFlags::DIRECT)
    }
}

/// Initialisms: JSON names that begin with one of these words begin with it in capitals in Go.
const INITIALISMS: [&str; 36] = [
    "API", "AWS", "CA", "CEL", "CIDR", "CIDRs", "CSI", "DNS", "FC", "FS", "GCE", "GID", "GMSA",
    "GRPC", "HTTP", "ID", "IP", "IPs", "IQN", "ISCSI", "JSON", "NFS", "OS", "PD", "PKIX", "QOS",
    "RBD", "SE", "SSL", "TCP", "TLS", "TTL", "TTY", "UID", "URL", "WWIDs",
];

/// Go name of a field by its JSON name, as a rule.
fn go_name(json: &str) -> String {
    let end = json.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(json.len());
    let (word, rest) = json.split_at(end);
    match INITIALISMS.iter().find(|known| known.eq_ignore_ascii_case(word)) {
        Some(known) => format!("{known}{rest}"),
        None => {
            let mut name = json.to_owned();
            name.get_mut(..1).into_iter().for_each(str::make_ascii_uppercase);
            name
        }
    }
}
