//! A second run of the same command inside a profile: a whole profile, cut into parts.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::section::{encode, Tag};
use crate::Profile;

pub(crate) const SECOND_RUN: Tag = *b"RUN2";

/// A part has a section of its own.
const PART_BYTES: usize = 16 << 20;

pub(crate) fn write(out: &mut impl Write, second: &Profile) -> io::Result<()> {
    let bytes = second.to_bytes()?;
    for (number, part) in (0u32..).zip(bytes.chunks(PART_BYTES)) {
        out.write_all(&encode(SECOND_RUN, number, part)?)?;
    }
    Ok(())
}

/// What has been read of it, by number.
#[derive(Debug, Default)]
pub(crate) struct Found {
    parts: BTreeMap<u32, Vec<u8>>,
}

impl Found {
    pub(crate) fn take(&mut self, number: u32, part: Vec<u8>) {
        self.parts.insert(number, part);
    }

    /// The bytes of the profile; empty = there is none. A part that was lost leaves a gap, as in a
    /// damaged file.
    pub(crate) fn bytes(self) -> Vec<u8> {
        self.parts.into_values().flatten().collect()
    }
}
