//! `--token-auth-file`: tokens and their users in a CSV file.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::{Known, TokenAuthenticated, TokenAuthenticator, csv};
use kevel_component::future::Pending;
use kevel_registry::user::User;

/// Tokens of a file, each line `token,user,uid` or `token,user,uid,"group1,group2"`.
pub struct TokenFile(HashMap<String, Arc<Known>>);

impl std::fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Tokens are secret.
        write!(f, "TokenFile with {} tokens", self.0.len())
    }
}

impl TokenFile {
    /// Loads a file.
    pub fn load(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let text = std::fs::read(path).map_err(|error| format!("open {name}: {error}"))?;
        Self::parse(&name.to_string(), &String::from_utf8_lossy(&text))
    }

    /// Parses the text of a file; `name` is for errors and the log.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut tokens = HashMap::new();
        for (index, record) in csv::records(text)?.into_iter().enumerate() {
            let number = index + 1;
            let columns = record.len();
            let mut record = record.into_iter();
            let (Some(token), Some(user), Some(uid)) =
                (record.next(), record.next(), record.next())
            else {
                return Err(format!(
                    "token file '{name}' must have at least 3 columns (token, user name, user \
                     uid), found {columns}"
                ));
            };
            if token.contains(char::REPLACEMENT_CHARACTER) {
                tracing::warn!(
                    "token that is not UTF-8 has been found in token file '{name}', record number \
                     '{number}'"
                );
                continue;
            }
            if token.is_empty() {
                tracing::warn!(
                    "empty token has been found in token file '{name}', record number '{number}'"
                );
                continue;
            }
            let groups = record.next().map(|groups| groups.split(',').map(str::to_owned).collect());
            let user = User { name: user, uid, groups: groups.unwrap_or_default(), extra: vec![] };
            if tokens.insert(token, Arc::new(Known::new(user, vec![]))).is_some() {
                tracing::warn!(
                    "duplicate token has been found in token file '{name}', record number \
                     '{number}'"
                );
            }
        }
        Ok(TokenFile(tokens))
    }
}

impl TokenAuthenticator for TokenFile {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        _audiences: &'a [String],
    ) -> Pending<'a, TokenAuthenticated> {
        Box::pin(std::future::ready(Ok(self.0.get(token).cloned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_stand_for_users() {
        let text = "abc,jane,1\n\ndef,\"joe, jr\",2,\"a,b\"\n,unnamed,3\nabc,janet,4,\n";
        let file = TokenFile::parse("f", text).unwrap();
        let told = |token: &str| {
            let user = &file.0.get(token)?.user;
            Some(format!("{}|{}|{}", user.name, user.uid, user.groups.join(";")))
        };
        assert_eq!(told("abc").as_deref(), Some("janet|4|;system:authenticated"));
        assert_eq!(told("def").as_deref(), Some("joe, jr|2|a;b;system:authenticated"));
        assert_eq!(told(""), None);
    }

    #[test]
    fn a_file_that_is_not_understood_is_refused() {
        for (text, expected) in [
            (
                "a,b\n",
                "token file 'f' must have at least 3 columns (token, user name, user uid), found 2",
            ),
            (
                "a,b,c\na,\"b,c\n",
                "record on line 2; parse error on line 3, column 0: extraneous or missing \" in quoted-field",
            ),
            ("a,b\"c,d\n", "parse error on line 1, column 4: bare \" in non-quoted-field"),
            (
                "a,\"b\"c,d\n",
                "parse error on line 1, column 5: extraneous or missing \" in quoted-field",
            ),
        ] {
            assert_eq!(TokenFile::parse("f", text).unwrap_err(), expected, "{text:?}");
        }
    }
}
