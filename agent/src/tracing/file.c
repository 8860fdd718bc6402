/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The trace file of a process image, its chunks, and the life of the tracer. Agent rules: ../cv_agent.h. */
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../cv_modules.h"
#include "../cv_real.h"
#include "../cv_side_file.h"
#include "cv_tracer.h"

#include "../cv_banned.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define CHUNK_WORDS (CV_TRACE_CHUNK_BYTES / 8)
#define FILE_BYTES (CV_TRACE_HEADER_BYTES + CV_TRACE_BLOCKS_BYTES + CV_TRACE_CHUNKS * (uint64_t)CV_TRACE_CHUNK_BYTES)
/* What a section can log at most: each word of its record comes from at most 32 bytes of a block's description. */
#define BLOCKS_AHEAD (4ull << 20)
#define BLOCKS_STEP (4ull << 20)
/* With more threads than this a chunk is handed over after each section, so that there are some for all. */
#define THREADS_THAT_KEEP (CV_TRACE_CHUNKS / 2)
#define TARGETS_MAX 65536u

struct cv_trace *cv_trace_file;
const struct cv_targets *cv_trace_targets;
bool cv_trace_on;
__thread struct cv_tracer cv_tracer;
__thread struct cv_section *cv_open_section;
__thread struct cv_tr cv_tr;
__thread struct cv_trace_seen *cv_trace_seen;
__thread uint64_t cv_trace_wait_object;

static uint64_t blocks_ready;      /* atomic: bytes of the log with memory behind them */
static uint32_t chunks_ready;      /* atomic: bit = the chunk has memory behind it */
static uint64_t modules_told;      /* atomic: bytes of the log whose modules are in the arena */
static bool translator_tried, translator_ready;
_Static_assert(CV_TRACE_CHUNKS <= 32, "bits of chunks_ready");
_Static_assert(CV_TRACE_WORDS_MAX + CV_TR_SLACK_WORDS <= CHUNK_WORDS, "a section fits in a chunk");

/* ---- memory ---- */

static bool populate(void *from, uint64_t bytes)
{
	long r;

	if (cv_is_quiet())
		return false;
	r = cv_syscall(SYS_madvise, (long)from, (long)bytes, MADV_POPULATE_WRITE, 0, 0, 0);
	if (r == 0 || r == -EINVAL) /* an old kernel: the file has its memory from the start */
		return true;
	cv_trace_drop(CV_TRACE_DROP_NO_ROOM);
	return false;
}

bool cv_trace_blocks_ready(void)
{
	uint64_t used = __atomic_load_n(&cv_trace_file->blocks_used, __ATOMIC_RELAXED);
	uint64_t ready = __atomic_load_n(&blocks_ready, __ATOMIC_ACQUIRE);
	uint64_t need = used + BLOCKS_AHEAD / 2;

	if (need > CV_TRACE_BLOCKS_BYTES)
		need = CV_TRACE_BLOCKS_BYTES;
	if (ready >= need)
		return true;
	if (!populate((char *)cv_trace_file + CV_TRACE_HEADER_BYTES + ready, BLOCKS_STEP))
		return false;
	__atomic_compare_exchange_n(&blocks_ready, &ready, ready + BLOCKS_STEP, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	return true;
}

/* Convoy has to know which of the code hands out memory; a process that is over soon leaves it nothing else to see
 * that by. */
void cv_trace_tell_modules(void)
{
	uint64_t used = __atomic_load_n(&cv_trace_file->blocks_used, __ATOMIC_ACQUIRE);
	uint64_t at = __atomic_load_n(&modules_told, __ATOMIC_RELAXED);

	if (cv_likely(at >= used) || !__atomic_compare_exchange_n(&modules_told, &at, used, false, __ATOMIC_RELAXED,
								  __ATOMIC_RELAXED))
		return;
	while (at < used) {
		const struct cv_trace_block *block =
			(const struct cv_trace_block *)((char *)cv_trace_file + CV_TRACE_HEADER_BYTES + at);

		if (!block->bytes)
			return; /* the program has written over it */
		cv_module_of(block->ip);
		at += block->bytes;
	}
}

/* ---- chunks ---- */

static uint64_t *chunk_words(uint32_t i)
{
	return (uint64_t *)((char *)cv_trace_file + CV_TRACE_HEADER_BYTES + CV_TRACE_BLOCKS_BYTES +
			    (uint64_t)i * CV_TRACE_CHUNK_BYTES);
}

static bool chunk_has_memory(uint32_t i)
{
	if (__atomic_load_n(&chunks_ready, __ATOMIC_ACQUIRE) >> i & 1)
		return true;
	if (!populate(chunk_words(i), CV_TRACE_CHUNK_BYTES))
		return false;
	__atomic_fetch_or(&chunks_ready, 1u << i, __ATOMIC_RELEASE);
	return true;
}

/* False = none (counted). */
static bool chunk_take(struct cv_tracer *s)
{
	for (uint32_t i = 0; i < CV_TRACE_CHUNKS; i++) {
		struct cv_trace_chunk *c = &cv_trace_file->chunks[i];
		uint32_t state = __atomic_load_n(&c->state, __ATOMIC_RELAXED);

		if (state != CV_CHUNK_FREE || !__atomic_compare_exchange_n(&c->state, &state, CV_CHUNK_OWNED, false,
									  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		if (!chunk_has_memory(i)) {
			__atomic_store_n(&c->state, CV_CHUNK_FREE, __ATOMIC_RELEASE);
			return false;
		}
		__atomic_store_n(&c->words, 0, __ATOMIC_RELEASE);
		s->chunk = i + 1;
		return true;
	}
	cv_trace_drop(CV_TRACE_DROP_NO_CHUNK);
	return false;
}

uint64_t *cv_trace_room(struct cv_tracer *s)
{
	uint32_t words;

	if (s->chunk) {
		words = cv_trace_file->chunks[s->chunk - 1].words;
		if (words + cv_trace_targets->max_words + CV_TR_SLACK_WORDS <= CHUNK_WORDS)
			return chunk_words(s->chunk - 1) + words;
		cv_trace_hand_over(s);
	}
	if (!chunk_take(s))
		return NULL;
	return chunk_words(s->chunk - 1);
}

void cv_trace_wrote(struct cv_tracer *s, uint32_t words)
{
	struct cv_trace_chunk *c = &cv_trace_file->chunks[s->chunk - 1];

	__atomic_store_n(&c->words, c->words + words, __ATOMIC_RELEASE);
	__atomic_fetch_add(&cv_trace_file->sections, 1, __ATOMIC_RELAXED);
	if (__atomic_load_n(&cv_arena->threads_started, __ATOMIC_RELAXED) > THREADS_THAT_KEEP)
		cv_trace_hand_over(s);
}

void cv_trace_hand_over(struct cv_tracer *s)
{
	if (s->chunk)
		__atomic_store_n(&cv_trace_file->chunks[s->chunk - 1].state, CV_CHUNK_READY, __ATOMIC_RELEASE);
	s->chunk = 0;
}

/* ---- opening ---- */

/* "<dir>/<name>" */
static void path_of(char *to, const char *name)
{
	for (const char *s = cv_session_dir; *s; s++)
		*to++ = *s;
	*to++ = '/';
	while ((*to++ = *name++))
		;
}

static void close_file(long fd)
{
	cv_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

static bool targets_open(void)
{
	char path[sizeof(cv_session_dir) + 32];
	const struct cv_targets *t;
	long fd, size, at;

	if (cv_trace_targets)
		return true;
	path_of(path, "targets");
	fd = cv_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0, 0, 0);
	if (fd < 0)
		return false;
	size = cv_syscall(SYS_lseek, fd, 0, SEEK_END, 0, 0, 0);
	at = size < (long)sizeof(*t) ?
		     -EINVAL :
		     cv_syscall(SYS_mmap, 0, size, PROT_READ, MAP_PRIVATE, fd, 0);
	close_file(fd);
	if (at < 0 && at > -4096)
		return false;
	t = (const struct cv_targets *)at;
	if (t->magic != CV_TARGETS_MAGIC || t->version != CV_TRACE_VERSION || t->count > TARGETS_MAX ||
	    (uint64_t)size < sizeof(*t) + t->count * sizeof(struct cv_target) || t->max_words < 64 ||
	    t->max_words > CV_TRACE_WORDS_MAX)
		return false;
	cv_trace_targets = t;
	return true;
}

/* Without memory behind the header its first write would be a SIGBUS. An old kernel cannot make pages ready by
 * themselves: there all of the file gets its memory now. */
static bool has_memory(struct cv_trace *f, long fd)
{
	long r = cv_syscall(SYS_madvise, (long)f, CV_TRACE_HEADER_BYTES, MADV_POPULATE_WRITE, 0, 0, 0);

	if (r == -EINVAL)
		r = cv_syscall(SYS_fallocate, fd, 0, 0, (long)FILE_BYTES, 0, 0);
	return r == 0;
}

static bool file_open(void)
{
	struct cv_trace *f;
	long fd = cv_side_file_create('t', cv_arena->pid, FILE_BYTES);
	long at;

	if (fd < 0)
		return false;
	at = cv_syscall(SYS_mmap, (long)cv_trace_file, (long)FILE_BYTES, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_NORESERVE | (cv_trace_file ? MAP_FIXED : 0), fd, 0);
	f = (struct cv_trace *)at;
	if ((at < 0 && at > -4096) || !has_memory(f, fd)) {
		if (at >= 0 || at <= -4096)
			cv_syscall(SYS_munmap, at, (long)FILE_BYTES, 0, 0, 0, 0);
		cv_trace_file = NULL; /* the parent's, if this is the child of a fork */
		close_file(fd);
		return false;
	}
	close_file(fd);
	cv_syscall(SYS_madvise, at, (long)FILE_BYTES, MADV_DONTDUMP, 0, 0, 0);
	blocks_ready = 0;
	chunks_ready = 0;
	modules_told = 0;
	f->version = CV_TRACE_VERSION;
	f->pid = cv_arena->pid;
	f->bytes = FILE_BYTES;
	f->arena_start_ns = cv_arena->start_ns;
	cv_trace_file = f;
	return true;
}

static void say_why_not(const char *why)
{
	size_t n = strnlen(why, sizeof(cv_trace_file->why_not) - 1);

	memcpy(cv_trace_file->why_not, why, n);
}

static bool translator_init(void)
{
	struct cv_tr_host host = { .file = cv_trace_file };
	struct cv_mapping own;
	const char *why = "the translator does not start";

	if (!cv_mapping_find((uint64_t)(uintptr_t)&cv_trace_on, &own))
		return false;
	host.stops = cv_trace_stops(&host.stops_count);
	host.agent_lo = own.lo;
	host.agent_hi = own.hi;
	host.values = cv_trace_targets->flags & CV_TARGETS_VALUES;
	if (cv_tr_init(&host, &why))
		return true;
	say_why_not(why);
	return false;
}

void cv_trace_begin(void)
{
	if (cv_is_quiet() || !targets_open() || !file_open())
		return;
	if (!translator_tried)
		translator_ready = translator_init();
	else if (translator_ready)
		cv_tr_forked(cv_trace_file);
	translator_tried = true;
	cv_trace_sites_reset();
	__atomic_store_n(&cv_trace_file->magic, CV_TRACE_MAGIC, __ATOMIC_RELEASE);
	cv_trace_signals_begin();
	__atomic_store_n(&cv_trace_on, translator_ready, __ATOMIC_RELEASE);
}

void cv_trace_forked(void)
{
	struct cv_tracer *s = &cv_tracer;

	/* The section, if there is one, and the chunk are the parent's. */
	cv_trace_on = false;
	cv_open_section = NULL;
	cv_tr.mode = CV_TR_OFF;
	s->busy = 0;
	s->cut = 0;
	s->chunk = 0;
	cv_trace_wait_object = 0;
}

void cv_trace_thread_ended(void)
{
	struct cv_tracer *s = &cv_tracer;

	if (!cv_trace_file)
		return;
	cv_trace_cut(CV_END_THREAD, 0);
	cv_trace_hand_over(s);
	if (s->ready == 1)
		cv_tr_thread_end();
	cv_trace_seen_free();
	memset(s, 0, sizeof(*s));
}

/* ---- unloading ---- */

extern int cv_loader_walk(int (*fn)(struct dl_phdr_info *, size_t, void *), void *arg) __asm__("dl_iterate_phdr");

static int unloads(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(unsigned long long *)arg = info->dlpi_subs;
	return 1;
}

void cv_trace_unloaded(void)
{
	static unsigned long long seen;
	unsigned long long now = 0;

	if (!cv_trace_on)
		return;
	cv_loader_walk(unloads, &now);
	/* Most calls of dlclose only count down. */
	if (__atomic_exchange_n(&seen, now, __ATOMIC_RELAXED) == now)
		return;
	cv_tr_invalidate(0, ~0ull);
	cv_trace_sites_forget();
}
