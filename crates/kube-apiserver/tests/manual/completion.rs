//! Completions of shells.

use std::fmt::Write as _;

use crate::PROGRAM;
use crate::usage::{CommandFlag, CommandUsage, Completion, FlagUsage, Usage};

const MADE: &str = "# Made from the declared flags: cargo test -p kube-apiserver --test manual\n";

/// Bash: a function and tables of words.
pub fn bash(usage: &Usage) -> String {
    let mut script = format!("# Completion of {PROGRAM} for bash.\n{MADE}");
    script.push_str("_kevel_complete() {\n  local current=$2 previous=$3 words= with_file=\n");
    script.push_str("  # Bash breaks words at an equals sign.\n");
    script.push_str("  [[ $current != = ]] || current=\n");
    script.push_str(
        "  [[ ${COMP_WORDS[COMP_CWORD]} != = ]] || previous=${COMP_WORDS[COMP_CWORD-1]}\n",
    );
    script.push_str("  [[ $previous != = ]] || previous=${COMP_WORDS[COMP_CWORD-2]}\n");
    script.push_str("  COMPREPLY=()\n  case ${COMP_WORDS[1]} in\n");
    for command in &usage.commands {
        let _ = writeln!(script, "  {})", command.name);
        if command.verbs.is_empty() {
            bash_flags(&mut script, command);
            continue;
        }
        script.push_str("    if [ \"$COMP_CWORD\" -eq 2 ]; then\n");
        let words = command.verbs.join(" ");
        let _ = writeln!(
            script,
            "      words={words:?}\n    elif [ \"$COMP_CWORD\" -gt 2 ]; then\n      with_file=1\n    fi ;;"
        );
    }
    script.push_str("  esac\n  if [ -z \"$words$with_file\" ]; then\n    case $previous in\n");
    let names = |is_one: &dyn Fn(&FlagUsage) -> bool| {
        let names = usage.offered().filter(|flag| is_one(flag));
        names.map(|flag| format!("--{}", flag.name)).collect::<Vec<_>>()
    };
    for flag in usage.offered() {
        if let Completion::Choice(choices) = flag.completion() {
            let _ = writeln!(script, "    --{}) words=\"{}\" ;;", flag.name, choices.join(" "));
        }
    }
    let files = names(&|flag| matches!(flag.completion(), Completion::File)).join(" | \\\n    ");
    let _ = writeln!(script, "    {files}) with_file=1 ;;");
    let others = names(&|flag| matches!(flag.completion(), Completion::Other)).join(" | \\\n    ");
    let _ = writeln!(script, "    {others}) return ;;");
    let switches = names(&|flag| matches!(flag.completion(), Completion::Switch));
    let switches = switches.join(" | \\\n    ");
    // A switch takes a value only after an equals sign.
    let _ = writeln!(script, "    {switches})");
    script.push_str("      case \" $3 ${COMP_WORDS[COMP_CWORD]} \" in *\" = \"*) words=\"true false\" ;; esac ;;\n");
    script.push_str("    esac\n  fi\n  if [ -z \"$words$with_file\" ]; then\n");
    let _ = writeln!(script, "    words=\"{}\"", names(&|_| true).join("\n      "));
    let _ =
        writeln!(script, "    [ \"$COMP_CWORD\" -ne 1 ] || words+=\" {}\"", usage.command_names());
    script.push_str("  fi\n  if [ -n \"$with_file\" ]; then\n");
    script.push_str("    compopt -o filenames 2>/dev/null\n");
    script.push_str("    mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n  else\n");
    script
        .push_str("    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n  fi\n}\n");
    let _ = writeln!(script, "complete -F _kevel_complete {PROGRAM}");
    script
}

/// The flags of a command that takes files.
fn bash_flags(script: &mut String, command: &CommandUsage) {
    script.push_str("    case $previous in\n");
    for flag in &command.flags {
        if let Completion::Choice(choices) = flag.completion {
            let _ = writeln!(script, "    --{}) words=\"{}\" ;;", flag.name, choices.join(" "));
        }
    }
    let names: Vec<String> = command.flags.iter().map(|flag| format!("--{}", flag.name)).collect();
    let _ = writeln!(
        script,
        "    *) case $current in -*) words=\"{}\" ;; *) with_file=1 ;; esac ;;\n    esac ;;",
        names.join(" ")
    );
}

/// Arguments of `_arguments` and options of fish's `complete` for a flag of a command.
fn zsh_flag(flag: &CommandFlag) -> String {
    let (name, summary) = (&flag.name, flag.summary.replace('\'', "'\\''"));
    match flag.completion {
        Completion::Switch => format!("'--{name}[{summary}]'"),
        Completion::Choice(choices) => {
            format!("'--{name}=[{summary}]:value:({})'", choices.join(" "))
        }
        Completion::File => format!("'*--{name}=[{summary}]:file:_files'"),
        Completion::Other => format!("'--{name}=[{summary}]:value: '"),
    }
}

fn fish_flag(flag: &CommandFlag) -> String {
    let (name, summary) = (&flag.name, flag.summary.replace('\'', "\\'"));
    let value = match flag.completion {
        Completion::Switch => String::new(),
        Completion::Choice(choices) => format!(" -x -a '{}'", choices.join(" ")),
        Completion::File => " -r -F".to_owned(),
        Completion::Other => " -x".to_owned(),
    };
    format!("-l {name}{value} -d '{summary}'")
}

/// Zsh: the arguments of `_arguments`.
pub fn zsh(usage: &Usage) -> String {
    let mut script = format!("#compdef {PROGRAM}\n{MADE}\n");
    script.push_str("if (( CURRENT > 2 )); then\n  case $words[2] in\n");
    for command in &usage.commands {
        let verbs = command.verbs.join(" ");
        if command.verbs.is_empty() {
            let flags: Vec<String> = command.flags.iter().map(zsh_flag).collect();
            let _ = writeln!(
                script,
                "  {}) _arguments {} '*:file:_files'; return ;;",
                command.name,
                flags.join(" ")
            );
            continue;
        }
        let _ = writeln!(
            script,
            "  {}) _arguments '2:verb:({verbs})' '*:file:_files'; return ;;",
            command.name
        );
    }
    script.push_str("  esac\nfi\n_arguments -s \\\n");
    for flag in usage.offered() {
        let summary = flag.summary().replace('\\', "\\\\").replace('\'', "'\\''");
        let summary = summary.replace('[', "\\[").replace(']', "\\]").replace(':', "\\:");
        let name = &flag.name;
        let _ = match flag.completion() {
            Completion::Switch => {
                writeln!(script, "  '--{name}=-[{summary}]::switch:(true false)' \\")
            }
            Completion::Choice(choices) => {
                let choices = choices.join(" ");
                writeln!(script, "  '--{name}=[{summary}]:value:({choices})' \\")
            }
            Completion::File => writeln!(script, "  '*--{name}=[{summary}]:file:_files' \\"),
            Completion::Other => writeln!(script, "  '*--{name}=[{summary}]:{}: ' \\", flag.value),
        };
    }
    let _ = writeln!(script, "  '1:command:({})'", usage.command_names());
    script
}

/// Fish: a command for each flag.
pub fn fish(usage: &Usage) -> String {
    let mut script =
        format!("# Completion of {PROGRAM} for fish.\n{MADE}complete -c {PROGRAM} -f\n");
    let names = usage.command_names();
    let first = "__fish_use_subcommand";
    for command in &usage.commands {
        let name = &command.name;
        let _ = writeln!(script, "complete -c {PROGRAM} -n {first} -a {name}");
        let verbs = command.verbs.join(" ");
        let seen = format!("__fish_seen_subcommand_from {name}");
        if command.verbs.is_empty() {
            let _ = writeln!(script, "complete -c {PROGRAM} -n '{seen}' -F");
            for flag in &command.flags {
                let _ = writeln!(script, "complete -c {PROGRAM} -n '{seen}' {}", fish_flag(flag));
            }
            continue;
        }
        let without = format!("{seen}; and not __fish_seen_subcommand_from {verbs}");
        let _ = writeln!(script, "complete -c {PROGRAM} -n '{without}' -a '{verbs}'");
        let with = format!("{seen}; and __fish_seen_subcommand_from {verbs}");
        let _ = writeln!(script, "complete -c {PROGRAM} -n '{with}' -F");
    }
    let flags = format!("not __fish_seen_subcommand_from {names}");
    for flag in usage.offered() {
        let (name, summary) =
            (&flag.name, flag.summary().replace('\\', "\\\\").replace('\'', "\\'"));
        let short = flag.short.map_or_else(String::new, |letter| format!(" -s {letter}"));
        let value = match flag.completion() {
            Completion::Switch => String::new(),
            Completion::Choice(choices) => format!(" -x -a '{}'", choices.join(" ")),
            Completion::File => " -r -F".to_owned(),
            Completion::Other => " -x".to_owned(),
        };
        let _ = writeln!(
            script,
            "complete -c {PROGRAM} -n '{flags}'{short} -l {name}{value} -d '{summary}'"
        );
    }
    script
}
