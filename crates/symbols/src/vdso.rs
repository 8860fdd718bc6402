//! The code that the kernel maps into every process: it has no file, but ours is the same as theirs.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The image of this process's vdso.
pub(crate) fn image() -> std::io::Result<Vec<u8>> {
    let missing = || std::io::Error::other("this kernel maps no vdso");
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let (lo, hi) = maps
        .lines()
        .find(|line| line.ends_with("[vdso]"))
        .and_then(range)
        .ok_or_else(missing)?;
    let mut bytes = vec![0; usize::try_from(hi - lo).map_err(|_| missing())?];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, lo)?;
    Ok(bytes)
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (lo, hi) = line.split_whitespace().next()?.split_once('-')?;
    let (lo, hi) = (
        u64::from_str_radix(lo, 16).ok()?,
        u64::from_str_radix(hi, 16).ok()?,
    );
    (lo < hi).then_some((lo, hi))
}
