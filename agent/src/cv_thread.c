/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. Thread creation and end are no lock hooks: system calls are allowed here. */
#include <fcntl.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "cv_attach.h"
#include "cv_frames.h"
#include "cv_real.h"
#include "cv_sandbox.h"
#include "cv_table.h"
#include "cv_thread.h"
#include "cv_trace.h"
#include "cv_wait.h"

#include "cv_banned.h"

__thread struct cv_thread *cv_self;
static __thread bool gone;        /* past its last destructor: stays unrecorded */
static __thread bool registering; /* a signal handler must not register a second time */

#define TID_SLOTS 8192u
static cv_ref by_tid[TID_SLOTS]; /* a colliding thread takes the slot: readers verify */

static pthread_key_t end_key;
static bool have_end_key;
static uint64_t default_stack_bytes;
static uint32_t ended_records; /* atomic: in state ENDED */
static cv_ref reuse_cursor; /* where the search for an ended record goes on */

extern void *__libc_stack_end __attribute__((weak));

static void thread_ended(void *round);

/* glibc keeps the values of so many keys in the thread itself. */
#define KEYS_IN_THREAD 32

bool cv_threads_init(bool late)
{
	pthread_attr_t attr;
	size_t size = 8u << 20;

	if (pthread_attr_init(&attr) == 0) {
		pthread_attr_getstacksize(&attr, &size);
		pthread_attr_destroy(&attr);
	}
	default_stack_bytes = size;
	have_end_key = pthread_key_create(&end_key, thread_ended) == 0;
	/* For a later key pthread_setspecific allocates. A running thread gets its record in a hook, which
	 * its allocator may have called: without a key only the scheduler sees its end. */
	if (late && have_end_key && end_key >= KEYS_IN_THREAD) {
		pthread_key_delete(end_key);
		have_end_key = false;
		return true;
	}
	return have_end_key;
}

/* ---- records ---- */

static struct cv_thread *record_alloc(void)
{
	struct cv_block *b = cv_block_alloc(CV_BLOCK_THREAD, sizeof(struct cv_thread), sizeof(struct cv_thread), 0);
	struct cv_thread *t;

	if (!b)
		return NULL;
	t = cv_payload(b);
	t->index = __atomic_fetch_add(&cv_arena->threads, 1, __ATOMIC_RELAXED);
	t->sites_mask = CV_SITES - 1;
	b->owner = t->index;
	b->used = 1;
	return t;
}

/* Records made for threads that came to nothing: the next ones take them, so that a program that tries again
 * and again does not fill the arena. */
#define SPARES 8
static cv_ref spares[SPARES];

static void spare_put(struct cv_thread *t)
{
	for (int i = 0; i < SPARES; i++) {
		cv_ref none = 0;

		if (__atomic_compare_exchange_n(&spares[i], &none, cv_ref_of(t), false, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED))
			return;
	}
}

static struct cv_thread *spare_take(void)
{
	for (int i = 0; i < SPARES; i++) {
		if (__atomic_load_n(&spares[i], __ATOMIC_RELAXED)) {
			cv_ref r = __atomic_exchange_n(&spares[i], 0, __ATOMIC_ACQUIRE);

			if (r)
				return cv_at(r);
		}
	}
	return NULL;
}

/* Past max_threads a new thread continues the record of an ended one, if it can be of the same kind:
 * a program that starts a thread per request must not grow without bound. */
static struct cv_thread *record_reuse(uint64_t start_routine, cv_ref create_stack)
{
	struct cv_thread *other = NULL;
	uint64_t at = CV_ARENA_HEADER_BYTES;
	uint64_t end = __atomic_load_n(&cv_arena->bump, __ATOMIC_RELAXED);
	uint32_t looked = 0;

	if (!__atomic_load_n(&ended_records, __ATOMIC_RELAXED))
		return NULL; /* all live: no need to look at thousands */
	if (reuse_cursor)
		at = (uint64_t)reuse_cursor << 6;
	for (int lap = 0; lap < 2; lap++) {
		while (at < end && looked < 4096) {
			struct cv_block *b = (struct cv_block *)((char *)cv_arena + at);
			struct cv_thread *t = cv_payload(b);
			uint32_t ended = CV_THREAD_ENDED;

			if (!b->bytes) /* another thread is just making it */
				break;
			at += b->bytes;
			if (b->kind != CV_BLOCK_THREAD)
				continue;
			looked++;
			if (t->state != CV_THREAD_ENDED)
				continue;
			if (t->start_routine != start_routine || t->create_stack != create_stack) {
				other = t;
				continue;
			}
			if (__atomic_compare_exchange_n(&t->state, &ended, CV_THREAD_CREATED, false,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
				reuse_cursor = (cv_ref)(at >> 6);
				__atomic_fetch_sub(&ended_records, 1, __ATOMIC_RELAXED);
				return t;
			}
		}
		at = CV_ARENA_HEADER_BYTES;
	}
	if (other) {
		uint32_t ended = CV_THREAD_ENDED;

		if (__atomic_compare_exchange_n(&other->state, &ended, CV_THREAD_CREATED, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED)) {
			__atomic_fetch_sub(&ended_records, 1, __ATOMIC_RELAXED);
			return other;
		}
	}
	return NULL;
}

static struct cv_thread *record_make(uint64_t start_routine, cv_ref create_stack)
{
	struct cv_thread *t = spare_take();

	if (!t && __atomic_load_n(&cv_arena->threads, __ATOMIC_RELAXED) >= cv_session.max_threads) {
		t = record_reuse(start_routine, create_stack);
		if (t) {
			struct cv_work *w = cv_work(t);

			cv_drop(CV_DROP_THREAD_REUSED);
			w->cpu_base_ns = t->cpu_ns;
			w->user_base_ns = t->user_ns;
			w->sys_base_ns = t->sys_ns;
			w->vol_base = t->voluntary_switches;
			w->invol_base = t->involuntary_switches;
		}
	}
	if (!t)
		t = record_alloc();
	if (!t)
		return NULL;
	t->start_routine = start_routine;
	t->start_frame = start_routine ? cv_frame_intern(start_routine, CV_FRAME_EXACT) : 0;
	t->create_stack = create_stack;
	t->parent_tid = cv_self ? cv_self->tid : 0;
	__atomic_store_n(&t->state, CV_THREAD_CREATED, __ATOMIC_RELEASE);
	return t;
}

static void record_ended(struct cv_thread *t)
{
	__atomic_store_n(&t->state, CV_THREAD_ENDED, __ATOMIC_RELEASE);
	__atomic_fetch_add(&ended_records, 1, __ATOMIC_RELAXED);
}

static void record_failed(struct cv_thread *t)
{
	if (t->lives) { /* record_reuse() finds it again */
		record_ended(t);
		return;
	}
	__atomic_store_n(&t->state, CV_THREAD_FAILED, __ATOMIC_RELEASE);
	spare_put(t);
}

/* ---- life ---- */

static void find_stack(struct cv_thread *t, uint64_t size)
{
	uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	uint64_t top = (uint64_t)(uintptr_t)__builtin_thread_pointer();

	if (t->tid == cv_arena->pid) {
		top = (uint64_t)(uintptr_t)(&__libc_stack_end ? __libc_stack_end : 0);
		if (top)
			top += 64; /* argc and the frame of _start */
	}
	/* glibc puts a thread's own data right above its stack */
	if (top <= here || top - here > size + (1u << 20))
		top = (here | 4095) + 1;
	t->stack_hi = top;
	t->stack_lo = top > size ? top - size : 0;
}

/* Without a system call: the C library writes it into a mutex. */
static uint32_t tid_of_owner(void)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	int tid;

	cv_real(pthread_mutex_lock)(&m);
	tid = m.__data.__owner;
	cv_real(pthread_mutex_unlock)(&m);
	return (uint32_t)tid;
}

static void thread_begin(struct cv_thread *t, uint64_t stack_bytes)
{
	struct cv_work *w = cv_work(t);
	uint64_t now = cv_now();

	t->tid = cv_is_quiet() ? tid_of_owner() : (uint32_t)cv_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
	t->handle = (uint64_t)pthread_self();
	/* a reused record keeps the length of its earlier lives */
	t->start_ns = t->lives ? now - (t->end_ns - t->start_ns) : now;
	t->end_ns = 0;
	t->lives++;
	find_stack(t, stack_bytes);
	w->rng = (uint32_t)(now ^ t->tid * 2654435761u) | 1;
	w->busy = 0;
	w->drawn = 0;
	w->weight = 1;
	cv_sampler_rearm(t);
	__atomic_store_n(&by_tid[t->tid % TID_SLOTS], cv_ref_of(t), __ATOMIC_RELEASE);
	__atomic_fetch_add(&cv_arena->threads_started, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&t->state, CV_THREAD_RUNNING, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	cv_self = t;
	CV_EVENT(cv_event_thread_begins(t));
	CV_CAUSAL(cv_causal_thread_begins(t->tid));
	if (have_end_key)
		pthread_setspecific(end_key, (void *)1);
}

/* The CPU clock of any thread of this process, as clock_gettime understands it (CPUCLOCK_SCHED of a
 * thread; see clock_getcpuclockid). */
static uint64_t read_cpu(uint32_t tid)
{
	struct timespec ts;
	long clock = (long)((~(uint32_t)tid << 3) | 6);

	if (cv_syscall(SYS_clock_gettime, (long)(int)clock, (long)&ts, 0, 0, 0, 0) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t timeval_ns(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * 1000000000u + (uint64_t)tv.tv_usec * 1000u;
}

/* What a thread has used before the agent came counts for nobody. By wrap-around: the next reading
 * is larger. */
static void begin_at_now(struct cv_thread *t)
{
	struct cv_work *w = cv_work(t);
	struct rusage ru;

	if (cv_is_quiet())
		return;
	w->cpu_base_ns -= read_cpu(t->tid);
	if (cv_syscall(SYS_getrusage, RUSAGE_THREAD, (long)&ru, 0, 0, 0, 0) == 0) {
		w->user_base_ns -= timeval_ns(ru.ru_utime);
		w->sys_base_ns -= timeval_ns(ru.ru_stime);
		w->vol_base -= (uint64_t)ru.ru_nvcsw;
		w->invol_base -= (uint64_t)ru.ru_nivcsw;
	}
}

struct cv_thread *cv_thread_register(void)
{
	int saved = errno;
	struct cv_thread *t = NULL;

	if (!cv_arena || gone || registering) {
		if (cv_arena && (gone || registering))
			cv_drop(CV_DROP_UNREGISTERED);
		return NULL;
	}
	registering = true;
	t = record_make(0, 0);
	if (t) {
		thread_begin(t, default_stack_bytes);
		if (cv_attach_is_in())
			begin_at_now(t);
	} else {
		gone = true;
	}
	registering = false;
	errno = saved;
	return t;
}

struct cv_thread *cv_thread_by_tid(uint32_t tid)
{
	struct cv_thread *t = cv_at(__atomic_load_n(&by_tid[tid % TID_SLOTS], __ATOMIC_ACQUIRE));

	return t && t->tid == tid && t->state == CV_THREAD_RUNNING ? t : NULL;
}

uint64_t cv_stack_hi(void)
{
	return cv_self ? cv_self->stack_hi : 0;
}

uint64_t cv_stack_lo(void)
{
	return cv_self ? cv_self->stack_lo : 0;
}

/* Figures that only the thread itself can read in full. Not from files: to open one takes a descriptor, and another
 * thread that opens one would get a higher number than it expects. */
static void measure_self(struct cv_thread *t)
{
	struct cv_work *w = cv_work(t);
	struct rusage ru;

	if (cv_is_quiet())
		return;
	t->cpu_ns = w->cpu_base_ns + read_cpu(t->tid);
	if (cv_syscall(SYS_getrusage, RUSAGE_THREAD, (long)&ru, 0, 0, 0, 0) == 0) {
		t->user_ns = w->user_base_ns + timeval_ns(ru.ru_utime);
		t->sys_ns = w->sys_base_ns + timeval_ns(ru.ru_stime);
		t->voluntary_switches = w->vol_base + (uint64_t)ru.ru_nvcsw;
		t->involuntary_switches = w->invol_base + (uint64_t)ru.ru_nivcsw;
	}
	cv_syscall(SYS_prctl, PR_GET_NAME, (long)t->name, 0, 0, 0, 0);
}

/* A key's destructor is called once a round while its value is set, for four rounds. The thread's own
 * destructors may still take locks in each of them, so its record ends with the last. */
static void thread_ended(void *round)
{
	struct cv_thread *t = cv_self;
	intptr_t n = (intptr_t)round;

	if (!t || cv_attach_is_out())
		return;
	if (n < PTHREAD_DESTRUCTOR_ITERATIONS && pthread_setspecific(end_key, (void *)(n + 1)) == 0)
		return;
	measure_self(t);
	cv_block_abandoned(t);
	CV_TRACE(cv_trace_thread_ended());
	CV_EVENT(cv_event_thread_ends());
	CV_CAUSAL(cv_causal_thread_ends());
	t->end_ns = cv_now();
	gone = true;
	cv_self = NULL;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	record_ended(t);
}

void cv_thread_abandon(void)
{
	CV_EVENT(cv_event_thread_ends());
	CV_CAUSAL(cv_causal_thread_ends());
	gone = true;
	cv_self = NULL;
}

void cv_threads_snapshot(void)
{
	uint64_t at = CV_ARENA_HEADER_BYTES;
	uint64_t end = __atomic_load_n(&cv_arena->bump, __ATOMIC_ACQUIRE);

	while (at < end && !cv_is_quiet()) {
		struct cv_block *b = (struct cv_block *)((char *)cv_arena + at);
		struct cv_thread *t = cv_payload(b);
		struct cv_work *w = cv_work(t);

		if (!b->bytes)
			break;
		at += b->bytes;
		if (b->kind != CV_BLOCK_THREAD || t->state != CV_THREAD_RUNNING)
			continue;
		if (t == cv_self) {
			measure_self(t);
			continue;
		}
		t->cpu_ns = w->cpu_base_ns + read_cpu(t->tid);
	}
}

void cv_threads_reset(void)
{
	memset(by_tid, 0, sizeof(by_tid));
	memset(spares, 0, sizeof(spares));
	reuse_cursor = 0;
	ended_records = 0;
	cv_self = NULL;
	gone = false;
	registering = false;
}

/* ---- hooks ---- */

/* The new thread takes up the record that its creator made. */
static void thread_take_up(struct cv_thread *t, uint64_t stack_bytes)
{
	struct cv_thread *early = cv_self;

	if (cv_likely(!early)) {
		registering = true; /* keeps signal handlers out until there is a record */
		thread_begin(t, stack_bytes);
		registering = false;
		return;
	}
	/* A signal handler has run in this thread before: it has a record, which knows its creator from now on. */
	early->start_routine = t->start_routine;
	early->start_frame = t->start_frame;
	early->create_stack = t->create_stack;
	early->parent_tid = t->parent_tid;
	early->detached = t->detached;
	find_stack(early, stack_bytes);
	record_failed(t);
}

static void *thread_main(void *record)
{
	struct cv_thread *t = record;
	struct cv_work *w = cv_work(t);
	void *(*start)(void *) = w->start;
	void *arg = w->arg;

	thread_take_up(t, t->stack_hi ? t->stack_hi : default_stack_bytes);
	return start(arg);
}

static int thread_main_c11(void *record)
{
	struct cv_thread *t = record;
	struct cv_work *w = cv_work(t);
	int (*start)(void *) = w->start_c11;
	void *arg = w->arg;

	thread_take_up(t, default_stack_bytes);
	return start(arg);
}

static struct cv_thread *record_for_child(uint64_t start, void *arg)
{
	struct cv_thread *self = cv_thread(), *t = NULL;
	cv_ref stack = 0;

	if (!cv_arena)
		return NULL;
	if (self && cv_enter(self)) {
		stack = cv_stack_capture();
		t = record_make(start, stack);
		cv_leave(self);
	}
	if (t)
		cv_work(t)->arg = arg;
	return t;
}

/* thrd_create calls pthread_create with these in glibc; one sees it where entries are patched. */
#define ATTR_C11_THREAD ((const pthread_attr_t *)-1)

CV_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	int saved = errno;
	struct cv_thread *t;
	size_t size = 0;
	int detach = PTHREAD_CREATE_JOINABLE;
	int r;

	if (attr == ATTR_C11_THREAD)
		return cv_real(pthread_create)(thread, attr, start, arg);
	t = record_for_child((uint64_t)(uintptr_t)start, arg);

	CV_LEAVES(CV_END_PROCESS);
	errno = saved;
	if (!t)
		return cv_real(pthread_create)(thread, attr, start, arg);
	cv_work(t)->start = start;
	if (attr) {
		pthread_attr_getstacksize(attr, &size);
		pthread_attr_getdetachstate(attr, &detach);
	}
	t->detached = detach == PTHREAD_CREATE_DETACHED;
	t->stack_hi = size; /* until the thread runs: its size */
	CV_EVENT(cv_event_always(CV_EV_CREATE, CV_OBJECT_THREAD, 0, CV_RA, t->index));
	r = cv_real(pthread_create)(thread, attr, thread_main, t);
	if (r)
		record_failed(t);
	return r;
}

CV_EXPORT int thrd_create(thrd_t *thread, thrd_start_t start, void *arg)
{
	int saved = errno;
	struct cv_thread *t = record_for_child((uint64_t)(uintptr_t)start, arg);
	int r;

	CV_LEAVES(CV_END_PROCESS);
	errno = saved;
	if (!t)
		return cv_real(thrd_create)(thread, start, arg);
	cv_work(t)->start_c11 = start;
	CV_EVENT(cv_event_always(CV_EV_CREATE, CV_OBJECT_THREAD, 0, CV_RA, t->index));
	r = cv_real(thrd_create)(thread, thread_main_c11, t);
	if (r != thrd_success)
		record_failed(t);
	return r;
}

static void mark_detached(uint64_t handle)
{
	struct cv_thread *t = cv_self;

	/* only the common case is worth noting: a thread that detaches itself */
	if (t && t->handle == handle)
		t->detached = 1;
}

CV_EXPORT int pthread_detach(pthread_t thread)
{
	mark_detached((uint64_t)thread);
	return cv_real(pthread_detach)(thread);
}

CV_EXPORT int thrd_detach(thrd_t thread)
{
	mark_detached((uint64_t)thread);
	return cv_real(thrd_detach)(thread);
}

CV_EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
	int r = cv_real(pthread_setname_np)(thread, name);
	struct cv_thread *t = cv_self;

	if (r == 0 && t && t->handle == (uint64_t)thread) {
		size_t n = strnlen(name, sizeof(t->name) - 1);

		memcpy(t->name, name, n);
		t->name[n] = '\0';
	}
	return r;
}
