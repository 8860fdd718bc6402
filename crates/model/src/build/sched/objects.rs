//! Which object a futex word is part of.

use std::collections::BTreeMap;

use crate::{kinds, Model, ObjectId, ProcessId};

/// Objects by process and address.
pub(super) struct ByAddress {
    ids: BTreeMap<(ProcessId, u64), ObjectId>,
}

impl ByAddress {
    pub(super) fn of(model: &Model) -> Self {
        let known = model
            .objects
            .iter()
            .enumerate()
            .filter(|(_, o)| o.addr != 0);
        Self {
            ids: known
                .map(|(ix, o)| ((o.process, o.addr), ObjectId(ix as u32)))
                .collect(),
        }
    }

    /// The last object that begins at or before the word, if it reaches as far. A mutex has its word at its
    /// begin; a condition variable has several. Nothing where the memory was objects of several kinds in turn: a lock that was freed
    /// would be waited for at the condition that is there now.
    pub(super) fn holds(&self, model: &Model, process: ProcessId, word: u64) -> Option<ObjectId> {
        let first = (process, 0);
        let (&(_, addr), &id) = self.ids.range(first..=(process, word)).next_back()?;
        let object = model.objects.get(id.0 as usize)?;
        (!object.several_kinds && word - addr < kinds::extent(object.kind)).then_some(id)
    }
}
