//! What could be made faster.

use std::fmt;

use serde::Serialize;

/// A target, as the user names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Target {
    /// What it is.
    pub kind: Kind,
    /// Its name: a function, functions of a call path, a lock (name, site or address), `FILE:LINE`,
    /// a thread or group, `sleep`.
    pub name: String,
}

/// Kinds of targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A function's own instructions.
    Function,
    /// Instructions of a source line.
    Line,
    /// Critical sections of a lock.
    Lock,
    /// A wait.
    Wait,
    /// What runs below functions on the call stack: a function with its callees, or a call path.
    Path,
    /// All that threads of a name or group run.
    Threads,
}

/// Why a text names no target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// What was found.
    pub found: String,
    /// What to write instead.
    pub fix: String,
}

impl Kind {
    const ALL: [(&'static str, Self); 6] = [
        ("fn", Self::Function),
        ("line", Self::Line),
        ("lock", Self::Lock),
        ("wait", Self::Wait),
        ("path", Self::Path),
        ("threads", Self::Threads),
    ];

    /// The word before the colon.
    pub fn prefix(self) -> &'static str {
        let of = Self::ALL.iter().find(|(_, kind)| *kind == self);
        of.map_or("fn", |(prefix, _)| prefix)
    }

    /// Whether samples of what threads run tell if it was met.
    pub fn is_code(self) -> bool {
        !matches!(self, Self::Lock | Self::Wait)
    }

    /// Whether the agent alone can tell: an instruction pointer does not.
    pub fn is_of_agent(self) -> bool {
        matches!(self, Self::Path | Self::Threads)
    }
}

impl Target {
    /// From its parts.
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }

    /// Functions of a call path, outermost first.
    pub fn steps(&self) -> Vec<&str> {
        self.name.split('>').map(str::trim).collect()
    }

    /// File and number of a line.
    pub fn line(&self) -> Option<(&str, u32)> {
        let (file, line) = self.name.rsplit_once(':')?;
        Some((file, line.parse().ok()?))
    }
}

impl std::str::FromStr for Target {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = |found: String, fix: &str| Invalid {
            found,
            fix: fix.into(),
        };
        let known = "write fn:NAME, path:NAME, path:OUTER>INNER, lock:NAME, line:FILE:LINE, \
                     threads:NAME or wait:sleep";
        let (prefix, name) = text
            .split_once(':')
            .ok_or_else(|| wrong(format!("target {text:?} has no kind"), known))?;
        let kind = Kind::ALL.iter().find(|(known, _)| *known == prefix);
        let Some((_, kind)) = kind else {
            return Err(wrong(
                format!("target {text:?} has the unknown kind {prefix:?}"),
                known,
            ));
        };
        if name.is_empty() {
            return Err(wrong(format!("target {text:?} has no name"), known));
        }
        let line = name
            .rsplit_once(':')
            .and_then(|(_, n)| n.parse::<u32>().ok());
        if *kind == Kind::Line && line.is_none() {
            return Err(wrong(
                format!("target {text:?} has no line number"),
                "write line:FILE:LINE, for example line:parse.c:88",
            ));
        }
        let target = Self::new(*kind, name);
        if *kind == Kind::Wait && name != "sleep" {
            return Err(wrong(
                format!("wait {name:?} cannot be a target"),
                why_no_wait(name),
            ));
        }
        if *kind == Kind::Path {
            let steps = target.steps();
            let is_twice = |(n, step): (usize, &&str)| steps[..n].contains(step);
            if steps.iter().any(|step| step.is_empty()) || steps.len() > STEPS_MOST {
                return Err(wrong(
                    format!(
                        "call path {name:?} has {} functions, or one without name",
                        steps.len()
                    ),
                    "write path:OUTER>INNER, with at most 16 functions",
                ));
            }
            if steps.iter().enumerate().any(is_twice) {
                return Err(wrong(
                    format!("call path {name:?} names a function twice"),
                    "name each once: a function that calls itself is one step",
                ));
            }
        }
        Ok(target)
    }
}

/// Functions of a call path.
const STEPS_MOST: usize = 16;

/// What to try instead of a wait that no experiment can make longer without making something else of
/// it. `wait`: as the user names it.
fn why_no_wait(wait: &str) -> &'static str {
    let is = |words: &[&str]| words.iter().any(|word| wait.starts_with(word));
    if is(&["cond", "barrier", "join", "sem", "futex"]) {
        "threads wait there for other threads, and no longer than those take: name what these run, by \
         fn:, path: or threads:"
    } else if is(&[
        "read", "write", "send", "recv", "fsync", "io", "poll", "epoll", "accept",
    ]) {
        "the time of a device or peer is outside of the program: make it slower there, or see with \
         `convoy -- COMMAND` which threads wait for it"
    } else if is(&["page", "fault"]) {
        "page faults are kernel time of the code that meets them: name its function, by fn:, with \
         --estimator slow"
    } else {
        "write wait:sleep: all relative sleeps"
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.prefix(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_a_kind_and_a_name() {
        for (text, kind, name) in [
            ("fn:ns::work", Kind::Function, "ns::work"),
            ("lock:cache_lock", Kind::Lock, "cache_lock"),
            ("line:src/a.c:88", Kind::Line, "src/a.c:88"),
            ("wait:sleep", Kind::Wait, "sleep"),
            ("path:main>parse>read", Kind::Path, "main>parse>read"),
            ("threads:worker-#", Kind::Threads, "worker-#"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.kind, target.name.as_str()), (kind, name));
            assert_eq!(target.to_string(), text);
        }
    }

    #[test]
    fn rejects_what_names_nothing() {
        for text in [
            "",
            "work",
            "fn:",
            "thread:x",
            "threads:",
            "path:a>",
            "path:a>b>a",
            "line:a.c",
            "line:a.c:x",
            "wait:poll",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn waits_for_others_lead_to_what_these_run() {
        for (wait, fix) in [
            ("condition", "for other threads"),
            ("barrier", "for other threads"),
            ("read(/var/log)", "device"),
            ("page-fault", "kernel time"),
            ("lunch", "wait:sleep"),
        ] {
            let invalid = format!("wait:{wait}").parse::<Target>().unwrap_err();
            assert!(invalid.fix.contains(fix), "{wait}: {}", invalid.fix);
        }
    }
}
