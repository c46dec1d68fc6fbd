//! Real node: containerd, kubelet and kube-proxy, configured by the files of `conformance/node`, in the
//! [`crate::namespaces`] of the control plane.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::client::{Client, Request};
use crate::control_plane::{ControlPlane, built, cache, tree};
use crate::{Result, namespaces, objects};

/// Templates of `conformance/node`, and their targets in the node's folder.
const FILES: [(&str, &str); 4] = [
    ("containerd.toml", "containerd.toml"),
    ("network.json", "cni/10-pods.conflist"),
    ("kubelet.yaml", "kubelet.yaml"),
    ("kube-proxy.yaml", "kube-proxy.yaml"),
];

/// Starts a node beside a ready server, and waits until it is ready too. The kubelet gets its certificate by a
/// bootstrap token, for which the controllers must run.
pub async fn start(plane: &mut ControlPlane) -> Result<()> {
    let folder = plane.folder.join("node");
    write_files(&folder, &plane.folder.join("pki"))?;
    let file = |name: &str| folder.join(name).display().to_string();

    plane.spawn(
        "containerd",
        Path::new("containerd"),
        vec!["--config".into(), file("containerd.toml")],
    )?;
    plane.until("containerd", async |_| ctr(&["version"]).is_ok()).await?;
    let images = cache().join("images.tar").display().to_string();
    ctr(&["--namespace=k8s.io", "images", "import", &images])?;

    let client = plane.client(1)?;
    create_all(&client, "bootstrap.yaml").await?;
    let kubelet = vec![
        format!("--config={}", file("kubelet.yaml")),
        format!("--bootstrap-kubeconfig={}", plane.pki("bootstrap.kubeconfig")),
        format!("--kubeconfig={}", file("kubelet.kubeconfig")),
        format!("--cert-dir={}", file("certificates")),
        "--root-dir=/var/lib/kubelet".to_owned(),
        "--hostname-override=node1".to_owned(),
        format!("--node-ip={}", namespaces::ADDRESS),
        "--v=2".to_owned(),
    ];
    plane.spawn("kubelet", &built("kubelet"), kubelet)?;
    let proxy = vec![format!("--config={}", file("kube-proxy.yaml"))];
    plane.spawn("kube-proxy", &built("kube-proxy"), proxy)?;
    if built("coredns").exists() {
        create_all(&client, "coredns.yaml").await?;
    }
    plane.until("node1", async |_| is_ready(&client).await).await
}

fn write_files(folder: &Path, pki: &Path) -> Result<()> {
    fs::create_dir_all(folder.join("cni"))?;
    // Names outside of the cluster do not resolve.
    fs::write(folder.join("resolv.conf"), "")?;
    for (template, file) in FILES {
        let text = fs::read_to_string(tree().join("conformance/node").join(template))?
            .replace("@FOLDER@", &folder.display().to_string())
            .replace("@PKI@", &pki.display().to_string())
            .replace("@ADDRESS@", namespaces::ADDRESS)
            .replace("@CGROUP@", &namespaces::cgroup()?);
        fs::write(folder.join(file), text)?;
    }
    Ok(())
}

/// Runs containerd's command-line client.
fn ctr(arguments: &[&str]) -> Result<()> {
    let output = Command::new("ctr").args(arguments).stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ctr: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

async fn create_all(client: &Client, file: &str) -> Result<()> {
    for object in objects::read(&tree().join("conformance/node").join(file))? {
        objects::create(client, &object).await?;
    }
    Ok(())
}

async fn is_ready(client: &Client) -> bool {
    let Ok(node) = client.json(Request::get("/api/v1/nodes/node1")).await else { return false };
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
