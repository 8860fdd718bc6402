/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. */
#include "cv_frames.h"
#include "cv_unwind.h"

#include "cv_banned.h"

/* ---- interning ----------------------------------------------------------------------------- */

/* Open addressing; an entry is one word: the upper half of the stack's hash, and its ref. */
#define INDEX_BITS 18
#define PROBES 128

static uint64_t stack_index[1u << INDEX_BITS] __attribute__((aligned(4096)));

#define BLOCK_BYTES (16384 - sizeof(struct cv_block))

static struct cv_block *filling;
static struct cv_block *spare; /* a block that lost the race to be published */

/* Room for a stack, at a multiple of 64 bytes, so that a ref can name it. */
static uint32_t *stack_room(uint32_t n)
{
	uint32_t bytes = ((n + 1) * 4 + 63) & ~63u;

	for (;;) {
		struct cv_block *b = __atomic_load_n(&filling, __ATOMIC_ACQUIRE), *fresh;
		uint32_t at;

		if (b) {
			at = __atomic_load_n(&b->used, __ATOMIC_RELAXED);
			while (at + bytes <= BLOCK_BYTES) {
				if (__atomic_compare_exchange_n(&b->used, &at, at + bytes, true, __ATOMIC_RELAXED,
								__ATOMIC_RELAXED))
					return (uint32_t *)((char *)cv_payload(b) + at);
			}
		}
		fresh = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQUIRE);
		if (!fresh)
			fresh = cv_block_alloc(CV_BLOCK_STACKS, BLOCK_BYTES, 1, ~0u);
		if (!fresh)
			return NULL;
		if (!__atomic_compare_exchange_n(&filling, &b, fresh, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			__atomic_store_n(&spare, fresh, __ATOMIC_RELEASE);
	}
}

static uint64_t stack_hash(const uint32_t *ids, uint32_t n)
{
	uint64_t h = n;

	for (uint32_t i = 0; i < n; i++) {
		h = (h ^ ids[i]) * 0x9E3779B97F4A7C15ull;
		h ^= h >> 32;
	}
	return h;
}

static bool stack_is(cv_ref ref, const uint32_t *ids, uint32_t n)
{
	const uint32_t *s = cv_at(ref);

	return s[0] == n && memcmp(s + 1, ids, n * sizeof(*ids)) == 0;
}

static cv_ref stack_intern(const uint32_t *ids, uint32_t n, bool *fresh)
{
	uint64_t h = stack_hash(ids, n);
	uint32_t tag = (uint32_t)(h >> 32);
	uint32_t *made = NULL;

	*fresh = false;
	for (uint32_t k = 0; k < PROBES; k++) {
		uint64_t *slot = &stack_index[(h + k) & ((1u << INDEX_BITS) - 1)];
		uint64_t have = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

		if (!have) {
			if (!made) {
				made = stack_room(n);
				if (!made)
					return 0;
				memcpy(made + 1, ids, n * sizeof(*ids));
				__atomic_store_n(&made[0], n, __ATOMIC_RELEASE);
			}
			if (__atomic_compare_exchange_n(slot, &have, (uint64_t)tag << 32 | cv_ref_of(made), false,
							__ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
				*fresh = true;
				return cv_ref_of(made);
			}
		}
		if (have >> 32 == tag && stack_is((cv_ref)have, ids, n))
			return (cv_ref)have;
	}
	cv_drop(CV_DROP_ARENA_FULL);
	return 0;
}

/* ---- memo ---------------------------------------------------------------------------------- */

/*
 * What was unwound lately. A trace is decided by its start and by the stack words that the unwinder read
 * on its way (the rules are constant until code is unmapped). So if it starts at the same frame, and
 * every one of these words is what it was, the outcome is the same stack: no hash, no heuristic.
 *
 * The table is shared, so that it needs no memory per thread; stack addresses keep threads apart. An
 * entry is guarded by a sequence number that is odd while it is written; who finds it odd
 * (another thread, or a signal handler that interrupted the writer) does without.
 */
struct memo {
	uint32_t sequence;
	uint32_t epoch;
	uint64_t frame;
	cv_ref ref;
	uint32_t reads;
	uint64_t word[CV_READS];
	uint32_t at[CV_READS];
};

#define MEMO_BITS 10

static struct memo memos[1u << MEMO_BITS] __attribute__((aligned(4096)));
_Static_assert(sizeof(memos) % 4096 == 0, "cv_forget_pages clears whole pages");
static uint32_t epoch = 1;

void cv_stacks_doubt(void)
{
	__atomic_fetch_add(&epoch, 1, __ATOMIC_ACQ_REL);
}

static struct memo *memo_of(uint64_t frame, uint64_t caller)
{
	return &memos[((frame >> 3 ^ caller) * 0x9E3779B97F4A7C15ull) >> (64 - MEMO_BITS)];
}

/* One past what may be read above `frame` without asking. */
static uint64_t readable_end(uint64_t frame)
{
	uint64_t lo, hi;

	cv_stack_bounds(&lo, &hi);
	return frame >= lo && frame < hi ? hi : (frame | 4095) + 1;
}

static cv_ref memo_find(const struct memo *m, uint64_t frame)
{
	uint32_t sequence = __atomic_load_n(&m->sequence, __ATOMIC_ACQUIRE);
	uint64_t room = readable_end(frame) - frame - 8;
	uint32_t reads;
	cv_ref ref;

	if (sequence & 1 || __atomic_load_n(&m->frame, __ATOMIC_RELAXED) != frame ||
	    __atomic_load_n(&m->epoch, __ATOMIC_RELAXED) != __atomic_load_n(&epoch, __ATOMIC_RELAXED))
		return 0;
	reads = __atomic_load_n(&m->reads, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < reads && i < CV_READS; i++) {
		/* The entry may change under us: nothing of it is believed before it is checked. */
		uint32_t at = __atomic_load_n(&m->at[i], __ATOMIC_RELAXED);

		if (at > room || *(const volatile uint64_t *)(frame + at) !=
					 __atomic_load_n(&m->word[i], __ATOMIC_RELAXED))
			return 0;
	}
	ref = __atomic_load_n(&m->ref, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&m->sequence, __ATOMIC_RELAXED) == sequence ? ref : 0;
}

static void memo_store(struct memo *m, uint64_t frame, const struct cv_trace *t, cv_ref ref, uint32_t now)
{
	uint32_t sequence = __atomic_load_n(&m->sequence, __ATOMIC_RELAXED);

	if (sequence & 1 || !__atomic_compare_exchange_n(&m->sequence, &sequence, sequence + 1, false,
							 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(&m->frame, frame, __ATOMIC_RELAXED);
	__atomic_store_n(&m->epoch, now, __ATOMIC_RELAXED);
	__atomic_store_n(&m->ref, ref, __ATOMIC_RELAXED);
	__atomic_store_n(&m->reads, t->reads, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < t->reads; i++) {
		__atomic_store_n(&m->at[i], t->at[i], __ATOMIC_RELAXED);
		__atomic_store_n(&m->word[i], t->word[i], __ATOMIC_RELAXED);
	}
	__atomic_store_n(&m->sequence, sequence + 2, __ATOMIC_RELEASE);
}

/* ---- capture ------------------------------------------------------------------------------- */

/* The flag that tells why the outermost frame is the last one. */
static uint32_t end_flag(enum cv_end end)
{
	return end == CV_END_LAST ? CV_FRAME_LAST : end == CV_END_NO_RULE ? CV_FRAME_NO_RULE : 0;
}

static cv_ref capture_into(const void *frame, struct memo *m, struct cv_trace *t, uint32_t *ids)
{
	uint32_t now = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE);
	uint32_t depth = cv_session.stack_depth;
	bool fresh;
	cv_ref ref;

	t->max = depth && depth < CV_STACK_MAX ? depth : CV_STACK_MAX;
	t->skip_lo = cv_arena->agent_base;
	t->skip_hi = cv_arena->agent_end;
	cv_unwind(frame, t);
	for (uint32_t i = 0; i < t->n; i++) {
		ids[i] = cv_frame_intern(t->pc[i], t->flags[i] | (i + 1 == t->n ? end_flag(t->end) : 0));
		if (!ids[i])
			return 0;
	}
	if (!t->n) {
		cv_drop(CV_DROP_STACK_NO_RULE);
		return 0;
	}
	ref = stack_intern(ids, t->n, &fresh);
	/* Counted per stack, not per capture: it is the stack that is incomplete. */
	if (fresh && t->end == CV_END_NO_RULE)
		cv_drop(CV_DROP_STACK_NO_RULE);
	else if (fresh && t->end != CV_END_LAST)
		cv_drop(CV_DROP_STACK_TRUNCATED);
	if (ref && t->replayable)
		memo_store(m, (uint64_t)frame, t, ref, now);
	return ref;
}

static CV_NOINLINE cv_ref capture_on_stack(const void *frame, struct memo *m)
{
	uint32_t ids[CV_STACK_MAX];
	struct cv_trace t;

	return capture_into(frame, m, &t, ids);
}

/* Where a stack may be small (a signal stack, a coroutine's, a thread's of the least size) the trace is made
 * beside it. A place belongs to a thread, which is in here once at most (cv_enter): what a signal handler
 * leaves behind that jumps away is taken up by the next call. */
#define PLACES 32

static struct place {
	uint64_t owner;
	struct cv_trace trace;
	uint32_t ids[CV_STACK_MAX];
} places[PLACES];

static CV_NOINLINE cv_ref capture_beside(const void *frame, struct memo *m)
{
	uint64_t self = (uint64_t)__builtin_thread_pointer();
	cv_ref ref;

	for (uint64_t k = self / 4096; k < self / 4096 + PLACES; k++) {
		struct place *p = &places[k % PLACES];
		uint64_t owner = __atomic_load_n(&p->owner, __ATOMIC_RELAXED);

		if (owner != self && (owner || !__atomic_compare_exchange_n(&p->owner, &owner, self, false, __ATOMIC_ACQUIRE,
									   __ATOMIC_RELAXED)))
			continue;
		ref = capture_into(frame, m, &p->trace, p->ids);
		__atomic_store_n(&p->owner, 0, __ATOMIC_RELEASE);
		return ref;
	}
	cv_drop(CV_DROP_STACK_TRUNCATED);
	return 0;
}

static cv_ref capture_unknown(const void *frame, struct memo *m)
{
	uint64_t lo, hi;

	cv_stack_bounds(&lo, &hi);
	return (uint64_t)frame >= lo && (uint64_t)frame < hi ? capture_on_stack(frame, m) : capture_beside(frame, m);
}

cv_ref cv_stack_capture_from(const void *frame)
{
	struct memo *m = memo_of((uint64_t)frame, ((const uint64_t *)frame)[1]);
	cv_ref ref;

	if (cv_unlikely(!cv_arena))
		return 0;
	ref = memo_find(m, (uint64_t)frame);
	return cv_likely(ref != 0) ? ref : capture_unknown(frame, m);
}

cv_ref cv_stack_capture(void)
{
	cv_ref ref = cv_stack_capture_from(__builtin_frame_address(0));

	__asm__ volatile("" : "+r"(ref)); /* not a tail call: the frame must outlive it */
	return ref;
}

void cv_stacks_reset(void)
{
	cv_forget_pages(stack_index, sizeof(stack_index));
	cv_forget_pages(memos, sizeof(memos));
	memset(places, 0, sizeof(places));
	epoch++;
	filling = NULL;
	spare = NULL;
}
