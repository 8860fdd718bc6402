//! A program of Go that runs, looked at.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use convoy_profile::{GoDoing, GoProgram, GoroutineState, GO_IN_CALL};
use convoy_unwind::{Files, Unwinder};

use super::layout::Layout;
use super::look::{Look, Scratch};
use super::program::Programs;
use super::tally::Tally;
use super::{dwarf, Known};

/// Five goroutines want one of two tokens; those that have one wait for an hour. Another one waits for ever, and main for them.
const PROGRAM: &str = r#"
package main

import (
	"fmt"
	"time"
)

//go:noinline
func use(tokens chan int) {
	tokens <- 1
	time.Sleep(time.Hour)
}

func main() {
	tokens, never := make(chan int, 2), make(chan int)
	for i := 0; i < 5; i++ {
		go use(tokens)
	}
	go func() {
		time.Sleep(50 * time.Millisecond)
		fmt.Println("ready")
	}()
	<-never
}
"#;

struct Running {
    /// The program is in there.
    _dir: tempfile::TempDir,
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None` where there is no Go: then there is nothing to test.
fn build(source: &str, flags: &[&str]) -> Option<(tempfile::TempDir, PathBuf)> {
    let dir = tempfile::tempdir().unwrap();
    let (file, program) = (dir.path().join("main.go"), dir.path().join("program"));
    fs::write(&file, source).unwrap();
    let mut go = Command::new("go");
    go.arg("build")
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(&file);
    match go.status() {
        Ok(status) => assert!(status.success()),
        Err(e) => {
            eprintln!("skipped: no go: {e}");
            return None;
        }
    }
    Some((dir, program))
}

fn run(flags: &[&str]) -> Option<Running> {
    run_source(PROGRAM, flags)
}

fn run_source(source: &str, flags: &[&str]) -> Option<Running> {
    let (dir, program) = build(source, flags)?;
    let mut child = Command::new(program)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    Some(Running { _dir: dir, child })
}

/// What so many looks make of it.
fn looked(of: &Running, looks: usize) -> GoProgram {
    let pid = of.child.id();
    let program = Programs::default()
        .of_process(pid)
        .unwrap()
        .expect("a program of Go");
    let mut unwinder = Unwinder::new(pid, &Files::new());
    let (mut scratch, mut tally) = (Scratch::default(), Tally::default());
    for _ in 0..looks {
        let look = Look {
            pid,
            program: &program,
            unwinder: &mut unwinder,
        };
        let (read, unsound) = look.take(&mut scratch, &mut tally).expect("it runs");
        assert!(read >= 6 && unsound == 0, "{read} {unsound}");
    }
    tally.into_row(&program.reasons)
}

#[test]
fn who_waits_where_and_who_has_what_they_wait_for() {
    for flags in [&[][..], &["-buildmode=pie"]] {
        let Some(running) = run(flags) else { return };
        let row = looked(&running, 10);
        // Who said that it is ready is perhaps still there.
        assert_eq!(row.looks, 10);
        assert!((60..=70).contains(&row.goroutines), "{row:?}");
        let waits = |reason: &str| {
            let rows = row.waits.iter().filter(|wait| wait.reason == reason);
            rows.map(|wait| (wait.n, wait.waits)).collect::<Vec<_>>()
        };
        assert_eq!(waits("sleep"), [(20, 2)]);
        assert_eq!(waits("chan receive"), [(10, 1)]);
        assert_eq!(waits("chan send"), [(30, 3)], "each wait is one");
        let place = row.places.iter().find(|place| place.reason == "chan send");
        let place = place.expect("a call of the program's own");
        // Who has a token has had it since before the first look, but sleeps with it in the function that got it.
        assert_eq!((place.capacity, place.users, place.most), (2, 5, 5));
        assert_eq!((place.looks, place.waiting, place.away), (10, 30, 20));
    }
}

/// One goroutine reads, for ever, what nobody writes into a pipe, with a lock that another one wants.
const IN_A_CALL: &str = r#"
package main

import (
	"fmt"
	"sync"
	"syscall"
	"time"
)

//go:noinline
func use(lock *sync.Mutex, pipe int) {
	lock.Lock()
	syscall.Read(pipe, make([]byte, 1))
	lock.Unlock()
}

func main() {
	var pipe [2]int
	if syscall.Pipe(pipe[:]) != nil {
		return
	}
	var lock sync.Mutex
	go use(&lock, pipe[0])
	go func() {
		time.Sleep(50 * time.Millisecond)
		fmt.Println("ready")
	}()
	time.Sleep(20 * time.Millisecond)
	use(&lock, pipe[0])
}
"#;

#[test]
fn who_is_in_a_call_has_what_is_waited_for_there() {
    let Some(running) = run_source(IN_A_CALL, &[]) else {
        return;
    };
    let row = looked(&running, 10);
    let calls = row.waits.iter().position(|wait| wait.reason == GO_IN_CALL);
    let calls = calls.expect("one of them is in a call");
    assert_eq!((row.waits[calls].n, row.waits[calls].waits), (10, 1));
    let lock = row.places.iter().find(|of| of.reason.contains("Mutex"));
    let lock = lock.expect("the other one waits");
    assert_eq!((lock.users, lock.waiting, lock.away), (2, 10, 10));
    let doing = GoDoing {
        state: GoroutineState::InCall,
        wait: Some(calls as u32),
        n: 10,
    };
    assert_eq!(lock.doing, [doing]);
}

#[test]
fn a_program_that_is_gone_or_another_one_tells_nothing() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let is = |pid| Programs::default().of_process(pid);
    assert_eq!(is(child.id()), Ok(None));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(is(child.id()), Ok(None));
    let Some(mut running) = run(&[]) else { return };
    let pid = running.child.id();
    let program = is(pid).unwrap().unwrap();
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let look = Look {
        pid,
        program: &program,
        unwinder: &mut Unwinder::new(pid, &Files::new()),
    };
    let taken = look.take(&mut Scratch::default(), &mut Tally::default());
    assert_eq!(taken, None);
}

#[test]
fn without_names_of_variables_it_says_why_nothing_is_known() {
    let Some(running) = run(&["-ldflags=-s"]) else {
        return;
    };
    let why = Programs::default()
        .of_process(running.child.id())
        .unwrap_err();
    assert!(why.contains("symbol table"), "{why}");
    let row = Known::Closed(why).into_row().unwrap();
    assert!(row.looks == 0 && !row.unknown.is_empty());
}

#[test]
fn debug_information_and_the_table_of_releases_agree() {
    let Some((_dir, program)) = build(PROGRAM, &[]) else {
        return;
    };
    let version = Command::new("go")
        .args(["env", "GOVERSION"])
        .output()
        .unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let told = dwarf::layout(&File::open(program).unwrap());
    assert!(told.is_some());
    // Of a release that is in no table there is nothing to compare.
    if let Some(known) = Layout::of_version(version.trim()) {
        assert_eq!(told, Some(known), "{version}");
    }
}
