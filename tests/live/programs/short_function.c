// Calls `tiny`, which has no room for a jump of 5 bytes, exactly as often as `other`.
#include <stdio.h>
#include <unistd.h>

asm(".text\n"
    ".type tiny, @function\n"
    "tiny: .cfi_startproc\n"
    "	nop\n"
    "	ret\n"
    "	.cfi_endproc\n"
    ".size tiny, . - tiny\n"
    ".type behind, @function\n"
    "behind: .cfi_startproc\n"
    "	nop\n"
    "	ret\n"
    "	.cfi_endproc\n"
    ".size behind, . - behind\n");

extern void tiny(void), behind(void);

static volatile unsigned sink;

__attribute__((noinline)) void other(void)
{
	for (int i = 0; i < 100; i++)
		sink += i;
}

int main(void)
{
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		tiny();
		behind();
		other();
		usleep(200);
	}
}
