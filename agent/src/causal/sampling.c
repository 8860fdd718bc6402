/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Samples: signals that interrupt a thread after so much CPU time.
 *
 * They come from perf events that convoy opens from outside (task-clock, user mode only), so that
 * the program has no descriptor more and pays nothing outside of experiments. Such a signal is
 * delivered before the next instruction: it cannot break off a system call. Where perf is not
 * allowed, threads arm CPU-time timers, which the kernel checks at its tick.
 *
 * A sample stands for the CPU time since the handler's last end, at most a period. Events go on
 * counting while the handler spins: one that comes during a spin stands for nearly nothing, and
 * lengthened code is sampled as often as other code, so that the cost of samples is lengthened with
 * it. Agent rules: ../cv_agent.h.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#include "../cv_real.h"
#include "../cv_sandbox.h"
#include "../cv_unwind.h"
#include "cv_causal_signal.h"

#include "../cv_banned.h"

/* ---- what was interrupted ---- */

static uint64_t pc_of(const ucontext_t *u)
{
#if defined(__x86_64__)
	return (uint64_t)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return u->uc_mcontext.pc;
#endif
}

/* A system call has been broken off, and the program will see it. */
static bool has_broken_a_call(const ucontext_t *u)
{
#if defined(__x86_64__)
	static const uint8_t instruction[2] = { 0x0f, 0x05 }; /* syscall */

	return (int64_t)u->uc_mcontext.gregs[REG_RAX] == -EINTR &&
	       memcmp((const void *)(uintptr_t)(pc_of(u) - 2), instruction, 2) == 0;
#else
	(void)u;
	return false;
#endif
}

const struct cv_causal_range *cv_causal_range_at(const struct cv_causal_control *c, uint64_t pc)
{
	const struct cv_causal_range *r =
		(const struct cv_causal_range *)((const char *)cv_causal_file + CV_CAUSAL_RANGES_AT);
	uint32_t lo = 0, hi = c->ranges < CV_CAUSAL_RANGES ? c->ranges : CV_CAUSAL_RANGES;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (pc < r[mid].lo)
			hi = mid;
		else if (pc >= r[mid].hi)
			lo = mid + 1;
		else
			return c->targets >> (r[mid].target % CV_CAUSAL_TARGETS) & 1 ? &r[mid] : NULL;
	}
	return NULL;
}

/* ---- call paths ---- */

#define FRAMES_MOST 64u

/* Whether the functions of a target's call path are on the stack, in their order; others may lie
 * between. The handler's own frames are left out by the rule that they belong to no target. */
static bool is_on_path(const struct cv_causal_control *c, const void *frame)
{
	uint8_t missing[CV_CAUSAL_TARGETS];
	struct cv_trace stack;

	memcpy(missing, c->steps, sizeof(missing));
	stack.max = FRAMES_MOST;
	stack.skip_lo = stack.skip_hi = 0;
	cv_unwind(frame, &stack);
	for (uint32_t i = 0; i < stack.n; i++) {
		/* A return address may be the first of the next function. */
		uint64_t at = stack.pc[i] - !(stack.flags[i] & CV_FRAME_EXACT);
		const struct cv_causal_range *r = cv_causal_range_at(c, at);
		uint8_t *of = r ? &missing[r->target % CV_CAUSAL_TARGETS] : NULL;

		if (of && *of && r->step == *of && --*of == 0)
			return true;
	}
	return false;
}

static bool has_paths(const struct cv_causal_control *c)
{
	for (uint32_t target = 0; target < CV_CAUSAL_TARGETS; target++)
		if (c->targets >> target & 1 && c->steps[target])
			return true;
	return false;
}

/* Whether a sampled thread runs what is the subject. `frame`: of the handler. */
static bool is_subject(const struct cv_causal_control *c, const struct cv_causal_thread *t, uint64_t pc,
		       const void *frame)
{
	const struct cv_causal_range *r;

	if (c->subject & CV_CAUSAL_GROUP && t->groups & c->groups)
		return true;
	if (!(c->subject & CV_CAUSAL_CODE))
		return false;
	r = cv_causal_range_at(c, pc);
	if (r && !c->steps[r->target % CV_CAUSAL_TARGETS])
		return true;
	return has_paths(c) && is_on_path(c, frame);
}

static void record(uint64_t pc)
{
	struct cv_causal *f = cv_causal_file;
	uint64_t *ring = (uint64_t *)((char *)f + CV_CAUSAL_SAMPLES_AT);
	uint64_t n = __atomic_fetch_add(&f->samples, 1, __ATOMIC_RELAXED);

	__atomic_store_n(&ring[n % CV_CAUSAL_SAMPLES], pc, __ATOMIC_RELAXED);
}

/* ---- the handler ---- */

/* Lengthens what ran since the last sample if the one at hand says so. */
static void lengthen(struct cv_causal_thread *t, uint64_t pc, uint64_t now, const void *frame)
{
	const struct cv_causal_control *c = cv_causal_control();
	struct cv_causal_work *w = cv_causal_work(t);
	uint64_t ran = now - w->mark_ns;
	bool hit = is_subject(c, t, pc, frame);

	t->samples++;
	t->hits += hit;
	if (c->record)
		record(pc);
	if (w->window != c->window) {
		w->window = c->window;
		return;
	}
	if (c->estimator != (hit ? CV_CAUSAL_SLOW : CV_CAUSAL_DILATE))
		return;
	ran = ran > c->signal_cost_ns ? ran - c->signal_cost_ns : 0;
	if (ran > c->period_ns)
		ran = c->period_ns; /* the rest was kernel time */
	cv_causal_spin(t, (ran * c->factor) >> 16);
}

static void lengthen_in_window(const ucontext_t *context, const void *frame)
{
	struct cv_causal_thread *t = cv_causal_thread_sampled();
	struct cv_causal_work *w;

	if (!t || !cv_causal_left())
		return;
	w = cv_causal_work(t);
	t->handling = 1;
	t->broken += has_broken_a_call(context);
	if (cv_causal_control()->mechanism == CV_CAUSAL_SAMPLED) {
		lengthen(t, pc_of(context), cv_causal_cpu_ns_exact(), frame);
		w->mark_ns = cv_causal_cpu_ns_exact();
	} else if (!w->hooked || w->window != cv_causal_window()) {
		w->hooked = 0;
		cv_causal_code_ran(t); /* code without hooks is lengthened here */
	}
	t->handling = 0;
}

static void sampled(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)sig, (void)info;
	if (cv_is_quiet())
		return;
	if (cv_causal_window())
		lengthen_in_window(context, __builtin_frame_address(0));
	else if (cv_causal_control()->leave) {
		cv_causal_sampling_disarm_all();
		cv_causal_signal_give_back();
	}
	else if (cv_causal_self)
		cv_causal_sampling_disarm(cv_causal_self); /* the next window arms it again */
	errno = saved;
}

/* ---- the signal ---- */

/* Standard signals: one that is pending is not queued a second time, so that a thread that blocks
 * it for long gathers none, and the limit of pending signals, beyond which the kernel would send
 * SIGIO in its place, does not hold for them. The first is ignored by default: also where the
 * handler is gone (after an exec) it does nothing. */
static const int usable[] = { SIGURG, SIGSTKFLT, SIGPWR };
#define USABLE (sizeof(usable) / sizeof(usable[0]))

static int chosen;

bool cv_causal_is_sample_handler(void *handler)
{
	return handler == (void *)sampled;
}

static void *handler_of(int sig)
{
	struct sigaction found;

	return cv_real(sigaction)(sig, NULL, &found) == 0 ? (void *)found.sa_handler : (void *)SIG_ERR;
}

static bool is_blocked(int sig)
{
	uint64_t blocked = 0;

	/* The thread that is borrowed to attach blocks all. */
	return cv_self &&
	       cv_syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&blocked, sizeof(blocked), 0, 0) == 0 &&
	       blocked >> (sig - 1) & 1;
}

static bool take(int sig)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = sampled;
	/* A thread with a stack for signals may have a small one of its own. */
	action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
	return handler_of(sig) == (void *)SIG_DFL && !is_blocked(sig) &&
	       cv_real(sigaction)(sig, &action, NULL) == 0;
}

/* The child of a fork has its parent's handlers. */
void cv_causal_sampling_init(struct cv_causal *f)
{
	if (chosen && !cv_causal_is_sample_handler(handler_of(chosen)))
		chosen = 0;
	for (size_t i = 0; i < USABLE && !chosen; i++)
		if (take(usable[i]))
			chosen = usable[i];
	f->signal = (uint32_t)chosen;
}

void cv_causal_signal_give_back(void)
{
	struct sigaction unset, old;

	memset(&unset, 0, sizeof(unset));
	unset.sa_handler = SIG_DFL;
	if (!chosen || !cv_causal_is_sample_handler(handler_of(chosen)) ||
	    cv_real(sigaction)(chosen, &unset, &old) != 0)
		return;
	/* The program may have taken it since the look. */
	if (!cv_causal_is_sample_handler((void *)old.sa_handler) && old.sa_handler != SIG_DFL)
		cv_real(sigaction)(chosen, &old, NULL);
}

/* ---- threads ---- */

/* The program wants the signal for itself. */
static bool is_given_up(void)
{
	return __atomic_load_n(&cv_causal_file->flags, __ATOMIC_SEQ_CST) & CV_CAUSAL_SIGNAL_TAKEN;
}

/* Without perf: CPU time of this thread, by the kernel's tick. */
void cv_causal_sampling_arm(struct cv_causal_thread *t)
{
	const struct cv_causal_control *c = cv_causal_control();
	struct cv_causal_work *w = cv_causal_work(t);
	struct sigevent event;
	struct itimerspec every;
	int timer;

	if (!c->timers || w->timer || !cv_causal_file || !cv_causal_file->signal || cv_is_quiet() ||
	    is_given_up())
		return;
	if (is_blocked((int)cv_causal_file->signal)) { /* it would be handed to a sigwait() */
		w->timer = ~0u;
		return;
	}
	memset(&event, 0, sizeof(event));
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = (int)cv_causal_file->signal;
	event._sigev_un._tid = (int)cv_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
	if (cv_syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, (long)&event, (long)&timer, 0, 0, 0) < 0) {
		w->timer = ~0u; /* tried */
		return;
	}
	w->timer = 1 + (uint32_t)timer;
	every.it_interval = (struct timespec){ c->timers / 1000000000u, c->timers % 1000000000u };
	every.it_value = every.it_interval;
	cv_syscall(SYS_timer_settime, timer, 0, (long)&every, 0, 0, 0);
	if (is_given_up()) /* meanwhile */
		cv_causal_sampling_disarm(t);
}

void cv_causal_sampling_disarm(struct cv_causal_thread *t)
{
	uint32_t timer = __atomic_exchange_n(&cv_causal_work(t)->timer, 0, __ATOMIC_ACQ_REL);

	if (timer && timer != ~0u && !cv_is_quiet())
		cv_syscall(SYS_timer_delete, (long)(timer - 1), 0, 0, 0, 0, 0);
}

/* Timers belong to the process: any thread may end those of all. */
void cv_causal_sampling_disarm_all(void)
{
	struct cv_causal *f = cv_causal_file;
	struct cv_causal_thread *t = (struct cv_causal_thread *)((char *)f + CV_CAUSAL_THREADS_AT);
	uint32_t n = f ? __atomic_load_n(&f->threads, __ATOMIC_ACQUIRE) : 0;

	for (uint32_t i = 0; i < n && i < CV_CAUSAL_THREADS; i++)
		cv_causal_sampling_disarm(&t[i]);
}
