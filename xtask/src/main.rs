//! Chores: regenerate `api/` and the facts that tests compare with, convert objects between formats, look at what
//! is built in, follow links, make packages, count what may only fall, plant faults that tests must notice.

use std::process::ExitCode;

mod convert;
mod deny;
mod docs;
mod envtest;
mod facts;
mod generate;
mod mutants;
mod package;
mod ratchet;
mod upstream;

const USAGE: &str = "\
usage: cargo xtask generate [DATA]
           regenerate api/ from DATA (default ../shared/kubernetes-1.36) and say what changed
       cargo xtask convert --from json|yaml|protobuf --to json|yaml|protobuf
           turn the object on standard input into another format
       cargo xtask facts [DATA]
           make conformance/facts, which tests compare with, from DATA (default ../shared/kubernetes-1.36)
       cargo xtask deny
           check licences, versions, sources and known holes of all dependencies against deny.toml
       cargo xtask docs
           check that links between Markdown files resolve and that docs/SUMMARY.md has every page
       cargo xtask envtest DIR [--profile NAME] [--target TRIPLE] [--url URL]
           make assets for controller tests in DIR: folder for KUBEBUILDER_ASSETS, archive and index for setup-envtest; builds
           the profile release (some minutes) and kubectl (Go); URL is where DIR will be served
       cargo xtask words|errors|crates [--write | --list CRATE]
           compare figures of the sources with xtask/ratchets: they may fall (--write renews the file), never rise
       cargo xtask upstream [NAME | --check]
           print file and name of the counterpart of a type or function of kube-apiserver's source, or of all; --check looks
           whether those of xtask/upstream.txt are all there
       cargo xtask mutants [--check | --write] [--known | --untried] [--only TEXT] [CRATE...]
           plant the faults of xtask/mutants, all at once in a copy of the sources, and see that their tests fail; --check
           only looks whether they fit the sources, --write fills in the tests of faults that have none, --known leaves
           those out, --untried all others
       cargo xtask package binary|image|deb|wheel|npm|maven|all DIR [--target TRIPLE]... [--profile NAME]
                           [--target-dir DIR] [--binary FILE]...
           make packages in DIR, of static programs that are built (for musl, profile dist) or given, one of each architecture
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["generate"] => generate::run("../shared/kubernetes-1.36".as_ref()),
        ["generate", data] => generate::run(data.as_ref()),
        ["convert", "--from", from, "--to", to] | ["convert", "--to", to, "--from", from] => from
            .parse()
            .and_then(|from| Ok((from, to.parse()?)))
            .map_err(Into::into)
            .and_then(|(from, to)| convert::run(from, to)),
        ["envtest", rest @ ..] if envtest::takes(rest) => envtest::run(rest).map_err(Into::into),
        ["facts"] => facts::run("../shared/kubernetes-1.36".as_ref()),
        ["facts", data] => facts::run(data.as_ref()),
        ["deny"] => deny::run("deny.toml".as_ref()),
        ["docs"] => docs::run(".".as_ref()).map_err(Into::into),
        [name @ ("words" | "errors" | "crates"), rest @ ..] if ratchet::takes(rest) => {
            ratchet::run(name, rest).map_err(Into::into)
        }
        ["upstream", rest @ ..] if upstream::takes(rest) => {
            upstream::run(".".as_ref(), rest).map_err(Into::into)
        }
        ["mutants", rest @ ..] if mutants::takes(rest) => mutants::run(rest).map_err(Into::into),
        ["package", rest @ ..] if package::takes(rest) => package::run(rest).map_err(Into::into),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
