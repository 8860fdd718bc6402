/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stress NAME: what threads, signals and changing code do to sections. Ends with 0 if all went well. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "host.h"
#include "play.h"

#define NOINLINE __attribute__((noinline))
#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
			_exit(1); \
		} \
	} while (0)

static volatile int stop;

/* ---- work with a result that is known ---------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	return *(const int *)a < *(const int *)b ? -1 : *(const int *)a > *(const int *)b;
}

static void work(int seed)
{
	int numbers[64];
	char text[128], *copy;
	long sum = 0;

	section_begin();
	for (int i = 0; i < 64; i++)
		numbers[i] = (i * 7919 + seed) % 211;
	qsort(numbers, 64, sizeof(int), ascending);
	snprintf(text, sizeof(text), "%d %.2f %s", seed, seed / 4.0, "words");
	copy = strdup(text);
	for (int i = 1; i < 64; i++)
		sum += numbers[i - 1] > numbers[i];
	section_end();
	CHECK(sum == 0);
	CHECK(atoi(copy) == seed && strstr(copy, "words"));
	CHECK(strlen(copy) == strlen(text));
	free(copy);
}

/* ---- the record must be readable, however it ended ---------------------------------------- */

static void check_record(void)
{
	struct host_record *r = host_record();
	const char *log = host_blocks();
	uint64_t used = __atomic_load_n(&host_file()->blocks_used, __ATOMIC_ACQUIRE);
	static __thread const struct cv_trace_block **blocks;
	static __thread uint64_t count, seen;

	if (!blocks)
		blocks = calloc(1 << 20, sizeof(*blocks));
	while (seen < used) {
		const struct cv_trace_block *b = (const void *)(log + seen);

		CHECK(b->id == ++count);
		blocks[count] = b;
		seen += b->bytes;
	}
	for (uint64_t *w = r->words; w < r->at;) {
		uint64_t argument = *w & 0x00ffffffffffffffull;

		switch (*w >> 56) {
		case CV_EVENT_BLOCK:
			CHECK(argument && argument <= count);
			w += blocks[argument]->words;
			break;
		case CV_EVENT_SYSCALL:
		case CV_EVENT_PART:
			w++;
			break;
		case CV_EVENT_HOOK:
			w += 2;
			break;
		default:
			CHECK(!"an event");
		}
		CHECK(w <= r->at);
	}
}

/* ---- threads ------------------------------------------------------------------------------ */

static void *worker(void *arg)
{
	CHECK(host_thread());
	for (int i = 0; i < 300 && !stop; i++) {
		work(i * 4 + (int)(long)arg);
		check_record();
	}
	host_thread_end();
	return NULL;
}

static void run_workers(void)
{
	pthread_t t[4];

	for (long i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, worker, (void *)i));
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static void threads(void)
{
	run_workers();
	CHECK(host_file()->flushes == 0);
}

/* ---- signals ------------------------------------------------------------------------------ */

static volatile int alarms, found;

static void on_alarm(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	int before = errno;
	bool ours = cv_tr_guest_context(sig, u) == CV_TR_OURS;

	(void)info;
	found += ours;
	CHECK(!cv_tr_has((uint64_t)u->uc_mcontext.gregs[REG_RIP]));
	CHECK(host_mode() != CV_TR_INSIDE || host_is_agent((uint64_t)u->uc_mcontext.gregs[REG_RIP]));
	alarms++;
	/* Where a section has been ended the handler may have its own, and be interrupted by nobody. */
	if (!ours)
		host_way = HOST_OFF;
	work(3);
	host_way = HOST_TRANSLATE;
	errno = before;
}

static void alarm_begin(void)
{
	struct sigaction action = { .sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } };

	CHECK(!sigaction(SIGALRM, &action, NULL));
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
}

static long mix[4096];

static void alarm_storm(void)
{
	uint64_t cut;

	alarm_begin();
	for (int i = 0; i < 3000 || found < 300; i++) {
		double d = i;
		long x = 0;

		section_begin();
		for (int k = 0; k < 4000; k++) {
			mix[(k * 7) & 4095] += k ^ i;
			x += mix[k] & 1;
			d = d * 1.0000001 + 0.5;
		}
		memset(mix, 0, sizeof(mix));
		getppid();
		section_end();
		CHECK(x == x && d > 0 && mix[77] == 0);
		check_record();
	}
	cut = host_record()->ends[CV_END_SIGNAL];
	printf("%d alarms, %d in translated code, %lu cut\n", alarms, found, cut);
	CHECK(cut == (uint64_t)found);
}

/* The same computation natively and under the storm: every register and flag counts. */
static uint64_t digest(void)
{
	uint64_t h = 1;

	for (uint64_t k = 0; k < 200000; k++) {
		uint64_t carry;

		h = h * 6364136223846793005ull + k;
		carry = __builtin_add_overflow(h, k << 33, &h);
		h ^= h >> (29 + carry);
		if (h & 64)
			h = (h << 7) | (h >> 57);
	}
	return h;
}

static void alarm_digest(void)
{
	uint64_t wanted = digest();

	alarm_begin();
	for (int i = 0; i < 100 || found < 100; i++) {
		volatile uint64_t got;

		section_begin();
		got = digest();
		section_end();
		CHECK(got == wanted);
	}
	CHECK(host_record()->ends[CV_END_SIGNAL] > 0);
}

/* Two signals that come at once: what the one has interrupted is told before the other one has a section. */
static volatile int together;
static host_handler *entrance;

static void on_either(int sig, siginfo_t *info, void *context)
{
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	bool at_once = g[REG_RIP] == (greg_t)entrance;
	ucontext_t *first = at_once ? (ucontext_t *)g[REG_RDX] : context;
	bool inside = cv_tr_has((uint64_t)first->uc_mcontext.gregs[REG_RIP]);
	int before = errno, way = host_way;
	bool ours = cv_tr_guest_context(sig, context) == CV_TR_OURS;

	(void)info;
	CHECK(ours || !inside);
	found += ours;
	together += at_once && inside;
	CHECK(!cv_tr_has((uint64_t)g[REG_RIP]));
	if (!inside)
		host_way = HOST_OFF;
	work(3);
	host_way = way;
	errno = before;
}

static void *interrupt(void *target)
{
	while (!stop) {
		pthread_kill(*(pthread_t *)target, SIGUSR1);
		pthread_kill(*(pthread_t *)target, SIGUSR2);
		usleep(100);
	}
	return NULL;
}

static void signals_together(void)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_RESTART };
	pthread_t self = pthread_self(), other;

	action.sa_sigaction = entrance = host_signal(on_either);
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	CHECK(!sigaction(SIGUSR2, &action, NULL));
	CHECK(!pthread_create(&other, NULL, interrupt, &self));
	for (int i = 0; i < 3000 || together < 100; i++) {
		volatile uint64_t wanted = 0, got = 0;

		for (uint64_t k = 1; k < 2000; k++)
			wanted = wanted * 31 + k;
		section_begin();
		for (uint64_t k = 1; k < 2000; k++) {
			got = got * 31 + k;
			section_hook();
		}
		section_end();
		CHECK(got == wanted);
		check_record();
	}
	stop = 1;
	pthread_join(other, NULL);
	printf("%d in translated code, %d at once\n", found, together);
}

/* ---- faults ------------------------------------------------------------------------------- */

extern char fault_here[], fault_after[];
static volatile int faults;
static sigjmp_buf out;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	greg_t *g = u->uc_mcontext.gregs;

	(void)info;
	CHECK(cv_tr_guest_context(sig, u) == CV_TR_OURS || host_way == HOST_OFF);
	if (sig == SIGSEGV) {
		/* As a virtual machine does: it knows the instruction, and goes on elsewhere. */
		CHECK((char *)g[REG_RIP] == fault_here);
		CHECK(g[REG_R11] == 0x1111 && g[REG_R10] == 0x1010 && g[REG_R9] == 0x9999 && g[REG_RCX] == 0xcccc);
		g[REG_RIP] = (greg_t)fault_after;
	}
	if (sig == SIGFPE)
		siglongjmp(out, 1);
	faults++;
}

static NOINLINE uint64_t faulting(void)
{
	uint64_t a;

	__asm__ volatile("mov $0x1111, %%r11d\n\tmov $0x1010, %%r10d\n\tmov $0x9999, %%r9d\n\tmov $0xcccc, %%ecx\n\t"
			 "xor %%eax, %%eax\n\tpush %%rcx\n\tpop %%rdx\n"
			 ".globl fault_here\nfault_here:\tmov 16(%%rax), %%rdx\n\tmov $5, %%eax\n"
			 ".globl fault_after\nfault_after:\tlea (%%r11, %%r10), %%rax\n"
			 : "=a"(a)
			 :
			 : "rcx", "rdx", "r9", "r10", "r11", "memory", "cc");
	return a;
}

static NOINLINE int divide(int by)
{
	return 1000 / by;
}

static void fault(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	volatile int zero = 0;

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
	for (volatile int i = 0; i < 10; i++) {
		volatile uint64_t got;

		section_begin();
		got = faulting();
		section_end();
		CHECK(got == 0x1111 + 0x1010 && faults == i + 1);
		CHECK(host_record()->ends[CV_END_SIGNAL] == (uint64_t)(2 * i + 1));
		CHECK(host_record()->detail == SIGSEGV);
		check_record();
		if (!sigsetjmp(out, 1)) {
			section_begin();
			zero = divide(zero);
			CHECK(!"here");
		}
		CHECK(host_record()->detail == SIGFPE);
		check_record();
		work(i);
	}
}

/* ---- a full record ------------------------------------------------------------------------ */

static NOINLINE uint64_t deep(uint64_t n)
{
	uint64_t r = n ? deep(n - 1) : 0;

	__asm__ volatile("" : "+r"(r));
	return r + 1;
}

static NOINLINE uint64_t no_flags(void)
{
	uint64_t n;

	/* Neither loop ever writes all flags. */
	__asm__ volatile("mov $100000, %%ecx\n\txor %%eax, %%eax\n1:\tlea 1(%%rax), %%rax\n\tmov %%rax, -8(%%rsp)\n\tloop 1b\n\t"
			 "mov $100000, %%ecx\n\tstc\n2:\tlea 1(%%rax), %%rax\n\tmov -8(%%rsp), %%rdx\n\tdec %%ecx\n\tjnz 2b\n\tadc $0, %%rax"
			 : "=a"(n)
			 :
			 : "rcx", "rdx", "cc", "memory");
	return n;
}

static void limit(void)
{
	struct host_record *r = host_record();

	r->room_words = 5000;
	for (int i = 0; i < 3; i++) {
		volatile uint64_t got;

		section_begin();
		got = deep(20000);
		section_end();
		CHECK(got == 20001 && r->ends[CV_END_TOO_LONG] == (uint64_t)i * 3 + 1);
		CHECK(r->at - r->words < 5000 + CV_TR_SLACK_WORDS);
		check_record();
		section_begin();
		got = no_flags();
		section_end();
		CHECK(got == 200001 && r->ends[CV_END_TOO_LONG] == (uint64_t)i * 3 + 2);
		CHECK(r->at - r->words < 6000);
		check_record();
		section_begin();
		got = digest();
		section_end();
		CHECK(got == digest() && r->ends[CV_END_TOO_LONG] == (uint64_t)i * 3 + 3);
		CHECK(r->at - r->words < 6000);
		check_record();
	}
}

/* ---- code that changes -------------------------------------------------------------------- */

static int (*place(void *at, int value))(void)
{
	uint8_t code[] = { 0xb8, 0, 0, 0, 0, 0xc3 }; /* mov eax, value; ret */
	int fd = memfd_create("code", 0);
	void *p;

	memcpy(code + 1, &value, 4);
	CHECK(write(fd, code, sizeof(code)) == sizeof(code));
	p = mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, 0);
	close(fd);
	CHECK(p != MAP_FAILED);
	return (int (*)(void))p;
}

static void changing(void)
{
	int (*f)(void) = place(NULL, 0);

	for (int i = 0; i < 50; i++) {
		int got;

		if (i) {
			place((void *)f, i);
			cv_tr_invalidate((uint64_t)f, (uint64_t)f + 4096);
		}
		usleep(1000); /* the mappings are read again now and then only */
		section_begin();
		got = f();
		section_end();
		CHECK(got == i);
	}
	CHECK(host_record()->ends[CV_END_RELEASED] > 10);
}

static void *changes(void *arg)
{
	host_way = HOST_TRANSLATE;
	CHECK(host_thread());
	while (!stop)
		changing();
	return arg;
}

static void invalidate(void)
{
	pthread_t t;

	changing();
	CHECK(host_file()->flushes > 10);
	pthread_create(&t, NULL, changes, NULL);
	run_workers();
	stop = 1;
	pthread_join(t, NULL);
}

/* All is given up again and again: the caches are filled many times over. */
static void refill(void)
{
	for (int i = 0; i < 1500; i++) {
		work(i);
		check_record();
		cv_tr_invalidate(0, ~0ull);
		usleep(1000); /* the mappings are read for a part of the time only */
	}
	CHECK(host_record()->ends[CV_END_NO_ROOM] == 0);
	CHECK(host_record()->ends[CV_END_RELEASED] > 1000);
}

/* Its own system calls change what it runs. */
static void unmaps(void)
{
	for (int i = 0; i < 20; i++) {
		int (*f)(void) = place(NULL, i);
		volatile int got, other = 0;

		usleep(2000);
		section_begin();
		got = f();
		if (syscall(SYS_mprotect, f, 4096, PROT_READ | PROT_WRITE) == 0) {
			((uint8_t *)f)[1] = (uint8_t)(i + 100);
			syscall(SYS_mprotect, f, 4096, PROT_READ | PROT_EXEC);
			other = f();
		}
		syscall(SYS_munmap, f, 4096);
		section_end();
		CHECK(got == i && other == i + 100);
	}
}

static void writable(void)
{
	uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int got;

	memcpy(p, (uint8_t[]){ 0xb8, 9, 0, 0, 0, 0xc3 }, 6);
	section_begin();
	got = ((int (*)(void))p)();
	section_end();
	CHECK(got == 9 && host_record()->end == CV_END_CODE && host_record()->detail == (uint64_t)p);
	check_record();
}

/* ---- processes ---------------------------------------------------------------------------- */

extern char **environ;

static void processes(void)
{
	int status;
	pid_t pid;
	char *args[] = { "true", NULL };

	section_begin();
	pid = fork();
	if (!pid) {
		CHECK(host_mode() == CV_TR_OFF);
		_exit(7);
	}
	section_end();
	CHECK(host_record()->end == CV_END_PROCESS && host_record()->detail == 0);
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);

	section_begin();
	pid = (pid_t)syscall(SYS_fork);
	if (!pid)
		_exit(8);
	section_end();
	CHECK(host_record()->end == CV_END_PROCESS && host_record()->detail == SYS_fork);
	CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 8);

	section_begin();
	CHECK(!posix_spawnp(&pid, "true", NULL, NULL, args, environ));
	section_end();
	CHECK(host_record()->end == CV_END_PROCESS);
	CHECK(waitpid(pid, &status, 0) == pid && !status);

	/* A child that is traced itself. */
	pid = fork();
	if (!pid) {
		struct cv_trace *file = host_new_file();

		cv_tr_forked(file);
		for (int i = 0; i < 20; i++)
			work(i);
		CHECK(host_record()->ends[CV_END_RELEASED] >= 20);
		CHECK(file->blocks_used > 1000);
		stop = 0;
		run_workers();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	work(1);
	section_begin();
	_exit(0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} all[] = {
		{ "threads", threads },   { "alarm-storm", alarm_storm }, { "alarm-digest", alarm_digest },
		{ "signals-together", signals_together },
		{ "fault", fault },       { "limit", limit },             { "invalidate", invalidate },
		{ "refill", refill },     { "unmaps", unmaps },     { "writable", writable },       { "processes", processes },
	};
	const char *why;

	if (argc != 2)
		return 2;
	CHECK(host_start(&why));
	host_way = HOST_TRANSLATE;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (!strcmp(all[i].name, argv[1])) {
			alarm(0);
			all[i].run();
			return 0;
		}
	}
	return 2;
}
