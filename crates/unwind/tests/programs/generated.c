// A thread that sleeps below code which is in no file: it keeps a frame pointer and has no other unwind information.
// `x86-64 only`: the code is machine code.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile int after;

__attribute__((noinline)) static void below(void)
{
	pause();
	after++;
}

// The caller of generated code keeps a frame pointer, too, as the stubs of just-in-time compilers do.
__attribute__((noinline, optimize("no-omit-frame-pointer"))) static void above(void (*code)(void (*)(void)))
{
	code(below);
	after++;
}

int main(void)
{
	static const unsigned char code[] = {
		0x55,                   // push %rbp
		0x48, 0x89, 0xe5,       // mov %rsp,%rbp
		0x48, 0x83, 0xec, 0x40, // sub $64,%rsp
		0xff, 0xd7,             // call *%rdi
		0xc9,                   // leave
		0xc3,                   // ret
	};
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return 1;
	memcpy(at, code, sizeof(code));
	printf("%p\n", at);
	fflush(stdout);
	above((void (*)(void (*)(void)))at);
	return after;
}
