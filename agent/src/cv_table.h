/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a thread knows about objects and sites: its exact counters, and its entries.
 *
 * Counting. An operation bumps the slot of its (object, call site) pair in a direct-mapped cache. If
 * another pair has the slot, it is counted for the call site alone, so that 90,000 locks do not cost a
 * cache miss each; the sampler then decides which pairs own slots, and what it draws tells how
 * to spread the site's count over the objects. Every count per site stays exact.
 *
 * Sampling. One operation in sample_period, drawn at random (a fixed stride would lock on to the
 * program's own rhythm), takes its call stack and times its acquire and hold.
 */
#ifndef CV_TABLE_H
#define CV_TABLE_H

#include "cv_arena.h"

static inline uint32_t cv_slot_hash(uint64_t obj, uint64_t ra)
{
	return (uint32_t)(((obj ^ (ra << 20)) * 0x9E3779B97F4A7C15ull) >> 56);
}
_Static_assert(CV_CACHE == 256, "cv_slot_hash yields 8 bits");

static inline struct cv_slot *cv_slot_of(struct cv_thread *t, uint64_t obj, uint64_t ra)
{
	return &t->cache[cv_slot_hash(obj, ra)];
}

static inline bool cv_slot_is(const struct cv_slot *s, uint64_t obj, uint64_t ra)
{
	return s->obj == obj && s->ra == ra;
}

/* Count one operation whose slot is free or taken by another pair. True = it was drawn as a sample. */
bool cv_count_miss(struct cv_thread *t, uint64_t obj, uint64_t ra, enum cv_op op, bool failed);

/* Start the countdown to the next sample. */
void cv_sampler_rearm(struct cv_thread *t);

/* A call was drawn: note its weight, and start anew. */
void cv_sampler_drawn(struct cv_thread *t, bool has_slot);

/* The counter of a pair that is known: its slot's, or, if another pair has the slot, its call site's.
 * NULL = ask cv_count. */
static inline uint64_t *cv_counter(struct cv_thread *t, uint64_t obj, uint64_t ra)
{
	struct cv_slot *s = cv_slot_of(t, obj, ra);
	struct cv_site *site;

	if (cv_likely(cv_slot_is(s, obj, ra)))
		return &s->n;
	site = cv_work(t)->site;
	return site && site->ra == ra && s->obj ? &site->n : NULL;
}

/* Count one operation. True = it was drawn as a sample. */
static inline bool cv_count(struct cv_thread *t, uint64_t obj, uint64_t ra, enum cv_op op, bool failed)
{
	struct cv_slot *s = cv_slot_of(t, obj, ra);

	if (cv_unlikely(!cv_slot_is(s, obj, ra) || s->op != op))
		return cv_count_miss(t, obj, ra, op, failed);
	s->n++;
	s->failed += failed;
	if (cv_likely(--cv_work(t)->countdown > 0))
		return false;
	cv_sampler_drawn(t, true);
	return true;
}

/* The acquire just counted ended without the lock: it was no acquisition, but a failure. */
void cv_count_undone(struct cv_thread *t, uint64_t obj, uint64_t ra, enum cv_op op);

/* The call just counted turned out to fail (trylock) or to time out. */
void cv_count_failed(struct cv_thread *t, uint64_t obj, uint64_t ra, enum cv_op op);

/* The most recent acquisition of obj by this thread was at ra: for those who will wait for it. */
static inline void cv_last_set(struct cv_thread *t, uint64_t obj, uint64_t ra)
{
	struct cv_last *l = &t->last[cv_slot_hash(obj, 0) & (CV_LAST - 1)];

	l->ra = ra;
	l->obj = obj;
}

/* Where `holder` acquired obj, as a frame id; 0 = unknown. */
uint32_t cv_last_frame(const struct cv_thread *holder, uint64_t obj);

/* The DETAIL entry of (obj, stack, op); NULL when full. Between cv_enter and cv_leave. */
struct cv_entry *cv_detail_get(struct cv_thread *t, uint64_t obj, cv_ref stack, enum cv_op op);

/* Its wait record. Between cv_enter and cv_leave. */
struct cv_wait_detail *cv_detail_wait(struct cv_thread *t, struct cv_entry *detail);

struct cv_peer {
	uint32_t tid;
	uint32_t frame;
	cv_ref stack;
};

/* Add to the PAIR entry of (obj, stack, peer). Between cv_enter and cv_leave. */
void cv_pair_add(struct cv_thread *t, uint64_t obj, cv_ref stack, enum cv_op op, const struct cv_peer *peer,
		 uint64_t wait_ns);

void cv_wait_add(struct cv_wait_detail *w, uint64_t wait_ns, bool timeout);

#endif
