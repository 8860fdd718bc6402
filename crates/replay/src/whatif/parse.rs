//! Reader of what-if queries, see docs/replay.md.

use super::{NameError, Names, WhatIf};

/// Parts of a lock and sections of a batch, at most.
const MAX_WAYS: u32 = 4096;
/// CPUs, permits and threads of a group, at most.
const MAX_THREADS: u32 = 4096;

/// A query cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A name leads nowhere.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A number is missing or out of its range.
    #[error("`{found}` in `{part}`: {expected}")]
    Number {
        /// The part of the query.
        part: String,
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
    /// No such what-if.
    #[error(
        "`{0}` is no what-if; there are: remove L, remove section L, L / K, rwlock L, shorten L 50%, \
         shorten gap L 50%, adaptive L, spin L, atomic L, blocking L, batch L 8, balance BARRIER, \
         permits SEMAPHORE=N, cpus N, threads GROUP=N, and combinations with ` + `"
    )]
    Form(String),
}

/// Reads a query: what-ifs with ` + ` between them.
pub fn parse(query: &str, names: &Names) -> Result<Vec<WhatIf>, ParseError> {
    let parts = split_outside_quotes(query, " + ");
    parts
        .iter()
        .map(|part| parse_one(part.trim(), names))
        .collect()
}

fn parse_one(part: &str, names: &Names) -> Result<WhatIf, ParseError> {
    let form = || ParseError::Form(part.to_owned());
    if let Some((name, ways)) = divided(part) {
        let ways = whole(part, ways, MAX_WAYS)?;
        let target = names.target(unquote(name))?;
        return Ok(WhatIf::Shard { target, ways });
    }
    let (verb, rest) = part.split_once(char::is_whitespace).ok_or_else(form)?;
    let rest = rest.trim();
    let target = |name: &str| names.target(unquote(name));
    Ok(match verb {
        "remove" => match rest
            .strip_prefix("section ")
            .or(rest.strip_prefix("sections "))
        {
            Some(name) => WhatIf::RemoveSections(target(name)?),
            None => WhatIf::Remove(target(rest)?),
        },
        "rwlock" => WhatIf::RwLock(target(rest)?),
        "spin" => WhatIf::Spin(target(rest)?),
        "atomic" => WhatIf::Atomic(target(rest)?),
        "blocking" => WhatIf::Blocking(target(rest)?),
        "adaptive" => match last_word(rest) {
            Some((name, spin)) if nanoseconds(spin).is_some() => WhatIf::Adaptive {
                target: target(name)?,
                spin_ns: nanoseconds(spin),
            },
            _ => WhatIf::Adaptive {
                target: target(rest)?,
                spin_ns: None,
            },
        },
        "shorten" => {
            let (of, share) = last_word(rest).ok_or_else(form)?;
            let share = percent(part, share)?;
            match of.strip_prefix("gap ") {
                Some(name) => WhatIf::ShortenGap {
                    target: target(name)?,
                    share,
                },
                None => WhatIf::ShortenHold {
                    target: target(of)?,
                    share,
                },
            }
        }
        "batch" => {
            let (name, size) = last_word(rest).ok_or_else(form)?;
            WhatIf::Batch {
                target: target(name)?,
                size: whole(part, size, MAX_WAYS)?,
            }
        }
        "balance" => WhatIf::Balance(names.barriers(unquote(rest))?),
        "permits" => {
            let (name, count) = rest.rsplit_once('=').ok_or_else(form)?;
            WhatIf::Permits {
                target: names.semaphores(unquote(name))?,
                count: whole(part, count, MAX_THREADS)?,
            }
        }
        "cpus" => WhatIf::Cpus(whole(part, rest, MAX_THREADS)?),
        "threads" => {
            let (name, count) = rest.rsplit_once('=').ok_or_else(form)?;
            WhatIf::Threads {
                group: names.group(unquote(name))?,
                count: whole(part, count, MAX_THREADS)?,
            }
        }
        _ => return Err(form()),
    })
}

/// Name and number of `NAME / NUMBER`. Names may contain slashes themselves.
fn divided(part: &str) -> Option<(&str, &str)> {
    let (name, ways) = part.rsplit_once('/')?;
    let is_number = |c: char| c.is_ascii_digit() || c.is_whitespace();
    (!ways.trim().is_empty() && ways.chars().all(is_number)).then_some((name, ways))
}

/// Pieces of a text between separators that are not inside double quotes.
fn split_outside_quotes<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    let mut pieces = Vec::new();
    let (mut begin, mut quoted) = (0, false);
    for (at, c) in text.char_indices() {
        quoted ^= c == '"';
        if !quoted && at >= begin && text[at..].starts_with(separator) {
            pieces.push(&text[begin..at]);
            begin = at + separator.len();
        }
    }
    pieces.push(&text[begin..]);
    pieces
}

fn unquote(name: &str) -> &str {
    let name = name.trim();
    let inner = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'));
    inner.unwrap_or(name)
}

/// What is before the last word, and that word.
fn last_word(text: &str) -> Option<(&str, &str)> {
    let (before, word) = text.trim().rsplit_once(char::is_whitespace)?;
    Some((before.trim(), word))
}

fn whole(part: &str, text: &str, most: u32) -> Result<u32, ParseError> {
    let text = text.trim();
    let number = text.parse().ok().filter(|n| (1..=most).contains(n));
    number.ok_or_else(|| ParseError::Number {
        part: part.to_owned(),
        found: text.to_owned(),
        expected: "expected a whole number from 1 to 4096",
    })
}

fn percent(part: &str, text: &str) -> Result<f64, ParseError> {
    let number = text
        .strip_suffix('%')
        .and_then(|number| number.parse::<f64>().ok());
    let number = number.filter(|percent| (0.0..=100.0).contains(percent));
    number
        .map(|percent| percent / 100.0)
        .ok_or_else(|| ParseError::Number {
            part: part.to_owned(),
            found: text.to_owned(),
            expected: "expected a percentage from 0% to 100%",
        })
}

/// `500ns`, `10us`, `1ms`.
fn nanoseconds(text: &str) -> Option<f32> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let scale = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        _ => return None,
    };
    let number: f32 = number.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * scale)
}
