/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the test programs share: the agent's side of cv_translate.h. */
#ifndef PLAY_H
#define PLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "cv_translate.h"

enum { HOST_OFF, HOST_STEP, HOST_TRANSLATE };
extern int host_way;
typedef void host_handler(int, siginfo_t *, void *);

/* The record of the section that runs or ran last in this thread. */
struct host_record {
	uint64_t *words, *at;
	uint64_t room_words; /* of the record; may be set before a section begins */
	uint64_t sections;   /* that began */
	uint64_t end, detail; /* of the last one */
	uint64_t ends[16];   /* how many ended so */
};
struct host_record *host_record(void);

bool host_start(const char **why);
bool host_thread(void);
void host_thread_end(void);
struct cv_trace *host_file(void);
struct cv_trace *host_new_file(void); /* in the child of a fork */
const void *host_blocks(void);
bool host_is_agent(uint64_t pc);
host_handler *host_signal(host_handler *theirs); /* what the kernel is given for it */
uint32_t host_mode(void); /* cv_tr.mode */

#endif
