// Functions whose only loop waits. None is ever run.
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <x86intrin.h>

struct lock {
    int pad;
    atomic_int word;
    atomic_uint next, owner;
};
struct node {
    struct node *_Atomic next;
    atomic_bool wait;
};
struct ring {
    volatile uint64_t head;
    char pad[56];
    volatile uint64_t tail;
};
struct pending {
    _Alignas(64) _Atomic unsigned long value;
};

volatile int done;
atomic_bool flag;
atomic_int phase;
_Atomic(struct ring *) published;
struct pending io_threads_pending[128];
pthread_mutex_t mutex;
pthread_spinlock_t spin;

void w_volatile(void) { while (!done); }
void w_volatile_pause(void) { while (!done) _mm_pause(); }
void w_pointer(volatile int *p) { while (*p == 0); }
void w_pointer_value(volatile int *p, int value) { while (*p != value) _mm_pause(); }
// pbzip2 1.0 and its like: is there room now?
extern unsigned used, most;
extern int usleep(unsigned);
void w_locked(void)
{
    for (;;) {
        pthread_mutex_lock(&mutex);
        unsigned n = used;
        pthread_mutex_unlock(&mutex);
        if (n < most) return;
        usleep(20000);
    }
}
// A sleep that goes on after signals: nobody else ends it.
void w_rest_of_sleep(void) { struct timespec t = { 0, 5000000 }; while (nanosleep(&t, &t)); }
void w_atomic(void) { while (!atomic_load(&flag)); }
void w_atomic_relaxed(void) { while (!atomic_load_explicit(&flag, memory_order_relaxed)) _mm_pause(); }
void w_acquire_field(struct lock *l) { while (atomic_load_explicit(&l->word, memory_order_acquire)) _mm_pause(); }
void w_tas(struct lock *l) { while (atomic_exchange(&l->word, 1)); }
void w_tas_pause(struct lock *l) { while (atomic_exchange(&l->word, 1)) _mm_pause(); }
void w_ttas(struct lock *l)
{
    while (atomic_exchange(&l->word, 1))
        while (atomic_load_explicit(&l->word, memory_order_relaxed)) _mm_pause();
}
void w_cas(struct lock *l)
{
    int expected = 0;
    while (!atomic_compare_exchange_weak(&l->word, &expected, 1)) expected = 0;
}
void w_cas_pause(struct lock *l)
{
    int expected;
    do {
        _mm_pause();
        expected = 0;
    } while (!atomic_compare_exchange_strong(&l->word, &expected, 1));
}
void w_sync_cas(int *l) { while (!__sync_bool_compare_and_swap(l, 0, 1)) _mm_pause(); }
void w_sync_tas(int *l) { while (__sync_lock_test_and_set(l, 1)) while (*(volatile int *)l) _mm_pause(); }
void w_ticket(struct lock *l)
{
    unsigned mine = atomic_fetch_add(&l->next, 1);
    while (atomic_load_explicit(&l->owner, memory_order_acquire) != mine) _mm_pause();
}
void w_ticket_backoff(struct lock *l, unsigned mine)
{
    for (;;) {
        unsigned owner = atomic_load_explicit(&l->owner, memory_order_acquire);
        if (owner == mine) return;
        for (unsigned i = mine - owner; i; i--) _mm_pause();
    }
}
void w_mcs(struct node *_Atomic *tail, struct node *me)
{
    atomic_store_explicit(&me->next, 0, memory_order_relaxed);
    atomic_store_explicit(&me->wait, true, memory_order_relaxed);
    struct node *before = atomic_exchange(tail, me);
    if (!before) return;
    atomic_store_explicit(&before->next, me, memory_order_release);
    while (atomic_load_explicit(&me->wait, memory_order_acquire)) _mm_pause();
}
void w_mcs_release(struct node *me)
{
    struct node *next;
    while (!(next = atomic_load_explicit(&me->next, memory_order_acquire))) _mm_pause();
    atomic_store_explicit(&next->wait, false, memory_order_release);
}
void w_barrier(atomic_int *left, int n)
{
    int mine = atomic_load(&phase);
    if (atomic_fetch_sub(left, 1) == 1) {
        atomic_store(left, n);
        atomic_store(&phase, !mine);
        return;
    }
    while (atomic_load_explicit(&phase, memory_order_acquire) == mine) _mm_pause();
}
int w_redis(int id)
{
    int j;
    for (j = 0; j < 1000000; j++)
        if (atomic_load(&io_threads_pending[id].value) != 0) break;
    return j;
}
void w_either(void) { while (!done || !atomic_load(&flag)); }
void w_neither(int n) { for (int i = 0; i < n; i++) { while (!done && !atomic_load(&flag)); sched_yield(); } }
int threads;
void w_redis_main(void)
{
    for (;;) {
        unsigned long pending = 0;
        for (int j = 1; j < threads; j++) pending += atomic_load(&io_threads_pending[j].value);
        if (pending == 0) break;
    }
}
/* As the Disruptor's BusySpinWaitStrategy: the least of what others have reached, and what it was in the pass before. */
long w_least(struct pending *const *all, long wanted, long seen)
{
    for (;;) {
        long least = LONG_MAX;
        for (int j = 0; j < threads; j++) {
            long at = atomic_load_explicit(&all[j]->value, memory_order_acquire);
            if (at < least) least = at;
        }
        if (least >= wanted || least < seen) return least;
        seen = least;
        _mm_pause();
    }
}
int w_bounded(struct lock *l, int most)
{
    for (int i = 0; i < most; i++) {
        if (!atomic_load_explicit(&l->word, memory_order_relaxed)) return 1;
        _mm_pause();
    }
    return 0;
}
void w_backoff(struct lock *l)
{
    unsigned pauses = 1;
    while (atomic_load_explicit(&l->word, memory_order_relaxed)) {
        for (unsigned i = 0; i < pauses; i++) _mm_pause();
        if (pauses < 1024) pauses <<= 1;
    }
}
void w_yield(void) { while (!atomic_load(&flag)) sched_yield(); }
void w_yield_sometimes(void)
{
    unsigned n = 0;
    while (!atomic_load(&flag)) {
        if ((++n & 63) == 0) sched_yield();
        else _mm_pause();
    }
}
void w_trylock(void) { while (pthread_mutex_trylock(&mutex) != 0); }
void w_trylock_pause(pthread_mutex_t *m) { while (pthread_mutex_trylock(m)) _mm_pause(); }
void w_yield_every_200(void)
{
    int n = 0;
    while (!atomic_load(&flag)) {
        if (++n % 200 == 0) sched_yield();
        else _mm_pause();
    }
}
void w_ticket_every_100(struct lock *l)
{
    unsigned me = atomic_fetch_add(&l->next, 1);
    for (unsigned long n = 1; atomic_load(&l->owner) != me; n++) {
        if (n % 100 == 0) sched_yield();
    }
}
void w_spin_trylock(void) { while (pthread_spin_trylock(&spin) != 0) sched_yield(); }
bool w_deadline(uint64_t end)
{
    while (!atomic_load(&flag)) {
        if (__rdtsc() > end) return false;
        _mm_pause();
    }
    return true;
}
bool w_deadline_clock(long end)
{
    struct timespec t;
    while (!atomic_load(&flag)) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        if (t.tv_sec > end) return false;
    }
    return true;
}
void w_ring_empty(struct ring *r) { while (r->head == r->tail); }
void w_ring_full(struct ring *r) { while (r->head - r->tail >= 1024) _mm_pause(); }
void w_two_flags(void) { while (!done && !atomic_load(&flag)) _mm_pause(); }
void w_published(void) { while (atomic_load(&published) == 0 || atomic_load(&published)->head == 0); }
void w_array_flag(volatile int *flags, int me) { while (flags[me] == 0) _mm_pause(); }
void w_own_stack(void (*start)(atomic_int *))
{
    atomic_int finished = 0;
    start(&finished);
    while (!atomic_load_explicit(&finished, memory_order_acquire)) _mm_pause();
}
void w_delay(int n) { for (int i = 0; i < n; i++) _mm_pause(); }
void w_bit(volatile unsigned *status) { while ((*status & 0x80) == 0); }
void w_fence(void)
{
    while (!done) __sync_synchronize();
}
void w_lock_dec(int *l)
{
    // glibc's pthread_spin_lock.
    __asm__ volatile("1: lock decl %0\n jz 3f\n 2: pause\n cmpl $0, %0\n jle 2b\n jmp 1b\n 3:" : "+m"(*l) : : "memory");
}
void w_xchg_manual(int *l)
{
    // As in Intel's manual: what comes back is put there again.
    __asm__ volatile("mov $1, %%eax\n 1: xchg %%eax, %0\n test %%eax, %%eax\n jnz 1b" : "+m"(*l) : : "eax", "memory");
}
void w_bts(int *l)
{
    __asm__ volatile("1: pause\n lock btsl $0, %0\n jc 1b" : "+m"(*l) : : "memory");
}
