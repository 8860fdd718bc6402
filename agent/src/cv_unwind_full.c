/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agent rules: cv_agent.h. Evaluates call frame information in full, frame by frame, keeping nothing. */
#include "cv_cfi.h"
#include "cv_walk.h"

#include "cv_banned.h"

#if defined(__x86_64__)

struct full {
	struct cv_walk w;
	uint64_t regs[CV_REGS];
	uint32_t known; /* bit per register */
};

static bool read_word(void *arg, uint64_t addr, uint64_t *value)
{
	return cv_walk_read(arg, addr, value);
}

static bool known(const struct full *f, uint64_t reg)
{
	return reg < CV_REGS && (f->known >> reg & 1);
}

static bool cfa_of(struct full *f, const struct cv_mapping *m, const struct cv_cfi_row *r, uint64_t *cfa)
{
	if (r->cfa_is_expr)
		return cv_cfi_eval(m, r->cfa, f->regs, f->known, NULL, read_word, &f->w, cfa);
	*cfa = f->regs[r->cfa_reg] + (uint64_t)(int64_t)r->cfa;
	return known(f, r->cfa_reg);
}

/* The caller's value of one register. */
static bool caller_reg(struct full *f, const struct cv_mapping *m, const struct cv_cfi_row *r, uint32_t reg,
		       uint64_t cfa, uint64_t *value)
{
	int32_t v = r->value[reg];
	uint64_t at;

	switch ((enum cv_cfi_how)r->how[reg]) {
	case CV_CFI_SAME:
		*value = reg == CV_RSP ? cfa : f->regs[reg];
		return reg == CV_RSP || known(f, reg);
	case CV_CFI_AT:
		return cv_walk_read(&f->w, cfa + (uint64_t)(int64_t)v, value);
	case CV_CFI_IS:
		*value = cfa + (uint64_t)(int64_t)v;
		return true;
	case CV_CFI_REGISTER:
		*value = known(f, (uint64_t)v) ? f->regs[v] : 0;
		return known(f, (uint64_t)v);
	case CV_CFI_AT_EXPR:
		return cv_cfi_eval(m, v, f->regs, f->known, &cfa, read_word, &f->w, &at) &&
		       cv_walk_read(&f->w, at, value);
	case CV_CFI_IS_EXPR:
		return cv_cfi_eval(m, v, f->regs, f->known, &cfa, read_word, &f->w, value);
	case CV_CFI_UNDEFINED:
		break;
	}
	return false;
}

static bool end(struct full *f, enum cv_end why)
{
	f->w.t->end = why;
	return false;
}

/* A signal frame that .eh_frame does not describe. */
static bool step_sigreturn(struct full *f)
{
	struct cv_walk *w = &f->w;
	uint64_t at = w->sp, sp;

	if (!cv_walk_read(w, at + CV_SIGFRAME_RIP, &w->pc) || !cv_walk_read(w, at + CV_SIGFRAME_RSP, &sp) ||
	    !cv_walk_read(w, at + CV_SIGFRAME_RBP, &f->regs[CV_RBP]) ||
	    !cv_walk_read(w, at + CV_SIGFRAME_RBX, &f->regs[CV_RBX]))
		return end(f, CV_END_BOUNDS);
	for (uint32_t reg = 8; reg < CV_RIP; reg++)
		if (!cv_walk_read(w, at + CV_SIGFRAME_R8 + 8 * (reg - 8), &f->regs[reg]))
			return end(f, CV_END_BOUNDS);
	f->regs[CV_RSP] = sp;
	f->known |= 0xff << 8 | 1u << CV_RBP | 1u << CV_RBX;
	w->exact = true;
	cv_walk_at(w, sp);
	return true;
}

static bool step_guess(struct full *f)
{
	if (!known(f, CV_RBP) || !cv_walk_guess(&f->w, &f->regs[CV_RBP]))
		return end(f, CV_END_NO_RULE);
	f->regs[CV_RSP] = f->w.sp;
	f->known &= 1u << CV_RSP | 1u << CV_RBP;
	return true;
}

/* To the caller; false: the trace ends here. */
static bool step(struct full *f)
{
	uint64_t caller[CV_REGS], cfa, at = cv_walk_at_pc(&f->w);
	struct cv_walk *w = &f->w;
	struct cv_cfi_row row;
	struct cv_mapping m;
	uint32_t got = 0;

	if (!cv_mapping_find(at, &m))
		return step_guess(f);
	if (!cv_cfi_find(&m, at, &row)) {
		if (cv_is_sigreturn(w->pc))
			return step_sigreturn(f);
		if (!w->exact && cv_cfi_find(&m, w->pc, &row))
			return end(f, CV_END_LAST); /* as in cv_unwind.c */
		return step_guess(f);
	}
	if (row.how[CV_RIP] == CV_CFI_UNDEFINED)
		return end(f, CV_END_LAST);
	f->regs[CV_RIP] = w->pc;
	f->known |= 1u << CV_RIP;
	if (!cfa_of(f, &m, &row, &cfa))
		return end(f, CV_END_NO_RULE);
	/* Callers are further up. An interrupted function may have popped its return address already. */
	if (!row.signal && (cfa < w->sp || (cfa == w->sp && !w->exact)))
		return end(f, CV_END_BOUNDS);
	for (uint32_t reg = 0; reg < CV_REGS; reg++)
		if (caller_reg(f, &m, &row, reg, cfa, &caller[reg]))
			got |= 1u << reg;
	if (!(got >> CV_RIP & 1) || !(got >> CV_RSP & 1))
		return end(f, CV_END_BOUNDS);
	memcpy(f->regs, caller, sizeof(caller));
	f->known = got;
	w->pc = caller[CV_RIP];
	w->exact = row.signal;
	if (row.signal)
		cv_walk_at(w, caller[CV_RSP]);
	else
		w->sp = caller[CV_RSP];
	return w->pc ? true : end(f, CV_END_LAST);
}

/* The registers that a call preserves, and the stack and instruction pointers that belong to them. */
#define CAPTURE(f)                                                                                       \
	__asm__ volatile("movq %%rbx, 24(%0)\n\t"                                                        \
			 "movq %%rbp, 48(%0)\n\t"                                                        \
			 "movq %%rsp, 56(%0)\n\t"                                                        \
			 "movq %%r12, 96(%0)\n\t"                                                        \
			 "movq %%r13, 104(%0)\n\t"                                                       \
			 "movq %%r14, 112(%0)\n\t"                                                       \
			 "movq %%r15, 120(%0)\n\t"                                                       \
			 "leaq 0f(%%rip), %%rax\n\t"                                                     \
			 "movq %%rax, 128(%0)\n"                                                         \
			 "0:"                                                                            \
			 :                                                                               \
			 : "r"((f)->regs)                                                                \
			 : "rax", "memory")

void cv_unwind_full(const void *frame, struct cv_trace *t)
{
	struct full f;
	struct cv_walk *w = &f.w;
	bool outside = false;

	CAPTURE(&f);
	f.known = 1u << CV_RBX | 1u << CV_RBP | 1u << CV_RSP | 0xf << CV_R12;
	w->t = t;
	w->frame = (uint64_t)frame;
	w->pc = f.regs[CV_RIP];
	w->exact = true;
	cv_stack_bounds(&w->stack_lo, &w->stack_hi);
	cv_walk_at(w, f.regs[CV_RSP]);
	t->n = 0;
	t->reads = 0;
	t->replayable = false;
	while (step(&f)) {
		/* Only what called the function that `frame` belongs to. Beyond it the stack may be
		 * another one, at any address. */
		outside = outside || w->sp > w->frame;
		if (outside && !cv_walk_keep(w))
			break;
	}
}

#endif
