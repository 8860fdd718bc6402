//! The sentence at the head of the report, of the room that has most to say.

use std::borrow::Cow;

use crate::Report;

/// What is wrong, or that nothing is. A room's own sentence speaks of its own first finding, which need not
/// be the first of all.
pub fn of<'a>(report: &Report<'a>) -> Cow<'a, str> {
    let locks = report.analysis.verdict.as_str();
    let Some(critical) = report.critical.filter(|c| !c.verdict.is_empty()) else {
        return Cow::Borrowed(locks);
    };
    // Without a finding, the scheduler's sentence: it saw all threads. Perf events do not say why threads wait.
    let Some(first) = report.analysis.findings.first() else {
        return Cow::Borrowed(match report.analysis.unexplained.is_empty() {
            true => &critical.verdict,
            false => locks,
        });
    };
    let same = |f: &convoy_model::finding::Finding| f.id == first.id && f.subject == first.subject;
    if critical.findings.first().is_some_and(same) {
        Cow::Borrowed(&critical.verdict)
    } else {
        // With the gain that is left after the scheduler was asked, not the one of the locks' room alone.
        Cow::Owned(convoy_analysis::counters::headline(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_analysis::counters::Analysis;
    use convoy_analysis::Params;
    use convoy_model::finding::{Finding, Gain, Subject};
    use convoy_model::{FindingId, Model, ObjectId, SiteId};

    fn finding(id: FindingId, subject: Subject, title: &str) -> Finding {
        Finding {
            id,
            subject,
            title: title.into(),
            evidence: Vec::new(),
            causes: Vec::new(),
            undecided: String::new(),
            gain: Gain::none("", ""),
            share_of_thread_time: 0.0,
            caveats: Vec::new(),
        }
    }

    /// The verdict with the merged findings, beside a room `critical` with its own.
    fn verdict(merged: &[Finding], critical: Option<&[Finding]>) -> String {
        let critical = critical.map(|findings| convoy_analysis::scheduler::Analysis {
            verdict: "scheduler".into(),
            findings: findings.to_vec(),
            ..Default::default()
        });
        of(&Report {
            model: &Model::default(),
            analysis: &Analysis {
                verdict: "a lock. Fixing it helps.".into(),
                findings: merged.to_vec(),
                ..Analysis::default()
            },
            critical: critical.as_ref(),
            sections: None,
            thresholds: &Params::default(),
        })
        .into_owned()
    }

    #[test]
    fn the_room_of_the_first_finding_speaks() {
        let lock = finding(
            FindingId::ContendedLock,
            Subject::Object(ObjectId(0)),
            "a lock",
        );
        let other = finding(
            FindingId::ContendedLock,
            Subject::Object(ObjectId(1)),
            "b lock",
        );
        let code = finding(FindingId::SerialCode, Subject::Code(SiteId(0)), "a phase");
        let late = finding(
            FindingId::SerialCode,
            Subject::Code(SiteId(1)),
            "another phase",
        );
        let own = [code.clone(), late.clone()];
        let of = |first: &Finding| verdict(std::slice::from_ref(first), Some(&own));
        assert_eq!(of(&code), "scheduler");
        for first in [&lock, &other, &late] {
            let said = of(first);
            assert_eq!(said, convoy_analysis::counters::headline(first));
            assert!(said.contains(&first.title) && said.contains("No gain is expected"));
        }
        assert_eq!(verdict(&[], Some(&[])), "scheduler");
        assert_eq!(verdict(&[lock], None), "a lock. Fixing it helps.");
    }
}
