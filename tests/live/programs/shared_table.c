/*
 * Two threads share a table and one mutex. `read`: they look values up. `write`: they count, which
 * needs the mutex. `mixed`: they look up, and sometimes count. `wait`: they take turns, by a condition
 * with the mutex. The sums that are printed are always the same, as long as sections that write
 * exclude each other.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 4096
#define NOINLINE __attribute__((noinline))

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static unsigned table[SIZE];
static volatile long counted;
static int turn;
static long rounds;
static const char *mode;

NOINLINE static unsigned look_up(unsigned from)
{
	unsigned sum = 0;

	pthread_mutex_lock(&table_lock);
	for (unsigned i = 0; i < SIZE; i++)
		sum = sum * 31 + table[(from + i) % SIZE];
	pthread_mutex_unlock(&table_lock);
	return sum;
}

NOINLINE static void count(void)
{
	long before;

	pthread_mutex_lock(&table_lock);
	before = counted;
	for (volatile int i = 0; i < 300; i++)
		;
	counted = before + 1;
	pthread_mutex_unlock(&table_lock);
}

NOINLINE static void take_turn(int mine)
{
	pthread_mutex_lock(&table_lock);
	while (turn != mine)
		pthread_cond_wait(&turned, &table_lock);
	turn = !mine;
	pthread_cond_signal(&turned);
	pthread_mutex_unlock(&table_lock);
}

static void *work(void *number)
{
	int mine = *(int *)number;
	unsigned sum = 0;

	for (long i = 0; i < rounds; i++) {
		if (strcmp(mode, "wait") == 0)
			take_turn(mine);
		else if (strcmp(mode, "write") == 0 || (strcmp(mode, "mixed") == 0 && i % 16 == 0))
			count();
		else
			sum += look_up((unsigned)i * 7);
	}
	*(unsigned *)number = sum;
	return NULL;
}

int main(int argc, char **argv)
{
	int number[2] = { 0, 1 };
	pthread_t thread[2];

	mode = argc > 1 ? argv[1] : "read";
	rounds = argc > 2 ? atol(argv[2]) : 300000;
	for (unsigned i = 0; i < SIZE; i++)
		table[i] = i * 2654435761u;
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, work, &number[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	printf("%s %u %u\ncounted %ld\n", mode, number[0], number[1], counted);
	return 3;
}
