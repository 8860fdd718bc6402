//! Locks of the C++ library's own: a program can neither split them nor hold them for shorter, but need not take them.

use convoy_model::finding::Cause;

use super::cause;
use super::Case;

/// Share of the waits for a lock that are in a function of the library which takes it.
const MOSTLY: f64 = 0.5;

/// A lock of the library, by the function that takes it.
struct Own {
    /// What the name of the function begins with.
    function: &'static str,
    id: &'static str,
    text: &'static str,
    fix: &'static str,
}

/// Of libstdc++ and libgcc.
const OWN: [Own; 3] = [
    // `locale::locale()` copies the global one under a lock, unless that is the classic one.
    Own {
        function: "std::locale::",
        id: "library-locale-lock",
        text: "each stream that is made takes the one lock that the C++ library has for the global locale: the program cannot split it",
        fix: "keep one stream for each thread and empty it (str(\"\"), clear()) instead of a new one at each call, or write numbers and text \
              without one (std::to_chars, std::format, fmt); or leave the global locale alone (std::locale::global(), which brings the \
              lock in) and imbue() the streams that need another one",
    },
    // The free functions for a `shared_ptr` take one of a few locks by its address.
    Own {
        function: "std::_Sp_locker::",
        id: "library-shared-ptr-lock",
        text: "std::atomic_load() and its kin for a std::shared_ptr take one of a few locks that the C++ library has for all of them",
        fix: "std::atomic<std::shared_ptr> (C++20), or a copy for each thread that is renewed when a counter says so",
    },
    // Who throws looks for the frames to unwind; before GCC 13 under one lock.
    Own {
        function: "_Unwind_Find_FDE",
        id: "library-unwind-lock",
        text: "each exception takes the one lock that the C++ library has to find out how to unwind the stack",
        fix: "return what is expected to fail (std::optional, std::expected, an error code) instead of throwing it, or a C++ library of GCC 13 \
              or later, which takes no lock for it",
    },
];

impl Case<'_> {
    /// The lock is the library's own, for what is seen of those that wait for it.
    pub(super) fn of_the_language(&self, here: &str) -> Option<Cause> {
        let all: u64 = self.sites.iter().map(|s| s.wait_ns).sum();
        let own = OWN.iter().find(|own| {
            let inside = self.sites.iter().filter(|s| {
                let site = self.view.model.site(s.site);
                let inner = site.and_then(|site| site.frames.get(..site.shown));
                let mut inner = inner.unwrap_or_default().iter();
                inner.any(|frame| frame.function.starts_with(own.function))
            });
            let waited: u64 = inside.map(|s| s.wait_ns).sum();
            all > 0 && waited as f64 >= MOSTLY * all as f64
        })?;
        Some(cause(own.id, own.text, format!("at {here}: {}", own.fix)))
    }
}
