/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. Lock-free: an index slot goes from 0 to a record's ref once, and may later
 * be pointed at a newer record of the same address; records never move. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "cv_frames.h"
#include "cv_modules.h"
#include "cv_object.h"
#include "cv_sandbox.h"
#include "cv_trace.h"

#include "cv_banned.h"

#define INDEX_SLOTS (1u << 19)
#define INDEX_FULL (INDEX_SLOTS / 4 * 3)
#define BLOCK_ITEMS 255 /* with the block header: 16 KiB */
#define PROBES 64

/* A second index, by address, kind and creation site, behind the first one: of objects whose address had another
 * one before. Memory that is used again from two sites in turn must not make a record each time. */
#define AGAIN_BITS 16
#define AGAIN_SLOTS (1u << AGAIN_BITS)
#define AGAIN_PROBES 32
#define INDEX_BYTES ((INDEX_SLOTS + AGAIN_SLOTS) * sizeof(cv_ref))

static cv_ref *object_index; /* private zero pages, touched as used */
static uint32_t used;
static struct cv_block *current;

void cv_objects_reset(void)
{
	current = NULL;
	used = 0;
	if (object_index)
		cv_syscall(SYS_madvise, (long)object_index, INDEX_BYTES, MADV_DONTNEED, 0, 0, 0);
}

static cv_ref *index_base(void)
{
	cv_ref *base = __atomic_load_n(&object_index, __ATOMIC_ACQUIRE);
	long at;

	if (cv_likely(base != NULL))
		return base;
	if (cv_is_quiet())
		return NULL;
	at = cv_syscall(SYS_mmap, 0, INDEX_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at < 0 && at > -4096)
		return NULL;
	if (!__atomic_compare_exchange_n(&object_index, &base, (cv_ref *)at, false, __ATOMIC_RELEASE,
					 __ATOMIC_ACQUIRE)) {
		cv_syscall(SYS_munmap, at, INDEX_BYTES, 0, 0, 0, 0);
		return base;
	}
	return (cv_ref *)at;
}

void cv_objects_prepare(void)
{
	index_base();
}

/* The slot that holds `addr`, or the free one where it belongs; NULL if neither is near. */
static cv_ref *index_slot(uint64_t addr, struct cv_object **found)
{
	cv_ref *base = index_base();
	uint32_t h = (uint32_t)((addr * 0x9E3779B97F4A7C15ull) >> 40);

	*found = NULL;
	if (!base)
		return NULL;
	for (uint32_t k = 0; k < PROBES; k++) {
		cv_ref *slot = &base[(h + k) & (INDEX_SLOTS - 1)];
		cv_ref r = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
		struct cv_object *o = cv_at(r);

		if (!r)
			return slot;
		if (o->addr == addr) {
			*found = o;
			return slot;
		}
	}
	return NULL;
}

struct cv_object *cv_object_find(uint64_t addr)
{
	struct cv_object *o;

	index_slot(addr, &o);
	return o;
}

static struct cv_object *object_make(uint64_t addr, enum cv_object_kind kind, cv_ref init_stack)
{
	struct cv_object *o = cv_shared_append(&current, CV_BLOCK_OBJECTS, sizeof(*o), BLOCK_ITEMS);

	if (!o)
		return NULL;
	o->addr = addr;
	o->init_stack = init_stack;
	o->module = cv_module_of(addr);
	__atomic_store_n(&o->kind, (uint32_t)kind, __ATOMIC_RELEASE);
	return o;
}

struct cv_object *cv_object_get(uint64_t addr, enum cv_object_kind kind)
{
	struct cv_object *o, *fresh = NULL;

	for (;;) {
		cv_ref *slot = index_slot(addr, &o);
		cv_ref none = 0;

		if (o)
			return o;
		if (!slot || __atomic_load_n(&used, __ATOMIC_RELAXED) >= INDEX_FULL) {
			cv_drop(CV_DROP_OBJECT_TABLE_FULL);
			return NULL;
		}
		/* Another thread may make a second record for the same address: readers join them. */
		if (!fresh && !(fresh = object_make(addr, kind, 0)))
			return NULL;
		if (__atomic_compare_exchange_n(slot, &none, cv_ref_of(fresh), false, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED)) {
			__atomic_fetch_add(&used, 1, __ATOMIC_RELAXED);
			return fresh;
		}
	}
}

/* One more life of a known record. */
static void relive(struct cv_object *o, uint32_t attr)
{
	__atomic_fetch_add(&o->lives, 1, __ATOMIC_RELAXED);
	o->attr = attr;
}

/* The record of an object at an address that had another one before; NULL when full (counted). */
static struct cv_object *object_again(uint64_t addr, enum cv_object_kind kind, cv_ref stack, uint32_t attr)
{
	uint64_t key = (addr ^ (uint64_t)stack << 32 ^ (uint64_t)kind << 24) * 0x9E3779B97F4A7C15ull;
	cv_ref *base = index_base() + INDEX_SLOTS;
	struct cv_object *o;

	for (uint32_t k = 0; k < AGAIN_PROBES; k++) {
		cv_ref *slot = &base[((key >> (64 - AGAIN_BITS)) + k) & (AGAIN_SLOTS - 1)];
		cv_ref r = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

		o = cv_at(r);
		if (r && o->addr == addr && o->init_stack == stack && o->kind == kind) {
			relive(o, attr);
			return o;
		}
		if (r)
			continue;
		o = object_make(addr, kind, stack);
		if (o) {
			relive(o, attr);
			/* If another thread has taken the slot, the next life makes another record. */
			__atomic_compare_exchange_n(slot, &r, cv_ref_of(o), false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
		}
		return o;
	}
	cv_drop(CV_DROP_OBJECT_TABLE_FULL);
	return NULL;
}

void cv_object_init(uint64_t addr, enum cv_object_kind kind, uint32_t attr)
{
	struct cv_thread *t = cv_self;
	struct cv_object *o, *fresh;
	cv_ref *slot, expected;
	cv_ref stack;

	if (!t || !cv_enter(t))
		return;
	stack = cv_stack_capture();
	slot = index_slot(addr, &o);
	if (o && o->init_stack == stack && o->kind == kind) {
		relive(o, attr);
	} else if (!slot || (!o && __atomic_load_n(&used, __ATOMIC_RELAXED) >= INDEX_FULL)) {
		cv_drop(CV_DROP_OBJECT_TABLE_FULL);
	} else {
		if (o) {
			fresh = object_again(addr, kind, stack, attr);
		} else if ((fresh = object_make(addr, kind, stack)) != NULL) {
			relive(fresh, attr);
			__atomic_fetch_add(&used, 1, __ATOMIC_RELAXED);
		}
		/* A free slot may have gone to another address since: then this record is only found by
		 * readers, which is all that it is for. */
		expected = o ? cv_ref_of(o) : 0;
		if (fresh)
			__atomic_compare_exchange_n(slot, &expected, cv_ref_of(fresh), false, __ATOMIC_RELEASE,
						    __ATOMIC_RELAXED);
	}
	cv_leave(t);
}

void cv_object_destroy(uint64_t addr)
{
	struct cv_object *o;

	if (!cv_self)
		return;
	o = cv_object_find(addr);
	if (o)
		__atomic_fetch_add(&o->destroyed, 1, __ATOMIC_RELAXED);
}

void cv_object_woken(uint64_t addr, enum cv_object_kind kind)
{
	struct cv_thread *t = cv_self;
	struct cv_object *o;

	CV_EVENT(cv_event_woke());
	if (!t || !cv_enter(t))
		return;
	o = cv_object_get(addr, kind);
	if (o) {
		o->waker_stack = cv_stack_capture();
		o->waker_ns = cv_now();
		__atomic_store_n(&o->waker_tid, t->tid, __ATOMIC_RELEASE);
	}
	cv_leave(t);
}
