//! Users of requests: anonymous ones, members of `system:authenticated`, and parts of an impersonated user.

use std::sync::Arc;

use http::HeaderValue;
use kevel_registry::user::User;
use kevel_server::authentication::{Anonymous, AuthenticatedGroup};

use crate::support::{Rules, TestChain, Users, handler, message, read, request, text};

fn echo() -> Arc<dyn kevel_server::handler::Handler> {
    handler(|request| async move {
        let user = request.user.clone().unwrap();
        text(format!("{}|{}", user.name, user.groups.join(",")))
    })
}

/// Requests without credentials are let in everywhere, or at the paths that they are limited to, each as it is written.
#[tokio::test]
async fn anonymous_requests_are_limited_to_their_paths() {
    for limit in [&[][..], &["/healthz"], &["/healthz", "/readyz"]] {
        for path in ["/healthz", "/readyz", "/healthz/", "/healthz/etcd", "/", "/api/v1/pods"] {
            for query in ["", "?verbose=1"] {
                let mut test = TestChain::default();
                let paths = limit.iter().map(|path| (*path).to_owned()).collect();
                test.config.authenticator = Arc::new(Anonymous { paths });
                let line = format!("GET {path}{query}");
                let response = test.build(echo()).handle(request(&line)).await;
                let code = response.status().as_u16();
                match limit.is_empty() || limit.contains(&path) {
                    true => {
                        let user = "system:anonymous|system:unauthenticated";
                        assert_eq!((code, &*read(response).await), (200, user), "{limit:?} {line}");
                    }
                    false => assert_eq!(code, 401, "{limit:?} {line}"),
                }
            }
        }
    }
}

/// Every user is in `system:authenticated`, once; anonymous users and unauthenticated ones are not.
#[tokio::test]
async fn authenticated_users_are_in_their_group() {
    let (all, none) = ("system:authenticated", "system:unauthenticated");
    for (name, groups, expected) in [
        ("jane", &[][..], &[all][..]),
        ("jane", &["dev"], &["dev", all]),
        ("jane", &[all, "dev"], &[all, "dev"]),
        ("jane", &["dev", none], &["dev", none]),
        ("system:anonymous", &[], &[]),
        ("system:anonymous", &["dev"], &["dev"]),
        ("system:anonymous", &[none], &[none]),
    ] {
        let users = Users::default();
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        users.set(User { name: name.into(), groups, ..User::default() });
        let mut test = TestChain::default();
        test.config.authenticator = Arc::new(AuthenticatedGroup(users));
        let response = test.build(echo()).handle(request("GET /version")).await;
        assert_eq!(read(response).await, format!("{name}|{}", expected.join(",")));
    }
}

/// Parts of an impersonated user: a header, and what has to be permitted for it.
const PARTS: [((&str, &str), &str); 3] = [
    (("impersonate-uid", "7"), "uids"),
    (("impersonate-group", "dev"), "groups"),
    (("impersonate-extra-acme.io%2fteam", "b"), "userextras/acme.io/team"),
];

/// Each part that is asked for has to be permitted, whatever others are: with the verb `impersonate`, or with those of
/// constrained impersonation.
#[tokio::test]
async fn each_part_of_an_impersonated_user_is_permitted_alone() {
    const LIST: &str = "GET /api/v1/namespaces/a/pods";
    let in_set = |set: usize| move |(number, _): &(usize, _)| set >> number & 1 == 1;
    for constrained in [false, true] {
        let verb = if constrained { "impersonate:user-info" } else { "impersonate" };
        for (user, permitted) in (0..16).map(|set| (set & 8 != 0, set & 7)) {
            let mut rules = vec!["list pods".to_owned()];
            if constrained {
                rules.push("impersonate-on:user-info:list pods".to_owned());
            }
            if user {
                rules.push(format!("{verb} users"));
            }
            let parts = PARTS.iter().enumerate().filter(in_set(permitted));
            rules.extend(parts.map(|(_, (_, what))| format!("{verb} {what}")));
            let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
            for asked in 0..8 {
                let mut sent = request(LIST);
                let headers = &mut sent.parts.headers;
                headers.insert("impersonate-user", HeaderValue::from_static("joe"));
                for (_, ((name, value), _)) in PARTS.iter().enumerate().filter(in_set(asked)) {
                    headers.insert(*name, HeaderValue::from_static(value));
                }
                let chain = TestChain::allowing(Rules::new(&rules)).build(echo());
                let response = chain.handle(sent).await;
                let code = response.status().as_u16();
                let body = read(response).await;
                let what = format!("{rules:?}, asked for {asked:03b}: {body}");
                let missing = (0..3).find(|part| (asked & !permitted) >> part & 1 == 1);
                match (user, missing) {
                    (true, None) => {
                        assert_eq!(code, 200, "{what}");
                        assert!(body.starts_with("joe|"), "{what}");
                        assert_eq!(body.contains("dev"), asked & 2 != 0, "{what}");
                    }
                    (_, missing) => {
                        assert_eq!(code, 403, "{what}");
                        // The most constrained way tells what it lacks; the widest is behind it.
                        let lacks = match (user, missing) {
                            (true, Some(part)) => PARTS[part].1,
                            _ => "users",
                        };
                        let told = if constrained { lacks } else { "pods" };
                        assert!(message(&body).contains(&format!("resource \"{told}\"")), "{what}");
                    }
                }
            }
        }
    }
}
