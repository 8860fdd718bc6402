//! What the caller may choose, and what resolving tells about itself.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use convoy_profile::Module;

/// Where to look, and how far to go.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directories that hold `.build-id/xx/yyyy.debug` and mirrors of the file system.
    pub debug_roots: Vec<PathBuf>,
    /// Local caches of debuginfod: `<cache>/<build-id>/debuginfo`. They are read, never filled.
    pub debuginfod_caches: Vec<PathBuf>,
    /// Directory of `perf-<pid>.map` files, written by just-in-time compilers.
    pub jit_map_dir: PathBuf,
    /// The map to read instead. For processes that live elsewhere (containers) or nowhere any more: an open file as
    /// `/proc/self/fd/N`. Whether it can be trusted is the caller's to know.
    pub jit_map: Option<PathBuf>,
    /// Where the files of modules are, by [`Module::path`], if not there: for modules of other mount namespaces
    /// and deleted files, opened while the process lived, as `/proc/self/fd/N`. Build-ids are compared all the same.
    pub files: HashMap<String, PathBuf>,
    /// Read the C library's own debug information too. Its functions have names without it;
    /// lines inside it help nobody who looks for a lock, and cost tens of milliseconds.
    pub c_library_lines: bool,
    /// Start of the recording. A module without a build-id whose file is younger is taken for another build.
    pub started: Option<SystemTime>,
    /// Debug information of one module beyond this many bytes is not read: functions only.
    pub max_debug_bytes: u64,
}

impl Default for Options {
    /// The places that distributions use, independent of the environment.
    fn default() -> Self {
        Self {
            debug_roots: vec!["/usr/lib/debug".into()],
            debuginfod_caches: Vec::new(),
            jit_map_dir: "/tmp".into(),
            jit_map: None,
            files: HashMap::new(),
            c_library_lines: false,
            started: None,
            max_debug_bytes: 2 << 30,
        }
    }
}

impl Options {
    /// The caller's file for a module.
    pub(crate) fn file(&self, module: &Module) -> Option<&Path> {
        self.files.get(&module.path).map(PathBuf::as_path)
    }

    /// The default, plus the user's debuginfod caches: `$DEBUGINFOD_CACHE_PATH`,
    /// `$XDG_CACHE_HOME/debuginfod_client`, `~/.cache/debuginfod_client`.
    pub fn from_env() -> Self {
        let dir = |name: &str| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let caches = [
            dir("DEBUGINFOD_CACHE_PATH"),
            dir("XDG_CACHE_HOME").map(|d| d.join("debuginfod_client")),
            dir("HOME").map(|d| d.join(".cache/debuginfod_client")),
        ];
        Self {
            debuginfod_caches: caches.into_iter().flatten().collect(),
            ..Self::default()
        }
    }
}

/// What resolving did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames with a name.
    pub frames_known: usize,
    /// Frames with a reason instead.
    pub frames_unknown: usize,
    /// Objects whose variable was found.
    pub objects_named: usize,
    /// DWARF read, after decompression. Bytes.
    pub debug_bytes: u64,
}
