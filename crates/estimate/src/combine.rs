//! Combination of the estimates of one what-if.

use crate::{Check, Estimate, Family, Interval, Method, WhatIf};

/// What several methods say together.
#[derive(Debug, Clone, PartialEq)]
pub struct Combined {
    /// What to show.
    pub gain: Interval,
    /// Who stands behind it, most trusted first.
    pub methods: Vec<Method>,
    /// Whether they agree.
    pub agreement: Agreement,
}

/// Whether methods agree.
#[derive(Debug, Clone, PartialEq)]
pub enum Agreement {
    /// There was one family of methods.
    Single,
    /// Their intervals overlap; the intersection is shown.
    Agree,
    /// They do not: the most trusted one is shown, and these contradict it.
    Disagree(Vec<Estimate>),
}

/// Combines the estimates of one what-if. Those whose own check failed are left out; `None` = nothing
/// is left.
///
/// The two replays fail in different places (prediction errors of the simulator and of the native
/// replay are nearly independent: their union covers what neither covers alone), so within a family
/// intervals are united. Families start from different data, so between them the intersection holds
/// where each one holds. The more a family has seen of the change itself, the more it is trusted:
/// accounting, replay, experiment, measurement.
pub fn combine(estimates: &[Estimate], what_if: &WhatIf) -> Option<Combined> {
    let usable: Vec<_> = estimates
        .iter()
        .filter(|e| e.what_if == *what_if && !matches!(e.check, Check::Failed(_)))
        .collect();
    let mut families: Vec<Family> = usable.iter().map(|e| e.method.family()).collect();
    families.sort_unstable();
    families.dedup();
    families.reverse();
    let of_family = |family: Family| usable.iter().filter(move |e| e.method.family() == family);
    let united = |family: Family| {
        let intervals = of_family(family).map(|e| e.gain);
        intervals.reduce(|a, b| a.union(&b))
    };
    let (first, rest) = families.split_first()?;
    let mut gain = united(*first)?;
    let mut agreeing = vec![*first];
    let mut against = Vec::new();
    for family in rest {
        match united(*family).and_then(|other| gain.intersection(&other)) {
            Some(both) => {
                gain = both;
                agreeing.push(*family);
            }
            None => against.extend(of_family(*family).map(|e| (*e).clone())),
        }
    }
    let methods = agreeing
        .iter()
        .flat_map(|family| of_family(*family).map(|e| e.method))
        .collect();
    Some(Combined {
        gain,
        methods,
        agreement: match (rest.is_empty(), against.is_empty()) {
            (true, _) => Agreement::Single,
            (_, true) => Agreement::Agree,
            _ => Agreement::Disagree(against),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(method: Method, low: f64, mid: f64, high: f64) -> Estimate {
        Estimate {
            method,
            what_if: WhatIf::LockRemoved,
            gain: Interval::new(low, mid, high),
            assumption: String::new(),
            check: Check::None,
        }
    }

    fn combined(estimates: &[Estimate]) -> Combined {
        combine(estimates, &WhatIf::LockRemoved).unwrap()
    }

    #[test]
    fn one_estimate_is_shown_as_it_is() {
        let one = combined(&[estimate(Method::Accounting, 1.2, 1.4, 12.0)]);
        assert_eq!(one.gain, Interval::new(1.2, 1.4, 12.0));
        assert_eq!(one.agreement, Agreement::Single);
    }

    #[test]
    fn replays_are_united_and_narrow_the_accounting() {
        let all = combined(&[
            estimate(Method::Accounting, 1.2, 1.4, 12.0),
            estimate(Method::ReplaySimulated, 1.5, 1.6, 1.7),
            estimate(Method::ReplayNative, 1.6, 1.9, 2.1),
        ]);
        assert_eq!((all.gain.low, all.gain.high), (1.5, Some(2.1)));
        assert!((all.gain.mid - (1.6f64 * 1.9).sqrt()).abs() < 1e-12);
        assert_eq!(all.agreement, Agreement::Agree);
        assert_eq!(
            all.methods,
            [
                Method::ReplaySimulated,
                Method::ReplayNative,
                Method::Accounting
            ]
        );
    }

    #[test]
    fn contradicting_methods_are_shown_as_such() {
        let against = estimate(Method::Accounting, 3.0, 4.0, 5.0);
        let all = combined(&[
            against.clone(),
            estimate(Method::ReplaySimulated, 1.0, 1.1, 1.2),
        ]);
        assert_eq!(all.gain, Interval::new(1.0, 1.1, 1.2));
        assert_eq!(all.methods, [Method::ReplaySimulated]);
        assert_eq!(all.agreement, Agreement::Disagree(vec![against]));
    }

    #[test]
    fn failed_checks_and_other_what_ifs_do_not_count() {
        let mut failed = estimate(Method::ReplayNative, 5.0, 6.0, 7.0);
        failed.check = Check::Failed("replayed 2.1 s of 1.0 s".into());
        let mut other = estimate(Method::ReplaySimulated, 8.0, 9.0, 10.0);
        other.what_if = WhatIf::SectionRemoved;
        let all = combined(&[
            failed.clone(),
            other,
            estimate(Method::Accounting, 1.2, 1.4, 1.6),
        ]);
        assert_eq!(all.gain, Interval::new(1.2, 1.4, 1.6));
        assert_eq!(combine(&[failed], &WhatIf::LockRemoved), None);
    }
}
