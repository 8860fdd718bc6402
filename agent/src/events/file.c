/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The event file of a process image and its pool of chunks. Agent rules: ../cv_agent.h. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../cv_sandbox.h"
#include "../cv_side_file.h"
#include "cv_event_file.h"

#include "../cv_banned.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define CHUNKS_AT (CV_EVENTS_HEADER_BYTES + CV_EVENTS_STATES_BYTES)
#define FILE_BYTES (CHUNKS_AT + (uint64_t)CV_EVENTS_CHUNKS * CV_EVENTS_CHUNK_BYTES)
_Static_assert(FILE_BYTES % CV_EVENT_PAGE == 0 || CV_EVENT_PAGE > 4096, "whole pages");

union cv_event_page cv_event_page;
struct cv_events *cv_event_file;

static struct cv_events *parents; /* in the child of a fork: what is mapped still */
static uint32_t backed[CV_EVENTS_CHUNKS / 32]; /* atomic: bit = the chunk has memory behind it */
static bool full;                              /* the file system has no more memory */

/* ---- chunks ---- */

void cv_event_drop(enum cv_events_drop reason, uint64_t events)
{
	if (cv_event_file)
		__atomic_fetch_add(&cv_event_file->drops[reason], events, __ATOMIC_RELAXED);
}

static uint32_t *state_of(uint32_t i)
{
	return (uint32_t *)((char *)cv_event_file + CV_EVENTS_HEADER_BYTES) + i;
}

static struct cv_events_chunk *chunk_at(uint32_t i)
{
	return (struct cv_events_chunk *)((char *)cv_event_file + CHUNKS_AT + (uint64_t)i * CV_EVENTS_CHUNK_BYTES);
}

static uint32_t number_of(const struct cv_events_chunk *c)
{
	return (uint32_t)(((const char *)c - ((const char *)cv_event_file + CHUNKS_AT)) / CV_EVENTS_CHUNK_BYTES);
}

/* Without memory behind it the first write would be a SIGBUS. */
static bool has_memory(uint32_t i)
{
	if (__atomic_load_n(&backed[i / 32], __ATOMIC_ACQUIRE) >> (i % 32) & 1)
		return true;
	if (__atomic_load_n(&full, __ATOMIC_RELAXED) || cv_is_quiet())
		return false;
	if (cv_syscall(SYS_madvise, (long)chunk_at(i), CV_EVENTS_CHUNK_BYTES, MADV_POPULATE_WRITE, 0, 0, 0) < 0) {
		__atomic_store_n(&full, true, __ATOMIC_RELAXED);
		return false;
	}
	__atomic_fetch_or(&backed[i / 32], 1u << (i % 32), __ATOMIC_RELEASE);
	return true;
}

static bool claim(uint32_t i)
{
	uint32_t *state = state_of(i), found = CV_EVENTS_FREE;

	if (__atomic_load_n(state, __ATOMIC_RELAXED) != CV_EVENTS_FREE || !has_memory(i))
		return false;
	return __atomic_compare_exchange_n(state, &found, CV_EVENTS_TAKEN, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* The lowest free chunk, or nearly: few chunks in turn stay in the caches. */
bool cv_event_chunk_take(struct cv_event_writer *w)
{
	struct cv_events *f = cv_event_file;
	uint32_t from = __atomic_load_n(&f->first_free, __ATOMIC_RELAXED) % CV_EVENTS_CHUNKS;

	for (uint32_t n = 0; n < CV_EVENTS_CHUNKS; n++) {
		uint32_t i = (from + n) % CV_EVENTS_CHUNKS;
		uint32_t used = __atomic_load_n(&f->chunks_used, __ATOMIC_RELAXED);

		if (!claim(i)) {
			/* Beyond these all are free, but there is no memory for them. */
			if (i >= used && __atomic_load_n(&full, __ATOMIC_RELAXED))
				n += CV_EVENTS_CHUNKS - 1 - i;
			continue;
		}
		while (i >= used && !__atomic_compare_exchange_n(&f->chunks_used, &used, i + 1, true, __ATOMIC_RELAXED,
								__ATOMIC_RELAXED))
			;
		__atomic_store_n(&f->first_free, i + 1, __ATOMIC_RELAXED);
		w->chunk = chunk_at(i);
		__atomic_store_n(&w->chunk->words, 0, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

void cv_event_chunk_own(const struct cv_event_writer *w)
{
	__atomic_store_n(state_of(number_of(w->chunk)), CV_EVENTS_OWNED, __ATOMIC_RELEASE);
}

void cv_event_chunk_hand_over(struct cv_event_writer *w)
{
	if (w->chunk)
		__atomic_store_n(state_of(number_of(w->chunk)), CV_EVENTS_READY, __ATOMIC_RELEASE);
	w->chunk = NULL;
	w->words = ~0u;
}

/* ---- opening ---- */

static void close_file(long fd)
{
	cv_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

static bool failed(long at)
{
	return at < 0 && at > -4096;
}

/* A kernel before 5.14 cannot make pages ready by themselves: there the header is all that has its memory, and no
 * chunk ever gets some. */
static bool map(long fd)
{
	long at = cv_syscall(SYS_mmap, (long)parents, (long)FILE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_NORESERVE | (parents ? MAP_FIXED : 0), fd, 0);

	if (failed(at))
		return false;
	if (cv_syscall(SYS_madvise, at, CHUNKS_AT, MADV_POPULATE_WRITE, 0, 0, 0) < 0 ||
	    failed(cv_syscall(SYS_mmap, (long)&cv_event_page, CV_EVENT_PAGE, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED, fd, 0))) {
		cv_syscall(SYS_munmap, at, (long)FILE_BYTES, 0, 0, 0, 0);
		parents = NULL;
		return false;
	}
	cv_syscall(SYS_madvise, at, (long)FILE_BYTES, MADV_DONTDUMP, 0, 0, 0);
	parents = NULL;
	cv_event_file = (struct cv_events *)at;
	return true;
}

void cv_events_begin(void)
{
	struct cv_events *f;
	long fd = cv_is_quiet() ? -EPERM : cv_side_file_create('e', cv_arena->pid, FILE_BYTES);
	bool mapped = fd >= 0 && map(fd);

	if (fd >= 0)
		close_file(fd);
	if (!mapped)
		return;
	memset(backed, 0, sizeof(backed));
	full = false;
	f = cv_event_file;
	f->version = CV_EVENTS_VERSION;
	f->pid = cv_arena->pid;
	f->bytes = FILE_BYTES;
	f->arena_start_ns = cv_arena->start_ns;
	f->flags = cv_event_rseq_works() ? CV_EVENTS_SWITCHES : 0;
	f->window = 1; /* until convoy says otherwise */
	__atomic_store_n(&f->magic, CV_EVENTS_MAGIC, __ATOMIC_RELEASE);
	if (cv_self)
		cv_event_thread_begins(cv_self);
}

void cv_events_forked(void)
{
	/* The writer, the window and the chunks are the parent's: not one store may go there. */
	cv_event_writer = NULL;
	if (!cv_event_file)
		return;
	parents = cv_event_file;
	cv_event_file = NULL;
	if (!cv_is_quiet())
		cv_syscall(SYS_mmap, (long)&cv_event_page, CV_EVENT_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}
