//! Which locks a person means by a word.

use convoy_analysis::counters::{Analysis, SiteShare, WaitsFor};
use convoy_model::{Model, ObjectId};
use regex_lite::Regex;

use crate::names;

/// Objects that `pattern` may mean, most waited for first: by name, by address (`0x...`), or by a
/// site that uses them. Exact names and addresses win over parts of names, those over sites.
///
/// # Errors
/// The pattern is no regular expression: what is wrong with it.
pub fn objects(model: &Model, analysis: &Analysis, pattern: &str) -> Result<Vec<ObjectId>, String> {
    let all = ranked(analysis);
    let exact: Vec<_> = all
        .iter()
        .filter(|(id, ..)| {
            let object = &model.objects[id.0 as usize];
            object.name == pattern
                || names::object(object) == pattern
                || is_addr(object.addr, pattern)
        })
        .map(|(id, ..)| *id)
        .collect();
    if !exact.is_empty() {
        return Ok(exact);
    }
    // A name such as `operator()` or `a[3]` is meant as it stands far more often than as an
    // expression: try that first.
    let literal = |text: &str| text.contains(pattern);
    let found = matching(model, &all, &literal);
    if !found.is_empty() {
        return Ok(found);
    }
    let regex = Regex::new(pattern).map_err(|e| e.to_string())?;
    Ok(matching(model, &all, &|text| regex.is_match(text)))
}

type Entry<'a> = (ObjectId, &'a [SiteShare], &'a [WaitsFor], u64);

fn ranked(analysis: &Analysis) -> Vec<Entry<'_>> {
    let locks = analysis.locks.iter().map(|r| {
        (
            r.object,
            r.sites.as_slice(),
            r.waits_for.as_slice(),
            r.stats.wait_ns,
        )
    });
    let events = analysis.events.iter().map(|r| {
        (
            r.object,
            r.sites.as_slice(),
            r.waits_for.as_slice(),
            r.wait_ns,
        )
    });
    let mut all: Vec<_> = locks.chain(events).collect();
    all.sort_by_key(|(.., wait_ns)| std::cmp::Reverse(*wait_ns));
    all
}

fn matching(model: &Model, all: &[Entry<'_>], hit: &dyn Fn(&str) -> bool) -> Vec<ObjectId> {
    let by_name: Vec<_> = all
        .iter()
        .filter(|(id, ..)| hit(&names::object_of(model, *id)))
        .map(|(id, ..)| *id)
        .collect();
    if !by_name.is_empty() {
        return by_name;
    }
    all.iter()
        .filter(|(_, sites, waits_for, _)| {
            let used = sites.iter().any(|share| {
                model.sites.get(share.site.0 as usize).is_some_and(|site| {
                    site.frames
                        .iter()
                        .any(|frame| hit(&names::frame(frame)) || hit(&frame.file))
                })
            });
            used || waits_for
                .iter()
                .any(|w| w.holder.iter().any(|f| hit(&names::frame(f))))
        })
        .map(|(id, ..)| *id)
        .collect()
}

fn is_addr(addr: u64, pattern: &str) -> bool {
    pattern
        .strip_prefix("0x")
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .is_some_and(|wanted| wanted == addr)
}
