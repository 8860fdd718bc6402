/*
 * map_lookup: threads look up prices in a std::map that does not change.
 *
 * threads=4 turns=300000 entries=4096 gap=50
 * lock=mutex | shared | none
 */
#include "program.h"

#include <map>
#include <mutex>
#include <shared_mutex>

static std::mutex map_lock;
static std::shared_mutex map_shared;
static std::map<uint64_t, uint64_t> prices;
static uint64_t turns, entries, gap;
static int is_shared, is_lockless;

static NOINLINE uint64_t price_of(uint64_t key)
{
	if (is_lockless)
		return prices.find(key)->second;
	if (is_shared) {
		std::shared_lock<std::shared_mutex> guard(map_shared);
		return prices.find(key)->second;
	}
	std::lock_guard<std::mutex> guard(map_lock);
	return prices.find(key)->second;
}

static void *reader_main(void *arg)
{
	uint64_t random = 88172645463325252u + (uintptr_t)arg, sum = 0, x = random;

	for (uint64_t i = 0; i < turns; i++) {
		uint64_t key = random_next(&random) % entries;

		sum += price_of(key) - key;
		x = work(x, gap);
	}
	check(sum == turns, "a price");
	sink = x;
	return nullptr;
}

int main(int, char **argv)
{
	struct group readers;

	options = argv;
	turns = number("turns", 300000);
	entries = number("entries", 4096);
	gap = number("gap", 50);
	is_shared = is_option("lock", "shared");
	is_lockless = is_option("lock", "none");
	for (uint64_t i = 0; i < entries; i++)
		prices[i] = i + 1;
	start(&readers, number("threads", 4), reader_main, "reader");
	join(&readers);
	return 0;
}
