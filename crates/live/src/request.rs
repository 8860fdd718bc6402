//! Metric-focus pairs as text: `metric{key="value", ...}`, the syntax of PromQL's selectors.

use std::fmt;
use std::str::FromStr;

use crate::error::Invalid;
use crate::focus::{Focus, Key};
use crate::library_calls::{self, Extra};
use crate::lock::Lock;
use crate::metric::{Metric, Subject, METRICS};
use crate::suggest;

/// A metric and what it is measured of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// What is measured.
    pub metric: Metric,
    /// Of which part of the program.
    pub focus: Focus,
}

impl Request {
    /// As the function of a focus with `in`: all functions that that one calls.
    pub const CALLEES: &'static str = "*";

    /// Whether it stands for a request for each callee of the function that `in` names.
    pub fn opens(&self) -> bool {
        self.focus.get(Key::Function) == Some(Self::CALLEES)
    }

    /// Joins both.
    ///
    /// # Errors
    /// The metric makes no sense for the focus.
    pub fn new(metric: Metric, focus: Focus) -> Result<Self, Invalid> {
        let request = Self { metric, focus };
        request.check()?;
        Ok(request)
    }

    /// What it is measured of, and so where its values come from.
    pub fn subject(&self) -> Subject {
        let of = self.metric.describe().of;
        let named = [
            (Key::Function, Subject::Function),
            (Key::Lock, Subject::Lock),
            (Key::File, Subject::File),
        ];
        let named = named
            .iter()
            .find(|(key, subject)| self.focus.get(*key).is_some() && of.contains(subject));
        match named {
            Some((_, subject)) => *subject,
            None => of.last().copied().unwrap_or(Subject::Thread),
        }
    }

    /// The functions of libraries that it is measured by; none if its focus names them.
    pub fn functions(&self) -> Vec<&'static str> {
        library_calls::names(self.metric, self.subject())
    }

    /// What it counts of one of these besides calls and time.
    pub(crate) fn extra(&self, name: &str, module: &str) -> Extra {
        library_calls::extra(self.metric, self.subject(), name, module)
    }

    /// Whether counting calls is not enough for it.
    pub fn needs_timer(&self) -> bool {
        match self.subject() {
            Subject::Function => self.metric.needs_timer(),
            // What a call has read is known when it returns.
            Subject::File => true,
            _ => false,
        }
    }

    /// Whether it is of this lock or other object: those that it names, or all; of the metric's kind,
    /// if it has one.
    pub fn means(&self, lock: &Lock) -> bool {
        let pattern = self.focus.get(Key::Lock);
        pattern.is_none_or(|pattern| lock.answers_to(pattern))
            && self.metric.role().is_none_or(|role| lock.role == role)
    }

    fn check(&self) -> Result<(), Invalid> {
        let (name, of) = (self.metric.describe().name, self.metric.describe().of);
        let subject = self.subject();
        let is_allowed = |key: &Key| subject.keys().contains(key);
        if let Some(key) = self.focus.keys().find(|key| !is_allowed(key)) {
            return Err(misplaced(name, of, subject, key));
        }
        if subject == Subject::Function && self.focus.get(Key::Function).is_none() {
            return Err(Invalid::new(
                format!("{name} is measured of a function, and none is named"),
                format!("write {name}{{function=\"NAME\"}}"),
            ));
        }
        if self.opens() && self.focus.get(Key::In).is_none() {
            return Err(Invalid::new(
                format!("{self} stands for the functions that one calls, and that one is missing"),
                format!("write {name}{{function=\"*\", in=\"NAME\"}}"),
            ));
        }
        if self.opens() && self.focus.get(Key::Caller).is_some() {
            return Err(Invalid::new(
                format!("caller does not narrow down the callees of {self}"),
                "leave caller out: they are called by the function of in",
            ));
        }
        if let Some(key) = self.focus.keys().find(|k| self.focus.get(*k) == Some("")) {
            return Err(Invalid::new(
                format!("{} has no value in {self}", key.name()),
                format!("name one, or leave {} out", key.name()),
            ));
        }
        Ok(())
    }
}

/// A key that does not narrow down what the metric is measured of.
fn misplaced(name: &str, of: &[Subject], subject: Subject, key: Key) -> Invalid {
    if matches!(key, Key::Caller | Key::In | Key::Holding) {
        // They narrow probes down, and nothing else.
        return Invalid::new(
            format!(
                "{name} is not measured by probes: {} has no effect on it",
                key.name()
            ),
            format!("{name} takes {}", names_of(subject.keys())),
        );
    }
    let found = format!("{name} makes no sense for a {}", key.name());
    let fits = METRICS.iter().filter(|row| {
        let of = row.of.iter();
        row.name != name && of.clone().any(|s| s.keys().contains(&key))
    });
    let fits: Vec<&str> = fits.map(|row| row.name).collect();
    // Both a function and a lock were named.
    let has_both = of.contains(&Subject::Function) && key == Key::Lock;
    let keys = match has_both {
        true => Subject::Function.keys(),
        false => subject.keys(),
    };
    let held = match has_both {
        true => "; holding=\"LOCK\" counts while a thread holds it",
        false => "",
    };
    Invalid::new(
        found,
        format!(
            "{name} takes {}{held}; metrics of a {}: {}",
            names_of(keys),
            key.name(),
            fits.join(", ")
        ),
    )
}

fn names_of(keys: &[Key]) -> String {
    let names: Vec<&str> = keys.iter().map(|key| key.name()).collect();
    names.join(", ")
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.metric.fmt(f)?;
        match self.focus.keys().next() {
            None => Ok(()),
            Some(_) => self.focus.fmt(f),
        }
    }
}

impl FromStr for Request {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let mut reader = Reader { text, at: 0 };
        let name = reader.word();
        let metric = Metric::named(name).ok_or_else(|| no_metric(name))?;
        let mut focus = Focus::new();
        reader.blanks();
        if reader.take('{') {
            while !reader.take('}') {
                let (key, value) = reader.part()?;
                if focus.get(key).is_some() {
                    return Err(Invalid::new(
                        format!("{} is given twice in {text}", key.name()),
                        "give it once",
                    ));
                }
                focus = focus.with(key, value);
                if !reader.take(',') && !reader.is_at('}') {
                    return Err(reader.expected("a comma or }"));
                }
            }
        }
        reader.blanks();
        match reader.rest() {
            "" => Self::new(metric, focus),
            _ => Err(reader.expected("nothing more")),
        }
    }
}

fn no_metric(name: &str) -> Invalid {
    let names = || METRICS.iter().map(|row| row.name);
    let near = suggest::near(name, names(), 3);
    let found = match name {
        "" => "no metric is named".to_owned(),
        name => format!("there is no metric {name}"),
    };
    let fix = match near.is_empty() {
        true => format!("one of: {}", names().collect::<Vec<_>>().join(", ")),
        false => format!("did you mean {}?", near.join(" or ")),
    };
    Invalid::new(found, fix)
}

/// Reads from left to right.
struct Reader<'a> {
    text: &'a str,
    /// Byte that is next; on a boundary of characters.
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn is_at(&mut self, c: char) -> bool {
        self.blanks();
        self.rest().starts_with(c)
    }

    fn take(&mut self, c: char) -> bool {
        let is_there = self.is_at(c);
        if is_there {
            self.at += c.len_utf8();
        }
        is_there
    }

    fn word(&mut self) -> &'a str {
        self.blanks();
        let rest = self.rest();
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    /// `key="value"`.
    fn part(&mut self) -> Result<(Key, String), Invalid> {
        let name = self.word();
        let key = Key::ALL.into_iter().find(|key| key.name() == name);
        let Some(key) = key else {
            return Err(match name {
                "" => self.expected("a key, such as function"),
                name => no_key(name),
            });
        };
        self.blanks();
        if ["=~", "!=", "!~"]
            .iter()
            .any(|op| self.rest().starts_with(op))
        {
            return Err(Invalid::new(
                format!("{name}{} is not understood", &self.rest()[..2]),
                format!("write {name}=\"...\"; names of threads may have * and ?"),
            ));
        }
        if !self.take('=') {
            return Err(self.expected("="));
        }
        if !self.take('"') {
            return Err(Invalid::new(
                format!("the value of {name} is not quoted in {}", self.text),
                format!("write {name}=\"...\", and the whole in single quotes for the shell"),
            ));
        }
        let mut value = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Ok((key, value));
                }
                '\\' => value.extend(chars.next().map(|(_, c)| c)),
                c => value.push(c),
            }
        }
        Err(Invalid::new(
            format!("the value of {name} has no closing quote in {}", self.text),
            "close it with \"",
        ))
    }

    fn expected(&self, what: &str) -> Invalid {
        let found = match self.rest() {
            "" => format!("{} ends too early", self.text),
            rest => format!(
                "{} has {rest} at character {}",
                self.text,
                self.characters() + 1
            ),
        };
        Invalid::new(found, format!("expected {what}"))
    }

    fn characters(&self) -> usize {
        self.text.get(..self.at).map_or(0, |s| s.chars().count())
    }
}

fn no_key(name: &str) -> Invalid {
    let names = Key::ALL.map(Key::name);
    let near = suggest::near(name, names.into_iter(), 1);
    let fix = match near.first() {
        Some(near) => format!("did you mean {near}? The keys are {}", names.join(", ")),
        None => format!("one of: {}", names.join(", ")),
    };
    Invalid::new(format!("a focus has no key {name}"), fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Request {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn fails(text: &str) -> String {
        match text.parse::<Request>() {
            Ok(request) => panic!("{text} became {request}"),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn all_callees_need_the_function_that_calls_them() {
        let request: Request = r#"cpu{function="*", in="f"}"#.parse().unwrap();
        assert!(request.opens());
        let error = r#"cpu{function="*"}"#.parse::<Request>().unwrap_err();
        assert!(error.fix.contains(r#"in="NAME""#), "{error}");
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in [
            r#"calls{function="compress"}"#,
            r#"wall{function="zip::run(int)", thread="pool-*"}"#,
            r#"cpu{thread="worker"}"#,
            "cpu",
            r#"wait{lock="cache.c:88", group="worker"}"#,
            r#"calls{function="a", module="libz.so.1", in="b"}"#,
            r#"cpu{function="f", caller="cache.c:88", holding="cache_lock", group="pool-#"}"#,
            r#"io_wait{file="*.log", thread="7"}"#,
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn blanks_order_and_a_last_comma_do_not_matter() {
        let request = parse(r#" wall { thread = "a" , function="f", } "#);
        assert_eq!(request.to_string(), r#"wall{function="f", thread="a"}"#);
    }

    #[test]
    fn quotes_and_backslashes_are_escaped() {
        let request = parse(r#"calls{function="operator\"\"_s\\"}"#);
        assert_eq!(request.focus.get(Key::Function), Some(r#"operator""_s\"#));
        assert_eq!(parse(&request.to_string()), request);
    }

    #[test]
    fn unknown_names_suggest_near_ones() {
        assert!(fails(r#"cals{function="f"}"#).contains("did you mean calls?"));
        assert!(fails("latency").contains("one of: calls, wall"));
        assert!(fails(r#"calls{func="f"}"#).contains("function"));
    }

    #[test]
    fn metrics_that_make_no_sense_for_a_focus_say_what_does() {
        let text = fails(r#"calls{lock="m"}"#);
        assert!(text.contains("calls makes no sense for a lock"), "{text}");
        assert!(text.contains("acquisitions"), "{text}");
        let text = fails(r#"run_queue{function="f"}"#);
        assert!(
            text.contains("run_queue takes group, thread, process"),
            "{text}"
        );
        let text = fails(r#"cpu{function="f", lock="m"}"#);
        assert!(text.contains("holding=\"LOCK\" counts while"), "{text}");
        let text = fails(r#"wait{holding="m"}"#);
        assert!(text.contains("holding has no effect"), "{text}");
        let text = fails(r#"cpu{file="x"}"#);
        assert!(text.contains("read_bytes, write_bytes, io_wait"), "{text}");
        let text = fails(r#"cpu{function="*", in="f", caller="g"}"#);
        assert!(text.contains("leave caller out"), "{text}");
        assert!(fails("calls").contains("write calls{function=\"NAME\"}"));
        assert!(fails(r#"calls{function=""}"#).contains("no value"));
    }

    #[test]
    fn broken_text_is_an_error_with_its_place() {
        for (text, part) in [
            ("", "no metric"),
            ("calls{", "ends too early"),
            (r#"calls{function="f""#, "ends too early"),
            (r#"calls{function="f"#, "no closing quote"),
            ("calls{function=f}", "not quoted"),
            (r#"calls{function=~"f"}"#, "not understood"),
            (r#"calls{function="f"} x"#, "at character 21"),
            (r#"calls{function="f", function="g"}"#, "twice"),
            (r#"calls{function="f" module="m"}"#, "a comma or }"),
            ("cälls", "at character 2"),
        ] {
            let message = fails(text);
            assert!(
                message.contains(part) || message.contains("metric"),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn the_focus_decides_what_a_metric_is_measured_of() {
        assert_eq!(parse("cpu").subject(), Subject::Thread);
        assert_eq!(parse(r#"cpu{function="f"}"#).subject(), Subject::Function);
        assert_eq!(parse("wait").subject(), Subject::Lock);
        assert_eq!(parse("read_bytes").subject(), Subject::Thread);
        assert_eq!(parse(r#"read_bytes{file="f"}"#).subject(), Subject::File);
        assert!(parse(r#"read_bytes{file="f"}"#).needs_timer());
        assert!(parse(r#"cpu{function="f"}"#).needs_timer());
        assert!(!parse("allocated_bytes").needs_timer());
    }
}
