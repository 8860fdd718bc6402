/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. This file's mmap and open calls run at start-up, in a fork child, and
 * (madvise, mprotect) when the arena grows; all are raw system calls. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "cv_arena.h"
#include "cv_sandbox.h"
#include "cv_watch.h"

#include "cv_banned.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE 4096ul
#define STEP (256ul << 10)     /* growth */
#define FIRST_STEP (64ul << 10) /* most processes of a tree are small */
#define SMALLEST (1ul << 20)

struct cv_arena *cv_arena;
struct cv_session cv_session;
char cv_session_dir[256];
uint32_t cv_outside_pid;
bool cv_quiet; /* cv_sandbox.h */

static uint64_t ready_bytes; /* atomic: [0, ready_bytes) is writable and backed by memory */
static bool closed;          /* no more growth */
static bool no_populate;     /* kernel before 5.14: backed by fallocate at start instead */

static long sys_open(const char *path, int flags, int mode)
{
	return cv_syscall(SYS_openat, AT_FDCWD, (long)path, flags, mode, 0, 0);
}

void cv_drop(enum cv_drop reason)
{
	if (cv_arena)
		__atomic_fetch_add(&cv_arena->drops[reason], 1, __ATOMIC_RELAXED);
}

bool cv_on_signal_stack(void)
{
	stack_t s;

	return !cv_is_quiet() && cv_syscall(SYS_sigaltstack, 0, (long)&s, 0, 0, 0, 0) == 0 && s.ss_flags & SS_ONSTACK;
}

/* Make [ready, end) usable. */
static bool arena_grow(uint64_t end)
{
	uint64_t from = __atomic_load_n(&ready_bytes, __ATOMIC_ACQUIRE);
	uint64_t to;

	if (end <= from)
		return true;
	if (__atomic_load_n(&closed, __ATOMIC_RELAXED) || cv_is_quiet())
		return false;
	to = (end + STEP - 1) & ~(STEP - 1);
	if (to > cv_arena->size_bytes)
		to = cv_arena->size_bytes;
	/* Two threads may do this at once: both calls are idempotent. */
	if (cv_syscall(SYS_mprotect, (long)((char *)cv_arena + from), (long)(to - from), PROT_READ | PROT_WRITE, 0,
		       0, 0) < 0)
		goto fail;
	if (!no_populate && cv_syscall(SYS_madvise, (long)((char *)cv_arena + from), (long)(to - from),
				       MADV_POPULATE_WRITE, 0, 0, 0) < 0)
		goto fail;
	while (from < to && !__atomic_compare_exchange_n(&ready_bytes, &from, to, false, __ATOMIC_RELEASE,
							 __ATOMIC_ACQUIRE))
		;
	return true;
fail:
	__atomic_store_n(&closed, true, __ATOMIC_RELAXED);
	cv_drop(CV_DROP_NO_MEMORY);
	return false;
}

void cv_arena_prepare(uint64_t bytes)
{
	uint64_t end = __atomic_load_n(&cv_arena->bump, __ATOMIC_RELAXED) + bytes;

	arena_grow(end < cv_arena->size_bytes ? end : cv_arena->size_bytes);
}

#define SLACK (4ul << 20) /* more than other threads can be about to make ready */

void cv_arena_shrink(uint64_t keep)
{
	uint64_t old = __atomic_load_n(&cv_arena->size_bytes, __ATOMIC_RELAXED);
	uint64_t ready = __atomic_load_n(&ready_bytes, __ATOMIC_ACQUIRE) + SLACK;
	uint64_t size = ((keep > ready ? keep : ready) + PAGE - 1) & ~(PAGE - 1);

	if (size >= old || !__atomic_compare_exchange_n(&cv_arena->size_bytes, &old, size, false, __ATOMIC_SEQ_CST,
							__ATOMIC_RELAXED))
		return;
	cv_syscall(SYS_munmap, (long)((char *)cv_arena + size), (long)(old - size), 0, 0, 0, 0);
}

static bool no_tsc; /* the C library's clock_gettime would read it as well */

void cv_clock_without_tsc(void)
{
	__atomic_store_n(&no_tsc, true, __ATOMIC_RELAXED);
	__atomic_store_n(&cv_session.clock_kind, CV_CLOCK_MONOTONIC, __ATOMIC_RELAXED);
}

uint64_t cv_now_by_kernel(void)
{
	struct timespec ts = { 0, 0 };

	if (__atomic_load_n(&no_tsc, __ATOMIC_RELAXED))
		cv_syscall(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&ts, 0, 0, 0, 0);
	else
		clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

struct cv_block *cv_block_alloc(enum cv_block_kind kind, size_t payload_bytes, uint32_t item_bytes,
				uint32_t owner)
{
	uint64_t bytes = (sizeof(struct cv_block) + payload_bytes + 63) & ~63ull;
	struct cv_block *b;
	uint64_t at;

	if (!cv_arena)
		return NULL;
	/* Grow before claiming, so that every claimed block is backed and its header can be written:
	 * the sequence of blocks must have no gap. */
	at = __atomic_load_n(&cv_arena->bump, __ATOMIC_RELAXED);
	do {
		if (at + bytes > cv_arena->size_bytes || !arena_grow(at + bytes)) {
			cv_drop(CV_DROP_ARENA_FULL);
			return NULL;
		}
	} while (!__atomic_compare_exchange_n(&cv_arena->bump, &at, at + bytes, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	b = (struct cv_block *)((char *)cv_arena + at);
	b->bytes = bytes;
	b->item_bytes = item_bytes;
	b->owner = owner;
	__atomic_store_n(&b->kind, (uint32_t)kind, __ATOMIC_RELEASE);
	return b;
}

void *cv_shared_append(struct cv_block **current, enum cv_block_kind kind, uint32_t item_bytes, uint32_t block_items)
{
	for (;;) {
		struct cv_block *b = __atomic_load_n(current, __ATOMIC_ACQUIRE);
		struct cv_block *fresh;

		if (b) {
			uint32_t i = __atomic_fetch_add(&b->used, 1, __ATOMIC_RELAXED);

			if (i < block_items)
				return (char *)cv_payload(b) + (size_t)i * item_bytes;
			__atomic_store_n(&b->used, block_items, __ATOMIC_RELAXED);
		}
		fresh = cv_block_alloc(kind, (size_t)block_items * item_bytes, item_bytes, ~0u);
		if (!fresh)
			return NULL;
		/* The loser's block stays in the arena, empty: rare, and harmless to readers. */
		__atomic_compare_exchange_n(current, &b, fresh, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	}
}

/* "<dir>/p<pid>.<n>" into buf. */
static void arena_path(char *buf, uint32_t pid, uint32_t n)
{
	char digits[12];
	char *p = buf;
	int k;

	for (const char *s = cv_session_dir; *s; s++)
		*p++ = *s;
	*p++ = '/';
	*p++ = 'p';
	for (int round = 0; round < 2; round++) {
		uint32_t v = round ? n : pid;

		k = 0;
		do
			digits[k++] = (char)('0' + v % 10);
		while (v /= 10);
		while (k)
			*p++ = digits[--k];
		*p++ = round ? '\0' : '.';
	}
}

/* Address space for an arena of at most *bytes: what the limits of this process allow. */
static long arena_map(uint64_t *bytes, int fd, void *where)
{
	long at = -ENOMEM;

	while (*bytes >= SMALLEST) {
		at = cv_syscall(SYS_mmap, (long)where, (long)*bytes, PROT_NONE,
				(fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_NORESERVE |
					(where ? MAP_FIXED : 0),
				fd, 0);
		if (at >= 0 || at < -4095)
			return at;
		*bytes /= 2;
	}
	return at;
}

static int arena_create(uint64_t *bytes, uint32_t pid)
{
	char path[sizeof(cv_session_dir) + 32];
	struct rlimit lim;
	long fd = -EEXIST;

	/* ftruncate beyond RLIMIT_FSIZE raises SIGXFSZ */
	if (cv_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&lim, 0, 0) == 0 && lim.rlim_cur < *bytes)
		*bytes = lim.rlim_cur & ~(PAGE - 1);
	if (*bytes < SMALLEST)
		return -1;
	for (uint32_t n = 0; n < 4096 && fd == -EEXIST; n++) {
		arena_path(path, pid, n);
		fd = sys_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	}
	if (fd < 0)
		return -1;
	if (cv_syscall(SYS_ftruncate, fd, (long)*bytes, 0, 0, 0, 0) < 0) {
		cv_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
		return -1;
	}
	return (int)fd;
}

bool cv_arena_open(bool again)
{
	uint32_t pid = (uint32_t)cv_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
	uint64_t bytes = again ? cv_arena->size_bytes : cv_session.arena_bytes;
	uint64_t reserved = bytes;
	int fd = arena_create(&bytes, cv_outside_pid ? cv_outside_pid : pid);
	struct cv_arena *a;
	long at;

	if (again) {
		if (fd < 0)
			cv_drop(CV_DROP_FORK_UNRECORDED); /* still the parent's header */
		if (bytes < reserved) /* unmap what the new file does not cover */
			cv_syscall(SYS_mmap, (long)cv_arena, (long)reserved, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		/* Without a file the child records into private memory that nobody reads: it must
		 * not write into its parent's arena, and its hooks need something to write to. */
	} else if (fd < 0) {
		return false;
	}
	at = arena_map(&bytes, fd, again ? cv_arena : NULL);
	if (at < 0 && at > -4096) {
		if (fd >= 0)
			cv_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
		return false;
	}
	a = (struct cv_arena *)at;
	closed = false;
	ready_bytes = 0;
	cv_syscall(SYS_madvise, at, (long)bytes, MADV_DONTDUMP, 0, 0, 0);
	if (cv_syscall(SYS_mprotect, at, FIRST_STEP, PROT_READ | PROT_WRITE, 0, 0, 0) < 0)
		goto fail;
	if (cv_syscall(SYS_madvise, at, FIRST_STEP, MADV_POPULATE_WRITE, 0, 0, 0) < 0) {
		/* Old kernel, or tmpfs already full: then only fallocate can promise memory. */
		bytes = bytes < (64ul << 20) ? bytes : 64ul << 20;
		if (fd >= 0 && cv_syscall(SYS_fallocate, fd, 0, 0, (long)bytes, 0, 0) < 0)
			goto fail;
		no_populate = true;
	}
	ready_bytes = FIRST_STEP;
	if (fd >= 0)
		cv_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	a->version = CV_ABI_VERSION;
	a->header_bytes = CV_ARENA_HEADER_BYTES;
	a->size_bytes = bytes;
	a->bump = CV_ARENA_HEADER_BYTES;
	a->pid = pid;
	a->ppid = (uint32_t)cv_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);
	a->start_ns = cv_now();
	a->state = CV_PROCESS_STARTING;
	a->holding_offset = cv_watch_offset();
	cv_arena = a;
	return true;
fail:
	if (fd >= 0)
		cv_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	cv_syscall(SYS_munmap, at, (long)bytes, 0, 0, 0, 0);
	cv_arena = NULL;
	return false;
}

void cv_arena_close(void)
{
	struct cv_arena *a = cv_arena;

	cv_arena = NULL;
	if (a)
		cv_syscall(SYS_munmap, (long)a, (long)a->size_bytes, 0, 0, 0, 0);
}
