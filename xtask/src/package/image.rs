//! Container images, one for each architecture: an OCI image layout that `docker load` reads too.
//!
//! The programs are where the reference's images have them, so that a manifest needs another image name and nothing else:
//! `/usr/local/bin/kube-apiserver`, which may bind ports below 1024, and the entry point `/go-runner`, a name under which
//! the same program runs the command that it is given.

use serde_json::{Value, json};

use super::archive::{ArchiveEntry, EntryContent, FILE, PROGRAM, gzip, tar, with_folders};
use super::inputs::{Inputs, VERSION};
use super::program::ProgramFile;
use super::{PackageError, PackageFile, sha256};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Name of the image where none is given to the program that loads it.
const NAME: &str = "kevel/kube-apiserver";

/// The attribute in which Linux keeps capabilities of a file.
const CAPABILITIES: &str = "security.capability";
/// Second version of the attribute, with the flag that the capabilities are effective from the start.
const EFFECTIVE: u32 = 0x0200_0001;
const NET_BIND_SERVICE: u32 = 1 << 10;

pub fn make(inputs: &Inputs) -> Result<Vec<PackageFile>, PackageError> {
    let mut packages = Vec::new();
    for program in &inputs.programs {
        if !program.is_static {
            return Err(PackageError::Dynamic("kube-apiserver"));
        }
        let name = format!("kevel-image-{VERSION}-{}.tar", program.architecture.debian);
        packages.push(PackageFile { name, bytes: image(inputs, program)? });
    }
    Ok(packages)
}

fn image(inputs: &Inputs, program: &ProgramFile) -> Result<Vec<u8>, PackageError> {
    let plain = tar(&with_folders(files(inputs, program)?), &inputs.time)?;
    let layer = gzip(&plain)?;
    let config = config(inputs, program, &sha256(&plain))?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &config),
        "layers": [descriptor(LAYER, &layer)],
    })
    .to_string()
    .into_bytes();
    let mut of_image = descriptor(MANIFEST, &manifest);
    of_image["platform"] = json!({"architecture": program.architecture.debian, "os": "linux"});
    of_image["annotations"] = json!({"org.opencontainers.image.ref.name": VERSION});
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [of_image],
    });
    // For `docker load` of versions that do not read the layout.
    let docker = json!([{
        "Config": blob(&config),
        "RepoTags": [format!("{NAME}:{VERSION}")],
        "Layers": [blob(&layer)],
    }]);
    let entries = vec![
        ArchiveEntry::file("oci-layout", FILE, r#"{"imageLayoutVersion":"1.0.0"}"#),
        ArchiveEntry::file("index.json", FILE, index.to_string()),
        ArchiveEntry::file("manifest.json", FILE, docker.to_string()),
        ArchiveEntry::file(blob(&config), FILE, config),
        ArchiveEntry::file(blob(&manifest), FILE, manifest),
        ArchiveEntry::file(blob(&layer), FILE, layer),
    ];
    tar(&with_folders(entries), &inputs.time)
}

/// The files of the only layer.
fn files(inputs: &Inputs, program: &ProgramFile) -> Result<Vec<ArchiveEntry>, PackageError> {
    let attributes = vec![(CAPABILITIES.to_owned(), capability())];
    let doc = |name: &str| format!("usr/share/doc/kevel/{name}");
    Ok(vec![
        ArchiveEntry {
            path: "usr/local/bin/kube-apiserver".to_owned(),
            mode: PROGRAM,
            content: EntryContent::Attributed(program.bytes.clone(), attributes),
        },
        ArchiveEntry::link("go-runner", "usr/local/bin/kube-apiserver"),
        ArchiveEntry::file("etc/passwd", FILE, inputs.file("image/passwd")?),
        ArchiveEntry::file("etc/group", FILE, inputs.file("image/group")?),
        ArchiveEntry { mode: 0o1777, ..ArchiveEntry::folder("tmp") },
        ArchiveEntry { mode: 0o700, ..ArchiveEntry::folder("root") },
        ArchiveEntry::folder("var/lib/kevel"),
        ArchiveEntry::file(doc("LICENSE"), FILE, inputs.license.clone()),
        ArchiveEntry::file(doc("THIRD-PARTY.txt"), FILE, inputs.third_party.clone()),
    ])
}

/// The bytes of the attribute: permitted and inheritable capabilities, the lower 32 of each first.
fn capability() -> Vec<u8> {
    [EFFECTIVE, NET_BIND_SERVICE, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn config(inputs: &Inputs, program: &ProgramFile, layer: &str) -> Result<Vec<u8>, PackageError> {
    let created = inputs.time.rfc3339()?;
    let config = json!({
        "architecture": program.architecture.debian,
        "os": "linux",
        "created": created,
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Entrypoint": ["/go-runner"],
            "Cmd": ["kube-apiserver", "--data-dir=/var/lib/kevel"],
            "ExposedPorts": {"6443/tcp": {}},
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": "kube-apiserver",
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        "history": [{"created": created, "created_by": "cargo xtask package image"}],
    });
    Ok(config.to_string().into_bytes())
}

fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len()})
}

fn blob(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", sha256(bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_capability_is_as_setcap_writes_it() {
        // cap_net_bind_service=ep
        let expected = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(super::capability(), expected);
    }
}
