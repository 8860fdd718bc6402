//! Which frames are a language's own, whatever they do: its run-time library, what is inlined from it, virtual
//! machines; and the agent's.

use crate::syscall_wrappers::{is_go_runtime, is_stub};
use crate::{path, SiteFrame};

/// Whether a file is the agent, whose name ends in a hash of its contents: preloaded, or from
/// memory.
pub(crate) fn is_agent(module: &str) -> bool {
    let module = module.strip_prefix("memfd:").unwrap_or(module);
    module.starts_with("libconvoy-") || module.starts_with("libconvoy.so")
}

/// Whether the frame is of a virtual machine that runs other code, or of its glue between the two: generated code
/// whose name has no class.
pub(crate) fn is_virtual_machine(frame: &SiteFrame) -> bool {
    let generated = frame.module.is_empty() && frame.file.is_empty() && !frame.function.is_empty();
    frame.module.starts_with("libjvm.so") || (generated && !frame.function.contains(['.', ':']))
}

/// Whether the frame is of a run-time library, a virtual machine or the agent.
pub(crate) fn is_runtimes_own(frame: &SiteFrame) -> bool {
    is_agent(&frame.module)
        || is_runtime_module(&frame.module)
        || frame.module.starts_with("libjvm.so")
        || is_go_runtime(&frame.function)
}

/// Whether the frame is of a language or its libraries, whatever it does. A lock of the program's own is not.
pub(crate) fn is_language(frame: &SiteFrame) -> bool {
    is_runtime_module(&frame.module)
        || is_class_library(frame)
        || is_library_source(&frame.file)
        || is_stub(&frame.function)
        || is_go_runtime(&frame.function)
        || is_runtime_path(&path::components(&frame.function))
}

/// Whether the frame is of Java's class library, or of what that is in C.
fn is_class_library(frame: &SiteFrame) -> bool {
    const PACKAGES: [&str; 4] = ["java.", "javax.", "jdk.", "sun."];
    const NATIVE: [&str; 3] = ["libjava.so", "libnet.so", "libnio.so"];
    let generated = frame.module.is_empty() && frame.file.is_empty();
    let compiled = generated && PACKAGES.iter().any(|of| frame.function.starts_with(of));
    compiled || NATIVE.contains(&frame.module.as_str())
}

/// Whether a source file is of a compiler or of a language's standard library: what was inlined from there has
/// no path of namespaces in the debug information of some compilers.
fn is_library_source(file: &str) -> bool {
    let rust =
        (file.contains("/rustc/") || file.contains("/rustlib/")) && file.contains("/library/");
    rust || ["/include/c++/", "/lib/gcc/", "/lib/clang/"]
        .iter()
        .any(|folder| file.contains(folder))
}

/// File names (up to the first `.` or `-` after them) of libraries that never are the culprit.
const RUNTIME_MODULES: [&str; 16] = [
    "libc",
    "libpthread",
    "libstdc++",
    "libc++",
    "libc++abi",
    "libgcc_s",
    "libgomp",
    "libomp",
    "libiomp5",
    "ld",
    "libglib",
    "libgthread",
    "librt",
    "libdl",
    "libatomic",
    "linux-vdso",
];

/// Whether a file is a library that never is the culprit: the C library, a language's run-time library.
pub(crate) fn is_runtime_module(module: &str) -> bool {
    if is_agent(module)
        || module == "[vdso]"
        || module.starts_with("memfd:")
        || module.starts_with("ld-")
    {
        return true;
    }
    let Some((stem, _)) = module.split_once(".so") else {
        return false;
    };
    let stem = stem.split_once("-2.").map_or(stem, |(stem, _)| stem);
    RUNTIME_MODULES.contains(&stem)
}

/// Crates and C++ namespaces whose functions are a language's own, or made for waiting.
const RUNTIME_ROOTS: [&str; 13] = [
    "std",
    "core",
    "alloc",
    "parking_lot",
    "parking_lot_core",
    "lock_api",
    "once_cell",
    "crossbeam_channel",
    "crossbeam_utils",
    "__gnu_cxx",
    "__gnu_parallel",
    "__cxxabiv1",
    "__rust_begin_short_backtrace",
];

fn is_runtime_path(path: &[String]) -> bool {
    let Some(root) = path.first() else {
        return false;
    };
    if RUNTIME_ROOTS.contains(&root.as_str()) {
        return true;
    }
    if root == "boost" {
        let lockish = [
            "mutex",
            "lock",
            "condition",
            "thread",
            "detail",
            "sync",
            "barrier",
            "posix",
        ];
        return path
            .get(1)
            .is_some_and(|part| lockish.iter().any(|word| part.contains(word)));
    }
    ["__gthread_", "__gthrw_", "__cxa_", "__rust_", "__lll_"]
        .iter()
        .any(|prefix| root.starts_with(prefix))
}
