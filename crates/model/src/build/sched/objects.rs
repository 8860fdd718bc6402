//! Which object a futex word is part of.

use std::collections::BTreeMap;

use convoy_profile::ObjectKind;

use crate::{kinds, Model, Object, ObjectId, ProcessId};

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
    /// begin; a condition variable has several. Nothing where the memory was several objects in turn, at this address or at ones that
    /// overlap: a lock that was freed would be waited for at the condition that is there now.
    pub(super) fn holds(&self, model: &Model, process: ProcessId, word: u64) -> Option<ObjectId> {
        let first = (process, word.saturating_sub(kinds::LARGEST));
        let before = self.ids.range(first..=(process, word)).rev();
        let mut there = before.filter_map(|(&(_, addr), &id)| {
            let object = model.objects.get(id.0 as usize)?;
            (word - addr < kinds::extent(object.kind)).then_some((id, object))
        });
        let (id, last) = there.next()?;
        // A thread's handle points to much that is not its own, and anything may be made of a futex.
        use ObjectKind::{Futex, Thread, Unknown};
        let own = |object: &Object| !matches!(object.kind, Futex | Thread | Unknown);
        let several = own(last) && there.any(|(_, object)| own(object));
        (!last.several_kinds && !several).then_some(id)
    }
}
