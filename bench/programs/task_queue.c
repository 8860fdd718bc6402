/*
 * task_queue: workers take numbered tasks from a list under a lock, `batch` at a time.
 *
 * threads=4 tasks=1600000 batch=1 task=200
 */
#include "program.h"

static pthread_mutex_t tasks_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *list, tasks, taken, batch, task_links, done;

/* How many tasks from *first are the caller's. */
static NOINLINE uint64_t tasks_take(uint64_t *first)
{
	uint64_t n = 0;

	pthread_mutex_lock(&tasks_lock);
	*first = taken;
	for (; n < batch && taken < tasks; n++)
		list[taken++] = 1;
	pthread_mutex_unlock(&tasks_lock);
	return n;
}

static void *worker_main(void *arg)
{
	uint64_t first, n, all = 0, x = (uintptr_t)arg;

	for (; (n = tasks_take(&first)); all += n)
		for (uint64_t i = 0; i < n; i++)
			x = work(x + first + i, task_links);
	__atomic_fetch_add(&done, all, __ATOMIC_RELAXED);
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	struct group workers;

	(void)argc;
	options = argv;
	tasks = number("tasks", 1600000);
	batch = number("batch", 1);
	task_links = number("task", 200);
	list = calloc(tasks, sizeof *list);
	check(list && batch >= 1, "memory, or a batch of 1 or more");
	start(&workers, number("threads", 4), worker_main, "worker");
	join(&workers);
	check(done == tasks, "tasks");
	return 0;
}
