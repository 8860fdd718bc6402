/*
 * configuration: threads read a thousand words, which one turn in `every` changes.
 *
 * threads=4 turns=40000 every=256 gap=500
 * lock=mutex | rwlock
 */
#include "program.h"

#define SETTINGS 1024

static pthread_mutex_t configuration_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t configuration_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static volatile uint64_t setting[SETTINGS];
static uint64_t turns, every, gap;
static int is_rwlock;

static NOINLINE void configuration_read(void)
{
	uint64_t differing = 0;

	if (is_rwlock)
		pthread_rwlock_rdlock(&configuration_rwlock);
	else
		pthread_mutex_lock(&configuration_lock);
	for (unsigned i = 1; i < SETTINGS; i++)
		differing |= setting[i] ^ setting[0];
	if (is_rwlock)
		pthread_rwlock_unlock(&configuration_rwlock);
	else
		pthread_mutex_unlock(&configuration_lock);
	check(!differing, "settings of two versions");
}

static NOINLINE void configuration_change(uint64_t version)
{
	if (is_rwlock)
		pthread_rwlock_wrlock(&configuration_rwlock);
	else
		pthread_mutex_lock(&configuration_lock);
	for (unsigned i = 0; i < SETTINGS; i++)
		setting[i] = version;
	if (is_rwlock)
		pthread_rwlock_unlock(&configuration_rwlock);
	else
		pthread_mutex_unlock(&configuration_lock);
}

static void *server_main(void *arg)
{
	uint64_t x = (uintptr_t)arg;

	for (uint64_t i = 1; i <= turns; i++) {
		if (i % every == 0)
			configuration_change(i);
		else
			configuration_read();
		x = work(x, gap);
	}
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	struct group servers;

	(void)argc;
	options = argv;
	turns = number("turns", 40000);
	every = number("every", 256);
	gap = number("gap", 500);
	is_rwlock = is_option("lock", "rwlock");
	start(&servers, number("threads", 4), server_main, "server");
	join(&servers);
	return 0;
}
