//! A real program under the real agent: what the profile says is what the program did. Exact counts only; no
//! times but relations between times.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use convoy_capture::{Options, Recorder, Recording};
use convoy_profile::{Exit, ObjectKind, Op, Process};

/// Two workers take `lock` 1009 times each, 401 times of these long enough to make the other wait.
const PROGRAM: &str = r#"#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long sum;

__attribute__((noinline)) static void critical(int long_one)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; long_one && i < 100000; i++)
		sum += (unsigned)i;
	sum++;
	pthread_mutex_unlock(&lock);
}

static void *worker(void *name)
{
	pthread_setname_np(pthread_self(), name);
	for (int i = 0; i < 1009; i++)
		critical(i < 401);
	return NULL;
}

static void two_workers(void)
{
	pthread_t t[2];

	pthread_create(&t[0], NULL, worker, "one");
	pthread_create(&t[1], NULL, worker, "two");
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
}

static void *stuck(void *arg)
{
	pthread_mutex_lock(&gate);
	return arg;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	pthread_t t;

	if (strcmp(how, "fork") == 0) {
		pid_t pid = fork();
		if (pid == 0) {
			two_workers();
			_exit(3);
		}
		int status;
		waitpid(pid, &status, 0);
		return WEXITSTATUS(status);
	}
	if (strcmp(how, "daemon") == 0) {
		if (fork() == 0) {
			two_workers();
			for (int i = 0; i < 100 && getppid() != 1; i++)
				usleep(1000);
			close(0), close(1), close(2);
			sleep(3);
			_exit(0);
		}
		usleep(700000);
		return 0;
	}
	two_workers();
	if (strcmp(how, "exec") == 0)
		execl(argv[0], argv[0], (char *)0);
	if (strcmp(how, "kill") == 0) {
		pthread_mutex_lock(&gate);
		pthread_create(&t, NULL, stuck, NULL);
		usleep(400000);
		raise(SIGKILL);
	}
	return 0;
}
"#;

fn program(dir: &Path) -> PathBuf {
    let source = dir.join("two_workers.c");
    std::fs::write(&source, PROGRAM).unwrap();
    let exe = dir.join("two_workers");
    let built = Command::new("cc")
        .args(["-O1", "-g", "-pthread", "-o"])
        .arg(&exe)
        .arg(&source)
        .status();
    assert!(built.unwrap().success());
    exe
}

fn record(how: &str) -> Recording {
    let dir = tempfile::tempdir().unwrap();
    let command: [OsString; 2] = [program(dir.path()).into(), how.into()];
    Recorder::new(Options::default())
        .unwrap()
        .launch(&command)
        .unwrap()
        .wait()
}

/// Acquisitions of all mutexes. Some may not be known to be of which: two whose addresses share a place of a thread's table.
fn acquisitions(p: &Process) -> u64 {
    let counted = p.counts.iter().filter(|c| c.op == Op::MutexLock);
    let unattributed = p.unattributed.iter().filter(|u| u.op == Op::MutexLock);
    counted.map(|c| c.n).sum::<u64>() + unattributed.map(|u| u.n).sum::<u64>()
}

/// `others` are acquisitions beside those of the workers.
fn check_two_workers(p: &Process, others: u64) {
    assert_eq!(acquisitions(p), 2 * 1009 + others);
    let mut names: Vec<&str> = p
        .threads
        .iter()
        .map(|t| t.name.as_str())
        .filter(|n| n.len() == 3)
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["one", "two"]);
    for t in &p.threads {
        assert!(
            t.start_ns >= p.start_ns && t.start_ns <= t.end_ns && t.end_ns <= p.end_ns,
            "{t:?} in {p:?}"
        );
    }
    for d in &p.details {
        let Some(wait) = &d.wait else { continue };
        let thread = &p.threads[d.thread as usize];
        assert!(
            wait.sum_ns <= thread.end_ns - thread.start_ns,
            "{wait:?} of {thread:?}"
        );
        assert!(wait.max_ns <= wait.sum_ns);
        assert_eq!(wait.hist.iter().map(|n| u64::from(*n)).sum::<u64>(), wait.n);
    }
    let joins: u64 = p
        .counts
        .iter()
        .filter(|c| c.op == Op::Join)
        .map(|c| c.n)
        .sum();
    assert_eq!(joins, 2);
}

#[test]
fn counts_are_exact_and_waits_have_stacks_and_holders() {
    let recording = record("");
    let profile = recording.profile;
    assert_eq!(profile.meta.exit, Exit::Status(0));
    let known: Vec<_> = profile
        .processes
        .iter()
        .map(|p| (p.pid, p.ppid, &p.exe, &p.args, p.threads.len()))
        .collect();
    // What runs beside the tests has CPUs, too.
    let of_others = |note: &&String| note.starts_with("other programs");
    let notes: Vec<_> = profile
        .meta
        .notes
        .iter()
        .filter(|n| !of_others(n))
        .collect();
    assert_eq!((known.len(), notes), (1, Vec::new()), "{known:?}");
    let p = &profile.processes[0];
    check_two_workers(p, 0);
    assert!(
        p.ended_cleanly && p.start_ns >= profile.meta.start_ns && p.end_ns <= profile.meta.end_ns
    );
    assert_eq!(p.threads.len(), 3);
    assert!(p.threads.iter().all(|t| t.cpu_exact) && p.threads[1].cpu_ns > 0);
    assert!(p.threads[1].start.is_some() && p.threads[1].create_stack != 0);

    let mutex = p
        .objects
        .iter()
        .position(|o| o.kind == ObjectKind::Mutex && o.module.is_some())
        .unwrap() as u32;
    let contended: Vec<_> = p
        .details
        .iter()
        .filter(|d| d.object == mutex && d.wait.is_some())
        .collect();
    assert!(
        !contended.is_empty(),
        "401 long holds by two threads: somebody waited"
    );
    assert!(
        contended
            .iter()
            .all(|d| p.stacks[d.stack as usize].len() >= 3),
        "critical, worker, thread start"
    );
    let pairs: Vec<_> = p.pairs.iter().filter(|x| x.object == mutex).collect();
    assert!(
        pairs
            .iter()
            .any(|x| x.peer.is_some() && x.peer != Some(x.thread) && x.peer_frame.is_some()),
        "{pairs:?}"
    );
    assert!(profile.meta.cpu_user_ns > 0);
}

#[test]
fn fork_child_is_a_process_of_its_own() {
    let recording = record("fork");
    assert_eq!(recording.exit, Exit::Status(3));
    let [parent, child] = recording.profile.processes.as_slice() else {
        panic!("two processes")
    };
    assert_eq!((acquisitions(parent), child.ppid), (0, parent.pid));
    check_two_workers(child, 0);
}

#[test]
fn exec_starts_another_image_of_the_same_pid() {
    let recording = record("exec");
    let [first, second] = recording.profile.processes.as_slice() else {
        panic!("two images")
    };
    assert_eq!(first.pid, second.pid);
    assert!(first.end_ns <= second.start_ns);
    check_two_workers(first, 0);
    check_two_workers(second, 0);
}

#[test]
fn killed_program_loses_nothing() {
    let recording = record("kill");
    assert_eq!(recording.exit, Exit::Signal(9));
    let p = &recording.profile.processes[0];
    assert!(!p.ended_cleanly);
    check_two_workers(p, 2); // one holds the gate, one waits for it
    let unfinished: Vec<_> = p
        .details
        .iter()
        .filter_map(|d| d.wait.as_ref().map(|w| (d.thread, w)))
        .filter(|(_, w)| w.unfinished == 1)
        .collect();
    let [(thread, wait)] = unfinished.as_slice() else {
        panic!("one thread was stuck: {unfinished:?}")
    };
    assert!(wait.unfinished_ns > 100_000_000, "{wait:?}");
    let main = &p.threads[0];
    assert!(
        *thread != 0 && !main.cpu_exact && main.cpu_ns > 0,
        "the poll has seen it: {main:?}"
    );
}

#[test]
fn process_that_outlives_the_command_is_recorded_until_then() {
    let recording = record("daemon");
    assert_eq!(recording.exit, Exit::Status(0));
    let profile = recording.profile;
    assert!(
        profile
            .meta
            .notes
            .iter()
            .any(|n| n.starts_with("1 process(es) still ran")),
        "{:?}",
        profile.meta.notes
    );
    let child = profile
        .processes
        .iter()
        .find(|p| p.ppid == profile.processes[0].pid)
        .unwrap();
    check_two_workers(child, 0);
    assert!(!child.ended_cleanly);
}

#[test]
fn forty_children_are_all_there() {
    let command = [
        "sh",
        "-c",
        "for i in 1 2 3 4 5 6 7 8; do (true; /bin/true; /bin/true | /bin/true) & done; wait",
    ];
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    let recording = Recorder::new(Options::default())
        .unwrap()
        .launch(&command)
        .unwrap()
        .wait();
    let exes = recording
        .profile
        .processes
        .iter()
        .filter(|p| p.exe.ends_with("true"))
        .count();
    assert_eq!(exes, 8 * 3, "{:?}", recording.profile.meta.notes);
}
