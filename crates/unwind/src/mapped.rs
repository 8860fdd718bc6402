//! The files that a process has mapped executable, and code of no file.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;

use convoy_profile::Module;

use crate::image::Image;
use crate::maps;
use crate::open::open;

/// A mapped file.
#[derive(Debug)]
pub struct MappedFile {
    /// Where it is. Its `symbols` are not known.
    pub module: Module,
    /// The file that was mapped, whatever its path means by now; `None` if it cannot be opened.
    pub file: Option<File>,
}

/// Everything executable in a process.
#[derive(Debug, Default)]
pub struct Mapped {
    /// Files.
    pub files: Vec<MappedFile>,
    /// Code that was generated.
    pub generated: Vec<Range<u64>>,
}

/// Addresses from here on belong to the kernel.
const KERNEL: u64 = 1 << 63;

impl Mapped {
    /// Looks at a process; `None` if it is gone, or may not be looked at.
    pub fn of(pid: u32) -> Option<Self> {
        let (dir, mappings) = maps::read(pid)?;
        let mut mapped = Self::default();
        let mut known: HashMap<(u64, u64, u64), usize> = HashMap::new();
        for mapping in mappings {
            let Some(source) = mapping.source.as_ref() else {
                if mapping.lo >= KERNEL {
                    continue; // [vsyscall]
                }
                mapped.generated.push(mapping.lo..mapping.hi);
                continue;
            };
            if source.path == maps::VDSO {
                continue;
            }
            let file = open(&dir, &mapping, source).ok();
            let image = file.as_ref().and_then(Image::of_file);
            if image.is_none() && source.is_memory() {
                mapped.generated.push(mapping.lo..mapping.hi);
                continue;
            }
            let bias = image
                .as_ref()
                .and_then(|image| image.bias(mapping.lo, mapping.hi, mapping.offset));
            let bias = bias.unwrap_or(mapping.lo.wrapping_sub(mapping.offset));
            let key = (source.dev, source.inode, bias);
            if let Some(file) = known.get(&key).and_then(|ix| mapped.files.get_mut(*ix)) {
                file.module.hi = file.module.hi.max(mapping.hi);
                continue;
            }
            known.insert(key, mapped.files.len());
            let module = Module {
                path: source.path.clone(),
                build_id: image.map(|image| image.build_id).unwrap_or_default(),
                bias,
                lo: mapping.lo,
                hi: mapping.hi,
                symbols: String::new(),
            };
            mapped.files.push(MappedFile { module, file });
        }
        Some(mapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_its_own_program_mapped() {
        let mapped = Mapped::of(std::process::id()).expect("this process");
        let exe = std::env::current_exe().expect("a path");
        let own = mapped
            .files
            .iter()
            .find(|f| exe.to_str() == Some(&f.module.path))
            .expect("this program");
        let here = this_process_has_its_own_program_mapped as *const () as u64;
        assert!((own.module.lo..own.module.hi).contains(&here));
        assert!(own.file.is_some());
        assert!(Mapped::of(u32::MAX).is_none());
    }
}
