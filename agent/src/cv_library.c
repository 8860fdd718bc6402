/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. Looks symbols up by itself: dlsym waits for the loader's lock, which is held while a
 * constructor runs, and threads of a parallel region in a constructor would wait for ever.
 * dl_iterate_phdr takes another one, which is held for moments only. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* <link.h> is looked at before cv_agent.h */
#endif
#include <elf.h>
#include <link.h>

#include "cv_library.h"
#include "cv_modules.h"

#include "cv_banned.h"

extern int cv_loader_iterate(int (*fn)(struct dl_phdr_info *, size_t, void *), void *arg)
	__asm__("dl_iterate_phdr");

/* ---- one object ---- */

struct object {
	uint64_t bias;
	const ElfW(Sym) *symbols;
	const char *strings;
	const ElfW(Half) *versions;
	const uint32_t *gnu_hash;
	const uint32_t *hash;
	const char *soname; /* NULL = none */
	const char *path;
	const ElfW(Dyn) *dynamic;
};

/* The loader has turned most of these into addresses, but not in every object. */
static const void *pointer(uint64_t bias, uint64_t value)
{
	return (const void *)(value < bias ? value + bias : value);
}

static bool object_open(struct object *o, const struct dl_phdr_info *info)
{
	uint64_t soname = 0;

	*o = (struct object){ .bias = info->dlpi_addr, .path = info->dlpi_name ? info->dlpi_name : "" };
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			o->dynamic = (const ElfW(Dyn) *)(o->bias + info->dlpi_phdr[i].p_vaddr);
	for (const ElfW(Dyn) *d = o->dynamic; d && d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB: o->symbols = pointer(o->bias, d->d_un.d_ptr); break;
		case DT_STRTAB: o->strings = pointer(o->bias, d->d_un.d_ptr); break;
		case DT_VERSYM: o->versions = pointer(o->bias, d->d_un.d_ptr); break;
		case DT_GNU_HASH: o->gnu_hash = pointer(o->bias, d->d_un.d_ptr); break;
		case DT_HASH: o->hash = pointer(o->bias, d->d_un.d_ptr); break;
		case DT_SONAME: soname = d->d_un.d_val; break;
		default: break;
		}
	}
	if (soname && o->strings)
		o->soname = o->strings + soname;
	return o->symbols && o->strings && (o->gnu_hash || o->hash);
}

/* A defined function of this name, in the version that a call without one is bound to. */
static void *symbol_is(const struct object *o, uint32_t i, const char *name)
{
	const ElfW(Sym) *s = &o->symbols[i];

	if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_FUNC ||
	    (o->versions && o->versions[i] & 0x8000) || strcmp(o->strings + s->st_name, name) != 0)
		return NULL;
	return (void *)(o->bias + s->st_value);
}

static void *gnu_symbol(const struct object *o, const char *name)
{
	uint32_t buckets = o->gnu_hash[0], first = o->gnu_hash[1], bloom = o->gnu_hash[2];
	const uint32_t *bucket = o->gnu_hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = bucket + buckets;
	uint32_t hash = 5381, i;
	void *found;

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (uint8_t)*c;
	i = buckets ? bucket[hash % buckets] : 0;
	if (i < first)
		return NULL;
	for (;; i++) {
		if ((chain[i - first] | 1) == (hash | 1) && (found = symbol_is(o, i, name)) != NULL)
			return found;
		if (chain[i - first] & 1)
			return NULL;
	}
}

static void *object_symbol(const struct object *o, const char *name)
{
	void *found = NULL;

	if (o->gnu_hash)
		return gnu_symbol(o, name);
	for (uint32_t i = 1; !found && i < o->hash[1]; i++)
		found = symbol_is(o, i, name);
	return found;
}

/* ---- the search ---- */

/* Objects that were loaded with the program: their symbols come first for everybody. */
static uint32_t global_objects;

struct search {
	const struct object *caller; /* NULL while it is looked for itself */
	uint64_t address;            /* code of the caller */
	uint64_t own;                /* an address in the agent */
	uint32_t seen;
	struct object object;
	struct cv_library *to;
	bool global; /* found where all callers look */
	bool done;
};

static bool object_holds(const struct dl_phdr_info *info, uint64_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
			return true;
	}
	return false;
}

static bool needs(const struct object *o, const struct object *library)
{
	const char *file = library->path;

	for (const char *c = file; *c; c++)
		if (*c == '/')
			file = c + 1;
	for (const ElfW(Dyn) *d = o->dynamic; d && d->d_tag != DT_NULL; d++) {
		const char *name = o->strings + d->d_un.d_val;

		if (d->d_tag == DT_NEEDED && (strcmp(name, library->soname ? library->soname : file) == 0 ||
					      strcmp(name, library->path) == 0))
			return true;
	}
	return false;
}

static bool take(const struct object *o, struct cv_library *to)
{
	bool any = false;

	for (int i = 0; i < CV_OMP_COUNT; i++) {
		to->function[i] = object_symbol(o, cv_real_name((enum cv_real_index)(CV_OMP_FIRST + i)));
		any = any || to->function[i];
	}
	return any;
}

static int find_caller(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;

	(void)size;
	if (!object_holds(info, s->address))
		return 0;
	s->done = object_open(&s->object, info);
	return 1;
}

/* First choice: loaded with the program; second: needed by the caller; third: any. */
static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;
	struct cv_library found;
	bool global = s->seen++ < global_objects;

	(void)size;
	if (object_holds(info, s->own) || !object_open(&s->object, info) || !take(&s->object, &found))
		return 0;
	if (global || (s->caller && needs(s->caller, &s->object)) || !s->done)
		memcpy(s->to->function, found.function, sizeof(found.function));
	s->global = global;
	s->done = true;
	return global || (s->caller && needs(s->caller, &s->object));
}

static void absent(void)
{
}

static void serial(void (*body)(void *), void *data, unsigned threads, unsigned flags)
{
	(void)threads;
	(void)flags;
	body(data);
}

static bool search(uint64_t caller, struct cv_library *to)
{
	struct search of_caller = { .address = caller };
	struct search s = { .own = (uint64_t)(uintptr_t)&cv_library_of, .to = to };

	memset(to->function, 0, sizeof(to->function));
	cv_loader_iterate(find_caller, &of_caller);
	s.caller = of_caller.done ? &of_caller.object : NULL;
	cv_loader_iterate(find_library, &s);
	for (int i = 0; i < CV_OMP_COUNT; i++)
		if (!to->function[i])
			to->function[i] = i == 0 ? (void *)serial : (void *)absent;
	return s.global;
}

/* ---- what was found ---- */

#define KEPT 64

/* Filled once, then constant; `hi` is set last, and to 0 when the caller is gone. */
static struct cv_library kept[KEPT];
static uint32_t claimed;

const struct cv_library *cv_library_of(uint64_t caller, struct cv_library *room)
{
	uint32_t n = __atomic_load_n(&claimed, __ATOMIC_ACQUIRE);
	struct cv_mapping m = { .lo = caller, .hi = caller + 1 };
	bool global;

	for (uint32_t i = 0; i < n && i < KEPT; i++)
		if (caller < __atomic_load_n(&kept[i].hi, __ATOMIC_ACQUIRE) && caller >= kept[i].lo)
			return &kept[i];
	global = search(caller, room);
	if (!global && !cv_mapping_find(caller, &m))
		return room; /* code of no object */
	room->lo = global ? 0 : m.lo;
	room->hi = global ? UINT64_MAX : m.hi;
	if (n >= KEPT || (n = __atomic_fetch_add(&claimed, 1, __ATOMIC_ACQ_REL)) >= KEPT)
		return room;
	kept[n].lo = room->lo;
	memcpy(kept[n].function, room->function, sizeof(room->function));
	__atomic_store_n(&kept[n].hi, room->hi, __ATOMIC_RELEASE);
	return &kept[n];
}

void cv_libraries_unloaded(void)
{
	for (uint32_t i = 0; i < KEPT; i++) {
		uint64_t hi = __atomic_load_n(&kept[i].hi, __ATOMIC_ACQUIRE);
		struct cv_mapping m;

		if (hi && hi != UINT64_MAX && !(cv_mapping_find(kept[i].lo, &m) && m.hi == hi))
			__atomic_store_n(&kept[i].hi, 0, __ATOMIC_RELEASE);
	}
}

static int count(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	++*(uint32_t *)arg;
	return 0;
}

void cv_libraries_init(void)
{
	cv_loader_iterate(count, &global_objects);
}
