/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* All maps. Sizes of 1 are set by convoy before loading. */
#ifndef CONVOY_MAPS_H
#define CONVOY_MAPS_H

#include "call.h"
#include "convoy_bpf.h"

#define KNOWN_PLACES 128

/* Of a recorded thread: that it is there makes the thread one. */
struct task {
	uint32_t told;       /* its fork or its being there has been told */
	uint32_t has_waker;  /* the fields below are of a wake-up that has begun */
	uint64_t waker_arg0;
	uint32_t waker_tid;
	uint32_t waker_key;
	uint32_t waker_arg1;
	int16_t waker_nr;
	uint16_t waker_flags;
	uint32_t random;     /* the state of a generator */
	uint32_t copied;     /* stacks of known places, copied again; no further than COPIED_ENOUGH */
	uint64_t stack_end;  /* first address above the stack that cannot be read; 0 = not yet known */
	uint32_t known[KNOWN_PLACES]; /* keys of places whose stack was copied */
};

/* Built here and then sent with its real length. Used only with interrupts off. */
struct scratch {
	struct cv_bpf_stack stack;
	uint8_t bytes[sizeof(struct cv_bpf_registers) + CV_BPF_STACK_MAX];
};

const volatile struct cv_bpf_config config;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task);
} tasks SEC(".maps");

/* Processes to adopt. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, uint32_t);
	__type(value, uint32_t);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct cv_bpf_control);
} control SEC(".maps");

/* One per possible processor. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct cv_bpf_ring);
} rings SEC(".maps");

/* config.ring_events per possible processor. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct cv_bpf_event);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline struct task *task_of(struct task_struct *task)
{
	return bpf_task_storage_get(&tasks, task, 0, 0);
}

static __always_inline struct cv_bpf_control *the_control(void)
{
	uint32_t zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

/* Adds one to a field of the control. */
#define COUNT(field)                                                                                                   \
	do {                                                                                                           \
		struct cv_bpf_control *shared_ = the_control();                                                        \
                                                                                                                       \
		if (shared_)                                                                                           \
			__sync_fetch_and_add(&shared_->field, 1);                                                      \
	} while (0)

static __always_inline struct cv_bpf_ring *this_ring(void)
{
	uint32_t cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&rings, &cpu);
}

#endif
