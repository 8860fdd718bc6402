/*
 * free_list: a memory allocator with one list of free blocks for all threads.
 *
 * threads=4 turns=60000 blocks=8 gap=200   blocks that a thread holds at a time
 * heap=one | arenas | cached   arenas: four lists, by the thread; cached: each thread keeps blocks
 * of its own and goes to the list for `batch` of them at a time
 * batch=32
 */
#include "program.h"

#define BLOCKS 4096
#define MAX_HELD 64
#define ARENAS 4

struct block {
	struct block *next;
	uint64_t payload[7];
};

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static struct arena {
	_Alignas(LINE) pthread_mutex_t *lock;
	pthread_mutex_t own;
	struct block *free;
} arena[ARENAS];
static __thread struct {
	struct block *free;
	uint64_t n;
} cache;
static struct block storage[ARENAS][BLOCKS];
static uint64_t turns, blocks, gap, batch;
static int is_cached, has_arenas;

static NOINLINE void cache_fill(struct arena *a)
{
	pthread_mutex_lock(a->lock);
	for (; cache.n < batch; cache.n++) {
		struct block *b = a->free;

		a->free = b->next;
		b->next = cache.free;
		cache.free = b;
	}
	pthread_mutex_unlock(a->lock);
}

static NOINLINE void cache_flush(struct arena *a, uint64_t keep)
{
	pthread_mutex_lock(a->lock);
	for (; cache.n > keep; cache.n--) {
		struct block *b = cache.free;

		cache.free = b->next;
		b->next = a->free;
		a->free = b;
	}
	pthread_mutex_unlock(a->lock);
}

static NOINLINE struct block *block_alloc(struct arena *a)
{
	struct block *b;

	if (is_cached) {
		if (!cache.n)
			cache_fill(a);
		b = cache.free;
		cache.free = b->next;
		cache.n--;
		return b;
	}
	pthread_mutex_lock(a->lock);
	b = a->free;
	a->free = b->next;
	pthread_mutex_unlock(a->lock);
	return b;
}

static NOINLINE void block_free(struct arena *a, struct block *b)
{
	if (is_cached) {
		b->next = cache.free;
		cache.free = b;
		if (++cache.n == 2 * batch)
			cache_flush(a, batch);
		return;
	}
	pthread_mutex_lock(a->lock);
	b->next = a->free;
	a->free = b;
	pthread_mutex_unlock(a->lock);
}

static void *user_main(void *arg)
{
	struct arena *a = &arena[has_arenas ? (uintptr_t)arg % ARENAS : 0];
	struct block *held[MAX_HELD];
	uint64_t x = (uintptr_t)arg;

	for (uint64_t i = 0; i < turns; i++) {
		for (uint64_t k = 0; k < blocks; k++) {
			held[k] = block_alloc(a);
			held[k]->payload[0] = x = work(x, gap);
		}
		for (uint64_t k = 0; k < blocks; k++)
			block_free(a, held[k]);
	}
	if (is_cached)
		cache_flush(a, 0);
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	struct group users;
	uint64_t threads, left = 0;

	(void)argc;
	options = argv;
	threads = number("threads", 4);
	turns = number("turns", 60000);
	blocks = number("blocks", 8);
	gap = number("gap", 200);
	batch = number("batch", 32);
	is_cached = is_option("heap", "cached");
	has_arenas = is_option("heap", "arenas");
	check(blocks <= MAX_HELD && batch >= 1, "blocks and batch");
	check(threads * (blocks + 2 * batch) <= BLOCKS, "too many blocks");
	for (unsigned i = 0; i < ARENAS; i++) {
		pthread_mutex_init(&arena[i].own, NULL);
		arena[i].lock = has_arenas ? &arena[i].own : &heap_lock;
		for (unsigned k = 0; k < BLOCKS; k++) {
			storage[i][k].next = arena[i].free;
			arena[i].free = &storage[i][k];
		}
	}
	start(&users, threads, user_main, "user");
	join(&users);
	for (unsigned i = 0; i < ARENAS; i++)
		for (struct block *b = arena[i].free; b; b = b->next)
			left++;
	check(left == ARENAS * BLOCKS, "blocks");
	return 0;
}
