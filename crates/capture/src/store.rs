//! Puts a profile on disk: all of it or nothing.

use std::io::{ErrorKind as IoKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use convoy_profile::Profile;

use crate::error::{os_text, Error, ErrorKind, Trouble};

/// Writes a profile to a file.
pub fn write_profile(path: &Path, profile: &Profile) -> Result<(), Error> {
    let encoded = profile.to_bytes().map_err(|e| {
        let found = format!("the profile could not be encoded: {}", os_text(&e));
        Error::new(
            ErrorKind::Write,
            Trouble::new(found, "the profile was not written", ""),
        )
    })?;
    write(path, &encoded)
}

/// Writes beside the destination, then renames: a reader sees the old file or the whole new one.
fn write(path: &Path, encoded: &[u8]) -> Result<(), Error> {
    let failed = |e| failed(path, &e, "the profile was not written", encoded.len());
    match place(path) {
        Place::Directory => Err(failed(std::io::Error::from_raw_os_error(libc::EISDIR))),
        Place::Device => {
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .open(path)
                .map_err(failed)?;
            file.write_all(encoded).map_err(failed)
        }
        Place::File => {
            let mut file = beside(path).map_err(failed)?;
            file.write_all(encoded).map_err(failed)?;
            file.as_file().sync_all().map_err(failed)?;
            file.persist(path).map_err(|e| failed(e.error))?;
            Ok(())
        }
    }
}

/// Finds out whether a profile could be written there, before a program runs for an hour.
///
/// Leaves nothing behind; an existing file stays as it is. Fails as [`write_profile`] would.
pub fn can_write(path: &Path) -> Result<(), Error> {
    let tried = match place(path) {
        Place::Directory => Err(std::io::Error::from_raw_os_error(libc::EISDIR)),
        Place::Device => Ok(()), // opening a pipe could block, or end whoever reads it
        Place::File => beside(path).map(drop),
    };
    tried.map_err(|e| failed(path, &e, "the recording was not started", 0))
}

/// Why a profile of this size cannot be written there, and what follows from it.
fn failed(path: &Path, e: &std::io::Error, effect: &str, bytes: usize) -> Error {
    let fix = match e.kind() {
        IoKind::StorageFull | IoKind::QuotaExceeded if bytes > 0 => {
            let kb = bytes.div_ceil(1024);
            format!("free {kb} KB there, or write elsewhere with -o")
        }
        IoKind::NotFound => "make the directory first".to_owned(),
        _ => "write elsewhere with -o".to_owned(),
    };
    let found = format!("{}: {}", path.display(), os_text(e));
    Error::new(ErrorKind::Write, Trouble::new(found, effect, fix))
}

/// What there is at a destination.
enum Place {
    Directory,
    /// A device or pipe (/dev/stdout) cannot be replaced by a rename, and must not be.
    Device,
    /// A file, or nothing yet.
    File,
}

fn place(path: &Path) -> Place {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Place::Directory,
        Ok(found) if !found.is_file() => Place::Device,
        _ => Place::File,
    }
}

/// A new file in the directory of `path`, removed when dropped.
fn beside(path: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".convoy-")
        .permissions(std::fs::Permissions::from_mode(0o666)) // cut by the umask, as for any output
        .tempfile_in(dir)
}

/// The same error, told together with where the data still are.
pub(crate) fn kept(error: &Error, session_dir: &Path) -> Error {
    let trouble = error.trouble();
    let effect = format!(
        "{}, but nothing is lost: the data are in {}",
        trouble.effect,
        session_dir.display()
    );
    let fix = format!(
        "{}; then: convoy recover {}",
        trouble.fix,
        session_dir.display()
    );
    Error::new(
        error.kind(),
        Trouble::new(trouble.found.clone(), effect, fix),
    )
}

/// Puts a profile that could not be written where there is room, so that nothing is lost; the same error with
/// the place. `None`: there is no such place either.
pub(crate) fn put_elsewhere(error: &Error, profile: &Profile, places: &[PathBuf]) -> Option<Error> {
    let encoded = profile.to_bytes().ok()?;
    let put = |dir: &PathBuf| {
        let mut file = tempfile::Builder::new()
            .prefix("convoy-")
            .suffix(".convoy")
            .tempfile_in(dir)?;
        file.write_all(&encoded)?;
        std::io::Result::Ok(file.keep()?.1)
    };
    let path = places.iter().find_map(|dir| put(dir).ok())?;
    let (trouble, path) = (error.trouble(), path.display());
    let effect = format!("{}, but nothing is lost: it is in {path}", trouble.effect);
    let fix = format!("{}; or: convoy report {path}", trouble.fix);
    Some(Error::new(
        error.kind(),
        Trouble::new(trouble.found.clone(), effect, fix),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_to_write_is_tried_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("old.convoy");
        std::fs::write(&old, "old").unwrap();
        can_write(&old).unwrap();
        can_write(&dir.path().join("new.convoy")).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "old");
        let missing = can_write(&dir.path().join("no/new.convoy")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::Write);
        assert!(missing.trouble().fix.contains("directory"));
        can_write(dir.path()).unwrap_err();
    }

    #[test]
    fn profile_replaces_the_old_one_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.convoy");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn full_disk_names_value_and_fix() {
        let error = write(Path::new("/dev/full"), &[0; 4096]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Write);
        assert!(
            error.trouble().found.contains("No space left on device"),
            "{error}"
        );
        assert!(error.trouble().fix.contains("free 4 KB"), "{error}");
        let kept = kept(&error, Path::new("/dev/shm/x"));
        assert!(
            kept.trouble().fix.ends_with("convoy recover /dev/shm/x"),
            "{kept}"
        );
    }

    #[test]
    fn a_profile_that_has_no_place_is_put_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let error = write_profile(Path::new("/dev/full"), &Profile::default()).unwrap_err();
        let places = [dir.path().join("missing"), dir.path().to_owned()];
        let told = put_elsewhere(&error, &Profile::default(), &places).unwrap();
        let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
        let path = files[0].path();
        assert_eq!(files.len(), 1);
        assert!(
            told.trouble().effect.ends_with(&path.display().to_string()),
            "{told}"
        );
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(Profile::read(&bytes).unwrap().0, Profile::default());
        assert!(put_elsewhere(&error, &Profile::default(), &places[..1]).is_none());
    }

    #[test]
    fn impossible_places_are_told() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path(), &dir.path().join("no/such/dir/run.convoy")] {
            assert_eq!(write(path, b"x").unwrap_err().kind(), ErrorKind::Write);
        }
    }
}
