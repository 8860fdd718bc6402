/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Progress points of programs that use coz.h, as they are.
 *
 * Its macros look these functions up by name and increment the counter that they get, which here
 * lies in the shared file. Agent rules: ../cv_agent.h.
 */
#include "cv_causal.h"

#include "../cv_banned.h"

/* coz_counter_t. */
struct counter {
	size_t count;
	size_t backoff;
};

#define NAME_MOST (sizeof(((struct cv_causal_point *)0)->name) - 1)

static struct cv_causal_point *point_at(uint32_t i)
{
	return (struct cv_causal_point *)((char *)cv_causal_file + CV_CAUSAL_POINTS_AT) + i;
}

static bool is_named(const struct cv_causal_point *p, int kind, const char *name)
{
	return (int)p->kind == kind && strncmp(p->name, name, NAME_MOST) == 0;
}

/* Two threads may come here first at once: the loser's point stays empty, and is not counted
 * twice. */
CV_EXPORT struct counter *cv_coz_get_counter(int kind, const char *name) __asm__("_coz_get_counter");
CV_EXPORT struct counter *cv_coz_get_counter(int kind, const char *name)
{
	struct cv_causal *f = cv_causal_file;
	struct cv_causal_point *p;
	uint32_t n;

	if (!f || !name)
		return NULL;
	n = __atomic_load_n(&f->points, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n && i < CV_CAUSAL_POINTS; i++)
		if (is_named(point_at(i), kind, name))
			return (struct counter *)point_at(i);
	n = __atomic_fetch_add(&f->points, 1, __ATOMIC_ACQ_REL);
	if (n >= CV_CAUSAL_POINTS)
		return NULL;
	p = point_at(n);
	memcpy(p->name, name, strnlen(name, NAME_MOST));
	__atomic_store_n(&p->kind, (uint32_t)kind, __ATOMIC_RELEASE);
	return (struct counter *)p;
}

/* Delays that the program's own waiting code would owe: none, as nobody is paused here. */
#define NOTHING(name, params)                            \
	CV_EXPORT void cv##name params __asm__(#name);   \
	CV_EXPORT void cv##name params                   \
	{                                                \
	}
NOTHING(_coz_pre_block, (void))
NOTHING(_coz_post_block, (int skip __attribute__((unused))))
NOTHING(_coz_wake_other, (void))
