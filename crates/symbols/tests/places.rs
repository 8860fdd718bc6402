//! Where symbols are found when they are not in the file that ran, and when they must not be taken.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use convoy_profile::{Process, Reason, Symbol};
use convoy_symbols::{resolve, Options, Stats};
use support::*;

/// The fixture `statics` in a directory of its own, with its debug information in a second file.
struct Split {
    dir: tempfile::TempDir,
    program: PathBuf,
    debug: PathBuf,
    /// Start of `twice`, which is exported, and of `step`, which is not.
    twice: u64,
    step: u64,
}

impl Split {
    fn new(flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut all = vec!["-O2", "-g", "-rdynamic"];
        all.extend(flags);
        let program = build(dir.path(), "statics.c", &all);
        let symbols = nm(&program);
        let value = |name: &str| {
            symbols
                .iter()
                .find(|s| s.name == name)
                .expect("a function")
                .value
        };
        let (twice, step) = (value("twice"), value("step"));
        let debug = dir.path().join("statics.dbg");
        run(
            "objcopy",
            &["--only-keep-debug", text(&program), text(&debug)],
        );
        run("strip", &[text(&program)]);
        Self {
            dir,
            program,
            debug,
            twice,
            step,
        }
    }

    fn link(&self) {
        let link = format!("--add-gnu-debuglink={}", text(&self.debug));
        run("objcopy", &[&link, text(&self.program)]);
    }

    /// Moves the debug file.
    fn hide(&self, to: &Path) {
        fs::create_dir_all(to.parent().expect("a directory")).expect("made");
        fs::rename(&self.debug, to).expect("moved");
    }

    fn process(&self) -> Process {
        let mut process = process(&self.program, text(&self.program));
        add_exact(&mut process, self.twice);
        add_exact(&mut process, self.step);
        process
    }

    fn options(&self) -> Options {
        Options {
            debug_roots: vec![self.dir.path().join("root")],
            ..Options::default()
        }
    }

    fn id(&self) -> String {
        build_id(&self.program)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect()
    }

    fn by_id(&self) -> PathBuf {
        let id = self.id();
        self.dir
            .path()
            .join(format!("root/.build-id/{}/{}.debug", &id[..2], &id[2..]))
    }

    /// Resolves and expects both functions with lines, from the debug file at `place`.
    fn expect_lines(&self, process: &mut Process, options: &Options, place: &Path) {
        let stats = resolve(process, options);
        assert_eq!(
            process.modules[0].symbols,
            format!("dwarf: {}", place.display())
        );
        assert_eq!(
            stats,
            Stats {
                frames_known: 2,
                debug_bytes: stats.debug_bytes,
                ..Stats::default()
            }
        );
        for (frame, name) in process.frames.iter().zip(["twice", "step"]) {
            let levels = levels(&frame.symbol);
            assert_eq!(levels.last().expect("a level").0, name);
            assert!(
                levels.iter().all(|l| l.1.contains("statics.c:")),
                "{levels:?}"
            );
        }
    }
}

fn unknown(process: &Process) -> Vec<Reason> {
    process
        .frames
        .iter()
        .filter_map(|f| match f.symbol {
            Symbol::Unknown(reason) => Some(reason),
            Symbol::Known(_) => None,
        })
        .collect()
}

#[test]
fn a_debug_link_is_followed_to_all_its_places() {
    for place in ["statics.dbg", ".debug/statics.dbg"] {
        let split = Split::new(&[]);
        split.link();
        let place = split.dir.path().join(place);
        split.hide(&place);
        split.expect_lines(&mut split.process(), &split.options(), &place);
    }
    let split = Split::new(&["-Wl,--build-id=none"]);
    split.link();
    let below = split.dir.path().strip_prefix("/").expect("absolute");
    let place = split
        .dir
        .path()
        .join("root")
        .join(below)
        .join("statics.dbg");
    split.hide(&place);
    split.expect_lines(&mut split.process(), &split.options(), &place);
}

#[test]
fn a_build_id_alone_finds_the_debug_file() {
    let split = Split::new(&[]);
    split.hide(&split.by_id());
    split.expect_lines(&mut split.process(), &split.options(), &split.by_id());
}

#[test]
fn the_cache_of_debuginfod_is_read() {
    let split = Split::new(&[]);
    let cache = split.dir.path().join("cache");
    let place = cache.join(split.id()).join("debuginfo");
    split.hide(&place);
    let options = Options {
        debuginfod_caches: vec![cache],
        ..split.options()
    };
    split.expect_lines(&mut split.process(), &options, &place);
}

#[test]
fn a_debug_file_of_another_build_is_not_taken() {
    for flags in [&[][..], &["-Wl,--build-id=none"]] {
        let split = Split::new(flags);
        split.link();
        let other = Split::new(&[flags, &["-DOTHER", "-O1"]].concat());
        fs::rename(&other.debug, &split.debug).expect("moved");
        let mut process = split.process();
        resolve(&mut process, &split.options());
        assert_eq!(process.modules[0].symbols, "dynsym");
        assert_eq!(functions(&process.frames[0].symbol), ["twice"]);
        assert_eq!(unknown(&process), [Reason::NoSymbol]);
    }
}

#[test]
fn a_stripped_file_names_what_it_exports_without_lines() {
    let split = Split::new(&[]);
    split.hide(&split.dir.path().join("elsewhere"));
    let mut process = split.process();
    let stats = resolve(&mut process, &split.options());
    assert_eq!(process.modules[0].symbols, "dynsym");
    assert_eq!(
        levels(&process.frames[0].symbol),
        [("twice".into(), "??:?".into())]
    );
    assert_eq!(unknown(&process), [Reason::NoSymbol]);
    assert_eq!((stats.frames_known, stats.frames_unknown), (1, 1));
}

#[test]
fn the_small_table_of_stripped_files_is_read() {
    let split = Split::new(&[]);
    let mini = split.dir.path().join("mini");
    run(
        "objcopy",
        &[
            "-S",
            "--remove-section",
            ".comment",
            "--keep-symbol=step",
            text(&split.debug),
            text(&mini),
        ],
    );
    run("xz", &[text(&mini)]);
    let section = format!(".gnu_debugdata={}.xz", text(&mini));
    run(
        "objcopy",
        &["--add-section", &section, text(&split.program)],
    );
    split.hide(&split.dir.path().join("elsewhere"));

    let mut process = split.process();
    resolve(&mut process, &split.options());
    assert_eq!(process.modules[0].symbols, "symtab: .gnu_debugdata");
    assert_eq!(
        functions(&process.frames[0].symbol),
        ["twice"],
        "by .dynsym"
    );
    assert_eq!(
        functions(&process.frames[1].symbol),
        ["step"],
        "by .gnu_debugdata"
    );

    fs::write(&mini, b"\xfd7zXZ\0 and nothing more").expect("written");
    let section = format!(".gnu_debugdata={}", text(&mini));
    run(
        "objcopy",
        &["--update-section", &section, text(&split.program)],
    );
    resolve(&mut process, &split.options());
    let source = &process.modules[0].symbols;
    assert!(source.starts_with("dynsym (.gnu_debugdata: "), "{source}");
}

#[test]
fn another_build_in_the_place_of_the_module_names_nothing() {
    let split = Split::new(&[]);
    let mut process = split.process();
    let by_id = split.by_id();
    let other = Split::new(&["-O1"]);
    fs::rename(&other.program, &split.program).expect("moved");
    resolve(&mut process, &split.options());
    assert_eq!(unknown(&process), [Reason::ModuleChanged; 2]);
    assert!(process.modules[0]
        .symbols
        .starts_with("none: the file is another build"));

    // The debug file of the build that ran may still be there.
    split.hide(&by_id);
    split.expect_lines(&mut process, &split.options(), &by_id);
}

#[test]
fn a_young_file_without_a_build_id_names_nothing() {
    let split = Split::new(&["-Wl,--build-id=none"]);
    split.hide(&split.dir.path().join("elsewhere"));
    let mut process = split.process();
    let started = Some(SystemTime::UNIX_EPOCH);
    resolve(
        &mut process,
        &Options {
            started,
            ..split.options()
        },
    );
    assert_eq!(unknown(&process), [Reason::ModuleChanged; 2]);

    let started = SystemTime::now().checked_add(std::time::Duration::from_secs(60));
    resolve(
        &mut process,
        &Options {
            started,
            ..split.options()
        },
    );
    assert_eq!(unknown(&process), [Reason::NoSymbol]);
}

#[test]
fn a_deleted_module_is_unreadable_unless_its_debug_file_is_known() {
    let split = Split::new(&[]);
    let mut process = split.process();
    process.modules[0].path.push_str(" (deleted)");
    split.hide(&split.by_id());
    split.expect_lines(&mut process, &split.options(), &split.by_id());

    fs::remove_file(split.by_id()).expect("removed");
    resolve(&mut process, &split.options());
    assert_eq!(
        process.modules[0].symbols, "dynsym",
        "the path still has the same build"
    );

    fs::remove_file(&split.program).expect("removed");
    resolve(&mut process, &split.options());
    assert_eq!(unknown(&process), [Reason::ModuleUnreadable; 2]);
    assert!(
        process.modules[0].symbols.starts_with("none: "),
        "{}",
        process.modules[0].symbols
    );
}

#[test]
fn a_module_that_is_no_regular_file_does_not_block() {
    let dir = tempfile::tempdir().expect("a directory");
    let pipe = dir.path().join("pipe");
    run("mkfifo", &[text(&pipe)]);
    let mut process = Process {
        modules: vec![convoy_profile::Module::default()],
        ..Process::default()
    };
    process.modules[0].path = text(&pipe).to_owned();
    add_exact(&mut process, 0x1000);
    resolve(&mut process, &Options::default());
    assert_eq!(unknown(&process), [Reason::ModuleUnreadable]);
}

#[test]
fn a_return_address_belongs_to_the_call_before_it() {
    let split = Split::new(&[]);
    split.hide(&split.by_id());
    let mut process = split.process();
    process.frames.clear();
    let end = nm(&split.by_id())
        .into_iter()
        .find(|s| s.name == "twice")
        .map(|s| s.value + s.size);
    add_return(&mut process, end.expect("a function"));
    resolve(&mut process, &split.options());
    assert_eq!(functions(&process.frames[0].symbol).last(), Some(&"twice"));
}

#[test]
fn split_debug_information_is_loaded_unit_by_unit() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = build(
        dir.path(),
        "statics.c",
        &["-O2", "-gdwarf-4", "-gsplit-dwarf"],
    );
    let dwo = fs::read_dir(dir.path())
        .expect("read")
        .filter_map(|e| Some(e.ok()?.path()))
        .find(|p| p.extension().is_some_and(|e| e == "dwo"))
        .expect("gcc wrote one");
    let addresses = code_addresses(&program, 200);
    let named = |process: &mut Process| {
        process.frames.clear();
        for &a in &addresses {
            add_exact(process, a);
        }
        resolve(process, &Options::default());
        process
            .frames
            .iter()
            .map(|f| levels(&f.symbol))
            .collect::<Vec<_>>()
    };
    let mut process = process(&program, text(&program));
    let from_dwo = named(&mut process);
    assert_eq!(process.modules[0].symbols, "dwarf");
    let inlined = from_dwo
        .iter()
        .filter(|l| l.len() > 1 && l[0].0 == "bump")
        .count();
    assert!(inlined > 0, "bump is inlined into step: {from_dwo:?}");

    run(
        "dwp",
        &[
            "-e",
            text(&program),
            "-o",
            &format!("{}.dwp", text(&program)),
        ],
    );
    fs::rename(&dwo, dir.path().join("gone")).expect("moved");
    assert!(named(&mut process) == from_dwo, "a package is as good");

    fs::remove_file(format!("{}.dwp", text(&program))).expect("removed");
    let without = named(&mut process);
    let source = &process.modules[0].symbols;
    assert!(
        source.starts_with("dwarf (split debug information is missing: "),
        "{source}"
    );
    assert!(
        without
            .iter()
            .any(|l| l[0].0 == "step" && l[0].1.contains("statics.c:")),
        "{without:?}"
    );
}

#[test]
fn what_debug_files_share_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let programs: Vec<PathBuf> = ["a", "b"]
        .iter()
        .map(|sub| {
            let sub = dir.path().join(sub);
            fs::create_dir(&sub).expect("made");
            build(
                &sub,
                "inlines.cc",
                &["-O2", "-g", if sub.ends_with("a") { "-DA" } else { "-O1" }],
            )
        })
        .collect();
    let file = &programs[0];
    let addresses = code_addresses(file, 300);
    let mut process = process(file, text(file));
    for &a in &addresses {
        add_exact(&mut process, a);
    }
    resolve(&mut process, &Options::default());
    let before: Vec<_> = process.frames.iter().map(|f| levels(&f.symbol)).collect();

    let shared = dir.path().join("shared");
    run(
        "dwz",
        &["-m", text(&shared), text(file), text(&programs[1])],
    );
    resolve(&mut process, &Options::default());
    assert_eq!(process.modules[0].symbols, "dwarf");
    let after: Vec<_> = process.frames.iter().map(|f| levels(&f.symbol)).collect();
    assert!(after == before, "dwz changes no name and no line");

    fs::remove_file(&shared).expect("removed");
    let stats = resolve(&mut process, &Options::default());
    let source = &process.modules[0].symbols;
    assert!(
        source.contains(".gnu_debugaltlink, was not found"),
        "{source}"
    );
    assert_eq!(
        stats.frames_known,
        addresses.len(),
        "symbols and lines are left"
    );
}

#[test]
fn the_vdso_is_named_from_memory() {
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let line = maps
        .lines()
        .find(|l| l.ends_with("[vdso]"))
        .expect("a vdso");
    let (lo, hi) = line
        .split(' ')
        .next()
        .and_then(|r| r.split_once('-'))
        .expect("a range");
    let number = |hex: &str| u64::from_str_radix(hex, 16).expect("hex");
    let mut image = vec![0; (number(hi) - number(lo)) as usize];
    let memory = fs::File::open("/proc/self/mem").expect("memory");
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut image, number(lo)).expect("read");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("vdso");
    fs::write(&file, image).expect("written");

    let dynamic = run(
        "nm",
        &["-D", "-S", "--without-symbol-versions", text(&file)],
    );
    let clock = dynamic
        .lines()
        .find(|l| l.ends_with(" clock_gettime"))
        .expect("every vdso has it");
    let mut process = process(&file, "[vdso]");
    add_exact(
        &mut process,
        number(clock.split(' ').next().expect("an address")) + 1,
    );
    resolve(&mut process, &Options::default());
    assert_eq!(functions(&process.frames[0].symbol), ["clock_gettime"]);
    assert_eq!(process.modules[0].symbols, "dynsym");
}
