/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Writing into this processor's ring. The tracepoints of the scheduler run with interrupts off, so that
 * there is one writer, and neither a lock nor an atomic operation is needed; waking convoy up, which costs
 * more than all the rest, is not needed either: it looks by itself.
 */
#ifndef CONVOY_RING_H
#define CONVOY_RING_H

#include "maps.h"

/* How long skipped stacks are collected before they are told. */
#define SKIPPED_NS 100000000ull

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
	if (ring->lost)
		tell_lost(ring, CV_BPF_LOST);
	if (ring->skipped && now - ring->skipped_from_ns > SKIPPED_NS)
		tell_lost(ring, CV_BPF_LOST_STACKS);
	return event_at(ring->head);
}

#endif
