//! Probes that count some calls only, and what they count besides calls and time.

use convoy_inject::{Also, Bytes, Counts, Holding, Io, Measure, Owner, Probe, Probes};

use super::target::{all_whole, calls, compile, of, Target};

/// Puts probes in, lets the program work, and gives what they counted and the last line.
fn counted(probes: impl Fn(&Target, i64) -> Vec<Probe>) -> (Counts, String) {
    counted_of("", probes)
}

fn counted_of(way: &str, probes: impl Fn(&Target, i64) -> Vec<Probe>) -> (Counts, String) {
    let mut target = Target::start(&compile("gated.c", &[]), way);
    let offset: i64 = target.line().parse().unwrap();
    let mut session = Probes::begin(target.pid(), Owner::this()).unwrap();
    all_whole(&session.insert(&probes(&target, offset)).unwrap());
    target.go_on();
    let line = target.line();
    let counts = session.read().unwrap();
    session.end().unwrap();
    target.finish();
    (counts, line)
}

#[test]
fn a_call_site_is_told_by_the_return_address() {
    let (counts, _) = counted(|target, _| {
        let from = |row, caller: &str| Probe {
            caller: Some(target.function(caller)),
            ..target.probe(row, "leaf", Measure::Time)
        };
        vec![
            target.probe(0, "leaf", Measure::Time),
            from(1, "first_caller"),
            from(2, "second_caller"),
            from(3, "asks"),
        ]
    });
    let calls: Vec<u64> = (0..4).map(|row| calls(&counts.cells, row)).collect();
    assert_eq!(calls, [401, 200, 100, 0]);
    // Calls that are not counted are not timed either.
    let returned = |row| -> u32 {
        let cells = of(&counts.cells, row);
        cells.map(|c| c.histogram.iter().sum::<u32>()).sum()
    };
    assert_eq!((returned(1), returned(2), returned(3)), (200, 100, 0));
}

#[test]
fn calls_are_counted_while_the_thread_holds_a_lock_of_the_present_epoch() {
    let (counts, _) = counted(|target, offset| {
        let held = |row, slot, epoch| Probe {
            holding: Some(Holding {
                offset,
                epoch,
                slot,
            }),
            ..target.probe(row, "leaf", Measure::Calls)
        };
        vec![held(0, 2, 5), held(1, 3, 5), held(2, 2, 4)]
    });
    let calls: Vec<u64> = (0..3).map(|row| calls(&counts.cells, row)).collect();
    assert_eq!(calls, [25, 0, 0]);
}

#[test]
fn bytes_are_added_up_by_the_arguments() {
    let kinds = [
        Bytes::First,
        Bytes::Second,
        Bytes::Third,
        Bytes::Product,
        Bytes::More,
    ];
    let (counts, _) = counted(|target, _| {
        let probe = |(row, bytes)| Probe {
            also: Also::Bytes(bytes),
            ..target.probe(row, "asks", Measure::Calls)
        };
        (0..).zip(kinds).map(probe).collect()
    });
    let bytes = |row| of(&counts.cells, row).map(|c| c.bytes).sum::<u64>();
    let all: Vec<u64> = (0..5).map(bytes).collect();
    assert_eq!(all, [1000, 1400, 200_000, 7000, 700]);
}

#[test]
fn files_are_told_apart_by_descriptor() {
    let (counts, line) = counted(|target, _| {
        let io = |row, function: &str, io| Probe {
            also: Also::Io(io, 3),
            ..target.probe(row, function, Measure::Time)
        };
        vec![io(0, "reads", Io::Read), io(1, "writes", Io::Write)]
    });
    let descriptors: Vec<u32> = line.split(' ').map(|n| n.parse().unwrap()).collect();
    let mut files = counts.files;
    files.sort_by_key(|file| file.descriptor);
    let found: Vec<(u32, u8, u64, u64)> = files
        .iter()
        .map(|f| (f.descriptor, f.group, f.read_bytes, f.write_bytes))
        .collect();
    // -1 is no descriptor.
    assert_eq!(
        found,
        [(descriptors[0], 3, 1000, 0), (descriptors[1], 3, 0, 10_000)]
    );
    // Ten naps of 2 ms.
    assert!(files[0].wait_ns >= 18_000_000, "{files:?}");
    assert!(files[1].wait_ns < 18_000_000, "{files:?}");
    assert_eq!(counts.lost_files, 0);
}

#[test]
fn calls_on_more_descriptors_than_there_is_room_for_are_told() {
    let (counts, _) = counted_of("many", |target, _| {
        vec![Probe {
            also: Also::Io(Io::Write, 0),
            ..target.probe(0, "writes", Measure::Time)
        }]
    });
    assert_eq!(calls(&counts.cells, 0), 600);
    let (told, lost) = (counts.files.len() as u64, counts.lost_files);
    assert_eq!(told + lost, 600);
    assert!((450..=512).contains(&told), "{told} are told apart");
}
