//! Replaces what differs from run to run by placeholders of the same width, so that columns stay
//! aligned (the habit of nextest's `redact.rs`).

/// Rewrites a report of a live run so that two runs give the same text.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    words: Vec<(String, String)>,
}

impl Redactor {
    /// Redacts addresses (`0x7f12...`) and lengths of time (`12.3 ms`).
    pub fn new() -> Self {
        Self::default()
    }

    /// Also replaces this text, a path or a pid, by `<name>` padded to the same width.
    pub fn word(mut self, text: &str, name: &str) -> Self {
        self.words.push((text.into(), fit(name, text.len())));
        self
    }

    /// The text with the placeholders.
    pub fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in self.words.iter().filter(|(from, _)| !from.is_empty()) {
            text = text.replace(from, to);
        }
        durations(&addresses(&text))
    }
}

fn fit(name: &str, width: usize) -> String {
    format!("{:width$}", format!("<{name}>"))
}

fn addresses(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("0x") {
        let digits = rest[at + 2..]
            .chars()
            .take_while(char::is_ascii_hexdigit)
            .count();
        out.push_str(&rest[..at]);
        out.push_str(if digits == 0 { "0x" } else { "0x<addr>" });
        out.push_str(&" ".repeat(digits.saturating_sub("<addr>".len())));
        rest = &rest[at + 2 + digits..];
    }
    out + rest
}

const UNITS: [&str; 6] = ["ns", "us", "µs", "ms", "min", "s"];

fn durations(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let inside_word = rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
            || (at == 0 && out.ends_with(|c: char| c.is_alphanumeric()));
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let number = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','))
            .unwrap_or(rest.len());
        let unit = rest[number..].strip_prefix(' ').and_then(|after| {
            UNITS.iter().find(|unit| {
                after
                    .strip_prefix(**unit)
                    .is_some_and(|end| !end.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
            })
        });
        match unit {
            Some(unit) if !inside_word => {
                let width = number + 1 + unit.chars().count();
                out.push_str(&fit("dur", width));
                rest = &rest[number + 1 + unit.len()..];
            }
            _ => {
                out.push_str(&rest[..number]);
                rest = &rest[number..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::Redactor;

    #[test]
    fn what_varies_keeps_its_width() {
        let redactor = Redactor::new().word("/tmp/run.4711", "dir");
        for (text, want) in [
            ("mutex 0x7f001234abcd (heap)", "mutex 0x<addr>       (heap)"),
            ("waited 12.34 ms in all", "waited <dur>    in all"),
            ("3 s", "<dur>"),
            ("4 threads, 2 sites", "4 threads, 2 sites"),
            ("worker9 ms", "worker9 ms"),
            ("in /tmp/run.4711: ok", "in <dir>        : ok"),
        ] {
            assert_eq!(redactor.redact(text), want, "{text}");
        }
    }
}
