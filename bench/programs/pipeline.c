/*
 * pipeline: three stages with bounded queues between them.
 *
 * items=4000 read=20000 transform=100000 write=30000   links of work of each stage for an item
 * transformers=1   threads of the second stage
 */
#include "program.h"

#define SLOTS 16

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t not_empty, not_full;
	uint64_t slot[SLOTS], put, got, is_closed;
};

static struct queue to_transform = { .lock = PTHREAD_MUTEX_INITIALIZER,
				     .not_empty = PTHREAD_COND_INITIALIZER,
				     .not_full = PTHREAD_COND_INITIALIZER };
static struct queue to_write = { .lock = PTHREAD_MUTEX_INITIALIZER,
				 .not_empty = PTHREAD_COND_INITIALIZER,
				 .not_full = PTHREAD_COND_INITIALIZER };
static uint64_t items, read_links, transform_links, write_links, written, transforming;

static NOINLINE void queue_put(struct queue *q, uint64_t item)
{
	pthread_mutex_lock(&q->lock);
	while (q->put - q->got == SLOTS)
		pthread_cond_wait(&q->not_full, &q->lock);
	q->slot[q->put++ % SLOTS] = item;
	pthread_cond_signal(&q->not_empty);
	pthread_mutex_unlock(&q->lock);
}

/* 0: closed and empty. */
static NOINLINE int queue_get(struct queue *q, uint64_t *item)
{
	int is_there;

	pthread_mutex_lock(&q->lock);
	while (q->put == q->got && !q->is_closed)
		pthread_cond_wait(&q->not_empty, &q->lock);
	is_there = q->put != q->got;
	if (is_there) {
		*item = q->slot[q->got++ % SLOTS];
		pthread_cond_signal(&q->not_full);
	}
	pthread_mutex_unlock(&q->lock);
	return is_there;
}

static NOINLINE void queue_close(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->is_closed = 1;
	pthread_cond_broadcast(&q->not_empty);
	pthread_mutex_unlock(&q->lock);
}

static void *read_main(void *arg)
{
	for (uint64_t i = 0; i < items; i++)
		queue_put(&to_transform, work(i, read_links));
	queue_close(&to_transform);
	return arg;
}

static void *transform_main(void *arg)
{
	uint64_t item;

	while (queue_get(&to_transform, &item))
		queue_put(&to_write, work(item, transform_links));
	if (__atomic_sub_fetch(&transforming, 1, __ATOMIC_ACQ_REL) == 0)
		queue_close(&to_write);
	return arg;
}

static void *write_main(void *arg)
{
	uint64_t item;

	for (; queue_get(&to_write, &item); written++)
		sink = work(item, write_links);
	return arg;
}

int main(int argc, char **argv)
{
	struct group read, transform, write;

	(void)argc;
	options = argv;
	items = number("items", 4000);
	read_links = number("read", 20000);
	transform_links = number("transform", 100000);
	write_links = number("write", 30000);
	transforming = number("transformers", 1);
	start(&write, 1, write_main, "write");
	start(&transform, transforming, transform_main, "transform");
	start(&read, 1, read_main, "read");
	join(&read);
	join(&transform);
	join(&write);
	check(written == items, "items");
	return 0;
}
