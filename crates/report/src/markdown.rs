//! The report as Markdown (GitHub's), for a ticket: the verdict, a table of the findings, each of them
//! with what was seen and what to do, and the report for a person below, folded.

use std::fmt::Write;

use convoy_model::finding::{Cause, Finding};

use crate::text::{self, Options};
use crate::{human, names, sched_names, subject, verdict, Report};

/// Callers that are named for the code of a finding.
const CALLERS: usize = 4;

/// The whole text. `options` are those of the report that is folded below.
///
/// # Errors
/// As [`text::render`].
pub fn render(report: &Report<'_>, options: &Options) -> Result<String, String> {
    let folded = text::render(report, options)?;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = page(&mut out, report, &folded);
    Ok(out)
}

fn page(out: &mut String, report: &Report<'_>, folded: &str) -> std::fmt::Result {
    let command = report.model.meta.command.join(" ");
    writeln!(out, "### convoy: {}\n", escape(&command))?;
    writeln!(out, "**{}**\n", escape(&verdict::of(report)))?;
    let findings = &report.analysis.findings;
    if !findings.is_empty() {
        writeln!(out, "| | gain | finding |\n|---:|---|---|")?;
    }
    for (number, finding) in (1..).zip(findings) {
        let (gain, title) = (human::gain(&finding.gain), escape(&finding.title));
        writeln!(out, "| {number} | {gain} | {title} |")?;
    }
    for (number, finding) in (1..).zip(findings) {
        writeln!(out, "\n#### {number}. {}\n", escape(&finding.title))?;
        one(out, report, finding)?;
    }
    let fence = fence(folded);
    writeln!(
        out,
        "\n<details>\n<summary>The whole report</summary>\n\n{fence}text\n{}\n{fence}\n\n</details>",
        folded.trim_end()
    )
}

fn one(out: &mut String, report: &Report<'_>, finding: &Finding) -> std::fmt::Result {
    let mut item = |label: &str, text: &str| writeln!(out, "- **{label}** {}", escape(text));
    let gain = &finding.gain;
    item(
        "Gain",
        &format!("{}, limited by {}", human::gain(gain), gain.limited_by),
    )?;
    let seen: Vec<&str> = finding.evidence.iter().map(|e| e.text.as_str()).collect();
    if !seen.is_empty() {
        item("Seen", &seen.join("; "))?;
    }
    let site = subject::site(report.analysis, &subject::ids(&finding.subject));
    if site.is_some() {
        let path = sched_names::path_of(report.model, site, CALLERS);
        item("Where", &path)?;
    }
    let own = site.and_then(|site| report.model.site(site)?.own_caller());
    if let Some(own) = own {
        item("Caller", &names::frame(own))?;
    }
    for (at, Cause { text, fix, .. }) in finding.causes.iter().enumerate() {
        item(if at == 0 { "Why" } else { "Or" }, text)?;
        if !fix.is_empty() {
            item("Fix", fix)?;
        }
    }
    for caveat in &finding.caveats {
        item("But", caveat)?;
    }
    Ok(())
}

/// A fence that is longer than any row of backticks in the text.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max();
    "`".repeat(longest.unwrap_or(0).max(2) + 1)
}

/// Names come from programs: nothing in them is markup.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' | '!' => out.extend(['\\', c]),
            // Neither a line of a table more, nor somebody called by name.
            c if c.is_control() => out.push(' '),
            '@' => out.push_str("&#64;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{escape, fence};

    #[test]
    fn names_are_no_markup() {
        assert_eq!(
            escape("<b>a|b</b>\n@me *x* `y`"),
            r"&lt;b&gt;a\|b&lt;/b&gt; &#64;me \*x\* \`y\`"
        );
    }

    #[test]
    fn a_fence_is_longer_than_what_it_encloses() {
        assert_eq!(fence("plain"), "```");
        assert_eq!(fence("a ```` b `c`"), "`````");
    }
}
