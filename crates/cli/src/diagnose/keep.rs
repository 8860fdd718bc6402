//! Leaves of everything that was traced what was asked for.

use std::collections::BTreeSet;

use convoy_profile::{Profile, SectionSite, Sections};

use super::wanted::{matching, Place, Wanted};
use crate::analyze::Judged;
use crate::message::Message;
use crate::threshold_args::Limits;

/// Removes the sections of other locks, where they had to be traced because it was not known which ones are
/// meant. `Err` = none is left, and why; then all stay.
pub fn only(profile: &mut Profile, wanted: &Wanted, limits: &Limits) -> Result<(), Message> {
    if wanted.patterns.is_empty() && wanted.places.is_empty() {
        return Ok(());
    }
    let Some(sections) = profile.sections.take() else {
        return Ok(());
    };
    let keep = match which(profile, &sections, wanted, limits) {
        Ok(keep) => keep,
        Err(message) => {
            profile.sections = Some(sections);
            return Err(message);
        }
    };
    if keep.is_empty() {
        profile.sections = Some(sections); // the recorder has said why
        return Ok(());
    }
    if !keep.contains(&true) {
        profile.sections = Some(sections);
        return Err(Message::new(
            "none of the locks that were asked for was taken in this run",
            "the report has all locks that were",
            "look at its list of locks for the name",
        ));
    }
    profile.sections = Some(retain(sections, &keep));
    Ok(())
}

/// By site.
fn which(
    profile: &Profile,
    sections: &Sections,
    wanted: &Wanted,
    limits: &Limits,
) -> Result<Vec<bool>, Message> {
    if !wanted.patterns.is_empty() {
        let judged = Judged::new(profile.clone(), None, limits)?;
        let objects = matching(&judged, &wanted.patterns)?;
        let model = judged.report().model;
        let objects: BTreeSet<(u32, u64)> = objects
            .iter()
            .filter_map(|id| model.objects.get(id.0 as usize))
            .map(|o| (o.process.0, o.addr))
            .collect();
        let is_meant = |site: &SectionSite| {
            let process = profile.processes.get(site.process as usize)?;
            let object = process.objects.get(site.object? as usize)?;
            Some(objects.contains(&(site.process, object.addr)))
        };
        let sites = sections.sites.iter();
        return Ok(sites.map(|s| is_meant(s).unwrap_or(false)).collect());
    }
    let place_of = |site: &SectionSite| {
        let process = profile.processes.get(site.process as usize)?;
        Place::of(process.frames.get(site.frame as usize)?)
    };
    let exact = |place: &Place| wanted.places.contains(place);
    let functions: BTreeSet<_> = wanted.places.iter().map(Place::function).collect();
    let near = |place: &Place| functions.contains(&place.function());
    let places: Vec<_> = sections.sites.iter().map(place_of).collect();
    // Lines move when code before them changes: then the function has to do.
    let by = |hit: &dyn Fn(&Place) -> bool| -> Vec<bool> {
        places.iter().map(|p| p.as_ref().is_some_and(hit)).collect()
    };
    let found = by(&exact);
    Ok(if found.contains(&true) {
        found
    } else {
        by(&near)
    })
}

/// Removes sites, and with each what belongs to it.
fn retain(sections: Sections, keep: &[bool]) -> Sections {
    let mut next = 0;
    let sites: Vec<Option<u32>> = keep
        .iter()
        .map(|keep| {
            keep.then(|| {
                next += 1;
                next - 1
            })
        })
        .collect();
    let to = |site: u32| sites.get(site as usize).copied().flatten();
    let mut kept = Sections {
        sampling: sections.sampling,
        words: sections.words,
        drops: sections.drops,
        ..Sections::default()
    };
    let all = sections.sites.into_iter().zip(keep);
    kept.sites = all
        .filter(|(_, keep)| **keep)
        .map(|(site, _)| site)
        .collect();
    let mut code = Vec::with_capacity(sections.code.len());
    for mut row in sections.code {
        let site = to(row.site);
        code.push(site.map(|_| kept.code.len() as u32));
        if let Some(site) = site {
            row.site = site;
            kept.code.push(row);
        }
    }
    let code_to = |ix: Option<u32>| code.get(ix? as usize).copied().flatten();
    for mut sample in sections.samples {
        let Some(site) = to(sample.site) else {
            continue;
        };
        sample.site = site;
        for touch in &mut sample.touches {
            touch.read_by = code_to(touch.read_by);
            touch.written_by = code_to(touch.written_by);
        }
        kept.samples.push(sample);
    }
    for mut call in sections.calls {
        let Some(site) = to(call.site) else { continue };
        call.site = site;
        kept.calls.push(call);
    }
    for mut follow in sections.follows {
        let (Some(first), Some(then)) = (to(follow.first), to(follow.then)) else {
            continue;
        };
        (follow.first, follow.then) = (first, then);
        kept.follows.push(follow);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_profile::{SectionCode, SectionFollow, SectionSample, Touch};

    #[test]
    fn what_stays_points_to_the_same_as_before() {
        let site = |frame| SectionSite {
            frame,
            ..SectionSite::default()
        };
        let code = |site, frame| SectionCode {
            site,
            frame,
            ..SectionCode::default()
        };
        let follow = |first, then| SectionFollow {
            first,
            then,
            ..SectionFollow::default()
        };
        let sections = Sections {
            sites: vec![site(10), site(11), site(12)],
            code: vec![code(0, 20), code(1, 21), code(2, 22)],
            samples: vec![SectionSample {
                site: 2,
                touches: vec![Touch {
                    read_by: Some(2),
                    written_by: Some(0),
                    ..Touch::default()
                }],
                ..SectionSample::default()
            }],
            follows: vec![follow(1, 2), follow(0, 1), follow(2, 1)],
            ..Sections::default()
        };
        let kept = retain(sections, &[false, true, true]);
        let frames: Vec<_> = kept.sites.iter().map(|s| s.frame).collect();
        assert_eq!(frames, [11, 12]);
        let code: Vec<_> = kept.code.iter().map(|c| (c.site, c.frame)).collect();
        assert_eq!(code, [(0, 21), (1, 22)]);
        let touch = &kept.samples[0].touches[0];
        assert_eq!(
            (kept.samples[0].site, touch.read_by, touch.written_by),
            (1, Some(1), None)
        );
        let follows: Vec<_> = kept.follows.iter().map(|f| (f.first, f.then)).collect();
        assert_eq!(follows, [(0, 1), (1, 0)]);
    }
}
