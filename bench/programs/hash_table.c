/*
 * hash_table: threads look up and insert keys in a chained hash table.
 *
 * threads=4 turns=300000 writes=8   inserts of 64 operations
 * lock=mutex | rwlock | sharded   sharded: one of `shards` locks, by the bucket
 * shards=8 gap=100
 */
#include "program.h"

#define BUCKETS 4096
#define KEYS 32768

struct node {
	struct node *next;
	uint64_t key, value;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static struct {
	_Alignas(LINE) pthread_mutex_t lock;
} shard[MAX_THREADS];
static struct node *bucket[BUCKETS];
static uint64_t turns, writes, gap, shards;
static int is_rwlock, is_sharded;

static inline uint64_t hash(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15u >> 52;
}

static inline void lock_bucket(uint64_t b, int write)
{
	if (is_sharded)
		pthread_mutex_lock(&shard[b % shards].lock);
	else if (!is_rwlock)
		pthread_mutex_lock(&table_lock);
	else if (write)
		pthread_rwlock_wrlock(&table_rwlock);
	else
		pthread_rwlock_rdlock(&table_rwlock);
}

static inline void unlock_bucket(uint64_t b)
{
	if (is_sharded)
		pthread_mutex_unlock(&shard[b % shards].lock);
	else if (!is_rwlock)
		pthread_mutex_unlock(&table_lock);
	else
		pthread_rwlock_unlock(&table_rwlock);
}

static inline struct node *find(uint64_t b, uint64_t key)
{
	struct node *n = bucket[b];

	while (n && n->key != key)
		n = n->next;
	return n;
}

static NOINLINE uint64_t table_get(uint64_t key)
{
	uint64_t b = hash(key), value = 0;
	struct node *n;

	lock_bucket(b, 0);
	n = find(b, key);
	if (n)
		value = n->value;
	unlock_bucket(b);
	return value;
}

static NOINLINE void table_put(uint64_t key, uint64_t value)
{
	uint64_t b = hash(key);
	struct node *n;

	lock_bucket(b, 1);
	n = find(b, key);
	if (n)
		n->value = value;
	unlock_bucket(b);
}

static void *client_main(void *arg)
{
	uint64_t random = 88172645463325252u + (uintptr_t)arg, x = random;

	for (uint64_t i = 0; i < turns; i++) {
		uint64_t r = random_next(&random), key = r % KEYS;

		if (r >> 32 & 63 && (r >> 32 & 63) >= writes)
			x += table_get(key);
		else if (writes)
			table_put(key, i);
		x = work(x, gap);
	}
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	struct group clients;
	struct node *nodes = calloc(KEYS, sizeof *nodes);

	(void)argc;
	options = argv;
	turns = number("turns", 300000);
	writes = number("writes", 8);
	gap = number("gap", 100);
	shards = number("shards", 8);
	is_rwlock = is_option("lock", "rwlock");
	is_sharded = is_option("lock", "sharded");
	check(nodes && shards >= 1 && shards <= MAX_THREADS, "shards");
	for (unsigned i = 0; i < MAX_THREADS; i++)
		pthread_mutex_init(&shard[i].lock, NULL);
	for (uint64_t i = 0; i < KEYS; i++) {
		struct node **head = &bucket[hash(i)];

		nodes[i] = (struct node){ *head, i, i };
		*head = &nodes[i];
	}
	start(&clients, number("threads", 4), client_main, "client");
	join(&clients);
	for (uint64_t i = 0; i < KEYS; i++)
		check(!!find(hash(i), i), "a key is missing");
	return 0;
}
