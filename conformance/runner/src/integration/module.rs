//! Go module from which tests are built: copies of the two modules with the tests, in which functions that start
//! servers are renamed and replaced by those of `conformance/integration/shim`.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::controllers;
use super::go::Go;
use crate::Result;
use crate::control_plane::{cache, tree};

/// Modules that are copied, each to a folder of its name.
const COPIED: [&str; 2] = ["kubernetes", "apiextensions-apiserver"];
/// Folder in which tests of k8s.io/kubernetes look for the data of k8s.io/api, as in its repository.
const STAGED_API: &str = "kubernetes/staging/src/k8s.io/api";
/// Functions that are renamed, because the shim replaces them.
const RENAMED: [(&str, &str); 5] = [
    ("kubernetes/cmd/kube-apiserver/app/testing/testserver.go", "StartTestServer"),
    ("kubernetes/test/integration/framework/test_server.go", "StartTestServer"),
    ("kubernetes/test/integration/framework/goleak.go", "goleakFindRetry"),
    ("kubernetes/test/integration/etcd/server.go", "StartRealAPIServerOrDie"),
    ("apiextensions-apiserver/pkg/cmd/server/testing/testserver.go", "StartTestServer"),
];
/// Scripts that tests run. Archives of modules, from which the copies come, do not keep permissions.
const SCRIPTS: [&str; 1] = ["kubernetes/test/integration/client/testdata/exec-plugin.sh"];
/// File that says what the folder was prepared of.
const STAMP: &str = "stamp";

/// A prepared module.
#[derive(Clone, Debug)]
pub struct GoModule {
    go: Go,
    folder: PathBuf,
}

impl GoModule {
    /// Prepares the module, unless it is there from the same sources. Its folder stays the same, because Go recompiles
    /// after a change of path.
    pub async fn prepare(go: &Go) -> Result<Self> {
        let folder = cache().join("integration");
        let module = GoModule { go: go.clone(), folder };
        let conformance = tree().join("conformance");
        let shim = files(&conformance.join("integration/shim"))?;
        let go_mod = fs::read_to_string(conformance.join("go.mod"))?;
        let stamp = stamp(&shim, &go_mod);
        let _lock = module.lock()?;
        if fs::read_to_string(module.folder.join(STAMP)).is_ok_and(|found| found == stamp) {
            return Ok(module);
        }
        println!("preparing {}", module.folder.display());
        module.copy(&conformance).await?;
        for (path, content) in &shim {
            let file = module.folder.join(path);
            fs::create_dir_all(file.parent().unwrap_or(&module.folder))?;
            fs::write(file, content)?;
        }
        for (path, function) in RENAMED {
            let file = module.folder.join(path);
            let text = renamed(&fs::read_to_string(&file)?, function);
            fs::write(file, text.ok_or_else(|| format!("{path} has no function {function}"))?)?;
        }
        controllers::replace(&module.folder)?;
        for path in SCRIPTS {
            fs::set_permissions(module.folder.join(path), Permissions::from_mode(0o755))?;
        }
        fs::write(module.folder.join("go.mod"), own_go_mod(&go_mod))?;
        fs::copy(conformance.join("go.sum"), module.folder.join("go.sum"))?;
        fs::write(module.folder.join(STAMP), stamp)?;
        Ok(module)
    }

    /// Folder of the module.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Test program of a package, built if needed. It has Go's default name, which clients send, and which tests find
    /// in managed fields.
    pub async fn test_program(&self, name: &str, import_path: &str) -> Result<PathBuf> {
        let last = import_path.rsplit('/').next().unwrap_or(import_path);
        let folder = self.folder.join("bin").join(name);
        fs::create_dir_all(&folder)?;
        let program = folder.join(format!("{last}.test"));
        let _lock = self.lock()?;
        if program.is_file() {
            return Ok(program);
        }
        println!("building {name}");
        let new = folder.join("new");
        let path = new.display().to_string();
        let arguments = ["test", "-mod=mod", "-c", "-vet=off", "-ldflags=-s -w", "-o", &path];
        self.go.run(&self.folder, &[&arguments[..], &[import_path]].concat()).await?;
        fs::rename(new, &program)?;
        Ok(program)
    }

    /// Locks out other runs from preparing or building until it is dropped.
    fn lock(&self) -> Result<fs::File> {
        fs::create_dir_all(&self.folder)?;
        let file = fs::File::create(self.folder.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    async fn copy(&self, conformance: &Path) -> Result<()> {
        for name in COPIED.into_iter().chain(["bin", "external", "flags", STAMP]) {
            remove(&self.folder.join(name))?;
        }
        fs::create_dir_all(self.folder.join("bin"))?;
        for name in COPIED {
            let source = self.source(conformance, &format!("k8s.io/{name}")).await?;
            copy_tree(&source, &self.folder.join(name))?;
        }
        let staged = self.folder.join(STAGED_API);
        fs::create_dir_all(staged.parent().unwrap_or(&staged))?;
        Ok(symlink(self.source(conformance, "k8s.io/api").await?, staged)?)
    }

    /// Folder in which Go keeps a module of `conformance/go.mod`.
    async fn source(&self, conformance: &Path, module: &str) -> Result<PathBuf> {
        self.go.run(conformance, &["mod", "download", module]).await?;
        let folder = self.go.run(conformance, &["list", "-m", "-f", "{{.Dir}}", module]).await?;
        Ok(folder.into())
    }
}

fn stamp(shim: &BTreeMap<PathBuf, Vec<u8>>, go_mod: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (shim, go_mod, COPIED, RENAMED, SCRIPTS, STAGED_API, controllers::facts()).hash(&mut hasher);
    format!("{:016x}\n", hasher.finish())
}

/// `conformance/go.mod` changed to use the copies.
fn own_go_mod(text: &str) -> String {
    let mut own = String::new();
    for line in text.lines() {
        let replaces = |name| line.trim_start().starts_with(&format!("k8s.io/{name} => "));
        match COPIED.into_iter().any(replaces) {
            true => continue,
            false if line.starts_with("module ") => own += "module kevel.dev/integration\n",
            false => own += &format!("{line}\n"),
        }
        if line == "replace (" {
            own.extend(COPIED.map(|name| format!("\tk8s.io/{name} => ./{name}\n")));
        }
    }
    own
}

/// Go file with a renamed function; `None` if it has no such function.
fn renamed(text: &str, function: &str) -> Option<String> {
    let declaration = format!("\nfunc {function}(");
    let found = text.contains(&declaration);
    found.then(|| text.replacen(&declaration, &format!("\nfunc {function}InProcess("), 1))
}

/// Go files below a folder, by relative path, without go.mod.
fn files(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for (path, kind) in walk(folder)? {
        if kind.is_file() && path.extension().is_some_and(|extension| extension == "go") {
            let content = fs::read(folder.join(&path))?;
            found.insert(path, content);
        }
    }
    Ok(found)
}

/// Copies a read-only tree of files to a writable one.
fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for (path, kind) in walk(from)? {
        match kind.is_dir() {
            true => fs::create_dir_all(to.join(&path))?,
            false => fs::write(to.join(&path), fs::read(from.join(&path))?)?,
        }
    }
    Ok(())
}

/// Everything below a folder, by relative path, folders before their content.
fn walk(folder: &Path) -> Result<Vec<(PathBuf, fs::FileType)>> {
    let mut found = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(inner) = left.pop() {
        for entry in fs::read_dir(folder.join(&inner))? {
            let entry = entry?;
            let (path, kind) = (inner.join(entry.file_name()), entry.file_type()?);
            if kind.is_dir() {
                left.push(path.clone());
            }
            found.push((path, kind));
        }
    }
    Ok(found)
}

fn remove(path: &Path) -> Result<()> {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_mod_leads_to_own_copies() {
        let text = "module kevel.dev/conformance\n\ngo 1.26.0\n\nreplace (\n\tk8s.io/api => k8s.io/api v0.36.3\n\
                    \tk8s.io/apiextensions-apiserver => k8s.io/apiextensions-apiserver v0.36.3\n)\n";
        let own = "module kevel.dev/integration\n\ngo 1.26.0\n\nreplace (\n\tk8s.io/kubernetes => ./kubernetes\n\
                   \tk8s.io/apiextensions-apiserver => ./apiextensions-apiserver\n\tk8s.io/api => k8s.io/api v0.36.3\n)\n";
        assert_eq!(own_go_mod(text), own);
    }

    #[test]
    fn functions_are_renamed_where_declared() {
        let text = "package a\n\n// Start starts.\nfunc Start(t T) { Start(t) }\n";
        let expected = "package a\n\n// Start starts.\nfunc StartInProcess(t T) { Start(t) }\n";
        assert_eq!(renamed(text, "Start").as_deref(), Some(expected));
        assert_eq!(renamed(text, "Stop"), None);
    }
}
