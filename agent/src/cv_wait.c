/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. */
#include "cv_wait.h"

#include "cv_frames.h"
#include "cv_trace.h"

#include "cv_banned.h"

static uint32_t owner_of(const void *owner)
{
	return owner ? __atomic_load_n((const uint32_t *)owner, __ATOMIC_RELAXED) : 0;
}

void cv_block_begin(struct cv_blocking *b, struct cv_thread *t, uint64_t obj, uint64_t ra,
		    enum cv_object_kind kind, enum cv_op op, const void *owner)
{
	uint32_t holder_tid = owner_of(owner);

	*b = (struct cv_blocking){ .t = t, .obj = obj, .ra = ra, .kind = kind, .op = op, .since_ns = cv_now() };
	CV_EVENT(cv_event_wait_begins(b));
	CV_CAUSAL(cv_causal_waits(op));
	if (!cv_enter(t))
		return;
	b->detail = cv_detail_get(t, obj, cv_stack_capture(), op);
	if (b->detail)
		b->wait = cv_detail_wait(t, b->detail);
	b->object = cv_object_get(obj, kind);
	if (b->object)
		b->waker_ns = b->object->waker_ns;
	/* An owner writes its name a moment after it has taken the lock: look again if it had not yet. */
	if (!holder_tid)
		holder_tid = owner_of(owner);
	if (holder_tid && holder_tid != t->tid) {
		const struct cv_thread *holder = cv_thread_by_tid(holder_tid);

		b->peer.tid = holder_tid;
		if (holder)
			b->peer.frame = cv_last_frame(holder, obj);
	}
	cv_leave(t);
	t->wait_obj = obj;
	t->wait_op = op;
	t->wait_detail = b->detail ? cv_ref_of(b->detail) : 0;
	t->wait_peer_tid = b->peer.tid;
	t->wait_peer_frame = b->peer.frame;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->wait_since_ns = b->since_ns;
}

uint64_t cv_block_end(struct cv_blocking *b)
{
	uint64_t now = cv_now();

	b->t->wait_since_ns = 0;
	/* whoever released, signalled or posted while we waited has left word */
	if (b->object && b->object->waker_ns > b->waker_ns && b->object->waker_tid != b->t->tid) {
		b->peer.stack = b->object->waker_stack;
		if (!b->peer.tid)
			b->peer.tid = b->object->waker_tid;
	}
	CV_WAIT_ENDED(b->obj, now > b->since_ns ? now - b->since_ns : 1);
	CV_CAUSAL(cv_causal_leave());
	return now > b->since_ns ? now - b->since_ns : 0;
}

void cv_block_commit(struct cv_blocking *b, uint64_t wait_ns, bool timeout)
{
	CV_EVENT(cv_event_wait_ended(b, timeout));
	if (!b->detail || !cv_enter(b->t))
		return;
	if (b->wait)
		cv_wait_add(b->wait, wait_ns, timeout);
	if (b->peer.tid && !timeout)
		cv_pair_add(b->t, b->obj, b->detail->site, b->op, &b->peer, wait_ns);
	cv_leave(b->t);
}

static void hold_record(struct cv_thread *t, const struct cv_held *h)
{
	struct cv_entry *e = cv_at(h->detail);
	uint64_t hold_ns = h->released_ns > h->acquired_ns ? h->released_ns - h->acquired_ns : 0;
	uint64_t hold_us = hold_ns / 1000;
	struct cv_peer peer = { h->peer_tid, h->peer_frame, h->peer_stack };
	struct cv_wait_detail *w;

	if (!(h->flags & CV_HELD_WAIT_ONLY)) {
		e->detail.hold_n++;
		e->detail.hold_sum_ns += hold_ns;
		if (hold_us > e->detail.hold_max_us)
			e->detail.hold_max_us = hold_us < UINT32_MAX ? (uint32_t)hold_us : UINT32_MAX;
	}
	if (h->flags & CV_HELD_SAMPLED) {
		e->detail.hold_sampled_n++;
		e->detail.hold_sampled_sum_ns += hold_ns;
		if (h->acquire_ns < CV_ACQUIRE_MAX_NS) {
			e->detail.acquire_n++;
			e->detail.acquire_sum_ns += h->acquire_ns;
		}
	}
	if (!h->wait_ns && !h->spun_ns)
		return;
	w = cv_detail_wait(t, e);
	if (w) {
		w->busy_sum_ns += h->spun_ns;
		if (h->wait_ns)
			cv_wait_add(w, h->wait_ns, h->flags & CV_HELD_TIMEOUT);
	}
	if (peer.tid && h->wait_ns)
		cv_pair_add(t, e->obj, e->site, (enum cv_op)h->op, &peer, h->wait_ns);
}

/* How long this hold lasted will not be known, but the wait before it is. Rare enough to be done while the
 * program holds a lock. */
static void hold_give_up(struct cv_thread *t, struct cv_held *h)
{
	if (!h->wait_ns || !cv_enter(t))
		return;
	h->flags |= CV_HELD_WAIT_ONLY;
	hold_record(t, h);
	cv_leave(t);
}

/* Room for one more hold. A lock that is held already and acquired again was released behind our back (by
 * another thread, or with its memory): its old record ends here. So does the oldest when all are taken. */
static struct cv_held *held_room(struct cv_thread *t, uint64_t obj, bool wait_only)
{
	uint32_t n = t->held_count;

	for (uint32_t i = 0; !wait_only && i < n; i++)
		if (t->held[i].obj == obj && !t->held[i].released_ns && !(t->held[i].flags & CV_HELD_WAIT_ONLY)) {
			hold_give_up(t, &t->held[i]);
			return &t->held[i];
		}
	if (n < CV_HELD)
		return &t->held[n];
	cv_drop(CV_DROP_HELD_OVERFLOW);
	hold_give_up(t, &t->held[0]);
	memmove(&t->held[0], &t->held[1], (CV_HELD - 1) * sizeof(t->held[0]));
	return &t->held[CV_HELD - 1];
}

static void held_push(struct cv_thread *t, const struct cv_held *h)
{
	struct cv_held *room = held_room(t, h->obj, h->flags & CV_HELD_WAIT_ONLY);

	*room = *h;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (room == &t->held[t->held_count])
		t->held_count++;
}

void cv_block_held(struct cv_blocking *b, uint64_t wait_ns)
{
	CV_EVENT(cv_event_wait_held(b));
	if (!b->detail)
		return;
	held_push(b->t, &(struct cv_held){
				.obj = b->obj,
				.acquired_ns = b->since_ns + wait_ns,
				.wait_ns = wait_ns ? wait_ns : 1,
				.detail = cv_ref_of(b->detail),
				.peer_tid = b->peer.tid,
				.peer_frame = b->peer.frame,
				.peer_stack = b->peer.stack,
				.op = (uint16_t)b->op,
			});
}

void cv_block_deferred(struct cv_blocking *b, uint64_t wait_ns, bool timeout, uint64_t mutex)
{
	if (!b->detail)
		return;
	held_push(b->t, &(struct cv_held){
				.obj = mutex,
				.wait_ns = wait_ns ? wait_ns : 1,
				.detail = cv_ref_of(b->detail),
				.peer_tid = timeout ? 0 : b->peer.tid,
				.peer_frame = b->peer.frame,
				.peer_stack = b->peer.stack,
				.op = (uint16_t)b->op,
				.flags = CV_HELD_WAIT_ONLY | (timeout ? CV_HELD_TIMEOUT : 0),
			});
}

void cv_block_abandoned(struct cv_thread *t)
{
	struct cv_entry *e = cv_at(t->wait_detail);
	uint64_t since = t->wait_since_ns, now = cv_now();
	struct cv_wait_detail *w;

	t->wait_since_ns = 0;
	if (!since || !e || now < since || !cv_enter(t))
		return;
	w = cv_detail_wait(t, e);
	if (w)
		cv_wait_add(w, now - since, true);
	cv_leave(t);
}

void cv_hold_sampled(struct cv_thread *t, uint64_t obj, enum cv_op op, struct cv_entry *detail, uint64_t acquired_ns,
		     uint32_t acquire_ns)
{
	if (!detail)
		return;
	held_push(t, &(struct cv_held){
			     .obj = obj,
			     .acquired_ns = acquired_ns,
			     .detail = cv_ref_of(detail),
			     .op = (uint16_t)op,
			     .flags = CV_HELD_SAMPLED,
			     .acquire_ns = acquire_ns,
		     });
}

void cv_hold_spun(struct cv_thread *t, uint64_t obj, enum cv_op op, struct cv_entry *detail, uint64_t acquired_ns,
		  uint64_t spun_ns)
{
	if (!detail)
		return;
	held_push(t, &(struct cv_held){
			     .obj = obj,
			     .acquired_ns = acquired_ns,
			     .detail = cv_ref_of(detail),
			     .op = (uint16_t)op,
			     .spun_ns = spun_ns,
		     });
}

bool cv_hold_release(struct cv_thread *t, uint64_t obj)
{
	bool any = false;

	for (uint32_t i = t->held_count; i-- > 0;) {
		struct cv_held *h = &t->held[i];

		if (h->obj != obj)
			continue;
		any = true;
		if (!h->released_ns)
			h->released_ns = cv_now();
	}
	return any;
}

void cv_hold_commit(struct cv_thread *t, uint64_t obj)
{
	uint32_t kept = 0;

	if (!cv_enter(t))
		return;
	for (uint32_t i = 0; i < t->held_count; i++) {
		struct cv_held h = t->held[i];

		if (h.obj == obj && h.released_ns)
			hold_record(t, &h);
		else
			t->held[kept++] = h;
	}
	t->held_count = kept;
	cv_leave(t);
}

void cv_hold_forget(struct cv_thread *t, uint64_t obj)
{
	for (uint32_t i = t->held_count; i-- > 0;) {
		if (t->held[i].obj != obj || (t->held[i].flags & CV_HELD_WAIT_ONLY))
			continue;
		hold_give_up(t, &t->held[i]);
		t->held_count--;
		memmove(&t->held[i], &t->held[i + 1], (t->held_count - i) * sizeof(t->held[0]));
	}
}

struct cv_entry *cv_sample(struct cv_thread *t, uint64_t obj, enum cv_op op)
{
	struct cv_entry *e;

	if (!cv_enter(t))
		return NULL;
	e = cv_detail_get(t, obj, cv_stack_capture(), op);
	if (e)
		e->detail.samples += cv_work(t)->weight;
	cv_leave(t);
	return e;
}
