/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Limits its own address space, as programs do that run what they do not trust, and uses what is left. */
#include "rob.h"

#include <sys/mman.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
	struct rlimit limit = { 600u << 20, 600u << 20 }, read_back;
	size_t most = 500u << 20;

	(void)argc;
	counted_section(101);
	if (is(argv, "setrlimit"))
		MUST(!setrlimit(RLIMIT_AS, &limit));
	else if (is(argv, "prlimit"))
		MUST(!prlimit(0, RLIMIT_AS, &limit, NULL));
	else
		return no_such_way(argv);
	MUST(!getrlimit(RLIMIT_AS, &read_back));
	printf("limit %llu\n", (unsigned long long)read_back.rlim_cur);
	printf("500 MiB: %s\n", mmap(NULL, most, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ?
					 "refused" :
					 "there");
	for (int i = 0; i < 3; i++)
		pthread_join(start(counted_main, (void *)100), NULL);
	return 0;
}
