//! What the terminal and the locale allow.

use std::io::IsTerminal;

use clap::ValueEnum;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    Auto,
    /// Also into files and pipes.
    Always,
    /// Not at all.
    Never,
}

/// Columns without a terminal.
const FILE_WIDTH: usize = 100;

/// Wider than this, lines are hard to follow.
const MAX_WIDTH: usize = 120;

/// How to write on one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Columns.
    pub width: usize,
    /// Use colours.
    pub color: bool,
    /// The locale is UTF-8.
    pub unicode: bool,
}

impl Look {
    /// For a stream, or for a file if there is none.
    pub fn of(stream: Option<&dyn Stream>, color: Color, width: Option<usize>) -> Self {
        let env = |name: &str| std::env::var(name).unwrap_or_default();
        let columns = stream.and_then(Stream::columns);
        Self {
            width: width.unwrap_or_else(|| columns.map_or(FILE_WIDTH, |w| w.min(MAX_WIDTH))),
            color: colored(
                color,
                stream.is_some_and(Stream::is_tty),
                &env("NO_COLOR"),
                &env("TERM"),
            ),
            unicode: is_utf8(&env("LC_ALL"), &env("LC_CTYPE"), &env("LANG")),
        }
    }
}

/// Where a report goes.
pub trait Stream {
    /// A person looks at it.
    fn is_tty(&self) -> bool;
    /// Its columns, if it is a terminal that says so.
    fn columns(&self) -> Option<usize>;
}

impl<T: IsTerminal + std::os::fd::AsFd> Stream for T {
    fn is_tty(&self) -> bool {
        self.is_terminal()
    }

    fn columns(&self) -> Option<usize> {
        let (width, _) = terminal_size::terminal_size_of(self)?;
        (width.0 > 0).then_some(width.0.into())
    }
}

fn colored(choice: Color, is_tty: bool, no_color: &str, term: &str) -> bool {
    match choice {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => is_tty && no_color.is_empty() && term != "dumb",
    }
}

/// The first of the three variables that is set decides (POSIX, "Environment Variables", 8.2).
fn is_utf8(lc_all: &str, lc_ctype: &str, lang: &str) -> bool {
    let locale = [lc_all, lc_ctype, lang]
        .into_iter()
        .find(|v| !v.is_empty())
        .unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_where_they_are_wanted() {
        for (choice, tty, no_color, term, expected) in [
            (Color::Auto, true, "", "xterm", true),
            (Color::Auto, false, "", "xterm", false),
            (Color::Auto, true, "1", "xterm", false),
            (Color::Auto, true, "", "dumb", false),
            (Color::Always, false, "1", "dumb", true),
            (Color::Never, true, "", "xterm", false),
        ] {
            assert_eq!(
                colored(choice, tty, no_color, term),
                expected,
                "{choice:?} {tty} {no_color} {term}"
            );
        }
    }

    #[test]
    fn the_first_locale_variable_decides() {
        assert!(is_utf8("", "", "en_US.UTF-8"));
        assert!(is_utf8("C.utf8", "", ""));
        assert!(!is_utf8("C", "", "en_US.UTF-8"));
        assert!(!is_utf8("", "POSIX", "en_US.UTF-8"));
        assert!(!is_utf8("", "", ""));
    }

    #[test]
    fn files_are_plain_and_as_wide_as_told() {
        let look = Look::of(None, Color::Auto, None);
        assert_eq!((look.width, look.color), (FILE_WIDTH, false));
        assert_eq!(Look::of(None, Color::Never, Some(60)).width, 60);
    }
}
