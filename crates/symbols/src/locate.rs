//! Where a module's symbols are: the file itself, and the separate debug file that distributions put elsewhere.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use convoy_profile::{Module, Reason};

use crate::elf::{Image, OpenError, Store};
use crate::{vdso, Options};

/// Path of the module that has no file.
const VDSO: &str = "[vdso]";

/// An image and the file that it was read from.
pub(crate) struct Found<'a> {
    pub(crate) image: Image<'a>,
    pub(crate) path: PathBuf,
}

/// The files of one module that are known to belong to the build that ran.
pub(crate) struct Files<'a> {
    /// The module itself, or why it cannot be used.
    pub(crate) own: Result<Found<'a>, (Reason, String)>,
    /// Its separate debug file.
    pub(crate) debug: Option<Found<'a>>,
}

/// Opens the files of `module`.
pub(crate) fn files<'a>(store: &'a Store, module: &Module, options: &Options) -> Files<'a> {
    let own = own(store, module, options);
    let separate = match &own {
        Ok(found) => !found.image.has_dwarf(),
        Err(_) => true,
    };
    let debug = separate
        .then(|| debug(store, module, own.as_ref().ok(), options))
        .flatten();
    Files { own, debug }
}

/// Size of the module's file, 0 where there is none. Bytes.
pub(crate) fn file_bytes(module: &Module, options: &Options) -> u64 {
    let path = options.file(module).unwrap_or(plain_path(module));
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

/// The path without the kernel's remark that the file was unlinked.
pub(crate) fn plain_path(module: &Module) -> &Path {
    Path::new(
        module
            .path
            .strip_suffix(" (deleted)")
            .unwrap_or(&module.path),
    )
}

/// Opens the module itself, without what belongs to it.
pub(crate) fn own<'a>(
    store: &'a Store,
    module: &Module,
    options: &Options,
) -> Result<Found<'a>, (Reason, String)> {
    let path = plain_path(module);
    let given = options.file(module);
    let opened = if module.path == VDSO {
        vdso::image()
            .map_err(OpenError::Io)
            .and_then(|bytes| store.parse(bytes))
    } else {
        store.open(given.unwrap_or(path))
    };
    let image = opened.map_err(|e| {
        let reason = match e {
            OpenError::Io(_) => Reason::ModuleUnreadable,
            OpenError::Elf(_) => Reason::BadSymbols,
        };
        (reason, e.to_string())
    })?;
    let changed = |why: &str| Err((Reason::ModuleChanged, why.to_owned()));
    let recorded = Some(&module.build_id).filter(|id| !id.is_empty());
    match recorded.and_then(|id| Some(image.build_id()? == id)) {
        Some(false) => {
            return changed("the file is another build than the one that ran (build-ids differ)")
        }
        None if module.path != VDSO && given.is_none() && younger(path, options.started) => {
            return changed("the file changed after the program had started, and has no build-id");
        }
        _ => {}
    }
    Ok(Found {
        image,
        path: path.to_owned(),
    })
}

/// Whether the file was written or put in place after `started`.
fn younger(path: &Path, started: Option<SystemTime>) -> bool {
    let (Some(started), Ok(meta)) = (started, std::fs::metadata(path)) else {
        return false;
    };
    let changed = u64::try_from(meta.ctime()).ok().and_then(|s| {
        let since = Duration::new(s, u32::try_from(meta.ctime_nsec()).ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since)
    });
    changed.is_some_and(|changed| changed > started)
}

fn debug<'a>(
    store: &'a Store,
    module: &Module,
    own: Option<&Found<'a>>,
    options: &Options,
) -> Option<Found<'a>> {
    let id = match own.and_then(|own| own.image.build_id()) {
        Some(id) => id,
        None => module.build_id.as_slice(),
    };
    let link = own.and_then(|own| Some((own, own.image.debug_link()?)));
    let by_link = link.iter().flat_map(|(own, (name, crc))| {
        link_candidates(&own.path, OsStr::from_bytes(name), options).map(|path| (path, Some(*crc)))
    });
    // What the build-id names comes first: it needs no checksum over the whole file.
    by_id(&options.debug_roots, id)
        .map(|path| (path, None))
        .chain(by_link)
        .chain(by_cache(&options.debuginfod_caches, id).map(|path| (path, None)))
        .find_map(|(path, crc)| {
            let image = store.open(&path).ok()?;
            let same = match (image.build_id(), crc) {
                (Some(found), _) if !id.is_empty() => found == id,
                (_, Some(crc)) => checksum(&path) == Some(crc),
                _ => false,
            };
            let useful = image.has_dwarf() || image.symtab().is_some();
            (same && useful).then_some(Found { image, path })
        })
}

/// `<root>/.build-id/xx/yyyy.debug`
fn by_id<'o>(roots: &'o [PathBuf], id: &[u8]) -> impl Iterator<Item = PathBuf> + 'o {
    let hex = hex(id);
    let file = (id.len() > 1).then(|| format!(".build-id/{}/{}.debug", &hex[..2], &hex[2..]));
    roots
        .iter()
        .filter_map(move |root| Some(root.join(file.as_ref()?)))
}

/// `<cache>/<build-id>/debuginfo`
fn by_cache<'o>(caches: &'o [PathBuf], id: &[u8]) -> impl Iterator<Item = PathBuf> + 'o {
    let dir = Some(hex(id)).filter(|hex| !hex.is_empty());
    caches
        .iter()
        .filter_map(move |cache| Some(cache.join(dir.as_ref()?).join("debuginfo")))
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|b| format!("{b:02x}")).collect()
}

/// Beside the module, in `.debug/`, and in the mirror of its directory below each root; with the
/// directory as given and with links resolved, because `/lib` is a link nowadays.
fn link_candidates<'o>(
    module: &Path,
    name: &OsStr,
    options: &'o Options,
) -> impl Iterator<Item = PathBuf> + 'o {
    let name = name.to_owned();
    let real = std::fs::canonicalize(module).ok();
    let dirs: Vec<PathBuf> = [Some(module.to_owned()), real]
        .into_iter()
        .flatten()
        .filter_map(|path| Some(path.parent()?.to_owned()))
        .collect();
    dirs.into_iter().flat_map(move |dir| {
        let below = dir.strip_prefix("/").unwrap_or(&dir).to_owned();
        let mirrors = options
            .debug_roots
            .iter()
            .map(move |root| root.join(&below));
        let name = name.clone();
        [dir.clone(), dir.join(".debug")]
            .into_iter()
            .chain(mirrors)
            .map(move |dir| dir.join(&name))
    })
}

/// CRC-32 of the whole file, as `.gnu_debuglink` has it.
fn checksum(path: &Path) -> Option<u32> {
    let mut file = File::open(path).ok()?;
    let mut crc = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(crc.finalize()),
            n => crc.update(&buffer[..n]),
        }
    }
}

/// The file that `debug` shares strings and types with, by its name or its build-id.
pub(crate) fn alt_file<'a>(
    store: &'a Store,
    debug: &Found<'a>,
    options: &Options,
) -> Option<Image<'a>> {
    let (name, id) = debug.image.debug_alt_link()?;
    let name = Path::new(OsStr::from_bytes(name));
    let beside = std::fs::canonicalize(&debug.path)
        .ok()
        .and_then(|path| Some(path.parent()?.join(name)));
    beside
        .into_iter()
        .chain(by_id(&options.debug_roots, id))
        .find_map(|path| {
            store
                .open(&path)
                .ok()
                .filter(|image| image.build_id() == Some(id))
        })
}
