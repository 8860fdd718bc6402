/* What the tests of the perf source measure. Says what it saw itself: one line per fact. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];
static long rounds;
static pthread_mutex_t out = PTHREAD_MUTEX_INITIALIZER;

static void say_switches(void)
{
    char line[256];
    FILE *status = fopen("/proc/thread-self/status", "r");
    long voluntary = -1;
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "voluntary_ctxt_switches: %ld", &voluntary);
    if (status)
        fclose(status);
    pthread_mutex_lock(&out);
    printf("switches %d %ld\n", gettid(), voluntary);
    fflush(stdout);
    pthread_mutex_unlock(&out);
}

static void *ping(void *first)
{
    char byte = 0;
    for (long i = 0; i != rounds; i++) {
        if (first && write(there[1], &byte, 1) != 1)
            return NULL;
        if (read(first ? back[0] : there[0], &byte, 1) != 1)
            return NULL;
        if (!first && write(back[1], &byte, 1) != 1)
            return NULL;
    }
    say_switches();
    return NULL;
}

static long cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static volatile unsigned long sink;

__attribute__((noinline)) static void spin_here(void)
{
    for (long i = 0; i < 20000000; i++)
        sink += i;
}

__attribute__((noinline)) static void after_spin_here(void)
{
    sink++;
}

static void *spin(void *ms)
{
    volatile unsigned long marker = 0x5eedc0de5eedc0deUL;
    while (cpu_ms() < (long)ms)
        spin_here();
    sink = marker;
    after_spin_here();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[3];
    cpu_set_t one;
    long n = argc > 2 ? atol(argv[2]) : 0;
    if (argc < 2 || pipe(there) || pipe(back))
        return 1;
    if (!strcmp(argv[1], "spin")) {
        printf("code %p %p\n", (void *)spin_here, (void *)after_spin_here);
        spin((void *)n);
        return 0;
    }
    rounds = n;
    /* On one processor every round is two waits; on two, some end before they begin. */
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    pthread_create(&threads[0], NULL, ping, (void *)1);
    pthread_create(&threads[1], NULL, ping, NULL);
    if (!strcmp(argv[1], "serve")) {
        char byte;
        puts("ready");
        fflush(stdout);
        if (read(0, &byte, 1) != 1)
            return 1;
        pthread_create(&threads[2], NULL, spin, (void *)20L);
        pthread_join(threads[2], NULL);
        _exit(0);
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
