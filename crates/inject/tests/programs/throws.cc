// Exceptions through probed functions.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#define probed extern "C" __attribute__((noinline, noclone, used))

static volatile long sink;

probed long thrower(long n)
{
	if (n == 0)
		throw std::runtime_error("deep");
	long below = thrower(n - 1);
	sink = below;
	return below + 1;
}

probed long catcher(long n)
{
	long result = n;
	try {
		result = thrower(n % 5) + 1;
	} catch (const std::exception &) {
		sink = result;
	}
	sink = result;
	return sink + n * 0;
}

static bool wait_for_line()
{
	char line[64];
	return fgets(line, sizeof line, stdin);
}

int main()
{
	setvbuf(stdout, nullptr, _IOLBF, 0);
	puts("ready");
	wait_for_line();
	long sum = 0;
	for (long i = 0; i < 1000; i++)
		sum += catcher(i);
	printf("sum %ld\n", sum);
	wait_for_line();
	return 0;
}
