//! One object per address: the records of one address are joined.

use std::collections::BTreeMap;

use convoy_profile::{ObjectIx, ObjectKind, Process, StackIx};

use crate::{Object, ObjectId, ProcessId};

/// The objects of one process in the model.
pub(super) struct Objects {
    process: ProcessId,
    ids: Vec<ObjectId>,
    /// Of each object of this process, from `first` on: the record that names it best.
    records: Vec<Option<ObjectIx>>,
    first: u32,
    unknown: BTreeMap<ObjectKind, ObjectId>,
}

impl Objects {
    /// Adds the process's objects to `objects`, in order of their addresses.
    pub(super) fn add(process: &Process, id: ProcessId, objects: &mut Vec<Object>) -> Self {
        let mut by_addr: BTreeMap<u64, Vec<ObjectIx>> = BTreeMap::new();
        for (ix, object) in process.objects.iter().enumerate() {
            by_addr.entry(object.addr).or_default().push(ix as ObjectIx);
        }
        let mut this = Self {
            process: id,
            ids: vec![ObjectId(0); process.objects.len()],
            records: Vec::with_capacity(by_addr.len()),
            first: objects.len() as u32,
            unknown: BTreeMap::new(),
        };
        for (addr, records) in by_addr {
            let object_id = ObjectId(objects.len() as u32);
            for &ix in &records {
                this.ids[ix as usize] = object_id;
            }
            let lives = |ix: ObjectIx| process.objects[ix as usize].lives;
            let kinds = kinds(process, &records);
            objects.push(Object {
                process: id,
                addr,
                several_kinds: are_several(&kinds),
                kind: main_kind(kinds),
                lives: records
                    .iter()
                    .fold(0u32, |sum, &ix| sum.saturating_add(lives(ix))),
                tokens: first_tokens(process, &records),
                ..Object::default()
            });
            this.records.push(best_record(process, &records));
        }
        this
    }

    /// The object of a record.
    pub(super) fn id(&self, ix: ObjectIx) -> Option<ObjectId> {
        self.ids.get(ix as usize).copied()
    }

    /// Objects by index of their records.
    pub(super) fn into_ids(self) -> Vec<ObjectId> {
        self.ids
    }

    /// The record that says most of an object; `None` for one that stands for unknown ones.
    pub(super) fn record(&self, id: ObjectId) -> Option<ObjectIx> {
        self.records
            .get(id.0.checked_sub(self.first)? as usize)
            .copied()
            .flatten()
    }

    /// The stack that initialised most of the object's lives; 0 = unknown.
    pub(super) fn init_stack(&self, id: ObjectId, process: &Process) -> StackIx {
        self.record(id)
            .map_or(0, |ix| process.objects[ix as usize].init_stack)
    }

    /// The first of this process's objects.
    pub(super) fn first(&self) -> ObjectId {
        ObjectId(self.first)
    }

    /// The ids of this process's objects.
    pub(super) fn range(&self) -> impl Iterator<Item = ObjectId> {
        (self.first..self.first + self.records.len() as u32).map(ObjectId)
    }

    /// The object that stands for all those of a kind that could not be told: address 0.
    pub(super) fn unknown(&mut self, kind: ObjectKind, objects: &mut Vec<Object>) -> ObjectId {
        *self.unknown.entry(kind).or_insert_with(|| {
            objects.push(Object {
                process: self.process,
                kind,
                ..Object::default()
            });
            self.records.push(None);
            ObjectId(objects.len() as u32 - 1)
        })
    }
}

/// What all initialisations of a semaphore began with; `None` for anything else, or if none was seen.
fn first_tokens(process: &Process, records: &[ObjectIx]) -> Option<u32> {
    let records = records.iter().map(|&ix| &process.objects[ix as usize]);
    let mut began = records.filter(|record| record.kind == ObjectKind::Sem && record.lives > 0);
    let first = began.next()?.attr;
    began.all(|record| record.attr == first).then_some(first)
}

/// The known kinds of an address's objects, and how many lives each had.
fn kinds(process: &Process, records: &[ObjectIx]) -> BTreeMap<ObjectKind, u64> {
    let mut kinds: BTreeMap<ObjectKind, u64> = BTreeMap::new();
    for &ix in records {
        let object = &process.objects[ix as usize];
        if object.kind != ObjectKind::Unknown {
            // A static object has no initialisation, but it has lived.
            *kinds.entry(object.kind).or_default() += u64::from(object.lives.max(1));
        }
    }
    kinds
}

/// The kind of most lives; a known one rather than an unknown one.
fn main_kind(kinds: BTreeMap<ObjectKind, u64>) -> ObjectKind {
    // `rev`: of equals, `max_by_key` takes the last one, and the order is to be that of the enum.
    kinds
        .into_iter()
        .rev()
        .max_by_key(|&(_, lives)| lives)
        .map_or(ObjectKind::Unknown, |(k, _)| k)
}

/// Whether memory was freed and became something else. Any object may be made of a futex, and no thread is where its handle points to.
fn are_several(kinds: &BTreeMap<ObjectKind, u64>) -> bool {
    let own = |kind: &&ObjectKind| !matches!(kind, ObjectKind::Futex | ObjectKind::Thread);
    kinds.keys().filter(own).count() > 1
}

fn best_record(process: &Process, records: &[ObjectIx]) -> Option<ObjectIx> {
    let key = |ix: ObjectIx| {
        let object = &process.objects[ix as usize];
        (
            object.init_stack != 0,
            object.lives,
            object.symbol.is_some(),
        )
    };
    records.iter().rev().copied().max_by_key(|&ix| key(ix))
}
