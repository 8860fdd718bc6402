//! The files of all recorded processes, read once.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::image::Image;

/// Files that are kept open. The customary limit of a process is 1024, and others need some, too.
const MAX_OPEN: usize = 400;

/// Memory for files that no recorded process maps any more. Bytes.
const MAX_IDLE_BYTES: usize = 24 << 20;

/// What was read of mapped files, shared by the [`Unwinder`](crate::Unwinder)s of all processes: a parallel build starts
/// the same compiler hundreds of times. Clones are the same cache.
#[derive(Debug, Clone, Default)]
pub struct Files(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    cache: Mutex<Cache>,
    open: Arc<AtomicUsize>,
    vdso: OnceLock<Option<Arc<Image>>>,
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileState {
    dev: u64,
    inode: u64,
    changed_s: i64,
    changed_ns: i64,
    bytes: u64,
}

impl FileState {
    /// Of an open file, as it is now.
    pub fn of(meta: &Metadata) -> Self {
        Self {
            dev: meta.dev(),
            inode: meta.ino(),
            changed_s: meta.mtime(),
            changed_ns: meta.mtime_nsec(),
            bytes: meta.len(),
        }
    }
}

#[derive(Debug, Default)]
struct Cache {
    /// `None`: a file that cannot be used. With the time of the last use.
    images: HashMap<FileState, (u64, Option<Arc<Image>>)>,
    /// Counts uses.
    now: u64,
}

/// An open file. It can be read when the process, its mounts and the file's name are gone.
#[derive(Debug)]
pub struct KeptFile {
    file: File,
    open: Arc<AtomicUsize>,
}

impl Deref for KeptFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Files {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// What `file` holds; `None` if it is no ELF file that can be read.
    pub(crate) fn image(&self, file: File) -> Option<Arc<Image>> {
        let key = FileState::of(&file.metadata().ok()?);
        // Two processes rarely meet here, and then they want the same file.
        let mut cache = self.0.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.now += 1;
        let now = cache.now;
        if let Some((used, image)) = cache.images.get_mut(&key) {
            *used = now;
            return image.clone();
        }
        if self.0.open.load(Ordering::Relaxed) >= MAX_OPEN {
            cache.drop_idle(0); // others may still hold their files
        }
        let image = Image::of_file(&file).map(|mut image| {
            image.file = self.keep(file);
            Arc::new(image)
        });
        cache.images.insert(key, (now, image.clone()));
        cache.drop_idle(MAX_IDLE_BYTES);
        image
    }

    /// The kernel's own code, which every process has and no file holds. Ours is the same as theirs.
    pub(crate) fn vdso(&self, read: impl FnOnce() -> Option<Vec<u8>>) -> Option<Arc<Image>> {
        let parse = || Some(Arc::new(Image::of_memory(read()?)?));
        self.0.vdso.get_or_init(parse).clone()
    }

    fn keep(&self, file: File) -> Option<Arc<KeptFile>> {
        let open = self.0.open.clone();
        if open.fetch_add(1, Ordering::Relaxed) >= MAX_OPEN {
            open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Arc::new(KeptFile { file, open }))
    }
}

impl Cache {
    /// Forgets files that nobody maps until they take at most `max_bytes`, the one used longest ago first.
    fn drop_idle(&mut self, max_bytes: usize) {
        let mut idle: Vec<(u64, FileState, usize)> = self
            .images
            .iter()
            .filter_map(|(key, (used, image))| {
                let image = image.as_ref().filter(|i| Arc::strong_count(i) == 1)?;
                Some((*used, *key, image.bytes()))
            })
            .collect();
        let mut bytes: usize = idle.iter().map(|(_, _, bytes)| bytes).sum();
        idle.sort_unstable_by_key(|(used, _, _)| *used);
        for (_, key, size) in idle {
            if bytes <= max_bytes {
                break;
            }
            self.images.remove(&key);
            bytes -= size;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::atomic::Ordering;
    use std::sync::Arc;

    use super::{Files, MAX_OPEN};

    #[test]
    fn not_more_files_are_kept_than_allowed_and_idle_ones_give_way() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("program");
        std::fs::copy("/bin/true", &path).expect("copied");
        let program = File::options().write(true).open(&path).expect("opened");
        let files = Files::new();
        // Each time is another file: programs that configure scripts build and throw away.
        let mut image = |second: u64| {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(second);
            program.set_modified(time).expect("set");
            let file = File::open(&path).expect("opened");
            files.image(file).expect("an ELF file")
        };
        let first = image(0);
        assert!(Arc::ptr_eq(&first, &image(0)));
        for second in 1..2 * MAX_OPEN as u64 {
            assert!(image(second).file.is_some(), "{second}");
        }
        let held: Vec<_> = (0..MAX_OPEN as u64 + 10).map(&mut image).collect();
        let kept = held.iter().filter(|image| image.file.is_some()).count();
        assert_eq!(kept, MAX_OPEN);
        drop((first, held));
        assert!(image(u64::from(u32::MAX)).file.is_some());
        assert!(files.0.open.load(Ordering::Relaxed) <= MAX_OPEN);
    }
}
