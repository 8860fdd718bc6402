/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the files of the tracing build share (../cv_trace.h has what hooks see).
 *
 * A thread's section is open from the end of an acquire on. While it is, the thread either runs translated code
 * (CV_TR_INSIDE), or a hook that was called from there (CV_TR_HOOK). A hook that finds neither is one that was come to
 * by another way: a function of the agent was left without the tracer, or a signal handler jumped away. Then the section is cut.
 *
 * While `busy` or `cv_tr.interrupted` is set, the state is being changed: signal handlers of the same thread keep their
 * hands off, and leave word in `cut` if what they have interrupted cannot go on.
 */
#ifndef CV_TRACER_H
#define CV_TRACER_H

#include "../cv_sandbox.h"
#include "../cv_thread.h"
#include "../cv_trace.h"
#include "../cv_translate.h"

/* A call site of the process. */
struct cv_trace_site {
	uint64_t ra;       /* 0 = free */
	uint32_t kind;     /* enum cv_trace_site_kind */
	uint32_t threads;  /* atomic: that have come */
	uint32_t period;   /* one section in this many, where the budget is short */
	uint32_t traced;   /* atomic: sections */
};

enum cv_trace_site_kind {
	CV_SITE_UNKNOWN = 0,
	CV_SITE_OTHER, /* not asked for */
	CV_SITE_TARGET,
};

struct cv_tracer {
	uint64_t busy;     /* frame of the hook that changes this state, 0 = none */
	uint32_t cut;      /* 1: a signal came meanwhile */
	uint32_t rng;
	uint32_t epoch;    /* of cv_trace_seen */
	uint32_t chunk;    /* of this thread + 1, 0 = none */
	uint64_t object;   /* of the open section */
	uint32_t depth;    /* acquisitions of it by this thread */
	uint32_t ready;    /* the translator knows the thread: 1 = yes, 2 = it cannot */
	uint64_t since_ns; /* when work for the open section began */
	uint64_t translated; /* instructions of the process, before it */
	uint64_t wait_ns;  /* the latest wait of this thread, for cv_trace_wait_object */
	bool anywhere;     /* it may be cancelled at any instruction: no section begins */
};

extern __thread struct cv_tracer cv_tracer __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern struct cv_trace *cv_trace_file __attribute__((visibility("hidden")));
extern const struct cv_targets *cv_trace_targets __attribute__((visibility("hidden")));

static inline bool cv_is_claimed(const struct cv_thread *t, uint64_t claimed_at, uint64_t here)
{
	return cv_unlikely(claimed_at) && (!cv_abandoned(t, claimed_at, here) || cv_on_signal_stack());
}

static inline bool cv_tracer_enter(struct cv_tracer *s, const struct cv_thread *t)
{
	uint64_t here = (uint64_t)__builtin_frame_address(0);

	if (cv_is_claimed(t, s->busy, here) || cv_is_claimed(t, cv_tr.interrupted, here))
		return false;
	cv_tr.interrupted = 0;
	s->busy = here;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return true;
}

static inline void cv_tracer_leave(struct cv_tracer *s)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	s->busy = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void cv_trace_drop(enum cv_trace_drop reason)
{
	__atomic_fetch_add(&cv_trace_file->drops[reason], 1, __ATOMIC_RELAXED);
}

/* file.c: room for a section and what is behind it, in this thread's chunk; NULL = none is free (counted). */
uint64_t *cv_trace_room(struct cv_tracer *s);
/* A whole section of so many words is in it. */
void cv_trace_wrote(struct cv_tracer *s, uint32_t words);
/* Hand the chunk over. */
void cv_trace_hand_over(struct cv_tracer *s);
/* The rest of the log of blocks can be written, as far as a section may need it. */
bool cv_trace_blocks_ready(void);
/* The modules of the code in the log of blocks are in the arena. */
void cv_trace_tell_modules(void);

/* sites.c: is the section that begins at `ra` to be traced? Then how many it stands for, else 0. Between
 * cv_tracer_enter and cv_tracer_leave. */
uint32_t cv_trace_chosen(struct cv_tracer *s, uint64_t ra, enum cv_op op, uint64_t object, uint64_t *now_ns);
/* ... but it was not traced after all. */
void cv_trace_passed_over(uint64_t ra, uint32_t sections);
void cv_trace_spent(uint64_t ns);
void cv_trace_sites_forget(void);
void cv_trace_sites_reset(void);
void cv_trace_seen_free(void);

/* section.c: a signal has come, and its handler is about to run: the section ends. */
void cv_trace_signalled(int sig);

/* signals.c */
void cv_trace_signals_begin(void);

/* cancels.c: does code of the process call pthread_cancel? */
bool cv_trace_cancels(void);

/* stops.c: the functions at whose entry a section ends. Once. */
const uint64_t *cv_trace_stops(uint32_t *n);

/* mappings.c: this system call may change code. */
void cv_trace_remaps(long nr, uint64_t address, uint64_t bytes);

#endif
