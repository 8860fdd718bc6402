//! The focus of a metric: which part of the program it is measured of.

use std::fmt;

use crate::glob;

/// What a focus can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A function, by its name or as `file+0xADDRESS`.
    Function,
    /// The file that the function is in.
    Module,
    /// Where a function is called: another function, or `file:line`.
    Caller,
    /// Another function: counted only while the thread is inside of it.
    In,
    /// A lock, as of [`Key::Lock`]: counted only while the thread holds it.
    Holding,
    /// A lock or another object, by its name, creation site or address.
    Lock,
    /// Files and sockets by name.
    File,
    /// Threads by their group.
    Group,
    /// Threads by name or number.
    Thread,
    /// Processes by name or number.
    Process,
}

impl Key {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 10] = [
        Self::Function,
        Self::Module,
        Self::Caller,
        Self::In,
        Self::Holding,
        Self::Lock,
        Self::File,
        Self::Group,
        Self::Thread,
        Self::Process,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Module => "module",
            Self::Caller => "caller",
            Self::In => "in",
            Self::Holding => "holding",
            Self::Lock => "lock",
            Self::File => "file",
            Self::Group => "group",
            Self::Thread => "thread",
            Self::Process => "process",
        }
    }
}

/// A conjunction: every key that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Focus {
    /// In the order of [`Key::ALL`], each key at most once.
    parts: Vec<(Key, String)>,
}

impl Focus {
    /// The whole program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Narrows it down; a key that is there already gets the new value.
    #[must_use]
    pub fn with(mut self, key: Key, value: impl Into<String>) -> Self {
        self.parts.retain(|(k, _)| *k != key);
        self.parts.push((key, value.into()));
        self.parts.sort();
        self
    }

    /// The value of a key.
    pub fn get(&self, key: Key) -> Option<&str> {
        let part = self.parts.iter().find(|(k, _)| *k == key)?;
        Some(&part.1)
    }

    /// The keys that are given.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.parts.iter().map(|(key, _)| *key)
    }

    /// Whether it leaves out any threads.
    pub fn selects_threads(&self) -> bool {
        self.keys()
            .any(|key| matches!(key, Key::Group | Key::Thread | Key::Process))
    }

    /// Whether a thread is in it. Numbers stand for threads and processes by id; names are patterns
    /// with `*` and `?`.
    pub fn holds(&self, thread: &ThreadName<'_>) -> bool {
        let is = |key: Key, name: &str, number: Option<u32>| {
            self.get(key).is_none_or(|pattern| {
                glob::matches(pattern, name) || number.is_some_and(|n| pattern == n.to_string())
            })
        };
        is(Key::Thread, thread.name, Some(thread.tid))
            && is(Key::Group, thread.group, None)
            && is(Key::Process, thread.process, Some(thread.pid))
    }
}

/// What a thread is called.
#[derive(Debug, Clone, Copy)]
pub struct ThreadName<'a> {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: &'a str,
    /// The name of its group.
    pub group: &'a str,
    /// The number of its process.
    pub pid: u32,
    /// The name of its process.
    pub process: &'a str,
}

impl fmt::Display for Focus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (ix, (key, value)) in self.parts.iter().enumerate() {
            let separator = if ix > 0 { ", " } else { "" };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            write!(f, "{separator}{}=\"{value}\"", key.name())?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, name: &'static str) -> ThreadName<'static> {
        ThreadName {
            tid,
            name,
            group: "pool-#",
            pid: 7,
            process: "server",
        }
    }

    #[test]
    fn every_key_must_hold() {
        let focus = Focus::new()
            .with(Key::Thread, "pool-*")
            .with(Key::Process, "7");
        assert!(focus.holds(&thread(8, "pool-1")));
        assert!(!focus.holds(&thread(8, "main")));
        assert!(!focus.with(Key::Group, "other").holds(&thread(8, "pool-1")));
        assert!(Focus::new().with(Key::Thread, "8").holds(&thread(8, "x")));
        assert!(!Focus::new().with(Key::Thread, "8").holds(&thread(88, "x")));
    }

    #[test]
    fn is_written_in_one_order_with_quotes_escaped() {
        let focus = Focus::new()
            .with(Key::Thread, "a\"b")
            .with(Key::Function, "f")
            .with(Key::Function, "g");
        assert_eq!(focus.to_string(), r#"{function="g", thread="a\"b"}"#);
    }
}
