/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Modules: the executable and the shared objects that addresses belong to.
 *
 * A module is registered in the arena when the first of its addresses is met. The loader is asked with
 * _dl_find_object (glibc 2.35), which takes no lock. Older C libraries have none: there a
 * snapshot, made when the agent starts and after every dlopen, stands in for it.
 */
#ifndef CV_MODULES_H
#define CV_MODULES_H

#include "cv_arena.h"

/* What the loader knows of a mapped object. */
struct cv_mapping {
	uint64_t lo, hi;
	uint64_t bias;
	const uint8_t *eh_hdr; /* PT_GNU_EH_FRAME in memory, NULL if it has none */
	const char *name;      /* the loader's; "" for the executable. Only valid while it is mapped */
};

/* The object whose mapping holds `addr`. */
bool cv_mapping_find(uint64_t addr, struct cv_mapping *m);

/* Module id + 1 of the object whose mapping holds `addr` (code or data), 0 = none. */
uint32_t cv_module_of(uint64_t addr);

/* The record of a registered module. */
const struct cv_module *cv_module_at(uint32_t id);

/* After start-up and every dlopen. May take the loader's lock: not from hooks of locks, not from signal
 * handlers. Does nothing where _dl_find_object exists. */
void cv_modules_rescan(void);

/* After every dlclose: what is no longer mapped is marked so, and all that was remembered about
 * its code is dropped. */
void cv_modules_unloaded(void);

/* In a fork child, whose arena is a new one. */
void cv_modules_reset(void);

#endif
