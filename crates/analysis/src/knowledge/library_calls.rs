//! Functions of the C library that share data between threads behind a lock, as the program calls them.

use std::collections::BTreeMap;

use convoy_model::{bare, Model, SiteFrame, SiteId};

/// Share of the waits that a function is named for.
const NAMED: f64 = 0.1;
/// Those of the allocator: memory that one thread got and another gives back needs the first one's lock, too.
const ALLOCATOR: [&str; 8] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "malloc_trim",
];

/// The functions whose lock is waited for, most waits first.
pub(crate) struct LibraryCalls(Vec<String>);

impl LibraryCalls {
    /// Of waits by place. `None` if most of them are for something else.
    pub(crate) fn of(model: &Model, sites: &BTreeMap<SiteId, f64>) -> Option<Self> {
        let mut calls: BTreeMap<Option<String>, f64> = BTreeMap::new();
        for (&site, ns) in sites {
            *calls.entry(call(model, site)).or_default() += ns;
        }
        let all: f64 = calls.values().sum();
        let mut calls: Vec<_> = calls.into_iter().collect();
        calls.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        calls.first()?.0.as_ref()?;
        let named = calls.into_iter().filter(|(_, ns)| *ns >= NAMED * all);
        Some(Self(named.filter_map(|(name, _)| name).collect()))
    }

    /// `malloc() and free()`.
    pub(crate) fn names(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|name| format!("{name}()")).collect();
        names.join(" and ")
    }

    pub(crate) fn fix(&self, place: &str) -> String {
        let names = self.names();
        if self.0.iter().all(|name| ALLOCATOR.contains(&name.as_str())) {
            return format!(
                "an allocator with a cache for each thread (jemalloc, tcmalloc: LD_PRELOAD is enough), or more arenas if \
                 MALLOC_ARENA_MAX or M_ARENA_MAX keeps them few; or keep and reuse what is allocated at {place}"
            );
        }
        format!(
            "call {names} less often at {place} (keep or gather what it gives), or another function that shares nothing \
             between threads"
        )
    }
}

/// The function of the C library whose lock is waited for here.
fn call(model: &Model, site: SiteId) -> Option<String> {
    let site = model.site(site)?;
    let inner = site.frames.get(..site.shown)?;
    let locks = |frame: &SiteFrame| frame.function.contains("lll_lock_wait");
    let at = inner.iter().position(locks)?;
    let called = inner[at + 1..]
        .iter()
        .take_while(|frame| frame.module == inner[at].module);
    let name = called.last()?.function.split('@').next()?;
    let name = name.trim_start_matches("__GI_").trim_start_matches("_IO_");
    let name = match name {
        // localtime() and its kin jump there.
        "__tz_convert" => "localtime",
        name => {
            // What the compiler calls where it knows how much room there is, and what that and the plain one jump to.
            let variant = |end| name.strip_prefix("__")?.strip_suffix(end);
            let variant = variant("_chk").or_else(|| variant("_internal"));
            variant.unwrap_or(name.trim_start_matches("__libc_"))
        }
    };
    let lock = ["pthread_", "mtx_", "cnd_", "sem_", "lll_"]
        .iter()
        .any(|of| bare(name).starts_with(of));
    (!name.is_empty() && !lock && inner[at].module.starts_with("libc")).then(|| name.to_owned())
}
