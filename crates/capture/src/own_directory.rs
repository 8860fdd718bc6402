//! Directories of convoy in places that belong to everybody.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The user's directory `NAME-UID` below `parent`, made if need be. `mode`: who else may read and
/// enter it; nobody else may write.
///
/// # Errors
/// It cannot be made, or somebody else has put something in its place.
pub fn own_directory(parent: &Path, name: &str, mode: u32) -> Result<PathBuf, String> {
    let text = |e: std::io::Error| e.to_string();
    let uid = rustix::process::geteuid().as_raw();
    let dir = parent.join(format!("{name}-{uid}"));
    match fs::DirBuilder::new().mode(mode).create(&dir) {
        // whatever the umask made of it
        Ok(()) => fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).map_err(text)?,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        Err(e) => return Err(text(e)),
    }
    // /tmp belongs to everybody: somebody else may have made the directory, or a link in its place.
    let found = fs::symlink_metadata(&dir).map_err(text)?;
    let is_ours = found.is_dir() && found.uid() == uid;
    let for_others = found.mode() & 0o077;
    if !is_ours || for_others & 0o022 != 0 || for_others & !mode != 0 {
        return Err(format!(
            "{} is not a directory of uid {uid} with mode {mode:o} (uid {}, mode {:o})",
            dir.display(),
            found.uid(),
            found.mode() & 0o7777
        ));
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_control_or_can_read_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let own = |mode| own_directory(parent.path(), "convoy", mode);
        let dir = own(0o700).unwrap();
        assert_eq!(own(0o700).as_ref(), Ok(&dir));
        assert_eq!(own(0o755).as_ref(), Ok(&dir), "less than others may");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(own(0o700).unwrap_err().contains("mode 755"));
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(own(0o755).is_err());
        fs::remove_dir(&dir).unwrap();
        std::os::unix::fs::symlink("/", &dir).unwrap();
        assert!(own(0o700).unwrap_err().contains("is not a directory"));
    }
}
