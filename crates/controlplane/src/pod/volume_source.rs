//! Validation of volume sources, which pods and PersistentVolumes share.

use kevel_api::name;

use crate::validation::Field;

pub(crate) fn host_path(source: Field) {
    let path = source.at("path");
    if !path.must("") {
        return;
    }
    path.no_backsteps();
    let ty = source.at("type");
    if ty.is_set() {
        ty.one_of(&[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ]);
    }
}

pub(crate) fn git_repo(source: Field) {
    source.at("repository").must("");
    source.at("directory").local_descending_path();
}

pub(crate) fn gce_persistent_disk(source: Field) {
    source.at("pdName").must("");
    partition(source.at("partition"));
}

pub(crate) fn aws_elastic_block_store(source: Field) {
    source.at("volumeID").must("");
    partition(source.at("partition"));
}

fn partition(partition: Field) {
    if !(0..=255).contains(&partition.int()) {
        partition.invalid("must be between 1 and 255, inclusive");
    }
}

/// Checks a ConfigMap or Secret source; `name` is the field with the object's name.
pub fn keys(source: Field, name: &'static str) {
    source.at(name).must("");
    source.at("defaultMode").file_mode();
    source.at("items").items().for_each(key_to_path);
}

pub(crate) fn key_to_path(item: Field) {
    item.at("key").must("");
    item.at("path").must("");
    item.at("path").local_unreserved_path();
    item.at("mode").file_mode();
}

pub fn nfs(source: Field) {
    source.at("server").must("");
    let path = source.at("path");
    path.must("");
    if !path.str().starts_with('/') {
        path.invalid("must be an absolute path");
    }
}

pub fn iscsi(source: Field) {
    source.at("targetPortal").must("");
    let iqn = source.at("iqn");
    if iqn.must("") {
        iscsi_name(iqn, "must be valid format starting with iqn, eui, or naa");
    }
    iscsi_rest(source);
    let initiator = source.at("initiatorName");
    if initiator.is_set() {
        let called = source.at("initiatorname");
        let why = "must be valid format starting with iqn, eui, or naa";
        iscsi_name(called.with(initiator.get()), why);
    }
}

/// Checks an iSCSI source in a PersistentVolume.
pub(crate) fn iscsi_persistent(source: Field, volume: &str) {
    let portal = source.at("targetPortal");
    portal.must("");
    let initiator = source.at("initiatorName");
    if initiator.is_set() && volume.len() + 1 + portal.len() > MAX_INITIATOR {
        source.at("targetportal").invalid_as(portal.str(), INITIATOR_TOO_LONG);
    }
    let iqn = source.at("iqn");
    if iqn.must("") {
        iscsi_name(iqn, "must be valid format");
    }
    iscsi_rest(source);
    let secret = source.at("secretRef");
    if secret.is_set() {
        secret.at("name").must("");
    }
    if initiator.is_set() {
        iscsi_name(source.at("initiatorname").with(initiator.get()), "must be valid format");
    }
}

fn iscsi_rest(source: Field) {
    source.at("lun").in_range(0, 255);
    let chap = source.at("chapAuthDiscovery").bool() || source.at("chapAuthSession").bool();
    if chap && source.at("secretRef").is_absent() {
        source.at("secretRef").required("");
    }
}

const MAX_INITIATOR: usize = 64;
const INITIATOR_TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be \
                                  under 64 characters if iscsi.initiatorName is specified.";

/// Checks the length of the iSCSI initiator name, which is composed of volume and portal.
pub(crate) fn initiator_fits(volume: Field, portal: usize) {
    if volume.len() + 1 + portal > MAX_INITIATOR {
        volume.invalid(INITIATOR_TOO_LONG);
    }
}

fn iscsi_name(name: Field, unknown: &'static str) {
    let text = name.str();
    let hardware = |digits: usize| text.len() == 4 + digits && text[4..].bytes().all(alphanumeric);
    let good = match text.get(..3) {
        Some("iqn") => is_iqn(text),
        Some("eui") => text.is_char_boundary(4) && hardware(16),
        Some("naa") => text.is_char_boundary(4) && hardware(32),
        _ => return name.invalid(unknown),
    };
    if !good {
        name.invalid("must be valid format");
    }
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// True for an iSCSI qualified name: `iqn.2001-04.com.example:storage`.
fn is_iqn(text: &str) -> bool {
    let Some((head, tail)) = text.split_once(':') else { return false };
    let mut parts = head.splitn(3, '.');
    let (Some("iqn"), Some(date), Some(authority)) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let date = date.as_bytes();
    let dated = date.len() == 7
        && date.iter().enumerate().all(|(at, byte)| match at {
            4 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    let authority_byte = |byte: u8| alphanumeric(byte) || byte == b'-' || byte == b'.';
    let forbidden = |c: char| ",;*&$|".contains(c) || c.is_ascii_whitespace();
    dated
        && !authority.is_empty()
        && authority.bytes().all(authority_byte)
        && !tail.is_empty()
        && !tail.contains(forbidden)
}

pub fn fc(source: Field) {
    let (names, ids, lun) = (source.at("targetWWNs"), source.at("wwids"), source.at("lun"));
    if names.is_empty() && ids.is_empty() {
        names.required("must specify either targetWWNs or wwids, but not both");
    }
    if !names.is_empty() && !ids.is_empty() {
        names.invalid("targetWWNs and wwids can not be specified simultaneously");
    }
    if !names.is_empty() {
        match lun.is_set() {
            true => lun.in_range(0, 255),
            false => lun.required("lun is required if targetWWNs is specified"),
        }
    }
}

pub(crate) fn glusterfs(source: Field) {
    source.at("endpoints").must("");
    source.at("path").must("");
}

pub(crate) fn flocker(source: Field) {
    let (name, id) = (source.at("datasetName"), source.at("datasetUUID"));
    if name.is_empty() && id.is_empty() {
        source.required("one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !id.is_empty() {
        let why = "datasetName and datasetUUID can not be specified simultaneously";
        source.invalid_as("resource", why);
    }
    if name.str().contains('/') {
        name.invalid("must not contain '/'");
    }
}

pub fn rbd(source: Field) {
    source.at("monitors").must("");
    source.at("image").must("");
}

pub fn cinder(source: Field) {
    source.at("volumeID").must("");
    secret_name(source);
}

fn secret_name(source: Field) {
    let secret = source.at("secretRef");
    if secret.is_set() {
        secret.at("name").must("");
    }
}

pub(crate) fn quobyte(source: Field) {
    let (registry, tenant) = (source.at("registry"), source.at("tenant"));
    let pairs = "must be a host:port pair or multiple pairs separated by commas";
    if !registry.must(pairs) {
    } else if tenant.len() >= 65 {
        tenant.required("must be a UUID and may not exceed a length of 64 characters");
    } else {
        for pair in registry.str().split(',').filter(|pair| !is_host_and_port(pair)) {
            let _ = pair;
            registry.invalid(pairs);
        }
    }
    source.at("volume").must("");
}

fn is_host_and_port(pair: &str) -> bool {
    match pair.strip_prefix('[') {
        Some(rest) => rest.split_once("]:").is_some_and(|(host, port)| {
            !host.contains(['[', ']']) && !port.contains([':', '[', ']'])
        }),
        None => pair.matches(':').count() == 1 && !pair.contains(['[', ']']),
    }
}

pub(crate) fn flex_volume(source: Field) {
    source.at("driver").must("");
    for (key, option) in source.at("options").entries() {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain).to_lowercase();
        let domain = format!(".{domain}");
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            option.invalid_as(key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

pub(crate) fn azure_file(source: Field) {
    source.at("secretName").must("");
    source.at("shareName").must("");
}

pub(crate) fn azure_disk(source: Field) {
    let (uri, caching, kind) = (source.at("diskURI"), source.at("cachingMode"), source.at("kind"));
    source.at("diskName").must("");
    uri.must("");
    if caching.is_set() {
        caching.one_of(&["None", "ReadOnly", "ReadWrite"]);
    }
    if kind.is_absent() {
        return;
    }
    kind.one_of(&["Dedicated", "Managed", "Shared"]);
    if kind.str() == "Managed" && !uri.str().starts_with("/subscriptions/") {
        uri.unsupported(&[
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ]);
    }
    if kind.str() != "Managed" && !uri.str().starts_with("https://") {
        let form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
        uri.unsupported(&[form]);
    }
}

pub(crate) fn storage_os(source: Field) {
    source.at("volumeName").must_form("", name::is_dns1123_label);
    let namespace = source.at("volumeNamespace");
    if !namespace.is_empty() {
        namespace.form(name::is_dns1123_label);
    }
    secret_name(source);
}

pub(crate) fn scale_io(source: Field) {
    for field in ["gateway", "system", "volumeName"] {
        source.at(field).must("");
    }
}

pub fn csi(source: Field) {
    csi_driver_name(source.at("driver"));
    let secret = source.at("nodePublishSecretRef");
    if secret.is_set() && secret.at("name").must("") {
        let called = source.at("name");
        called.with(secret.at("name").get()).object_name(name::name_is_dns_subdomain);
    }
}

/// Checks the name of a CSI driver: a DNS subdomain, in any case.
pub fn csi_driver_name(driver: Field) {
    if !driver.must("") {
        return;
    }
    if driver.len() > name::DNS_LABEL_MAX_LENGTH {
        driver.too_long(name::DNS_LABEL_MAX_LENGTH);
    }
    for problem in name::is_dns1123_subdomain(&driver.str().to_lowercase()) {
        driver.invalid(problem);
    }
}
