// Allocations, exceptions, bytes written, and a thread that waits for a condition, in fixed
// proportions, until it is killed.

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static unsigned long turns;

// The rest of the time it waits for the condition.
static void *waiter(void *)
{
    unsigned long seen = 0;
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (turns == seen)
            pthread_cond_wait(&cond, &mutex);
        seen = turns;
    }
    return nullptr;
}

__attribute__((noinline)) static void refuse()
{
    throw 1; // of which the runtime makes one allocation
}

int main()
{
    static char block[4096];
    int out = open("/dev/null", O_WRONLY);
    pthread_t thread;
    pthread_create(&thread, nullptr, waiter, nullptr);
    puts("ready");
    fflush(stdout);
    for (;;) {
        for (int i = 0; i < 4; i++) {
            void *volatile memory = malloc(100);
            free(memory);
        }
        try {
            refuse();
        } catch (int) {
        }
        if (write(out, block, sizeof block) != sizeof block)
            return 1;
        pthread_mutex_lock(&mutex);
        turns++;
        pthread_cond_signal(&cond);
        pthread_mutex_unlock(&mutex);
        usleep(2000);
    }
}
