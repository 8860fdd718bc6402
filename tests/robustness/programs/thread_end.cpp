// SPDX-License-Identifier: Apache-2.0 OR MIT
// Locks are taken when a thread is nearly gone: by thread_local destructors, by destructors of keys
// (in several rounds, as one sets another), and by static destructors when main is gone.
#include "rob.h"

#include <mutex>
#include <thread>

static pthread_key_t first, second;

static void first_gone(void *value)
{
	counted_section(7);
	pthread_setspecific(second, value);
}

static void second_gone(void *)
{
	counted_section(11);
}

struct Local {
	bool used = false;
	~Local()
	{
		counted_section(13);
	}
};

static thread_local Local local;

struct Static {
	std::mutex lock;
	int value = 0;

	~Static()
	{
		// A thread made and joined while the process ends.
		std::thread([this] {
			std::lock_guard<std::mutex> guard(lock);
			value++;
			counted_section(3);
		}).join();
		printf("static destructor: %d\n", value);
	}
};

static Static last_words;

int main()
{
	pthread_key_create(&first, first_gone);
	pthread_key_create(&second, second_gone);
	for (int i = 0; i < 51; i++)
		std::thread([] {
			local.used = true;
			pthread_setspecific(first, &local);
		}).join();
	puts("main ends");
}
