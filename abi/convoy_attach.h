/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The journal of an attachment: what convoy and an agent that it has put into a running process
 * know of each other. It is the agent's exported variable `convoy_attachment`.
 *
 * The agent fills in the functions that it can serve. convoy, from outside and while all threads
 * are stopped, patches their entries and notes here what it has replaced: so any later convoy can
 * take the hooks out again, and a fork child can do it by itself.
 *
 * Units: addresses are those of the process.
 */
#ifndef CONVOY_ATTACH_H
#define CONVOY_ATTACH_H

#include <stdint.h>

#define CV_ATTACHMENT_MAGIC 0x31545441594f5643ull /* "CVOYATT1" */
#define CV_ATTACHMENT_VERSION 2u
#define CV_ATTACH_ENTRIES 96
/* Bytes of the jump that replaces the beginning of a function. */
#define CV_PATCH_BYTES 5

enum cv_attachment_state {
	CV_ATTACHMENT_IDLE = 0, /* no function is patched */
	CV_ATTACHMENT_ACTIVE,   /* functions may be patched */
	CV_ATTACHMENT_CLAIMED,  /* its owner is about to patch */
};

/* A function of the C library that the agent has a hook for. */
struct cv_attach_entry {
	uint64_t name;       /* address of its name, which is also that of the agent's hook */
	uint64_t entry;      /* address of the function */
	uint64_t slot;       /* where the agent keeps the address of the real function, 0 = nowhere */
	uint64_t trampoline; /* relocated beginning, goes on behind the patch; 0 = not made yet */
	uint8_t original[8]; /* the first CV_PATCH_BYTES of the function; the others are 0 */
	uint8_t patched[8];  /* what replaces them; all 0 = the function is left alone */
};
_Static_assert(sizeof(struct cv_attach_entry) == 48, "attachment v2");

struct cv_attachment {
	uint64_t magic;
	uint32_t version;
	uint32_t state;       /* enum cv_attachment_state; written by convoy, and by a fork child */
	uint32_t owner_pid;   /* the process of convoy that patches */
	uint32_t entries;     /* used */
	uint64_t owner_start; /* its start, clock ticks since boot */
	int64_t self_offset;  /* from a thread's pointer to its `cv_self` */
	uint64_t trampolines; /* where they are mapped, 0 = nowhere yet; written by convoy */
	uint32_t is_ready;    /* 1: the latest convoy_attach() made its tables */
	uint32_t reserved0;
	uint64_t gate;        /* a word that hooks are entered by while it is not 0; 0 = nowhere yet.
			       * Its page is empty in children that have a copy of the memory
			       * (MADV_WIPEONFORK), so that their calls pass the agent by. */
	struct cv_attach_entry entry[CV_ATTACH_ENTRIES];
};
_Static_assert(sizeof(struct cv_attachment) == 64 + 48 * CV_ATTACH_ENTRIES, "attachment v2");

#endif
