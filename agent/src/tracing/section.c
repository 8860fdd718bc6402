/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sections: their begin, what is called in them, and their end. Agent rules: ../cv_agent.h. */
#include <sys/syscall.h>

#include "../cv_frames.h"
#include "cv_tracer.h"

#include "../cv_banned.h"

#define HEADER_WORDS (sizeof(struct cv_section) / 8)
#define EVENT_WORDS 24 /* more than a hook and the return from it write */
/* What tracing a section costs, at most: its begin and end, a word of its record, an instruction that is translated. Its
 * own time is no measure where it may be blocked or off the processor. */
#define FIXED_NS 500u
#define WORD_NS 20u
#define TRANSLATION_NS 4000u

/* ---- end ---- */

static uint64_t translated(void)
{
	return __atomic_load_n(&cv_trace_file->translated_instructions, __ATOMIC_RELAXED);
}

/* Between cv_tracer_enter and leave. */
static void close_section(struct cv_tracer *s, enum cv_section_end end, uint64_t detail)
{
	struct cv_section *section = cv_open_section;
	uint64_t now = cv_now(), words = (uint64_t)(cv_tr.at - (uint64_t *)section);
	uint64_t took = now > s->since_ns ? now - s->since_ns : 0, cost;

	cv_open_section = NULL;
	cv_tr.mode = CV_TR_OFF;
	section->words = (uint32_t)words;
	section->end = (uint16_t)end;
	section->detail = detail;
	section->end_ns = now;
	cv_trace_tell_modules();
	cv_trace_wrote(s, (uint32_t)words);
	cost = FIXED_NS + words * WORD_NS + (translated() - s->translated) * TRANSLATION_NS;
	cv_trace_spent(cost < took + FIXED_NS ? cost : took + FIXED_NS);
}

void cv_trace_cut(enum cv_section_end end, uint64_t detail)
{
	struct cv_tracer *s = &cv_tracer;

	if (!cv_open_section)
		return;
	if (!cv_self || !cv_tracer_enter(s, cv_self)) {
		s->cut = 1;
		return;
	}
	if (cv_open_section)
		close_section(s, end, detail);
	cv_tracer_leave(s);
	s->cut = 0;
}

void cv_tr_left(enum cv_section_end end, uint64_t detail)
{
	if (end == CV_END_NO_ROOM && cv_open_section)
		cv_trace_drop(detail == CV_TRACE_DROP_NO_MEMORY ? CV_TRACE_DROP_NO_MEMORY : CV_TRACE_DROP_NO_BLOCKS);
	cv_trace_cut(end, detail);
}

/* ---- to and from translated code ---- */

/* The hook that has this slot was called from translated code. */
static bool called_from_section(const uint64_t *slot)
{
	return cv_tr.mode == CV_TR_HOOK && cv_tr.hook_slot == slot && *slot == cv_tr.hook_return;
}

/* The hook returns into translated code. A signal that comes before it does finds hook_slot and hook_return. */
static void return_to_translation(uint64_t *slot)
{
	cv_tr.target = *slot;
	cv_tr.hook_slot = slot;
	cv_tr.hook_return = *slot;
	*slot = (uint64_t)(uintptr_t)&cv_tr_enter;
	cv_tr.mode = CV_TR_INSIDE;
}

void cv_trace_signalled(int sig)
{
	if (!cv_open_section)
		return;
	if (cv_tracer.busy) {
		cv_tracer.cut = 1;
		return;
	}
	if (cv_tr.mode == CV_TR_INSIDE && *cv_tr.hook_slot == (uint64_t)(uintptr_t)&cv_tr_enter)
		*cv_tr.hook_slot = cv_tr.hook_return;
	cv_trace_cut(CV_END_SIGNAL, (uint64_t)sig);
}

/* A signal that came meanwhile ends the section. */
static void leave(struct cv_tracer *s)
{
	cv_tracer_leave(s);
	if (cv_unlikely(s->cut)) {
		s->cut = 0;
		cv_trace_signalled(0);
	}
}

/* ---- begin ---- */

static bool begin(struct cv_tracer *s, struct cv_thread *t, uint64_t *slot, uint64_t object, enum cv_op op,
		  uint32_t weight, bool waited)
{
	uint64_t *room = cv_trace_room(s);
	struct cv_section *section = (struct cv_section *)room;
	cv_ref stack = 0;

	if (!room || !cv_trace_blocks_ready())
		return false;
	if (!s->ready)
		s->ready = cv_tr_thread_begin() ? 1 : 2;
	if (s->ready != 1) {
		cv_trace_drop(CV_TRACE_DROP_NO_MEMORY);
		return false;
	}
	if (cv_enter(t)) {
		stack = cv_stack_capture_from(slot - 1);
		cv_leave(t);
	}
	*section = (struct cv_section){
		.op = (uint16_t)op,
		.object = object,
		.ra = *slot,
		.stack = stack,
		.thread = t->index,
		.weight = weight,
		.waited = waited,
		.stack_lo = t->stack_lo,
		.stack_hi = t->stack_hi,
	};
	s->object = object;
	s->depth = 1;
	s->translated = translated();
	cv_tr.at = room + HEADER_WORDS;
	cv_tr.limit = room + cv_trace_targets->max_words;
	section->begin_ns = cv_now();
	cv_open_section = section;
	return_to_translation(slot);
	return true;
}

static bool waited_for(uint64_t object)
{
	bool waited = cv_trace_wait_object == object;

	cv_trace_wait_object = 0;
	return waited;
}

static void consider(struct cv_tracer *s, uint64_t *slot, uint64_t object, enum cv_op op)
{
	struct cv_thread *t = cv_self;
	bool waited = waited_for(object);
	uint32_t weight;
	int saved;

	if (!t || s->ready == 2 || s->anywhere || cv_is_quiet())
		return;
	if (cv_unlikely(!cv_tracer_enter(s, t))) {
		cv_trace_drop(CV_TRACE_DROP_REENTRANT);
		return;
	}
	saved = errno;
	weight = cv_trace_chosen(s, *slot, op, object, &s->since_ns);
	if (weight && !begin(s, t, slot, object, op, weight, waited))
		cv_trace_passed_over(*slot, weight);
	errno = saved;
	leave(s);
}

/* ---- in a section ---- */

static bool has_room(struct cv_tracer *s)
{
	if (cv_likely(cv_tr.at < cv_tr.limit + CV_TR_SLACK_WORDS - EVENT_WORDS))
		return true;
	close_section(s, CV_END_TOO_LONG, 0);
	return false;
}

/* The thread is where its section says that it is; if not, the section ends here. True = the state is claimed. */
static bool enter_section(struct cv_tracer *s, uint64_t *slot)
{
	if (!cv_self || !cv_tracer_enter(s, cv_self)) {
		s->cut = 1; /* we are in a signal handler that interrupted the tracer */
		return false;
	}
	if (cv_likely(cv_open_section && called_from_section(slot) && has_room(s)))
		return true;
	if (cv_open_section)
		close_section(s, CV_END_LEFT, 0);
	leave(s);
	return false;
}

static void note(enum cv_trace_event kind, uint64_t argument, uint64_t object)
{
	*cv_tr.at++ = cv_event(kind, argument);
	*cv_tr.at++ = object;
}

static void note_wait(struct cv_tracer *s, uint64_t object)
{
	uint64_t wait_ns = s->wait_ns;

	if (!waited_for(object))
		return;
	*cv_tr.at++ = cv_event(CV_EVENT_HOOK_WAIT, wait_ns);
}

void cv_trace_acquired_slow(uint64_t *slot, uint64_t object, enum cv_op op, enum cv_got got)
{
	struct cv_tracer *s = &cv_tracer;

	if (!cv_open_section) {
		if (got == CV_GOT)
			consider(s, slot, object, op);
		return;
	}
	if (!enter_section(s, slot))
		return;
	if (got != CV_GOT_NOT && object == s->object)
		s->depth++;
	note(CV_EVENT_HOOK, got == CV_GOT_NOT ? CV_OP_NONE : op, object);
	note_wait(s, object);
	return_to_translation(slot);
	leave(s);
}

void cv_trace_releases(uint64_t *slot, uint64_t object)
{
	struct cv_tracer *s = &cv_tracer;

	if (!enter_section(s, slot))
		return;
	if (object == s->object && --s->depth == 0)
		close_section(s, CV_END_RELEASED, 0);
	else
		note(CV_EVENT_UNLOCK, 0, object);
	leave(s);
}

void cv_trace_resume_slow(uint64_t *slot, enum cv_op op, uint64_t object)
{
	struct cv_tracer *s = &cv_tracer;

	if (!enter_section(s, slot))
		return;
	if (op != CV_OP_NONE || object) { /* behind a release nothing: it was written before */
		note(CV_EVENT_HOOK, op, object);
		note_wait(s, object);
	}
	return_to_translation(slot);
	leave(s);
}

void cv_trace_waits_slow(uint64_t *slot, uint64_t mutex)
{
	struct cv_tracer *s = &cv_tracer;

	if (!enter_section(s, slot))
		return;
	if (mutex == s->object)
		close_section(s, CV_END_WAITED, 0);
	leave(s);
}

void cv_trace_wait_ended(uint64_t object, uint64_t wait_ns)
{
	cv_trace_wait_object = object;
	cv_tracer.wait_ns = wait_ns;
}

/* ---- system calls that the program makes through syscall() ---- */

static bool leaves_process(long nr)
{
	switch (nr) {
#ifdef SYS_fork
	case SYS_fork:
	case SYS_vfork:
#endif
	case SYS_clone:
#ifdef SYS_clone3
	case SYS_clone3:
#endif
	case SYS_execve:
	case SYS_execveat:
	case SYS_exit:
	case SYS_exit_group:
	case SYS_rt_sigreturn:
		return true;
	default:
		return false;
	}
}

void cv_trace_syscall_begins(long nr, long a, long b)
{
	if (leaves_process(nr))
		cv_trace_cut(CV_END_PROCESS, (uint64_t)nr);
	cv_trace_remaps(nr, (uint64_t)a, (uint64_t)b);
}

void cv_trace_syscall_ended(uint64_t *slot, long nr, long a, long b)
{
	struct cv_tracer *s = &cv_tracer;

	cv_trace_remaps(nr, (uint64_t)a, (uint64_t)b);
	if (!cv_open_section || !enter_section(s, slot))
		return;
	*cv_tr.at++ = cv_event(CV_EVENT_SYSCALL, nr);
	if (nr == SYS_futex && cv_trace_wait_object == (uint64_t)a) {
		note(CV_EVENT_HOOK, CV_OP_FUTEX_WAIT, (uint64_t)a);
		note_wait(s, (uint64_t)a);
	}
	return_to_translation(slot);
	leave(s);
}
