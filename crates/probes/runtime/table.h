/* The table of function probes in the probed process: src/table.rs has the same in Rust. */
#ifndef CONVOY_PROBE_TABLE_H
#define CONVOY_PROBE_TABLE_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define CP_MAGIC 0x73626f7270766f63ULL /* "covprobs" */
#define CP_ROWS 1024
#define CP_NONE 0xffff
/* Rows that one function may count into. */
#define CP_FUNCTION_ROWS 8
#define CP_FUNCTIONS 65536
/* Timed calls of a thread that may be open at once. */
#define CP_DEPTH 4096
#define CP_BUCKETS 64

/* Keys of columns that belong to no thread. */
#define CP_KEY_FREE 0     /* never used: ends a search */
#define CP_KEY_CLEARED 1  /* used before, may be taken */
#define CP_KEY_RETIRED 2  /* its thread has ended: its values are still to be read */

struct cp_row {
	u16 within;     /* row that must be open, CP_NONE = counted always */
	u16 generation; /* changes with every insertion: tells left-over entries */
	u16 reserved[2];
};

/* Of a row of a function: its exits are patched, so that calls can be timed. */
#define CP_TIMED 0x8000
/* Of a row of an entry: the call was open when its timer came, so that its length is not known. */
#define CP_NOTED 0x4000

struct cp_function {
	u16 row[CP_FUNCTION_ROWS]; /* with CP_TIMED; ends with CP_NONE */
};

struct cp_table {
	u64 magic; /* 0 in a child made by fork: it counts nothing */
	u64 columns;        /* a power of two */
	u64 hash_shift;     /* 64 - log2(columns) */
	i64 tid_offset;     /* of a thread's number, from its thread pointer */
	u64 ns_per_tick;    /* 32 bits behind the point */
	u64 no_room;        /* probes that found no free column */
	u64 descriptor;     /* a struct rseq_cs of a range that is never executed; 0 = no CPU clock */
	i64 rseq_offset;    /* of its rseq area, from the thread pointer */
	u64 reserved[8];
	struct cp_row row[CP_ROWS];
	struct cp_function function[CP_FUNCTIONS];
	/* u64 key[columns]: the thread pointers; struct cp_column column[columns] behind, at a page */
};

struct cp_entry {
	u64 rsp; /* where the return address is */
	u64 start;
	u64 start_cpu;
	u64 children; /* time in timed functions that it has called */
	u64 children_cpu;
	u32 function;
	u16 row;
	u16 generation;
};

/* Times in ticks of the time stamp counter, CPU times in ns. */
struct cp_value {
	u64 calls;
	u64 wall; /* of outermost calls that have ended */
	u64 own_wall;
	u64 cpu;
	u64 own_cpu;
	u64 since;     /* start of the outermost open call, 0 = none */
	u64 since_cpu;
	u32 depth;     /* open calls */
	u32 skipped;
};

/* All calls that have returned, recursive ones too. */
struct cp_returned {
	u64 wall;
	u32 bucket[CP_BUCKETS]; /* by log2 of ns */
};

struct cp_column {
	u64 busy; /* stack pointer of the probe that runs, 0 = none */
	u32 tid;
	u32 entries;
	u64 abandoned;    /* entries of frames that were left without a return */
	u32 has_switched; /* it runs on several stacks */
	u32 armed;        /* the CPU clock's base is valid while rseq says so */
	u64 base_cpu;
	u64 base_ticks;
	u64 cpu_resyncs;   /* times that the kernel was asked */
	u64 reserved[9];
	struct cp_entry entry[CP_DEPTH];
	struct cp_value value[CP_ROWS];
	struct cp_returned returned[CP_ROWS];
} __attribute__((aligned(4096)));

#endif
