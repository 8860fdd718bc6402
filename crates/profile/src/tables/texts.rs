//! Texts that repeat: a chunk has each of them once, and its rows name it by number.

use std::collections::HashMap;

use crate::bytes::{In, Malformed, Out};
use crate::section::SECTION_BYTES;

/// Distinct texts in order of their first use.
#[derive(Default)]
pub(super) struct Texts<'a> {
    list: Vec<&'a str>,
    ids: HashMap<&'a str, u64>,
}

impl<'a> Texts<'a> {
    pub(super) fn id(&mut self, text: &'a str) -> u64 {
        let next = self.list.len() as u64;
        *self.ids.entry(text).or_insert_with(|| {
            self.list.push(text);
            next
        })
    }

    /// Writes how many there are, then the texts.
    pub(super) fn pack(self, out: &mut Out) {
        out.number(self.list.len() as u64);
        out.texts(self.list);
    }
}

/// The texts of a chunk as read.
pub(super) struct Dictionary {
    texts: Vec<String>,
    /// Bytes that may yet be handed out: few bytes in the file can name one long text many times.
    room: usize,
}

impl Dictionary {
    pub(super) fn unpack(input: &mut In<'_>) -> Result<Self, Malformed> {
        let n = input.number()?;
        if n > input.left() as u64 {
            return Err(Malformed::Short);
        }
        Ok(Self {
            texts: input.texts(n as usize)?,
            room: SECTION_BYTES,
        })
    }

    /// A copy of a text.
    pub(super) fn text(&mut self, id: u32) -> Result<String, Malformed> {
        let text = self.texts.get(id as usize).ok_or(Malformed::Number)?;
        let bytes = size_of::<String>() + text.len();
        self.room = self.room.checked_sub(bytes).ok_or(Malformed::Rows)?;
        Ok(text.clone())
    }
}
