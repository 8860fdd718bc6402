/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. Lock-free: a record is filled in privately and published by one CAS of its
 * place in the table; its id is that place. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* <link.h> is looked at before cv_agent.h */
#endif
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include "cv_frames.h"
#include "cv_modules.h"
#include "cv_sandbox.h"
#include "cv_unwind.h"

#include "cv_banned.h"

#define MODULES 4096
#define BLOCK_ITEMS 31 /* with the block header: just under 16 KiB */

static struct cv_module *modules[MODULES] __attribute__((aligned(4096))); /* by id; NULL = free */
static struct cv_block *current;
static struct cv_module *spare; /* a record that lost the race to be published */

/* ---- asking the loader ------------------------------------------------------------------ */

/* struct dl_find_object of <dlfcn.h> on 64-bit machines; older headers have none. */
struct loader_answer {
	unsigned long long flags;
	void *lo;
	void *hi;
	struct link_map *map;
	void *eh_hdr;
	unsigned long long reserved[7];
};

extern int cv_dl_find_object(void *addr, struct loader_answer *answer) __asm__("_dl_find_object")
	__attribute__((weak));

#define SNAPSHOT 1024

/* Entries never move. `lo` goes from 0 to an address when the others are set, and back. */
static struct cv_mapping snapshot[SNAPSHOT];
static uint32_t snapshot_used;

static bool snapshot_find(uint64_t addr, struct cv_mapping *m)
{
	uint32_t n = __atomic_load_n(&snapshot_used, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n; i++) {
		uint64_t lo = __atomic_load_n(&snapshot[i].lo, __ATOMIC_ACQUIRE);

		if (lo && addr >= lo && addr < snapshot[i].hi) {
			*m = snapshot[i];
			return true;
		}
	}
	return false;
}

#ifndef CV_TEST_SNAPSHOT
/* Of an executable that has gaps between its segments the loader gives one segment, of all other
 * objects the whole. */
static void widen(struct cv_mapping *m)
{
	const ElfW(Phdr) *ph = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	uint64_t lo = ~0ull, hi = 0;

	for (uint64_t n = ph ? getauxval(AT_PHNUM) : 0; n; n--, ph++) {
		uint64_t start = m->bias + ph->p_vaddr;

		if (ph->p_type != PT_LOAD)
			continue;
		lo = start < lo ? start & ~4095ull : lo;
		hi = start + ph->p_memsz > hi ? start + ph->p_memsz : hi;
	}
	/* If the loader was run as a command, the headers may be its own. */
	if (lo <= m->lo && hi >= m->hi) {
		m->lo = lo;
		m->hi = hi;
	}
}
#endif

bool cv_mapping_find(uint64_t addr, struct cv_mapping *m)
{
#ifndef CV_TEST_SNAPSHOT
	struct loader_answer a;

	if (cv_likely(cv_dl_find_object != NULL)) {
		if (cv_dl_find_object((void *)addr, &a) != 0)
			return false;
		m->lo = (uint64_t)a.lo;
		m->hi = (uint64_t)a.hi;
		m->bias = a.map->l_addr;
		m->eh_hdr = a.eh_hdr;
		m->name = a.map->l_name ? a.map->l_name : "";
		if (!m->name[0])
			widen(m);
		return true;
	}
#endif
	return snapshot_find(addr, m);
}

/* By its symbol, not its name: this is the one place that may take the loader's lock. */
extern int cv_loader_iterate(int (*fn)(struct dl_phdr_info *, size_t, void *), void *arg)
	__asm__("dl_iterate_phdr");

struct scan {
	uint64_t seen[SNAPSHOT / 64];
};

static int scan_one(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct scan *scan = arg;
	struct cv_mapping m = {.lo = ~0ull, .bias = info->dlpi_addr, .name = info->dlpi_name};
	uint32_t at = SNAPSHOT;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t start = m.bias + p->p_vaddr;

		if (p->p_type == PT_LOAD) {
			if (start < m.lo)
				m.lo = start & ~4095ull;
			if (start + p->p_memsz > m.hi)
				m.hi = start + p->p_memsz;
		} else if (p->p_type == PT_GNU_EH_FRAME) {
			m.eh_hdr = (const uint8_t *)start;
		}
	}
	if (m.lo >= m.hi)
		return 0;
	for (uint32_t i = 0; i < snapshot_used; i++) {
		if (snapshot[i].lo == m.lo && snapshot[i].hi == m.hi && snapshot[i].name == m.name) {
			scan->seen[i / 64] |= 1ull << (i % 64);
			return 0;
		}
		if (!snapshot[i].lo && at == SNAPSHOT)
			at = i;
	}
	if (at == SNAPSHOT)
		at = snapshot_used;
	if (at == SNAPSHOT)
		return 0;
	scan->seen[at / 64] |= 1ull << (at % 64);
	snapshot[at].hi = m.hi;
	snapshot[at].bias = m.bias;
	snapshot[at].eh_hdr = m.eh_hdr;
	snapshot[at].name = m.name;
	__atomic_store_n(&snapshot[at].lo, m.lo, __ATOMIC_RELEASE);
	if (at == snapshot_used)
		__atomic_store_n(&snapshot_used, at + 1, __ATOMIC_RELEASE);
	return 0;
}

/* Entries of objects that are gone are freed for others. */
static void snapshot_take(void)
{
	struct scan scan = {{0}};

	/* The loader runs one such walk at a time (it holds its own lock), so there is one writer. */
	cv_loader_iterate(scan_one, &scan);
	for (uint32_t i = 0; i < snapshot_used; i++)
		if (!(scan.seen[i / 64] >> (i % 64) & 1))
			__atomic_store_n(&snapshot[i].lo, 0, __ATOMIC_RELEASE);
}

void cv_modules_rescan(void)
{
#ifndef CV_TEST_SNAPSHOT
	if (cv_dl_find_object != NULL)
		return;
#endif
	snapshot_take();
}

/* ---- registration ------------------------------------------------------------------------ */

static void copy_text(char *to, size_t room, const char *from)
{
	size_t i = 0;

	for (; from[i] && i + 1 < room; i++)
		to[i] = from[i];
	to[i] = '\0';
}

/* Where the reader will find the file. The loader's name is relative if the search path was: then
 * the working directory of now is the best guess there is. */
static void module_path(struct cv_module *mod, const struct cv_mapping *m)
{
	size_t n = 0;
	long r;

	if (strncmp(m->name, "linux-vdso", 10) == 0) {
		copy_text(mod->path, sizeof(mod->path), "[vdso]");
		return;
	}
	if (!m->name[0]) {
		copy_text(mod->path, sizeof(mod->path), cv_arena->exe);
		return;
	}
	if (m->name[0] != '/' && !cv_is_quiet()) {
		r = cv_syscall(SYS_getcwd, (long)mod->path, sizeof(mod->path) - 2, 0, 0, 0, 0);
		n = r > 0 ? (size_t)r - 1 : 0;
		mod->path[n++] = '/';
	}
	copy_text(mod->path + n, sizeof(mod->path) - n, m->name);
}

/* The ELF header is the first thing of the first mapping; the note says which build this is. */
static void module_build_id(struct cv_module *mod)
{
	const ElfW(Ehdr) *eh = (const ElfW(Ehdr) *)mod->lo;
	const ElfW(Phdr) *ph;

	if (mod->hi - mod->lo < 4096 || memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh->e_phentsize != sizeof(*ph) || eh->e_phoff + (uint64_t)eh->e_phnum * sizeof(*ph) > 4096)
		return;
	ph = (const ElfW(Phdr) *)(mod->lo + eh->e_phoff);
	for (int i = 0; i < eh->e_phnum; i++) {
		uint64_t at = mod->bias + ph[i].p_vaddr;
		uint64_t end = at + ph[i].p_memsz;

		if (ph[i].p_type != PT_NOTE || at < mod->lo || end > mod->hi || end < at)
			continue;
		while (end - at >= sizeof(ElfW(Nhdr))) {
			const ElfW(Nhdr) *n = (const ElfW(Nhdr) *)at;
			uint64_t name = at + sizeof(*n);
			uint64_t desc = name + ((n->n_namesz + 3ull) & ~3ull);
			uint64_t next = desc + ((n->n_descsz + 3ull) & ~3ull);

			if (next > end)
				break;
			if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && memcmp((void *)name, "GNU", 4) == 0) {
				mod->build_id_len =
					n->n_descsz < sizeof(mod->build_id) ? n->n_descsz : sizeof(mod->build_id);
				memcpy(mod->build_id, (void *)desc, mod->build_id_len);
				return;
			}
			at = next;
		}
	}
}

static bool same_file(const struct cv_module *a, const struct cv_module *b)
{
	return a->lo == b->lo && a->hi == b->hi && a->bias == b->bias && a->build_id_len == b->build_id_len &&
	       memcmp(a->build_id, b->build_id, sizeof(a->build_id)) == 0 && strcmp(a->path, b->path) == 0;
}

static bool is_loaded(const struct cv_module *mod)
{
	return __atomic_load_n(&mod->unloaded_ns, __ATOMIC_ACQUIRE) == 0;
}

static uint32_t module_register(const struct cv_mapping *m)
{
	struct cv_module *mod = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQUIRE);

	if (!mod)
		mod = cv_shared_append(&current, CV_BLOCK_MODULES, sizeof(*mod), BLOCK_ITEMS);
	if (!mod)
		return 0;
	/* Readers skip the record until it has both an end and an id. */
	__atomic_store_n(&mod->id, CV_MODULE_NONE, __ATOMIC_RELEASE);
	mod->lo = m->lo;
	mod->hi = m->hi;
	mod->bias = m->bias;
	mod->loaded_ns = cv_now();
	module_path(mod, m);
	module_build_id(mod);
	for (uint32_t id = 0; id < MODULES; id++) {
		struct cv_module *have = __atomic_load_n(&modules[id], __ATOMIC_ACQUIRE);

		if (!have && __atomic_compare_exchange_n(&modules[id], &have, mod, false, __ATOMIC_RELEASE,
							 __ATOMIC_ACQUIRE)) {
			__atomic_store_n(&mod->id, id, __ATOMIC_RELEASE);
			return id + 1;
		}
		/* Registered by another thread just now, or loaded again where it had been before. */
		if (same_file(have, mod)) {
			__atomic_store_n(&have->unloaded_ns, 0, __ATOMIC_RELEASE);
			mod->hi = 0;
			memset(mod->build_id, 0, sizeof(mod->build_id));
			mod->build_id_len = 0;
			__atomic_store_n(&spare, mod, __ATOMIC_RELEASE);
			return id + 1;
		}
	}
	cv_drop(CV_DROP_ARENA_FULL);
	return 0;
}

uint32_t cv_module_of(uint64_t addr)
{
	struct cv_mapping m;

	if (!cv_arena || !cv_mapping_find(addr, &m))
		return 0;
	for (uint32_t id = 0; id < MODULES; id++) {
		const struct cv_module *mod = __atomic_load_n(&modules[id], __ATOMIC_ACQUIRE);

		if (!mod)
			break;
		if (mod->lo == m.lo && mod->hi == m.hi && mod->bias == m.bias && is_loaded(mod))
			return id + 1;
	}
	return module_register(&m);
}

const struct cv_module *cv_module_at(uint32_t id)
{
	return id < MODULES ? __atomic_load_n(&modules[id], __ATOMIC_ACQUIRE) : NULL;
}

/* ---- unloading ---------------------------------------------------------------------------- */

static bool still_mapped(const struct cv_module *mod)
{
	struct cv_mapping m;

	return cv_mapping_find(mod->lo, &m) && m.lo == mod->lo && m.hi == mod->hi && m.bias == mod->bias;
}

void cv_modules_unloaded(void)
{
	bool any = false;

	if (!cv_arena)
		return;
#ifndef CV_TEST_SNAPSHOT
	if (cv_dl_find_object == NULL)
#endif
		snapshot_take();
	for (uint32_t id = 0; id < MODULES; id++) {
		struct cv_module *mod = __atomic_load_n(&modules[id], __ATOMIC_ACQUIRE);

		if (!mod)
			break;
		if (is_loaded(mod) && !still_mapped(mod)) {
			__atomic_store_n(&mod->unloaded_ns, cv_now(), __ATOMIC_RELEASE);
			any = true;
		}
	}
	/* Rules may also have been learnt of objects that no frame was interned for. */
	cv_rules_forget();
	cv_stacks_doubt();
	if (any)
		cv_frames_doubt();
}

void cv_modules_reset(void)
{
	__atomic_store_n(&current, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&spare, NULL, __ATOMIC_RELAXED);
	cv_forget_pages(modules, sizeof(modules));
}
