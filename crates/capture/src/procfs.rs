//! What /proc says of a process and its threads.

use std::fs;
use std::os::unix::fs::FileExt;

/// Figures of a thread, cumulative since it began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadFigures {
    pub name: String,
    /// On a processor, nanoseconds.
    pub cpu_ns: u64,
    pub user_ns: u64,
    pub sys_ns: u64,
    /// Runnable but not running, nanoseconds; `None` where the kernel does not say.
    pub run_delay_ns: Option<u64>,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

impl ThreadFigures {
    /// What has come since an earlier look.
    pub fn since(self, earlier: &Self) -> Self {
        let delay = self.run_delay_ns;
        let delay_before = earlier.run_delay_ns.unwrap_or(0);
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            sys_ns: self.sys_ns.saturating_sub(earlier.sys_ns),
            run_delay_ns: delay.map(|ns| ns.saturating_sub(delay_before)),
            voluntary_switches: self
                .voluntary_switches
                .saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
            ..self
        }
    }
}

/// Start of a process in clock ticks since boot; `None` if there is no such process.
pub fn start_ticks(pid: u32) -> Option<u64> {
    stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?).map(|s| s.start_ticks)
}

/// As [`start_ticks`], unless it is a zombie. One whose main thread has ended before the others still runs.
pub fn running_since(pid: u32) -> Option<u64> {
    let main = stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    main.runs(pid).then_some(main.start_ticks)
}

/// Whether the process that began then has ended. One that cannot be read, for lack of descriptors
/// say, has not.
pub fn has_ended(pid: u32, start_ticks: u64) -> bool {
    let main = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => stat(&text),
        Err(e) => {
            let is_gone = e.raw_os_error() == Some(libc::ESRCH);
            return is_gone || e.kind() == std::io::ErrorKind::NotFound;
        }
    };
    main.is_some_and(|main| {
        let is_zombie = matches!(main.state, 'Z' | 'X');
        main.start_ticks != start_ticks
            || (is_zombie && !threads(pid).iter().any(|tid| *tid != pid))
    })
}

/// Whether the process is there and not a zombie, as [`running_since`].
pub fn is_running(pid: u32) -> bool {
    running_since(pid).is_some()
}

/// Whether a process that knows itself as `pid` is there; `here`: what it is known as here, in a PID namespace another
/// number.
pub fn is_running_as(pid: u32, here: &mut u32) -> bool {
    if is_running(*here) {
        return true;
    }
    let inside = known_inside_as(pid);
    *here = inside.unwrap_or(*here);
    inside.is_some()
}

/// A process of a PID namespace below ours that knows itself by this number there: its number here. There may be several such: one
/// of them.
pub fn known_inside_as(pid: u32) -> Option<u32> {
    let knows_itself_so = |here: &u32| {
        let status = fs::read_to_string(format!("/proc/{here}/status")).unwrap_or_default();
        numbers_inside(&status).last() == Some(&pid)
    };
    processes().into_iter().find(knows_itself_so)
}

/// The numbers of a process in the namespaces below ours, the innermost one last.
fn numbers_inside(status: &str) -> Vec<u32> {
    let line = line(status, "NSpid:").unwrap_or_default();
    let numbers = line.split_ascii_whitespace().skip(1);
    numbers.filter_map(|n| n.parse().ok()).collect()
}

/// Name of a thread.
pub fn thread_name(pid: u32, tid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(name.trim_end_matches('\n').to_owned())
}

/// Names of all threads of a process.
pub fn thread_names(pid: u32) -> Vec<String> {
    let names = threads(pid).into_iter();
    names.filter_map(|tid| thread_name(pid, tid)).collect()
}

/// Ends a process at once; whether it was there.
pub fn end_process(pid: u32) -> bool {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok())
}

/// Its name, as `ps` shows it; `None` if it is gone.
pub fn name(pid: u32) -> Option<String> {
    stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?).map(|s| s.name)
}

/// Processes of this name, ascending, as `pgrep -x` finds them.
pub fn processes_called(name: &str) -> Vec<u32> {
    let mut called = processes();
    called.retain(|pid| is_called(*pid, name));
    called.sort_unstable();
    called
}

/// The kernel keeps 15 bytes of a name; the rest is in the command line.
fn is_called(pid: u32, wanted: &str) -> bool {
    const KEPT: usize = 15;
    if wanted.len() <= KEPT {
        return name(pid).as_deref() == Some(wanted);
    }
    let command = command_line(pid);
    let program = command.first().and_then(|path| path.rsplit('/').next());
    program == Some(wanted)
}

/// All processes.
pub fn processes() -> Vec<u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The process's parent; `None` if it is gone.
pub fn parent(pid: u32) -> Option<u32> {
    status_number(pid, "PPid:")
}

/// The process that a thread belongs to; `None` if it is gone.
pub fn group_leader(tid: u32) -> Option<u32> {
    status_number(tid, "Tgid:")
}

fn status_number(pid: u32, name: &str) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    line(&status, name)?.trim().parse().ok()
}

/// Whether it is a thread of the kernel.
pub fn is_kernel_thread(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat(&text).is_some_and(|s| s.is_kernels())
}

/// Its command and arguments; empty if it is gone.
pub fn command_line(pid: u32) -> Vec<String> {
    fs::read(format!("/proc/{pid}/cmdline"))
        .unwrap_or_default()
        .split(|b| *b == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// The threads of a process; empty if it is gone.
pub fn threads(pid: u32) -> Vec<u32> {
    fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Figures of a thread; `None` if it is gone.
pub fn thread(pid: u32, tid: u32) -> Option<ThreadFigures> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).ok();
    let stat = stat(&read("stat")?)?;
    let schedstat = SchedStat::open(pid, tid).and_then(|file| file.read());
    let (user_ns, sys_ns) = (ticks_ns(stat.user_ticks), ticks_ns(stat.sys_ticks));
    let status = read("status").unwrap_or_default();
    Some(ThreadFigures {
        name: stat.name,
        // The scheduler's own count is exact; ticks have a resolution of some milliseconds.
        cpu_ns: schedstat.map_or(user_ns.saturating_add(sys_ns), |s| s.cpu_ns),
        user_ns,
        sys_ns,
        run_delay_ns: schedstat.map(|s| s.run_queue_ns),
        voluntary_switches: field(&status, "voluntary_ctxt_switches:"),
        involuntary_switches: field(&status, "nonvoluntary_ctxt_switches:"),
    })
}

/// Sums since a thread's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedFigures {
    /// Time on a processor, nanoseconds.
    pub cpu_ns: u64,
    /// Time runnable without one, nanoseconds.
    pub run_queue_ns: u64,
    /// Times that it was given one; `None` = the kernel does not say.
    pub switches: Option<u64>,
}

/// Bytes that a thread's system calls moved since its start. Files, pipes and devices count; of
/// sockets only `read` and `write` do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoFigures {
    /// Read.
    pub read_bytes: u64,
    /// Written.
    pub write_bytes: u64,
}

/// `None` if the thread is gone, may not be looked at, or the kernel does not count.
pub fn io(pid: u32, tid: u32) -> Option<IoFigures> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/io")).ok()?;
    let number = |name: &str| line(&text, name)?.trim().parse().ok();
    Some(IoFigures {
        read_bytes: number("rchar:")?,
        write_bytes: number("wchar:")?,
    })
}

/// What the scheduler counts of a thread.
#[derive(Debug)]
pub struct SchedStat(fs::File);

impl SchedStat {
    /// `None` if the thread is gone, or the kernel does not count.
    pub fn open(pid: u32, tid: u32) -> Option<Self> {
        fs::File::open(format!("/proc/{pid}/task/{tid}/schedstat"))
            .ok()
            .map(Self)
    }

    /// `None` if the thread is gone.
    pub fn read(&self) -> Option<SchedFigures> {
        let mut text = [0; 96];
        let n = self.0.read_at(&mut text, 0).ok()?;
        schedstat(std::str::from_utf8(text.get(..n)?).ok()?)
    }
}

/// A line of `/proc/PID/stat`.
pub struct Stat {
    pub name: String,
    pub state: char,
    flags: u64,
    user_ticks: u64,
    sys_ticks: u64,
    /// Of children that have ended and were waited for.
    children_ticks: u64,
    pub start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    /// Whether it is a thread of the kernel.
    pub fn is_kernels(&self) -> bool {
        /// PF_KTHREAD of linux/sched.h.
        const KERNEL_THREAD: u64 = 0x0020_0000;
        self.flags & KERNEL_THREAD != 0
    }

    /// Whether the process of this number, whose own line it is, still runs: also if its main
    /// thread has ended before the others.
    pub fn runs(&self, pid: u32) -> bool {
        !matches!(self.state, 'Z' | 'X') || threads(pid).iter().any(|t| *t != pid)
    }
}

/// `pid (name) state ppid ...`; the name may hold blanks and brackets, so it ends at the last one.
pub fn stat(text: &str) -> Option<Stat> {
    let (head, tail) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let number = |i: usize| fields.get(i).and_then(|f| f.parse().ok());
    Some(Stat {
        name,
        state: fields.first()?.chars().next()?,
        flags: number(6)?,
        user_ticks: number(11)?,
        sys_ticks: number(12)?,
        children_ticks: number(13)?.saturating_add(number(14)?),
        start_ticks: number(19)?,
        virtual_bytes: number(20)?,
        resident_pages: number(21)?,
    })
}

/// Figures of a whole process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessReading {
    /// CPU time, nanoseconds, ended threads included.
    pub cpu_ns: u64,
    /// The same of its children that have ended, in clock ticks.
    pub children_cpu_ns: u64,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Address space, bytes.
    pub virtual_bytes: u64,
    /// Open file descriptors; `None` if they may not be read.
    pub descriptors: Option<u64>,
    /// Start, nanoseconds since the Unix epoch; `None` where the kernel does not say when it
    /// was started itself.
    pub start_unix_ns: Option<u64>,
}

impl ProcessReading {
    /// Of a process; `None` if it is gone.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok();
        let boot_unix_ns = boot_seconds().map(|s| s.saturating_mul(1_000_000_000));
        let in_ticks = || ticks_ns(stat.user_ticks.saturating_add(stat.sys_ticks));
        let page = rustix::param::page_size() as u64;
        Some(Self {
            cpu_ns: crate::clock::process_cpu_ns(pid).unwrap_or_else(in_ticks),
            children_cpu_ns: ticks_ns(stat.children_ticks),
            resident_bytes: stat.resident_pages.saturating_mul(page),
            virtual_bytes: stat.virtual_bytes,
            descriptors: descriptors.map(|all| all.count() as u64),
            start_unix_ns: boot_unix_ns.map(|ns| ns.saturating_add(ticks_ns(stat.start_ticks))),
        })
    }
}

/// When the machine was started, seconds since the Unix epoch.
fn boot_seconds() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    line(&text, "btime ")?.trim().parse().ok()
}

fn schedstat(text: &str) -> Option<SchedFigures> {
    let mut numbers = text.split_ascii_whitespace().map(|n| n.parse::<u64>().ok());
    Some(SchedFigures {
        cpu_ns: numbers.next()??,
        run_queue_ns: numbers.next()??,
        switches: numbers.next().flatten(),
    })
}

fn field(status: &str, name: &str) -> u64 {
    let value = line(status, name).and_then(|value| value.trim().parse().ok());
    value.unwrap_or(0)
}

/// What a status file says behind this name.
fn line<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name))
}

fn ticks_ns(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_survives_hostile_names() {
        let text = "7 (a) Z (b) R 1 7 7 0 -1 4194304 1 2 3 4 50 60 0 0 20 0 1 0 777 8 9";
        let stat = stat(text).unwrap();
        assert_eq!(stat.name, "a) Z (b");
        assert_eq!(
            (
                stat.state,
                stat.user_ticks,
                stat.sys_ticks,
                stat.start_ticks
            ),
            ('R', 50, 60, 777)
        );
        assert!(super::stat("7 (a").is_none());
        assert!(super::stat("7 (a) R 1 2").is_none());
    }

    #[test]
    fn fields_of_similar_names_are_told_apart() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(field(status, "voluntary_ctxt_switches:"), 3);
        assert_eq!(field(status, "nonvoluntary_ctxt_switches:"), 4);
        assert_eq!(field(status, "other:"), 0);
    }

    #[test]
    fn a_process_of_another_namespace_has_several_numbers() {
        assert_eq!(numbers_inside("Name:\tx\nNSpid:\t4711\t12\t1\n"), [12, 1]);
        assert!(numbers_inside("NSpid:\t4711\n").is_empty());
        assert!(numbers_inside("").is_empty());
    }

    #[test]
    fn figures_of_this_process_are_read() {
        let own = ProcessReading::of(std::process::id()).unwrap();
        assert!(own.resident_bytes > 0 && own.resident_bytes <= own.virtual_bytes);
        assert!(own.descriptors.is_some_and(|n| n > 0));
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        assert!(own
            .start_unix_ns
            .is_some_and(|start| start > 0 && start < now));
        assert!(ProcessReading::of(u32::MAX).is_none());
    }

    #[test]
    fn own_thread_is_found() {
        let pid = std::process::id();
        assert!(is_running(pid) && start_ticks(pid).is_some());
        let tids = threads(pid);
        assert!(tids.contains(&pid));
        assert!(thread(pid, pid).is_some());
        assert!(thread(pid, u32::MAX).is_none() && threads(u32::MAX).is_empty());
    }
}
