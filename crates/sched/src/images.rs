//! Processes and the lives of their threads.
//!
//! An *image* is a process from fork or exec to its end or the next exec: addresses, and so call stacks, mean
//! something only within one. Ids are reused by the kernel: an index stands for one life.

use convoy_profile::ThreadRef;

use crate::event::Tid;
use crate::table::Map;

/// A process while it runs one program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Process id.
    pub pid: u32,
    /// The process that made it, if that happened during the recording.
    pub ppid: Option<u32>,
    /// Times that this process had become another program before, during the recording.
    pub exec: u32,
    /// First seen, monotonic.
    pub start_ns: u64,
    /// Its last thread's end, its exec, or the end of the recording.
    pub end_ns: u64,
    /// It ended, or ran another program from then on, before the recording did.
    pub ended: bool,
    /// Its threads. Never empty.
    pub lives: Vec<Life>,
}

/// A thread from its creation to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Life {
    /// Thread id.
    pub tid: Tid,
    /// The thread that made it, if that happened during the recording.
    pub parent: Option<Tid>,
    /// First seen, monotonic.
    pub start_ns: u64,
    /// Its end, or that of the recording.
    pub end_ns: u64,
    /// It is the process's first thread.
    pub main: bool,
}

/// All images, and which one a process runs now.
#[derive(Debug, Default)]
pub(crate) struct Images {
    images: Vec<Image>,
    /// Per image: threads alive.
    alive: Vec<usize>,
    now: Map<u32, u32>,
}

impl Images {
    /// The image that process `pid` runs.
    pub fn of(&self, pid: u32) -> Option<u32> {
        self.now.get(&pid).copied()
    }

    pub fn get(&self, image: u32) -> Option<&Image> {
        self.images.get(image as usize)
    }

    /// A new image for process `pid`.
    pub fn begin(&mut self, pid: u32, ppid: Option<u32>, exec: u32, start_ns: u64) -> u32 {
        let ix = self.images.len() as u32;
        self.images.push(Image {
            pid,
            ppid,
            exec,
            start_ns,
            end_ns: start_ns,
            ..Image::default()
        });
        self.alive.push(0);
        self.now.insert(pid, ix);
        ix
    }

    /// A new thread in an image.
    pub fn add(&mut self, image: u32, tid: Tid, parent: Option<Tid>, start_ns: u64) -> ThreadRef {
        let mut thread = 0;
        if let Some(i) = self.images.get_mut(image as usize) {
            thread = i.lives.len() as u32;
            i.lives.push(Life {
                tid,
                parent,
                start_ns,
                end_ns: start_ns,
                main: tid == i.pid,
            });
        }
        if let Some(alive) = self.alive.get_mut(image as usize) {
            *alive += 1;
        }
        ThreadRef {
            process: image,
            thread,
        }
    }

    /// A thread's last moment; `ended`: by itself, not because the recording is over. With its last thread the
    /// image ends, too.
    pub fn end(&mut self, thread: ThreadRef, now_ns: u64, ended: bool) {
        let ix = thread.process as usize;
        let (Some(image), Some(alive)) = (self.images.get_mut(ix), self.alive.get_mut(ix)) else {
            return;
        };
        if let Some(life) = image.lives.get_mut(thread.thread as usize) {
            life.end_ns = now_ns;
        }
        *alive = alive.saturating_sub(1);
        image.end_ns = now_ns;
        if *alive == 0 && ended {
            image.ended = true;
            if self.now.get(&image.pid) == Some(&thread.process) {
                self.now.remove(&image.pid);
            }
        }
    }

    pub fn finish(self) -> Vec<Image> {
        self.images
    }
}
