//! Names of a recording's objects, sites and threads, from the profile that it is part of.

use std::collections::HashMap;

use convoy_model::{telling, Model, SiteFrame};
use convoy_profile::{Process, Profile};
use convoy_replay::analysis::Place;
use convoy_replay::study::Names;
use convoy_trace::{Recording, Site};

/// Names everything that a recording of the profile speaks of.
pub fn names(recording: &Recording, profile: &Profile) -> Names {
    let process = &profile.processes[recording.process as usize];
    let model = Model::build(without_trace(profile));
    let of_it = |id: u32| id == recording.process;
    let objects: HashMap<u64, &str> = model
        .objects
        .iter()
        .filter(|o| of_it(o.process.0))
        .map(|o| (o.addr, o.name.as_str()))
        .collect();
    let threads: HashMap<u32, &convoy_model::Thread> = model
        .threads
        .iter()
        .filter(|t| of_it(t.process.0))
        .map(|t| (t.tid, t))
        .collect();
    let group = |tid: u32| {
        let group = threads.get(&tid).map(|t| t.group.0 as usize);
        let group = group.and_then(|ix| model.groups.get(ix));
        group.map_or_else(String::new, |g| g.name.clone())
    };
    Names {
        objects: recording
            .objects
            .iter()
            .map(|o| objects.get(&o.addr).copied().unwrap_or_default().to_owned())
            .collect(),
        sites: recording.sites.iter().map(|s| place(process, s)).collect(),
        threads: recording.threads.iter().map(|t| t.name.clone()).collect(),
        groups: recording.threads.iter().map(|t| group(t.tid)).collect(),
    }
}

/// What names are made from: a copy of the trace would only take memory.
fn without_trace(profile: &Profile) -> Profile {
    Profile {
        meta: profile.meta.clone(),
        processes: profile.processes.clone(),
        ..Profile::default()
    }
}

/// The innermost function that is no wrapper, with the stack that the site was seen with.
fn place(process: &Process, site: &Site) -> Place {
    let stack = process.stacks.get(site.stack as usize);
    let stack = stack.filter(|frames| frames.first() == Some(&site.frame));
    let frames = match stack {
        Some(frames) => convoy_model::expand(process, frames),
        None => convoy_model::expand(process, &[site.frame]),
    };
    telling(&frames).map(place_of).unwrap_or_default()
}

fn place_of(frame: &SiteFrame) -> Place {
    Place {
        function: match frame.function_label() {
            function if function.is_empty() => frame.label(),
            function => function,
        },
        file: frame.file.clone(),
        line: frame.line,
    }
}
