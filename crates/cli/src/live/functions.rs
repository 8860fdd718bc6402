//! From the name of a function to its addresses in the process.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use convoy_live::{matches, near, Code, Focus, Function, Invalid, Key};
use convoy_profile::Module;
use convoy_symbols::{
    demangle, inlined_into, line_ranges, list_functions, ListedFunction, Options,
};
use convoy_unwind::Mapped;

/// Candidates that a message names.
const NAMED: usize = 5;

/// Functions that are compared letter by letter for a suggestion.
const MOST_COMPARED: usize = 50_000;

/// Functions that are looked through for others that they hand on.
const MOST_REACHED: usize = 500;

/// Bytes of a function that are looked at for calls.
const MOST_CODE: u64 = 1 << 20;

/// The functions of a process, each file read when it is first asked for.
#[derive(Debug)]
pub struct Functions {
    pid: u32,
    files: Vec<CodeFile>,
    /// There is code that was compiled at run time.
    has_generated_code: bool,
    /// Instructions as they were before any probe, by address.
    code: RefCell<HashMap<u64, Vec<u8>>>,
}

#[derive(Debug)]
struct CodeFile {
    module: Module,
    options: Options,
    /// Keeps `/proc/self/fd/N` valid.
    _file: Option<File>,
    listed: OnceCell<Result<Vec<ListedFunction>, String>>,
}

/// A function that answers to a name.
#[derive(Debug, Clone)]
struct Hit<'a> {
    file: &'a CodeFile,
    function: &'a ListedFunction,
    /// As the linker knows it.
    raw: &'a str,
    full: String,
}

/// Convoy's own library, whose functions are called as those that it hooks.
fn is_agent(module: &Module) -> bool {
    let file = module.path.rsplit('/').next().unwrap_or_default();
    file.trim_start_matches("memfd:").starts_with("libconvoy-")
}

impl Functions {
    /// The functions of a process; `None` if it is gone, or may not be looked at.
    pub fn of(pid: u32) -> Option<Self> {
        let mapped = Mapped::of(pid)?;
        let programs = mapped
            .files
            .into_iter()
            .filter(|file| !is_agent(&file.module));
        let files = programs.map(|mapped| {
            let mut options = Options::from_env();
            if let Some(file) = &mapped.file {
                let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
                options.files = HashMap::from([(mapped.module.path.clone(), path)]);
            }
            CodeFile {
                module: mapped.module,
                options,
                _file: mapped.file,
                listed: OnceCell::new(),
            }
        });
        Some(Self {
            pid,
            files: files.collect(),
            has_generated_code: !mapped.generated.is_empty(),
            code: RefCell::default(),
        })
    }

    /// The function of a focus: its copies, if the compiler has made several.
    ///
    /// # Errors
    /// There is none, or more than one is meant.
    pub fn find(&self, focus: &Focus) -> Result<Vec<Function>, Invalid> {
        let name = focus.get(Key::Function).unwrap_or_default();
        self.named(name, focus.get(Key::Module))
    }

    /// The functions of all files that have one of these names in C, each once, under that name.
    /// Each file may have its own: an allocator takes the place of the C library's.
    pub fn named_in_c(&self, names: &[&str]) -> Vec<Function> {
        let mut all: Vec<Function> = Vec::new();
        for file in &self.files {
            for listed in file.functions() {
                let name = names.iter().find(|n| listed.names.iter().any(|m| m == *n));
                all.extend(name.map(|name| file.function(listed, (*name).to_owned())));
            }
        }
        all
    }

    /// All functions of each file, by name.
    pub fn all(&self) -> Code {
        let files = self.files.iter().map(|file| {
            let functions = file.functions().iter();
            let mut names: Vec<String> = functions.map(|f| file.label(f)).collect();
            names.sort_unstable();
            names.dedup();
            (file.name().to_owned(), names)
        });
        files.collect()
    }

    /// The functions that a name stands for: its copies, if the compiler has made several.
    ///
    /// # Errors
    /// There is none, or more than one is meant.
    pub fn called(&self, name: &str) -> Result<Vec<Function>, Invalid> {
        self.named(name, None)
    }

    /// The function that has an instruction at this address of the process.
    pub fn at(&self, address: u64) -> Option<Function> {
        let inside = |f: &&CodeFile| (f.module.lo..f.module.hi).contains(&address);
        let file = self.files.iter().find(inside)?;
        let listed = file.holding(address.wrapping_sub(file.module.bias))?;
        Some(file.function(listed, file.label(listed)))
    }

    /// What a focus calls the function that a recording has found. `None` = it is in no file of
    /// the process.
    pub fn focus(&self, name: &str, module: &str, offset: u64) -> Option<Focus> {
        let place = Focus::new().with(Key::Function, format!("{module}+{offset:#x}"));
        let mut found = self.find(&place).ok()?.pop()?;
        found.name = name.to_owned();
        self.focus_of(&found)
    }

    /// What a focus calls a function: by its name if that is the only one, else by its place.
    pub fn focus_of(&self, function: &Function) -> Option<Focus> {
        let named = Focus::new().with(Key::Function, &function.name);
        let is_it = |f: &Function| f.addresses == function.addresses;
        if self.find(&named).is_ok_and(|all| all.iter().any(is_it)) {
            return Some(named);
        }
        let file = self.files.iter().find(|f| f.name() == function.module)?;
        let start = function.addresses.start.wrapping_sub(file.module.bias);
        let place = format!("{}+{start:#x}", function.module);
        Some(Focus::new().with(Key::Function, place))
    }

    /// Keeps the instructions of a function that is going to be probed.
    pub fn keep_code(&self, function: &Function) {
        let start = function.addresses.start;
        if !self.code.borrow().contains_key(&start) {
            let code = self.code_of(function).unwrap_or_default();
            self.code.borrow_mut().insert(start, code);
        }
    }

    /// The functions that a function calls, by its instructions: those that were
    /// [kept](Self::keep_code), or those in memory.
    pub fn callees(&self, function: &Function) -> Vec<Function> {
        let Ok(memory) = File::open(format!("/proc/{}/mem", self.pid)) else {
            return Vec::new();
        };
        let read = |at: u64, bytes: &mut [u8]| memory.read_exact_at(bytes, at).is_ok();
        let start = function.addresses.start;
        self.keep_code(function);
        let kept = self.code.borrow();
        let code = kept.get(&start).map(Vec::as_slice).unwrap_or_default();
        let called = convoy_probes::callees(code, start, &read);
        let functions = called.into_iter().filter_map(|at| self.at(at));
        // Parts of the function itself that the compiler has put elsewhere are no callees.
        let functions = functions.filter(|f| f.name != function.name);
        functions.collect()
    }

    /// Functions of the same file whose addresses are taken by a function, or by what it calls in
    /// that file: start routines of threads, callbacks.
    pub fn handed_on(&self, function: &Function) -> Vec<Function> {
        let mut seen = BTreeSet::from([function.addresses.start]);
        let mut open = vec![function.clone()];
        let mut found: BTreeMap<u64, Function> = BTreeMap::new();
        while let Some(caller) = open.pop() {
            self.keep_code(&caller);
            let start = caller.addresses.start;
            let kept = self.code.borrow().get(&start).cloned();
            for at in convoy_probes::addresses_taken(&kept.unwrap_or_default(), start) {
                let taken = self.at(at).filter(|f| f.addresses.start == at);
                found.extend(taken.map(|f| (at, f)));
            }
            for callee in self.callees(&caller) {
                let is_near = callee.module == caller.module && seen.len() < MOST_REACHED;
                if is_near && seen.insert(callee.addresses.start) {
                    open.push(callee);
                }
            }
        }
        found.into_values().collect()
    }

    fn code_of(&self, function: &Function) -> Option<Vec<u8>> {
        let memory = File::open(format!("/proc/{}/mem", self.pid)).ok()?;
        let addresses = &function.addresses;
        let length = addresses.end.saturating_sub(addresses.start).min(MOST_CODE);
        let mut code = vec![0; usize::try_from(length).ok()?];
        memory.read_exact_at(&mut code, addresses.start).ok()?;
        Some(code)
    }

    /// Addresses of the instructions of a source line; `None` = no file has debug information.
    pub fn of_line(&self, source: &str, line: u32) -> Option<Vec<std::ops::Range<u64>>> {
        let files = self.files.iter();
        let mut of_files = files
            .filter_map(|f| Some((f, line_ranges(&f.module, &f.options, source, line)?)))
            .peekable();
        of_files.peek()?;
        let ranges = of_files.flat_map(|(file, ranges)| {
            let place = |at: u64| at.wrapping_add(file.module.bias);
            ranges
                .into_iter()
                .map(move |range| place(range.start)..place(range.end))
        });
        Some(ranges.collect())
    }

    fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(CodeFile::name)
    }

    pub(super) fn named(&self, name: &str, module: Option<&str>) -> Result<Vec<Function>, Invalid> {
        let files: Vec<&CodeFile> = self
            .files
            .iter()
            .filter(|file| module.is_none_or(|pattern| file.answers_to(pattern)))
            .collect();
        if let (Some(module), true) = (module, files.is_empty()) {
            return Err(self.no_module(module));
        }
        if let Some(found) = by_address(&files, name) {
            return found;
        }
        let hits = by_name(&files, name);
        if hits.is_empty() {
            return Err(self.not_found(&files, name));
        }
        let names: BTreeSet<(&str, &str)> = hits
            .iter()
            .map(|hit| (hit.file.name(), hit.full.as_str()))
            .collect();
        let functions: Vec<Function> = hits.iter().map(Hit::function).collect();
        let raw: BTreeSet<&str> = hits.iter().map(|hit| hit.raw).collect();
        if names.len() > 1 || raw.len() < hits.len() {
            return Err(ambiguous(name, &hits));
        }
        Ok(functions)
    }

    fn no_module(&self, module: &str) -> Invalid {
        let names: BTreeSet<&str> = self.files().collect();
        let near = near(module, names.iter().copied(), NAMED);
        let named = match near.is_empty() {
            true => names.into_iter().take(2 * NAMED).collect(),
            false => near,
        };
        Invalid::new(
            format!("the process has no file {module} mapped"),
            format!("it has {}", named.join(", ")),
        )
    }

    fn not_found(&self, files: &[&CodeFile], name: &str) -> Invalid {
        let last = last_part(name);
        let in_file = |file: &&CodeFile| inlined_into(&file.module, &file.options, last);
        let inlined_in: Vec<Vec<(String, usize)>> = files.iter().filter_map(in_file).collect();
        if !inlined_in.is_empty() {
            return inlined(name, inlined_in.into_iter().flatten().collect());
        }
        let mut names: BTreeSet<String> = BTreeSet::new();
        for file in files {
            for function in file.functions().iter().take(MOST_COMPARED) {
                names.extend(function.names.iter().map(|raw| demangle(raw.as_bytes())));
            }
        }
        let plain: BTreeMap<&str, &str> = names
            .iter()
            .map(|full| (last_part(without_parameters(full)), full.as_str()))
            .collect();
        let near = near(last, plain.keys().copied(), NAMED);
        let found = format!("the process has no function {name}");
        if !near.is_empty() {
            return Invalid::new(found, format!("did you mean {}?", near.join(" or ")));
        }
        let mut nameless = files.iter().map(|file| (file, file.nameless()));
        // The program comes first.
        let first = nameless.find(|(_, n)| *n > 0);
        let fix = match first {
            Some((file, n)) => format!(
                "{n} functions of {0} have no name: name one by its place, {0}+0xADDRESS",
                file.name()
            ),
            None => "functions in its files only can be measured".to_owned(),
        };
        match self.has_generated_code {
            true => Invalid::new(found, format!("{fix}; code compiled at run time cannot")),
            false => Invalid::new(found, fix),
        }
    }
}

impl CodeFile {
    fn functions(&self) -> &[ListedFunction] {
        let list = || list_functions(&self.module, &self.options);
        self.listed.get_or_init(list).as_deref().unwrap_or_default()
    }

    /// The function with an instruction at this address of the file.
    fn holding(&self, address: u64) -> Option<&ListedFunction> {
        let functions = self.functions();
        let at = functions.partition_point(|f| f.start <= address);
        let found = at.checked_sub(1).and_then(|ix| functions.get(ix));
        found.filter(|f| address - f.start < f.length)
    }

    /// Its file name.
    fn name(&self) -> &str {
        let path = self.module.path.as_str();
        path.rsplit('/').next().unwrap_or(path)
    }

    fn answers_to(&self, pattern: &str) -> bool {
        matches(pattern, self.name()) || self.module.path == pattern
    }

    fn nameless(&self) -> usize {
        let functions = self.functions().iter();
        functions.filter(|f| f.names.is_empty()).count()
    }

    fn function(&self, listed: &ListedFunction, name: String) -> Function {
        let start = listed.start.wrapping_add(self.module.bias);
        Function {
            name,
            module: self.name().to_owned(),
            addresses: start..start.saturating_add(listed.length),
        }
    }

    /// The name to show and to ask for; `file+0xADDRESS` without one.
    fn label(&self, listed: &ListedFunction) -> String {
        match listed.names.first() {
            Some(raw) => demangle(raw.as_bytes()),
            None => self.place(listed),
        }
    }

    fn place(&self, listed: &ListedFunction) -> String {
        format!("{}+{:#x}", self.name(), listed.start)
    }
}

impl Hit<'_> {
    fn function(&self) -> Function {
        self.file.function(self.function, self.full.clone())
    }
}

/// `file+0xADDRESS`, or an address in the process; `None` if it is a name.
fn by_address(files: &[&CodeFile], name: &str) -> Option<Result<Vec<Function>, Invalid>> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (file, address) = match (
        name.strip_prefix("0x").and_then(hex),
        name.rsplit_once("+0x"),
    ) {
        (Some(address), _) => {
            let inside = |f: &&&CodeFile| (f.module.lo..f.module.hi).contains(&address);
            let file = files.iter().find(inside)?;
            (file, address.wrapping_sub(file.module.bias))
        }
        (None, Some((file, address))) => {
            let file = files.iter().find(|f| f.answers_to(file))?;
            (file, hex(address)?)
        }
        (None, None) => return None,
    };
    Some(match file.holding(address) {
        Some(function) => Ok(vec![file.function(function, file.label(function))]),
        None => Err(Invalid::new(
            format!("{} has no function at {address:#x}", file.name()),
            "addresses are those of the file, as objdump and nm show them",
        )),
    })
}

/// Functions that a name means, those that it describes best only.
fn by_name<'a>(files: &[&'a CodeFile], name: &str) -> Vec<Hit<'a>> {
    let last = last_part(without_parameters(name));
    let mut best = usize::MAX;
    let mut hits: Vec<Hit<'a>> = Vec::new();
    for file in files {
        for function in file.functions() {
            let mut ranked: Option<(usize, Hit<'a>)> = None;
            for raw in function.names.iter().filter(|raw| raw.contains(last)) {
                let full = demangle(raw.as_bytes());
                let Some(rank) = rank(name, raw, &full) else {
                    continue;
                };
                if ranked.as_ref().is_none_or(|(other, _)| rank < *other) {
                    let hit = Hit {
                        file,
                        function,
                        raw,
                        full,
                    };
                    ranked = Some((rank, hit));
                }
            }
            let Some((rank, hit)) = ranked else { continue };
            if rank < best {
                best = rank;
                hits.clear();
            }
            if rank == best {
                hits.push(hit);
            }
        }
    }
    hits
}

/// How well a name describes a function, 0 = exactly; `None` = not at all.
fn rank(name: &str, raw: &str, full: &str) -> Option<usize> {
    let plain = without_parameters(full);
    let is_end = |whole: &str| {
        let head = whole.strip_suffix(name);
        head.is_some_and(|head| head.ends_with("::"))
    };
    if name == raw || name == full {
        Some(0)
    } else if name == plain {
        Some(1)
    } else if is_end(full) || is_end(plain) {
        Some(2)
    } else {
        None
    }
}

/// A C++ name without its parameters.
fn without_parameters(name: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in name.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => {
                let rest = &name[at..];
                let is_name = rest.starts_with("(anonymous namespace)")
                    || (name[..at].ends_with("operator") && rest.starts_with("()"));
                if !is_name {
                    return &name[..at];
                }
            }
            _ => {}
        }
    }
    name
}

fn last_part(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

pub(super) fn places(functions: &[Function]) -> String {
    let places = functions.iter().take(NAMED);
    let places: Vec<String> = places
        .map(|f| format!("{:#x} in {}", f.addresses.start, f.module))
        .collect();
    places.join(", ")
}

fn ambiguous(name: &str, hits: &[Hit<'_>]) -> Invalid {
    let names: BTreeSet<&str> = hits.iter().map(|hit| hit.full.as_str()).collect();
    let files: BTreeSet<&str> = hits.iter().map(|hit| hit.file.name()).collect();
    let (what, fix) = if names.len() > 1 {
        (names.len(), "write its full name".to_owned())
    } else if files.len() == hits.len() {
        let first = files.iter().next().copied().unwrap_or_default();
        (
            files.len(),
            format!("name the file, too: module=\"{first}\""),
        )
    } else {
        let place = hits.first().map(|hit| hit.file.place(hit.function));
        let place = place.unwrap_or_default();
        (
            hits.len(),
            format!("name one by its place: function=\"{place}\""),
        )
    };
    let listed = hits.iter().take(NAMED).map(|hit| {
        let place = hit.file.place(hit.function);
        match names.len() > 1 {
            true => format!("{} ({place})", hit.full),
            false => place,
        }
    });
    let listed: Vec<String> = listed.collect();
    let more = match hits.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Invalid::new(
        format!(
            "{name} stands for {what} functions: {}{more}",
            listed.join(", ")
        ),
        fix,
    )
}

fn inlined(name: &str, callers: Vec<(String, usize)>) -> Invalid {
    let places: usize = callers.iter().map(|(_, n)| n).sum();
    let named: Vec<&str> = callers
        .iter()
        .take(NAMED)
        .map(|(n, _)| n.as_str())
        .collect();
    let more = match callers.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let into = match places {
        0 => "; debug information does not say into what".into(),
        1 => format!(", into {}", named.join(", ")),
        n => format!(" ({n} places), into {}{more}", named.join(", ")),
    };
    Invalid::new(
        format!("{name} is inlined everywhere{into}"),
        "measure the function that it was inlined into, or compile it with noinline",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_cut_where_they_begin() {
        for (full, plain) in [
            ("zip::run(int, char*)", "zip::run"),
            ("main", "main"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("T<void (int)>::f()", "T<void (int)>::f"),
            ("L::operator()(int)", "L::operator()"),
        ] {
            assert_eq!(without_parameters(full), plain);
        }
    }

    #[test]
    fn the_best_description_wins() {
        let (raw, full) = ("_ZN3zip3runEi", "zip::run(int)");
        for (name, expected) in [
            ("_ZN3zip3runEi", Some(0)),
            ("zip::run(int)", Some(0)),
            ("zip::run", Some(1)),
            ("run", Some(2)),
            ("run(int)", Some(2)),
            ("un", None),
        ] {
            assert_eq!(rank(name, raw, full), expected, "{name}");
        }
    }

    #[test]
    fn functions_of_this_test_are_found_by_name_place_and_address() {
        let functions = Functions::of(std::process::id()).unwrap();
        let find = |name: &str| functions.named(name, None);
        let name = concat!(module_path!(), "::a_function_to_find");
        let here = a_function_to_find as *const () as u64;
        let found = find(name).unwrap();
        assert!(found[0].addresses.contains(&here), "{found:?}");
        let by_address = find(&format!("{here:#x}")).unwrap();
        assert_eq!(by_address[0].addresses, found[0].addresses);
        let focus = functions.focus_of(&found[0]).unwrap();
        assert_eq!(focus.get(Key::Function), Some(name));
        let error = find("a_funktion_to_find").unwrap_err();
        assert!(error.fix.contains("a_function_to_find"), "{error}");
        let error = functions.named("main", Some("libnone.so")).unwrap_err();
        assert!(error.found.contains("no file libnone.so"), "{error}");
    }

    #[test]
    fn a_function_opens_into_its_callees() {
        let functions = Functions::of(std::process::id()).unwrap();
        let caller = functions.at(a_caller as *const () as u64).unwrap();
        let names: Vec<String> = functions
            .callees(&caller)
            .into_iter()
            .map(|f| f.name)
            .collect();
        let is_there = |name: &String| name.ends_with("a_function_to_find");
        assert!(names.iter().any(is_there), "{names:?}");
    }

    #[test]
    fn functions_that_are_handed_on_are_found() {
        let functions = Functions::of(std::process::id()).unwrap();
        let caller = functions.at(hands_on as *const () as u64).unwrap();
        let found = functions.handed_on(&caller);
        let is_there = |f: &Function| f.name.ends_with("a_function_to_find");
        assert!(found.iter().any(is_there), "{found:?}");
    }

    #[inline(never)]
    fn hands_on() -> fn() -> u64 {
        std::hint::black_box(a_function_to_find)
    }

    #[inline(never)]
    fn a_function_to_find() -> u64 {
        std::hint::black_box(1)
    }

    #[inline(never)]
    fn a_caller() -> u64 {
        a_function_to_find() + std::hint::black_box(1)
    }
}
