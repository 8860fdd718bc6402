//! The Debian package: built, installed below a directory, run from there, and removed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Standard output of a command that must succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("it can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn dpkg(root: &Path, action: &str, what: &Path) {
    // Dependencies are the machine's, not those below the directory.
    let mut dpkg = Command::new("dpkg");
    dpkg.args(["--force-depends", "--force-not-root", "--force-bad-path"]);
    dpkg.arg("--root").arg(root).arg(action).arg(what);
    run(&mut dpkg);
}

#[test]
fn a_debian_package_can_be_installed_used_and_removed() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        eprintln!("skipped: dpkg-deb is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/deb.sh");
    let built = Command::new(script)
        .arg(directory.path())
        .env("CONVOY_BIN", env!("CARGO_BIN_EXE_convoy"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{errors}");
    let package = PathBuf::from(String::from_utf8_lossy(&built.stdout).trim());

    let root = directory.path().join("root");
    for made in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log"] {
        std::fs::create_dir_all(root.join(made)).unwrap();
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    dpkg(&root, "--install", &package);
    let convoy = root.join("usr/bin/convoy");
    let version = run(Command::new(&convoy).arg("--version"));
    let told = run(Command::new("dpkg-deb")
        .arg("-f")
        .arg(&package)
        .arg("Version"));
    let number = told.split('+').next().unwrap().trim();
    assert!(
        version.starts_with(&format!("convoy {number}")),
        "{version} is not {told}"
    );
    for file in [
        "usr/share/man/man1/convoy.1.gz",
        "usr/share/man/man1/convoy-live.1.gz",
        "usr/share/bash-completion/completions/convoy",
        "usr/share/zsh/vendor-completions/_convoy",
        "usr/share/fish/vendor_completions.d/convoy.fish",
        "usr/share/doc/convoy/copyright",
    ] {
        assert!(root.join(file).exists(), "{file}");
    }
    dpkg(&root, "--purge", Path::new("convoy"));
    assert!(!convoy.exists());
}
