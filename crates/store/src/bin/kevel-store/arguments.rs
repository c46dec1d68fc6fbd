//! Command line of `kevel-store`.

use kevel_store::etcd::{Options, TlsFiles};

/// Words and flags of a command line, in any order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The verb and its operands.
    pub words: Vec<String>,
    /// `--drop`
    pub drop: bool,
    servers: Option<String>,
    prefix: Option<String>,
    ca: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

impl Arguments {
    /// Reads a command line: `--flag=value` or `--flag value`.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut parsed = Arguments::default();
        while let Some(argument) = arguments.next() {
            let Some(flag) = argument.strip_prefix("--") else {
                parsed.words.push(argument);
                continue;
            };
            if flag == "drop" {
                parsed.drop = true;
                continue;
            }
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            let place = parsed.place(name).ok_or_else(|| format!("unknown flag: --{name}"))?;
            let value = value.or_else(|| arguments.next());
            *place = Some(value.ok_or_else(|| format!("flag needs an argument: --{name}"))?);
        }
        Ok(parsed)
    }

    fn place(&mut self, flag: &str) -> Option<&mut Option<String>> {
        Some(match flag {
            "etcd-servers" => &mut self.servers,
            "etcd-prefix" => &mut self.prefix,
            "etcd-cafile" => &mut self.ca,
            "etcd-certfile" => &mut self.certificate,
            "etcd-keyfile" => &mut self.key,
            _ => return None,
        })
    }

    /// Options of the etcd that the flags name.
    pub fn etcd(&self) -> Result<Options, String> {
        let servers = self.servers.as_deref().filter(|servers| !servers.is_empty());
        let servers = servers.ok_or("--etcd-servers must be given")?;
        let client = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (None, None) => None,
            _ => return Err("--etcd-certfile and --etcd-keyfile go together".to_owned()),
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

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
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
    fn what_is_not_understood_is_refused() {
        for (line, why) in [
            ("check --dorp db", "unknown flag: --dorp"),
            ("check db --dorp", "unknown flag: --dorp"),
            ("check --force=1 db", "unknown flag: --force"),
            ("import db --etcd-servers", "flag needs an argument: --etcd-servers"),
        ] {
            assert_eq!(parse(line).map(|parsed| parsed.words), Err(why.to_owned()), "{line}");
        }
        let etcd = |line| parse(line).and_then(|parsed| parsed.etcd().map(|_| ()));
        assert_eq!(etcd("import db"), Err("--etcd-servers must be given".to_owned()));
        let half = etcd("import db --etcd-servers=a --etcd-certfile=b");
        assert_eq!(half, Err("--etcd-certfile and --etcd-keyfile go together".to_owned()));
    }
}
