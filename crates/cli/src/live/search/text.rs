//! The tree of a search for people, with a conclusion at its end.

use convoy_live::search::{Hypothesis, Node, NodeId, Outcome, Resource, Search, Verdict, Whole};
use convoy_live::Kind;
use convoy_report::human;

use super::Found;

/// Busy threads on average below which a program is mostly idle.
const MOSTLY_IDLE: f64 = 0.1;

/// The busiest of threads that share evenly has at most this many times the time of the others.
const EVEN: f64 = 1.5;

/// A thread with this share is named in the conclusion.
const MOST_OF_IT: f64 = 0.6;

/// Columns of the verdict.
const VERDICT: usize = 9;

/// Functions on the way to another one that are named.
const MOST_NAMED: usize = 3;

/// The tree.
pub fn tree(found: &Found) -> String {
    let search = &found.search;
    let mut text = format!(
        "Where the time of {} ({}) goes: {} tested by probes in {:.0} s, cost at most {}\n\n",
        found.process,
        found.pid,
        human::count_of(found.tests as u64, "focus", "foci"),
        found.seconds,
        human::percent(found.cost_share),
    );
    for root in search.roots() {
        node(search, root, &mut text);
    }
    text.push('\n');
    text += &conclusion(found);
    text
}

fn node(search: &Search, id: NodeId, text: &mut String) {
    let Some(this) = search.node(id) else { return };
    let indent = "  ".repeat(search.depth(id));
    let verdict = match &this.outcome {
        Some(outcome) => outcome.verdict.name(),
        None => "untested",
    };
    *text += &format!(
        "{verdict:VERDICT$} {indent}{}{}\n",
        title(this),
        figures(this)
    );
    let mut children = search.children(id);
    let share = |id: &NodeId| search.node(*id).and_then(Node::mean).unwrap_or(0.0);
    let resource = |id: &NodeId| search.node(*id).map(|node| node.candidate.resource);
    children.sort_by(|a, b| {
        let by_share = share(b).total_cmp(&share(a));
        resource(a).cmp(&resource(b)).then(by_share)
    });
    let even = even_threads(search, &children);
    if let Some(line) = &even {
        *text += &format!("{:VERDICT$}   {indent}{line}\n", "");
    }
    for child in children {
        if even.is_none() || resource(&child) != Some(Resource::Thread) {
            node(search, child, text);
        }
    }
    let least = human::percent(search.limits().threshold / 2.0);
    for (resource, n) in &this.left_out {
        let (one, many) = words(*resource);
        let count = human::count_of(*n as u64, one, many);
        let each = if *n > 1 { " each" } else { "" };
        let how = match (resource, this.hypothesis) {
            (Resource::Function, Hypothesis::CpuBound) => " by samples: not tested",
            _ => "",
        };
        *text += &format!(
            "{:VERDICT$}   {indent}{count} below {least}{each}{how}\n",
            ""
        );
    }
}

/// Threads that share the time of their group evenly, in one line.
fn even_threads(search: &Search, ids: &[NodeId]) -> Option<String> {
    let nodes = ids.iter().filter_map(|id| search.node(*id));
    let threads = nodes.filter(|node| node.candidate.resource == Resource::Thread);
    let shares: Vec<f64> = threads.filter_map(Node::mean).collect();
    let least = shares.iter().copied().reduce(f64::min)?;
    let most = shares.iter().copied().reduce(f64::max)?;
    let is_even = shares.len() > 1 && most <= EVEN * least;
    is_even.then(|| {
        format!(
            "{} threads evenly, {} to {} each",
            shares.len(),
            human::percent(least),
            human::percent(most)
        )
    })
}

/// What resources are called.
fn words(resource: Resource) -> (&'static str, &'static str) {
    match resource {
        Resource::Program => ("program", "programs"),
        Resource::Group => ("thread group", "thread groups"),
        Resource::Thread => ("thread", "threads"),
        Resource::Object => ("object", "objects"),
        Resource::Holder => ("holder", "holders"),
        Resource::File => ("file", "files"),
        Resource::Function => ("function", "functions"),
    }
}

fn title(node: &Node) -> String {
    let candidate = &node.candidate;
    let label = &candidate.label;
    let through = match candidate.through.as_slice() {
        [] => String::new(),
        all => {
            let skipped = all.len().saturating_sub(MOST_NAMED);
            let dots = if skipped > 0 { ".. > " } else { "" };
            let named = all.get(skipped..).unwrap_or_default();
            format!(" (through {dots}{})", named.join(" > "))
        }
    };
    match candidate.resource {
        Resource::Holder => format!("held by {label}"),
        Resource::Function if node.hypothesis != Hypothesis::CpuBound => format!("in {label}"),
        _ => format!("{label}{through}"),
    }
}

fn figures(node: &Node) -> String {
    let Some(outcome) = &node.outcome else {
        return ": not tested".into();
    };
    let mut text = String::new();
    if let Some(share) = shares(outcome) {
        text += &format!(": {share} of the {}", whole(node));
    }
    if let (Some(value), None) = (outcome.value, node.parent) {
        text += &format!(" ({value:.2} threads on average)");
    }
    if outcome.kind == Kind::Sampled {
        text += ", by samples";
    }
    if let Some(gap) = &outcome.gap {
        text += &format!("; {gap}");
    }
    text
}

/// A share with its confidence interval, where that is wider than the digits.
fn shares(outcome: &Outcome) -> Option<String> {
    let share = outcome.share?;
    let (low, mean, high) = (
        human::percent(share.low),
        human::percent(share.mean.min(1.0)),
        human::percent(share.high.min(1.0)),
    );
    let is_unclear = outcome.verdict == Verdict::Unknown && outcome.kind == Kind::Inferred;
    Some(match (is_unclear, low == high) {
        (true, _) => format!("{low} to {high}"),
        (false, true) => mean,
        (false, false) => format!("{mean} ({low} to {high})"),
    })
}

fn whole(node: &Node) -> &'static str {
    match (node.parent, node.hypothesis.whole()) {
        (Some(_), _) => node.hypothesis.time(),
        (None, Whole::Busy) => "busy time",
        (None, Whole::BusyOrRunnable) => "busy and runnable time",
        (None, Whole::Life) => "threads' time",
    }
}

/// The answer, in sentences.
fn conclusion(found: &Found) -> String {
    let search = &found.search;
    let mut text = String::new();
    if found.is_cut_short {
        text += "The search was cut short.\n";
    }
    if found.busy < MOSTLY_IDLE {
        text += &format!(
            "The program is mostly idle: its {} are busy {} of one thread's time.\n",
            human::count_of(found.threads as u64, "thread", "threads"),
            human::percent(found.busy),
        );
    }
    let causes = search.causes();
    let (causes, idle): (Vec<_>, Vec<_>) = causes.into_iter().partition(|id| {
        let node = search.node(*id);
        node.is_some_and(|node| !node.hypothesis.may_be_idle())
    });
    for id in &causes {
        text += &sentence(search, *id);
    }
    if causes.is_empty() {
        for id in &idle {
            text += &sentence(search, *id);
        }
    }
    let unknown = search.roots().into_iter().filter_map(|id| search.node(id));
    let unknown = unknown.filter(|node| node.verdict() == Some(Verdict::Unknown));
    let unknown: Vec<String> = unknown.map(not_known).collect();
    let roots = search.roots().into_iter();
    for id in roots.filter(|id| is_possible(search, *id)) {
        text += &format!("Possibly: {}", sentence(search, id));
    }
    if !unknown.is_empty() {
        text += &format!("Not known: {}.\n", unknown.join("; "));
    }
    if causes.is_empty() && idle.is_empty() && unknown.is_empty() {
        text += "No hypothesis is true.\n";
    }
    text
}

/// Measured itself, of a whole that is uncertain, and found in something.
fn is_possible(search: &Search, id: NodeId) -> bool {
    let outcome = search.node(id).and_then(|node| node.outcome.as_ref());
    let is_bounded = outcome.is_some_and(|outcome| {
        outcome.verdict == Verdict::Unknown
            && outcome.kind == Kind::Inferred
            && outcome.value.is_some()
    });
    is_bounded && !search.children(id).is_empty()
}

/// A hypothesis without a verdict, with the bounds of its share where there are any.
fn not_known(node: &Node) -> String {
    let title = node.hypothesis.title();
    match node.outcome.as_ref().and_then(shares) {
        Some(shares) => format!("{title} ({shares} of the {})", whole(node)),
        None => title.into(),
    }
}

fn sentence(search: &Search, id: NodeId) -> String {
    let Some(root) = search.node(id) else {
        return String::new();
    };
    let time = root.hypothesis.time();
    let mut text = format!(
        "{}: {} of the {}",
        capital(root.hypothesis.title()),
        match root
            .outcome
            .as_ref()
            .filter(|o| o.verdict == Verdict::Unknown)
        {
            Some(outcome) => shares(outcome).unwrap_or_default(),
            None => human::percent(root.mean().unwrap_or(0.0)),
        },
        whole(root),
    );
    let mut parts: Vec<String> = Vec::new();
    let mut add = |node: &Node, before: &str| {
        let share = human::percent(node.mean().unwrap_or(0.0).min(1.0));
        parts.push(format!("{share} {before} {}", node.candidate.label));
    };
    let explanation = |resource| {
        search
            .explanation(id, resource)
            .and_then(|id| search.node(id))
    };
    for (resource, before) in [
        (Resource::Object, "for"),
        (Resource::Holder, "while it is held by"),
        (Resource::File, "for"),
    ] {
        if let Some(node) = explanation(resource) {
            add(node, before);
        }
    }
    let functions = search.ends(id, Resource::Function).into_iter();
    for node in functions.take(MOST_NAMED).filter_map(|id| search.node(id)) {
        add(node, "in");
    }
    if let Some(node) = explanation(Resource::Group) {
        add(node, "in the threads");
    }
    let thread = explanation(Resource::Thread);
    if let Some(node) = thread.filter(|node| node.mean() >= Some(MOST_OF_IT)) {
        add(node, "in the thread");
    }
    if !parts.is_empty() {
        text += &format!("; of its {time} {}", parts.join(", "));
    }
    text + ".\n"
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_live::search::{Candidate, Limits, Share};
    use convoy_live::{Focus, Key};

    fn found() -> Found {
        let mut search = Search::new(Limits::default());
        let cpu = search.hypothesis(Hypothesis::CpuBound, Outcome::exact(1.9, 2.0, 0.2));
        search.hypothesis(Hypothesis::WaitsForIo, Outcome::unknown("no rights"));
        let candidate = |resource, label: &str, key| Candidate {
            resource,
            label: label.into(),
            through: Vec::new(),
            focus: Focus::new().with(key, label),
            request: None,
            expected: None,
            tag: None,
        };
        let group = candidate(Resource::Group, "pool-#", Key::Group);
        let outcome = |mean: f64| Outcome::exact(mean, 1.0, 0.2);
        let pool = search.refine_known(cpu, vec![(group, outcome(0.97))])[0];
        let mut hash = candidate(Resource::Function, "hash", Key::Function);
        hash.through = vec!["start".into(), "work".into()];
        let small = candidate(Resource::Function, "log", Key::Function);
        let share = Share::of_samples(700.0, 1000.0);
        let sampled = Outcome::sampled(share, 0.2, "a timer costs 12 %");
        search.refine_known(pool, vec![(hash, sampled), (small, outcome(0.01))]);
        Found {
            process: "server".into(),
            pid: 42,
            search,
            busy: 2.0,
            threads: 9,
            seconds: 12.4,
            tests: 5,
            cost_share: 0.004,
            is_cut_short: false,
        }
    }

    #[test]
    fn the_tree_ends_with_function_and_threads() {
        let text = tree(&found());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[2..],
            [
                "true      CPU bound: 95 % of the busy time (1.90 threads on average)",
                "true        pool-#: 97 % of the CPU time",
                "true          hash (through start > work): 70 % (67 % to 73 %) of the CPU time, by \
                 samples; a timer costs 12 %",
                "              1 function below 10 % by samples: not tested",
                "unknown   waits for files and disks; no rights",
                "",
                "CPU bound: 95 % of the busy time; of its CPU time 70 % in hash, 97 % in the threads \
                 pool-#.",
                "Not known: waits for files and disks.",
            ]
        );
    }

    #[test]
    fn an_uncertain_whole_is_given_with_what_is_known_below_it() {
        let mut found = found();
        let mut search = Search::new(Limits::default());
        let outcome = Outcome {
            verdict: Verdict::Unknown,
            share: Some(Share {
                mean: 0.55,
                low: 0.1,
                high: 1.0,
            }),
            kind: Kind::Inferred,
            ..Outcome::exact(0.5, 0.5, 0.2)
        };
        let cpu = search.hypothesis(Hypothesis::CpuBound, outcome);
        let slow = Candidate {
            resource: Resource::Function,
            label: "slow".into(),
            through: Vec::new(),
            focus: Focus::new().with(Key::Function, "slow"),
            request: None,
            expected: None,
            tag: None,
        };
        search.refine_known(cpu, vec![(slow, Outcome::exact(0.77, 1.0, 0.2))]);
        found.search = search;
        let text = tree(&found);
        let expected = "Possibly: CPU bound: 10 % to 100 % of the busy time; of its CPU time 77 % \
                        in slow.";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn idle_programs_and_interrupted_searches_say_so() {
        let mut found = found();
        (found.busy, found.is_cut_short) = (0.02, true);
        let text = tree(&found);
        assert!(text.contains("The search was cut short"), "{text}");
        assert!(text.contains("mostly idle: its 9 threads"), "{text}");
    }
}
