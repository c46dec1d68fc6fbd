//! Facts that man page and completions are made of: declared flags, and the usage texts of the program.

use std::process::Command;

use kube_apiserver::flags::{Flag, Value};
use kube_apiserver::help::help;
use kube_apiserver::options::ServerRunOptions;

/// Values of flags that take one of a few.
const CHOICES: [(&str, &[&str]); 6] = [
    ("output", &["text", "json", "github", "sarif"]),
    ("validate", &["strict", "warn", "ignore"]),
    ("storage", &["embedded", "memory", "etcd"]),
    ("storage-backend", &["etcd3"]),
    (
        "storage-media-type",
        &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"],
    ),
    ("logging-format", &["text", "json"]),
];

/// Ends of the names of flags whose value is a file.
const FILES: [&str; 7] = ["-file", "-cafile", "-certfile", "-keyfile", "-path", "-dir", "-config"];

/// Characters of a flag's text in a completion, at most: it stands in one line of a terminal.
const SHORT: usize = 70;

/// A flag as users see it.
pub struct FlagUsage {
    pub name: String,
    pub short: Option<char>,
    pub help: String,
    /// Name of the value's type; empty if the flag needs none.
    pub value: &'static str,
    pub default: Option<String>,
    pub deprecated: Option<&'static str>,
}

/// Values that completions offer after a flag.
pub enum Completion {
    /// `=true` or `=false`, or nothing.
    Switch,
    Choice(&'static [&'static str]),
    File,
    Other,
}

impl FlagUsage {
    fn new((flag, value): (&Flag, &dyn Value)) -> FlagUsage {
        let value_type = value.value_type();
        let default = value.text();
        FlagUsage {
            name: flag.name(),
            short: flag.facts.short,
            help: flag.help.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" "),
            value: value_type.implied.map_or(value_type.name, |_| ""),
            default: Some(default).filter(|default| default != value_type.zero),
            deprecated: flag.facts.deprecated,
        }
    }

    pub fn completion(&self) -> Completion {
        if self.value.is_empty() {
            return Completion::Switch;
        }
        if let Some((_, choices)) = CHOICES.iter().find(|(name, _)| *name == self.name) {
            return Completion::Choice(choices);
        }
        match FILES.iter().any(|end| self.name.ends_with(end)) {
            true => Completion::File,
            false => Completion::Other,
        }
    }

    /// The first sentence, without its end, and cut where it is long.
    pub fn summary(&self) -> String {
        let sentence = self.help.split(". ").next().unwrap_or_default();
        let sentence = sentence.split(": ").next().unwrap_or_default().trim_end_matches('.');
        if sentence.len() <= SHORT {
            return sentence.to_owned();
        }
        let end = sentence[..SHORT].rfind(' ').unwrap_or(SHORT);
        format!("{}...", sentence[..end].trim_end_matches([',', ';']))
    }
}

/// A section of the help.
pub struct Section {
    pub title: String,
    pub flags: Vec<FlagUsage>,
}

/// A command of Kevel's own.
pub struct CommandUsage {
    pub name: String,
    /// Verbs of `store`; other commands take files.
    pub verbs: Vec<String>,
    /// Flags of a command that takes files.
    pub flags: Vec<CommandFlag>,
    /// The usage text of the command.
    pub text: String,
}

/// A flag of a command.
pub struct CommandFlag {
    pub name: String,
    pub summary: String,
    pub completion: Completion,
}

impl CommandFlag {
    /// Reads a line of a usage text: `  -o, --output FORMAT   text, json, ...`.
    fn read(line: &str) -> Option<CommandFlag> {
        let line = line.trim();
        let (form, summary) = line.starts_with('-').then(|| line.split_once("  "))??;
        let (_, form) = form.split_once("--")?;
        let (name, value) = form.split_once(' ').unwrap_or((form, ""));
        let choices = CHOICES.iter().find(|(of, _)| *of == name);
        let completion = match (choices, value) {
            (Some((_, choices)), _) => Completion::Choice(choices),
            (None, "") => Completion::Switch,
            (None, value) if value.contains("FILES") => Completion::File,
            (None, _) => Completion::Other,
        };
        let summary = summary.trim().split([';', ':']).next().unwrap_or_default();
        Some(CommandFlag { name: name.to_owned(), summary: summary.to_owned(), completion })
    }
}

pub struct Usage {
    /// First paragraph of the help.
    pub about: String,
    pub commands: Vec<CommandUsage>,
    pub sections: Vec<Section>,
}

impl Usage {
    pub fn read() -> Usage {
        let options = ServerRunOptions::default();
        let text = help(&[], 0);
        let (about, usage) = text.split_once("\n\nUsage:\n").unwrap();
        let commands = usage.lines().filter_map(|line| line.split_whitespace().nth(1));
        let commands = commands.filter(|word| !word.starts_with('['));
        let sections = options.sections().map(|section| {
            let flags = section.flags().iter().zip(section.values());
            let flags = flags.filter(|(flag, _)| !flag.facts.hidden).map(FlagUsage::new);
            let mut flags: Vec<FlagUsage> = flags.collect();
            flags.sort_by(|one, other| one.name.cmp(&other.name));
            Section { title: section.name().to_owned(), flags }
        });
        Usage {
            about: about.replace('\n', " "),
            commands: commands.map(command).collect(),
            sections: sections.into(),
        }
    }

    pub fn flags(&self) -> impl Iterator<Item = &FlagUsage> {
        self.sections.iter().flat_map(|section| &section.flags)
    }

    /// Flags that completions offer.
    pub fn offered(&self) -> impl Iterator<Item = &FlagUsage> {
        self.flags().filter(|flag| flag.deprecated.is_none())
    }

    pub fn command_names(&self) -> String {
        let names: Vec<&str> = self.commands.iter().map(|command| command.name.as_str()).collect();
        names.join(" ")
    }
}

fn command(name: &str) -> CommandUsage {
    let program = env!("CARGO_BIN_EXE_kube-apiserver");
    let output = Command::new(program).args([name, "--help"]).output().unwrap();
    assert!(output.status.success(), "{name}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let prefix = format!("  kube-apiserver {name} ");
    let verbs = text.lines().filter_map(|line| line.strip_prefix(&prefix)?.split(' ').next());
    let verbs = verbs.filter(|verb| verb.starts_with(|first: char| first.is_ascii_lowercase()));
    let verbs: Vec<String> = verbs.map(str::to_owned).collect();
    let flags = match verbs.is_empty() {
        true => text.lines().filter_map(CommandFlag::read).collect(),
        false => Vec::new(),
    };
    CommandUsage { name: name.to_owned(), verbs, flags, text }
}
