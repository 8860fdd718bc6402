/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The agent's unwinder against libgcc's, which is slow but has been right for decades.
 *
 * Usage: unwind_test CASE [SEED]. Every case makes stacks of random functions (shapes.c) and compares at
 * the innermost one, in a signal handler, or after every single instruction. It prints what it
 * compared and ends with EXIT-SUCCESS; the first mismatch is printed in full and ends it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "../src/cv_frames.h"
#include "../src/cv_modules.h"
#include "../src/cv_walk.h"
#include "shapes.h"

#define NOINLINE __attribute__((noinline, noclone))
#define LEAFMOST 32 /* frames that must be equal */

extern shape *const shapes_o0[], *const shapes_o2[], *const shapes_fp[], *const shapes_os[], *const shapes_o3[],
	*const shapes_cpp[];

static shape *all[128];
static unsigned int shape_count;
static unsigned long stacks, frames, guessed, mismatches;
static unsigned long too_new; /* stacks that end in an object which is just being loaded */

/* ---- the thread's stack, as the agent would know it ----------------------------------------- */

static __thread uint64_t my_lo, my_hi;
static bool no_bounds; /* as for a stack that nobody told the agent of */

static void learn_bounds(void)
{
	pthread_attr_t attr;
	size_t size;
	void *lo;

	if (no_bounds)
		return;
	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &lo, &size);
	pthread_attr_destroy(&attr);
	my_lo = (uint64_t)lo;
	my_hi = my_lo + size;
}

uint64_t cv_stack_lo(void)
{
	return my_lo;
}

uint64_t cv_stack_hi(void)
{
	return my_hi;
}

/* ---- the oracle ----------------------------------------------------------------------------- */

struct oracle {
	unsigned int n;
	uint64_t pc[256];
	bool exact[256];
};

static _Unwind_Reason_Code oracle_add(struct _Unwind_Context *c, void *arg)
{
	struct oracle *o = arg;
	int exact = 0;
	uint64_t pc = _Unwind_GetIPInfo(c, &exact);

	if (!pc || o->n == 256)
		return _URC_NORMAL_STOP;
	o->pc[o->n] = pc;
	o->exact[o->n++] = exact;
	return _URC_NO_REASON;
}

static void fail(const char *what, const struct oracle *o, unsigned int n, const uint64_t *pc, const uint8_t *flags)
{
	static int once;

	__atomic_fetch_add(&mismatches, 1, __ATOMIC_RELAXED);
	if (__atomic_exchange_n(&once, 1, __ATOMIC_RELAXED))
		return;
	fprintf(stderr, "mismatch: %s\n", what);
	for (unsigned int i = 0; (i < n || i + 1 < o->n) && i < 40; i++) {
		uint64_t want = i + 1 < o->n ? o->pc[i + 1] : 0, have = i < n ? pc[i] : 0;
		Dl_info a = {0}, b = {0};

		dladdr((void *)want, &a);
		dladdr((void *)have, &b);
		fprintf(stderr, "%3u %c libgcc %12lx%s %s+%lx (%s) | agent %12lx f%x %s (%s)\n", i,
			want == have ? ' ' : '!', want, i + 1 < o->n && o->exact[i + 1] ? "*" : "",
			a.dli_fname ? strrchr(a.dli_fname, '/') : "?", want - (uint64_t)a.dli_fbase,
			a.dli_sname ? a.dli_sname : "?", have, i < n ? flags[i] : 0u,
			b.dli_fname ? strrchr(b.dli_fname, '/') : "?", b.dli_sname ? b.dli_sname : "?");
	}
}

/* o->pc[0] is the checking function itself. */
static void compare(const char *what, const struct oracle *o, unsigned int n, const uint64_t *pc,
		    const uint8_t *flags, bool complete)
{
	for (unsigned int i = 0; i < n && i < LEAFMOST; i++) {
		if (i + 1 >= o->n) {
			/* Beyond libgcc's end: only as a declared guess. */
			if (i && flags[i - 1] & CV_FRAME_NO_RULE) {
				__atomic_fetch_add(&guessed, 1, __ATOMIC_RELAXED);
				return;
			}
			fail(what, o, n, pc, flags);
			return;
		}
		if (pc[i] != o->pc[i + 1] || !(flags[i] & CV_FRAME_EXACT) != !o->exact[i + 1]) {
			fail(what, o, n, pc, flags);
			return;
		}
	}
	if (complete && n + 1 < o->n && n < LEAFMOST)
		fail(what, o, n, pc, flags);
	__atomic_fetch_add(&frames, n < LEAFMOST ? n : LEAFMOST, __ATOMIC_RELAXED);
}

static struct cv_frame *frame_by_id(uint32_t id)
{
	for (uint64_t at = cv_arena->header_bytes; at < cv_arena->bump;) {
		struct cv_block *b = (struct cv_block *)((char *)cv_arena + at);

		if (b->kind == CV_BLOCK_FRAMES && id >= b->first_id && id < b->first_id + b->used)
			return (struct cv_frame *)cv_payload(b) + (id - b->first_id);
		at += b->bytes;
	}
	return NULL;
}

static struct cv_module *module_by_id(uint32_t id)
{
	for (uint64_t at = cv_arena->header_bytes; at < cv_arena->bump;) {
		struct cv_block *b = (struct cv_block *)((char *)cv_arena + at);

		if (b->kind == CV_BLOCK_MODULES)
			for (uint32_t i = 0; i < b->used; i++) {
				struct cv_module *m = (struct cv_module *)cv_payload(b) + i;

				if (m->hi && m->id == id)
					return m;
			}
		at += b->bytes;
	}
	return NULL;
}

/* What a reader would make of the stack that was recorded. */
static void compare_recorded(const struct oracle *o, cv_ref ref)
{
	const uint32_t *s = cv_at(ref);
	uint64_t pc[CV_STACK_MAX];
	uint8_t flags[CV_STACK_MAX];

	if (!ref) {
		fail("not recorded", o, 0, NULL, NULL);
		return;
	}
	for (uint32_t i = 0; i < s[0]; i++) {
		const struct cv_frame *f = frame_by_id(s[i + 1]);
		const struct cv_module *m = f ? module_by_id(f->module) : NULL;
		struct dl_find_object info; /* dladdr() is not for signal handlers */

		pc[i] = f ? f->pc : 0;
		flags[i] = f ? (uint8_t)f->flags : 0;
		if (!f || !m || f->offset != f->pc - m->bias || m->unloaded_ns) {
			fail("frame without a module", o, i + 1, pc, flags);
			return;
		}
		/* The executable has no name there, and the kernel's own object another. */
		if (_dl_find_object((void *)f->pc, &info) == 0 && info.dlfo_link_map->l_name[0] == '/' &&
		    strcmp(info.dlfo_link_map->l_name, m->path) != 0) {
			fprintf(stderr, "frame in %s recorded as of %s\n", info.dlfo_link_map->l_name, m->path);
			fail("wrong module", o, i + 1, pc, flags);
			return;
		}
	}
	compare("recorded", o, s[0], pc, flags, true);
}

static bool record = true; /* compare what is in the arena as well: slow */
static uint64_t skip_lo, skip_hi; /* code to be left out of stacks, as the agent's own is */

/* Leave out what the unwinder is told to leave out. */
static void oracle_skip(struct oracle *o)
{
	unsigned int n = 1;

	for (unsigned int i = 1; i < o->n; i++)
		if (o->pc[i] < skip_lo || o->pc[i] >= skip_hi) {
			o->pc[n] = o->pc[i];
			o->exact[n++] = o->exact[i];
		}
	o->n = n;
}

/* Compare the stack of the caller of this. */
NOINLINE static void check(void)
{
	const void *frame = __builtin_frame_address(0);
	int saved = errno;
	struct cv_trace t;
	struct oracle o;
	cv_ref ref, again;

	o.n = 0;
	_Unwind_Backtrace(oracle_add, &o);
	oracle_skip(&o);
	__atomic_fetch_add(&stacks, 1, __ATOMIC_RELAXED);
	t.max = CV_STACK_MAX;
	t.skip_lo = cv_arena->agent_base = skip_lo;
	t.skip_hi = cv_arena->agent_end = skip_hi;
	errno = 4711;
	cv_unwind(frame, &t);
#ifdef CV_TEST_SNAPSHOT
	/* An object's constructors run before anybody can have told the agent of it. */
	struct cv_mapping m;

	if (t.end == CV_END_NO_RULE && t.n && !cv_mapping_find(t.pc[t.n - 1], &m)) {
		__atomic_fetch_add(&too_new, 1, __ATOMIC_RELAXED);
		errno = saved;
		return;
	}
#endif
	compare("quick", &o, t.n, t.pc, t.flags, true);
	cv_unwind_full(frame, &t);
	compare("full", &o, t.n, t.pc, t.flags, true);
	if (record) {
		ref = cv_stack_capture_from(frame);
		compare_recorded(&o, ref);
		again = cv_stack_capture_from(frame); /* from the memo, if it was fit for it */
		if (ref != again)
			fail("captured again, another stack", &o, t.n, t.pc, t.flags);
	}
	if (errno != 4711)
		fail("errno changed", &o, 0, NULL, NULL);
	errno = saved;
}

/* ---- random stacks -------------------------------------------------------------------------- */

static __thread uint32_t rng = 1;
static __thread bool in_shapes;

int rand_next(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 17;
	rng ^= rng << 5;
	return (int)(rng >> 1);
}

static void (*at_leaf)(void) = check;

int go(int depth)
{
	int r;

	if (!my_hi)
		learn_bounds(); /* a thread that a shape has made */
	if (depth <= 0) {
		at_leaf();
		r = 1;
	} else {
		r = all[(unsigned)rand_next() % shape_count](depth - 1);
	}
	__asm__ volatile("" : "+r"(r)); /* no tail call */
	return r;
}

static void random_stacks(int n)
{
	in_shapes = true;
	for (int i = 0; i < n; i++)
		go(rand_next() % 14);
	in_shapes = false;
}

/* ---- cases ---------------------------------------------------------------------------------- */

NOINLINE static int deep(int n)
{
	int r = n ? deep(n - 1) : go(3);

	__asm__ volatile("" : "+r"(r));
	return r;
}

static void case_plain(void)
{
	random_stacks(4000);
	for (int i = 0; i < 300; i += 7)
		deep(i);
}

static void case_unknown_stack(void)
{
	no_bounds = true;
	my_lo = my_hi = 0;
	random_stacks(1500);
}

static void case_skip(void)
{
	skip_lo = skip_hi = (uint64_t)shapes_fp[0];
	for (int i = 0; shapes_fp[i]; i++) {
		skip_lo = (uint64_t)shapes_fp[i] < skip_lo ? (uint64_t)shapes_fp[i] : skip_lo;
		skip_hi = (uint64_t)shapes_fp[i] > skip_hi ? (uint64_t)shapes_fp[i] : skip_hi;
	}
	random_stacks(1500);
}

/* ---- code without unwind information ---- */

/* void call(void (*fn)(void)), with and without a frame pointer. */
static const uint8_t code_fp[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
static const uint8_t code_nofp[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3};

static struct cv_trace bare;

NOINLINE static void keep_trace(void)
{
	bare.max = CV_STACK_MAX;
	bare.skip_lo = bare.skip_hi = 0;
	cv_unwind(__builtin_frame_address(0), &bare);
	__asm__ volatile("");
}

NOINLINE static void call_generated(void (*call)(void (*)(void)))
{
	call(keep_trace);
	__asm__ volatile("");
}

static bool is_in(uint64_t pc, const void *fn, size_t size)
{
	return pc > (uint64_t)fn && pc <= (uint64_t)fn + size;
}

static void expect(bool ok, const char *what)
{
	if (ok)
		return;
	mismatches++;
	fprintf(stderr, "%s: %u frames, end %d\n", what, bare.n, bare.end);
	for (unsigned int i = 0; i < bare.n; i++)
		fprintf(stderr, "  %lx flags %x\n", bare.pc[i], bare.flags[i]);
}

static void case_generated(void)
{
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cv_ref ref;

	memcpy(page, code_fp, sizeof(code_fp));
	memcpy(page + 64, code_nofp, sizeof(code_nofp));
	/* A frame pointer leads to a call in known code: a guess, and marked as one. */
	call_generated((void (*)(void (*)(void)))(uintptr_t)page);
	expect(bare.n >= 4 && is_in(bare.pc[0], page, sizeof(code_fp)) && bare.flags[0] == CV_FRAME_NO_RULE &&
		       is_in(bare.pc[1], call_generated, 64) && bare.flags[1] == 0 && bare.end == CV_END_LAST,
	       "generated code with frame pointer");
	/* No frame pointer of its own, and the caller has none: the stack ends, and nothing is made up. */
	__asm__ volatile("push %%rbp; mov $0x1234, %%ebp; sub $136, %%rsp; call *%0; add $136, %%rsp; pop %%rbp"
			 : : "r"(page + 64), "D"(keep_trace)
			 : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	expect(bare.n == 1 && bare.end == CV_END_NO_RULE, "generated code without frame pointer");
	/* Nothing on the stack is a call: rbp points at plain data. */
	uint64_t data[8] = {(uint64_t)data, (uint64_t)&data[2], (uint64_t)&bare, (uint64_t)shapes_o0[0]};
	for (int i = 0; i < 3; i++) {
		__asm__ volatile("push %%rbp; mov %2, %%rbp; sub $136, %%rsp; call *%0; add $136, %%rsp; pop %%rbp"
				 : : "r"(page + 64), "D"(keep_trace), "r"(&data[i])
				 : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
		expect(bare.n == 1 && bare.end == CV_END_NO_RULE, "rbp points at data");
	}
	/* Recorded as code of no module. */
	ref = cv_frame_intern((uint64_t)page + 6, 0);
	expect(ref && frame_by_id(ref)->module == CV_MODULE_NONE && frame_by_id(ref)->offset == (uint64_t)page + 6,
	       "frame of generated code");
	frames += bare.n;
}

static void *thread_main(void *arg)
{
	rng = (uint32_t)(uintptr_t)arg;
	learn_bounds();
	random_stacks(400);
	return NULL;
}

static void threads(unsigned int n)
{
	pthread_t t[16];

	for (unsigned int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, thread_main, (void *)(uintptr_t)(rng + i * 7919));
	for (unsigned int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

static void case_threads(void)
{
	threads(8);
}

static void on_signal(int sig)
{
	(void)sig;
	check();
}

static void on_signal_info(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	(void)context;
	go(2); /* some frames on the handler's stack as well */
}

static void install(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa = {.sa_handler = fn, .sa_flags = flags};

	sigemptyset(&sa.sa_mask);
	sigaction(sig, &sa, NULL);
}

static void install_info(int sig, void (*fn)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa = {.sa_sigaction = fn, .sa_flags = flags | SA_SIGINFO};

	sigemptyset(&sa.sa_mask);
	sigaction(sig, &sa, NULL);
}

static void raise_one(void)
{
	raise(SIGUSR1);
}

static void case_signal(void)
{
	at_leaf = raise_one;
	install(SIGUSR1, on_signal, 0);
	random_stacks(1000);
}

static bool raising;

/* On a stack of its own, and with a second signal inside of the handler. */
static void raise_nested(void)
{
	if (!__atomic_test_and_set(&raising, __ATOMIC_RELAXED)) {
		raise(SIGUSR1);
		raising = false;
	} else {
		raise(SIGUSR2);
	}
}

static void case_signal_stack(void)
{
	stack_t ss = {.ss_size = 256 << 10};

	ss.ss_sp = mmap(NULL, ss.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&ss, NULL);
	shape_count -= 2; /* no threads: they have no signal stack */
	at_leaf = raise_nested;
	install_info(SIGUSR1, on_signal_info, SA_ONSTACK);
	install(SIGUSR2, on_signal, SA_ONSTACK);
	random_stacks(500);
}

/* After every instruction: prologues, epilogues, PLT stubs, and libc's own code. */
static void on_trap(int sig)
{
	(void)sig;
	check();
}

/* Set and clear the trap flag. In assembly, because libgcc needs to unwind from inside of it. */
void trap_on(void);
void trap_off(void);
__asm__(".text\n"
	"trap_on:\n\t.cfi_startproc\n\t"
	"pushfq\n\t.cfi_adjust_cfa_offset 8\n\t"
	"orq $0x100, (%rsp)\n\tpopfq\n\t.cfi_adjust_cfa_offset -8\n\t"
	"ret\n\t.cfi_endproc\n"
	"trap_off:\n\t.cfi_startproc\n\t"
	"pushfq\n\t.cfi_adjust_cfa_offset 8\n\t"
	"andq $~0x100, (%rsp)\n\tpopfq\n\t.cfi_adjust_cfa_offset -8\n\t"
	"ret\n\t.cfi_endproc\n");

static void nothing(void)
{
	__asm__ volatile("");
}

static void case_single_step(void)
{
	at_leaf = nothing;
	install(SIGTRAP, on_trap, 0);
	shape_count -= 2; /* no threads */
	record = false;
	for (unsigned int i = 0; i < shape_count && !mismatches; i++) {
		trap_on();
		all[i](1);
		trap_off();
	}
	record = true;
	trap_on();
	all[1](0);
	trap_off();
}

/* A stack of the program's own making, with nothing readable above or below it. */
static ucontext_t here, there;

static void coroutine(void)
{
	random_stacks(300);
}

static void case_coroutine(void)
{
	const size_t size = 1 << 20;
	char *stack = mmap(NULL, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(stack + 4096, size, PROT_READ | PROT_WRITE);
	getcontext(&there);
	there.uc_stack.ss_sp = stack + 4096;
	there.uc_stack.ss_size = size;
	there.uc_link = &here;
	makecontext(&there, coroutine, 0);
	swapcontext(&here, &there);
}

static void case_fork(void)
{
	unsigned long before;
	int status = 1;
	pid_t pid;

	random_stacks(200);
	pid = fork();
	if (pid == 0) {
		if (!cv_arena_open(true))
			_exit(3);
		cv_frames_reset();
		before = frames;
		random_stacks(200);
		_exit(mismatches || frames == before ? 2 : 0);
	}
	waitpid(pid, &status, 0);
	if (status)
		mismatches++;
	random_stacks(200);
}

/* ---- stress --------------------------------------------------------------------------------- */

static bool done;
static unsigned long reloads;

static void *reload_main(void *arg)
{
	const char *dir = arg;

	learn_bounds();
	while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
		char path[512];
		shape *const *table;
		void *h;

		/* Two objects of the same size take turns at the same address. */
		snprintf(path, sizeof(path), "%s/plugin%lu.so", dir, reloads % 2);
		h = dlopen(path, RTLD_NOW);
		if (!h) {
			fprintf(stderr, "%s\n", dlerror());
			mismatches++;
			return NULL;
		}
		cv_modules_rescan();
		table = dlsym(h, "shapes_plugin");
		for (int i = 0; table[i] && i < 7; i++)
			table[i](0);
		dlclose(h);
		cv_modules_unloaded();
		reloads++;
	}
	return NULL;
}

static void case_stress(const char *dir)
{
	struct itimerval every = {{0, 1000}, {0, 1000}}, never = {0};
	pthread_t t;

	install(SIGALRM, on_signal, SA_RESTART);
	setitimer(ITIMER_REAL, &every, NULL);
	pthread_create(&t, NULL, reload_main, (void *)dir);
	threads(8);
	done = true;
	pthread_join(t, NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	printf("%lu reloads\n", reloads);
	if (reloads < 4)
		mismatches++;
}

/* ---- main ----------------------------------------------------------------------------------- */

static void add(shape *const *table)
{
	for (; *table; table++)
		all[shape_count++] = *table;
}

static void arena_make(void)
{
	ssize_t n = readlink("/proc/self/exe", cv_session_dir, sizeof(cv_session_dir) - 1);
	char dir[] = "/dev/shm/convoy-test-XXXXXX", path[64];
	char exe[sizeof(cv_session_dir)];

	cv_session_dir[n] = '\0';
	strcpy(exe, cv_session_dir);
	cv_session.arena_bytes = 256ull << 20;
	cv_session.stack_depth = CV_STACK_MAX;
	strcpy(cv_session_dir, mkdtemp(dir));
	if (!cv_arena_open(false)) {
		fprintf(stderr, "no arena\n");
		exit(1);
	}
	strcpy(cv_arena->exe, exe);
	snprintf(path, sizeof(path), "%s/p%d.0", dir, getpid());
	unlink(path);
	if (rmdir(dir) != 0)
		perror(dir);
	strcpy(cv_session_dir, "/dev/shm"); /* for the fork child */
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"plain", case_plain},	     {"unknown-stack", case_unknown_stack}, {"threads", case_threads},
	{"signal", case_signal},     {"signal-stack", case_signal_stack},   {"single-step", case_single_step},
	{"coroutine", case_coroutine}, {"fork", case_fork},		    {"skip", case_skip},
	{"generated", case_generated},
};

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "plain";
	bool known = false;

	if (argc > 2)
		rng = (uint32_t)atoi(argv[2]) * 2654435761u | 1;
	add(shapes_o0);
	add(shapes_o2);
	add(shapes_fp);
	add(shapes_os);
	add(shapes_o3);
	add(shapes_cpp); /* the last two make threads */
	arena_make();
	cv_modules_rescan();
	learn_bounds();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (strcmp(name, cases[i].name) == 0) {
			known = true;
			cases[i].run();
		}
	if (strcmp(name, "stress") == 0 && argc > 3) {
		known = true;
		case_stress(argv[3]);
	}
	printf("%s: %lu stacks, %lu frames equal, %lu guesses beyond libgcc's end, %lu mismatches", name, stacks, frames,
	       guessed, mismatches);
	printf("; truncated %lu, without rule %lu, full %lu\n", cv_arena->drops[CV_DROP_STACK_TRUNCATED],
	       cv_arena->drops[CV_DROP_STACK_NO_RULE], cv_arena->drops[CV_DROP_ARENA_FULL]);
	if (too_new > stacks / 100) {
		fprintf(stderr, "%lu stacks in objects not yet known\n", too_new);
		return 1;
	}
	if (!known || mismatches || !frames || cv_arena->drops[CV_DROP_ARENA_FULL])
		return 1;
	puts("EXIT-SUCCESS");
	return 0;
}
