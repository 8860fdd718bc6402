//! A probed program, and where its functions are.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use convoy_inject::{Cell, Inserted, Measure, Probe, Probes};
use object::{Object, ObjectKind, ObjectSymbol, SymbolKind};

pub struct Target {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// By name.
    functions: HashMap<String, Range<u64>>,
}

static COMPILED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Compiles a program of tests/programs, once: another test may be about to run it.
pub fn compile(source: &str, flags: &[&str]) -> PathBuf {
    let mut compiled = COMPILED.lock().unwrap_or_else(|e| e.into_inner());
    let name = format!("{source}{}", flags.concat().replace(['/', '='], "_"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if !compiled.insert(program.clone()) {
        return program;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    let compiler = if source.extension().is_some_and(|e| e == "cc") {
        "g++"
    } else {
        "gcc"
    };
    let mut command = Command::new(compiler);
    command
        .arg("-O2")
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&program)
        .arg("-pthread");
    assert!(command.status().unwrap().success(), "{command:?}");
    program
}

impl Target {
    pub fn start(program: &Path, way: &str) -> Self {
        let mut target = Self::start_without_symbols(program, way);
        target.functions = functions(program, target.pid());
        target
    }

    pub fn start_without_symbols(program: &Path, way: &str) -> Self {
        Self::started(program, way).expect("it says that it is ready")
    }

    /// `None` = it says that it cannot do that here.
    pub fn start_if_ready(program: &Path, way: &str) -> Option<Self> {
        let mut target = Self::started(program, way)?;
        target.functions = functions(program, target.pid());
        Some(target)
    }

    fn started(program: &Path, way: &str) -> Option<Self> {
        let mut child = Command::new(program)
            .arg(way)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut target = Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            functions: HashMap::new(),
        };
        (target.line() == "ready").then_some(target)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Lets it go on.
    pub fn go_on(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Its end, which must be the one it has alone.
    pub fn finish(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    pub fn probe(&self, row: u32, function: &str, measure: Measure) -> Probe {
        Probe::new(row, self.functions[function].clone(), measure)
    }

    /// Where a function is.
    pub fn function(&self, name: &str) -> Range<u64> {
        self.functions[name].clone()
    }

    /// The program's code as it is now.
    pub fn code(&self) -> Vec<u8> {
        super::all_functions::code(self.pid())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn functions(program: &Path, pid: u32) -> HashMap<String, Range<u64>> {
    let bytes = fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let real = fs::canonicalize(program).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let first = maps
        .lines()
        .find(|l| l.ends_with(real.to_str().unwrap()))
        .unwrap();
    let base = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
    let bias = if file.kind() == ObjectKind::Dynamic {
        base
    } else {
        0
    };
    let symbols = file
        .symbols()
        .filter(|s| s.kind() == SymbolKind::Text && s.size() > 0);
    symbols
        .map(|s| {
            let start = s.address() + bias;
            (s.name().unwrap().to_owned(), start..start + s.size())
        })
        .collect()
}

/// Calls of all threads in a row.
pub fn calls(cells: &[Cell], row: u32) -> u64 {
    of(cells, row).map(|c| c.calls).sum()
}

/// Until the function of row 0 has been called.
pub fn wait_for_calls(probes: &mut Probes) {
    let until = Instant::now() + Duration::from_secs(60);
    while calls(&probes.read().unwrap().cells, 0) == 0 {
        assert!(Instant::now() < until, "it is not called");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn of(cells: &[Cell], row: u32) -> impl Iterator<Item = &Cell> {
    cells.iter().filter(move |c| c.row == row)
}

pub fn all_whole(inserted: &[Inserted]) {
    assert!(
        inserted.iter().all(|i| *i == Inserted::Whole),
        "{inserted:?}"
    );
}
