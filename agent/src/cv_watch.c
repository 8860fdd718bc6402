/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Watched locks that this thread holds. Agent rules: cv_agent.h. */
#include "cv_watch.h"

#include "cv_banned.h"

__thread struct cv_holding cv_holding __attribute__((tls_model("initial-exec")));

int64_t cv_watch_offset(void)
{
#if defined(CV_TRACING) || defined(CV_EVENTS) || defined(CV_EXPERIMENTS)
	return 0;
#else
	return (int64_t)(cv_addr(&cv_holding) - cv_addr(__builtin_thread_pointer()));
#endif
}

/* The sets that a lock belongs to, a bit for each. */
static uint8_t sets_of(const struct cv_arena *a, uint64_t object)
{
	uint32_t at = (uint32_t)((object * 0x9E3779B97F4A7C15ull) >> 56);

	for (uint32_t n = 0; n < CV_WATCHED; n++) {
		uint64_t w = __atomic_load_n(&a->watched[(at + n) % CV_WATCHED], __ATOMIC_RELAXED);

		if (!w)
			return 0;
		if (w >> 8 == object)
			return (uint8_t)w;
	}
	return 0;
}
_Static_assert(CV_WATCHED == 256, "the hash yields 8 bits");

/* A signal handler that locks between a load and a store here unlocks before it returns: the count
 * is then as it was. */
CV_COLD void cv_watch_changed(uint64_t object, bool more)
{
	const struct cv_arena *a = cv_arena;
	uint32_t epoch = a ? __atomic_load_n(&a->watch_epoch, __ATOMIC_RELAXED) : 0;
	struct cv_holding *h = &cv_holding;
	uint8_t sets = epoch ? sets_of(a, object) : 0;

	if (!sets)
		return;
	if (h->epoch != epoch) {
		h->epoch = 0; /* a probe in a signal handler */
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		for (uint32_t i = 0; i < CV_WATCH_SETS; i++)
			h->count[i] = 0;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		h->epoch = epoch;
	}
	for (uint32_t i = 0; i < CV_WATCH_SETS; i++) {
		if (!(sets & 1u << i))
			continue;
		if (more && h->count[i] < UINT8_MAX)
			h->count[i]++;
		else if (!more && h->count[i]) /* else it was acquired before it was watched */
			h->count[i]--;
	}
}
