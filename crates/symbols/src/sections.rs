//! Words of memory that sections touched to the variables that hold them.

use convoy_profile::{Memory, Object, ObjectKind, Process, Sections};

use crate::{resolve, Options};

/// Names the words that are data of a module. `processes`: of the same profile.
pub fn resolve_words(processes: &[Process], sections: &mut Sections, options: &Options) {
    for (ix, process) in processes.iter().enumerate() {
        let of_process = |word: &&mut convoy_profile::SectionWord| word.process as usize == ix;
        let mut words: Vec<_> = sections.words.iter_mut().filter(of_process).collect();
        words.retain(|word| {
            let holds = |m: &convoy_profile::Module| (m.lo..m.hi).contains(&word.address);
            process.modules.iter().any(holds)
        });
        if words.is_empty() {
            continue;
        }
        // They are named as objects are; nothing else of the process is looked at again.
        let object = |address: u64| Object {
            addr: address,
            kind: ObjectKind::Futex,
            memory: Memory::Unknown,
            ..Object::default()
        };
        let mut named = Process {
            pid: process.pid,
            modules: process.modules.clone(),
            objects: words.iter().map(|word| object(word.address)).collect(),
            ..Process::default()
        };
        resolve(&mut named, options);
        for (word, object) in words.iter_mut().zip(named.objects) {
            word.symbol = object.symbol;
        }
    }
}
