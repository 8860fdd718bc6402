//! Puts what the scheduler said beside what the agents have written: one process, one thread and one
//! list of stacks for both.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use convoy_profile::{
    Frame, FrameIx, GoProgram, LineIx, LineUse, Module, ModuleIx, Process, Reason, Sched,
    SchedThread, SharedLine, SharedLines, SpinLoop, StackIx, Symbol, Thread, ThreadIx, ThreadRef,
    Waker,
};
use convoy_sched::Life;
use convoy_unwind::KeptFile;

use super::images::Image;
use super::lines::Lines;
use super::pipeline::Collected;

/// What ran and waited so shortly between fork and exec was only there to start the next program. Time without a
/// processor does not count: on a busy machine it can be any.
const BEFORE_EXEC_NS: u64 = 20_000_000;

/// What was opened while a process ran: it, or its container, may be gone now.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    /// Files of its modules.
    pub modules: Vec<(ModuleIx, Arc<KeptFile>)>,
    /// What its compiler wrote about generated code.
    pub jit_map: Option<File>,
}

/// The scheduler's tables with the profile's indices, after adding to `processes` what only the scheduler
/// knows. With the files of each process, by its index.
pub(crate) fn join(
    collected: Collected,
    processes: &mut Vec<Process>,
) -> (Sched, Vec<(u32, OpenFiles)>) {
    let output = collected.output;
    let homes = homes(&output, processes);
    let mut files = Vec::new();
    let mut goroutines = Vec::new();
    let mut maps = Vec::with_capacity(homes.len());
    for ((life, home), image) in output.images.iter().zip(&homes).zip(collected.images) {
        let ix = match *home {
            Home::Process(ix) => ix,
            Home::New => {
                processes.push(new_process(life, &image));
                processes.len() - 1
            }
            Home::Next(_) => {
                maps.push(None); // filled in when its successor is known
                continue;
            }
        };
        let mut map = Map::new(ix, &mut processes[ix], life, &image.names);
        processes[ix].listens |= image.listens;
        let of_go = image.goroutines.into_row();
        let unwound = image.unwinder.finish();
        files.push((ix as u32, map.add_code(&mut processes[ix], unwound)));
        goroutines.extend(of_go.map(|program| map.go_program(program)));
        maps.push(Some(map));
    }
    for (number, home) in homes.iter().enumerate().rev() {
        if let Home::Next(next) = *home {
            let threads = output.images[number].lives.len();
            let heir = maps.get(next).and_then(Option::as_ref);
            maps[number] = heir.map(|heir| heir.without_code(threads));
        }
    }

    let mut sched = output.sched;
    sched.names = collected.names;
    sched.writes = collected.writes.into_rows();
    sched.goroutines = goroutines;
    translate(&mut sched, &maps);
    one_row_per_thread(&mut sched);
    complete_threads(&sched, processes);
    for (off, id) in sched.offs.iter_mut().zip(&output.off_kernel) {
        let stack = collected.kernel_stacks.get(*id as usize);
        off.kernel_stack = stack.cloned().unwrap_or_default();
    }
    sched.lines = lines(collected.lines, &maps);
    sched.loops = collected
        .loops
        .into_inner()
        .into_iter()
        .map(|found| {
            let map = maps.get(found.image).and_then(Option::as_ref);
            let process = map.map_or(0, |map| map.process);
            let of = processes.get_mut(process as usize);
            let frame = of.map(|of| (frame_at(of, found.pc), of));
            // In the module's own numbering, as its symbols are.
            let bias = frame.as_ref().map_or(0, |(frame, of)| {
                let frame = &of.frames[*frame as usize];
                frame.pc.wrapping_sub(frame.offset)
            });
            SpinLoop {
                process,
                frame: frame.map(|(frame, _)| frame),
                lo: found.lo.wrapping_sub(bias),
                hi: found.hi.wrapping_sub(bias),
                kind: found.kind,
                evidence: found.evidence,
                samples: found.samples,
            }
        })
        .collect();
    (sched, files)
}

/// The lines of each image; `None` if no sample came with registers.
fn lines(found: Lines, maps: &[Option<Map>]) -> Option<SharedLines> {
    let mut all = SharedLines {
        samples: found.looked_at,
        unread: found.unknown,
        ..SharedLines::default()
    };
    if all.samples == 0 && all.unread == 0 {
        return None;
    }
    for ((image, address), line) in found.shared() {
        let Some(map) = maps.get(image).and_then(Option::as_ref) else {
            continue;
        };
        let (ix, most_used) = (all.lines.len() as LineIx, line.most_used());
        let mut uses: Vec<_> = line.uses.into_iter().collect();
        uses.sort_unstable();
        all.uses.extend(uses.iter().map(|(used, n)| LineUse {
            line: ix,
            thread: map.thread(used.thread.thread).thread,
            stack: map.stack(used.stack),
            offset: used.offset,
            size: used.size,
            locked: used.locked,
            reads: used.reads,
            writes: used.writes,
            n: *n,
        }));
        all.lines.push(SharedLine {
            process: map.process,
            address: address + u64::from(most_used),
            symbol: None, // named with the program's code
            samples: line.n,
            waits: line.waits,
            turns: line.turns,
        });
    }
    Some(all)
}

/// Where an image goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    /// This process has it already, from its agent.
    Process(usize),
    /// A process of its own.
    New,
    /// It only started that image: its little time belongs there.
    Next(usize),
}

/// Made during the recording, but by nobody recorded: by convoy, to become the program, however long that takes on a busy
/// machine.
fn is_of_convoy(image: &convoy_sched::Image) -> bool {
    let first = image.lives.first();
    image.ppid.is_none() && first.is_some_and(|life| life.parent.is_some())
}

fn homes(output: &convoy_sched::Output, processes: &[Process]) -> Vec<Home> {
    let images = &output.images;
    let mut active_ns = vec![0; images.len()];
    for row in &output.sched.threads {
        if let Some(sum) = active_ns.get_mut(row.thread.process as usize) {
            *sum += row.running_ns + row.blocked_ns;
        }
    }
    let mut taken = vec![false; processes.len()];
    let mut homes: Vec<Home> = images
        .iter()
        .map(|image| {
            // The agent is ready a little after the exec, and a process may be forked without one.
            let of_agent = processes.iter().zip(&taken).position(|(p, taken)| {
                !taken
                    && p.pid == image.pid
                    && p.start_ns >= image.start_ns
                    && p.start_ns < image.end_ns
            });
            match of_agent {
                Some(ix) => {
                    taken[ix] = true;
                    Home::Process(ix)
                }
                None => Home::New,
            }
        })
        .collect();
    let mut next_of: HashMap<u32, usize> = HashMap::new();
    for number in (0..images.len()).rev() {
        let image = &images[number];
        let short = active_ns[number] < BEFORE_EXEC_NS || is_of_convoy(image);
        if let Some(&next) = next_of.get(&image.pid) {
            if short && homes[number] == Home::New && images[next].start_ns == image.end_ns {
                homes[number] = Home::Next(next);
            }
        }
        next_of.insert(image.pid, number);
    }
    homes
}

fn new_process(life: &convoy_sched::Image, image: &Image) -> Process {
    Process {
        pid: life.pid,
        ppid: life.ppid.or(image.ppid).unwrap_or(0),
        exe: image.exe.clone(),
        args: image.args.clone(),
        start_ns: life.start_ns,
        end_ns: life.end_ns,
        ended_cleanly: life.ended,
        stacks: vec![Vec::new()],
        without_agent: true,
        ..Process::default()
    }
}

/// From an image's indices to those of a process of the profile.
#[derive(Debug)]
struct Map {
    process: u32,
    threads: Vec<ThreadIx>,
    stacks: Vec<StackIx>,
}

impl Map {
    fn new(
        process: usize,
        of: &mut Process,
        image: &convoy_sched::Image,
        names: &HashMap<u32, String>,
    ) -> Self {
        let mut by_tid: HashMap<u32, Vec<ThreadIx>> = HashMap::new();
        for (ix, thread) in (0u32..).zip(&of.threads) {
            by_tid.entry(thread.tid).or_default().push(ix);
        }
        let threads = image
            .lives
            .iter()
            .map(|life| {
                let known = by_tid.get(&life.tid).into_iter().flatten().copied();
                let same = known.min_by_key(|&ix| {
                    let thread = &of.threads[ix as usize];
                    thread.start_ns.abs_diff(life.start_ns)
                });
                same.unwrap_or_else(|| {
                    of.threads.push(new_thread(life, names));
                    (of.threads.len() - 1) as ThreadIx
                })
            })
            .collect();
        Self {
            process: process as u32,
            threads,
            stacks: vec![0],
        }
    }

    /// The same process for an image whose code is not kept.
    fn without_code(&self, threads: usize) -> Self {
        let main = self.threads.first().copied().unwrap_or(0);
        Self {
            process: self.process,
            threads: vec![main; threads],
            stacks: vec![0],
        }
    }

    /// Appends modules, frames and stacks to the process's own.
    fn add_code(&mut self, process: &mut Process, code: convoy_unwind::Unwound) -> OpenFiles {
        let mut modules: Vec<ModuleIx> = Vec::with_capacity(code.modules.len());
        for module in code.modules {
            let same = |m: &Module| m.path == module.path && m.bias == module.bias;
            let ix = process.modules.iter().position(same).unwrap_or_else(|| {
                process.modules.push(module);
                process.modules.len() - 1
            });
            modules.push(ix as ModuleIx);
        }
        let first = process.frames.len() as FrameIx;
        process
            .frames
            .extend(code.frames.into_iter().map(|f| Frame {
                module: f.module.and_then(|m| modules.get(m as usize).copied()),
                ..f
            }));
        if process.stacks.is_empty() {
            process.stacks.push(Vec::new());
        }
        let offset = process.stacks.len() as StackIx;
        // Stack 0 is "unknown" for both.
        let new = code.stacks.into_iter().skip(1);
        process
            .stacks
            .extend(new.map(|s| s.into_iter().map(|f| f + first).collect()));
        self.stacks.extend(offset..process.stacks.len() as StackIx);
        let of_modules = code.files.into_iter();
        OpenFiles {
            modules: of_modules
                .filter_map(|(m, file)| Some((modules.get(m as usize).copied()?, file)))
                .collect(),
            jit_map: code.jit_map,
        }
    }

    fn thread(&self, thread: ThreadIx) -> ThreadRef {
        ThreadRef {
            process: self.process,
            thread: self.threads.get(thread as usize).copied().unwrap_or(0),
        }
    }

    fn go_program(&self, mut program: GoProgram) -> GoProgram {
        program.process = self.process;
        for wait in &mut program.waits {
            wait.stack = self.stack(wait.stack);
        }
        for place in &mut program.places {
            place.stack = self.stack(place.stack);
        }
        program
    }

    fn stack(&self, stack: StackIx) -> StackIx {
        self.stacks.get(stack as usize).copied().unwrap_or(0)
    }
}

fn new_thread(life: &Life, names: &HashMap<u32, String>) -> Thread {
    Thread {
        tid: life.tid,
        parent_tid: if life.main {
            0
        } else {
            life.parent.unwrap_or(0)
        },
        name: names.get(&life.tid).cloned().unwrap_or_default(),
        start_ns: life.start_ns,
        end_ns: life.end_ns,
        lives: 0,
        ..Thread::default()
    }
}

fn translate(sched: &mut Sched, maps: &[Option<Map>]) {
    let place = |thread: &mut ThreadRef, stack: Option<&mut StackIx>| {
        let Some(map) = maps.get(thread.process as usize).and_then(Option::as_ref) else {
            *thread = ThreadRef::default();
            return;
        };
        *thread = map.thread(thread.thread);
        if let Some(stack) = stack {
            *stack = map.stack(*stack);
        }
    };
    for row in &mut sched.threads {
        place(&mut row.thread, None);
    }
    for row in &mut sched.slices {
        place(&mut row.thread, Some(&mut row.stack));
    }
    for row in &mut sched.offs {
        place(&mut row.thread, Some(&mut row.stack));
    }
    for row in &mut sched.writes {
        place(&mut row.thread, Some(&mut row.stack));
    }
    for lane in sched.timeline.iter_mut().flat_map(|t| &mut t.lanes) {
        place(&mut lane.thread, None);
    }
    for row in &mut sched.wakes {
        if let Waker::Thread(thread, stack) = &mut row.waker {
            place(thread, Some(stack));
        }
    }
}

/// A thread before and after its exec is one.
fn one_row_per_thread(sched: &mut Sched) {
    let mut rows: Vec<SchedThread> = Vec::with_capacity(sched.threads.len());
    let mut index: HashMap<ThreadRef, usize> = HashMap::new();
    for row in std::mem::take(&mut sched.threads) {
        match index.get(&row.thread).and_then(|&ix| rows.get_mut(ix)) {
            Some(known) => add(known, &row),
            None => {
                index.insert(row.thread, rows.len());
                rows.push(row);
            }
        }
    }
    sched.threads = rows;
}

fn add(known: &mut SchedThread, row: &SchedThread) {
    known.start_ns = known.start_ns.min(row.start_ns);
    known.end_ns = known.end_ns.max(row.end_ns);
    known.running_ns += row.running_ns;
    known.delayed_ns += row.delayed_ns;
    known.preempted_ns += row.preempted_ns;
    known.spinning_ns += row.spinning_ns;
    known.blocked_ns += row.blocked_ns;
    known.cm_ns += row.cm_ns;
    known.cm_working_ns += row.cm_working_ns;
    known.slices += row.slices;
    known.preemptions += row.preemptions;
}

/// What the scheduler knows better than a look at /proc now and then, or alone.
fn complete_threads(sched: &Sched, processes: &mut [Process]) {
    for row in &sched.threads {
        let process = processes.get_mut(row.thread.process as usize);
        let Some(process) = process else { continue };
        let without_agent = process.without_agent;
        let Some(thread) = process.threads.get_mut(row.thread.thread as usize) else {
            continue;
        };
        if !thread.cpu_exact {
            thread.cpu_ns = thread.cpu_ns.max(row.running_ns);
        }
        if thread.run_delay_ns.is_none() {
            let delay = row.delayed_ns + row.preempted_ns;
            // For the agent a thread begins with its routine. It waited for its first processor before.
            let life = thread.end_ns.saturating_sub(thread.start_ns);
            let known = !without_agent && thread.end_ns != 0;
            thread.run_delay_ns = Some(match known {
                true => delay.min(life.saturating_sub(thread.cpu_ns)),
                false => delay,
            });
        }
        if without_agent {
            thread.involuntary_switches = row.preemptions;
            thread.voluntary_switches = row.slices;
        }
    }
}

/// The frame of an instruction, made if there is none.
fn frame_at(process: &mut Process, pc: u64) -> FrameIx {
    if let Some(ix) = process.frames.iter().position(|f| f.pc == pc && f.exact) {
        return ix as FrameIx;
    }
    let module = process
        .modules
        .iter()
        .position(|m| (m.lo..m.hi).contains(&pc));
    let bias = module.map_or(0, |ix| process.modules[ix].bias);
    process.frames.push(Frame {
        pc,
        module: module.map(|ix| ix as ModuleIx),
        offset: pc.wrapping_sub(bias),
        exact: true,
        no_rule: false,
        symbol: Symbol::Unknown(Reason::NotResolved),
    });
    (process.frames.len() - 1) as FrameIx
}
