/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host.h"
#include "play.h"

#define AGENT __attribute__((section("agent_text"), noinline))
#define RECORD_WORDS (64ull << 20)

__thread struct cv_tr cv_tr __attribute__((tls_model("initial-exec"), visibility("hidden")));
int host_way;
static struct cv_trace *file;
static __thread struct host_record record;
extern char __start_agent_text[], __stop_agent_text[];

struct host_record *host_record(void)
{
	return &record;
}

struct cv_trace *host_file(void)
{
	return file;
}

const void *host_blocks(void)
{
	return (const char *)file + CV_TRACE_HEADER_BYTES;
}

uint32_t host_mode(void)
{
	return cv_tr.mode;
}

bool host_is_agent(uint64_t pc)
{
	return pc >= (uint64_t)__start_agent_text && pc < (uint64_t)__stop_agent_text;
}

static void *memory(uint64_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

bool host_thread(void)
{
	record.words = record.at = memory(RECORD_WORDS * 8);
	record.room_words = RECORD_WORDS - CV_TR_SLACK_WORDS;
	return cv_tr_thread_begin();
}

void host_thread_end(void)
{
	cv_tr_thread_end();
	munmap(record.words, RECORD_WORDS * 8);
}

struct cv_trace *host_new_file(void)
{
	file = memory(CV_TRACE_HEADER_BYTES + CV_TRACE_BLOCKS_BYTES);
	memset(record.ends, 0, sizeof(record.ends));
	return file;
}

bool host_start(const char **why)
{
	static uint64_t stops[3];
	struct cv_tr_host host = { .agent_lo = (uint64_t)__start_agent_text,
				   .agent_hi = (uint64_t)__stop_agent_text,
				   .stops = stops,
				   .stops_count = 3,
				   .values = getenv("VALUES") };

	stops[0] = (uint64_t)fork;
	stops[1] = (uint64_t)vfork;
	stops[2] = (uint64_t)pthread_create;
	file = memory(CV_TRACE_HEADER_BYTES + CV_TRACE_BLOCKS_BYTES);
	host.file = file;
	return cv_tr_init(&host, why) && host_thread();
}

static AGENT void ended(uint64_t end, uint64_t detail)
{
	record.at = cv_tr.at;
	record.end = end;
	record.detail = detail;
	record.ends[end & 15]++;
	cv_tr.mode = CV_TR_OFF;
}

AGENT void cv_tr_left(enum cv_section_end end, uint64_t detail)
{
	ended(end, detail);
}

static host_handler *handler;

host_handler *host_signal(host_handler *theirs)
{
	handler = theirs;
	return cv_tr_signal;
}

void cv_tr_signalled(int sig, siginfo_t *info, void *context)
{
	handler(sig, info, context);
}

AGENT void section_begin(void)
{
	volatile uint64_t *slot = (volatile uint64_t *)__builtin_frame_address(0) + 1;

	if (host_way == HOST_TRANSLATE) {
		record.sections++;
		cv_tr.at = record.words;
		cv_tr.limit = record.words + record.room_words;
		cv_tr.target = *slot;
		cv_tr.mode = CV_TR_INSIDE;
		*slot = (uint64_t)&cv_tr_enter;
	} else if (host_way == HOST_STEP) {
		__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" : : : "memory", "cc");
	}
}

AGENT void section_end(void)
{
	volatile uint64_t *slot = (volatile uint64_t *)__builtin_frame_address(0) + 1;

	if (host_way == HOST_STEP)
		__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" : : : "memory", "cc");
	if (cv_tr.mode == CV_TR_HOOK && cv_tr.hook_slot == slot && *slot == cv_tr.hook_return)
		ended(CV_END_RELEASED, 0);
}

/* A hook that is called within a section and goes on. */
AGENT void section_hook(void)
{
	volatile uint64_t *slot = (volatile uint64_t *)__builtin_frame_address(0) + 1;

	if (cv_tr.mode == CV_TR_HOOK && cv_tr.hook_slot == slot && *slot == cv_tr.hook_return) {
		*cv_tr.at++ = cv_event(CV_EVENT_HOOK, 0);
		*cv_tr.at++ = 0;
		cv_tr.target = *slot;
		cv_tr.mode = CV_TR_INSIDE;
		*slot = (uint64_t)&cv_tr_enter;
	}
}
