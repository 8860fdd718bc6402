//! Every format of one synthetic run, read again: the numbers are those of the report.

use std::collections::BTreeMap;

use convoy_analysis::counters::Analysis;
use convoy_analysis::Params;
use convoy_export::{csv_tables, write, Files, Format, Source};
use convoy_model::Model;
use convoy_profile::{OffReason, Profile};
use convoy_report::Report;
use convoy_testkit::sched::{Schedule, Wait};
use convoy_testkit::{ms, us, ProfileBuilder};
use serde_json::Value;

/// Two workers and a lock; the scheduler was listened to if `listened`. The names are hostile.
fn run(listened: bool) -> Profile {
    let mut p = ProfileBuilder::new("server");
    p.cpus(2).wall(ms(100));
    let insert = p.frame("insert;now", "src/cache.c", 41);
    let inlined = p.inlined_frame(&[
        ("fast_path", "src/fast.h", 7),
        ("outer", "src/server.c", 70),
    ]);
    let main = p.frame("worker_main", "src/server.c", 120);
    let (at, release) = (p.stack(&[insert, inlined, main]), p.stack(&[inlined, main]));
    let a = p
        .thread("worker-0")
        .start("worker_main", "src/server.c", 100)
        .cpu(ms(60))
        .id();
    let b = p
        .thread("worker-1\n")
        .start("worker_main", "src/server.c", 100)
        .cpu(ms(40))
        .id();
    let lock = p.mutex("cache_lock");
    p.acquires(a, lock, at, 1_000).hold(us(3));
    p.contended(a, lock, at, 20, ms(10))
        .held_by(b, insert, release)
        .hold(us(4));
    p.contended(b, lock, at, 30, ms(30)).hold(us(9));
    let address = p.raw().objects[lock as usize].addr;
    let mut profile = p.build();
    if listened {
        let mut s = Schedule::new();
        s.runs(a, at, ms(50))
            .waits(a, Wait::futex(at, address).woken_by(b, release), ms(10));
        s.queues(a, at, ms(1))
            .runs_until(a, main_stack(&profile), ms(39));
        s.runs(b, release, ms(60))
            .waits(b, Wait::new(OffReason::Sleep, at), ms(40));
        s.put_into(&mut profile);
    }
    profile
}

fn main_stack(profile: &Profile) -> u32 {
    profile.processes[0].stacks.len() as u32 - 1
}

fn exported(profile: &Profile, format: Format) -> (Vec<u8>, Vec<String>) {
    with(profile, |source| {
        let mut out = Vec::new();
        let remarks = write(format, source, &mut out).unwrap();
        (out, remarks)
    })
}

fn with<T>(profile: &Profile, use_it: impl FnOnce(&Source<'_>) -> T) -> T {
    let thresholds = Params::default();
    let model = Model::build(profile.clone());
    let analysis: Analysis = convoy_analysis::counters::analyze(&model, &thresholds);
    let critical = model
        .sched
        .is_some()
        .then(|| convoy_analysis::scheduler::analyze(&model, &convoy_analysis::Params::default()));
    let report = Report {
        model: &model,
        analysis: &analysis,
        critical: critical.as_ref(),
        sections: None,
        thresholds: &thresholds,
    };
    use_it(&Source {
        report: &report,
        files: &Files::of(profile),
    })
}

/// Stacks and values, by inferno's own reading of them.
fn folded(profile: &Profile, format: Format) -> BTreeMap<String, u64> {
    let (out, _) = exported(profile, format);
    let text = String::from_utf8(out).unwrap();
    let mut svg = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    inferno::flamegraph::from_lines(&mut options, text.lines(), &mut svg).unwrap();
    assert!(String::from_utf8(svg).unwrap().contains("worker_main"));
    let line = |line: &str| {
        let (stack, value) = line.rsplit_once(' ').unwrap();
        (stack.to_owned(), value.parse().unwrap())
    };
    text.lines().map(line).collect()
}

#[test]
fn folded_stacks_have_the_sums_of_the_report() {
    let profile = run(true);
    let waits = folded(&profile, Format::FoldedWaits);
    assert_eq!(waits.values().sum::<u64>(), 40_000, "{waits:?}");
    let stack = "server;worker-#;worker_main;outer;fast_path_[i];insert:now;[mutex cache_lock]";
    assert!(
        waits.keys().any(|s| s.starts_with("server;worker-#")),
        "{waits:?}"
    );
    assert_eq!(waits.get(stack), Some(&10_000), "{waits:?}");
    let off = folded(&profile, Format::FoldedOffCpu);
    assert_eq!(off.values().sum::<u64>(), 50_000, "{off:?}");
    assert!(off.keys().any(|s| s.ends_with("[sleep]")), "{off:?}");
    // The CMetric of all threads is the time in which any was active.
    let cmetric: u64 = folded(&profile, Format::FoldedCmetric).values().sum();
    assert!(cmetric.abs_diff(100_000) <= 2, "{cmetric}");
}

#[test]
fn what_needs_the_scheduler_says_so_without_it() {
    let profile = run(false);
    let error = with(&profile, |source| {
        write(Format::FoldedOffCpu, source, &mut Vec::new()).unwrap_err()
    });
    assert!(error.to_string().contains("no scheduler events"), "{error}");
    for format in [Format::Firefox, Format::Perfetto] {
        let (_, remarks) = exported(&profile, format);
        assert!(remarks[0].contains("no timeline"), "{remarks:?}");
    }
}

#[test]
fn json_lines_are_the_rows_of_the_report() {
    let profile = run(true);
    let (out, _) = exported(&profile, Format::JsonLines);
    let lines: Vec<Value> = String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["type"], "convoy");
    let report = with(&profile, |source| convoy_report::json::value(source.report));
    for (table, kind) in [
        ("locks", "lock"),
        ("uses", "use"),
        ("threads", "thread"),
        ("stacks", "stack"),
    ] {
        let rows: Vec<_> = lines
            .iter()
            .filter(|l| l["type"] == kind)
            .cloned()
            .collect();
        let expected = report[table].as_array().unwrap();
        assert_eq!(rows.len(), expected.len(), "{table}");
        for (mut row, expected) in rows.into_iter().zip(expected) {
            row.as_object_mut().unwrap().remove("type");
            assert_eq!(&row, expected, "{table}");
        }
    }
    assert!(
        lines.iter().any(|l| l["type"] == "critical-path"),
        "the scheduler's tables"
    );
}

#[test]
fn tables_have_names_beside_ids() {
    let tables = with(&run(true), |source| csv_tables(source.report).unwrap());
    let table = |name: &str| {
        tables
            .iter()
            .find(|t| t.name == name)
            .unwrap_or_else(|| panic!("{name}"))
    };
    let mut reader = csv::Reader::from_reader(table("locks").text.as_slice());
    let rows: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    assert_eq!(rows[0]["object_name"], "cache_lock");
    assert_eq!(rows[0]["stats_wait_ns"], ms(40).to_string());
    assert_eq!(rows[0]["stats_contended_count"], "50");
    let mut reader = csv::Reader::from_reader(table("uses").text.as_slice());
    let uses: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    let waits: u64 = uses
        .iter()
        .map(|u| u["wait_ns"].parse::<u64>().unwrap())
        .sum();
    assert_eq!(waits, ms(40));
    assert!(
        uses.iter().any(|u| u["thread_name"] == "worker-1\n"),
        "a name with a line feed"
    );
    let mut reader = csv::Reader::from_reader(table("lock-sites").text.as_slice());
    let sites: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    assert_eq!(
        sites[0]["lock"], rows[0]["object"],
        "which lock a site is of"
    );
}

#[test]
fn an_empty_profile_is_written_and_said_to_be_empty() {
    let empty = Profile::default();
    for format in [Format::PprofMutex, Format::PprofBlock, Format::FoldedWaits] {
        let (_, remarks) = exported(&empty, format);
        assert!(!remarks.is_empty(), "{format:?}");
    }
    for format in [Format::Firefox, Format::Perfetto, Format::JsonLines] {
        assert!(!exported(&empty, format).0.is_empty(), "{format:?}");
    }
}
