//! What this build calls itself.

use std::fmt;

/// The version that clients see: the API level, and who serves it.
pub const GIT_VERSION: &str = "v1.36.3+kevel";

/// The API level: major, minor and patch.
pub const API_LEVEL: (u32, u32, u32) = (1, 36, 3);

/// What `--version=raw` prints and `/version` serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Major version of the API level.
    pub major: String,
    /// Minor version of the API level.
    pub minor: String,
    /// The whole version: `v1.36.3+kevel`.
    pub git_version: String,
    /// The commit that was built, if the build was told.
    pub git_commit: &'static str,
    /// `clean` or `dirty`, if the build was told.
    pub git_tree_state: &'static str,
    /// When it was built, if the build was told.
    pub build_date: &'static str,
    /// Always empty: there is no Go in it. Clients expect the field.
    pub go_version: &'static str,
    /// The compiler.
    pub compiler: &'static str,
    /// Operating system and processor: `linux/amd64`.
    pub platform: String,
}

impl Info {
    /// This build, under the version that it is told to report.
    pub fn reporting(git_version: &str) -> Self {
        Info {
            major: API_LEVEL.0.to_string(),
            minor: API_LEVEL.1.to_string(),
            git_version: git_version.to_owned(),
            git_commit: option_env!("KEVEL_GIT_COMMIT").unwrap_or_default(),
            git_tree_state: option_env!("KEVEL_GIT_TREE_STATE").unwrap_or_default(),
            build_date: option_env!("KEVEL_BUILD_DATE").unwrap_or_default(),
            go_version: "",
            compiler: "rustc",
            platform: format!("{}/{}", std::env::consts::OS, processor()),
        }
    }
}

impl fmt::Display for Info {
    /// The form of `--version=raw`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = [
            ("Major", self.major.as_str()),
            ("Minor", &self.minor),
            ("EmulationMajor", ""),
            ("EmulationMinor", ""),
            ("MinCompatibilityMajor", ""),
            ("MinCompatibilityMinor", ""),
            ("GitVersion", &self.git_version),
            ("GitCommit", self.git_commit),
            ("GitTreeState", self.git_tree_state),
            ("BuildDate", self.build_date),
            ("GoVersion", self.go_version),
            ("Compiler", self.compiler),
            ("Platform", &self.platform),
        ];
        let fields = fields.map(|(name, value)| format!("{name}:{value:?}"));
        write!(f, "version.Info{{{}}}", fields.join(", "))
    }
}

/// The processor by the name that Kubernetes has for it.
fn processor() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}
