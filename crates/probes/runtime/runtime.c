/* What a probe does when its function is entered or left. Copied into the probed process.
 *
 * Freestanding: no library, no data of its own, no relocation, general registers only. Everything
 * that it writes belongs to the calling thread: a column of the table. It never waits. */
#include "table.h"

/* Frames further apart than this are on different stacks... */
#define SAME_STACK (1ULL << 20)
/* ... or than this, in threads that run on several stacks: those of coroutines may lie side by
 * side. */
#define SAME_SMALL_STACK (16ULL << 10)
/* Entries that are searched for a match. */
#define SEARCH 512
/* Places that are searched for a file descriptor. */
#define FILE_SEARCH 32

#define NR_CLOCK_GETTIME 228
#define CLOCK_OF_THREAD 3
/* rseq_cs in struct rseq (include/uapi/linux/rseq.h of the kernel). */
#define SEQUENCE_AT 8

#define inline static inline __attribute__((always_inline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* A signal handler of the same thread sees what is before it. */
#define in_order() __asm__ volatile("" ::: "memory")

inline u64 ticks(void)
{
	u32 lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (u64)hi << 32 | lo;
}

inline u64 thread_pointer(void)
{
	u64 pointer;
	__asm__ volatile("mov %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

/* The C library keeps it there. */
inline u32 own_tid(const struct cp_table *t, u64 self)
{
	return *(volatile u32 *)(self + t->tid_offset);
}

inline volatile u64 *keys(struct cp_table *t)
{
	return (volatile u64 *)(t + 1);
}

inline struct cp_column *columns(struct cp_table *t)
{
	u64 end = (u64)(t + 1) + t->columns * sizeof(u64);
	return (struct cp_column *)((end + 4095) & ~4095ULL);
}

inline int take(volatile u64 *key, u64 old, u64 new)
{
	return __atomic_compare_exchange_n(key, &old, new, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* A column for a thread that has none, from this place on. */
static __attribute__((noinline)) struct cp_column *new_column(struct cp_table *t, u64 self,
							     u64 from)
{
	for (u64 n = 0; n < t->columns; n++) {
		u64 i = (from + n) & (t->columns - 1);
		volatile u64 *key = keys(t) + i;
		u64 old = *key;
		if (old <= CP_KEY_CLEARED && take(key, old, self)) {
			struct cp_column *c = columns(t) + i;
			c->tid = own_tid(t, self);
			return c;
		}
	}
	t->no_room++;
	return 0;
}

/* The column of the calling thread; 0 = none. */
inline struct cp_column *own_column(struct cp_table *t, int is_made)
{
	if (unlikely(t->magic != CP_MAGIC))
		return 0;
	u64 self = thread_pointer();
	u64 first = (self * 0x9e3779b97f4a7c15ULL) >> t->hash_shift;
	for (u64 n = 0; n < t->columns; n++) {
		u64 i = (first + n) & (t->columns - 1);
		u64 key = keys(t)[i];
		if (likely(key == self)) {
			struct cp_column *c = columns(t) + i;
			u32 tid = c->tid;
			if (likely(own_tid(t, self) == tid))
				return c;
			if (!tid)
				return 0; /* a signal handler, while it is being made */
			/* Of a thread that has ended and had the same memory. */
			take(keys(t) + i, self, CP_KEY_RETIRED);
		} else if (key == CP_KEY_FREE) {
			break;
		}
	}
	return is_made ? new_column(t, self, first) : 0;
}

/* Arguments of the call whose return address is at `rsp`: src/stub.rs has saved them there. No red
 * zone is skipped at an entry. */
inline u64 first_argument(u64 rsp)
{
	return *(u64 *)(rsp - 48);
}

inline u64 second_argument(u64 rsp)
{
	return *(u64 *)(rsp - 40);
}

inline u64 third_argument(u64 rsp)
{
	return *(u64 *)(rsp - 32);
}

/* What a call returns that leaves by a return instruction. */
inline u64 result(u64 rsp)
{
	return *(u64 *)(rsp - 8);
}

/* Whether `inner` is below `outer` on the same stack. */
inline int is_inside(struct cp_column *c, u64 inner, u64 outer)
{
	return inner < outer && outer - inner < (c->has_switched ? SAME_SMALL_STACK : SAME_STACK);
}

/* Whether a probe runs already in this thread, which a signal handler has interrupted. A handler
 * that was left by longjmp never comes back: the stack is above it then. */
inline int is_nested(struct cp_column *c, u64 rsp)
{
	return c->busy && !is_inside(c, c->busy, rsp);
}

/* An entry whose frame was left without a return. */
inline void abandon(struct cp_table *t, struct cp_column *c, struct cp_entry *e)
{
	struct cp_value *v = &c->value[e->row & (CP_ROWS - 1)];
	c->abandoned++;
	if (e->generation == t->row[e->row & (CP_ROWS - 1)].generation && v->depth && !--v->depth)
		v->since = v->since_cpu = 0;
}

inline u32 log2_of(u64 ns)
{
	return ns ? 63 - (u32)__builtin_clzll(ns) : 0;
}

inline u64 kernel_cpu_time(void)
{
	u64 r = NR_CLOCK_GETTIME, time[2] = {0, 0};
	__asm__ volatile("syscall"
			 : "+a"(r)
			 : "D"((u64)CLOCK_OF_THREAD), "S"(time)
			 : "rcx", "r11", "memory");
	return time[0] * 1000000000 + time[1];
}

inline u64 ns_of(const struct cp_table *t, u64 elapsed)
{
	return (u64)(((unsigned __int128)elapsed * t->ns_per_tick) >> 32);
}

/* Takes the kernel's CPU time as the new base: the only system call here. Convoy gives the CPU clock
 * up when it sees that a thread has a filter for system calls (seccomp). */
static __attribute__((noinline)) u64 resync(struct cp_table *t, struct cp_column *c,
					    volatile u64 *sequence)
{
	u64 cpu = 0;
	c->cpu_resyncs++;
	c->armed = 0;
	for (int i = 0; i < 3; i++) {
		*sequence = t->descriptor;
		in_order();
		cpu = kernel_cpu_time();
		u64 now = ticks();
		in_order();
		if (*sequence == t->descriptor) {
			c->base_cpu = cpu;
			c->base_ticks = now;
			c->armed = 1;
			break;
		}
	}
	return cpu;
}

/* CPU time of the thread, ns, at the time `now`, which was just read. The kernel sets rseq_cs to 0
 * when it takes the processor from the thread: as long as it does not, CPU time goes like the
 * clock. 0 = no CPU clock. */
inline u64 cpu_time(struct cp_table *t, struct cp_column *c, u64 now)
{
	if (!t->descriptor)
		return 0;
	volatile u64 *sequence = (volatile u64 *)(thread_pointer() + t->rseq_offset + SEQUENCE_AT);
	in_order();
	if (likely(*sequence == t->descriptor && c->armed)) {
		/* A signal handler may have taken a new base since `now` was read. */
		u64 passed = now > c->base_ticks ? now - c->base_ticks : 0;
		return c->base_cpu + ns_of(t, passed);
	}
	return resync(t, c, sequence);
}

static void skip(struct cp_column *c, const u16 *row)
{
	for (int i = 0; i < CP_FUNCTION_ROWS && row[i] != CP_NONE; i++)
		c->value[row[i] & (CP_ROWS - 1)].skipped++;
}

/* Frees places of entries: of frames that a new one at `rsp` has replaced. */
inline void drop_replaced(struct cp_table *t, struct cp_column *c, u64 rsp)
{
	while (c->entries) {
		struct cp_entry *top = &c->entry[(c->entries - 1) & (CP_DEPTH - 1)];
		if (top->rsp != rsp && !is_inside(c, top->rsp, rsp)) {
			if (top->rsp - rsp >= SAME_STACK)
				c->has_switched = 1;
			return;
		}
		abandon(t, c, top);
		c->entries--;
	}
}

/* No place is left: the older half goes, whose stacks may be gone as well. */
static __attribute__((noinline)) void drop_oldest(struct cp_table *t, struct cp_column *c)
{
	if (!c->has_switched)
		return;
	u32 kept = 0;
	for (u32 i = 0; i < CP_DEPTH; i++) {
		if (i < CP_DEPTH / 2)
			abandon(t, c, &c->entry[i]);
		else
			c->entry[kept++] = c->entry[i];
	}
	c->entries = kept;
}

/* Whether the agent has seen the thread acquire a watched lock that it has not released yet. */
inline int is_holding(const struct cp_row *about)
{
	const volatile struct cp_holding *held =
		(const volatile struct cp_holding *)(thread_pointer() + (u64)about->held_offset);
	return held->epoch == about->held_epoch && held->count[about->held_slot & 7];
}

static __attribute__((noinline)) int is_open(const struct cp_row *about, const struct cp_column *c,
					     u64 rsp)
{
	if (about->gates & CP_WITHIN && !c->value[about->within & (CP_ROWS - 1)].depth)
		return 0;
	if (about->gates & CP_CALLER) {
		u64 back = *(u64 *)rsp;
		if (back < about->caller_from || back >= about->caller_to)
			return 0;
	}
	return !(about->gates & CP_HOLDING) || is_holding(about);
}

static __attribute__((noinline)) u64 bytes_asked(u8 kind, u64 rsp)
{
	u64 product;
	switch (kind) {
	case CP_BYTES_FIRST:
		return first_argument(rsp);
	case CP_BYTES_SECOND:
		return second_argument(rsp);
	case CP_BYTES_THIRD:
		return third_argument(rsp);
	case CP_BYTES_PRODUCT:
		/* What does not fit into an address space is refused. */
		return __builtin_mul_overflow(first_argument(rsp), second_argument(rsp), &product) ?
			       0 :
			       product;
	case CP_BYTES_MORE:
		return first_argument(rsp) ? second_argument(rsp) : 0;
	default:
		return 0;
	}
}

/* The cell of a descriptor in a group; 0 = there is no room. */
inline struct cp_file *file_of(struct cp_column *c, u32 key)
{
	for (u32 n = 0; n < FILE_SEARCH; n++) {
		struct cp_file *f = &c->file[((key * 0x9e3779b9u >> 16) + n) & (CP_FILES - 1)];
		if (f->key == key)
			return f;
		if (!f->key) {
			f->key = key;
			return f;
		}
	}
	c->lost_files++;
	return 0;
}

/* A call that works on a file descriptor has ended. */
static __attribute__((noinline)) void count_io(struct cp_column *c, const struct cp_row *about,
					       u64 descriptor, u64 wait, i64 returned)
{
	if (descriptor >= CP_DESCRIPTORS - 1)
		return; /* it is none */
	struct cp_file *f = file_of(c, CP_FILE_KEY(about->io_group, descriptor));
	if (!f)
		return;
	f->wait += wait;
	if (about->io == CP_IO_READ) {
		f->reads++;
		f->read_bytes += returned > 0 ? (u64)returned : 0;
	} else if (about->io == CP_IO_WRITE) {
		f->writes++;
		f->write_bytes += returned > 0 ? (u64)returned : 0;
	} else {
		f->others++;
	}
}

__attribute__((used)) void probe_enter(struct cp_table *t, u32 function, u64 rsp)
{
	struct cp_column *c = own_column(t, 1);
	if (unlikely(!c))
		return;
	const u16 *row = t->function[function & (CP_FUNCTIONS - 1)].row;
	if (unlikely(is_nested(c, rsp))) {
		skip(c, row);
		return;
	}
	c->busy = rsp;
	in_order();
	u32 first = ~0u;
	for (int i = 0; i < CP_FUNCTION_ROWS; i++) {
		u32 r = row[i], is_timed = r & CP_TIMED;
		if (r == CP_NONE)
			break;
		r &= CP_ROWS - 1;
		const struct cp_row *about = &t->row[r];
		if (unlikely(about->gates) && !is_open(about, c, rsp))
			continue;
		struct cp_value *v = &c->value[r];
		v->calls++;
		if (unlikely(about->bytes))
			c->bytes[r] += bytes_asked(about->bytes, rsp);
		if (!is_timed)
			continue;
		if (first == ~0u) {
			drop_replaced(t, c, rsp);
			if (unlikely(c->entries >= CP_DEPTH - CP_FUNCTION_ROWS))
				drop_oldest(t, c);
			if (unlikely(c->entries >= CP_DEPTH - CP_FUNCTION_ROWS)) {
				v->skipped++;
				continue;
			}
			first = c->entries;
		}
		struct cp_entry *e = &c->entry[c->entries & (CP_DEPTH - 1)];
		e->rsp = rsp;
		e->children = e->children_cpu = 0;
		e->function = function;
		e->row = (u16)r;
		e->generation = about->generation;
		e->descriptor = about->io ? (u32)first_argument(rsp) : 0;
		v->depth++;
		c->entries++;
	}
	if (first != ~0u) {
		u64 now = ticks(), cpu = cpu_time(t, c, now);
		if (t->descriptor && unlikely(c->base_ticks > now))
			now = c->base_ticks; /* the kernel was asked */
		for (u32 i = first; i < c->entries; i++) {
			struct cp_entry *e = &c->entry[i & (CP_DEPTH - 1)];
			e->start = now;
			e->start_cpu = cpu;
			struct cp_value *v = &c->value[e->row];
			if (v->depth == 1) {
				v->since_cpu = cpu;
				v->since = now;
			}
		}
	}
	in_order();
	c->busy = 0;
}

/* A call has ended. */
inline void finish(struct cp_table *t, struct cp_column *c, struct cp_entry *e, u64 elapsed,
		   u64 elapsed_cpu, i64 returned)
{
	u32 row = e->row & (CP_ROWS - 1);
	struct cp_value *v = &c->value[row];
	if (e->generation != t->row[row].generation)
		return;
	if (v->depth && !--v->depth) {
		v->wall += elapsed;
		v->cpu += elapsed_cpu;
		v->since = v->since_cpu = 0;
	}
	v->own_wall += elapsed > e->children ? elapsed - e->children : 0;
	v->own_cpu += elapsed_cpu > e->children_cpu ? elapsed_cpu - e->children_cpu : 0;
	if (unlikely(t->row[row].io)) {
		u64 wall = ns_of(t, elapsed);
		count_io(c, &t->row[row], e->descriptor, wall > elapsed_cpu ? wall - elapsed_cpu : 0,
			 returned);
	}
	if (e->row & CP_NOTED)
		return;
	c->returned[row].wall += elapsed;
	c->returned[row].bucket[log2_of(ns_of(t, elapsed))]++;
}

/* The last entry of a frame, counted from 1; 0 = it was entered before it was probed. */
inline u32 match(struct cp_column *c, u32 function, u64 rsp)
{
	for (u32 n = 0; n < SEARCH && n < c->entries; n++) {
		u32 i = c->entries - n;
		struct cp_entry *e = &c->entry[(i - 1) & (CP_DEPTH - 1)];
		if (e->rsp == rsp)
			return e->function == function ? i : 0;
		if (is_inside(c, rsp, e->rsp))
			return 0; /* an outer frame of the same stack */
		if (!is_inside(c, e->rsp, rsp))
			c->has_switched = 1;
	}
	return 0;
}

__attribute__((used)) void probe_exit(struct cp_table *t, u32 function, u64 rsp)
{
	u64 now = ticks();
	i64 returned = function & CP_LEAVES_BY_JUMP ? 0 : (i64)result(rsp);
	function &= ~CP_LEAVES_BY_JUMP;
	struct cp_column *c = own_column(t, 0);
	if (unlikely(!c || is_nested(c, rsp)))
		return;
	c->busy = rsp;
	in_order();
	u32 last = match(c, function, rsp);
	if (likely(last)) {
		u32 first = last - 1;
		while (first && c->entry[(first - 1) & (CP_DEPTH - 1)].rsp == rsp)
			first--;
		/* Entries of one frame begin together. */
		struct cp_entry *begin = &c->entry[first & (CP_DEPTH - 1)];
		u64 elapsed = now > begin->start ? now - begin->start : 0;
		u64 cpu = cpu_time(t, c, now);
		u64 elapsed_cpu = cpu > begin->start_cpu ? cpu - begin->start_cpu : 0;
		for (u32 i = first; i < last; i++)
			finish(t, c, &c->entry[i & (CP_DEPTH - 1)], elapsed, elapsed_cpu, returned);
		/* Above it: inner frames that were abandoned, and those of other stacks. */
		u32 kept = first;
		for (u32 i = last; i < c->entries; i++) {
			struct cp_entry *e = &c->entry[i & (CP_DEPTH - 1)];
			if (is_inside(c, e->rsp, rsp))
				abandon(t, c, e);
			else
				c->entry[kept++ & (CP_DEPTH - 1)] = *e;
		}
		c->entries = kept;
		if (first) {
			u64 outer = c->entry[(first - 1) & (CP_DEPTH - 1)].rsp;
			for (u32 i = first; i && is_inside(c, rsp, outer); i--) {
				struct cp_entry *e = &c->entry[(i - 1) & (CP_DEPTH - 1)];
				if (e->rsp != outer)
					break;
				e->children += elapsed;
				e->children_cpu += elapsed_cpu;
			}
		}
	}
	in_order();
	c->busy = 0;
}

/* src/table.rs has the same numbers. */
#define offset(type, field) __builtin_offsetof(struct type, field)
_Static_assert(offset(cp_table, row) == 128, "head");
_Static_assert(sizeof(struct cp_row) == 64 && sizeof(struct cp_function) == 16, "rows");
_Static_assert(sizeof(struct cp_table) == 128 + CP_ROWS * 64 + CP_FUNCTIONS * 16, "table");
_Static_assert(sizeof(struct cp_entry) == 56 && sizeof(struct cp_value) == 64, "cells");
_Static_assert(offset(cp_column, entry) == 128, "column");
_Static_assert(offset(cp_column, value) == 128 + CP_DEPTH * 56, "values");
_Static_assert(offset(cp_column, returned) == 128 + CP_DEPTH * 56 + CP_ROWS * 64, "returned");
_Static_assert(sizeof(struct cp_returned) == 264, "returned");
_Static_assert(offset(cp_column, bytes) == offset(cp_column, returned) + CP_ROWS * 264, "bytes");
_Static_assert(offset(cp_column, file) == offset(cp_column, bytes) + CP_ROWS * 8, "files");
_Static_assert(sizeof(struct cp_file) == 64, "files");
