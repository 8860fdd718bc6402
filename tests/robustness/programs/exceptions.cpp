// SPDX-License-Identifier: Apache-2.0 OR MIT
// C++ exceptions that leave locked sections, cross a thread's frames, or are caught by nobody.
#include "rob.h"

#include <condition_variable>
#include <future>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>

static std::mutex lock;
static int depth_seen;

static FX_NOINLINE void throws(int depth)
{
	std::lock_guard<std::mutex> guard(lock);
	if (depth % 2)
		throw std::runtime_error("odd");
	depth_seen++;
}

static void many()
{
	int caught = 0;
	for (int i = 0; i < 1009; i++)
		try {
			throws(i);
		} catch (const std::runtime_error &) {
			caught++;
		}
	std::unique_lock<std::mutex> guard(lock);
	printf("caught %d\n", caught);
}

int main(int, char **argv)
{
	counted_section(203);
	if (is(argv, "section")) {
		std::thread(many).join();
	} else if (is(argv, "future")) {
		auto f = std::async(std::launch::async, [] { throws(1); });
		try {
			f.get();
		} catch (const std::exception &e) {
			printf("from the thread: %s\n", e.what());
		}
	} else if (is(argv, "once")) {
		// An exception that leaves pthread_once: the next caller tries again.
		std::once_flag flag;
		int tries = 0;
		for (int i = 0; i < 3; i++)
			try {
				std::call_once(flag, [&] {
					if (++tries < 3)
						throw std::runtime_error("again");
				});
			} catch (const std::runtime_error &) {
				puts("once threw");
			}
		printf("tries %d\n", tries);
	} else if (is(argv, "deadlock")) {
		std::unique_lock<std::mutex> guard(lock);
		try {
			guard.lock();
		} catch (const std::system_error &e) {
			printf("system_error %d\n", e.code().value());
		}
	} else if (is(argv, "uncaught")) {
		std::thread([] { throws(1); }).join();
	} else {
		return no_such_way(argv);
	}
	return 0;
}
