//! The fix plan: in which order fixes pay, since they interact.
//!
//! Removing one bottleneck may buy nothing while another one still limits, and much after that one is
//! gone. The plan is greedy: at each step the fix with the largest gain beside those chosen before.
//! Where no single fix pays, pairs are tried.

/// One step of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The fixes that this step adds: one, or two that pay only together. Indices of candidates.
    pub fixes: Vec<usize>,
    /// Share of the recorded wall time that all fixes up to this step save together.
    pub saved: f64,
    /// Share that each of this step's fixes saves alone, in the order of `fixes`.
    pub alone: Vec<f64>,
}

/// Steps at most.
const MOST_STEPS: usize = 4;

/// Orders `candidates` fixes. `saved`: the share of wall time that fixes save together; each set is
/// asked for once. `worth`: a step must save at least this share more than the step before.
pub fn plan(candidates: usize, worth: f64, mut saved: impl FnMut(&[usize]) -> f64) -> Vec<Step> {
    let alone: Vec<f64> = (0..candidates).map(|fix| saved(&[fix])).collect();
    let mut steps: Vec<Step> = Vec::new();
    let mut chosen: Vec<usize> = Vec::new();
    let mut so_far = 0.0;
    while steps.len() < MOST_STEPS {
        let left: Vec<usize> = (0..candidates).filter(|f| !chosen.contains(f)).collect();
        let mut with = |fixes: &[usize]| -> f64 {
            match (chosen.as_slice(), fixes) {
                ([], [one]) => alone[*one],
                _ => saved(&[&chosen, fixes].concat()),
            }
        };
        let singles = left.iter().map(|fix| (vec![*fix], with(&[*fix])));
        let mut best = largest(singles.collect::<Vec<_>>());
        if best
            .as_ref()
            .is_none_or(|(_, total)| total - so_far < worth)
        {
            let pairs = left
                .iter()
                .enumerate()
                .flat_map(|(i, a)| left[i + 1..].iter().map(move |b| vec![*a, *b]));
            best = largest(
                pairs
                    .map(|pair| {
                        let total = with(&pair);
                        (pair, total)
                    })
                    .collect(),
            );
        }
        let Some((fixes, total)) = best.filter(|(_, total)| total - so_far >= worth) else {
            break;
        };
        chosen.extend(&fixes);
        so_far = total;
        steps.push(Step {
            alone: fixes.iter().map(|fix| alone[*fix]).collect(),
            fixes,
            saved: total,
        });
    }
    steps
}

/// The first one of those that save most.
fn largest(of: Vec<(Vec<usize>, f64)>) -> Option<(Vec<usize>, f64)> {
    let better = |best: (Vec<usize>, f64), next: (Vec<usize>, f64)| {
        if next.1 > best.1 {
            next
        } else {
            best
        }
    };
    of.into_iter().reduce(better)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fix_that_pays_only_after_another_comes_second() {
        // A: 30 %. B alone: nothing, with A 20 % more. C: nothing ever.
        let steps = plan(3, 0.02, |set| {
            let has = |fix| set.contains(&fix);
            match (has(0), has(1)) {
                (true, true) => 0.5,
                (true, false) => 0.3,
                _ => 0.0,
            }
        });
        assert_eq!(steps.len(), 2);
        assert_eq!((steps[0].fixes.as_slice(), steps[0].saved), (&[0][..], 0.3));
        assert_eq!(
            steps[1],
            Step {
                fixes: vec![1],
                saved: 0.5,
                alone: vec![0.0]
            }
        );
    }

    #[test]
    fn two_fixes_that_pay_only_together_are_one_step() {
        let steps = plan(2, 0.02, |set| if set.len() == 2 { 0.4 } else { 0.0 });
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].fixes, [0, 1]);
        assert_eq!(steps[0].alone, [0.0, 0.0]);
    }

    #[test]
    fn fixes_that_buy_nothing_make_no_plan() {
        assert!(plan(3, 0.02, |_| 0.01).is_empty());
        assert!(plan(0, 0.02, |_| 1.0).is_empty());
    }
}
