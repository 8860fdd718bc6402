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
/* File descriptors of a thread that are told apart. */
#define CP_FILES 512

/* Keys of columns that belong to no thread. */
#define CP_KEY_FREE 0     /* never used: ends a search */
#define CP_KEY_CLEARED 1  /* used before, may be taken */
#define CP_KEY_RETIRED 2  /* its thread has ended: its values are still to be read */

/* Gates of a row: a call is counted if all of them are open at its entry. */
#define CP_WITHIN 1  /* the thread is inside the function of the row `within` */
#define CP_CALLER 2  /* it returns to `caller_from` <= address < `caller_to` */
#define CP_HOLDING 4 /* the thread holds a lock that the agent watches */

/* Bytes that a call asks for, by its arguments. */
#define CP_BYTES_NONE 0
#define CP_BYTES_FIRST 1
#define CP_BYTES_SECOND 2
#define CP_BYTES_THIRD 3
#define CP_BYTES_PRODUCT 4 /* of the first two */
#define CP_BYTES_MORE 5    /* the second; none without the first, a pointer: that is another call */

/* What a call does to the file descriptor that is its first argument. */
#define CP_IO_NONE 0
#define CP_IO_READ 1  /* returns the bytes that it has read */
#define CP_IO_WRITE 2 /* returns the bytes that it has written */
#define CP_IO_OTHER 3

struct cp_row {
	u16 within;
	u16 generation; /* changes with every insertion: tells left-over entries */
	u8 gates;
	u8 bytes;
	u8 io;
	u8 held_slot;    /* which of the agent's counts of held locks */
	u32 held_epoch;  /* the agent's counts of another epoch are out of date */
	u32 io_group;    /* rows of one group count into the same files */
	i64 held_offset; /* of the thread's struct cv_holding, from the thread pointer */
	u64 caller_from;
	u64 caller_to;
	u64 reserved[3];
};

/* As the agent keeps it for each thread (abi/convoy_abi.h). */
struct cp_holding {
	u32 epoch;
	u32 reserved;
	u8 count[8];
};

/* Of a row of a function: its exits are patched, so that calls can be timed. */
#define CP_TIMED 0x8000
/* Of a row of an entry: the call was open when its timer came, so that its length is not known. */
#define CP_NOTED 0x4000

/* Of the number of a function that is left: by a jump to another one, which has not returned
 * yet. */
#define CP_LEAVES_BY_JUMP 0x80000000u

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
	u64 descriptor; /* of a row that counts into files */
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

/* What a thread did to a file descriptor in the rows of a group. */
struct cp_file {
	u32 key; /* CP_FILE_KEY, 0 = free */
	u32 reserved;
	u64 reads;
	u64 read_bytes;
	u64 writes;
	u64 write_bytes;
	u64 others;
	u64 wait; /* ns in calls without the CPU; without a CPU clock all of them */
	u64 reserved_tail;
};
#define CP_DESCRIPTORS (1u << 24)
#define CP_FILE_KEY(group, descriptor) ((u32)(group) << 24 | ((u32)(descriptor) + 1))

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
	u64 lost_files;    /* calls for which there was no free struct cp_file */
	u64 reserved[8];
	struct cp_entry entry[CP_DEPTH];
	struct cp_value value[CP_ROWS];
	struct cp_returned returned[CP_ROWS];
	u64 bytes[CP_ROWS]; /* that calls have asked for */
	struct cp_file file[CP_FILES];
} __attribute__((aligned(4096)));

#endif
