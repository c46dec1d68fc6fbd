//! Controllers that tests start in their own process: Kevel runs its own instead. The copied controllers then wait for
//! their end, and servers get `--controllers`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::Result;

/// Suffix of the name of a package whose controllers run in the server.
const SUFFIX: &str = "+controllers";
/// Environment variable with the names of these controllers, for the shim.
pub const VARIABLE: &str = "KUBE_INTEGRATION_CONTROLLERS";
/// Folder of the copied controllers in the module.
const CONTROLLERS: &str = "kubernetes/pkg/controller";
/// File that is added to the packages of controllers.
const ADDED: &str = "zz_external.go";

/// Packages of tests, and the controllers that the server runs for them.
const PACKAGES: [(&str, &str); 12] = [
    ("certificates", "certificatesigningrequest-approving-controller"),
    ("disruption", "disruption-controller"),
    ("dualstack", "endpoints-controller,endpointslice-controller"),
    ("endpoints", "endpoints-controller"),
    (
        "endpointslice",
        "endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller",
    ),
    ("evictions", "disruption-controller"),
    ("garbagecollector", "garbage-collector-controller"),
    ("namespace", "namespace-controller"),
    ("podgc", "pod-garbage-collector-controller"),
    ("quota", "resourcequota-controller"),
    ("serviceaccount", "serviceaccount-controller,serviceaccount-token-controller"),
    ("servicecidr", "service-cidr-controller"),
];

/// A function that runs a controller, and what it does instead.
struct Replaced {
    /// File below [`CONTROLLERS`].
    file: &'static str,
    /// Beginning of the function's declaration.
    declaration: &'static str,
    controller: &'static str,
    instead: &'static str,
}

/// Waits for the end of the test.
const WAIT: &str = "<-ctx.Done(); return";

const fn waits(
    file: &'static str,
    declaration: &'static str,
    controller: &'static str,
) -> Replaced {
    Replaced { file, declaration, controller, instead: WAIT }
}

const REPLACED: [Replaced; 12] = [
    waits(
        "certificates/certificate_controller.go",
        "func (cc *CertificateController) Run(",
        "certificatesigningrequest-approving-controller",
    ),
    waits(
        "disruption/disruption.go",
        "func (dc *DisruptionController) Run(",
        "disruption-controller",
    ),
    waits("endpoint/endpoints_controller.go", "func (e *Controller) Run(", "endpoints-controller"),
    waits(
        "endpointslice/endpointslice_controller.go",
        "func (c *Controller) Run(",
        "endpointslice-controller",
    ),
    waits(
        "endpointslicemirroring/endpointslicemirroring_controller.go",
        "func (c *Controller) Run(",
        "endpointslice-mirroring-controller",
    ),
    // Its graph, without workers: tests look into it to know what a collector has seen.
    Replaced {
        file: "garbagecollector/garbagecollector.go",
        declaration: "func (gc *GarbageCollector) Run(",
        controller: "garbage-collector-controller",
        instead: "workers = 0",
    },
    waits(
        "namespace/namespace_controller.go",
        "func (nm *NamespaceController) Run(",
        "namespace-controller",
    ),
    waits(
        "podgc/gc_controller.go",
        "func (gcc *PodGCController) Run(",
        "pod-garbage-collector-controller",
    ),
    waits(
        "resourcequota/resource_quota_controller.go",
        "func (rq *Controller) Run(",
        "resourcequota-controller",
    ),
    waits(
        "serviceaccount/serviceaccounts_controller.go",
        "func (c *ServiceAccountsController) Run(",
        "serviceaccount-controller",
    ),
    waits(
        "serviceaccount/tokens_controller.go",
        "func (e *TokensController) Run(",
        "serviceaccount-token-controller",
    ),
    waits(
        "servicecidrs/servicecidrs_controller.go",
        "func (c *Controller) Run(",
        "service-cidr-controller",
    ),
];

/// Name of a package without the suffix, and the controllers that the server runs, if the name has it.
pub fn of_package(name: &str) -> Result<(&str, Option<&'static str>)> {
    let Some(package) = name.strip_suffix(SUFFIX) else { return Ok((name, None)) };
    let known = PACKAGES.into_iter().find(|(other, _)| *other == package);
    let (_, controllers) = known.ok_or_else(|| format!("{package} has no controllers"))?;
    Ok((package, Some(controllers)))
}

/// Changes the copies of the controllers in a module.
pub fn replace(module: &Path) -> Result<()> {
    let folder = module.join(CONTROLLERS);
    let mut packages = BTreeSet::new();
    for replaced in &REPLACED {
        let file = folder.join(replaced.file);
        let text = with_condition(&fs::read_to_string(&file)?, replaced);
        fs::write(&file, text.ok_or_else(|| format!("{}: no such function", replaced.file))?)?;
        packages.extend(Path::new(replaced.file).parent());
    }
    for package in packages {
        let name = package.file_name().unwrap_or_default().display();
        let text = format!(
            "package {name}\n\nimport \"kevel.dev/integration/external\"\n\n\
             func runsOutside(name string) bool {{ return external.RunsController(name) }}\n"
        );
        fs::write(folder.join(package).join(ADDED), text)?;
    }
    Ok(())
}

/// Inputs of the copies, for the stamp.
pub fn facts() -> impl std::hash::Hash {
    REPLACED.map(|replaced| {
        (replaced.file, replaced.declaration, replaced.controller, replaced.instead)
    })
}

/// Go file whose function asks first; `None` if it has no such function.
fn with_condition(text: &str, replaced: &Replaced) -> Option<String> {
    let start = text.find(&format!("\n{}", replaced.declaration))?;
    let body = start + text[start..].find(" {\n")? + " {\n".len();
    let (before, after) = text.split_at(body);
    let Replaced { controller, instead, .. } = replaced;
    Some(format!("{before}\tif runsOutside(\"{controller}\") {{ {instead} }}\n{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_ask_first() {
        let text = "package a\n\nfunc (c *C) Run(ctx context.Context, n int) {\n\tc.run()\n}\n";
        let expected = "package a\n\nfunc (c *C) Run(ctx context.Context, n int) {\n\
                        \tif runsOutside(\"c-controller\") { <-ctx.Done(); return }\n\tc.run()\n}\n";
        let replaced = waits("a.go", "func (c *C) Run(", "c-controller");
        assert_eq!(with_condition(text, &replaced).as_deref(), Some(expected));
        assert_eq!(with_condition("package b\n", &replaced), None);
    }

    #[test]
    fn packages_have_controllers_by_suffix() {
        assert_eq!(of_package("quota").unwrap(), ("quota", None));
        assert_eq!(
            of_package("quota+controllers").unwrap(),
            ("quota", Some("resourcequota-controller"))
        );
        assert!(of_package("apiserver+controllers").is_err());
    }
}
