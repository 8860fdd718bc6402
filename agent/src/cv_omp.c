/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * OpenMP as gcc compiles it: calls into libgomp. What libgomp waits with is inlined in it, so only
 * these entry points can be seen. The barrier at the end of a parallel region has none: the
 * outlined body is wrapped instead, and each thread's wait is the time from the end of its body to the
 * end of the region. Agent rules: cv_agent.h.
 */
#include "cv_frames.h"
#include "cv_library.h"
#include "cv_trace.h"
#include "cv_try.h"
#include "cv_wait.h"

#include "cv_banned.h"

#define TEAM_MAX 256 /* members of a region whose waits are told; the others' bodies are timed only */

struct member {
	struct cv_wait_detail *wait;
	uint64_t done_ns;
};

struct team {
	void (*body)(void *);
	void *data;
	cv_ref stack;     /* of the thread that began the region: the others' begin in libgomp */
	uint32_t members; /* atomic */
	struct member member[TEAM_MAX];
};

/* The caller's own OpenMP library. Only in the exported function itself. */
#define LIBRARY(library)         \
	struct cv_library room_; \
	const struct cv_library *library = cv_library_of(CV_RA, &room_)

/* ---- parallel regions ---- */

/* The region's object is its outlined function. The same address serves as its call site: + 1, because
 * sites are return addresses. */
static void team_member(void *arg)
{
	struct team *team = arg;
	struct cv_thread *t = cv_thread();
	uint64_t region = cv_addr(team->body), began;
	struct cv_wait_detail *wait = NULL;
	uint32_t i;

	if (!t) {
		team->body(team->data);
		return;
	}
	cv_count(t, region, region + 1, CV_OP_OMP_REGION, false);
	if (cv_enter(t)) {
		struct cv_entry *e = cv_detail_get(t, region, team->stack, CV_OP_OMP_REGION);

		wait = e ? cv_detail_wait(t, e) : NULL;
		cv_object_get(region, CV_OBJECT_OMP_REGION);
		cv_leave(t);
	}
	CV_EVENT(cv_event_region_begins());
	began = cv_now();
	team->body(team->data);
	CV_EVENT(cv_event_region_ends(region));
	if (!wait)
		return;
	i = __atomic_fetch_add(&team->members, 1, __ATOMIC_RELAXED);
	if (i < TEAM_MAX)
		team->member[i].done_ns = cv_now();
	wait->busy_sum_ns += cv_now() - began;
	if (i < TEAM_MAX)
		__atomic_store_n(&team->member[i].wait, wait, __ATOMIC_RELEASE);
}

/* False = not recorded: the region is to be called as it is. */
static bool team_begin(struct team *team, void (*body)(void *), void *data, unsigned threads)
{
	struct cv_thread *t = cv_thread();

	if (!t || !cv_enter(t))
		return false;
	team->stack = cv_stack_capture();
	cv_leave(t);
	team->body = body;
	team->data = data;
	team->members = 0;
	memset(team->member, 0, (threads && threads < TEAM_MAX ? threads : TEAM_MAX) * sizeof(team->member[0]));
	return true;
}

static void team_end(struct team *team)
{
	uint64_t end = cv_now();
	uint32_t n = team->members < TEAM_MAX ? team->members : TEAM_MAX;

	/* The members idle in libgomp until the next region: their records are ours for now. */
	for (uint32_t i = 0; i < n; i++)
		if (team->member[i].wait && end > team->member[i].done_ns)
			cv_wait_add(team->member[i].wait, end - team->member[i].done_ns, false);
	CV_EVENT(cv_event_region_left());
}

/* All entry points have the body, its data and the number of threads first. The rest is passed on. */
#define REGION(name, parameters, ...)                                                                 \
	CV_EXPORT void name parameters                                                                \
	{                                                                                             \
		LIBRARY(library);                                                                     \
		struct team team;                                                                     \
                                                                                                      \
		if (!team_begin(&team, body, data, threads)) {                                        \
			cv_library_call(library, name)(body, data, threads, __VA_ARGS__);             \
			return;                                                                       \
		}                                                                                     \
		cv_library_call(library, name)(team_member, &team, threads, __VA_ARGS__);             \
		team_end(&team);                                                                      \
	}

#define LOOP(name)                                                                                    \
	REGION(name,                                                                                  \
	       (void (*body)(void *), void *data, unsigned threads, long from, long to, long step,    \
		long chunk, unsigned flags),                                                          \
	       from, to, step, chunk, flags)

#define RUNTIME_LOOP(name)                                                                            \
	REGION(name,                                                                                  \
	       (void (*body)(void *), void *data, unsigned threads, long from, long to, long step,    \
		unsigned flags),                                                                      \
	       from, to, step, flags)

REGION(GOMP_parallel, (void (*body)(void *), void *data, unsigned threads, unsigned flags), flags)
REGION(GOMP_parallel_sections,
       (void (*body)(void *), void *data, unsigned threads, unsigned count, unsigned flags), count, flags)
LOOP(GOMP_parallel_loop_static)
LOOP(GOMP_parallel_loop_dynamic)
LOOP(GOMP_parallel_loop_guided)
LOOP(GOMP_parallel_loop_nonmonotonic_dynamic)
LOOP(GOMP_parallel_loop_nonmonotonic_guided)
RUNTIME_LOOP(GOMP_parallel_loop_runtime)
RUNTIME_LOOP(GOMP_parallel_loop_nonmonotonic_runtime)
RUNTIME_LOOP(GOMP_parallel_loop_maybe_nonmonotonic_runtime)

/* ---- explicit barriers, and those that end loops and sections: named by their call site ---- */

static void barrier(uint64_t ra, void (*real)(void))
{
	struct cv_thread *t = cv_thread();
	struct cv_blocking b;

	if (!t) {
		real();
		return;
	}
	cv_count(t, ra, ra, CV_OP_OMP_BARRIER, false);
	cv_block_begin(&b, t, ra, ra, CV_OBJECT_OMP_BARRIER, CV_OP_OMP_BARRIER, NULL);
	real();
	cv_block_commit(&b, cv_block_end(&b), false);
}

CV_EXPORT void GOMP_barrier(void)
{
	LIBRARY(library);

	barrier(CV_RA, cv_library_call(library, GOMP_barrier));
}

CV_EXPORT void GOMP_loop_end(void)
{
	LIBRARY(library);

	barrier(CV_RA, cv_library_call(library, GOMP_loop_end));
}

CV_EXPORT void GOMP_sections_end(void)
{
	LIBRARY(library);

	barrier(CV_RA, cv_library_call(library, GOMP_sections_end));
}

/* ---- critical sections ----
 *
 * A named one keeps its lock in the word that is passed; the unnamed one and the atomic one hide
 * theirs in libgomp. For all of them the hooks keep the holder here: who is in is known without a
 * look at libgomp's word. */
static uint32_t unnamed_holder, atomic_holder;

struct critical {
	uint64_t obj;
	uint32_t *holder;
	void (*plain)(void); /* one of the two */
	void (*named)(void **);
	void **name;
};

static void critical_call(const struct critical *c)
{
	if (c->named)
		c->named(c->name);
	else
		c->plain();
}

static void critical_enter(const struct critical *c, uint64_t ra, bool taken)
{
	struct cv_thread *t = cv_thread();
	uint32_t who = c->holder ? __atomic_load_n(c->holder, __ATOMIC_RELAXED) : 0;
	struct cv_entry *detail = NULL;
	struct cv_blocking b;
	uint64_t before = 0, now;

	if (!t) {
		critical_call(c);
		return;
	}
	if (cv_count(t, c->obj, ra, CV_OP_OMP_CRITICAL, false)) {
		detail = cv_sample(t, c->obj, CV_OP_OMP_CRITICAL);
		before = cv_now();
	}
	taken = taken || who != 0;
	if (taken)
		cv_block_begin(&b, t, c->obj, ra, CV_OBJECT_OMP_CRITICAL, CV_OP_OMP_CRITICAL, c->holder);
	critical_call(c);
	if (c->holder)
		__atomic_store_n(c->holder, t->tid, __ATOMIC_RELAXED);
	cv_last_set(t, c->obj, ra);
	if (taken) {
		cv_block_held(&b, cv_block_end(&b));
	} else if (detail) {
		now = cv_now();
		cv_hold_sampled(t, c->obj, CV_OP_OMP_CRITICAL, detail, now, (uint32_t)(now - before));
	}
}

static void critical_leave(const struct critical *c)
{
	struct cv_thread *t = cv_self;
	bool timed = cv_hold_any(t) && cv_hold_release(t, c->obj);

	if (c->holder)
		__atomic_store_n(c->holder, 0, __ATOMIC_RELAXED);
	critical_call(c);
	if (timed)
		cv_hold_commit(t, c->obj);
}

#define PLAIN(holder_, name_)                                                                              \
	(&(struct critical){ .obj = cv_addr(holder_),                                                      \
			     .holder = holder_,                                                            \
			     .plain = cv_library_call(library, name_) })
#define NAMED(word, name_)                                                                                 \
	(&(struct critical){ .obj = cv_addr(word), .named = cv_library_call(library, name_), .name = word })

CV_EXPORT void GOMP_critical_start(void)
{
	LIBRARY(library);

	CV_ACQUIRE_VOID(CV_OP_OMP_CRITICAL, &unnamed_holder, critical_enter(PLAIN(&unnamed_holder, GOMP_critical_start), CV_RA, false));
}

CV_EXPORT void GOMP_critical_end(void)
{
	LIBRARY(library);

	CV_RELEASE_VOID(CV_OBJECT_OMP_CRITICAL, &unnamed_holder, critical_leave(PLAIN(&unnamed_holder, GOMP_critical_end)));
}

CV_EXPORT void GOMP_atomic_start(void)
{
	LIBRARY(library);

	CV_ACQUIRE_VOID(CV_OP_OMP_CRITICAL, &atomic_holder, critical_enter(PLAIN(&atomic_holder, GOMP_atomic_start), CV_RA, false));
}

CV_EXPORT void GOMP_atomic_end(void)
{
	LIBRARY(library);

	CV_RELEASE_VOID(CV_OBJECT_OMP_CRITICAL, &atomic_holder, critical_leave(PLAIN(&atomic_holder, GOMP_atomic_end)));
}

CV_EXPORT void GOMP_critical_name_start(void **name)
{
	LIBRARY(library);
	/* libgomp's lock is an int in the pointer's place: 0 = free */
	bool taken = __atomic_load_n((int *)name, __ATOMIC_RELAXED) != 0;

	CV_ACQUIRE_VOID(CV_OP_OMP_CRITICAL, name, critical_enter(NAMED(name, GOMP_critical_name_start), CV_RA, taken));
}

CV_EXPORT void GOMP_critical_name_end(void **name)
{
	LIBRARY(library);

	CV_RELEASE_VOID(CV_OBJECT_OMP_CRITICAL, name, critical_leave(NAMED(name, GOMP_critical_name_end)));
}

/* ---- locks ---- */

static void omp_lock(void *l, uint64_t ra, int (*test)(void *), void (*set)(void *))
{
	struct cv_thread *t = cv_thread();
	struct cv_entry *detail = NULL;
	struct cv_blocking b;
	uint64_t before = 0, now;

	if (!t) {
		set(l);
		return;
	}
	if (cv_count(t, cv_addr(l), ra, CV_OP_OMP_LOCK, false)) {
		detail = cv_sample(t, cv_addr(l), CV_OP_OMP_LOCK);
		before = cv_now();
	}
	if (test(l)) {
		cv_last_set(t, cv_addr(l), ra);
		if (detail) {
			now = cv_now();
			cv_hold_sampled(t, cv_addr(l), CV_OP_OMP_LOCK, detail, now, (uint32_t)(now - before));
		}
		return;
	}
	cv_block_begin(&b, t, cv_addr(l), ra, CV_OBJECT_OMP_LOCK, CV_OP_OMP_LOCK, NULL);
	set(l);
	now = cv_block_end(&b);
	cv_last_set(t, cv_addr(l), ra);
	cv_block_held(&b, now);
}

static void omp_unlock(void *l, void (*unset)(void *))
{
	struct cv_thread *t = cv_self;
	bool timed = cv_hold_any(t) && cv_hold_release(t, cv_addr(l));

	unset(l);
	if (timed)
		cv_hold_commit(t, cv_addr(l));
}

static int omp_try(void *l, uint64_t ra, int (*test)(void *))
{
	struct cv_thread *t = cv_thread();
	struct cv_try y;
	int got;

	if (!t)
		return test(l);
	cv_try_begin(&y, t, cv_addr(l), ra, CV_OP_OMP_TRYLOCK);
	got = test(l);
	if (got)
		cv_try_got(&y, true);
	else
		cv_try_failed(&y);
	return got;
}

CV_EXPORT void omp_set_lock(void *l)
{
	LIBRARY(library);

	CV_ACQUIRE_VOID(CV_OP_OMP_LOCK, l,
			omp_lock(l, CV_RA, cv_library_call(library, omp_test_lock),
				 cv_library_call(library, omp_set_lock)));
}

CV_EXPORT void omp_unset_lock(void *l)
{
	LIBRARY(library);

	CV_RELEASE_VOID(CV_OBJECT_OMP_LOCK, l, omp_unlock(l, cv_library_call(library, omp_unset_lock)));
}

CV_EXPORT int omp_test_lock(void *l)
{
	LIBRARY(library);

	return CV_ACQUIRE(CV_OP_OMP_TRYLOCK, l, r_ != 0, omp_try(l, CV_RA, cv_library_call(library, omp_test_lock)));
}

CV_EXPORT void omp_set_nest_lock(void *l)
{
	LIBRARY(library);

	CV_ACQUIRE_VOID(CV_OP_OMP_LOCK, l,
			omp_lock(l, CV_RA, cv_library_call(library, omp_test_nest_lock),
				 cv_library_call(library, omp_set_nest_lock)));
}

CV_EXPORT void omp_unset_nest_lock(void *l)
{
	LIBRARY(library);

	CV_RELEASE_VOID(CV_OBJECT_OMP_LOCK, l, omp_unlock(l, cv_library_call(library, omp_unset_nest_lock)));
}

CV_EXPORT int omp_test_nest_lock(void *l)
{
	LIBRARY(library);

	return CV_ACQUIRE(CV_OP_OMP_TRYLOCK, l, r_ != 0,
			  omp_try(l, CV_RA, cv_library_call(library, omp_test_nest_lock)));
}
