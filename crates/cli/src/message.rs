//! What Convoy says on standard error: the value found, its effect, and what to do.

use std::io::Write;

use convoy_capture::Trouble;
use convoy_profile::ReadWarning;

/// Something to tell the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    found: String,
    effect: String,
    fix: String,
}

impl Message {
    /// From its three parts; an empty fix is left out.
    pub fn new(
        found: impl Into<String>,
        effect: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            found: found.into(),
            effect: effect.into(),
            fix: fix.into(),
        }
    }

    /// On standard error. If that is closed there is nobody to tell.
    pub fn print(&self) {
        say(&self.text());
    }

    /// In one line, for a screen.
    pub fn line(&self) -> String {
        let parts = [&self.found, &self.effect, &self.fix];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        clean(&parts.map(String::as_str).collect::<Vec<_>>().join("; "))
    }

    fn text(&self) -> String {
        let mut text = format!("convoy: {}", clean(&self.found));
        if !self.effect.is_empty() {
            text += &format!(": {}", clean(&self.effect));
        }
        if !self.fix.is_empty() {
            text += &format!("\n  fix: {}", clean(&self.fix));
        }
        text.push('\n');
        text
    }
}

impl From<&Trouble> for Message {
    fn from(trouble: &Trouble) -> Self {
        Self::new(&trouble.found, &trouble.effect, &trouble.fix)
    }
}

impl From<&ReadWarning> for Message {
    fn from(warning: &ReadWarning) -> Self {
        Self::new(warning.found(), warning.effect(), warning.fix())
    }
}

/// Writes to standard error in one go, so that the program's own output does not get between.
pub fn say(text: &str) {
    // A closed or full standard error must change nothing about the program that was run.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// File names may hold anything, also what a terminal takes for a command.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_parts_two_lines() {
        let message = Message::new("a is 3", "b stops", "set a to 4");
        assert_eq!(
            message.text(),
            "convoy: a is 3: b stops\n  fix: set a to 4\n"
        );
        assert_eq!(Message::new("a", "b", "").text(), "convoy: a: b\n");
        assert_eq!(
            Message::new("a\x1b[2J\n", "", "").text(),
            "convoy: a?[2J?\n"
        );
    }
}
