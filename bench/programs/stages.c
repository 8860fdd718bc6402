/*
 * stages: a pipeline of three stages, each with a function of its own.
 *
 * items=20000 read=17700 transform=88500 write=26500   links of work of each stage for an item
 */
#include "program.h"

#define SLOTS 16

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t not_empty, not_full;
	uint64_t slot[SLOTS], put, got;
};

static struct queue raw = { .lock = PTHREAD_MUTEX_INITIALIZER,
			    .not_empty = PTHREAD_COND_INITIALIZER,
			    .not_full = PTHREAD_COND_INITIALIZER };
static struct queue ready = { .lock = PTHREAD_MUTEX_INITIALIZER,
			      .not_empty = PTHREAD_COND_INITIALIZER,
			      .not_full = PTHREAD_COND_INITIALIZER };
static uint64_t items, read_links, transform_links, write_links;

static void put(struct queue *q, uint64_t item)
{
	pthread_mutex_lock(&q->lock);
	while (q->put - q->got == SLOTS)
		pthread_cond_wait(&q->not_full, &q->lock);
	q->slot[q->put++ % SLOTS] = item;
	pthread_cond_signal(&q->not_empty);
	pthread_mutex_unlock(&q->lock);
}

static uint64_t get(struct queue *q)
{
	uint64_t item;

	pthread_mutex_lock(&q->lock);
	while (q->put == q->got)
		pthread_cond_wait(&q->not_empty, &q->lock);
	item = q->slot[q->got++ % SLOTS];
	pthread_cond_signal(&q->not_full);
	pthread_mutex_unlock(&q->lock);
	return item;
}

static NOINLINE uint64_t read_item(uint64_t x)
{
	return work_inline(x, read_links);
}

static NOINLINE uint64_t transform_item(uint64_t x)
{
	return work_inline(x, transform_links);
}

static NOINLINE uint64_t write_item(uint64_t x)
{
	return work_inline(x, write_links);
}

static void *reader(void *arg)
{
	for (uint64_t i = 0; i < items; i++)
		put(&raw, read_item(i));
	return arg;
}

static void *transformer(void *arg)
{
	for (uint64_t i = 0; i < items; i++)
		put(&ready, transform_item(get(&raw)));
	return arg;
}

static void *writer(void *arg)
{
	for (uint64_t i = 0; i < items; i++)
		sink = write_item(get(&ready));
	return arg;
}

int main(int argc, char **argv)
{
	struct group read, transform, write;

	(void)argc;
	options = argv;
	items = number("items", 20000);
	read_links = number("read", 17700);
	transform_links = number("transform", 88500);
	write_links = number("write", 26500);
	start(&write, 1, writer, "write");
	start(&transform, 1, transformer, "transform");
	start(&read, 1, reader, "read");
	join(&read);
	join(&transform);
	join(&write);
	return 0;
}
