//! Brings an arena file into memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use convoy_abi as abi;
use rustix::fs::{seek, SeekFrom};
use zerocopy::FromBytes;

/// Reads an arena up to its bump.
///
/// Read and not mapped: the program could truncate the file under a mapping and kill us with SIGBUS.
/// The file is sparse (1 GiB of which a few pages exist); holes are skipped, and memory that nothing is read
/// into stays untouched zero pages.
pub(crate) fn load(path: &Path) -> io::Result<Vec<u8>> {
    load_open(&open(path)?)
}

/// Opens an arena file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // The program may have put a link or a FIFO there: neither may lead or hold us anywhere.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
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

/// Like [`load`], of an open file.
pub(crate) fn load_open(file: &File) -> io::Result<Vec<u8>> {
    let used = bump(file).unwrap_or(0).min(file.metadata()?.len());
    let mut bytes = vec![0u8; usize::try_from(used).unwrap_or(0)];
    let mut at = 0;
    while at < used {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break, // only a hole is left
            Err(_) => at, // no such question on this file system: all is data
        };
        let hole = seek(file, SeekFrom::Hole(data))
            .unwrap_or(used)
            .clamp(data, used);
        if data >= used || hole == data {
            break;
        }
        let Some(part) = bytes.get_mut(data as usize..hole as usize) else {
            break;
        };
        file.read_exact_at(part, data)?;
        at = hole;
    }
    Ok(bytes)
}

fn bump(file: &File) -> Option<u64> {
    let mut head = [0u8; 128];
    file.read_exact_at(&mut head, 0).ok()?;
    let at = std::mem::offset_of!(abi::Arena, bump);
    u64::read_from_prefix(head.get(at..)?)
        .ok()
        .map(|(bump, _)| bump)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_file_is_read_up_to_its_bump() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p1.0");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 30).unwrap();
        let bump = (64u64 << 20) + 64;
        file.write_all_at(&bump.to_le_bytes(), 24).unwrap();
        file.write_all_at(&[7; 64], 64 << 20).unwrap();
        file.write_all_at(&[9; 64], 128 << 20).unwrap();
        let bytes = load(&path).unwrap();
        assert_eq!(bytes.len() as u64, bump);
        assert_eq!(bytes[24..32], bump.to_le_bytes());
        assert!(bytes[4096..64 << 20].iter().all(|b| *b == 0));
        assert!(bytes[64 << 20..].iter().all(|b| *b == 7));
    }

    #[test]
    fn hostile_files_are_refused_or_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p1.0");
        std::fs::write(&path, "short").unwrap();
        assert!(load(&path).unwrap().is_empty());
        let link = dir.path().join("p2.0");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert!(load(&link).is_err());
        assert!(load(dir.path()).is_err());
    }
}
