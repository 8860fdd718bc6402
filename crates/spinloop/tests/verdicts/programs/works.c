// Functions without a waiting loop. None is ever run.
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <x86intrin.h>

struct list { struct list *next; int key, value; };
struct tree { struct tree *left, *right; int key; };
struct slot { uint64_t key, value; };
struct queue { _Atomic size_t head, tail; int items[1024]; };

volatile int done;
atomic_int counter;
atomic_long next_index;
_Atomic(struct list *) top;
volatile unsigned sequence;
volatile long pair[2];

size_t k_strlen(const char *s) { size_t n = 0; while (s[n]) n++; return n; }
const char *k_end(const char *s) { while (*s) s++; return s; }
const char *k_strchr(const char *s, char c) { while (*s && *s != c) s++; return *s ? s : 0; }
int k_strcmp(const char *a, const char *b) { while (*a && *a == *b) a++, b++; return *a - *b; }
void *k_memchr(const char *p, char c, size_t n) { for (; n--; p++) if (*p == c) return (void *)p; return 0; }
void *k_rawmemchr(const volatile char *p, char c) { while (*p != c) p++; return (void *)p; }
void k_memcpy(char *to, const char *from, size_t n) { while (n--) *to++ = *from++; }
void k_memset(char *p, int c, size_t n) { for (size_t i = 0; i < n; i++) p[i] = c; }
void k_reverse(char *s, size_t n) { for (size_t i = 0, j = n - 1; i < j; i++, j--) { char c = s[i]; s[i] = s[j]; s[j] = c; } }
struct list *k_find(struct list *l, int key) { while (l && l->key != key) l = l->next; return l; }
struct list *k_last(struct list *l) { while (l->next) l = l->next; return l; }
int k_length(volatile struct list *l) { int n = 0; for (; l; l = l->next) n++; return n; }
long k_list_sum(struct list *l) { long n = 0; for (; l; l = l->next) n += l->value; return n; }
struct list *k_list_reverse(struct list *l) { struct list *r = 0; while (l) { struct list *n = l->next; l->next = r; r = l; l = n; } return r; }
struct tree *k_tree(struct tree *t, int key) { while (t && t->key != key) t = key < t->key ? t->left : t->right; return t; }
struct slot *k_probe(struct slot *t, uint64_t mask, uint64_t key) { uint64_t i = key & mask; while (t[i].key && t[i].key != key) i = (i + 1) & mask; return &t[i]; }
struct slot *k_probe_square(struct slot *t, uint64_t mask, uint64_t key) { uint64_t i = key, s = 0; while (t[i & mask].key != key) i += ++s; return &t[i & mask]; }
void k_insertion_sort(int *a, int n) { for (int i = 1; i < n; i++) { int x = a[i], j = i; for (; j > 0 && a[j - 1] > x; j--) a[j] = a[j - 1]; a[j] = x; } }
void k_bubble_sort(int *a, int n) { for (int i = 0; i < n; i++) for (int j = 0; j + 1 < n - i; j++) if (a[j] > a[j + 1]) { int t = a[j]; a[j] = a[j + 1]; a[j + 1] = t; } }
int k_partition(int *a, int lo, int hi) { int p = a[hi], i = lo; for (int j = lo; j < hi; j++) if (a[j] < p) { int t = a[i]; a[i] = a[j]; a[j] = t; i++; } return i; }
int k_scan_pivot(int *a, int p) { int i = 0; while (a[i] < p) i++; return i; }
void k_sift(int *a, int i, int n) { for (int c; (c = 2 * i + 1) < n; i = c) { if (c + 1 < n && a[c + 1] > a[c]) c++; if (a[i] >= a[c]) break; int t = a[i]; a[i] = a[c]; a[c] = t; } }
void k_merge(int *to, const int *a, const int *ae, const int *b, const int *be) { while (a < ae && b < be) *to++ = *a < *b ? *a++ : *b++; }
uint32_t k_crc(const uint8_t *p, size_t n) { uint32_t c = ~0u; while (n--) { c ^= *p++; for (int k = 0; k < 8; k++) c = c & 1 ? (c >> 1) ^ 0xedb88320u : c >> 1; } return ~c; }
uint32_t k_crc_table(const uint32_t *t, const uint8_t *p, size_t n) { uint32_t c = ~0u; while (n--) c = t[(c ^ *p++) & 255] ^ (c >> 8); return ~c; }
uint32_t k_adler(const uint8_t *p, size_t n) { uint32_t a = 1, b = 0; while (n--) { a = (a + *p++) % 65521; b = (b + a) % 65521; } return b << 16 | a; }
uint64_t k_fnv(const char *s) { uint64_t h = 14695981039346656037ull; while (*s) h = (h ^ (uint8_t)*s++) * 1099511628211ull; return h; }
void k_matrix(double *c, const double *a, const double *b, int n) { for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { double s = 0; for (int k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j]; c[i * n + j] = s; } }
long k_sum(const int *a, int n) { long s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }
int k_max(const int *a, int n) { int m = a[0]; for (int i = 1; i < n; i++) if (a[i] > m) m = a[i]; return m; }
double k_dot(const double *a, const double *b, int n) { double s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s; }
int k_count(const int *a, int n, int x) { int c = 0; for (int i = 0; i < n; i++) c += a[i] == x; return c; }
void k_atomic_add(int n) { for (int i = 0; i < n; i++) atomic_fetch_add(&counter, 1); }
long k_atomic_claim(long n) { long s = 0, i; while ((i = atomic_fetch_add(&next_index, 1)) < n) s += i; return s; }
long k_atomic_claim_data(const int *a, long n) { long c = 0, i; while ((i = atomic_fetch_add(&next_index, 1)) < n) if (a[i]) c++; return c; }
void k_histogram(atomic_int *h, const uint8_t *p, size_t n) { while (n--) atomic_fetch_add_explicit(&h[*p++], 1, memory_order_relaxed); }
void k_histogram_one(atomic_int *h, int n) { while (n--) atomic_fetch_add_explicit(h, 1, memory_order_relaxed); }
void k_cas_add(atomic_int *p, int x) { int old = atomic_load(p); while (!atomic_compare_exchange_weak(p, &old, old + x)); }
void k_cas_max(atomic_int *p, int x) { int old = atomic_load(p); while (old < x && !atomic_compare_exchange_weak(p, &old, x)); }
void k_cas_reload(atomic_int *p, int x) { int old; do old = atomic_load(p); while (!atomic_compare_exchange_strong(p, &old, old + x)); }
void k_push(struct list *n) { struct list *old = atomic_load(&top); do n->next = old; while (!atomic_compare_exchange_weak(&top, &old, n)); }
struct list *k_pop(void) { struct list *old = atomic_load(&top); while (old && !atomic_compare_exchange_weak(&top, &old, old->next)); return old; }
long k_consume(struct queue *q) { long s = 0; size_t h = atomic_load(&q->head); while (h != atomic_load(&q->tail)) { s += q->items[h++ & 1023]; atomic_store(&q->head, h); } return s; }
void k_produce(struct queue *q, int n) { for (int i = 0; i < n; i++) { size_t t = atomic_load(&q->tail); q->items[t & 1023] = i; atomic_store(&q->tail, t + 1); } }
uint64_t k_random(uint64_t x, int n) { while (n--) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; } return x; }
uint64_t k_lcg(uint64_t x) { while (!done) x = x * 6364136223846793005ull + 1442695040888963407ull; return x; }
uint64_t k_gcd(uint64_t a, uint64_t b) { while (b) { uint64_t t = a % b; a = b; b = t; } return a; }
int k_collatz(uint64_t x) { int n = 0; while (x != 1) { x = x & 1 ? 3 * x + 1 : x / 2; n++; } return n; }
bool k_prime(uint64_t x) { for (uint64_t d = 2; d * d <= x; d++) if (x % d == 0) return false; return true; }
uint64_t k_fibonacci(int n) { uint64_t a = 0, b = 1; while (n--) { uint64_t t = a + b; a = b; b = t; } return a; }
uint64_t k_root(uint64_t x) { uint64_t r = 0; while (r * r < x) r++; return r; }
int k_bits(uint64_t x) { int n = 0; while (x) { x &= x - 1; n++; } return n; }
const int *k_search(const int *a, int n, int x) { int lo = 0, hi = n; while (lo < hi) { int m = (lo + hi) / 2; if (a[m] < x) lo = m + 1; else hi = m; } return a + lo; }
void k_delay(int n) { for (volatile int i = 0; i < n; i++); }
void k_delay_asm(int n) { while (n--) __asm__ volatile(""); }
void k_delay_nested(int n, int m) { for (volatile int i = 0; i < n; i++) for (volatile int j = 0; j < m; j++); }
void k_burn_tsc(uint64_t end) { while (__rdtsc() < end); }
void k_burn_clock(long end) { struct timespec t; do clock_gettime(CLOCK_MONOTONIC, &t); while (t.tv_sec < end); }
long k_parse(const char *s) { long v = 0; while (*s >= '0' && *s <= '9') v = v * 10 + (*s++ - '0'); return v; }
const char *k_blank(const char *s) { while (*s == ' ' || *s == '\t') s++; return s; }
int k_words(const char *s) { int n = 0, in = 0; for (; *s; s++) if (*s == ' ') in = 0; else if (!in) in = 1, n++; return n; }
int k_utf8(const uint8_t *s) { int n = 0; while (*s) n += (*s++ & 0xc0) != 0x80; return n; }
char *k_decimal(char *end, unsigned v) { do *--end = '0' + v % 10; while (v /= 10); return end; }
void k_until_done(int *a, int n) { int i = 0; while (!done) { a[i] += i; if (++i == n) i = 0; } }
long k_sum_until_done(const int *a) { long s = 0; for (int i = 0; !done; i = (i + 1) & 1023) s += a[i]; return s; }
int k_scan_until_done(const int *a, int x) { int i = 0; while (!done && a[i] != x) i++; return i; }
void k_if_flag(int *a, int n) { for (int i = 0; i < n; i++) if (done) a[i]++; }
long k_seqlock(void) { unsigned s; long a, b; do { s = sequence; a = pair[0]; b = pair[1]; } while ((s & 1) || s != sequence); return a + b; }
long k_sample(volatile int *p, int n) { long s = 0; while (n--) s += *p; return s; }
void k_global_count(int n) { static volatile long c; while (n--) c++; }
float k_average(const float *a, int n) { float s = 0; for (int i = 0; i < n; i++) s = s * 0.9f + a[i]; return s; }
void k_nodes(struct list **table, int n) { for (int i = 0; i < n; i++) for (struct list *l = table[i]; l; l = l->next) l->value++; }
int *maybe;
void other(int);
void k_guarded(int n) { for (int i = 0; i < n; i++) if (maybe) other(i); }
void k_guarded_twice(int n) { for (int i = 0; i < n; i++) if (maybe && *maybe) other(i); }
struct table { unsigned char bits[2]; struct list **slots[2]; long moving; };
struct list **k_two_tables(struct table *t, struct list *who, unsigned long hash)
{
    for (int i = 0; i <= 1; i++) {
        struct list **at = &t->slots[i][t->bits[i] == 255 ? 0 : hash & ~(~0ul << t->bits[i])];
        for (; *at; at = &(*at)->next) if (*at == who) return at;
        if (t->moving == -1) return 0;
    }
    return 0;
}
int k_first_free(volatile struct list *l, unsigned long n, unsigned long from) { unsigned long i = from % n; while (l[i].key) { i++; if (i == n) i = 0; } return i; }
unsigned long k_hash_and_yield(const unsigned long *a, long n) { unsigned long h = 0; for (long i = 0; i < n; i++) { h += a[i] * i * 31; if (i % 100 == 0) sched_yield(); } return h; }
extern int usleep(unsigned);
void k_paced(int n) { for (int i = 0; i < n; i++) { usleep(20000); other(i); } }
void k_paced_count(void) { while (!done) { usleep(20000); sequence++; } }
int k_primes(int n) { int found = 0; for (int i = 2; i < n; i++) found += n % i == 0; return found; }

/* Gives way a little after each block, and makes one value of all. */
unsigned long k_digest(const unsigned char *data, size_t n)
{
    unsigned long h = 5381;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < 512; j++) h = h * 31 + data[i * 512 + j];
        _mm_pause();
    }
    return h;
}
