/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Hooks call these for three other builds of the agent. In the normal build they tell watched locks (cv_watch.h).
 *
 * Event build (-DCV_EVENTS, loaded for `--trace`): each operation leaves events in time order, see events/cv_event.h.
 *
 * Experimenting build (-DCV_EXPERIMENTS, loaded by `convoy causal`): code between operations is
 * lengthened, see causal/cv_causal.h.
 *
 * Tracing build (-DCV_TRACING, loaded by `convoy diagnose`): a section begins where a blocking acquire returns, and ends
 * where the release is called.
 *
 * A section is begun, and gone on with after a hook that was called in it, by a change of the
 * hook's own return address: the macros must stand in the exported function itself.
 */
#ifndef CV_TRACE_H
#define CV_TRACE_H

#include "cv_agent.h"

/* What came of an acquire. */
enum cv_got {
	CV_GOT_NOT = 0,
	CV_GOT = 1,
	CV_GOT_AGAIN = 2, /* it was this thread's already */
};

/* A variable that the event build alone reads. */
#define CV_EVENT_ONLY __attribute__((unused))

#ifdef CV_TRACING

#include "convoy_trace.h"

/* Where the hook's return address is. */
#define CV_SLOT ((uint64_t *)__builtin_frame_address(0) + 1)

/* This thread's open section, NULL = none. */
extern __thread struct cv_section *cv_open_section __attribute__((tls_model("initial-exec"), visibility("hidden")));
/* Acquires are looked at. */
extern bool cv_trace_on __attribute__((visibility("hidden")));

void cv_trace_acquired_slow(uint64_t *slot, uint64_t object, enum cv_op op, enum cv_got got);
void cv_trace_releases(uint64_t *slot, uint64_t object);
void cv_trace_resume_slow(uint64_t *slot, enum cv_op op, uint64_t object);
void cv_trace_wait_ended(uint64_t object, uint64_t wait_ns);
void cv_trace_waits_slow(uint64_t *slot, uint64_t mutex);
void cv_trace_syscall_begins(long nr, long a, long b);
void cv_trace_syscall_ended(uint64_t *slot, long nr, long a, long b);
void cv_trace_cut(enum cv_section_end end, uint64_t detail);

/* Life; see tracing/file.c. */
void cv_trace_begin(void);        /* an arena is open */
void cv_trace_forked(void); /* in a fork child, before anything else */
void cv_trace_thread_ended(void);
void cv_trace_unloaded(void);     /* after a dlclose */

/* What a thread knows of a call site. */
struct cv_trace_seen {
	uint64_t ra;
	struct cv_trace_site *site;
	uint32_t passed;    /* sections since the last one that was traced */
	uint32_t countdown; /* to the next one that may be traced */
	uint32_t sure;      /* so many more are traced in any case, */
	uint32_t first;     /* and so many more as far as debts allow; see tracing/sites.c */
};

#define CV_SEEN 512u /* call sites that a thread remembers, a power of two */

/* CV_SEEN, NULL = none yet. */
extern __thread struct cv_trace_seen *cv_trace_seen __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* What the thread has waited for just now, 0 = nothing, or it is written down. */
extern __thread uint64_t cv_trace_wait_object __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline uint64_t cv_trace_hash(uint64_t v)
{
	return v * 0x9E3779B97F4A7C15ull >> 40;
}

/* Most sections are passed over: that takes a look at the thread's own table and no more. A signal handler between
 * load and store can make one of them be counted less. */
static inline bool cv_trace_passes(uint64_t ra)
{
	struct cv_trace_seen *e = cv_trace_seen;

	if (cv_unlikely(!e))
		return false;
	e += cv_trace_hash(ra) % CV_SEEN;
	if (e->ra != ra || e->countdown <= 1)
		return false;
	e->countdown--;
	e->passed++;
	cv_trace_wait_object = 0;
	return true;
}

static inline void cv_trace_acquired(uint64_t *slot, uint64_t object, enum cv_op op, enum cv_got got)
{
	if (cv_unlikely(!cv_trace_on))
		return;
	if (cv_likely(!cv_open_section && got == CV_GOT && cv_trace_passes(*slot)))
		return;
	cv_trace_acquired_slow(slot, object, op, got);
}

static inline void cv_trace_release(uint64_t *slot, uint64_t object)
{
	if (cv_unlikely(cv_open_section != NULL))
		cv_trace_releases(slot, object);
}

static inline void cv_trace_resume(uint64_t *slot, enum cv_op op, uint64_t object)
{
	if (cv_unlikely(cv_open_section != NULL))
		cv_trace_resume_slow(slot, op, object);
}

/* What an acquire made by `call` leaves: `got` is an expression of its result r_, an enum cv_got. */
#define CV_ACQUIRE(op, object, got, call)                                             \
	({                                                                            \
		__typeof__(call) r_ = (call);                                         \
		cv_trace_acquired(CV_SLOT, (uint64_t)(uintptr_t)(object), op, (got)); \
		r_;                                                                   \
	})
#define CV_ACQUIRE_VOID(op, object, call)                                             \
	do {                                                                          \
		(call);                                                               \
		cv_trace_acquired(CV_SLOT, (uint64_t)(uintptr_t)(object), op, CV_GOT);  \
	} while (0)

/* A release, made by `call`. `kind`: of the object; `outermost`: expression, before the call: not one of several
 * acquisitions by this thread is given up, but the last. */
#define CV_RELEASE(kind, object, outermost, call)                                                 \
	({                                                                       \
		__typeof__(call) r_;                                             \
		cv_trace_release(CV_SLOT, (uint64_t)(uintptr_t)(object));        \
		r_ = (call);                                                     \
		cv_trace_resume(CV_SLOT, CV_OP_NONE, 0);                         \
		r_;                                                              \
	})
#define CV_RELEASE_VOID(kind, object, call)                                            \
	do {                                                                     \
		cv_trace_release(CV_SLOT, (uint64_t)(uintptr_t)(object));        \
		(call);                                                          \
		cv_trace_resume(CV_SLOT, CV_OP_NONE, 0);                         \
	} while (0)

/* Another function of the agent; CV_OP_NONE = none that is counted. */
#define CV_HOOK(op, object, call)                                                \
	({                                                                       \
		__typeof__(call) r_ = (call);                                    \
		cv_trace_resume(CV_SLOT, op, (uint64_t)(uintptr_t)(object));     \
		r_;                                                              \
	})
#define CV_HOOK_VOID(op, object, call)                                           \
	do {                                                                     \
		(call);                                                          \
		cv_trace_resume(CV_SLOT, op, (uint64_t)(uintptr_t)(object));     \
	} while (0)

/* A wait that gives `mutex` up: its section ends, and another one begins with the end of the wait. */
#define CV_WAIT(op, object, mutex, call)                                                            \
	({                                                                                          \
		__typeof__(call) r_;                                                                \
		if (cv_unlikely(cv_open_section != NULL))                                           \
			cv_trace_waits_slow(CV_SLOT, (uint64_t)(uintptr_t)(mutex));                 \
		r_ = (call);                                                                        \
		if (cv_unlikely(cv_open_section != NULL))                                           \
			cv_trace_resume_slow(CV_SLOT, op, (uint64_t)(uintptr_t)(object));           \
		else if (cv_unlikely(cv_trace_on))                                                  \
			cv_trace_acquired_slow(CV_SLOT, (uint64_t)(uintptr_t)(mutex), op, CV_GOT);     \
		r_;                                                                                 \
	})

/* A system call by number. */
#define CV_SYSCALL(nr, a, b, call)                                               \
	({                                                                       \
		long r_;                                                         \
		if (cv_unlikely(cv_trace_on))                                    \
			cv_trace_syscall_begins(nr, a, b);                       \
		r_ = (call);                                                     \
		if (cv_unlikely(cv_trace_on))                                    \
			cv_trace_syscall_ended(CV_SLOT, nr, a, b);               \
		r_;                                                              \
	})

/* A function of the agent from which a section does not go on. */
#define CV_LEAVES(end)                                   \
	do {                                             \
		if (cv_unlikely(cv_open_section != NULL)) \
			cv_trace_cut(end, 0);            \
	} while (0)

/* A wait for `object` has ended. */
#define CV_WAIT_ENDED(object, wait_ns)                         \
	do {                                                   \
		if (cv_unlikely(cv_trace_on))                  \
			cv_trace_wait_ended(object, wait_ns);  \
	} while (0)

#define CV_TRACE(call) (call)
#define CV_EVENT(call) ((void)0)
#define CV_CAUSAL(call) ((void)0)

#elif defined(CV_EXPERIMENTS)

#include "causal/cv_causal.h"

#define CV_ACQUIRE(op, object, got, call)                                      \
	({                                                                     \
		__typeof__(call) r_;                                           \
		cv_causal_enter();                                             \
		r_ = (call);                                                   \
		if ((got) == CV_GOT)                                           \
			cv_causal_acquired((uint64_t)(uintptr_t)(object));     \
		else                                                           \
			cv_causal_leave();                                     \
		r_;                                                            \
	})
#define CV_ACQUIRE_VOID(op, object, call)                              \
	do {                                                           \
		cv_causal_enter();                                     \
		(call);                                                \
		cv_causal_acquired((uint64_t)(uintptr_t)(object));     \
	} while (0)
#define CV_RELEASE(kind, object, outermost, call)                              \
	({                                                                     \
		bool last_ = (outermost);                                      \
		__typeof__(call) r_;                                           \
		cv_causal_enter();                                             \
		r_ = (call);                                                   \
		if (last_ && r_ == 0)                                          \
			cv_causal_released((uint64_t)(uintptr_t)(object));     \
		else                                                           \
			cv_causal_leave();                                     \
		r_;                                                            \
	})
#define CV_RELEASE_VOID(kind, object, call)                            \
	do {                                                           \
		cv_causal_enter();                                     \
		(call);                                                \
		cv_causal_released((uint64_t)(uintptr_t)(object));     \
	} while (0)
#define CV_HOOK(op, object, call) (call)
#define CV_HOOK_VOID(op, object, call) (call)
/* The section ends with the wait, and another one begins behind it. */
#define CV_WAIT(op, object, mutex, call)                               \
	({                                                             \
		__typeof__(call) r_;                                   \
		cv_causal_enter();                                     \
		cv_causal_suspended((uint64_t)(uintptr_t)(mutex));     \
		r_ = (call);                                           \
		cv_causal_acquired((uint64_t)(uintptr_t)(mutex));      \
		r_;                                                    \
	})
#define CV_SYSCALL(nr, a, b, call) (call)
#define CV_LEAVES(end) ((void)0)
#define CV_WAIT_ENDED(object, wait_ns) ((void)0)
#define CV_TRACE(call) ((void)0)
#define CV_EVENT(call) ((void)0)
#define CV_CAUSAL(call) (call)

#else

#define CV_CAUSAL(call) ((void)0)
#define CV_HOOK(op, object, call) (call)
#define CV_HOOK_VOID(op, object, call) (call)
#define CV_SYSCALL(nr, a, b, call) (call)
#define CV_LEAVES(end) ((void)0)
#define CV_WAIT_ENDED(object, wait_ns) ((void)0)
#define CV_TRACE(call) ((void)0)

#ifdef CV_EVENTS

#define CV_WAIT(op, object, mutex, call) (call)

#include "events/cv_event.h"

#define CV_ACQUIRE(op, object, got, call)                                                                  \
	({                                                                                                 \
		const struct cv_event_about about_ =                                                       \
			CV_ABOUT(cv_event_kind_of(op), (uint64_t)(uintptr_t)(object), CV_RA);                \
		bool open_ = cv_event_before(&about_);                                                     \
		__typeof__(call) r_ = (call);                                                              \
		enum cv_got got_;                                                                          \
		if (cv_unlikely(open_)) {                                                                  \
			got_ = (enum cv_got)(got);                                                         \
			if (got_ != CV_GOT_AGAIN)                                                          \
				cv_event_after(op, &about_, got_ == CV_GOT);                               \
		}                                                                                          \
		r_;                                                                                        \
	})
#define CV_ACQUIRE_VOID(op, object, call)                                                                  \
	do {                                                                                               \
		const struct cv_event_about about_ =                                                       \
			CV_ABOUT(cv_event_kind_of(op), (uint64_t)(uintptr_t)(object), CV_RA);                \
		bool open_ = cv_event_before(&about_);                                                     \
		(call);                                                                                    \
		if (cv_unlikely(open_))                                                                    \
			cv_event_after(op, &about_, true);                                                 \
	} while (0)
#define CV_RELEASE(kind, object, outermost, call)                                                          \
	({                                                                                                 \
		uint64_t stamp_ = cv_event_window() && (outermost) ? cv_event_release_time() : 0;          \
		__typeof__(call) r_ = (call);                                                              \
		if (cv_unlikely(stamp_ && r_ == 0))                                                        \
			cv_event_released(stamp_, &CV_ABOUT(kind, (uint64_t)(uintptr_t)(object), CV_RA));   \
		r_;                                                                                        \
	})
#define CV_RELEASE_VOID(kind, object, call)                                                                \
	do {                                                                                               \
		uint64_t stamp_ = cv_event_release_time();                                                 \
		(call);                                                                                    \
		if (cv_unlikely(stamp_))                                                                   \
			cv_event_released(stamp_, &CV_ABOUT(kind, (uint64_t)(uintptr_t)(object), CV_RA));   \
	} while (0)
#define CV_EVENT(call) (call)

#else

#include "cv_watch.h"

/* A lock that is watched counts as held from behind its acquisition until behind its release. */
#define CV_ACQUIRE(op, object, got, call)                                      \
	({                                                                     \
		__typeof__(call) r_ = (call);                                  \
		if (cv_unlikely(cv_watching()) && (got) != CV_GOT_NOT)         \
			cv_watch_changed((uint64_t)(uintptr_t)(object), true); \
		r_;                                                            \
	})
#define CV_ACQUIRE_VOID(op, object, call)                            \
	do {                                                         \
		(call);                                              \
		cv_watch_acquired((uint64_t)(uintptr_t)(object));    \
	} while (0)
#define CV_RELEASE(kind, object, outermost, call)                               \
	({                                                                      \
		__typeof__(call) r_ = (call);                                   \
		if (cv_unlikely(cv_watching()) && r_ == 0)                      \
			cv_watch_changed((uint64_t)(uintptr_t)(object), false); \
		r_;                                                             \
	})
#define CV_RELEASE_VOID(kind, object, call)                          \
	do {                                                         \
		(call);                                              \
		cv_watch_released((uint64_t)(uintptr_t)(object));    \
	} while (0)
/* The mutex is given up for as long as the wait lasts. */
#define CV_WAIT(op, object, mutex, call)                             \
	({                                                           \
		__typeof__(call) r_;                                 \
		cv_watch_released((uint64_t)(uintptr_t)(mutex));     \
		r_ = (call);                                         \
		cv_watch_acquired((uint64_t)(uintptr_t)(mutex));     \
		r_;                                                  \
	})
#define CV_EVENT(call) ((void)0)

#endif
#endif
#endif
