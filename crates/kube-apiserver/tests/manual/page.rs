//! The man page.

use std::fmt::Write as _;

use crate::PROGRAM;
use crate::usage::{FlagUsage, Usage};

const FILES: &str = r"
.SH FILES
.TP
.I ./kevel\-data
Default of
.BR \-\-data\-dir :
what the server keeps itself without
.BR \-\-etcd\-servers .
.TP
.I ./kevel\-data/admin.kubeconfig
Kubeconfig of an administrator, made at the start.
.TP
.I ./kevel\-data/pki
Certificate authority, serving certificate and key of service accounts, made on the first start.
.TP
.I ./kevel\-data/db
The store:
.I DIR
of
.BR store .
";

const END: &str = r"
.SH EXIT STATUS
.TP
.B 0
The server was stopped by SIGTERM or SIGINT, or the command has done its work and found nothing wrong.
.TP
.B 1
The server cannot start, or the command has failed or found errors; the last line on standard error says why.
.TP
.B 2
Wrong arguments of a command.
.SH EXAMPLES
.TP
A server on its own store, and a client:
.nf
.B @PROGRAM@ \-\-data\-dir=/tmp/try
.B kubectl \-\-kubeconfig /tmp/try/admin.kubeconfig get namespaces
.fi
.TP
A backup while the server runs:
.B @PROGRAM@ store backup /tmp/try/db /tmp/backup
.TP
Manifests, checked without a cluster:
.B @PROGRAM@ check \-f deploy/
.SH SEE ALSO
.BR kubectl (1),
.BR etcd (1)
";

/// The page, with `@PROGRAM@`, `@VERSION@` and `@DATE@` to be filled in.
pub fn make(usage: &Usage) -> String {
    let mut page = String::from(
        ".\\\" Made from the declared flags: cargo test -p kube-apiserver --test manual\n",
    );
    let _ =
        writeln!(page, ".TH {PROGRAM} 1 \"@DATE@\" \"Kevel @VERSION@\" \"Kubernetes API server\"");
    let _ =
        writeln!(page, ".SH NAME\n{PROGRAM} \\- Kubernetes API server, a drop-in kube-apiserver");
    let _ = writeln!(page, ".SH SYNOPSIS\n.B {PROGRAM}\n.RI [ flags ]");
    for command in &usage.commands {
        let _ = writeln!(page, ".br\n.B {PROGRAM} {}\n.I arguments", command.name);
    }
    let _ = writeln!(page, ".SH DESCRIPTION\n{}", text(&usage.about));
    page.push_str(".SH COMMANDS\n");
    for described in &usage.commands {
        let _ = writeln!(page, ".SS {}", described.name);
        command(&mut page, &described.text);
    }
    page.push_str(".SH OPTIONS\n");
    for section in &usage.sections {
        let mut title = section.title.clone();
        title[..1].make_ascii_uppercase();
        let _ = writeln!(page, ".SS {title} flags");
        for flag in &section.flags {
            option(&mut page, flag);
        }
    }
    page.push_str(FILES.trim_start());
    page.push_str(END.trim_start());
    page
}

/// The usage text of a command: its forms, each with a description in a column of its own, and paragraphs.
fn command(page: &mut String, usage: &str) {
    for line in usage.lines().filter(|line| *line != "Usage:") {
        let (form, description) = line.trim().split_once("  ").unwrap_or((line, ""));
        if form.starts_with('-') {
            let _ = writeln!(page, ".TP\n.B {}\n{}", text(form.trim()), text(description.trim()));
        } else if form.trim_start().starts_with("kube-apiserver ") {
            let form = form.trim().replacen("kube-apiserver", PROGRAM, 1);
            let _ = writeln!(page, ".TP\n.B {}\n{}", text(&form), text(description.trim()));
        } else if line.starts_with("   ") {
            // The description goes on.
            let _ = writeln!(page, "{}", text(line.trim()));
        } else {
            let _ =
                writeln!(page, "{}", if line.is_empty() { ".PP".to_owned() } else { text(line) });
        }
    }
}

fn option(page: &mut String, flag: &FlagUsage) {
    page.push_str(".TP\n.B ");
    if let Some(letter) = flag.short {
        let _ = write!(page, "\\-{letter}, ");
    }
    let _ = write!(page, "\\-\\-{}", text(&flag.name));
    if !flag.value.is_empty() {
        let _ = write!(page, "=\\fI{}\\fR", flag.value);
    }
    let _ = writeln!(page, "\n{}", text(&flag.help));
    if let Some(default) = &flag.default {
        let _ = writeln!(page, "Default: {}.", text(default));
    }
    if let Some(warning) = flag.deprecated {
        let _ = writeln!(page, "Deprecated: {}.", text(warning.trim_end_matches('.')));
    }
}

/// A text with nothing in it that troff takes for its own.
fn text(plain: &str) -> String {
    let escaped = plain.replace('\\', "\\e").replace('-', "\\-");
    let lines = escaped.lines().map(|line| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}
