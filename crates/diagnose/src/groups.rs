//! Sections of the same lock and place, whatever their call stacks.

use std::collections::{BTreeMap, BTreeSet};

use convoy_model::{
    Model, ObjectId, ProcessId, SectionSample, SectionSite, Sections, SiteFrame, SiteId,
};
use convoy_profile::Op;

/// More locks than this at one place are one family.
const OWN_ROWS: usize = 3;

/// Sites of sections that make one row.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Indices into `Sections::sites`.
    pub(crate) sites: Vec<u32>,
    pub(crate) locks: Vec<ObjectId>,
    pub(crate) lock_count: u64,
    /// The call stack with most sections.
    pub(crate) site: SiteId,
}

/// What a person calls the same place.
type Place<'a> = (ProcessId, &'a str, &'a str, u32, u64, Option<Op>);

pub(crate) fn groups(model: &Model, sections: &Sections) -> Vec<Group> {
    let mut by_place: BTreeMap<Place<'_>, Vec<u32>> = BTreeMap::new();
    for (ix, site) in (0u32..).zip(&sections.sites) {
        by_place.entry(place(model, site)).or_default().push(ix);
    }
    let mut groups = Vec::new();
    for sites in by_place.into_values() {
        let row = |ix: u32| sections.sites.get(ix as usize);
        let objects: BTreeSet<Option<ObjectId>> = sites
            .iter()
            .filter_map(|&ix| Some(row(ix)?.object))
            .collect();
        if objects.len() > OWN_ROWS {
            groups.extend(group(sections, sites));
            continue;
        }
        for object in objects {
            let of = |&ix: &u32| row(ix).is_some_and(|site| site.object == object);
            groups.extend(group(sections, sites.iter().copied().filter(of).collect()));
        }
    }
    groups
}

fn group(sections: &Sections, sites: Vec<u32>) -> Option<Group> {
    let rows = || {
        sites
            .iter()
            .filter_map(|&ix| sections.sites.get(ix as usize))
    };
    let most = rows().max_by_key(|site| site.run)?;
    let locks: BTreeSet<ObjectId> = rows().filter_map(|site| site.object).collect();
    let more: u64 = rows()
        .filter(|site| site.object.is_none())
        .map(|site| u64::from(site.objects))
        .max()
        .unwrap_or(0);
    Some(Group {
        site: most.site,
        lock_count: locks.len() as u64 + more,
        locks: locks.into_iter().collect(),
        sites,
    })
}

fn place<'a>(model: &'a Model, site: &SectionSite) -> Place<'a> {
    match shown(model, site.site) {
        // Without a line, or without any name, the address tells places apart.
        Some(f) if f.line > 0 => (site.process, &f.function, &f.file, f.line, 0, site.op),
        Some(f) => (site.process, &f.function, &f.module, 0, f.offset, site.op),
        None => (site.process, "", "", 0, u64::from(site.site.0), site.op),
    }
}

/// The frame of a call stack to show.
pub(crate) fn shown(model: &Model, site: SiteId) -> Option<&SiteFrame> {
    let site = model.sites.get(site.0 as usize)?;
    site.shown_frame()
}

impl Group {
    pub(crate) fn rows<'a>(
        &'a self,
        sections: &'a Sections,
    ) -> impl Iterator<Item = &'a SectionSite> {
        let sites = self.sites.iter();
        sites.filter_map(|&ix| sections.sites.get(ix as usize))
    }

    pub(crate) fn samples<'a>(&self, sections: &'a Sections) -> Vec<&'a SectionSample> {
        let sites: BTreeSet<u32> = self.sites.iter().copied().collect();
        let all = sections.samples.iter();
        all.filter(|sample| sites.contains(&sample.site)).collect()
    }
}
