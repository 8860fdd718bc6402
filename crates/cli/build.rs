//! The version that `convoy --version` says: of the package, and of the commit where there is one.

use std::path::Path;
use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let commit = is_own_repository().then(|| git(&["rev-parse", "--short=10", "HEAD"]));
    let commit = commit.flatten();
    let told = match commit {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=CONVOY_VERSION={told}");
    println!("cargo::rerun-if-changed=build.rs");
    // A commit moves what HEAD names, which is a file of its own on a branch.
    let head = git(&["symbolic-ref", "-q", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(head.as_deref()) {
        let file = git(&["rev-parse", "--git-path", name]);
        let file = file.filter(|file| Path::new(file).exists());
        file.iter()
            .for_each(|file| println!("cargo::rerun-if-changed={file}"));
    }
}

/// Whether the repository is convoy's: a source package may lie in that of somebody else.
fn is_own_repository() -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let top = git(&["rev-parse", "--show-toplevel"]);
    let top = top.and_then(|top| Path::new(&top).canonicalize().ok());
    top.is_some() && top == root.canonicalize().ok()
}

/// What git answers about the directory of this package; `None` = no repository, or no git.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
