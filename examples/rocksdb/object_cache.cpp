/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Four threads that keep their objects in RocksDB's LRU cache: docs/worked-example-diagnose.md.
 *
 *   object_cache SHARD_BITS LOOKUPS
 *
 * The cache has 2^SHARD_BITS parts with a lock each; every thread looks LOOKUPS random keys up, and puts in what is missing.
 */
#include <rocksdb/cache.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

static const uint64_t KEYS = 50000;
static const int THREADS = 4;

static void give_back(const rocksdb::Slice &, void *value)
{
	delete static_cast<std::string *>(value);
}

/* What a program does with an object: a checksum. */
static uint64_t use(const std::string &object, uint64_t sum)
{
	for (unsigned char c : object)
		sum = (sum ^ c) * 1099511628211u;
	return sum;
}

static void work(rocksdb::Cache *cache, uint64_t seed, long lookups, uint64_t *sum)
{
	uint64_t x = 88172645463325252u + seed;

	for (long i = 0; i < lookups; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		const std::string key = "object:" + std::to_string(x % KEYS);
		rocksdb::Cache::Handle *handle = cache->Lookup(key);

		if (!handle) {
			auto *object = new std::string(200, char('a' + x % 26));

			if (!cache->Insert(key, object, object->size(), give_back, &handle).ok())
				exit(1);
		}
		*sum = use(*static_cast<std::string *>(cache->Value(handle)), *sum);
		cache->Release(handle);
	}
}

int main(int n, char **arguments)
{
	if (n != 3) {
		fprintf(stderr, "usage: %s SHARD_BITS LOOKUPS\n", arguments[0]);
		return 2;
	}
	std::shared_ptr<rocksdb::Cache> cache = rocksdb::NewLRUCache(64 << 20, atoi(arguments[1]));
	long lookups = atol(arguments[2]);
	std::vector<std::thread> threads;
	uint64_t sums[THREADS] = {};

	auto start = std::chrono::steady_clock::now();
	for (int i = 0; i < THREADS; i++)
		threads.emplace_back(work, cache.get(), i, lookups, &sums[i]);
	for (auto &thread : threads)
		thread.join();
	std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
	printf("%.0f lookups a second\n", double(THREADS) * double(lookups) / took.count());
	return 0;
}
