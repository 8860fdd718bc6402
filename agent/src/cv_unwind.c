/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. The only state is the table of rules: single words, each whole by itself. */
#include <signal.h>
#include <sys/syscall.h>

#include "cv_cfi.h"
#include "cv_sandbox.h"
#include "cv_walk.h"

#include "cv_banned.h"

#define PAGE 4096ull
#define STACK_LO_MARGIN (16 * PAGE)

/* Weak, so that the unwinder can be tested by itself. */
uint64_t cv_stack_hi(void) __attribute__((weak));
uint64_t cv_stack_lo(void) __attribute__((weak));

/* ---- what may be read --------------------------------------------------------------------- */

bool cv_readable(uint64_t addr)
{
	/* The kernel reads the set before it refuses the operation: EFAULT if it cannot. */
	return !cv_is_quiet() && cv_syscall(SYS_rt_sigprocmask, ~0L, (long)addr, 0, 8, 0, 0) != -EFAULT;
}

void cv_stack_bounds(uint64_t *lo, uint64_t *hi)
{
	/* With only one end there is no telling the thread's stack from one of the program's making. Nor is
	 * there close to the low end, which is an estimate: below the guard page the next mapping
	 * follows, and that may be a coroutine's stack. */
	*lo = cv_stack_lo && cv_stack_hi ? cv_stack_lo() : 0;
	*hi = *lo ? cv_stack_hi() : 0;
	*lo += *lo ? STACK_LO_MARGIN : 0;
}

/* The known stack is readable from any stack pointer in it up to its end. */
static bool in_known_stack(const struct cv_walk *w, uint64_t addr)
{
	return addr >= w->stack_lo && addr < w->stack_hi;
}

void cv_walk_at(struct cv_walk *w, uint64_t sp)
{
	w->sp = sp;
	w->floor = sp - CV_RED_ZONE;
	if (in_known_stack(w, sp)) {
		w->lo = w->floor;
		w->hi = w->stack_hi;
	} else {
		w->lo = sp & ~(PAGE - 1);
		w->hi = w->lo;
		cv_walk_extend(w, sp & ~7ull);
	}
}

bool cv_walk_extend(struct cv_walk *w, uint64_t addr)
{
	uint64_t page = addr & ~(PAGE - 1);

	if (addr < w->floor || in_known_stack(w, w->sp) || !cv_readable(addr))
		return false;
	if (page == w->hi) {
		w->hi += PAGE;
	} else if (page + PAGE == w->lo) {
		w->lo = page;
	} else {
		w->lo = page;
		w->hi = page + PAGE;
	}
	return true;
}

#if defined(__x86_64__)
/* Is there a call before `pc`, in a function that is known? */
static bool after_call(uint64_t pc)
{
	const uint8_t *p = (const uint8_t *)pc;
	struct cv_cfi_row row;
	struct cv_mapping m;

	if (!cv_mapping_find(pc - 1, &m) || !cv_cfi_find(&m, pc - 1, &row) || !cv_readable(pc - 8))
		return false;
	if (p[-5] == 0xe8) /* call rel32 */
		return true;
	for (int length = 2; length <= 7; length++) /* call r/m64: ff /2, with or without displacement */
		if (p[-length] == 0xff && (p[1 - length] >> 3 & 7) == 2)
			return true;
	return false;
}
#else
static bool after_call(uint64_t pc)
{
	(void)pc;
	return false;
}
#endif

bool cv_walk_guess(struct cv_walk *w, uint64_t *bp)
{
	uint64_t caller_bp, caller;

	if (*bp < w->sp || !cv_walk_read(w, *bp, &caller_bp) || !cv_walk_read(w, *bp + 8, &caller))
		return false;
	if (!after_call(caller))
		return false;
	if (w->t->n)
		w->t->flags[w->t->n - 1] |= CV_FRAME_NO_RULE;
	w->pc = caller;
	w->sp = *bp + 16;
	w->exact = false;
	*bp = caller_bp;
	return true;
}

bool cv_is_sigreturn(uint64_t pc)
{
#if defined(__x86_64__)
	/* mov $15, %rax; syscall */
	static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	struct cv_mapping m;

	return cv_mapping_find(pc, &m) && m.hi - pc >= sizeof(code) && cv_readable(pc) && cv_readable(pc + 1) &&
	       memcmp((const void *)pc, code, sizeof(code)) == 0;
#else
	(void)pc;
	return false;
#endif
}

#if defined(__x86_64__)

/* ---- rules -------------------------------------------------------------------------------- */

/* How to get from a frame to its caller, where two registers are enough. 31 bits:
 * kind 3 | slot 8 | offset 20, signed, in words. */
enum rule_kind {
	RULE_UNKNOWN = 0, /* not looked at yet */
	RULE_SP,          /* CFA = sp + offset */
	RULE_BP,          /* CFA = bp + offset */
	RULE_REALIGNED,   /* CFA = word at bp + offset; the caller's bp is the word at bp */
	RULE_SIGNAL,      /* a signal frame: registers are in the ucontext */
	RULE_LAST,        /* no caller */
	RULE_FULL,        /* more than fits: the full unwinder's */
	RULE_NONE,        /* nothing is known */
};

/* The return address is at CFA - 8; the caller's bp at CFA - 8 - 8 * slot, or still in bp if slot is 0. */
#define RULE_SLOT_SHIFT 3
#define RULE_OFFSET_SHIFT 11
#define RULE_BITS 31

/* Direct-mapped. The index and the tag together are a permutation of the 47-bit address, so that a hit
 * is never another address's rule, and an entry is one word, so that it is never torn. */
#define RULES_BITS 14
#define ADDRESS_BITS 47
#define TAG_BITS (ADDRESS_BITS - RULES_BITS)
_Static_assert(TAG_BITS + RULE_BITS <= 64, "a rule entry is one word");

static uint64_t rules[1u << RULES_BITS];

void cv_rules_forget(void)
{
	for (uint32_t i = 0; i < 1u << RULES_BITS; i++)
		__atomic_store_n(&rules[i], 0, __ATOMIC_RELAXED);
}

static uint32_t rule_make(enum rule_kind kind, int64_t offset, uint32_t slot)
{
	int64_t words = offset / 8;

	if (offset % 8 || words < -(1 << 19) || words >= 1 << 19 || slot > 255)
		return RULE_FULL;
	return ((uint32_t)words << 12 >> 12) << RULE_OFFSET_SHIFT | slot << RULE_SLOT_SHIFT | kind;
}

/* Is the expression of the row just "word at register + offset" or "register + offset"? */
static bool expr_is(const struct cv_mapping *m, int32_t expr, uint8_t reg, bool deref, int64_t *offset)
{
	const uint8_t *p = (const uint8_t *)(m->lo + (uint64_t)expr);
	uint32_t length = *p++, i = 1;
	uint64_t v = 0;

	if (length < 2 || length > 8 || *p != 0x70 + reg)
		return false;
	do
		v |= (uint64_t)(p[i] & 0x7f) << (7 * (i - 1));
	while (p[i++] & 0x80 && i < length);
	if (p[i - 1] & 0x40)
		v |= ~0ull << (7 * (i - 1));
	*offset = (int64_t)v;
	return deref ? i + 1 == length && p[i] == 0x06 : i == length;
}

static bool saved_at(const struct cv_mapping *m, const struct cv_cfi_row *r, uint8_t reg, uint8_t base, int64_t want)
{
	int64_t offset;

	return r->how[reg] == CV_CFI_AT_EXPR && expr_is(m, r->value[reg], base, false, &offset) && offset == want;
}

static uint32_t rule_from(const struct cv_mapping *m, const struct cv_cfi_row *r)
{
	int64_t offset;
	uint32_t slot;

	if (r->how[CV_RIP] == CV_CFI_UNDEFINED)
		return RULE_LAST;
	if (r->signal) {
		if (r->cfa_is_expr && expr_is(m, r->cfa, CV_RSP, true, &offset) && offset == CV_SIGFRAME_RSP &&
		    saved_at(m, r, CV_RIP, CV_RSP, CV_SIGFRAME_RIP) &&
		    saved_at(m, r, CV_RBP, CV_RSP, CV_SIGFRAME_RBP))
			return RULE_SIGNAL;
		return RULE_FULL;
	}
	if (r->how[CV_RIP] != CV_CFI_AT || r->value[CV_RIP] != -8 || r->how[CV_RSP] != CV_CFI_SAME)
		return RULE_FULL;
	if (r->cfa_is_expr) {
		if (expr_is(m, r->cfa, CV_RBP, true, &offset) && saved_at(m, r, CV_RBP, CV_RBP, 0))
			return rule_make(RULE_REALIGNED, offset, 0);
		return RULE_FULL;
	}
	if (r->how[CV_RBP] == CV_CFI_SAME)
		slot = 0;
	else if (r->how[CV_RBP] == CV_CFI_AT && r->value[CV_RBP] <= -16 && r->value[CV_RBP] % 8 == 0)
		slot = (uint32_t)(-r->value[CV_RBP] / 8 - 1);
	else
		return RULE_FULL;
	if (r->cfa_reg == CV_RSP && r->cfa > 0)
		return rule_make(RULE_SP, r->cfa, slot);
	if (r->cfa_reg == CV_RBP)
		return rule_make(RULE_BP, r->cfa, slot);
	return RULE_FULL;
}

static CV_COLD uint32_t rule_learn(uint64_t at, uint64_t *entry, uint64_t tag)
{
	struct cv_cfi_row row;
	struct cv_mapping m;
	uint32_t rule;

	/* Not remembered for code of no object: an object may be loaded there any time. */
	if (!cv_mapping_find(at, &m))
		return RULE_NONE;
	if (cv_cfi_find(&m, at, &row))
		rule = rule_from(&m, &row);
	else if (cv_is_sigreturn(at) || cv_is_sigreturn(at + 1))
		rule = RULE_SIGNAL;
	else if (cv_cfi_find(&m, at + 1, &row))
		rule = RULE_LAST; /* a function's start: it made no call, but was put there to be returned
				     to, as makecontext() does */
	else
		rule = RULE_NONE;
	__atomic_store_n(entry, tag << RULE_BITS | rule, __ATOMIC_RELAXED);
	return rule;
}

static inline uint32_t rule_of(uint64_t at)
{
	uint64_t h = (at * 0x9E3779B97F4A7C15ull) & ((1ull << ADDRESS_BITS) - 1);
	uint64_t *entry = &rules[h >> TAG_BITS];
	uint64_t tag = h & ((1ull << TAG_BITS) - 1);
	uint64_t have = __atomic_load_n(entry, __ATOMIC_RELAXED);

	if (cv_unlikely(at >> ADDRESS_BITS))
		return RULE_NONE;
	if (cv_likely(have >> RULE_BITS == tag && have << (64 - RULE_BITS)))
		return (uint32_t)(have & ((1u << RULE_BITS) - 1));
	return rule_learn(at, entry, tag);
}

/* ---- the quick walk ------------------------------------------------------------------------ */

/* A read that the outcome depends on. */
static inline bool read_noted(struct cv_walk *w, uint64_t addr, uint64_t *value)
{
	struct cv_trace *t = w->t;
	uint64_t above = addr - w->frame;

	if (cv_unlikely(!cv_walk_read(w, addr, value)))
		return false;
	if (cv_unlikely(t->reads == CV_READS || above > UINT32_MAX)) {
		t->replayable = false;
		return true;
	}
	t->at[t->reads] = (uint32_t)above;
	t->word[t->reads++] = *value;
	return true;
}

struct quick {
	struct cv_walk w;
	uint64_t bp;
	uint64_t bp_at; /* where bp was saved, 0 = `bp` has it. Most frames never need it */
};

static inline bool need_bp(struct quick *q)
{
	if (q->bp_at && !read_noted(&q->w, q->bp_at, &q->bp))
		return false;
	q->bp_at = 0;
	return true;
}

enum step { STEP_CALLER, STEP_STOP, STEP_FULL };

static enum step stop(struct quick *q, enum cv_end end)
{
	q->w.t->end = end;
	return STEP_STOP;
}

/* Leave by a signal frame: the handler's stack may be another one than the interrupted one's. */
static enum step step_signal(struct quick *q)
{
	struct cv_walk *w = &q->w;
	uint64_t sp, at = w->sp;

	w->t->replayable = false;
	if (!cv_walk_read(w, at + CV_SIGFRAME_RIP, &w->pc) || !cv_walk_read(w, at + CV_SIGFRAME_RSP, &sp) ||
	    !cv_walk_read(w, at + CV_SIGFRAME_RBP, &q->bp))
		return stop(q, CV_END_BOUNDS);
	q->bp_at = 0;
	w->exact = true;
	cv_walk_at(w, sp);
	return STEP_CALLER;
}

static inline enum step step(struct quick *q)
{
	struct cv_walk *w = &q->w;
	uint32_t rule = rule_of(cv_walk_at_pc(w));
	int64_t offset = (int64_t)((int32_t)(rule << 1) >> (RULE_OFFSET_SHIFT + 1)) * 8;
	uint32_t slot = rule >> RULE_SLOT_SHIFT & 255;
	uint64_t cfa;

	switch ((enum rule_kind)(rule & 7)) {
	case RULE_SP:
		cfa = w->sp + (uint64_t)offset;
		break;
	case RULE_BP:
		if (!need_bp(q))
			return stop(q, CV_END_BOUNDS);
		cfa = q->bp + (uint64_t)offset;
		break;
	case RULE_REALIGNED:
		if (!need_bp(q) || !read_noted(w, q->bp + (uint64_t)offset, &cfa))
			return stop(q, CV_END_BOUNDS);
		q->bp_at = q->bp;
		break;
	case RULE_SIGNAL:
		return step_signal(q);
	case RULE_LAST:
		return stop(q, CV_END_LAST);
	case RULE_FULL:
		return STEP_FULL;
	default:
		w->t->replayable = false;
		if (!need_bp(q) || !cv_walk_guess(w, &q->bp))
			return stop(q, CV_END_NO_RULE);
		return STEP_CALLER;
	}
	if (cv_unlikely(cfa <= w->sp || !read_noted(w, cfa - 8, &w->pc)))
		return stop(q, CV_END_BOUNDS);
	if (slot)
		q->bp_at = cfa - 8 - 8 * (uint64_t)slot;
	w->sp = cfa;
	w->exact = false;
	return w->pc ? STEP_CALLER : stop(q, CV_END_LAST);
}

void cv_unwind(const void *frame, struct cv_trace *t)
{
	struct quick q = {.w.t = t, .w.frame = (uint64_t)frame, .bp_at = (uint64_t)frame};
	struct cv_walk *w = &q.w;
	enum step s = STEP_CALLER;

	cv_stack_bounds(&w->stack_lo, &w->stack_hi);
	cv_walk_at(w, w->frame);
	t->n = 0;
	t->reads = 0;
	t->replayable = true;
	t->end = CV_END_BOUNDS;
	if (!read_noted(w, w->frame + 8, &w->pc))
		return;
	w->sp = w->frame + 16;
	while (s == STEP_CALLER && cv_walk_keep(w))
		s = step(&q);
	if (cv_unlikely(s == STEP_FULL))
		cv_unwind_full(frame, t);
}

#else /* !__x86_64__ */

void cv_rules_forget(void)
{
}

/* Other processors: the caller alone. The frame record of AAPCS64 has it at frame + 8 as well. */
void cv_unwind(const void *frame, struct cv_trace *t)
{
	t->pc[0] = ((const uint64_t *)frame)[1];
	t->flags[0] = CV_FRAME_NO_RULE;
	t->n = 1;
	t->reads = 0;
	t->replayable = false;
	t->end = CV_END_NO_RULE;
}

#endif
