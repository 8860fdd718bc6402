//! Whether two sides are runs of one program. Its name may change with the build, and the build with its code: different
//! are those of which name, build and code all differ.

use std::collections::BTreeSet;

use convoy_model::SiteId;
use convoy_profile::Profile;
use convoy_report::{names, Report};

use crate::key;
use crate::summary::{LockKey, Summary};

/// Functions by name and source file, those of the executable whatever it is called.
pub(crate) type Code = BTreeSet<(String, String)>;

/// Build-ids of the executables of a run.
pub fn builds(profile: &Profile) -> BTreeSet<Vec<u8>> {
    let own = profile.processes.iter().filter_map(|process| {
        let module = process.modules.iter().find(|m| m.path == process.exe)?;
        (!module.build_id.is_empty()).then(|| module.build_id.clone())
    });
    own.collect()
}

/// What a run has shown of its executables, and of libraries where they take locks: two programs that work on one
/// library are compared for its sake. Every program has a `main`, which tells nothing.
pub(crate) fn code(report: &Report<'_>) -> Code {
    let model = report.model;
    let locks = report.analysis.locks.iter().flat_map(|row| &row.sites);
    let locks: BTreeSet<SiteId> = locks.map(|share| share.site).collect();
    let code = model.sites.iter().zip(0..).filter_map(|(site, ix)| {
        let exe = key::base(&model.processes.get(site.process.0 as usize)?.exe);
        let frame = names::shown(site)?;
        let own = frame.module == exe;
        let known = !frame.function.is_empty() && frame.function != "main";
        let file = match frame.file.as_str() {
            "" if !own => &frame.module,
            file => file,
        };
        let told = known && !is_header(file) && (own || locks.contains(&SiteId(ix)));
        told.then(|| (frame.function.clone(), key::base(file).to_owned()))
    });
    code.collect()
}

/// What is run, without its folder: two builds lie in two. Empty = not known.
pub fn name(run: &Summary) -> &str {
    key::base(run.command.first().map_or("", String::as_str))
}

/// What each side is called, if no name is on both.
pub fn names(before: &[Summary], after: &[Summary]) -> Option<[String; 2]> {
    let named = |side: &[Summary]| -> BTreeSet<String> {
        side.iter().map(|run| name(run).to_owned()).collect()
    };
    let (was, is) = (named(before), named(after));
    let unknown = was.contains("") || is.contains("");
    let joined = |names: BTreeSet<String>| names.into_iter().collect::<Vec<_>>().join(", ");
    (!unknown && was.is_disjoint(&is)).then(|| [joined(was), joined(is)])
}

/// What each side is called, if they are different programs: no name, build or lock is on both, and of the code no
/// more than half of what the side with less has shown. Programs of one source tree have some helpers in common.
pub fn different(before: &[Summary], after: &[Summary]) -> Option<[String; 2]> {
    let names = names(before, after)?;
    let (old, new) = (all(before, |r| &r.builds), all(after, |r| &r.builds));
    let (code, code_new) = (all(before, |r| &r.code), all(after, |r| &r.code));
    let common = code.intersection(&code_new).count();
    let alike = 2 * common > code.len().min(code_new.len());
    let same = !old.is_disjoint(&new) || alike || shares_a_lock(before, after);
    (!same).then_some(names)
}

/// A lock of one name that a function of one name uses.
fn shares_a_lock(before: &[Summary], after: &[Summary]) -> bool {
    let (old, new) = (users(before), users(after));
    !old.is_disjoint(&new)
}

fn users(runs: &[Summary]) -> BTreeSet<(&LockKey, (String, String))> {
    let locks = runs.iter().flat_map(|run| &run.locks);
    let users = locks.filter(|(key, _)| key.lock).flat_map(|(key, n)| {
        let named = n.sites.keys().filter(|place| {
            !place.function.is_empty() && place.function != "main" && !is_header(&place.file)
        });
        named.map(move |place| (key, place.code()))
    });
    users.collect()
}

/// What is in a header is in every program that includes it.
fn is_header(file: &str) -> bool {
    let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending);
    ["h", "hh", "hpp", "hxx"].contains(&ending)
}

fn all<T: Clone + Ord>(runs: &[Summary], of: fn(&Summary) -> &BTreeSet<T>) -> BTreeSet<T> {
    runs.iter().flat_map(of).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Place;
    use crate::summary::LockNumbers;

    fn run(name: &str, functions: &[&str]) -> Summary {
        let code = functions
            .iter()
            .map(|f| ((*f).to_owned(), "a.c".to_owned()));
        Summary {
            command: vec![format!("./{name}")],
            builds: BTreeSet::from([name.bytes().collect()]),
            code: code.collect(),
            ..Summary::default()
        }
    }

    fn lock(run: &mut Summary, function: &str, file: &str) {
        let key = LockKey {
            lock: true,
            kind: "mutex",
            name: "cache_lock".into(),
        };
        let place = Place {
            function: function.into(),
            file: file.into(),
            ..Place::default()
        };
        let mut numbers = LockNumbers::default();
        numbers.sites.insert(place, Default::default());
        run.locks.insert(key, numbers);
    }

    fn differ(a: &Summary, b: &Summary) -> bool {
        different(std::slice::from_ref(a), std::slice::from_ref(b)).is_some()
    }

    #[test]
    fn most_of_the_code_tells_and_a_helper_does_not() {
        let old = run("old", &["get", "put", "helper"]);
        assert!(!differ(
            &old,
            &run("new", &["get", "put", "more", "yet_more"])
        ));
        assert!(differ(&old, &run("new", &["helper", "sort"])));
        assert!(differ(&run("old", &[]), &run("new", &[])), "nothing tells");
        assert!(!differ(&run("old", &[]), &run("old", &[])));
        assert!(!differ(&old, &Summary::default()), "without a name");
    }

    #[test]
    fn a_lock_of_one_name_in_one_function_tells_unless_it_is_in_a_header() {
        for (file, differs) in [("a.c", false), ("fx.h", true)] {
            let (mut old, mut new) = (run("old", &["get"]), run("new", &["get_fast", "put"]));
            lock(&mut old, "get_slot", file);
            lock(&mut new, "get_slot", file);
            assert_eq!(differ(&old, &new), differs, "{file}");
        }
    }
}
