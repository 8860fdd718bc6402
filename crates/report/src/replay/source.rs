//! Lines of a critical section, by what they need the lock for.

use convoy_replay::analysis::{Region, SourceLine};

/// What a line does in its section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Takes or releases the lock.
    Lock,
    /// Touches data that several threads use and one of them writes: needs the lock.
    Shared,
    /// Touches only private data, between lines that need the lock.
    Private,
    /// Touches only private data, before the first or after the last line that needs the lock.
    Movable,
    /// Was not seen to run.
    NotRun,
}

impl Role {
    /// Stable id, also a class of the style sheet.
    pub fn id(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Shared => "shared",
            Self::Private => "private",
            Self::Movable => "movable",
            Self::NotRun => "not-run",
        }
    }
}

/// The lines of a region, each with its role.
pub fn lines(region: &Region) -> impl Iterator<Item = (Role, &SourceLine)> {
    let lines = &region.source;
    let first = lines.iter().position(|line| line.shared);
    let last = lines.iter().rposition(|line| line.shared);
    let needs_lock = first.zip(last);
    let is_site = |line: &SourceLine| {
        let mut sites = region.sites.iter();
        sites.any(|site| site.line == line.line && same_file(&site.file, &line.file))
    };
    lines.iter().enumerate().map(move |(i, line)| {
        let role = match needs_lock {
            _ if line.shared => Role::Shared,
            _ if is_site(line) => Role::Lock,
            _ if line.share <= 0.0 => Role::NotRun,
            Some((first, last)) if (first..=last).contains(&i) => Role::Private,
            _ => Role::Movable,
        };
        (role, line)
    })
}

/// Whether one path ends in the other: debug information has relative ones.
fn same_file(a: &str, b: &str) -> bool {
    let ends = |long: &str, short: &str| {
        let rest = long.strip_suffix(short);
        !short.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    };
    ends(a, b) || ends(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_replay::analysis::Place;

    #[test]
    fn private_lines_at_the_edges_can_move_and_those_between_cannot() {
        let line = |line, share, shared| SourceLine {
            file: "/src/a.c".into(),
            line,
            share,
            shared,
            ..SourceLine::default()
        };
        let site = |line| Place {
            file: "a.c".into(),
            line,
            ..Place::default()
        };
        let region = Region {
            sites: vec![site(1), site(7)],
            source: vec![
                line(1, 0.1, false),
                line(2, 0.2, false),
                line(3, 0.2, true),
                line(4, 0.2, false),
                line(5, 0.2, true),
                line(6, 0.0, false),
                line(7, 0.1, false),
            ],
            ..Region::default()
        };
        let roles: Vec<_> = lines(&region).map(|(role, _)| role).collect();
        use Role::{Lock, Movable, NotRun, Private, Shared};
        assert_eq!(
            roles,
            [Lock, Movable, Shared, Private, Shared, NotRun, Lock]
        );
    }

    #[test]
    fn files_are_the_same_where_one_path_ends_in_the_other() {
        assert!(same_file("/x/src/a.c", "src/a.c") && same_file("a.c", "a.c"));
        assert!(!same_file("/x/ba.c", "a.c") && !same_file("a.c", ""));
    }
}
