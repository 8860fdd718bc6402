//! Looks at what pretends to be a runtime of Go, in the memory of the test itself: nothing that it says may do harm.

use convoy_profile::{GoProgram, GoState, GO_IN_CALL};
use convoy_unwind::{Files, Unwinder};

use super::layout::Layout;
use super::look::{Look, Scratch};
use super::program::Program;
use super::tally::Tally;

const RUNNABLE: u64 = 1;
const RUNNING: u64 = 2;
const IN_CALL: u64 = 3;
const WAITING: u64 = 4;
const PREEMPTED: u64 = 9;

/// A runtime's variables and goroutines, as they lie in memory.
struct Runtime {
    goroutines: Vec<[u64; 64]>,
    list: Vec<u64>,
    /// allglen, allgptr, gomaxprocs.
    variables: [u64; 3],
    stacks: Vec<u64>,
}

impl Runtime {
    /// Goroutines with these states, at rest on stacks of their own.
    fn of(states: &[u64]) -> Self {
        let stacks = vec![0u64; 64 * states.len()];
        let layout = layout();
        let goroutine = |(ix, &status): (usize, &u64)| {
            let top = stacks.as_ptr() as u64 + 512 * (ix as u64 + 1);
            let mut words = [0; 64];
            for (at, value) in [
                (layout.stack_hi, top),
                (layout.sp, top - 256),
                (layout.status, status),
                (layout.id, ix as u64 + 1),
                (layout.reason, 1),
                (layout.start, 7), // a function of no file is not the runtime's
            ] {
                words[at as usize / 8] = value;
            }
            words
        };
        Self {
            goroutines: states.iter().enumerate().map(goroutine).collect(),
            list: Vec::new(),
            variables: [0; 3],
            stacks,
        }
        .listed()
    }

    /// With the list of what there is.
    fn listed(mut self) -> Self {
        let each = self.goroutines.iter();
        self.list = each.map(|g| g.as_ptr() as u64).collect();
        self.variables = [self.list.len() as u64, self.list.as_ptr() as u64, 4];
        self
    }

    fn set(&mut self, goroutine: usize, at: u64, value: u64) {
        self.goroutines[goroutine][at as usize / 8] = value;
    }

    fn program(&self) -> Program {
        let variables = std::hint::black_box(&self.variables);
        assert!(!self.stacks.is_empty());
        let at = |ix: usize| &variables[ix] as *const u64 as u64;
        Program {
            version: "go1.26.8".into(),
            layout: layout(),
            count: at(0),
            goroutines: at(1),
            procs: at(2),
            reasons: vec![String::new(), "chan receive".into()],
        }
    }

    /// What so many looks found, and what they add up to.
    fn looked(&self, looks: usize) -> (Vec<Option<(u64, u64)>>, GoProgram) {
        let (pid, program) = (std::process::id(), self.program());
        let unwinder = &mut Unwinder::new(pid, &Files::new());
        let (mut scratch, mut tally) = (Scratch::default(), Tally::default());
        let mut take = |_| {
            let look = Look {
                pid,
                program: &program,
                unwinder,
            };
            look.take(&mut scratch, &mut tally)
        };
        let found = (0..looks).map(&mut take).collect();
        (found, tally.into_row(&program.reasons))
    }
}

fn layout() -> Layout {
    let layout = Layout::of_version("go1.26.8").unwrap();
    // A byte of its own, in a word of its own.
    Layout {
        reason: 400,
        turns: 408,
        ..layout
    }
}

#[test]
fn goroutines_are_counted_by_what_they_do() {
    let runtime = Runtime::of(&[WAITING, RUNNING, RUNNABLE, RUNNABLE, PREEMPTED]);
    let (found, row) = runtime.looked(3);
    assert_eq!(found, [Some((5, 0)); 3]);
    assert_eq!((row.looks, row.goroutines), (3, 15));
    let state = GoState {
        procs: 4,
        running: 1,
        in_calls: 0,
        runnable: 2,
        n: 3,
    };
    assert_eq!(row.states, [state]);
    let waits: u64 = row.waits.iter().map(|wait| wait.n).sum();
    assert_eq!(waits, 6, "who was preempted waits, too");
}

#[test]
fn where_a_goroutine_is_in_a_call_is_known_if_it_has_a_stack() {
    let mut runtime = Runtime::of(&[IN_CALL, IN_CALL, WAITING]);
    // That of a thread of C that has called Go at some time.
    runtime.set(1, layout().sp, 0);
    let (found, row) = runtime.looked(2);
    assert_eq!(found, [Some((3, 0)); 2]);
    assert_eq!(row.states[0].in_calls, 2);
    let calls = row.waits.iter().find(|wait| wait.reason == GO_IN_CALL);
    let calls = calls.expect("one of them");
    assert_eq!((calls.n, calls.waits, calls.place), (2, 1, None));
    let waits: u64 = row.waits.iter().map(|wait| wait.n).sum();
    assert_eq!(waits, 4);
}

#[test]
fn a_goroutine_that_cannot_be_one_is_unsound() {
    for status in [WAITING, PREEMPTED, RUNNABLE] {
        let mut runtime = Runtime::of(&[WAITING, status]);
        // Above its own stack; and so far below that no stack is so large.
        for sp in [u64::MAX, 0] {
            runtime.set(1, layout().sp, sp);
            assert_eq!(runtime.looked(1).0, [Some((2, 1))], "{status} {sp:#x}");
        }
    }
    let mut runtime = Runtime::of(&[WAITING]);
    runtime.set(0, layout().reason, 2);
    assert_eq!(runtime.looked(1).0, [Some((1, 1))], "no such reason");
    runtime.set(0, layout().reason, 1);
    runtime.set(0, layout().id, 1 << 48);
    assert_eq!(runtime.looked(1).0, [Some((1, 1))], "too many");
}

#[test]
fn what_lies_about_itself_does_no_harm() {
    let mut runtime = Runtime::of(&[WAITING]);
    for nonsense in [8, 4096, u64::MAX / 2, u64::MAX] {
        for field in [layout().pc, layout().bp, layout().start, layout().waiting] {
            runtime.set(0, field, nonsense);
        }
        assert_eq!(runtime.looked(2).0, [Some((1, 0)); 2]);
    }
}

#[test]
fn a_look_that_is_not_of_all_is_none() {
    let mut runtime = Runtime::of(&[WAITING; 5]);
    for count in [0, 1 << 40, u64::MAX] {
        runtime.variables[0] = count;
        assert_eq!(runtime.looked(1).0, [None], "{count}");
    }
    runtime.variables[0] = 5;
    runtime.list[3] = 1 << 56; // where nothing is
    let (found, row) = runtime.looked(1);
    assert_eq!((found, row.looks), (vec![None], 0));
    runtime.variables[1] = 1 << 56;
    assert_eq!(runtime.looked(1).0, [None]);
}

#[test]
fn of_very_many_each_stands_for_several() {
    let runtime = Runtime::of(&[WAITING; 5000]);
    let (found, row) = runtime.looked(2);
    assert_eq!(found, [Some((2500, 0)); 2]);
    assert_eq!(row.goroutines, 10_000);
    assert_eq!(row.states, [], "who runs is not known of all");
}
