//! Which code is the program's own: what its developer can change, unlike libraries, packages and
//! run-time systems.

use crate::languages::is_language;
use crate::wrappers::passes_on;
use crate::SiteFrame;

/// Folders of what comes with the system, by the Filesystem Hierarchy Standard 3.0 (chapters 3 and
/// 4). /usr/local/bin and /opt hold programs that are built on the machine.
const SYSTEM: [&str; 8] = [
    "/lib/",
    "/lib32/",
    "/lib64/",
    "/usr/include/",
    "/usr/lib",
    "/usr/local/include/",
    "/usr/local/lib/",
    "/usr/share/",
];

/// Folders in which package managers of languages keep the sources of others: Cargo's registry and
/// git checkouts, Go's module cache and root, Python's and Node's packages.
const PACKAGES: [&str; 9] = [
    "/.cargo/registry/",
    "/.cargo/git/",
    "/rustc/",
    "/rustlib/",
    "/pkg/mod/",
    "/go/src/",
    "/site-packages/",
    "/dist-packages/",
    "/node_modules/",
];

/// Whether a file, of code or of its source, is of the system or of a package.
pub(crate) fn is_of_others(path: &str) -> bool {
    let is_of_system = SYSTEM.iter().any(|folder| path.starts_with(folder));
    is_of_system || PACKAGES.iter().any(|folder| path.contains(folder))
}

/// The innermost frame from `shown` on that is the program's own. `is_foreign`: whether a module,
/// given by its file's name, belongs to others.
pub(crate) fn own_frame(
    frames: &[SiteFrame],
    shown: usize,
    is_foreign: impl Fn(&str) -> bool,
) -> Option<usize> {
    let is_own = |frame: &SiteFrame| {
        !frame.function.is_empty()
            && !is_foreign(&frame.module)
            && !is_of_others(&frame.file)
            && !is_language(frame)
            && !passes_on(frame)
    };
    let found = frames.iter().skip(shown).position(is_own)?;
    Some(shown + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str, module: &str) -> SiteFrame {
        SiteFrame {
            function: function.into(),
            file: file.into(),
            module: module.into(),
            ..SiteFrame::default()
        }
    }

    #[test]
    fn headers_and_libraries_are_of_others() {
        let frames = [
            frame("", "", "libre2.so.9"),
            frame("re2::RE2::DoMatch", "", "libre2.so.9"),
            frame("re2::RE2::Apply<bool>", "/usr/include/re2/re2.h", "app"),
            frame("match_lines", "/home/me/match.cc", "app"),
            frame("main", "/home/me/main.cc", "app"),
        ];
        let own = |shown| own_frame(&frames, shown, |module| module != "app");
        assert_eq!(own(0), Some(3));
        assert_eq!(own(4), Some(4), "from the shown one on");
        assert_eq!(own_frame(&frames, 0, |_| true), None);
    }

    #[test]
    fn packages_are_of_others_wherever_they_are() {
        for path in [
            "/home/me/.cargo/registry/src/index.crates.io-6f17d22bba15001f/tokio-1.38.0/src/lib.rs",
            "/usr/local/go/src/math/rand/rand.go",
            "/usr/lib/x86_64-linux-gnu/libre2.so.9",
        ] {
            assert!(is_of_others(path), "{path}");
        }
        for path in [
            "/opt/server/bin/server",
            "/usr/local/bin/server",
            "src/a.c",
            "",
        ] {
            assert!(!is_of_others(path), "{path}");
        }
    }
}
