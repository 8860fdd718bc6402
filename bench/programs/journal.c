/*
 * journal: threads append records to a log and wait until the disk has them, under one lock.
 *
 * threads=4 records=1500 encode=300000 gap=100000   links of work under the lock, and without it
 * file=journal.log   removed at the end
 */
#include "program.h"

#include <fcntl.h>
#include <unistd.h>

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t records, encode_links, gap, written;
static int log_file;

static NOINLINE uint64_t encode_record(uint64_t x)
{
	return work_inline(x, encode_links);
}

static NOINLINE uint64_t think(uint64_t x)
{
	return work_inline(x, gap);
}

static void append(uint64_t x)
{
	check(write(log_file, &x, sizeof x) == sizeof x, "write");
	check(fdatasync(log_file) == 0, "fdatasync");
}

static void *writer_main(void *arg)
{
	uint64_t x = (uintptr_t)arg;

	for (;;) {
		pthread_mutex_lock(&log_lock);
		if (written == records)
			break;
		written++;
		x = encode_record(x);
		append(x);
		pthread_mutex_unlock(&log_lock);
		x = think(x);
	}
	pthread_mutex_unlock(&log_lock);
	sink = x;
	return NULL;
}

int main(int argc, char **argv)
{
	const char *name;
	struct group writers;

	(void)argc;
	options = argv;
	records = number("records", 1500);
	encode_links = number("encode", 300000);
	gap = number("gap", 100000);
	name = option("file") ? option("file") : "journal.log";
	log_file = open(name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	check(log_file >= 0, "the log cannot be opened");
	start(&writers, number("threads", 4), writer_main, "writer");
	join(&writers);
	check(written == records && unlink(name) == 0, "records");
	return 0;
}
