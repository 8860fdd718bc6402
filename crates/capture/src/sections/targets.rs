//! Which sections are traced: the file `targets` of a session.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use convoy_abi as abi;
use convoy_profile::SectionSampling;
use zerocopy::{FromBytes, IntoBytes};

use crate::session;

/// A section begins where a call of a blocking acquire returns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// GNU build-id of the module; empty = it has none, and the path decides.
    pub build_id: Vec<u8>,
    /// Path of the module.
    pub path: String,
    /// Of the return address, in the module's own numbering.
    pub offset: u64,
}

/// Which critical sections are looked into, and how much that may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnose {
    /// Acquire sites; `None` = all of them.
    pub sites: Option<Vec<Site>>,
    /// Every section of them: no sampling, no budget.
    pub every: bool,
    /// Sections of a site that its first thread traces before sampling begins; the n-th thread there has an n-th of it.
    pub first: u32,
    /// Time that tracing may add, of the time that passes, in millionths.
    pub budget_ppm: u32,
    /// The values that sections load as well: what it takes to execute them again.
    pub values: bool,
}

impl Default for Diagnose {
    fn default() -> Self {
        Self {
            sites: None,
            every: false,
            first: 64,
            budget_ppm: 500_000,
            values: false,
        }
    }
}

impl Diagnose {
    /// For the profile.
    pub(super) fn sampling(&self) -> SectionSampling {
        SectionSampling {
            all_sites: self.sites.is_none(),
            every: self.every,
            first: self.first,
            budget_ppm: self.budget_ppm,
        }
    }
}

/// The bytes of the file.
pub(crate) fn file(what: &Diagnose) -> Vec<u8> {
    let mut list: Vec<abi::Target> = what.sites.iter().flatten().map(target).collect();
    list.sort_by(|a, b| {
        (a.build_id, a.path_hash, a.offset).cmp(&(b.build_id, b.path_hash, b.offset))
    });
    list.dedup();
    let mut flags = 0;
    if what.sites.is_none() {
        flags |= abi::CV_TARGETS_ALL;
    }
    if what.every {
        flags |= abi::CV_TARGETS_EVERY;
    }
    if what.values {
        flags |= abi::CV_TARGETS_VALUES;
    }
    let head = abi::Targets {
        magic: abi::CV_TARGETS_MAGIC,
        version: abi::CV_TRACE_VERSION,
        flags,
        count: list.len() as u32,
        first: what.first,
        budget_ppm: what.budget_ppm,
        max_words: abi::CV_TRACE_WORDS_MAX as u32,
        ..abi::Targets::default()
    };
    let mut bytes = head.as_bytes().to_vec();
    bytes.extend_from_slice(list.as_bytes());
    bytes
}

/// How sections were chosen, from the file in a session; `None` if it has none. The list is not read back.
pub(super) fn read(dir: &Path) -> Option<Diagnose> {
    let mut bytes = [0; size_of::<abi::Targets>()];
    File::open(dir.join(session::TARGETS))
        .and_then(|mut file| file.read_exact(&mut bytes))
        .ok()?;
    let head = abi::Targets::read_from_bytes(&bytes).ok()?;
    let is_ours = head.magic == abi::CV_TARGETS_MAGIC && head.version == abi::CV_TRACE_VERSION;
    let has = |flag| head.flags & flag != 0;
    is_ours.then(|| Diagnose {
        sites: (!has(abi::CV_TARGETS_ALL)).then(Vec::new),
        every: has(abi::CV_TARGETS_EVERY),
        first: head.first,
        budget_ppm: head.budget_ppm,
        values: has(abi::CV_TARGETS_VALUES),
    })
}

fn target(site: &Site) -> abi::Target {
    let mut target = abi::Target {
        offset: site.offset,
        ..abi::Target::default()
    };
    let length = site.build_id.len().min(target.build_id.len());
    target.build_id[..length].copy_from_slice(&site.build_id[..length]);
    target.build_id_bytes = length as u32;
    if length == 0 {
        target.path_hash = fnv1a(site.path.as_bytes());
    }
    target
}

/// FNV-1a, 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(build_id: &[u8], path: &str, offset: u64) -> Site {
        Site {
            build_id: build_id.to_vec(),
            path: path.into(),
            offset,
        }
    }

    #[test]
    fn list_is_in_the_agent_s_order_and_without_repetitions() {
        let sites = vec![
            site(&[9; 32], "/b", 5),
            site(&[], "/a", 7),
            site(&[9; 32], "/b", 4),
            site(&[9; 32], "/elsewhere", 5),
        ];
        let bytes = file(&Diagnose {
            sites: Some(sites),
            ..Diagnose::default()
        });
        let (head, list) = abi::Targets::read_from_prefix(&bytes).unwrap();
        assert_eq!((head.count, head.flags), (3, 0));
        let list: Vec<abi::Target> = list
            .chunks_exact(40)
            .map(|t| abi::Target::read_from_bytes(t).unwrap())
            .collect();
        assert_eq!(list[0].path_hash, fnv1a(b"/a"));
        assert_eq!(list[0].offset, 7);
        assert_eq!((list[1].offset, list[2].offset), (4, 5));
        assert_eq!((list[1].build_id_bytes, list[1].path_hash), (20, 0));
    }

    #[test]
    fn how_sections_were_chosen_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), None);
        let what = Diagnose {
            sites: Some(Vec::new()),
            every: true,
            first: 7,
            budget_ppm: 8,
            values: true,
        };
        let path = dir.path().join(session::TARGETS);
        std::fs::write(&path, file(&what)).unwrap();
        assert_eq!(read(dir.path()), Some(what));
        std::fs::write(&path, [0; 64]).unwrap();
        assert_eq!(read(dir.path()), None);
    }

    #[test]
    fn no_list_means_all() {
        let bytes = file(&Diagnose {
            every: true,
            ..Diagnose::default()
        });
        let (head, list) = abi::Targets::read_from_prefix(&bytes).unwrap();
        assert_eq!(head.flags, abi::CV_TARGETS_ALL | abi::CV_TARGETS_EVERY);
        assert!(list.is_empty());
    }
}
