//! Texts of the lines of critical sections, from the program's source files.

use std::collections::HashMap;
use std::path::Path;

use convoy_replay::analysis::{Analysis, SourceLine};

/// Larger files are no source that somebody wrote.
const LARGEST_BYTES: u64 = 8 << 20;
/// Lines of a section between which the lines that did not run are shown as well.
const WHOLE_UP_TO: u32 = 60;

/// Fills them in, where the files are where the debug information says.
pub fn fill(analysis: &mut Analysis) {
    let mut files: HashMap<String, Option<Vec<String>>> = HashMap::new();
    for region in &mut analysis.regions {
        let Some(file) = region.source.first().map(|line| line.file.clone()) else {
            continue;
        };
        let text = files
            .entry(file)
            .or_insert_with_key(|file| read(Path::new(file)));
        if let Some(text) = text {
            region.source = with_texts(&region.source, text);
        }
    }
}

fn read(file: &Path) -> Option<Vec<String>> {
    let is_source = |meta: std::fs::Metadata| meta.is_file() && meta.len() <= LARGEST_BYTES;
    std::fs::metadata(file)
        .ok()
        .filter(|meta| is_source(meta.clone()))?;
    let bytes = std::fs::read(file).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.lines().map(str::to_owned).collect())
}

/// The lines with their texts, and those between them if they are few enough. `lines` ascend.
fn with_texts(lines: &[SourceLine], text: &[String]) -> Vec<SourceLine> {
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else {
        return Vec::new();
    };
    let text_of = |line: u32| {
        let text = text.get(line.saturating_sub(1) as usize);
        text.cloned().unwrap_or_default()
    };
    let is_short = last.line - first.line < WHOLE_UP_TO;
    let mut all = Vec::new();
    for line in lines {
        let before = all
            .last()
            .map_or(line.line, |last: &SourceLine| last.line + 1);
        let between = if is_short { before..line.line } else { 0..0 };
        all.extend(between.map(|number| SourceLine {
            file: line.file.clone(),
            line: number,
            text: text_of(number),
            ..SourceLine::default()
        }));
        all.push(SourceLine {
            text: text_of(line.line),
            ..line.clone()
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: u32) -> SourceLine {
        SourceLine {
            file: "a.c".into(),
            line,
            share: 0.5,
            ..SourceLine::default()
        }
    }

    #[test]
    fn lines_between_those_that_ran_are_shown_in_short_sections_only() {
        let text: Vec<String> = (1..=100).map(|n| format!("line {n}")).collect();
        let near = with_texts(&[line(3), line(6)], &text);
        let shown: Vec<_> = near
            .iter()
            .map(|l| (l.line, l.text.as_str(), l.share))
            .collect();
        let expected = [
            (3, "line 3", 0.5),
            (4, "line 4", 0.0),
            (5, "line 5", 0.0),
            (6, "line 6", 0.5),
        ];
        assert_eq!(shown, expected);
        assert_eq!(with_texts(&[line(3), line(90)], &text).len(), 2);
    }

    #[test]
    fn a_file_that_is_shorter_now_has_no_text_for_its_lost_lines() {
        let found = with_texts(&[line(2)], &["one".to_owned()]);
        assert_eq!((found.len(), found[0].text.as_str()), (1, ""));
    }
}
