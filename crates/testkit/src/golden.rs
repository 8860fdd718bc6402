//! Golden files: a text that was reviewed once and must not change unseen.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Why a text is not the golden one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The golden file.
    pub path: PathBuf,
    /// Its text, `None` if there is no such file.
    pub expected: Option<String>,
    /// The text to compare with it.
    pub got: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            expected,
            got,
        } = self;
        let path = path.display();
        match expected {
            None => writeln!(f, "{path} does not exist")?,
            Some(expected) => {
                let line = 1 + expected
                    .lines()
                    .zip(got.lines())
                    .take_while(|(a, b)| a == b)
                    .count();
                writeln!(f, "{path}: the text differs from line {line} on")?;
                writeln!(f, "---- expected ----\n{expected}")?;
            }
        }
        writeln!(f, "---- got ----\n{got}")?;
        write!(
            f,
            "---- compare with {path}.new; CONVOY_BLESS=1 accepts it ----"
        )
    }
}

/// Panics unless the file at `path` holds exactly `got`, and leaves `got` beside it as `*.new`.
/// With `CONVOY_BLESS=1` in the environment the file is written instead.
///
/// `path` is relative to the manifest of the crate under test.
#[track_caller]
pub fn assert_golden(path: impl AsRef<Path>, got: &str) {
    let bless = std::env::var_os("CONVOY_BLESS").is_some_and(|v| v == "1");
    if let Err(mismatch) = check_golden(path.as_ref(), got, bless) {
        panic!("{mismatch}");
    }
}

/// What [`assert_golden`] does, without the environment and the panic.
pub fn check_golden(path: &Path, got: &str, bless: bool) -> Result<(), Box<Mismatch>> {
    let beside = PathBuf::from(format!("{}.new", path.display()));
    let expected = fs::read_to_string(path).ok();
    if expected.as_deref() == Some(got) {
        // A leftover of an earlier mismatch; it is fine if there is none.
        let _ = fs::remove_file(beside);
        return Ok(());
    }
    let target = if bless { path } else { &beside };
    let written = target
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(target, got));
    if let Err(error) = written {
        panic!("cannot write {}: {error}", target.display());
    }
    if bless {
        let _ = fs::remove_file(beside);
        return Ok(());
    }
    Err(Box::new(Mismatch {
        path: path.into(),
        expected,
        got: got.into(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mismatch_is_left_beside_and_can_be_blessed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/a.txt");
        let new = dir.path().join("sub/a.txt.new");

        let missing = check_golden(&path, "one\n", false).unwrap_err();
        assert_eq!(missing.expected, None);
        assert_eq!(fs::read_to_string(&new).unwrap(), "one\n");

        check_golden(&path, "one\ntwo\n", true).unwrap();
        assert!(!new.exists());
        check_golden(&path, "one\ntwo\n", false).unwrap();

        let differs = check_golden(&path, "one\n2\n", false).unwrap_err();
        assert!(differs.to_string().contains("from line 2 on"), "{differs}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        assert_eq!(fs::read_to_string(&new).unwrap(), "one\n2\n");
    }
}
