//! Warnings about overlapping file paths in volumes.

use std::collections::BTreeMap;

use kevel_api::quote::quote;
use kevel_api::warning::WarningList;

use crate::validation::Field;

/// Warns of paths in a volume that are equal or of which one contains the other.
pub fn warnings(volumes: Field, out: &mut WarningList) {
    for volume in volumes.items() {
        let name = quote(volume.at("name").str());
        for (kind, field, named) in [
            ("ConfigMap", "configMap", "name"),
            ("Secret", "secret", "secretName"),
            ("DownwardAPI", "downwardAPI", ""),
        ] {
            let source = volume.at(field);
            let mut paths = Paths::default();
            let label = match named {
                "" => kind.to_owned(),
                named => format!("{kind} {}", quote(source.at(named).str())),
            };
            for item in source.at("items").items() {
                let path = PathAndSource { path: item.at("path").str(), source: String::new() };
                paths.add(path, &name, &label, out);
            }
        }
        projected(volume.at("projected"), &name, out);
    }
}

fn projected(volume: Field, name: &str, out: &mut WarningList) {
    let mut paths = Paths::default();
    for source in volume.at("sources").items() {
        if source.is_empty() {
            out.add_with(|| format!("volume {name} (Projected) has no sources provided"));
        }
        for path in paths_of(source) {
            paths.add(path, name, "Projected", out);
        }
    }
}

/// Files of a projection's first source.
fn paths_of<'v>(projection: Field<'v, '_>) -> Vec<PathAndSource<'v>> {
    let items = |field: &str, source: String| -> Vec<PathAndSource<'v>> {
        let items = projection.at(field);
        let items = items.at("items");
        let paths = items.items().map(|item| item.at("path").str());
        paths.map(|path| PathAndSource { path, source: source.clone() }).collect()
    };
    let one = |field: &str, name: &str, source: &str| {
        let path = projection.at(field).at(name).str();
        PathAndSource { path, source: source.to_owned() }
    };
    let named = |field: &str, kind: &str| {
        format!("{kind} {}", quote(projection.at(field).at("name").str()))
    };
    let has_items = |field: &str| projection.at(field).at("items").is_set();
    if has_items("configMap") {
        items("configMap", named("configMap", "ConfigMap"))
    } else if has_items("secret") {
        items("secret", named("secret", "Secret"))
    } else if has_items("downwardAPI") {
        items("downwardAPI", "DownwardAPI".to_owned())
    } else if projection.at("serviceAccountToken").is_set() {
        vec![one("serviceAccountToken", "path", "ServiceAccountToken")]
    } else if projection.at("clusterTrustBundle").is_set() {
        let bundle = projection.at("clusterTrustBundle");
        let name = if bundle.at("name").is_set() { "name" } else { "signerName" };
        let source = format!("ClusterTrustBundle {}", quote(bundle.at(name).str()));
        vec![one("clusterTrustBundle", "path", &source)]
    } else {
        let all = [
            ("certificateChainPath", "PodCertificate chain"),
            ("keyPath", "PodCertificate key"),
            ("credentialBundlePath", "PodCertificate credential bundle"),
        ];
        all.map(|(name, source)| one("podCertificate", name, source)).into()
    }
}

/// A path in a volume, with its source.
struct PathAndSource<'v> {
    path: &'v str,
    source: String,
}

/// Paths seen so far.
#[derive(Default)]
struct Paths<'v> {
    seen: Vec<String>,
    by_path: BTreeMap<&'v str, Vec<usize>>,
}

impl<'v> Paths<'v> {
    /// Adds a path, and warns of paths that it overlaps.
    fn add(&mut self, path: PathAndSource<'v>, volume: &str, kind: &str, out: &mut WarningList) {
        let source =
            if path.source.is_empty() { String::new() } else { format!(" ({})", path.source) };
        let path = path.path.trim_end_matches('/');
        if path.is_empty() {
            return;
        }
        let shown = format!("{}{source}", quote(path));
        if !out.is_full() {
            for other in self.overlapping(path) {
                let other = &self.seen[other];
                out.add_with(|| {
                    format!("volume {volume} ({kind}): overlapping paths: {shown} with {other}")
                });
            }
        }
        self.by_path.entry(path).or_default().push(self.seen.len());
        self.seen.push(shown);
    }

    /// Indices of paths equal to this one, above it or below it, in the order of insertion.
    fn overlapping(&self, path: &str) -> Vec<usize> {
        let outer = path.match_indices('/').filter_map(|(end, _)| self.by_path.get(&path[..end]));
        let inner = format!("{path}/");
        let inner =
            self.by_path.range(&*inner..).take_while(|(other, _)| other.starts_with(&inner));
        let all = outer.chain(self.by_path.get(path)).chain(inner.map(|(_, places)| places));
        let mut all: Vec<usize> = all.flatten().copied().collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::cases::value;
    use crate::validation;

    #[test]
    fn overlapping_paths_are_warned_of() {
        let pod = value(
            r#"{"volumes": [
                {"name": "a", "configMap": {"name": "m", "items": [
                    {"path": "x/y"}, {"path": "x"}, {"path": "xy"}, {"path": "x/y/"}, {"path": ""}]}},
                {"name": "b", "projected": {"sources": [{}, {"serviceAccountToken": {"path": "t"}},
                    {"secret": {"name": "s", "items": [{"path": "t/u"}]}}]}}]}"#,
        );
        let mut warnings = WarningList::default();
        validation::errors(&pod, |pod| super::warnings(pod.at("volumes"), &mut warnings));
        let config_map = "volume \"a\" (ConfigMap \"m\"): overlapping paths: ";
        let projected = "volume \"b\" (Projected)";
        assert_eq!(
            warnings.into_said(),
            [
                format!("{config_map}\"x\" with \"x/y\""),
                format!("{config_map}\"x/y\" with \"x/y\""),
                format!("{config_map}\"x/y\" with \"x\""),
                format!("{projected} has no sources provided"),
                format!(
                    "{projected}: overlapping paths: \"t/u\" (Secret \"s\") with \"t\" \
                     (ServiceAccountToken)"
                ),
            ]
        );
    }
}
