//! Lines of styled words, wrapped to a width with hanging indents.
//!
//! Names come from the program under test, so that nothing of them may reach the terminal as a
//! control sequence: every character is checked on its way in.

use unicode_width::UnicodeWidthChar;

/// A blank at which no line ends: within what is meant to be copied as a whole.
pub const TIED: char = '\u{e000}';

/// How a word looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// As is.
    #[default]
    Plain,
    /// What the eye should find first.
    Strong,
    /// What may be skipped.
    Dim,
    /// A loss.
    Bad,
    /// A gain, or a clean bill.
    Good,
    /// A caveat.
    Warn,
    /// A section's title.
    Title,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Bad => "\x1b[31m",
            Self::Good => "\x1b[1;32m",
            Self::Warn => "\x1b[33m",
            Self::Title => "\x1b[1;36m",
        }
    }
}

/// A piece of a line. It may hold several words.
#[derive(Debug, Clone, Default)]
pub struct Span {
    text: String,
    tone: Tone,
}

/// Unstyled text.
pub fn plain(text: impl Into<String>) -> Span {
    toned(Tone::Plain, text)
}

/// Text in a tone.
pub fn toned(tone: Tone, text: impl Into<String>) -> Span {
    Span {
        text: text.into(),
        tone,
    }
}

/// A text under construction.
#[derive(Debug)]
pub struct Page {
    out: String,
    width: usize,
    color: bool,
    unicode: bool,
}

impl Page {
    /// An empty page. Narrower than 40 columns nothing readable fits, so that is the least.
    pub fn new(width: usize, color: bool, unicode: bool) -> Self {
        Self {
            out: String::new(),
            width: width.max(40),
            color,
            unicode,
        }
    }

    /// Columns to be filled.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Characters beyond ASCII may be used.
    pub fn unicode(&self) -> bool {
        self.unicode
    }

    /// Lines so far.
    pub fn lines(&self) -> usize {
        self.out.lines().count()
    }

    /// What was written.
    pub fn finish(self) -> String {
        self.out
    }

    /// Lines that `write` would add.
    pub fn measure(&self, write: impl FnOnce(&mut Self)) -> usize {
        let mut scratch = Self::new(self.width, false, self.unicode);
        write(&mut scratch);
        scratch.out.lines().count()
    }

    /// An empty line, unless there is one already.
    pub fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// A section's title on a line of its own, after an empty one.
    pub fn title(&mut self, text: &str) {
        self.gap();
        self.line(0, vec![toned(Tone::Title, text)]);
    }

    /// A line that is never wrapped: the row of a table. Trailing blanks are dropped.
    pub fn row(&mut self, spans: &[Span]) {
        let mut line = String::new();
        for span in spans {
            self.paint(&mut line, span.tone, &span.text);
        }
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    /// Words that follow one another, wrapped; all lines begin at `indent`.
    pub fn line(&mut self, indent: usize, spans: Vec<Span>) {
        self.hang(indent, Span::default(), 0, spans);
    }

    /// A label, then words wrapped in the column that begins `label_width` after `indent`.
    pub fn hang(&mut self, indent: usize, label: Span, label_width: usize, spans: Vec<Span>) {
        let column = indent + label_width;
        let mut line = " ".repeat(indent);
        self.paint(&mut line, label.tone, &label.text);
        let mut at = indent + columns(&label.text);
        if label_width > 0 {
            let pad = column.saturating_sub(at).max(1);
            line.push_str(&" ".repeat(pad));
            at += pad;
        }
        let mut fresh = true;
        for span in &spans {
            for (blank, word) in words(&span.text) {
                let word_width = columns(word);
                if !fresh && at + blank.len() + word_width > self.width {
                    self.out.push_str(line.trim_end());
                    self.out.push('\n');
                    line = " ".repeat(column);
                    at = column;
                    fresh = true;
                }
                if !fresh {
                    line.push_str(blank);
                    at += blank.len();
                }
                self.paint(&mut line, span.tone, word);
                at += word_width;
                fresh = fresh && word.is_empty();
            }
        }
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn paint(&self, line: &mut String, tone: Tone, text: &str) {
        let styled = self.color && tone != Tone::Plain && !text.trim().is_empty();
        if styled {
            line.push_str(tone.code());
        }
        line.extend(text.chars().map(|c| printable(c, self.unicode)));
        if styled {
            line.push_str("\x1b[0m");
        }
    }

    /// A bar of `columns` filled to `share` (0..1).
    pub fn bar(&self, share: f64, columns: usize) -> String {
        let filled = (share.clamp(0.0, 1.0) * columns as f64).round() as usize;
        let (full, empty) = if self.unicode {
            ("█", "░")
        } else {
            ("#", ".")
        };
        full.repeat(filled) + &empty.repeat(columns - filled)
    }

    /// A bar without the unfilled part; something greater than nothing shows.
    pub fn tally(&self, share: f64, columns: usize) -> String {
        let filled = (share.clamp(0.0, 1.0) * columns as f64).ceil() as usize;
        if self.unicode { "█" } else { "#" }.repeat(filled)
    }

    /// The arrow of "waits for".
    pub fn arrow(&self) -> &'static str {
        if self.unicode {
            "→"
        } else {
            "->"
        }
    }

    /// Parts of one bar that end at these columns, each paler than the one before.
    pub fn bars(&self, ends: &[usize]) -> String {
        let shades = match self.unicode {
            true => ["█", "▓", "░"],
            false => ["#", "=", "."],
        };
        let mut begin = 0;
        let mut bar = String::new();
        for (end, shade) in ends.iter().zip(shades) {
            bar += &shade.repeat(end.saturating_sub(begin));
            begin = begin.max(*end);
        }
        bar
    }

    /// Between the columns of a line of facts.
    pub fn dot(&self) -> &'static str {
        if self.unicode {
            " · "
        } else {
            ", "
        }
    }
}

/// Columns that a text takes. What is printed as a question mark takes one, whatever it would have taken.
fn columns(text: &str) -> usize {
    text.chars().map(column).sum()
}

fn column(c: char) -> usize {
    c.width().unwrap_or(1).max(1)
}

/// Text padded or cut to exactly `width` columns, at its left.
pub fn cell(text: &str, width: usize) -> String {
    let cut = fit(text, width);
    let pad = width - columns(&cut).min(width);
    cut + &" ".repeat(pad)
}

/// The same, flush right.
pub fn cell_right(text: &str, width: usize) -> String {
    let cut = fit(text, width);
    let pad = width - columns(&cut).min(width);
    " ".repeat(pad) + &cut
}

fn fit(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        if used + column(c) + 2 > width {
            break;
        }
        used += column(c);
        out.push(c);
    }
    out + ".."
}

/// The words of a text, each with the blanks before it.
fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let blank = rest.len() - rest.trim_start_matches(' ').len();
        let end = rest[blank..].find(' ').map_or(rest.len(), |at| blank + at);
        let piece = (&rest[..blank], &rest[blank..end]);
        rest = &rest[end..];
        Some(piece)
    })
}

fn printable(c: char, unicode: bool) -> char {
    if c == TIED {
        return ' ';
    }
    // Of a range, which must stay readable.
    if c == '–' && !unicode {
        return '-';
    }
    // Direction overrides can make a line read as another one.
    let misleading = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || misleading || (!unicode && !c.is_ascii()) {
        '?'
    } else {
        c
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    fn ascii(width: usize) -> Page {
        Page::new(width, false, false)
    }

    #[test]
    fn words_wrap_under_their_column() {
        let mut page = ascii(40);
        page.hang(
            2,
            plain("why"),
            8,
            vec![plain("one two three four five six seven eight nine")],
        );
        assert_eq!(
            page.finish(),
            "  why     one two three four five six\n          seven eight nine\n"
        );
    }

    #[test]
    fn spans_join_without_a_blank_of_their_own() {
        let mut page = ascii(40);
        page.line(0, vec![plain("a "), toned(Tone::Strong, "b"), plain(", c")]);
        assert_eq!(page.finish(), "a b, c\n");
    }

    #[test]
    fn what_is_copied_as_a_whole_is_not_broken() {
        let mut page = ascii(40);
        let name = "'one two three four five'".replace(' ', &TIED.to_string());
        page.line(
            0,
            vec![plain(format!("convoy report --lock {name} | --all"))],
        );
        assert_eq!(
            page.finish(),
            "convoy report --lock\n'one two three four five' | --all\n"
        );
    }

    #[test]
    fn a_word_longer_than_the_line_is_not_lost() {
        let word = "x".repeat(60);
        let mut page = ascii(40);
        page.line(2, vec![plain(format!("a {word} b"))]);
        assert_eq!(page.finish(), format!("  a\n  {word}\n  b\n"));
    }

    #[test]
    fn colour_never_leaks_and_control_characters_never_pass() {
        let mut page = Page::new(80, true, true);
        page.line(
            0,
            vec![toned(Tone::Bad, "a\x1b[2Jb\u{202e}c\n"), plain(" d")],
        );
        assert_eq!(page.finish(), "\x1b[31ma?[2Jb?c?\x1b[0m d\n");
    }

    #[test]
    fn without_unicode_all_is_ascii() {
        let mut page = ascii(80);
        let (bar, tally, arrow, dot) = (
            page.bar(0.5, 4),
            page.tally(0.01, 4),
            page.arrow(),
            page.dot(),
        );
        page.line(
            0,
            vec![
                plain("1–2 größe "),
                plain(bar),
                plain(tally),
                plain(arrow),
                plain(dot),
            ],
        );
        let text = page.finish();
        assert!(text.is_ascii(), "{text}");
        assert_eq!(text, "1-2 gr??e ##..#->,\n");
    }

    #[test]
    fn cells_are_exactly_as_wide_as_asked() {
        for (text, width) in [
            ("", 3),
            ("abc", 3),
            ("abcdef", 4),
            ("größe", 5),
            ("日本語", 4),
        ] {
            assert_eq!(cell(text, width).width(), width, "{text}");
            assert_eq!(cell_right(text, width).width(), width, "{text}");
        }
    }
}
