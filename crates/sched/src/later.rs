//! An accounting that can wait. On a machine that has nothing left, what an event takes is taken from the program that is
//! recorded: to put it down costs a tenth of what it costs to account for it. So it is put down, and accounted for when too much
//! waits, or at the end.

use std::collections::VecDeque;

use convoy_profile::ThreadRef;

use crate::accounting::{Accounting, Output};
use crate::event::{Event, Options, Tid};

/// Events that may wait: 5 MB of them, a second or two of a program that switches often. They are all due when a thread is made: with more, the
/// rings could be full before that is done.
const MOST: usize = 100_000;
/// They lie in pieces of so many, which are given back one by one: 400 kB.
const PIECE: usize = 8192;
/// With more threads than this their own tables are what memory is for.
const MANY_THREADS: usize = 1000;

/// The accounting, and the events that wait for it. The result is the same as without waiting.
#[derive(Debug)]
pub struct Later {
    accounting: Accounting,
    /// In the order in which they came. Only the last piece is not full.
    waiting: VecDeque<Vec<Event>>,
    /// So many of the first piece are accounted for.
    done: usize,
    most: usize,
}

impl Later {
    /// Before the first event.
    pub fn new(options: Options) -> Self {
        Self::with_most(options, MOST)
    }

    /// At most so many events wait.
    pub fn with_most(options: Options, most: usize) -> Self {
        Self {
            accounting: Accounting::new(options),
            waiting: VecDeque::new(),
            done: 0,
            most,
        }
    }

    /// The next event, as [`Accounting::push`]: it may wait.
    pub fn push(&mut self, event: Event) {
        match event {
            // A thread must be known to who asks for it.
            Event::Fork { .. } | Event::Exec { .. } | Event::Init { .. } => {
                self.account(usize::MAX);
                self.accounting.push(&event);
            }
            Event::Lost { .. } => self.accounting.push(&event),
            _ if self.accounting.threads() > MANY_THREADS => {
                self.account(usize::MAX);
                self.accounting.push(&event);
            }
            _ => {
                self.wait(event);
                if self.len() > self.most {
                    self.account(PIECE);
                }
            }
        }
    }

    fn wait(&mut self, event: Event) {
        match self.waiting.back_mut() {
            Some(piece) if piece.len() < PIECE => piece.push(event),
            _ => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push(event);
                self.waiting.push_back(piece);
            }
        }
    }

    fn len(&self) -> usize {
        let full = self.waiting.len().saturating_sub(1) * PIECE;
        full + self.waiting.back().map_or(0, Vec::len) - self.done
    }

    /// Accounts for so many of the events that wait, the oldest first.
    fn account(&mut self, mut how_many: usize) {
        while let Some(piece) = self.waiting.front().filter(|_| how_many > 0) {
            let upto = piece.len().min(self.done.saturating_add(how_many));
            for event in &piece[self.done..upto] {
                self.accounting.push(event);
            }
            how_many -= upto - self.done;
            self.done = upto;
            if upto == piece.len() {
                self.waiting.pop_front();
                self.done = 0;
            }
        }
    }

    /// As [`Accounting::thread`].
    pub fn thread(&self, tid: Tid) -> Option<ThreadRef> {
        self.accounting.thread(tid)
    }

    /// As [`Accounting::finish`], with all that waits.
    pub fn finish(mut self, end_ns: u64) -> Output {
        self.account(usize::MAX);
        self.accounting.finish(end_ns)
    }
}
