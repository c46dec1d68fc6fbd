//! Packages of every kind, made of headers of programs that have no code.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::program::ProgramFile;
use super::*;

/// The header of a 64-bit program of a machine, with program headers of these types.
pub fn elf(machine: u16, headers: &[u32]) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01".to_vec();
    bytes.resize(64, 0);
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
    bytes[54..56].copy_from_slice(&4u16.to_le_bytes());
    bytes[56..58].copy_from_slice(&(headers.len() as u16).to_le_bytes());
    bytes.extend(headers.iter().flat_map(|kind| kind.to_le_bytes()));
    bytes
}

fn inputs(machines: &[u16], headers: &[u32]) -> Inputs {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let programs =
        machines.iter().map(|machine| ProgramFile::parse(elf(*machine, headers)).unwrap());
    Inputs {
        programs: programs.collect(),
        time: BuildTime(1_795_033_267),
        license: b"a licence".to_vec(),
        third_party: b"more licences".to_vec(),
        changelog: b"changes".to_vec(),
        packaging: root.join("packaging"),
    }
}

/// A program of the machine that looks at an archive, as a user has it.
fn listed(program: &str, arguments: &[&str], package: &PackageFile) -> Option<String> {
    let program = kevel_test_support::program(program)?;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(&package.name);
    std::fs::write(&path, &package.bytes).unwrap();
    let mut command = Command::new(program);
    Some(build::output(command.args(arguments).arg(&path).env("TZ", "UTC")).unwrap())
}

fn one(kind: &str, inputs: &Inputs) -> PackageFile {
    let (_, make) = KINDS.into_iter().find(|(name, _)| *name == kind).unwrap();
    make(inputs).unwrap().remove(0)
}

#[test]
fn same_inputs_make_the_same_bytes() {
    for (kind, make) in KINDS {
        let [first, second] = [(); 2].map(|()| make(&inputs(&[62, 183], &[1])).unwrap());
        let mut names = BTreeSet::new();
        for (first, second) in first.iter().zip(&second) {
            assert!(first.name == second.name && first.bytes == second.bytes, "{}", first.name);
            assert!(first.name.contains(inputs::VERSION), "{}", first.name);
            assert!(names.insert(&first.name), "{kind}: {}", first.name);
        }
    }
}

#[test]
fn tar_archives_are_read_by_tar() {
    let package = one("binary", &inputs(&[62], &[]));
    let Some(text) = listed("tar", &["--list", "--verbose", "--file"], &package) else { return };
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    let server = ["-rwxr-xr-x", "root/root", "64", "2026-11-18", "20:21"];
    let path = format!("kevel-{}-x86_64-linux/kube-apiserver", inputs::VERSION);
    let found = lines.iter().find(|line| line.last() == Some(&path.as_str()));
    assert_eq!(found.unwrap()[..5], server, "{text}");
    assert!(lines[0][0].starts_with("drwxr-xr-x"), "{text}");
    assert!(text.contains("THIRD-PARTY.txt"), "{text}");
}

#[test]
fn debian_packages_are_read_by_dpkg() {
    let package = one("deb", &inputs(&[183], &[1]));
    let Some(text) = listed("dpkg-deb", &["--info"], &package) else { return };
    assert!(text.contains("Architecture: arm64") && text.contains("conffiles"), "{text}");
    assert!(text.contains(&format!("Version: {}\n", inputs::VERSION)), "{text}");
    assert!(!text.contains("libc6"), "{text}");
    let text = listed("dpkg-deb", &["--contents"], &package).unwrap_or_default();
    assert!(
        text.contains("-rwxr-xr-x root/root        68 2026-11-18 20:21 ./usr/bin/kevel-apiserver"),
        "{text}"
    );

    for path in ["man/man1/kevel-apiserver.1.gz", "zsh/vendor-completions/_kevel-apiserver"] {
        assert!(text.contains(&format!(" ./usr/share/{path}\n")), "{path}: {text}");
    }

    let linked = one("deb", &inputs(&[62], &[1, 3]));
    let text = listed("dpkg-deb", &["--info"], &linked).unwrap_or_default();
    assert!(text.contains("Depends: libc6"), "{text}");
}

#[test]
fn wheels_and_jars_are_read_by_python() {
    for (kind, expected) in [
        ("wheel", &["kevel_apiserver/bin/kube-apiserver", ".dist-info/licenses/LICENSE"][..]),
        (
            "maven",
            &[
                "META-INF/MANIFEST.MF",
                "dev/kevel/KevelServer.class",
                "dev/kevel/linux-amd64/kube-apiserver",
            ],
        ),
    ] {
        let inputs = inputs(&[62], &[]);
        let (_, make) = KINDS.into_iter().find(|(name, _)| *name == kind).unwrap();
        // Without a Java compiler there is no jar.
        let Some(package) = make(&inputs).unwrap().into_iter().next() else { continue };
        let test = ["-m", "zipfile", "--test"];
        let Some(text) = listed("python3", &test, &package) else { return };
        assert!(text.contains("Done testing") && !text.contains("bad"), "{text}");
        let text = listed("python3", &["-m", "zipfile", "--list"], &package).unwrap();
        for name in expected {
            assert!(text.contains(name), "{name}: {text}");
        }
        assert!(text.contains("2026-11-18 20:21:06"), "{text}");
    }
}

#[test]
fn wheels_of_static_programs_install_anywhere() {
    for (headers, expected) in [(&[1][..], "manylinux_2_17_x86_64"), (&[3], "-linux_x86_64")] {
        let name = one("wheel", &inputs(&[62], headers)).name;
        assert!(name.contains(expected), "{name}");
    }
}

#[test]
fn images_refuse_programs_that_need_libraries() {
    let refused = image::make(&inputs(&[62], &[3]));
    assert!(matches!(refused, Err(PackageError::Dynamic(_))), "{refused:?}");
}

#[test]
fn images_have_the_indexes_of_both_formats() {
    let package = one("image", &inputs(&[62], &[]));
    let Some(text) = listed("tar", &["--list", "--file"], &package) else { return };
    for name in ["index.json", "manifest.json", "oci-layout"] {
        assert!(text.lines().any(|line| line == name), "{name}: {text}");
    }
}

#[test]
fn checksums_are_of_all_files() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("b", "abc"), ("a", "")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    for _ in 0..2 {
        write_sums(folder.path()).unwrap();
        let text = std::fs::read_to_string(folder.path().join(SUMS)).unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text, format!("{empty}  a\n{abc}  b\n"));
    }
}

#[test]
fn arguments_are_understood_or_refused() {
    let parse = PackageArguments::parse;
    let parsed = parse(&["all", "out", "--binary", "a", "--binary", "b"]).unwrap();
    assert_eq!((parsed.kinds.len(), parsed.programs.len()), (6, 2));
    let parsed = parse(&["deb", "out", "--target", "t", "--profile", "release"]).unwrap();
    assert_eq!((parsed.kinds.len(), parsed.builder.profile), (1, "release"));
    for wrong in [&["all"][..], &["rpm", "out"], &["deb", "out", "--binary"], &["deb", "-x"]] {
        assert!(parse(wrong).is_none(), "{wrong:?}");
    }
}
