//! Opens an arena file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use convoy_abi as abi;

/// Opens an arena file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    regular(path, OpenOptions::new().read(true))
}

/// The same, to give its pages back.
pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    regular(path, OpenOptions::new().write(true))
}

fn regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // The program may have put a link or a FIFO there: neither may lead or hold us anywhere.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not a regular file",
        ));
    }
    Ok(file)
}

/// The header of an arena, or what there is of it.
pub(crate) fn head(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; abi::CV_ARENA_HEADER_BYTES];
    let n = file.read_at(&mut bytes, 0)?;
    bytes.truncate(n);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_files_are_refused_or_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p1.0");
        std::fs::write(&path, "short").unwrap();
        assert_eq!(head(&open(&path).unwrap()).unwrap(), b"short");
        let link = dir.path().join("p2.0");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert!(open(&link).is_err());
        assert!(open(dir.path()).is_err());
    }
}
