//! `/version` and `--version=raw`.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{HeaderValue, header};
use kevel_api::json_string::write_json_string;

use crate::body::Body;
use crate::handler::{Handler, Response};
use crate::request::Request;
use crate::routes::Route;
use kevel_component::future::Pending;

/// Version that clients see: the API level and the implementation.
pub const GIT_VERSION: &str = "v1.36.3+kevel";

/// The API level: major, minor and patch.
pub const API_LEVEL: (u32, u32, u32) = (1, 36, 3);

/// Letters of the commit in user agents.
const SHORT_COMMIT: usize = 7;

/// Kubernetes release of this API level, and its commit, which its own clients report.
const RELEASE: (&str, &str) = ("v1.36.3", "0f29094e5b73085e3802ecc1298ecae13866bfe6");

/// Facts of a program's build (upstream: variables that the linker sets).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramBuild {
    /// Git commit of the build.
    pub git_commit: &'static str,
    /// `clean` or `dirty`.
    pub git_tree_state: &'static str,
    /// Date, in RFC 3339.
    pub date: &'static str,
}

/// Build of a program that does not tell of its own.
const UNKNOWN_BUILD: ProgramBuild =
    ProgramBuild { git_commit: "unknown", git_tree_state: "", date: "1970-01-01T00:00:00Z" };

static BUILD: OnceLock<ProgramBuild> = OnceLock::new();

/// Sets the build of this program. The first call counts; it comes before any other use of this module.
pub fn set_build(build: ProgramBuild) {
    let _ = BUILD.set(build);
}

/// Version information of a build (upstream: `version.Info`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Major version of the API level.
    pub major: String,
    /// Minor version of the API level.
    pub minor: String,
    /// Emulated API level: `--emulated-version`, or the build's own.
    pub emulation: (String, String),
    /// Oldest version of other components in the cluster: `--min-compatibility-version`.
    pub min_compatibility: (String, String),
    /// Full version.
    pub git_version: String,
    /// Commit of the build, or `unknown`.
    pub git_commit: String,
    /// `clean` or `dirty`, if known.
    pub git_tree_state: String,
    /// Date of the build; 1970 if unknown.
    pub build_date: String,
    /// Empty, as there is no Go; clients expect the field.
    pub go_version: String,
    /// The compiler.
    pub compiler: String,
    /// Operating system and processor, as in `linux/amd64`.
    pub platform: String,
}

impl Default for Info {
    fn default() -> Self {
        let level = |minor: u32| (API_LEVEL.0.to_string(), minor.to_string());
        let (major, minor) = level(API_LEVEL.1);
        let build = BUILD.get().unwrap_or(&UNKNOWN_BUILD);
        Info {
            major,
            minor,
            emulation: level(API_LEVEL.1),
            min_compatibility: level(API_LEVEL.1 - 1),
            git_version: GIT_VERSION.to_owned(),
            git_commit: build.git_commit.to_owned(),
            git_tree_state: build.git_tree_state.to_owned(),
            build_date: build.date.to_owned(),
            go_version: String::new(),
            compiler: "rustc".to_owned(),
            platform: format!("{}/{}", std::env::consts::OS, processor()),
        }
    }
}

impl Info {
    /// This build, under the version that it is told to report (`--version=vX.Y.Z...`).
    ///
    /// A client that requires its own version (`kubectl --match-server-version`) compares version, commit and tree
    /// state. So with the release's version, its commit and tree state are reported, too.
    pub fn reporting(git_version: &str) -> Self {
        let info = Info { git_version: git_version.to_owned(), ..Info::default() };
        let (release, commit) = RELEASE;
        match git_version == release {
            true => Info { git_commit: commit.into(), git_tree_state: "clean".into(), ..info },
            false => info,
        }
    }

    /// User agent of the server's own requests.
    pub fn user_agent(&self) -> String {
        self.user_agent_of("kube-apiserver")
    }

    /// User agent of a component of this version.
    pub fn user_agent_of(&self, component: &str) -> String {
        let commit = self.git_commit.get(..SHORT_COMMIT).unwrap_or(&self.git_commit);
        format!("{component}/{} ({}) kubernetes/{commit}", self.git_version, self.platform)
    }

    /// JSON, indented as by the reference.
    pub fn to_json(&self) -> Vec<u8> {
        let fields = [
            ("major", &self.major),
            ("minor", &self.minor),
            ("emulationMajor", &self.emulation.0),
            ("emulationMinor", &self.emulation.1),
            ("minCompatibilityMajor", &self.min_compatibility.0),
            ("minCompatibilityMinor", &self.min_compatibility.1),
            ("gitVersion", &self.git_version),
            ("gitCommit", &self.git_commit),
            ("gitTreeState", &self.git_tree_state),
            ("buildDate", &self.build_date),
            ("goVersion", &self.go_version),
            ("compiler", &self.compiler),
            ("platform", &self.platform),
        ];
        let mut json = Vec::from(b"{");
        for (index, (name, value)) in fields.into_iter().enumerate() {
            json.extend_from_slice(if index == 0 { b"\n" } else { b",\n" });
            json.extend_from_slice(format!("  \"{name}\": ").as_bytes());
            write_json_string(&mut json, value);
        }
        json.extend_from_slice(b"\n}");
        json
    }
}

impl fmt::Display for Info {
    /// Writes the form of `--version=raw`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = [
            ("Major", self.major.as_str()),
            ("Minor", &self.minor),
            ("EmulationMajor", ""),
            ("EmulationMinor", ""),
            ("MinCompatibilityMajor", ""),
            ("MinCompatibilityMinor", ""),
            ("GitVersion", &self.git_version),
            ("GitCommit", &self.git_commit),
            ("GitTreeState", &self.git_tree_state),
            ("BuildDate", &self.build_date),
            ("GoVersion", &self.go_version),
            ("Compiler", &self.compiler),
            ("Platform", &self.platform),
        ];
        let fields = fields.map(|(name, value)| format!("{name}:{value:?}"));
        write!(f, "version.Info{{{}}}", fields.join(", "))
    }
}

/// Serves `/version`.
#[derive(Debug)]
pub struct Version(Bytes);

impl Version {
    /// The handler for a build's version information.
    pub fn new(info: &Info) -> Self {
        Version(info.to_json().into())
    }

    /// Route of `/version`.
    pub fn route(self) -> Route {
        let json = "application/json";
        Route { path: "/version", consumes: Some(json), produces: json, handler: Arc::new(self) }
    }

    /// The response.
    pub fn answer(&self) -> Response {
        let mut response = Response::new(Body::from(self.0.clone()));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}

impl Handler for Version {
    fn handle<'a>(&'a self, _: Request) -> Pending<'a, Response> {
        Box::pin(std::future::ready(self.answer()))
    }
}

/// Architecture by the name of Go and Kubernetes.
fn processor() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reports_the_release_reports_its_commit() {
        let seen = |version: &str| {
            let info = Info::reporting(version);
            (info.git_version, info.git_commit, info.git_tree_state)
        };
        let (release, commit) = RELEASE;
        assert_eq!(seen(release), (release.into(), commit.into(), "clean".into()));
        let own = Info::default();
        let custom = "v1.36.3-custom";
        assert_eq!(seen(custom), (custom.into(), own.git_commit, own.git_tree_state));
        let (major, minor, patch) = API_LEVEL;
        assert_eq!(release, format!("v{major}.{minor}.{patch}"));
        assert_eq!(GIT_VERSION, format!("{release}+kevel"));
    }

    #[test]
    fn keys_and_layout_are_those_of_the_reference() {
        let info = Info {
            git_commit: "abc".into(),
            platform: "linux/amd64".into(),
            build_date: "2026-07-01T00:00:00Z".into(),
            git_tree_state: "clean".into(),
            ..Info::default()
        };
        let expected = r#"{
  "major": "1",
  "minor": "36",
  "emulationMajor": "1",
  "emulationMinor": "36",
  "minCompatibilityMajor": "1",
  "minCompatibilityMinor": "35",
  "gitVersion": "v1.36.3+kevel",
  "gitCommit": "abc",
  "gitTreeState": "clean",
  "buildDate": "2026-07-01T00:00:00Z",
  "goVersion": "",
  "compiler": "rustc",
  "platform": "linux/amd64"
}"#;
        assert_eq!(String::from_utf8(info.to_json()).unwrap(), expected);
    }
}
