//! What could be made faster.

use std::fmt;

use serde::Serialize;

/// A target, as the user names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Target {
    /// What it is.
    pub kind: Kind,
    /// Its name: a function, a lock (name, site or address), `FILE:LINE`, `sleep`.
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
    const ALL: [(&'static str, Self); 4] = [
        ("fn", Self::Function),
        ("line", Self::Line),
        ("lock", Self::Lock),
        ("wait", Self::Wait),
    ];

    /// The word before the colon.
    pub fn prefix(self) -> &'static str {
        let of = Self::ALL.iter().find(|(_, kind)| *kind == self);
        of.map_or("fn", |(prefix, _)| prefix)
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
        let known = "write fn:NAME, lock:NAME, line:FILE:LINE or wait:sleep";
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
        if *kind == Kind::Wait && name != "sleep" {
            return Err(wrong(
                format!("wait {name:?} cannot be a target"),
                "write wait:sleep: all relative sleeps",
            ));
        }
        Ok(Self::new(*kind, name))
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
            "line:a.c",
            "line:a.c:x",
            "wait:poll",
        ] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
