/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Writing into this processor's ring. The tracepoints of the scheduler run with interrupts off, so that
 * there is one writer, and neither a lock nor an atomic operation is needed; nor is waking convoy up, which costs
 * more than all the rest: it looks by itself, and is woken up only when a program begins and before a buffer is full.
 */
#ifndef CONVOY_RING_H
#define CONVOY_RING_H

#include "maps.h"

/* How long skipped stacks are collected before they are told. */
#define SKIPPED_NS 100000000ull
/* Convoy is woken up at most once in this time: it looks once more by itself when what comes in meanwhile can be delivered (SOON and SETTLED
 * of the listener). */
#define RING_AGAIN_NS 10000000ull
/* What waits to be read is much from this part of a buffer on. */
#define FILLING 8

/* Flags for a record after which convoy is woken up, if it was not just now. Waking costs ten times as much as anything else here. */
static __always_inline uint64_t ring_bell(uint64_t now)
{
	struct cv_bpf_control *shared = the_control();

	/* Another processor may have rung later than that. */
	if (!shared || (int64_t)(now - shared->rung_ns) < (int64_t)RING_AGAIN_NS)
		return BPF_RB_NO_WAKEUP;
	shared->rung_ns = now;
	return BPF_RB_FORCE_WAKEUP;
}

/* Wakes convoy up to read the rings, with a record that nobody sees. */
static __noinline void ring_is_filling(uint64_t now)
{
	uint64_t flags = ring_bell(now);
	uint64_t *nothing;

	if (flags == BPF_RB_NO_WAKEUP)
		return;
	nothing = bpf_ringbuf_reserve(&records, sizeof(*nothing), 0);
	if (nothing)
		bpf_ringbuf_discard(nothing, flags);
}

static __always_inline struct cv_bpf_event *event_at(uint64_t position)
{
	uint32_t events_per_ring = config.ring_events;
	uint32_t at = bpf_get_smp_processor_id() * events_per_ring + ((uint32_t)position & (events_per_ring - 1));

	return bpf_map_lookup_elem(&events, &at);
}

/* Publishes the event at the head. */
static __always_inline void publish(struct cv_bpf_ring *ring)
{
#if defined(__TARGET_ARCH_x86)
	__asm__ volatile("" ::: "memory"); /* stores stay in order */
	*(volatile uint64_t *)&ring->head = ring->head + 1;
#else
	__sync_lock_test_and_set(&ring->head, ring->head + 1);
#endif
}

/* Writes how much is missing where it is missing. */
static __noinline void tell_lost(struct cv_bpf_ring *ring, uint32_t kind)
{
	struct cv_bpf_event *event = event_at(ring->head);

	if (!event)
		return;
	event->kind = kind;
	if (kind == CV_BPF_LOST) {
		event->ts_ns = ring->lost_to_ns;
		event->arg0 = ring->lost_from_ns;
		event->tid = ring->lost;
		ring->lost = 0;
	} else {
		event->ts_ns = ring->skipped_to_ns;
		event->arg0 = ring->skipped_from_ns;
		event->tid = ring->skipped;
		ring->skipped = 0;
	}
	publish(ring);
}

static __always_inline void count_lost(struct cv_bpf_ring *ring, uint64_t now)
{
	if (!ring->lost++)
		ring->lost_from_ns = now;
	ring->lost_to_ns = now;
}

static __always_inline void count_skipped(struct cv_bpf_ring *ring, uint64_t now)
{
	if (!ring->skipped++)
		ring->skipped_from_ns = now;
	ring->skipped_to_ns = now;
}

/* The event to fill and publish; none if the ring is full. */
static __always_inline struct cv_bpf_event *next_event(struct cv_bpf_ring *ring, uint64_t now)
{
	uint64_t used = ring->head - *(volatile uint64_t *)&ring->tail;

	/* Three: the event and what may have to be told before it. */
	if (used + 3 > config.ring_events) {
		count_lost(ring, now);
		return 0;
	}
	if (used > config.ring_events / FILLING)
		ring_is_filling(now);
	if (ring->lost)
		tell_lost(ring, CV_BPF_LOST);
	if (ring->skipped && now - ring->skipped_from_ns > SKIPPED_NS)
		tell_lost(ring, CV_BPF_LOST_STACKS);
	return event_at(ring->head);
}

#endif
