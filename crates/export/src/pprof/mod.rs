//! pprof's format, in the shape of Go's and Abseil's contention profiles, so that whatever reads those reads
//! these: two values a sample, `contentions/count` and `delay/nanoseconds`.

mod proto;
mod writer;

use std::collections::BTreeMap;
use std::io::Write;

use convoy_model::{Model, ObjectId, Pair, SiteFrame, SiteId, ThreadId};
use convoy_report::names;
use flate2::write::GzEncoder;
use flate2::Compression;
use prost::Message;

use crate::moments;
use crate::stacks::{frames, process_name, thread, thread_name};
use crate::waits::{self, object_name, Classes};
use crate::{Error, Source};
use writer::Writer;

/// Waits for locks at the stack of who made others wait: where the holder released the lock, as in Go since
/// 1.22; where that is not known, where it had acquired it.
pub fn mutex(source: &Source<'_>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
    let model = source.report.model;
    let mut w = start(source);
    let mut pairs: BTreeMap<ObjectId, Vec<&Pair>> = BTreeMap::new();
    for pair in &model.pairs {
        pairs.entry(pair.object).or_default().push(pair);
    }
    let (mut all, mut unknown) = (0, 0);
    for row in &source.report.analysis.locks {
        let (mut count, mut wait_ns) = (row.stats.contended, row.stats.wait_ns);
        all += wait_ns;
        for (holder, n, ns) in holders(pairs.get(&row.object).map_or(&[], Vec::as_slice)) {
            // The waits of the lock are exact; its pairs are at most as many.
            let (n, ns) = (n.min(count), ns.min(wait_ns));
            (count, wait_ns) = (count - n, wait_ns - ns);
            let mut labels = lock_labels(&mut w, model, row.object);
            if let Some(id) = holder.thread {
                labels.extend(thread_labels(&mut w, model, id));
            }
            w.sample(holder.frames(model), n, ns, labels);
        }
        unknown += wait_ns;
        if count > 0 || wait_ns > 0 {
            let labels = lock_labels(&mut w, model, row.object);
            w.sample(&[pseudo("[holder not known]")], count, wait_ns, labels);
        }
    }
    let mut remarks = finish(w, out)?;
    if all == 0 {
        let empty = "no thread waited for a lock that the agent saw: the profile is empty";
        remarks.extend(moments::nothing(model, empty));
    } else if unknown * 10 > all {
        let percent = unknown * 100 / all;
        remarks.push(format!(
            "{percent} % of the waits have no known holder: they are at [holder not known]"
        ));
    }
    Ok(remarks)
}

/// Who made others wait, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Holder<'a> {
    thread: Option<ThreadId>,
    released_at: Option<SiteId>,
    acquired_at: &'a [SiteFrame],
}

impl<'a> Holder<'a> {
    fn frames(&self, model: &'a Model) -> &'a [SiteFrame] {
        match self.released_at.map(|site| frames(model, site)) {
            Some(known) if !known.is_empty() => known,
            _ => self.acquired_at,
        }
    }
}

fn holders<'a>(pairs: &[&'a Pair]) -> Vec<(Holder<'a>, u64, u64)> {
    let mut all: BTreeMap<Holder<'_>, (u64, u64)> = BTreeMap::new();
    for pair in pairs {
        let holder = Holder {
            thread: pair.peer,
            released_at: pair.peer_site,
            acquired_at: &pair.peer_acquired_at,
        };
        // Nobody's stack is the same as no pair at all.
        if holder.released_at.is_some() || !holder.acquired_at.is_empty() {
            let sum = all.entry(holder).or_default();
            *sum = (sum.0 + pair.waits, sum.1 + pair.wait_ns);
        }
    }
    all.into_iter().map(|(h, (n, ns))| (h, n, ns)).collect()
}

/// Every wait at the stack of who waited.
pub fn block(source: &Source<'_>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
    let model = source.report.model;
    let classes = Classes::of(source.report);
    let mut w = start(source);
    let all = waits::all(source.report);
    for waited in &all {
        let mut labels = match waited.object {
            Some(object) => lock_labels(&mut w, model, object),
            None => vec![w.label("kind", "futex")],
        };
        labels.push(w.label("class", classes.get(waited.object)));
        labels.extend(thread_labels(&mut w, model, waited.thread));
        let known = waited.site.map_or(&[][..], |site| frames(model, site));
        if known.is_empty() {
            let nowhere = [pseudo("[call stack not known]")];
            w.sample(&nowhere, waited.count, waited.wait_ns, labels);
        } else {
            w.sample(known, waited.count, waited.wait_ns, labels);
        }
    }
    let mut remarks = finish(w, out)?;
    if all.is_empty() {
        let empty = "no thread waited for another: the profile is empty";
        remarks.extend(moments::nothing(model, empty));
    }
    Ok(remarks)
}

fn start<'a>(source: &Source<'a>) -> Writer<'a> {
    let meta = &source.report.model.meta;
    let mut w = Writer::contentions(source.files);
    w.time(
        meta.started_unix_ns,
        meta.end_ns.saturating_sub(meta.start_ns),
    );
    w.comment(&format!("convoy {}", meta.convoy_version));
    w.comment(&meta.command.join(" "));
    w
}

fn finish(w: Writer<'_>, out: &mut dyn Write) -> Result<Vec<String>, Error> {
    let mut gz = GzEncoder::new(out, Compression::default());
    gz.write_all(&w.finish().encode_to_vec())?;
    gz.finish()?;
    Ok(Vec::new())
}

fn lock_labels(w: &mut Writer<'_>, model: &Model, id: ObjectId) -> Vec<proto::Label> {
    let mut labels = vec![w.label("lock", &object_name(model, id))];
    if let Some(object) = model.objects.get(id.0 as usize) {
        labels.push(w.label("kind", names::kind(object.kind)));
        if let Some(site) = object.init_site {
            labels.push(w.label("lock_site", &names::site_of(model, site)));
        }
    }
    labels
}

fn thread_labels(w: &mut Writer<'_>, model: &Model, id: ThreadId) -> Vec<proto::Label> {
    let mut labels = vec![
        w.label("process", process_name(model, id)),
        w.label("thread", &thread_name(model, id)),
    ];
    if let Some(thread) = thread(model, id) {
        labels.push(w.number("tid", u64::from(thread.tid)));
    }
    labels
}

/// A frame that is a remark.
fn pseudo(text: &str) -> SiteFrame {
    SiteFrame {
        function: text.to_owned(),
        ..SiteFrame::default()
    }
}
