//! Generated code: `perf-<pid>.map`, which just-in-time compilers write for profilers.
//!
//! One function a line: `START SIZE name`, numbers in hex without prefix, the name to the end of
//! the line. Later lines replace earlier ones (linux: tools/perf/Documentation/jit-interface.txt).

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use convoy_profile::{Location, Process, Reason, Symbol};

use crate::demangle::clean;
use crate::Options;

/// Names the frames that are in no module.
pub(crate) fn resolve(process: &mut Process, options: &Options) {
    let mut frames: Vec<(u64, usize)> = process
        .frames
        .iter()
        .enumerate()
        .filter(|(_, f)| f.module.is_none_or(|m| m as usize >= process.modules.len()))
        .map(|(ix, f)| (f.pc.wrapping_sub(u64::from(!f.exact)), ix))
        .collect();
    for &(_, ix) in &frames {
        process.frames[ix].symbol = Symbol::Unknown(Reason::NoModule);
    }
    if frames.is_empty() {
        return;
    }
    let map = match &options.jit_map {
        Some(given) => File::open(given).ok(),
        None => open(
            &options
                .jit_map_dir
                .join(format!("perf-{}.map", process.pid)),
        ),
    };
    let Some(map) = map else {
        return;
    };
    frames.sort_unstable();
    let mut lines = BufReader::new(map);
    let mut line = Vec::new();
    while matches!(lines.read_until(b'\n', &mut line), Ok(n) if n > 0) {
        if let Some((start, end, name)) = entry(&line) {
            let first = frames.partition_point(|&(address, _)| address < start);
            for &(_, ix) in frames[first..]
                .iter()
                .take_while(|&&(address, _)| address < end)
            {
                let function = name.clone();
                process.frames[ix].symbol = Symbol::Known(vec![Location {
                    function,
                    file: None,
                    line: None,
                }]);
            }
        }
        line.clear();
    }
}

/// Opens the map if it can be trusted: it lies where everybody may write, so it must be a regular file
/// of this user or of root.
fn open(path: &Path) -> Option<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    let meta = file.metadata().ok()?;
    let me = std::fs::metadata("/proc/self").ok()?.uid();
    (meta.is_file() && [me, 0].contains(&meta.uid())).then_some(file)
}

fn entry(line: &[u8]) -> Option<(u64, u64, String)> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
    let (start, size) = (hex(start)?, hex(size)?);
    (!name.is_empty()).then(|| (start, start.saturating_add(size), clean(name.as_bytes())))
}
