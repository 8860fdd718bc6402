/* Three stages of 20, 100 and 30 us, with queues of 16 items between them: condition variables. */
#include "bench.h"

enum { SLOTS = 16, LAST = -1 };

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t filled, drained;
	int items[SLOTS];
	int first, count;
};

#define QUEUE { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, { 0 }, 0, 0 }

static struct queue parsed = QUEUE, transformed = QUEUE;
static uint64_t items;

static void put(struct queue *q, int item)
{
	pthread_mutex_lock(&q->lock);
	while (q->count == SLOTS)
		pthread_cond_wait(&q->drained, &q->lock);
	q->items[(q->first + q->count++) % SLOTS] = item;
	pthread_cond_signal(&q->filled);
	pthread_mutex_unlock(&q->lock);
}

static int take(struct queue *q)
{
	int item;

	pthread_mutex_lock(&q->lock);
	while (q->count == 0)
		pthread_cond_wait(&q->filled, &q->lock);
	item = q->items[q->first];
	q->first = (q->first + 1) % SLOTS;
	q->count--;
	pthread_cond_signal(&q->drained);
	pthread_mutex_unlock(&q->lock);
	return item;
}

static void parse(void)
{
	for (uint64_t i = 0; i < items; i++) {
		bench_work(20000);
		put(&parsed, (int)i);
	}
	put(&parsed, LAST);
}

static void transform(void)
{
	int item;

	while ((item = take(&parsed)) != LAST) {
		bench_work(100000);
		put(&transformed, item);
	}
	put(&transformed, LAST);
}

static void write_out(void)
{
	while (take(&transformed) != LAST)
		bench_work(30000);
}

static void *worker(void *number)
{
	void (*const stages[])(void) = { parse, transform, write_out };

	stages[(intptr_t)number]();
	return NULL;
}

int main(int argc, char **argv)
{
	items = bench_ops(argc, argv, 4000);
	bench_end(bench_threads(3, worker), items);
	return 0;
}
