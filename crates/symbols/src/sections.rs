//! Words of memory that sections or samples touched to the variables that hold them.

use convoy_profile::{Memory, Object, ObjectKind, Process, Sections, SharedLines};

use crate::{resolve, Options};

/// A word of memory that may have a name.
struct Word<'a> {
    process: u32,
    address: u64,
    symbol: &'a mut Option<String>,
}

/// Names the words that are data of a module. `processes`: of the same profile.
pub fn resolve_words(processes: &[Process], sections: &mut Sections, options: &Options) {
    let words = sections.words.iter_mut().map(|word| Word {
        process: word.process,
        address: word.address,
        symbol: &mut word.symbol,
    });
    name(processes, words.collect(), options);
}

/// The same for cache lines.
pub fn resolve_lines(processes: &[Process], lines: &mut SharedLines, options: &Options) {
    let words = lines.lines.iter_mut().map(|line| Word {
        process: line.process,
        address: line.address,
        symbol: &mut line.symbol,
    });
    name(processes, words.collect(), options);
}

fn name(processes: &[Process], mut words: Vec<Word>, options: &Options) {
    for (ix, process) in processes.iter().enumerate() {
        let holds = |word: &&mut Word| {
            let holds = |m: &convoy_profile::Module| (m.lo..m.hi).contains(&word.address);
            word.process as usize == ix && process.modules.iter().any(holds)
        };
        let mut words: Vec<_> = words.iter_mut().filter(holds).collect();
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
            *word.symbol = object.symbol;
        }
    }
}
