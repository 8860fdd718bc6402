//! The programs that the recorded processes run: their names, their code and their threads' names.

use std::collections::{HashMap, HashSet};
use std::fs;

use convoy_profile::StackIx;
use convoy_sched::Map;
use convoy_unwind::{Files, Unwinder};

use super::code::Code;
use super::goroutines::Known;
use super::lines::Operands;
use super::listener_priority::with_normal_priority;
use super::spin_samples::Judged;
use crate::procfs;

/// One program in one process, from its exec (or fork) to its end or the next exec.
#[derive(Debug)]
pub(crate) struct Image {
    /// Among all images.
    pub number: usize,
    pub pid: u32,
    /// Who made it, of a process that was there before the recording, too; `None` if it was gone before anybody looked.
    pub ppid: Option<u32>,
    /// Path of the executable; empty if the process was gone before anybody looked.
    pub exe: String,
    pub args: Vec<String>,
    pub unwinder: Unwinder,
    /// Threads' names by tid: the last one seen.
    pub names: HashMap<u32, String>,
    /// Stacks that were judged: whether a thread waits there.
    pub loops: Map<StackIx, Judged>,
    /// Stacks at which threads went to sleep, and of which the loop around was looked for.
    pub slept: HashSet<StackIx>,
    /// Instructions that were judged.
    pub code: Code,
    /// What instructions touch.
    pub operands: Operands,
    /// What its goroutines wait for, if it has any.
    pub goroutines: Known,
    /// It is seen to listen for connections: known when it ends.
    pub listens: bool,
    /// It has had several threads.
    pub threaded: bool,
    /// Threads alive.
    pub alive: usize,
}

/// All images, in the order in which they began: the accounting numbers them in the same way.
#[derive(Debug, Default)]
pub(crate) struct Images {
    all: Vec<Image>,
    files: Files,
    /// The image that a process runs now.
    current: Map<u32, usize>,
    pid_of: Map<u32, u32>,
    /// Images that have had several threads, and are still looked at.
    threaded: Vec<usize>,
    /// Images whose names nobody has read yet.
    unnamed: Vec<usize>,
}

impl Images {
    /// A thread of process `pid` begins, or is found: the first one begins an image.
    pub fn thread(&mut self, tid: u32, pid: u32) {
        self.pid_of.insert(tid, pid);
        let ix = match self.current.get(&pid) {
            Some(&ix) => ix,
            None => self.begin(pid),
        };
        let image = &mut self.all[ix];
        image.alive += 1;
        if image.alive > 1 && !std::mem::replace(&mut image.threaded, true) {
            self.threaded.push(ix);
        }
    }

    /// The process runs another program from now on, with one thread.
    pub fn exec(&mut self, pid: u32, old_tid: u32) {
        self.pid_of.remove(&old_tid);
        self.pid_of.insert(pid, pid);
        let ix = self.begin(pid);
        self.all[ix].alive = 1;
    }

    /// The thread ends; what its process ran, if it was its last one.
    pub fn exit(&mut self, tid: u32, name: &[u8]) -> Option<&mut Image> {
        let pid = self.pid_of.remove(&tid)?;
        let ix = *self.current.get(&pid)?;
        let image = &mut self.all[ix];
        image.names.insert(tid, comm(name));
        image.alive = image.alive.saturating_sub(1);
        if image.alive > 0 {
            return None;
        }
        image.rest(); // shells start thousands of processes
        self.current.remove(&pid);
        Some(image)
    }

    /// A thread's name became known.
    pub fn name(&mut self, tid: u32, name: &[u8]) {
        if let Some(image) = self.of_thread(tid) {
            image.names.insert(tid, comm(name));
        }
    }

    /// The process of a thread.
    pub fn pid(&self, tid: u32) -> Option<u32> {
        self.pid_of.get(&tid).copied()
    }

    /// What the thread's process runs now.
    pub fn of_thread(&mut self, tid: u32) -> Option<&mut Image> {
        let pid = self.pid_of.get(&tid)?;
        let ix = self.current.get(pid)?;
        self.all.get_mut(*ix)
    }

    /// Does something with all that run now.
    pub fn each_running(&mut self, mut act: impl FnMut(&mut Image)) {
        for &ix in self.current.values() {
            act(&mut self.all[ix]);
        }
    }

    /// Does something with all that run now and have had several threads, until it says that there is nothing to be done any more.
    pub fn each_threaded(&mut self, mut act: impl FnMut(&mut Image) -> bool) {
        let (all, current) = (&mut self.all, &self.current);
        self.threaded.retain(|&ix| {
            let image = &mut all[ix];
            current.get(&image.pid) == Some(&ix) && act(image)
        });
    }

    /// Reads the names of programs that began since the last time: they may be gone soon.
    pub fn look(&mut self) {
        for ix in std::mem::take(&mut self.unnamed) {
            let image = &mut self.all[ix];
            if self.current.get(&image.pid) == Some(&ix) {
                image.read_names();
            }
        }
    }

    /// Everything, with the names of threads that are still there.
    pub fn finish(mut self) -> Vec<Image> {
        self.look();
        for (&tid, pid) in &self.pid_of {
            if let Some(&ix) = self.current.get(pid) {
                if let Ok(name) = fs::read(format!("/proc/{pid}/task/{tid}/comm")) {
                    self.all[ix].names.insert(tid, comm(&name));
                }
            }
        }
        self.all
    }

    fn begin(&mut self, pid: u32) -> usize {
        let ix = self.all.len();
        self.all.push(Image {
            number: ix,
            pid,
            ppid: None,
            exe: String::new(),
            args: Vec::new(),
            unwinder: Unwinder::new(pid, &self.files).reading(|read| with_normal_priority(read)),
            names: HashMap::new(),
            loops: Map::default(),
            slept: HashSet::new(),
            code: Code::default(),
            operands: Operands::default(),
            goroutines: Known::default(),
            listens: false,
            threaded: false,
            alive: 0,
        });
        if let Some(before) = self.current.insert(pid, ix) {
            self.all[before].unwinder.rest();
            self.all[before].goroutines.end();
        }
        self.unnamed.push(ix);
        ix
    }
}

impl Image {
    /// The process has ended: gives back what only judges samples.
    fn rest(&mut self) {
        self.unwinder.rest();
        self.loops = Map::default();
        self.slept = HashSet::new();
        self.code = Code::default();
        self.operands = Operands::default();
        self.goroutines.end();
    }

    fn read_names(&mut self) {
        let pid = self.pid;
        if let Ok(exe) = fs::read_link(format!("/proc/{pid}/exe")) {
            let exe = exe.to_string_lossy();
            self.exe = exe.trim_end_matches(" (deleted)").to_owned();
        }
        self.args = with_normal_priority(|| procfs::command_line(pid)); // lies in its memory
        self.ppid = procfs::parent(pid);
        // While it is there: it tells which files are mapped.
        self.unwinder.refresh();
    }
}

/// A name as the kernel keeps it: up to 15 bytes, ended by a NUL or, in /proc, by a line feed.
fn comm(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|b| matches!(b, 0 | b'\n'))
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::Images;

    /// Above the kernel's limit: nobody has it.
    const PID: u32 = 4_194_305;

    fn visited(images: &mut Images, again: bool) -> usize {
        let mut n = 0;
        images.each_threaded(|_| {
            n += 1;
            again
        });
        n
    }

    #[test]
    fn those_with_several_threads_are_visited_while_they_run_and_somebody_wants_to() {
        let mut images = Images::default();
        images.thread(PID, PID);
        assert_eq!(visited(&mut images, true), 0, "one thread");
        for _ in 0..3 {
            images.thread(PID + 1, PID);
            assert_eq!(visited(&mut images, true), 1);
            assert!(images.exit(PID + 1, b"").is_none());
        }
        assert_eq!(visited(&mut images, false), 1);
        assert_eq!(visited(&mut images, true), 0, "enough is known");

        images.exec(PID, PID);
        images.thread(PID + 1, PID);
        assert_eq!(visited(&mut images, true), 1, "another program");
        images.exit(PID + 1, b"");
        assert!(images.exit(PID, b"").is_some());
        assert_eq!(visited(&mut images, true), 0, "it has ended");
    }
}
