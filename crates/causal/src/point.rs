//! Points that the user names as progress: `--progress` and `--latency`.

use std::fmt;
use std::str::FromStr;

use crate::target::Invalid;

/// A place that threads pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// What it is.
    pub kind: PointKind,
    /// Its name.
    pub name: String,
}

/// Kinds of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointKind {
    /// The entry of a function.
    Function,
    /// A system call: the entry of the C library's function.
    SystemCall,
    /// A point that the program names by coz.h.
    Coz,
}

/// Two points between which the time is measured, or a latency of coz.h.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latency {
    /// Where it begins.
    pub begin: Point,
    /// Where it ends; the same as `begin` for one of coz.h, which is a name with both.
    pub end: Point,
}

const KNOWN: &str = "write fn:NAME, syscall:NAME or coz:NAME";
const KNOWN_PAIR: &str = "write fn:BEGIN..fn:END or coz:NAME";

impl PointKind {
    const ALL: [(&'static str, Self); 3] = [
        ("fn", Self::Function),
        ("syscall", Self::SystemCall),
        ("coz", Self::Coz),
    ];

    /// The word before the colon.
    fn prefix(self) -> &'static str {
        let of = Self::ALL.iter().find(|(_, kind)| *kind == self);
        of.map_or("fn", |(prefix, _)| prefix)
    }
}

impl FromStr for Point {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = |what: &str| Invalid {
            found: format!("progress point {text:?} {what}"),
            fix: KNOWN.into(),
        };
        let (prefix, name) = text.split_once(':').ok_or_else(|| wrong("has no kind"))?;
        let kind = PointKind::ALL.iter().find(|(known, _)| *known == prefix);
        let (_, kind) = kind.ok_or_else(|| wrong("has an unknown kind"))?;
        match name.is_empty() {
            true => Err(wrong("has no name")),
            false => Ok(Self {
                kind: *kind,
                name: name.into(),
            }),
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.prefix(), self.name)
    }
}

impl FromStr for Latency {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = |what: &str| Invalid {
            found: format!("latency {text:?} {what}"),
            fix: KNOWN_PAIR.into(),
        };
        let Some((begin, end)) = text.split_once("..") else {
            let point: Point = text.parse().map_err(|_| wrong("is no pair of points"))?;
            return match point.kind {
                PointKind::Coz => Ok(Self {
                    begin: point.clone(),
                    end: point,
                }),
                _ => Err(wrong("has no end")),
            };
        };
        let (begin, end): (Point, Point) = (begin.parse()?, end.parse()?);
        match [begin.kind, end.kind].contains(&PointKind::Coz) {
            true => Err(wrong("has an end of its own in coz.h")),
            false if begin == end => Err(wrong("begins where it ends")),
            false => Ok(Self { begin, end }),
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.begin == self.end {
            true => self.begin.fmt(f),
            false => write!(f, "{}..{}", self.begin, self.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_a_kind_and_a_name() {
        for text in ["fn:ns::handle", "syscall:sendmsg", "coz:request"] {
            assert_eq!(text.parse::<Point>().unwrap().to_string(), text);
        }
        for text in ["", "handle", "fn:", "lock:x"] {
            assert!(text.parse::<Point>().is_err(), "{text}");
        }
    }

    #[test]
    fn latencies_have_two_ends() {
        for text in [
            "fn:begin..fn:end",
            "syscall:read..syscall:write",
            "coz:request",
        ] {
            assert_eq!(text.parse::<Latency>().unwrap().to_string(), text);
        }
        for text in [
            "fn:f",
            "fn:f..fn:f",
            "fn:f..coz:end",
            "fn:f..",
            "..fn:f",
            "coz:a..coz:b",
        ] {
            assert!(text.parse::<Latency>().is_err(), "{text}");
        }
    }
}
