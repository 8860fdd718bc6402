//! Start routines that every thread of a language or library shares.
//!
//! A group of threads is named after its start routine, but `std::thread` starts all of them in
//! one. For these, the place of creation tells groups apart.

use crate::shorten;

/// Whether `function` (demangled; empty if unknown) in `module` (path or file name) is the common entry of a
/// thread library and says nothing about what the thread is for.
pub fn is_generic_start(function: &str, module: &str) -> bool {
    if function.is_empty() {
        // The entries are local symbols, which distributions strip; nothing else in these files starts threads.
        let file = module.rsplit('/').next().unwrap_or(module);
        return LIBRARIES.iter().any(|library| {
            file.strip_prefix(library)
                .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
        });
    }
    // Whole names: a program's own `my_thread_proxy` is not meant.
    let path = shorten(function, usize::MAX);
    let name = path.rsplit("::").next().unwrap_or(&path);
    let rust = name == "thread_start" && path.starts_with("std::sys");
    rust || ENTRIES.contains(&name) || METHODS.contains(&path.as_str())
}

/// Libraries whose own start routine runs what the program passed.
const LIBRARIES: [&str; 15] = [
    "libstdc++",
    "libc++",
    "libglib-2.0",
    "libgomp",
    "libomp",
    "libiomp5",
    "libboost_thread",
    "libapr-1",
    "libQt5Core",
    "libQt6Core",
    "libSDL2",
    "libnspr4",
    "libjvm",
    "libasan",
    "libtsan",
];

/// Entries with names of their own.
const ENTRIES: [&str; 22] = [
    "execute_native_thread_routine", // libstdc++
    "__thread_proxy",                // libc++
    "g_thread_proxy",                // GLib
    "gomp_thread_start",             // libgomp
    "__kmp_launch_worker",           // LLVM's OpenMP
    "thread_native_entry",           // HotSpot
    "pythread_wrapper",              // CPython
    "pfs_spawn_thread",              // MySQL, MariaDB
    "uv__thread_start",              // libuv
    "SDL_RunThread",                 // SDL
    "_pt_root",                      // NSPR
    "dummy_worker",                  // APR
    "ThreadEntry",                   // V8, .NET
    "thread_start_func_1",           // Ruby
    "nt_start",                      // Ruby 3.3
    "thr_wrapper",                   // Erlang
    "caml_thread_start",             // OCaml
    "asan_thread_start",             // AddressSanitizer
    "__asan_thread_start",           // the same, newer
    "__tsan_thread_start_func",      // ThreadSanitizer
    "threadentry",                   // cgo
    "start_wrapper",                 // Mono
];

/// Entries whose last word alone would match too much.
const METHODS: [&str; 4] = [
    "boost::thread_proxy",
    "QThreadPrivate::start",
    "Poco::ThreadImpl::runnableEntry",
    "rml::private_worker::thread_routine",
];

#[cfg(test)]
mod tests {
    use super::is_generic_start;

    #[test]
    fn entries_of_thread_libraries_are_generic() {
        for (function, module) in [
            (
                "std::(anonymous namespace)::execute_native_thread_routine(void*)",
                "app",
            ),
            ("execute_native_thread_routine", "/usr/lib/libstdc++.so.6"),
            ("", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30"),
            ("", "libQt5Core.so.5"),
            (
                "void* std::__1::__thread_proxy<std::__1::tuple<int (*)(int), int> >(void*)",
                "app",
            ),
            (
                "std::sys::pal::unix::thread::Thread::new::thread_start",
                "app",
            ),
            ("<std::sys::thread::unix::Thread>::new::thread_start", "app"),
            ("g_thread_proxy", "libglib-2.0.so.0"),
            ("gomp_thread_start", "libgomp.so.1"),
            ("thread_native_entry(Thread*)", "libjvm.so"),
            (
                "boost::(anonymous namespace)::thread_proxy(void*)",
                "libboost_thread.so.1.74.0",
            ),
            ("QThreadPrivate::start(void*)", "libQt5Core.so.5"),
            ("v8::base::ThreadEntry(void*)", "node"),
        ] {
            assert!(is_generic_start(function, module), "{function} in {module}");
        }
    }

    #[test]
    fn a_programs_own_routines_are_not() {
        for (function, module) in [
            ("worker", "app"),
            ("", "app"),
            ("", "libstdc.so"),
            ("", "libc++extra.so"),
            ("my_g_thread_proxy", "app"),
            ("app::server::thread_start", "app"),
            ("thread_proxy", "app"),
            ("Pool::start(void*)", "app"),
        ] {
            assert!(
                !is_generic_start(function, module),
                "{function} in {module}"
            );
        }
    }
}
