/*
 * connections: clients share a pool of connections, and the answer takes its time elsewhere.
 *
 * threads=4 turns=400 connections=1 answer_us=250 gap=50000
 */
#include "program.h"

#include <semaphore.h>
#include <time.h>

static sem_t connections;
static uint64_t turns, answer_us, gap, answered;

static NOINLINE void ask(void)
{
	struct timespec t = { 0, (long)answer_us * 1000 };

	while (sem_wait(&connections)) {
	}
	nanosleep(&t, NULL);
	sem_post(&connections);
	__atomic_fetch_add(&answered, 1, __ATOMIC_RELAXED);
}

static void *client_main(void *arg)
{
	uint64_t x = (uintptr_t)arg;

	for (uint64_t i = 0; i < turns; i++) {
		ask();
		x = work(x, gap);
	}
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	struct group clients;
	uint64_t threads;

	(void)argc;
	options = argv;
	threads = number("threads", 4);
	turns = number("turns", 400);
	answer_us = number("answer_us", 250);
	gap = number("gap", 50000);
	check(answer_us < 1000000, "answer_us below a second");
	sem_init(&connections, 0, (unsigned)number("connections", 1));
	start(&clients, threads, client_main, "client");
	join(&clients);
	check(answered == threads * turns, "answers");
	return 0;
}
