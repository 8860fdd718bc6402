/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "cv_frames.h"
#include "cv_modules.h"

#include "cv_banned.h"

/*
 * The index: buckets of one cache line. An entry is one word that holds the whole key, so that a hit
 * needs no look at the record: the address and the flags (50 bits) go through a permutation; the
 * bucket's number is 15 bits of the result and the tag the other 35. An entry that found its
 * bucket full is a few buckets further on, and says how many.
 *
 *	tag 35 | doubt 1 | moved 4 | id 24
 */
#define BUCKET_BITS 15
#define BUCKET_ENTRIES 8
#define ADDRESS_BITS 47
#define FLAG_BITS 3
#define KEY_BITS (ADDRESS_BITS + FLAG_BITS)
#define TAG_BITS (KEY_BITS - BUCKET_BITS)
#define ID_BITS 24
#define MOVED_BITS 4
#define MOVED_SHIFT ID_BITS
#define DOUBT (1ull << (ID_BITS + MOVED_BITS))
#define TAG_SHIFT (ID_BITS + MOVED_BITS + 1)
_Static_assert(TAG_BITS + 1 + MOVED_BITS + ID_BITS == 64, "an index entry is one word");
_Static_assert((CV_FRAME_EXACT | CV_FRAME_LAST | CV_FRAME_NO_RULE) < 1 << FLAG_BITS, "flags are in the key");

static uint64_t frame_index[1u << BUCKET_BITS][BUCKET_ENTRIES] __attribute__((aligned(4096)));

#define BLOCK_ITEMS 510 /* with the block header: just under 16 KiB */
#define BLOCKS 512      /* about as many frames as the index holds */

static struct cv_block *blocks[BLOCKS]; /* by (id - 1) / BLOCK_ITEMS */
static uint32_t filling;                /* the block that new frames go to */
static struct cv_block *spare;          /* a block that lost the race to be published */

struct key {
	uint32_t bucket;
	uint64_t tag;
};

static struct key key_of(uint64_t pc, uint32_t flags)
{
	uint64_t k = (pc << FLAG_BITS | flags) & ((1ull << KEY_BITS) - 1);

	/* Each step can be undone: nothing of the key is lost. */
	k ^= k >> 23;
	k = (k * 0x9E3779B97F4A7C15ull) & ((1ull << KEY_BITS) - 1);
	return (struct key){(uint32_t)(k >> TAG_BITS), k & ((1ull << TAG_BITS) - 1)};
}

static struct cv_frame *frame_at(uint32_t id)
{
	struct cv_block *b = __atomic_load_n(&blocks[(id - 1) / BLOCK_ITEMS], __ATOMIC_ACQUIRE);

	return (struct cv_frame *)cv_payload(b) + (id - 1) % BLOCK_ITEMS;
}

/* Block number k, made if it is not there yet. */
static struct cv_block *block_get(uint32_t k)
{
	struct cv_block *b = __atomic_load_n(&blocks[k], __ATOMIC_ACQUIRE), *fresh;

	if (cv_likely(b != NULL))
		return b;
	fresh = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQUIRE);
	if (!fresh)
		fresh = cv_block_alloc(CV_BLOCK_FRAMES, BLOCK_ITEMS * sizeof(struct cv_frame),
				       sizeof(struct cv_frame), ~0u);
	if (!fresh)
		return NULL;
	fresh->first_id = 1 + k * BLOCK_ITEMS;
	if (__atomic_compare_exchange_n(&blocks[k], &b, fresh, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
		return fresh;
	__atomic_store_n(&spare, fresh, __ATOMIC_RELEASE);
	return b;
}

/* A new record and its id; 0 = no room. */
static uint32_t frame_make(uint64_t pc, uint32_t flags)
{
	uint32_t module = cv_module_of(flags & CV_FRAME_EXACT ? pc : pc - 1);
	const struct cv_module *mod = module ? cv_module_at(module - 1) : NULL;
	uint32_t k = __atomic_load_n(&filling, __ATOMIC_ACQUIRE);
	struct cv_block *b;
	struct cv_frame *f;
	uint32_t i;

	for (; k < BLOCKS; k++) {
		b = block_get(k);
		if (!b)
			return 0;
		i = __atomic_load_n(&b->used, __ATOMIC_RELAXED);
		while (i < BLOCK_ITEMS && !__atomic_compare_exchange_n(&b->used, &i, i + 1, true,
								       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			;
		if (i < BLOCK_ITEMS) {
			f = (struct cv_frame *)cv_payload(b) + i;
			f->offset = mod ? pc - mod->bias : pc;
			f->module = mod ? module - 1 : CV_MODULE_NONE;
			f->flags = flags;
			__atomic_store_n(&f->pc, pc, __ATOMIC_RELEASE);
			return b->first_id + i;
		}
		__atomic_store_n(&filling, k + 1, __ATOMIC_RELEASE);
	}
	cv_drop(CV_DROP_ARENA_FULL);
	return 0;
}

/* The module of a known frame had been unloaded. The frame still holds if its module is back. */
static bool frame_holds(uint32_t id)
{
	const struct cv_frame *f = frame_at(id);

	return cv_module_of(f->flags & CV_FRAME_EXACT ? f->pc : f->pc - 1) == f->module + 1;
}

uint32_t cv_frame_intern(uint64_t pc, uint32_t flags)
{
	struct key key = key_of(pc, flags);
	uint32_t id = 0;

	if (cv_unlikely(!cv_arena || pc >> ADDRESS_BITS || flags >> FLAG_BITS))
		return 0;
	for (uint64_t moved = 0; moved < 1u << MOVED_BITS; moved++) {
		uint64_t *bucket = frame_index[(key.bucket + moved) & ((1u << BUCKET_BITS) - 1)];
		uint64_t want = key.tag << TAG_SHIFT | moved << MOVED_SHIFT;

		for (uint32_t i = 0; i < BUCKET_ENTRIES; i++) {
			uint64_t have = __atomic_load_n(&bucket[i], __ATOMIC_ACQUIRE);
			uint64_t mask = ~(DOUBT | ((1ull << ID_BITS) - 1));

			if (cv_likely(have && (have & mask) == want)) {
				uint32_t known = have & ((1u << ID_BITS) - 1);

				if (cv_likely(!(have & DOUBT)))
					return known;
				if (!frame_holds(known) && !(known = frame_make(pc, flags)))
					return 0;
				__atomic_compare_exchange_n(&bucket[i], &have, want | known, false,
							    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
				return known;
			}
			if (have)
				continue;
			if (!id && !(id = frame_make(pc, flags)))
				return 0;
			if (__atomic_compare_exchange_n(&bucket[i], &have, want | id, false, __ATOMIC_RELEASE,
							__ATOMIC_ACQUIRE))
				return id;
			i--; /* taken meanwhile, maybe for the same frame: our record stays unused */
		}
	}
	cv_drop(CV_DROP_ARENA_FULL);
	return 0;
}

void cv_frames_doubt(void)
{
	for (uint32_t b = 0; b < 1u << BUCKET_BITS; b++) {
		for (uint32_t i = 0; i < BUCKET_ENTRIES; i++) {
			uint64_t have = __atomic_load_n(&frame_index[b][i], __ATOMIC_ACQUIRE);
			const struct cv_frame *f;
			const struct cv_module *mod;

			if (!have)
				break;
			f = frame_at(have & ((1u << ID_BITS) - 1));
			mod = f->module == CV_MODULE_NONE ? NULL : cv_module_at(f->module);
			if (mod && __atomic_load_n(&mod->unloaded_ns, __ATOMIC_RELAXED))
				__atomic_fetch_or(&frame_index[b][i], DOUBT, __ATOMIC_RELEASE);
		}
	}
}

void cv_forget_pages(void *table, size_t bytes)
{
	if (cv_syscall(SYS_madvise, (long)table, (long)bytes, MADV_DONTNEED, 0, 0, 0) < 0)
		memset(table, 0, bytes);
}

void cv_frames_reset(void)
{
	cv_forget_pages(frame_index, sizeof(frame_index));
	memset(blocks, 0, sizeof(blocks));
	spare = NULL;
	filling = 0;
	cv_modules_reset();
	cv_stacks_reset();
}
