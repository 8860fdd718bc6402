//! Files that agents put into the session's directory: `<letter><pid>.<n>`, one for each process
//! image. What they hold is their readers' business.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file of image `n` of process `pid`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SideFile {
    pub pid: u32,
    pub n: u32,
    pub path: PathBuf,
}

/// All with this letter, by process and image.
pub(crate) fn all_in(dir: &Path, letter: char) -> Vec<SideFile> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<SideFile> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let (pid, n) = name.to_str()?.strip_prefix(letter)?.split_once('.')?;
            Some(SideFile {
                pid: pid.parse().ok()?,
                n: n.parse().ok()?,
                path: entry.path(),
            })
        })
        .collect();
    found.sort();
    found
}

/// Opens one to read and write it. It is not mapped: the program could truncate it under a mapping
/// and kill us with SIGBUS. `None` = it cannot be opened, or is no file.
pub(crate) fn open(path: &Path) -> Option<File> {
    // The program may have put a link or a FIFO there: neither may lead or hold us anywhere.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}
