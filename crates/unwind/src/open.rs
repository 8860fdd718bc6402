//! The file behind a mapping, as the process sees it and not as we do.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::maps::{Mapping, Source};

/// Opens the mapped file: in the process's own view of the file system (containers), by the mapping
/// itself (deleted files; needs privilege), or by its path here where that is the same file.
///
/// `dir` is the process's directory in `/proc`.
pub(crate) fn open(dir: &Path, mapping: &Mapping, source: &Source) -> io::Result<File> {
    let relative = source.path.strip_prefix('/').unwrap_or(&source.path);
    // Some file systems (btrfs, overlayfs) show one device in the map and another in the file's status, so that
    // only the inode can be compared; a path in the process's own view needs no more.
    regular(&dir.join("root").join(relative), |inode, _| {
        inode == source.inode
    })
    .or_else(|_| {
        let range = format!("map_files/{:x}-{:x}", mapping.lo, mapping.hi);
        regular(&process_dir(dir).join(range), |_, _| true)
    })
    .or_else(|_| {
        regular(Path::new(&source.path), |inode, dev| {
            (inode, dev) == (source.inode, source.dev)
        })
    })
}

/// `map_files` is there for processes, not for threads.
fn process_dir(dir: &Path) -> PathBuf {
    let task = dir.parent().filter(|parent| parent.ends_with("task"));
    task.and_then(Path::parent).unwrap_or(dir).to_owned()
}

/// Opens a regular file, and nothing that could block or that is another one.
fn regular(path: &Path, same: impl Fn(u64, u64) -> bool) -> io::Result<File> {
    let wrong = |meta: &std::fs::Metadata| !meta.is_file() || !same(meta.ino(), meta.dev());
    let other = || io::Error::other("another file is there now");
    // Opening a device can have effects: look first.
    if wrong(&std::fs::metadata(path)?) {
        return Err(other());
    }
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)?;
    if wrong(&file.metadata()?) {
        return Err(other());
    }
    Ok(file)
}

/// Opens the map of generated code that a compiler writes for profilers (linux: tools/perf/Documentation/jit-interface.txt).
/// It grows until the process ends, and what is open now can be read to its end then.
pub(crate) fn jit_map(dir: &Path) -> Option<File> {
    let status = std::fs::read_to_string(dir.join("status")).ok()?;
    let numbers = status.lines().find_map(|l| l.strip_prefix("NSpid:"))?;
    // The innermost namespace comes last: the number that the process knows itself by.
    let pid = numbers.split_whitespace().last()?;
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(dir.join(format!("root/tmp/perf-{pid}.map")))
        .ok()?;
    // It lies where everybody may write: it must be the process's own or root's.
    let meta = file.metadata().ok()?;
    let owner = std::fs::metadata(dir).ok()?.uid();
    (meta.is_file() && [owner, 0].contains(&meta.uid())).then_some(file)
}
