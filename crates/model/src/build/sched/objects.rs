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
        use ObjectKind::{Futex, Thread, Unknown};
        let mut before = self.ids.range((process, 0)..=(process, word)).rev();
        let (_, &id) = before.next()?;
        let object = model.objects.get(id.0 as usize)?;
        // A thread's handle points to much that is not its own, and anything may be made of a futex.
        let own = |object: &Object| !matches!(object.kind, Futex | Thread | Unknown);
        let reaches = |object: &Object| word - object.addr < kinds::extent(object.kind);
        let near = before.take_while(|((_, addr), _)| word - addr < kinds::WIDEST);
        let mut others = near.filter_map(|(_, id)| model.objects.get(id.0 as usize));
        let overlap = own(object) && others.any(|other| own(other) && reaches(other));
        (!object.several_kinds && !overlap && reaches(object)).then_some(id)
    }
}
