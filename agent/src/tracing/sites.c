/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Which sections are traced.
 *
 * A call site is looked up among the targets when it is first met. Of its sections the first ones of each thread are
 * traced, and then one in `period`, drawn at random, as the budget allows: what tracing has taken in all threads together is
 * kept below a share of the time that has passed. All threads together, because what a thread does in a section
 * the others wait for; the first ones of each thread, because only sections of several show what they share. Agent rules:
 * ../cv_agent.h.
 */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "../cv_modules.h"
#include "cv_tracer.h"

#include "../cv_banned.h"

#define SITES 16384u
#define PROBES 16u
#define MAX_PERIOD (1u << 16)
#define SELDOM (1u << 30) /* between two looks at a site that is not asked for */
/* Even without budget so many sections of a site are traced, one alone says nothing, */
#define SURE 4u
/* ... and so many of each further thread, of so many threads. */
#define SURE_OF_OTHERS 2u
#define SURE_THREADS 16u
/* The n-th thread at a site has an n-th of the first thread's first sections, and at least so many. */
#define FIRST_AT_LEAST 4u
/* So many sections of a site say nearly all that it has to say: what is seen of more of them is worth a part of the budget. */
#define ENOUGH 2048u
#define PART_OF_BUDGET 5
/* One part in so many of the budget is for what nobody times: caches that the program finds cold, and convoy's reading. */
#define UNTIMED_PART 8
/* The first sections of a thread may run the budget up to this into debt. */
#define DEBT_NS 10000000
/* Convoy looks about this often for what there is to read. */
#define PAUSE_NS 4000000u

static struct cv_trace_site sites[SITES];
static uint32_t epoch = 1;   /* atomic: of what threads remember */
static uint64_t spent_ns;    /* atomic: by tracing, all threads */
static uint64_t started_ns;
static uint64_t not_before_ns; /* atomic: convoy has to catch up until then */

/* A set of the objects that targets acquire, by their hash: a wait that takes one of them again begins a section, too. */
#define OBJECT_BITS 16384u
static uint64_t objects[OBJECT_BITS / 64];

static uint64_t *object_word(uint64_t object, uint64_t *bit)
{
	uint64_t h = cv_trace_hash(object) % OBJECT_BITS;

	*bit = 1ull << (h % 64);
	return &objects[h / 64];
}

/* ---- targets ---- */

static uint64_t fnv1a(const char *text)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 0x100000001b3ull;
	return h;
}

static int compare(const struct cv_target *a, const struct cv_target *b)
{
	int by_build = memcmp(a->build_id, b->build_id, sizeof(a->build_id));

	if (by_build)
		return by_build;
	if (a->path_hash != b->path_hash)
		return a->path_hash < b->path_hash ? -1 : 1;
	return a->offset == b->offset ? 0 : a->offset < b->offset ? -1 : 1;
}

static bool is_listed(uint64_t ra)
{
	const struct cv_target *list = (const struct cv_target *)(cv_trace_targets + 1);
	uint32_t id = cv_module_of(ra - 1), lo = 0, hi = cv_trace_targets->count;
	const struct cv_module *module = id ? cv_module_at(id - 1) : NULL;
	struct cv_target wanted = { 0 };

	if (!module)
		return false;
	wanted.offset = ra - module->bias;
	wanted.build_id_bytes = module->build_id_len < sizeof(wanted.build_id) ? module->build_id_len :
										 (uint32_t)sizeof(wanted.build_id);
	memcpy(wanted.build_id, module->build_id, wanted.build_id_bytes);
	if (!wanted.build_id_bytes)
		wanted.path_hash = fnv1a(module->path);
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		int c = compare(&list[mid], &wanted);

		if (c == 0)
			return true;
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

/* ---- sites of the process ---- */

/* Two threads may come at once: both find the same, and one of two entries is forgotten. */
static struct cv_trace_site *site_of(uint64_t ra)
{
	uint64_t h = cv_trace_hash(ra);

	for (uint32_t k = 0; k < PROBES; k++) {
		struct cv_trace_site *e = &sites[(h + k) % SITES];
		uint64_t none = 0;

		if (__atomic_load_n(&e->ra, __ATOMIC_ACQUIRE) != ra &&
		    !__atomic_compare_exchange_n(&e->ra, &none, ra, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) &&
		    none != ra)
			continue;
		if (__atomic_load_n(&e->kind, __ATOMIC_ACQUIRE) == CV_SITE_UNKNOWN) {
			bool target = cv_trace_targets->flags & CV_TARGETS_ALL || is_listed(ra);

			__atomic_store_n(&e->kind, target ? CV_SITE_TARGET : CV_SITE_OTHER, __ATOMIC_RELEASE);
		}
		return e;
	}
	cv_trace_drop(CV_TRACE_DROP_NO_SITE);
	return NULL;
}

void cv_trace_sites_forget(void)
{
	for (uint32_t i = 0; i < SITES; i++) {
		__atomic_store_n(&sites[i].kind, CV_SITE_UNKNOWN, __ATOMIC_RELAXED);
		__atomic_store_n(&sites[i].threads, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&sites[i].traced, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&sites[i].ra, 0, __ATOMIC_RELEASE);
	}
	__atomic_fetch_add(&epoch, 1, __ATOMIC_RELEASE);
}

void cv_trace_sites_reset(void)
{
	for (uint32_t i = 0; i < SITES; i++) {
		__atomic_store_n(&sites[i].threads, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&sites[i].period, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&sites[i].traced, 0, __ATOMIC_RELAXED);
	}
	__atomic_fetch_add(&epoch, 1, __ATOMIC_RELEASE); /* what a fork child remembers are its parent's sections */
	started_ns = cv_now();
	__atomic_store_n(&spent_ns, 0, __ATOMIC_RELAXED);
}

/* ---- what a thread remembers ---- */

#define SEEN_BYTES (CV_SEEN * sizeof(struct cv_trace_seen))
#define SEEN_PROBES 4u

static bool seen_ready(struct cv_tracer *s)
{
	uint32_t now = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE);
	long at;

	if (cv_likely(cv_trace_seen && s->epoch == now))
		return true;
	if (cv_trace_seen) {
		memset(cv_trace_seen, 0, SEEN_BYTES);
	} else {
		at = cv_syscall(SYS_mmap, 0, SEEN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at < 0 && at > -4096)
			return false;
		cv_trace_seen = (struct cv_trace_seen *)at;
		s->rng = (uint32_t)(cv_now() ^ (uint64_t)(uintptr_t)s) | 1;
	}
	s->epoch = now;
	return true;
}

void cv_trace_seen_free(void)
{
	struct cv_trace_seen *seen = cv_trace_seen;

	cv_trace_seen = NULL;
	if (seen && !cv_is_quiet())
		cv_syscall(SYS_munmap, (long)seen, SEEN_BYTES, 0, 0, 0, 0);
}

/* How many sections of the thread come before sampling. */
static void first_sections(struct cv_trace_seen *e)
{
	uint32_t nth = __atomic_add_fetch(&e->site->threads, 1, __ATOMIC_RELAXED);
	uint32_t first = cv_trace_targets->first / (nth ? nth : 1);

	e->sure = nth == 1 ? SURE : nth <= SURE_THREADS ? SURE_OF_OTHERS : 0;
	e->first = first > FIRST_AT_LEAST ? first : FIRST_AT_LEAST;
}

/* A site that is not asked for gives way to others: nothing is lost with it. */
static struct cv_trace_seen *seen_of(uint64_t ra)
{
	struct cv_trace_seen *room = NULL;
	uint64_t h = cv_trace_hash(ra);
	struct cv_trace_site *site;

	for (uint32_t k = 0; k < SEEN_PROBES; k++) {
		struct cv_trace_seen *e = &cv_trace_seen[(h + k) % CV_SEEN];

		if (cv_likely(e->ra == ra))
			return e;
		if (!room && (!e->ra || e->site->kind != CV_SITE_TARGET))
			room = e;
	}
	site = site_of(ra);
	if (!site)
		return NULL;
	if (!room) {
		cv_trace_drop(CV_TRACE_DROP_NO_SITE);
		return NULL;
	}
	*room = (struct cv_trace_seen){ .ra = ra, .site = site, .countdown = 1 };
	first_sections(room);
	return room;
}

/* ---- the budget ---- */

void cv_trace_spent(uint64_t ns)
{
	__atomic_fetch_add(&spent_ns, ns, __ATOMIC_RELAXED);
}

/* What is left of the budget for a site; below 0: debts. The budget is a share of the time without tracing, and what has
 * passed is both together. */
static int64_t left_ns(const struct cv_trace_site *site, uint64_t now)
{
	uint64_t passed = now > started_ns ? now - started_ns : 0;
	uint64_t budget = cv_trace_targets->budget_ppm;

	budget -= budget / UNTIMED_PART;
	if (__atomic_load_n(&site->traced, __ATOMIC_RELAXED) >= ENOUGH)
		budget /= PART_OF_BUDGET;

	return (int64_t)((unsigned __int128)passed * budget / (1000000 + budget)) -
	       (int64_t)__atomic_load_n(&spent_ns, __ATOMIC_RELAXED);
}

static uint32_t draw(struct cv_tracer *s, uint32_t period)
{
	s->rng ^= s->rng << 13;
	s->rng ^= s->rng >> 17;
	s->rng ^= s->rng << 5;
	return period <= 1 ? 1 : 1 + s->rng % (2 * period - 1); /* `period` on average */
}

static bool every(void)
{
	return cv_trace_targets->flags & CV_TARGETS_EVERY;
}

static void more_rarely(struct cv_trace_site *site)
{
	uint32_t period = __atomic_load_n(&site->period, __ATOMIC_RELAXED);

	__atomic_store_n(&site->period, period < 1 ? 2 : period < MAX_PERIOD ? period * 2 : period, __ATOMIC_RELAXED);
}

/* The period follows the budget: doubled where there is none, halved where much is left. */
static bool affordable(const struct cv_trace_seen *e, uint64_t now)
{
	struct cv_trace_site *site = e->site;
	uint32_t period = __atomic_load_n(&site->period, __ATOMIC_RELAXED);
	int64_t left = left_ns(site, now);

	if (e->sure || (e->first && left > -DEBT_NS))
		return now >= __atomic_load_n(&not_before_ns, __ATOMIC_RELAXED);
	if (left <= 0 || now < __atomic_load_n(&not_before_ns, __ATOMIC_RELAXED)) {
		more_rarely(site);
		return false;
	}
	if (left > DEBT_NS && period > 1)
		__atomic_store_n(&site->period, period / 2, __ATOMIC_RELAXED);
	return true;
}

/* ---- the choice ---- */

static bool is_wait(enum cv_op op)
{
	return op == CV_OP_COND_WAIT || op == CV_OP_COND_TIMEDWAIT;
}

/* The list of targets has acquires only. */
static bool is_asked_for(const struct cv_trace_site *site, enum cv_op op, uint64_t object)
{
	uint64_t bit, *word;

	if (site->kind == CV_SITE_TARGET && cv_trace_targets->flags & CV_TARGETS_ALL)
		return true;
	word = object_word(object, &bit);
	if (is_wait(op))
		return __atomic_load_n(word, __ATOMIC_RELAXED) & bit;
	if (site->kind != CV_SITE_TARGET)
		return false;
	if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit))
		__atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
	return true;
}

uint32_t cv_trace_chosen(struct cv_tracer *s, uint64_t ra, enum cv_op op, uint64_t object, uint64_t *now_ns)
{
	struct cv_trace_seen *e;
	uint32_t weight;
	bool affords;

	if (!seen_ready(s))
		return 0;
	e = seen_of(ra);
	if (!e)
		return 0;
	if (!is_asked_for(e->site, op, object)) {
		/* A wait may take another object next time. */
		if (!is_wait(op))
			e->countdown = SELDOM;
		return 0;
	}
	if (e->countdown > 1) {
		e->countdown--;
		e->passed++;
		return 0;
	}
	*now_ns = cv_now();
	affords = every() || affordable(e, *now_ns);
	if (!affords) {
		e->countdown = draw(s, e->site->period);
		e->passed++;
		return 0;
	}
	__atomic_fetch_add(&e->site->traced, 1, __ATOMIC_RELAXED);
	weight = e->passed + 1;
	e->passed = 0;
	e->sure -= e->sure > 0;
	e->first -= e->first > 0;
	/* The period may be long by what other threads have traced. */
	e->countdown = e->first ? 1 : draw(s, e->site->period);
	return weight;
}

void cv_trace_passed_over(uint64_t ra, uint32_t sections)
{
	struct cv_trace_seen *e = seen_of(ra);

	if (!e)
		return;
	e->passed += sections;
	if (every())
		return;
	more_rarely(e->site);
	__atomic_store_n(&not_before_ns, cv_now() + PAUSE_NS, __ATOMIC_RELAXED);
}
