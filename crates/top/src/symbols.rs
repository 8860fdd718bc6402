//! Names of addresses, looked up once: a program is read every second, and its files are large.

use std::time::{Duration, UNIX_EPOCH};

use convoy_profile::{
    Frame, Memory, Module, ModuleIx, Object, ObjectKind, Process, Profile, Symbol,
};
use convoy_symbols::Options;
use rustc_hash::FxHashMap;

/// What is known of one image of a process.
#[derive(Debug, Default)]
struct Known {
    /// By address in the module (or at run time, for code of no module), and whether it is exact.
    frames: FxHashMap<(Option<ModuleKey>, u64, bool), Symbol>,
    /// Objects that were looked up, with what holds those that are variables.
    objects: FxHashMap<(u64, ObjectKind), Option<Variable>>,
}

/// The module that an object is in, and its name there.
#[derive(Debug, Clone)]
struct Variable {
    module: Option<ModuleIx>,
    symbol: Option<String>,
}

/// Path, lowest address.
type ModuleKey = (String, u64);

/// Names of all processes of a recording.
#[derive(Debug, Default)]
pub struct Names {
    /// By pid and start.
    processes: FxHashMap<(u32, u64), Known>,
}

impl Names {
    /// Names everything in a profile; whether anything had to be looked up.
    pub fn resolve(&mut self, profile: &mut Profile) -> bool {
        let options = Options {
            started: UNIX_EPOCH.checked_add(Duration::from_nanos(profile.meta.started_unix_ns)),
            ..Options::from_env()
        };
        let mut looked_up = false;
        let alive: Vec<(u32, u64)> = profile.processes.iter().map(key).collect();
        self.processes.retain(|key, _| alive.contains(key));
        for process in &mut profile.processes {
            let known = self.processes.entry(key(process)).or_default();
            looked_up |= known.learn(process, &options);
            known.tell(process);
        }
        looked_up
    }
}

fn key(process: &Process) -> (u32, u64) {
    (process.pid, process.start_ns)
}

impl Known {
    /// Looks up what is new: a process of nothing but that is resolved.
    fn learn(&mut self, process: &Process, options: &Options) -> bool {
        let frames: Vec<Frame> = process
            .frames
            .iter()
            .filter(|frame| !self.frames.contains_key(&frame_key(process, frame)))
            .cloned()
            .collect();
        let objects: Vec<Object> = process
            .objects
            .iter()
            .filter(|object| !self.objects.contains_key(&(object.addr, object.kind)))
            .cloned()
            .collect();
        if frames.is_empty() && objects.is_empty() {
            return false;
        }
        let mut new = Process {
            pid: process.pid,
            start_ns: process.start_ns,
            modules: process.modules.clone(),
            frames,
            objects,
            ..Process::default()
        };
        convoy_symbols::resolve(&mut new, options);
        let frames = std::mem::take(&mut new.frames);
        for frame in frames {
            let key = frame_key(&new, &frame);
            self.frames.insert(key, frame.symbol);
        }
        for object in new.objects {
            let variable = (object.memory == Memory::Static).then(|| Variable {
                module: object.module,
                symbol: object.symbol.clone(),
            });
            self.objects.insert((object.addr, object.kind), variable);
        }
        true
    }

    /// Writes down what is known.
    fn tell(&self, process: &mut Process) {
        let mut frames = std::mem::take(&mut process.frames);
        for frame in &mut frames {
            if let Some(symbol) = self.frames.get(&frame_key(process, frame)) {
                frame.symbol.clone_from(symbol);
            }
        }
        process.frames = frames;
        for object in &mut process.objects {
            if let Some(Some(variable)) = self.objects.get(&(object.addr, object.kind)) {
                object.symbol.clone_from(&variable.symbol);
                object.module = variable.module;
                object.memory = Memory::Static;
            }
        }
    }
}

fn frame_key(process: &Process, frame: &Frame) -> (Option<ModuleKey>, u64, bool) {
    let module = frame
        .module
        .and_then(|ix| process.modules.get(ix as usize))
        .map(|module: &Module| (module.path.clone(), module.lo));
    let address = if module.is_some() {
        frame.offset
    } else {
        frame.pc
    };
    (module, address, frame.exact)
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_profile::{Location, Reason};
    use convoy_testkit::ProfileBuilder;

    fn profile() -> Profile {
        let mut p = ProfileBuilder::new("server");
        p.mutex("cache_lock");
        p.unknown_frame(Some(0), Reason::NotResolved);
        p.unknown_frame(None, Reason::NotResolved);
        p.build()
    }

    #[test]
    fn what_was_looked_up_once_is_not_looked_up_again() {
        let mut names = Names::default();
        let mut first = profile();
        assert!(names.resolve(&mut first));
        assert_eq!(
            first.processes[0].frames[1].symbol,
            Symbol::Unknown(Reason::NoModule)
        );
        // As if the file had a name for it.
        let name = Symbol::Known(vec![Location {
            function: "work".into(),
            ..Location::default()
        }]);
        for symbol in names
            .processes
            .values_mut()
            .flat_map(|k| k.frames.values_mut())
        {
            symbol.clone_from(&name);
        }
        let mut second = profile();
        assert!(!names.resolve(&mut second));
        assert!(second.processes[0].frames.iter().all(|f| f.symbol == name));

        let mut more = profile();
        let frame = Frame {
            pc: 0x77,
            ..more.processes[0].frames[1].clone()
        };
        more.processes[0].frames.push(frame);
        assert!(names.resolve(&mut more), "a new address");
        assert_eq!(more.processes[0].frames[0].symbol, name);
    }

    #[test]
    fn another_image_of_a_process_has_other_names() {
        let mut names = Names::default();
        names.resolve(&mut profile());
        let mut other = profile();
        other.processes[0].start_ns += 1;
        assert!(names.resolve(&mut other));
        assert_eq!(names.processes.len(), 1, "the earlier one is forgotten");
    }
}
