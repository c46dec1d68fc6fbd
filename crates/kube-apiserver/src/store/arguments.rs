//! Command line of `kube-apiserver store`.

use kevel_store::etcd::{Options, TlsFiles};

/// Mistake in the command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// Unknown flag, with the nearest known one.
    #[error("unknown flag: --{_0}{}", hint("--", *_1))]
    UnknownFlag(String, Option<&'static str>),
    /// Flag without its value.
    #[error("flag needs an argument: --{0}")]
    MissingValue(String),
    /// Verb that does not exist, and the nearest that does.
    #[error("unknown verb: {_0}{}", hint("", *_1))]
    UnknownVerb(String, Option<&'static str>),
    /// Operands or flags that the verb does not take, or lacks.
    #[error("these are not the arguments of `kube-apiserver store {0}`")]
    Operands(String),
    /// No etcd is named.
    #[error("--etcd-servers must be given")]
    NoServers,
    /// Half of a client certificate.
    #[error("--etcd-certfile and --etcd-keyfile go together")]
    HalfPair,
}

fn hint(prefix: &str, nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("\ndid you mean {prefix}{name}?"))
}

/// Flags with a value.
const VALUED: [&str; 5] =
    ["etcd-servers", "etcd-prefix", "etcd-cafile", "etcd-certfile", "etcd-keyfile"];

/// Words and flags of a command line, in any order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StoreArguments {
    /// The verb and its operands.
    pub words: Vec<String>,
    /// `--drop`
    pub drop: bool,
    /// `--help`
    pub help: bool,
    servers: Option<String>,
    prefix: Option<String>,
    ca: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

impl StoreArguments {
    /// Reads a command line: `--flag=value` or `--flag value`.
    pub fn parse(
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<StoreArguments, UsageError> {
        let mut arguments = arguments.into_iter();
        let mut parsed = StoreArguments::default();
        while let Some(argument) = arguments.next() {
            let Some(flag) = argument.strip_prefix("--") else {
                match argument.as_str() {
                    "-h" => parsed.help = true,
                    _ => parsed.words.push(argument),
                }
                continue;
            };
            match flag {
                "drop" => parsed.drop = true,
                "help" => parsed.help = true,
                flag => parsed.valued(flag, &mut arguments)?,
            }
        }
        Ok(parsed)
    }

    fn valued(
        &mut self,
        flag: &str,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), UsageError> {
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        let place = self.place(name).ok_or_else(|| {
            let known = VALUED.into_iter().chain(["drop", "help"]);
            UsageError::UnknownFlag(name.to_owned(), crate::nearest::nearest(name, known))
        })?;
        let value = value.or_else(|| rest.next());
        *place = Some(value.ok_or_else(|| UsageError::MissingValue(name.to_owned()))?);
        Ok(())
    }

    fn place(&mut self, flag: &str) -> Option<&mut Option<String>> {
        let [servers, prefix, ca, certificate, key] = VALUED;
        Some(match flag {
            _ if flag == servers => &mut self.servers,
            _ if flag == prefix => &mut self.prefix,
            _ if flag == ca => &mut self.ca,
            _ if flag == certificate => &mut self.certificate,
            _ if flag == key => &mut self.key,
            _ => return None,
        })
    }

    /// Options of the etcd that the flags name.
    pub fn etcd(&self) -> Result<Options, UsageError> {
        let servers = self.servers.as_deref().filter(|servers| !servers.is_empty());
        let servers = servers.ok_or(UsageError::NoServers)?;
        let client = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (None, None) => None,
            _ => return Err(UsageError::HalfPair),
        };
        let tls = self.ca.as_ref().map(|ca| TlsFiles { trusted_ca: ca.into(), client });
        let defaults = Options::default();
        Ok(Options {
            endpoints: servers.split(',').map(str::to_owned).collect(),
            tls,
            prefix: self.prefix.clone().unwrap_or_else(|| defaults.prefix.clone()),
            compaction_interval: None,
            ..defaults
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<StoreArguments, UsageError> {
        StoreArguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_stand_anywhere_and_in_either_form() {
        let one = parse("export db --etcd-servers=http://a,http://b --etcd-prefix /x").unwrap();
        let other = parse("--etcd-prefix=/x --etcd-servers http://a,http://b export db").unwrap();
        assert_eq!(one, other);
        assert_eq!(one.words, ["export", "db"]);
        let options = one.etcd().unwrap();
        assert_eq!((options.endpoints.len(), options.prefix.as_str()), (2, "/x"));
    }

    #[test]
    fn unknown_and_incomplete_flags_are_refused() {
        for (line, why) in [
            ("check --dorp db", "unknown flag: --dorp\ndid you mean --drop?"),
            ("check db --dorp", "unknown flag: --dorp\ndid you mean --drop?"),
            ("check --force=1 db", "unknown flag: --force"),
            ("import db --etcd-servers", "flag needs an argument: --etcd-servers"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert_eq!(error, why, "{line}");
        }
        let etcd = |line| parse(line).and_then(|parsed| parsed.etcd().map(|_| ()));
        assert_eq!(etcd("import db"), Err(UsageError::NoServers));
        let half = etcd("import db --etcd-servers=a --etcd-certfile=b");
        assert_eq!(half, Err(UsageError::HalfPair));
    }
}
