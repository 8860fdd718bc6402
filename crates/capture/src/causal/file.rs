//! An experiment file: what the agent counts, and the control page that convoy writes.
//!
//! Read and written, not mapped: the program could truncate the file under a mapping and kill us
//! with SIGBUS. An aligned word is one store all the same.

use std::fs::{self, File};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use convoy_abi as abi;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::side_file::{self, SideFile};

/// An open experiment file.
#[derive(Debug)]
pub(super) struct ExperimentFile {
    file: File,
    /// The process that it belongs to.
    pub pid: u32,
}

/// Experiment files of a session.
pub(super) fn all_in(dir: &Path) -> Vec<SideFile> {
    side_file::all_in(dir, 'c')
}

impl ExperimentFile {
    /// `None` if it is none, or its agent is not ready yet.
    pub fn open(path: &Path, pid: u32) -> Option<Self> {
        let file = side_file::open(path)?;
        let file = Self { file, pid };
        file.head().filter(|_| file.is_mapped())?;
        Some(file)
    }

    /// Whether the process has it in memory. A program could put down files under the numbers of
    /// other processes, which would get signals then.
    fn is_mapped(&self) -> bool {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let inode = self.file.metadata().map_or(0, |found| found.ino());
        let mut inodes = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(4));
        inode != 0 && inodes.any(|field| field.parse() == Ok(inode))
    }

    /// The header; `None` if it is damaged, or that of another process.
    pub fn head(&self) -> Option<abi::Causal> {
        let mut head = abi::Causal::default();
        self.file.read_exact_at(head.as_mut_bytes(), 0).ok()?;
        let is_known = head.magic == abi::CV_CAUSAL_MAGIC && head.version == abi::CV_CAUSAL_VERSION;
        (is_known && head.pid == self.pid).then_some(head)
    }

    /// Records of the threads so far.
    pub fn threads(&self, head: &abi::Causal) -> Vec<abi::CausalThread> {
        let used = (head.threads as usize).min(abi::CV_CAUSAL_THREADS);
        self.rows(used, abi::CV_CAUSAL_THREADS_AT)
    }

    /// Progress points that the program has named.
    pub fn points(&self, head: &abi::Causal) -> Vec<abi::CausalPoint> {
        let used = (head.points as usize).min(abi::CV_CAUSAL_POINTS);
        self.rows(used, abi::CV_CAUSAL_POINTS_AT)
    }

    /// Instruction pointers of the latest samples, oldest first, from sample `since` on.
    pub fn samples(&self, head: &abi::Causal, since: u64) -> Vec<u64> {
        let room = abi::CV_CAUSAL_SAMPLES as u64;
        let ring: Vec<u64> = self.rows(abi::CV_CAUSAL_SAMPLES, abi::CV_CAUSAL_SAMPLES_AT);
        let first = since.max(head.samples.saturating_sub(room));
        let kept = (first..head.samples).take(abi::CV_CAUSAL_SAMPLES);
        kept.filter_map(|n| ring.get((n % room) as usize).copied())
            .filter(|pc| *pc != 0)
            .collect()
    }

    fn rows<T: FromZeros + FromBytes + IntoBytes + Clone>(&self, n: usize, at: u64) -> Vec<T> {
        let mut rows = vec![T::new_zeroed(); n];
        match self
            .file
            .read_exact_at(rows.as_mut_slice().as_mut_bytes(), at)
        {
            Ok(()) => rows,
            Err(_) => Vec::new(),
        }
    }

    /// Puts down the addresses of the targets; before the first window.
    pub fn write_ranges(&self, ranges: &[abi::CausalRange]) -> std::io::Result<()> {
        self.file
            .write_all_at(ranges.as_bytes(), abi::CV_CAUSAL_RANGES_AT)
    }

    /// Puts down of which targets the thread of a record is.
    pub fn write_groups(&self, record: usize, targets: u64) -> std::io::Result<()> {
        let row = record * size_of::<abi::CausalThread>() + offset_of!(abi::CausalThread, groups);
        self.file.write_all_at(
            &targets.to_ne_bytes(),
            abi::CV_CAUSAL_THREADS_AT + row as u64,
        )
    }

    /// Opens a window: its number comes last, so that no thread acts on half of it.
    pub fn write_control(&self, control: &abi::CausalControl) -> std::io::Result<()> {
        self.write_window(0)?;
        let closed = abi::CausalControl {
            window: 0,
            ..*control
        };
        self.file
            .write_all_at(closed.as_bytes(), abi::CV_CAUSAL_CONTROL_AT)?;
        self.write_window(control.window)
    }

    fn write_window(&self, window: u32) -> std::io::Result<()> {
        let at = abi::CV_CAUSAL_CONTROL_AT + offset_of!(abi::CausalControl, window) as u64;
        self.file.write_all_at(&window.to_ne_bytes(), at)
    }
}
