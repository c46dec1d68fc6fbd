//! Kubeconfig files, which say where webhooks are.

use std::collections::HashMap;
use std::path::Path;

use kevel_kubeconfig::{AuthInfo, Kubeconfig};
use kevel_pki::verify::Purpose;

use super::endpoint::Endpoint;

impl Endpoint {
    /// Reads the current context of a kubeconfig file. Paths in it are relative to it.
    pub fn from_kubeconfig(path: &Path) -> Result<Self, String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let current = Kubeconfig::read(path).and_then(|config| config.current());
        let (cluster, user) = current.map_err(|error| named(&error))?;
        kevel_pki::warn_unable_to_sign(path.display(), Purpose::ServerAuth, &cluster.ca);
        Ok(Endpoint {
            url: cluster.server,
            ca: cluster.ca,
            server_name: cluster.server_name,
            insecure_skip_tls_verify: cluster.insecure_skip_tls_verify,
            proxy: cluster.proxy,
            ..Endpoint::default().as_user(user)
        })
    }

    /// Copy of the endpoint with the credentials of a user.
    #[must_use]
    pub fn as_user(self, user: AuthInfo) -> Self {
        let AuthInfo { identity, credentials, impersonation } = user;
        Endpoint { identity, credentials, impersonation, ..self }
    }
}

/// Users of a kubeconfig file, by the servers that are called as them (`AuthenticationInfoResolver`).
#[derive(Debug, Default)]
pub struct Users {
    users: HashMap<String, AuthInfo>,
    /// The current context's.
    current: Option<String>,
}

impl Users {
    /// Reads the users of a kubeconfig file, whose names are those of servers.
    pub fn from_kubeconfig(path: &Path) -> Result<Self, String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let config = Kubeconfig::read(path).map_err(|error| named(&error))?;
        Users::new(&config).map_err(|error| named(&error))
    }

    fn new(config: &Kubeconfig) -> Result<Self, kevel_kubeconfig::Error> {
        let mut users = HashMap::new();
        for name in config.users() {
            if let Some(user) = config.user(name) {
                users.entry(name.to_owned()).or_insert(user?);
            }
        }
        Ok(Users { users, current: config.current_user().map(str::to_owned) })
    }

    /// User for a server: `name.namespace.svc:443`, or host and port of a URL. The name itself goes before `*.` and its
    /// end, the whole before what is left without the port 443, then come `*` and the current context's user.
    pub fn of(&self, host_port: &str) -> AuthInfo {
        let without_port = host_port.strip_suffix(":443");
        let mut names = std::iter::once(host_port).chain(without_port).flat_map(|target| {
            let ends = target.match_indices('.').map(move |(at, _)| format!("*{}", &target[at..]));
            std::iter::once(target.to_owned()).chain(ends)
        });
        let found = names.find_map(|name| self.users.get(&name)).or_else(|| self.users.get("*"));
        let found = found.or_else(|| self.users.get(self.current.as_deref()?));
        found.cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use kevel_kubeconfig::Credentials;

    use super::*;

    #[test]
    fn a_server_is_called_as_who_is_named_like_it() {
        let user = |name: &str| format!("- {{name: '{name}', user: {{token: '{name}'}}}}\n");
        let of = |names: &[&str], current: &str, target: &str| {
            let users: String = names.iter().map(|name| user(name)).collect();
            let contexts = "contexts: [{name: there, context: {user: current}}]";
            let text = format!("users:\n{users}\n{contexts}\ncurrent-context: '{current}'\n");
            let config = Kubeconfig::parse(text.as_bytes(), Path::new("")).unwrap();
            match Users::new(&config).unwrap().of(target).credentials {
                Credentials::Token(token) => token,
                _ => String::new(),
            }
        };
        let svc = "hook.ns.svc:443";
        for (names, current, target, expected) in [
            (&["hook.ns.svc:443", "hook.ns.svc", "*"][..], "", svc, "hook.ns.svc:443"),
            (&["*.ns.svc:443", "hook.ns.svc"], "", svc, "*.ns.svc:443"),
            (&["*.svc:443", "hook.ns.svc"], "", svc, "*.svc:443"),
            (&["hook.ns.svc", "*.svc"], "", svc, "hook.ns.svc"),
            (&["*.svc", "*"], "", svc, "*.svc"),
            (&["*.svc", "*"], "", "hook.ns.svc:8443", "*"),
            (&["current"], "there", svc, "current"),
            (&["current"], "", svc, ""),
            (&["*", "current"], "there", svc, "*"),
        ] {
            assert_eq!(of(names, current, target), expected, "{names:?} {target}");
        }
    }

    #[test]
    fn errors_name_the_file() {
        let missing = Endpoint::from_kubeconfig(Path::new("/nowhere/config")).unwrap_err();
        assert!(missing.starts_with("/nowhere/config: "), "{missing}");
        let missing = Users::from_kubeconfig(Path::new("/nowhere/config")).unwrap_err();
        assert!(missing.starts_with("/nowhere/config: "), "{missing}");
    }
}
