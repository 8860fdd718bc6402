/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. All of this belongs to one thread; cv_enter keeps its signal handlers out. */
#include "cv_table.h"

#include "cv_frames.h"

#include "cv_banned.h"

#define ENTRY_ITEMS 63   /* with the block header: 4 KiB */
#define WAIT_ITEMS 21
/* Most of many threads do little: their first blocks have 1 KiB. */
#define FIRST_ENTRY_ITEMS 15
#define FIRST_WAIT_ITEMS 5
#define FIRST_INDEX 64u
#define NAMED_PAIRS 16384u /* PAIR entries of a thread that say which thread it was: a megabyte */

static uint32_t next_random(struct cv_work *w)
{
	uint32_t x = w->rng;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return w->rng = x;
}

/* A sample costs a hundred times what a count costs. The first thousands of a thread tell most of what
 * there is to tell; later ones are rarer and weigh more. What has no slot is told by samples alone: there
 * they stay as they are. And whoever asked for more than the usual gets it. */
static uint32_t rarer(const struct cv_work *w)
{
	if (cv_session.sample_period < 64 || w->drawn < 4096)
		return 1;
	return w->drawn < 12288 ? 4 : 16;
}

void cv_sampler_rearm(struct cv_thread *t)
{
	struct cv_work *w = cv_work(t);
	uint32_t period = cv_session.sample_period * rarer(w);

	/* uniform over [1, 2 * period - 1]: the mean is the period */
	w->countdown = (int32_t)(1 + next_random(w) % (2 * period - 1));
}

void cv_sampler_drawn(struct cv_thread *t, bool has_slot)
{
	struct cv_work *w = cv_work(t);

	w->weight = rarer(w);
	w->drawn = has_slot ? w->drawn + (w->drawn < UINT32_MAX) : 0;
	cv_sampler_rearm(t);
}

/* ---- entries ---- */

static uint32_t entry_hash(uint64_t obj, uint32_t site, uint32_t kind_op, uint64_t peer)
{
	uint64_t h = (obj ^ ((uint64_t)site << 32) ^ ((uint64_t)kind_op << 17)) * 0x9E3779B97F4A7C15ull;

	h = (h ^ (h >> 29) ^ peer) * 0xBF58476D1CE4E5B9ull;
	return (uint32_t)(h >> 32);
}

static uint64_t peer_key(const struct cv_peer *p)
{
	return p ? ((uint64_t)p->tid << 40) ^ ((uint64_t)p->frame << 20) ^ p->stack : 0;
}

static uint64_t entry_peer_key(const struct cv_entry *e)
{
	struct cv_peer p;

	if (e->kind != CV_ENTRY_PAIR)
		return 0;
	p = (struct cv_peer){ e->pair.peer_tid, e->pair.peer_frame, e->pair.peer_stack };
	return peer_key(&p);
}

static bool index_grow(struct cv_thread *t)
{
	struct cv_work *w = cv_work(t);
	uint32_t size = w->index ? (w->index_mask + 1) * 2 : FIRST_INDEX;
	struct cv_block *b = cv_block_alloc(CV_BLOCK_INDEX, size * sizeof(cv_ref), sizeof(cv_ref), t->index);
	cv_ref *fresh;

	if (!b) {
		w->index_full = 1;
		return false;
	}
	fresh = cv_payload(b);
	for (uint32_t i = 0; w->index && i <= w->index_mask; i++) {
		const struct cv_entry *e = cv_at(w->index[i]);
		uint32_t at;

		if (!e)
			continue;
		at = entry_hash(e->obj, e->site, (uint32_t)e->kind << 8 | e->op, entry_peer_key(e));
		while (fresh[at & (size - 1)])
			at++;
		fresh[at & (size - 1)] = w->index[i];
	}
	w->index = fresh;
	w->index_mask = size - 1;
	return true;
}

static void *thread_append(struct cv_thread *t, struct cv_block **current, enum cv_block_kind kind, uint32_t item_bytes,
			   uint32_t first_items, uint32_t items)
{
	struct cv_block *b = *current;

	if (!b || sizeof(*b) + (b->used + 1ull) * item_bytes > b->bytes) {
		if (!b)
			items = first_items;
		b = cv_block_alloc(kind, (size_t)items * item_bytes, item_bytes, t->index);
		if (!b)
			return NULL;
		*current = b;
	}
	return (char *)cv_payload(b) + (size_t)b->used++ * item_bytes;
}

/* Find, or make if that is wanted. A made entry's `kind` is written last, after its key. */
static struct cv_entry *entry_find(struct cv_thread *t, uint64_t obj, uint32_t site, enum cv_entry_kind kind,
				   enum cv_op op, const struct cv_peer *peer, bool make)
{
	struct cv_work *w = cv_work(t);
	uint64_t pk = peer_key(peer);
	struct cv_entry *e;
	uint32_t at;

	if (cv_unlikely((w->entry_count + 1) * 3 > (w->index ? w->index_mask + 1 : 0) * 2 && !w->index_full))
		index_grow(t);
	if (cv_unlikely(!w->index)) {
		cv_drop(CV_DROP_ARENA_FULL);
		return NULL;
	}
	at = entry_hash(obj, site, (uint32_t)kind << 8 | op, pk);
	for (;; at++) {
		e = cv_at(w->index[at & w->index_mask]);
		if (!e)
			break;
		if (e->obj == obj && e->site == site && e->kind == kind && e->op == op && entry_peer_key(e) == pk)
			return e;
	}
	if (!make)
		return NULL;
	/* One that cannot grow still finds what it knows, as long as a slot is free. */
	if (cv_unlikely(w->entry_count + 1 > w->index_mask)) {
		cv_drop(CV_DROP_ARENA_FULL);
		return NULL;
	}
	e = thread_append(t, &w->entries, CV_BLOCK_ENTRIES, sizeof(*e), FIRST_ENTRY_ITEMS, ENTRY_ITEMS);
	if (!e)
		return NULL;
	e->obj = obj;
	e->site = site;
	e->op = (uint16_t)op;
	if (peer) {
		e->pair.peer_tid = peer->tid;
		e->pair.peer_frame = peer->frame;
		e->pair.peer_stack = peer->stack;
	}
	__atomic_store_n(&e->kind, (uint16_t)kind, __ATOMIC_RELEASE);
	w->index[at & w->index_mask] = cv_ref_of(e);
	w->entry_count++;
	return e;
}

static struct cv_entry *entry_get(struct cv_thread *t, uint64_t obj, uint32_t site, enum cv_entry_kind kind,
				  enum cv_op op, const struct cv_peer *peer)
{
	return entry_find(t, obj, site, kind, op, peer, true);
}

struct cv_entry *cv_detail_get(struct cv_thread *t, uint64_t obj, cv_ref stack, enum cv_op op)
{
	return entry_get(t, obj, stack, CV_ENTRY_DETAIL, op, NULL);
}

struct cv_wait_detail *cv_detail_wait(struct cv_thread *t, struct cv_entry *detail)
{
	struct cv_wait_detail *d = cv_at(detail->detail.wait);

	if (cv_unlikely(!d)) {
		/* Items of 192 bytes start at multiples of 64: they can be named by a cv_ref. */
		d = thread_append(t, &cv_work(t)->waits, CV_BLOCK_WAITS, sizeof(*d), FIRST_WAIT_ITEMS, WAIT_ITEMS);
		if (d)
			detail->detail.wait = cv_ref_of(d);
	}
	return d;
}

void cv_pair_add(struct cv_thread *t, uint64_t obj, cv_ref stack, enum cv_op op, const struct cv_peer *peer,
		 uint64_t wait_ns)
{
	struct cv_work *w = cv_work(t);
	struct cv_peer somebody = { 0, peer->frame, peer->stack };
	struct cv_entry *e;

	/* A thread that outlives a thread per request must not remember each of them. */
	e = entry_find(t, obj, stack, CV_ENTRY_PAIR, op, peer, w->pair_count < NAMED_PAIRS);
	if (!e)
		e = entry_get(t, obj, stack, CV_ENTRY_PAIR, op, &somebody);
	if (!e)
		return;
	w->pair_count += e->pair.n == 0;
	e->pair.n++;
	e->pair.wait_sum_ns += wait_ns;
	if (wait_ns > e->pair.wait_max_ns)
		e->pair.wait_max_ns = wait_ns;
}

void cv_wait_add(struct cv_wait_detail *w, uint64_t wait_ns, bool timeout)
{
	unsigned bucket = wait_ns ? 63 - (unsigned)__builtin_clzll(wait_ns) : 0;

	w->n++;
	w->sum_ns += wait_ns;
	if (wait_ns > w->max_ns)
		w->max_ns = wait_ns;
	if (timeout) {
		w->timeouts++;
		w->timeout_sum_ns += wait_ns;
	}
	w->hist[bucket < CV_HIST ? bucket : CV_HIST - 1]++;
}

uint32_t cv_last_frame(const struct cv_thread *holder, uint64_t obj)
{
	const struct cv_last *l = &holder->last[cv_slot_hash(obj, 0) & (CV_LAST - 1)];
	uint64_t ra;

	if (__atomic_load_n(&l->obj, __ATOMIC_RELAXED) != obj)
		return 0;
	ra = __atomic_load_n(&l->ra, __ATOMIC_RELAXED);
	return ra ? cv_frame_intern(ra, 0) : 0;
}

/* ---- sites: what the cache had no slot for ---- */

static struct cv_site *sites_of(struct cv_thread *t)
{
	struct cv_block *b = cv_at(t->sites_table);

	return b ? cv_payload(b) : t->sites;
}

static struct cv_site *site_slot(struct cv_site *table, uint32_t mask, uint64_t ra, enum cv_op op)
{
	uint32_t at = (uint32_t)(((ra ^ op) * 0x9E3779B97F4A7C15ull) >> 33);

	while (table[at & mask].ra && (table[at & mask].ra != ra || table[at & mask].op != op))
		at++;
	return &table[at & mask];
}

static void sites_grow(struct cv_thread *t)
{
	struct cv_site *old = sites_of(t), *fresh;
	uint32_t size = (t->sites_mask + 1) * 2;
	struct cv_block *b = cv_block_alloc(CV_BLOCK_SITES, size * sizeof(*fresh), sizeof(*fresh), t->index);

	if (!b)
		return;
	fresh = cv_payload(b);
	for (uint32_t i = 0; i <= t->sites_mask; i++)
		if (old[i].ra)
			*site_slot(fresh, size - 1, old[i].ra, (enum cv_op)old[i].op) = old[i];
	b->used = size;
	cv_work(t)->site = NULL;
	t->sites_table = cv_ref_of(b);
	t->sites_mask = size - 1;
}

static void site_count(struct cv_thread *t, uint64_t ra, enum cv_op op, bool failed)
{
	struct cv_work *w = cv_work(t);
	struct cv_site *s = site_slot(sites_of(t), t->sites_mask, ra, op);

	if (cv_unlikely(!s->ra)) {
		if ((w->sites_used + 1) * 4 > (t->sites_mask + 1) * 3) {
			sites_grow(t);
			if ((w->sites_used + 1) >= t->sites_mask) { /* could not grow: keep one slot free */
				cv_drop(CV_DROP_ARENA_FULL);
				return;
			}
			s = site_slot(sites_of(t), t->sites_mask, ra, op);
		}
		w->sites_used++;
		s->op = (uint16_t)op;
		s->frame = cv_frame_intern(ra, 0);
		s->ra = ra;
	}
	s->n++;
	s->failed += failed;
	w->site = s;
}

/* ---- the cache ---- */

/* Move a slot's counts into its COUNT entry, so that another pair can have the slot. */
static bool slot_evict(struct cv_thread *t, struct cv_slot *s)
{
	uint32_t frame = cv_frame_intern(s->ra, 0);
	struct cv_entry *e = frame ? entry_get(t, s->obj, frame, CV_ENTRY_COUNT, (enum cv_op)s->op, NULL) : NULL;

	if (!e)
		return false;
	e->count.n += s->n;
	e->count.failed += s->failed;
	s->obj = 0;
	s->n = 0;
	s->failed = 0;
	return true;
}

static void slot_claim(struct cv_slot *s, uint64_t obj, uint64_t ra, enum cv_op op)
{
	s->ra = ra;
	s->op = (uint16_t)op;
	s->n = 0;
	s->failed = 0;
	s->obj = obj;
	/* readers need the call site as a frame, also of a pair that is never sampled */
	cv_frame_intern(ra, 0);
}

/* The site that counted the call, if it did: its table may have been full. */
static struct cv_site *site_known(struct cv_thread *t, uint64_t ra, enum cv_op op)
{
	struct cv_site *s = site_slot(sites_of(t), t->sites_mask, ra, op);

	return s->ra ? s : NULL;
}

void cv_count_failed(struct cv_thread *t, uint64_t obj, uint64_t ra, enum cv_op op)
{
	struct cv_slot *s = cv_slot_of(t, obj, ra);
	struct cv_site *site;

	if (cv_likely(cv_slot_is(s, obj, ra) && s->op == op)) {
		s->failed++;
	} else if (cv_enter(t)) {
		site = site_known(t, ra, op);
		if (site)
			site->failed++;
		cv_leave(t);
	}
}

void cv_count_undone(struct cv_thread *t, uint64_t obj, uint64_t ra, enum cv_op op)
{
	struct cv_slot *s = cv_slot_of(t, obj, ra);
	struct cv_site *site;

	cv_count_failed(t, obj, ra, op);
	/* A pair that got its slot with this very call was counted for its site. */
	if (cv_likely(cv_slot_is(s, obj, ra) && s->op == op && s->n)) {
		s->n--;
	} else if (cv_enter(t)) {
		site = site_known(t, ra, op);
		if (site && site->n)
			site->n--;
		cv_leave(t);
	}
}

bool cv_count_miss(struct cv_thread *t, uint64_t obj, uint64_t ra, enum cv_op op, bool failed)
{
	struct cv_slot *s = cv_slot_of(t, obj, ra);
	struct cv_work *w = cv_work(t);
	bool sampled = false;

	if (!cv_enter(t))
		return false;
	if (!s->obj) {
		/* The first operation of a pair is always looked at, so that rare locks have a stack. */
		slot_claim(s, obj, ra, op);
		s->n = 1;
		s->failed = failed;
		w->weight = 1;
		cv_leave(t);
		return true;
	}
	site_count(t, ra, op, failed);
	if (--w->countdown <= 0) {
		uint32_t frame = cv_frame_intern(ra, 0);
		struct cv_entry *e = frame ? entry_get(t, obj, frame, CV_ENTRY_COUNT, op, NULL) : NULL;

		cv_sampler_drawn(t, false);
		if (e)
			e->count.sampled += w->weight;
		/* A pair that is drawn a second time is worth a slot. With very many locks hardly any is,
		 * and moving counters to and fro would cost more than it tells. */
		if (e && e->count.sampled > w->weight && slot_evict(t, s))
			slot_claim(s, obj, ra, op);
		/* With very many objects every sample is a new one: stacks of one in eight will do. */
		sampled = (w->rng & 7) == 0;
	}
	cv_leave(t);
	return sampled;
}
