//! Kubeconfig files, which say where webhooks are.

use std::path::{Path, PathBuf};

use kevel_api::value::Value;
use kevel_codec::json::Unknown;
use kevel_codec::{base64, yaml};
use kevel_pki::verify::Purpose;

use super::endpoint::{Credentials, Endpoint, Identity};

/// Fields that say something which is not done here: a call without it would be another one.
const UNSUPPORTED: [(&str, &str); 6] = [
    ("cluster", "proxy-url"),
    ("user", "exec"),
    ("user", "auth-provider"),
    ("user", "as"),
    ("user", "as-groups"),
    ("user", "as-user-extra"),
];

impl Endpoint {
    /// Reads the current context of a kubeconfig file. Paths in it are relative to it.
    pub fn from_kubeconfig(path: &Path) -> Result<Self, String> {
        let named = |error: String| format!("{}: {error}", path.display());
        let text = std::fs::read(path).map_err(|error| named(error.to_string()))?;
        let endpoint = parse(&text, path.parent().unwrap_or(Path::new(""))).map_err(named)?;
        kevel_pki::warn_unable_to_sign(path.display(), Purpose::ServerAuth, &endpoint.ca);
        Ok(endpoint)
    }
}

fn parse(text: &[u8], folder: &Path) -> Result<Endpoint, String> {
    let config = &yaml::decode_any(text, Unknown::Ignore).map_err(|e| e.to_string())?.value;
    let context = match config.str_at(&["current-context"]) {
        "" => return Err("invalid configuration: no context chosen".to_owned()),
        name => entry(config, "contexts", name, "context").ok_or_else(|| {
            format!("invalid configuration: context was not found for specified context: {name}")
        })?,
    };
    let missing = |what: &str, name: &str| format!("invalid configuration: no {what} {name:?}");
    let cluster_name = context.str_at(&["cluster"]);
    let cluster = entry(config, "clusters", cluster_name, "cluster")
        .ok_or_else(|| missing("cluster", cluster_name))?;
    let user_name = context.str_at(&["user"]);
    let user = match entry(config, "users", user_name, "user") {
        Some(user) => user,
        None if user_name.is_empty() => &Value::Null,
        None => return Err(missing("user", user_name)),
    };
    refuse_unsupported(Some(cluster), user)?;
    Ok(Endpoint {
        url: match cluster.str_at(&["server"]) {
            "" => return Err(format!("no server found for cluster {cluster_name:?}")),
            server => server.to_owned(),
        },
        ca: ca(cluster, folder)?,
        server_name: non_empty(cluster, "tls-server-name").map(str::to_owned),
        insecure_skip_tls_verify: insecure(cluster),
        identity: identity(user, folder)?,
        credentials: credentials(user, folder)?,
        ..Endpoint::default()
    })
}

/// As whom servers are called, by what they are called (`AuthenticationInfoResolver`).
#[derive(Debug, Default)]
pub struct Users {
    config: Value,
    folder: PathBuf,
}

impl Users {
    /// Reads the users of a kubeconfig file, whose names are those of servers.
    pub fn from_kubeconfig(path: &Path) -> Result<Self, String> {
        let named = |error: String| format!("{}: {error}", path.display());
        let text = std::fs::read(path).map_err(|error| named(error.to_string()))?;
        let config =
            yaml::decode_any(&text, Unknown::Ignore).map_err(|e| named(e.to_string()))?.value;
        let users = Users { config, folder: path.parent().unwrap_or(Path::new("")).to_owned() };
        for user in users.config.list_at(&["users"]) {
            users.read(user.at(&["user"]).unwrap_or(&Value::Null)).map_err(&named)?;
        }
        Ok(users)
    }

    /// Who calls a server: `name.namespace.svc:443`, or host and port of a URL. The name itself goes before `*.` and its
    /// end, the whole before what is left without the port 443, then come `*` and the current context's user.
    pub fn of(&self, host_port: &str) -> Result<(Option<Identity>, Credentials), String> {
        let without_port = host_port.strip_suffix(":443");
        let mut names = std::iter::once(host_port).chain(without_port).flat_map(|target| {
            let ends = target.match_indices('.').map(move |(at, _)| format!("*{}", &target[at..]));
            std::iter::once(target.to_owned()).chain(ends)
        });
        let user = |name: &str| entry(&self.config, "users", name, "user");
        let found = names.find_map(|name| user(&name)).or_else(|| user("*"));
        let found = found.or_else(|| {
            let current = self.config.str_at(&["current-context"]);
            let context = entry(&self.config, "contexts", current, "context")?;
            user(Some(context.str_at(&["user"])).filter(|name| !name.is_empty())?)
        });
        found.map_or(Ok((None, Credentials::None)), |user| self.read(user))
    }

    fn read(&self, user: &Value) -> Result<(Option<Identity>, Credentials), String> {
        refuse_unsupported(None, user)?;
        Ok((identity(user, &self.folder)?, credentials(user, &self.folder)?))
    }
}

/// Refuses what says something that is not done here.
fn refuse_unsupported(cluster: Option<&Value>, user: &Value) -> Result<(), String> {
    for (part, field) in UNSUPPORTED {
        let holder = if part == "cluster" { cluster } else { Some(user) };
        if holder.and_then(|holder| holder.at(&[field])).is_some_and(|value| !value.is_empty()) {
            return Err(format!("{field} is not supported for webhooks"));
        }
    }
    Ok(())
}

/// What a list of named things holds under a name.
fn entry<'v>(config: &'v Value, list: &str, name: &str, field: &str) -> Option<&'v Value> {
    let entries = config.at(&[list])?.as_list()?;
    let named = entries.iter().find(|entry| entry.str_at(&["name"]) == name)?;
    named.at(&[field])
}

fn insecure(cluster: &Value) -> bool {
    cluster.at(&["insecure-skip-tls-verify"]).and_then(Value::as_bool).unwrap_or(false)
}

fn ca(cluster: &Value, folder: &Path) -> Result<Option<Vec<u8>>, String> {
    let ca = match non_empty(cluster, "certificate-authority-data") {
        Some(_) => data(cluster, "certificate-authority-data")?,
        None => match non_empty(cluster, "certificate-authority") {
            Some(path) => {
                let path = folder.join(path);
                let pem = std::fs::read(&path);
                let unreadable = |error| {
                    format!("unable to read certificate-authority {}: {error}", path.display())
                };
                Some(pem.map_err(unreadable)?)
            }
            None => None,
        },
    };
    if ca.is_some() && insecure(cluster) {
        let why = "specifying a root certificates file with the insecure flag is not allowed";
        return Err(why.to_owned());
    }
    Ok(ca)
}

fn identity(user: &Value, folder: &Path) -> Result<Option<Identity>, String> {
    let certificate = data(user, "client-certificate-data")?;
    let key = data(user, "client-key-data")?;
    let file = |field| non_empty(user, field).map(|path| folder.join(path));
    let (certificate_file, key_file) = (file("client-certificate"), file("client-key"));
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| format!("unable to read {}: {error}", path.display()))
    };
    Ok(match (certificate, certificate_file, key, key_file) {
        (Some(certificate), _, Some(key), _) => Some(Identity::Pem { certificate, key }),
        (None, Some(certificate), None, Some(key)) => Some(Identity::Files { certificate, key }),
        (Some(certificate), _, None, Some(key)) => {
            Some(Identity::Pem { certificate, key: read(&key)? })
        }
        (None, Some(certificate), Some(key), _) => {
            Some(Identity::Pem { certificate: read(&certificate)?, key })
        }
        (None, None, _, _) => None,
        (_, _, None, None) => {
            let why = "client-key-data or client-key must be specified to use the clientCert \
                       authentication method";
            return Err(why.to_owned());
        }
    })
}

fn credentials(user: &Value, folder: &Path) -> Result<Credentials, String> {
    let token_file = non_empty(user, "tokenFile").map(|path| folder.join(path));
    let token = non_empty(user, "token").map(str::to_owned);
    let username = user.str_at(&["username"]).to_owned();
    let password = user.str_at(&["password"]).to_owned();
    let basic = !username.is_empty() || !password.is_empty();
    match (token_file, token, basic) {
        (_, Some(_), true) => Err("more than one authentication method found; found [token \
                                   basicAuth], only one is allowed"
            .to_owned()),
        (Some(file), _, _) => Ok(Credentials::TokenFile(file)),
        (None, Some(token), _) => Ok(Credentials::Token(token)),
        (None, None, true) => Ok(Credentials::Basic { username, password }),
        (None, None, false) => Ok(Credentials::None),
    }
}

fn non_empty<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    Some(value.str_at(&[field])).filter(|text| !text.is_empty())
}

/// The bytes of a field in base64.
fn data(value: &Value, field: &str) -> Result<Option<Vec<u8>>, String> {
    let Some(text) = non_empty(value, field) else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    base64::decode_into(text, &mut bytes)
        .map_err(|at| format!("{field}: illegal base64 data at input byte {at}"))?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
apiVersion: v1
kind: Config
clusters:
- name: webhook
  cluster: {CLUSTER}
users:
- name: me
  user: {USER}
contexts:
- name: there
  context: {cluster: webhook, user: me}
current-context: there
";

    fn read(cluster: &str, user: &str) -> Result<Endpoint, String> {
        let text = FILE.replace("{CLUSTER}", cluster).replace("{USER}", user);
        parse(text.as_bytes(), Path::new("/etc/webhook"))
    }

    #[test]
    fn what_it_says_is_taken() {
        let cluster = "{server: 'https://a:1/b', tls-server-name: c, \
                       certificate-authority-data: aGVsbG8=}";
        let endpoint = read(cluster, "{tokenFile: token}").unwrap();
        assert_eq!(endpoint.url, "https://a:1/b");
        assert_eq!(endpoint.server_name.as_deref(), Some("c"));
        assert_eq!(endpoint.ca.as_deref(), Some(&b"hello"[..]));
        assert!(matches!(
            endpoint.credentials,
            Credentials::TokenFile(path) if path == Path::new("/etc/webhook/token")
        ));
        let user = "{client-certificate: a.crt, client-key: /b.key}";
        let endpoint = read("{server: a, insecure-skip-tls-verify: true}", user).unwrap();
        assert!(endpoint.insecure_skip_tls_verify);
        assert!(matches!(
            endpoint.identity,
            Some(Identity::Files { certificate, key })
                if certificate == Path::new("/etc/webhook/a.crt") && key == Path::new("/b.key")
        ));
        let endpoint = read("{server: a}", "{username: u, password: p}").unwrap();
        assert!(matches!(
            endpoint.credentials,
            Credentials::Basic { username, password } if username == "u" && password == "p"
        ));
    }

    #[test]
    fn a_server_is_called_as_who_is_named_like_it() {
        let user = |name: &str| format!("- {{name: '{name}', user: {{token: '{name}'}}}}\n");
        let of = |names: &[&str], current: &str, target: &str| {
            let users: String = names.iter().map(|name| user(name)).collect();
            let contexts = "contexts: [{name: there, context: {user: current}}]";
            let text = format!("users:\n{users}\n{contexts}\ncurrent-context: '{current}'\n");
            let config = yaml::decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value;
            let users = Users { config, folder: PathBuf::new() };
            match users.of(target).unwrap().1 {
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
    fn what_it_must_not_say_is_refused() {
        for (cluster, user, expected) in [
            ("{}", "{}", "no server found for cluster \"webhook\""),
            ("{server: a, proxy-url: b}", "{}", "proxy-url is not supported for webhooks"),
            ("{server: a}", "{exec: {command: b}}", "exec is not supported for webhooks"),
            (
                "{server: a, certificate-authority-data: aGVsbG8=, insecure-skip-tls-verify: true}",
                "{}",
                "specifying a root certificates file with the insecure flag is not allowed",
            ),
            (
                "{server: a, certificate-authority-data: '!'}",
                "{}",
                "certificate-authority-data: illegal base64 data at input byte 0",
            ),
            (
                "{server: a}",
                "{token: t, username: u}",
                "more than one authentication method found; found [token basicAuth], only one is \
                 allowed",
            ),
            (
                "{server: a}",
                "{client-certificate: a}",
                "client-key-data or client-key must be specified to use the clientCert \
                 authentication method",
            ),
        ] {
            assert_eq!(read(cluster, user).unwrap_err(), expected, "{cluster} {user}");
        }
        let missing = Endpoint::from_kubeconfig(Path::new("/nowhere/config")).unwrap_err();
        assert!(missing.starts_with("/nowhere/config: "), "{missing}");
    }
}
