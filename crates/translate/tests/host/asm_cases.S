/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Instructions that are special to a translator, one function for each class. Each leaves its registers and flags in
 * the result: rdi on entry, kept in r15. r14 points to data.
 */
	.intel_syntax noprefix

	.data
	.balign 64
data:	.rept 512
	.byte (. - data) & 0xff, 1, 2, 3, 4, 5, 6, 0x80
	.endr
pointer: .quad target_a
	.quad target_b
	.balign 64
indices: .long 3, 0, 17, 5, 40, 2, 9, 33, 1, 8, 16, 4, 25, 60, 11, 7
wide:	.quad 5, 0, 30, 2, 9, 17, 1, 40
signs:	.long -1, 0, -1, 0x7fffffff, -2147483648, 1, -5, 0
	.quad -1, 0, -3, 4, -1, -1, 0, 9

	.text
.macro begin name
	.globl \name
	.type \name, @function
	.balign 16
\name:
	push rbx
	push rbp
	push r12
	push r13
	push r14
	push r15
	mov r15, rdi
	lea r14, data[rip]
	movabs rax, 0x1122334455667788
	mov ecx, 3
	mov rdx, -7
	mov ebx, 0x1234
	movabs rbp, 0x0102030405060708
	mov rsi, r14
	mov edi, 99
	mov r8d, 8
	mov r9, -9
	mov r10d, 10
	mov r11d, 11
	mov r12d, 12
	mov r13d, 13
	cmp rax, rdx
.endm

/* rsp is not among what it keeps: it differs by nothing. */
.macro finish
	mov [r15 + 2048], rax
	mov [r15 + 2056], rcx
	mov [r15 + 2064], rdx
	mov [r15 + 2072], rbx
	mov [r15 + 2080], rbp
	mov [r15 + 2088], rsi
	mov [r15 + 2096], rdi
	mov [r15 + 2104], r8
	mov [r15 + 2112], r9
	mov [r15 + 2120], r10
	mov [r15 + 2128], r11
	mov [r15 + 2136], r12
	mov [r15 + 2144], r13
	pushfq
	pop rax
	and eax, 0xcd5 /* not the trap flag */
	mov [r15 + 2152], rax
	cld
	pop r15
	pop r14
	pop r13
	pop r12
	pop rbp
	pop rbx
	ret
.endm

begin	asm_operands
	mov al, [r14]
	mov [r15 + 8], rax
	mov ax, [r14 + rcx * 2 + 6]
	movzx edx, byte ptr [r14 + r8 * 8 - 3]
	movsx rsi, word ptr [r14 + rcx]
	movsxd r9, dword ptr [r14 + r8]
	add [r15 + 16], rax
	adc dword ptr [r15 + 24], 5
	sbb rax, [r14 + 40]
	xchg [r15 + 32], rbx
	lock add dword ptr [r15 + 40], 7
	lock xadd [r15 + 48], rdx
	lock cmpxchg [r15 + 56], r8
	inc word ptr [r15 + 64]
	neg byte ptr [r15 + 66]
	not qword ptr [r15 + 72]
	movbe rax, [r14 + 16]
	crc32 rdx, qword ptr [r14 + 8]
	movnti [r15 + 80], rax
	shl dword ptr [r15 + 16], 3
	shld qword ptr [r15 + 16], rbp, cl
	rcl byte ptr [r15 + 17], cl
	imul r10, [r14 + 24], 77
	mul dword ptr [r14 + 4]
	div dword ptr [r14 + 32]
	mov rdx, [rip + pointer - 8]
	lea r11, [rip + data]
	sub r11, r14
	cmovs r12, [r14 + 8]
	cmovns r13, [r14 + 16]
	setne byte ptr [r15 + 100]
	popcnt rbx, [r14 + 8]
	bsf rsi, [r14 + 8]
	cmp byte ptr [r14 + 300], 4
	test dword ptr [r14 + 64], 0x40
	finish

begin	asm_stack
	push qword ptr [r14 + 8]
	push 77
	push rsp
	pop rax
	sub rax, rsp
	push [rsp]
	push [rsp + 8]
	pop [rsp]
	pop [rsp + 8]
	pop rcx
	pop qword ptr [r15 + 8]
	push -1
	pop [r15 + 16]
	pushfq
	mov rdx, [rsp]
	popfq
	pushfq
	pop r10
	xor r10, rdx
	mov [r15 + 24], r10
	and edx, 0xcd5
	mov [rsp - 8], rbp       /* the red zone */
	mov [rsp - 128], rbx
	mov r8, [rsp - 8]
	call 1f
1:	pop rcx
	lea rdx, [rip + 1b]
	sub rcx, rdx
	mov r9, [rsp - 128]
	enter 32, 0
	mov [rbp - 8], rax
	leave
	push ax
	pop cx
	finish

begin	asm_xlat
	mov rbx, r14
	mov eax, 17
	xlatb
	mov [r15], al
	mov rbx, r14
	.byte 0x64
	mov rax, qword ptr [0]   /* fs:0 */
	mov rax, fs:0
	mov rdx, fs:[rcx * 8]
	mov r10, -16
	mov rsi, fs:[r10 + 16]
	mov r11, fs:[r10 + rcx * 8 - 8]
	xor eax, eax
	xor edx, edx
	xor esi, esi
	xor r11d, r11d
	xor ebx, ebx
	finish

begin	asm_narrow
	/* 32-bit addresses: memory below 4 GiB is at rsi */
	mov rsi, [r15 + 4000]
	movabs rax, 0x5500000000
	or rsi, rax              /* ignored */
	mov edx, [esi + 8]
	mov [esi + ecx * 4], ebx
	mov dword ptr [esi + 64], 5
	mov rax, rsi
	mov rdi, r15
	mov esi, esi
	movsd
	cmp esi, 3
	mov eax, edx
	xor esi, esi
	xor edi, edi
	finish

begin	asm_strings
	mov rdi, r15
	mov ecx, 40
	rep movsb
	mov ecx, 5
	rep movsq
	mov ecx, 3
	rep movsw
	xor ecx, ecx
	rep movsd
	mov ecx, 10
	rep stosd
	xor ecx, ecx
	rep stosq
	mov rsi, r14
	mov ecx, 4
	rep lodsw
	mov ecx, 100
	mov rdi, r14
	mov al, 6
	repne scasb
	mov r8, rcx
	mov ecx, 30
	lea rdi, [r14 + 8]
	mov rsi, r14
	repe cmpsb
	mov r9, rcx
	xor ecx, ecx
	cmp eax, eax
	repe cmpsd
	lea rdi, [r15 + 400]
	lea rsi, [r14 + 100]
	std
	mov ecx, 9
	rep movsb
	mov ecx, 4
	rep stosq
	mov ecx, 1
	rep movsd
	mov ecx, 50
	lea rdi, [r14 + 200]
	mov al, 0x80
	repne scasb
	stosb [rdi + 0]
	cld
	lea rdi, [r15 + 500]
	movsb
	movsq
	stosw
	lodsb
	scasd
	cmpsb
	mov r11, rcx
	sub rsi, r14
	sub rdi, r15
	finish

begin	asm_bits
	mov rdx, 700
	bts [r15], rdx
	mov rdx, -300
	btr [r15 + 256], rdx
	mov edx, -40
	btc [r15 + 256], edx
	mov dx, -17
	bts [r15 + 256], dx
	mov rdx, 129
	bt [r14 + rcx * 8 + 16], rdx
	setc al
	bt dword ptr [r14], 9
	lock bts qword ptr [r15 + 8], 3
	mov edx, 65
	lock btr [r15 + 64], edx
	finish

begin	asm_flow
	xor ebx, ebx
	mov ecx, 5
1:	add ebx, ecx
	loop 1b
	mov ecx, 4
2:	cmp ecx, 2
	loopne 2b
	mov r8, rcx
	xor ecx, ecx
	jrcxz 3f
	add ebx, 1000
3:	mov ecx, 3
	jecxz 3b
	jmp 4f
	ud2
4:	lea rax, [rip + target_a]
	call rax
	call [rip + pointer + 8]
	lea rdx, [rip + pointer]
	call [rdx + rcx * 8 - 24]
	push rax
	push rax
	mov rax, [rip + pointer + 8]
	mov [rsp + 8], rax
	call [rsp + 8]           /* its address is found before the push */
	lea rsp, [rsp + 16]
	lea rax, [rip + 5f]
	jmp rax
	ud2
5:	lea rax, [rip + 6f]
	push rax
	ret
	ud2
6:	lea rax, [rip + 7f]
	mov [r15 + 64], rax
	jmp [r15 + 64]
	ud2
7:	mov qword ptr [r15 + 64], 0
	push 1
	push 2
	call target_c
	xor eax, eax
	dec ecx
	jnz 8f
	nop
8:	inc ebx                  /* a loop that leaves the carry flag alone */
	mov edx, 20
	stc
9:	mov rsi, [r14 + rdx * 8]
	lea rbx, [rbx + rsi]
	dec edx
	jnz 9b
	cmp ebx, 0
	xor eax, eax
	mov rax, 0
	finish

target_a: add ebx, 3
	ret
target_b: add ebx, 7
	repz ret
target_c: mov edx, [rsp + 8]
	ret 16

begin	asm_pairs
	mov rax, [r15]
	mov rdx, [r15 + 8]
	mov rbx, 5
	mov rcx, 6
	lock cmpxchg16b [r15]
	cmpxchg8b [r15 + 32]
	mov ecx, 1
	xor eax, eax
	xgetbv
	mov eax, 0
	mov ecx, 0
	cpuid
	rdtsc
	lfence
	mfence
	pause
	prefetcht0 [r14]
	clflush [r14 + 64]
	xor eax, eax
	xor edx, edx
	xor ecx, ecx
	xor ebx, ebx
	finish

begin	asm_state
	fld qword ptr [r14]
	fstp tbyte ptr [r15 + 16]
	fild dword ptr [r14 + 8]
	fistp qword ptr [r15 + 32]
	fnstcw [r15 + 40]
	fldcw [r15 + 40]
	stmxcsr [r15 + 44]
	ldmxcsr [r15 + 44]
	fnstenv [r15 + 64]
	fldenv [r15 + 64]
	lea rbx, [rsp - 8192]
	and rbx, -64
	mov rdi, rbx
	mov ecx, 512
	xor eax, eax
	rep stosq
	fxsave [rbx]
	fxrstor [rbx]
	mov eax, 7
	xor edx, edx
	xsave [rbx]
	xrstor [rbx]
	mov eax, 3
	xsavec [rbx]
	xrstor [rbx]
	fnstsw ax
	xor ebx, ebx
	xor edi, edi
	mov qword ptr [r15 + 64], 0
	mov qword ptr [r15 + 72], 0
	mov qword ptr [r15 + 80], 0
	mov qword ptr [r15 + 88], 0
	finish

begin	asm_transaction
	xor eax, eax
	mov edx, 5
	.byte 0xc7, 0xf8         /* xbegin 1f */
	.long 1f - 2f
2:	.byte 0x0f, 0x01, 0xd5   /* xend */
	mov edx, 5
1:	xor eax, eax
	finish

begin	asm_sse
	movdqu xmm0, [r14 + 3]
	movdqa [r15], xmm0
	paddd xmm0, [r14 + 16]
	movss xmm1, [r14 + 8]
	movsd [r15 + 16], xmm1
	movq xmm2, qword ptr [r14]
	movhps [r15 + 24], xmm0
	pinsrw xmm2, [r14 + 2], 3
	pextrb [r15 + 33], xmm0, 5
	cvtsi2sd xmm3, qword ptr [r14 + 8]
	movntdq [r15 + 64], xmm0
	movdqu xmm4, [rip + signs]
	lea rdi, [r15 + 80]
	maskmovdqu xmm0, xmm4
	emms
	movq mm0, [r14]
	movq [r15 + 128], mm0
	emms
	sub rdi, r15
	finish

begin	asm_avx
	vmovdqu ymm0, [r14 + 1]
	vmovups [r15 + 32], ymm0
	vmovdqu ymm1, [rip + signs]
	vmaskmovps ymm2, ymm1, [r14 + 4]
	vmaskmovps [r15 + 64], ymm1, ymm2
	vpmaskmovd [r15 + 96], xmm1, xmm0
	vmovdqu ymm3, [rip + signs + 32]
	vmaskmovpd [r15 + 128], ymm3, ymm0
	vpmaskmovq xmm4, xmm3, [r14 + 8]
	vmovdqu ymm5, [rip + indices]
	vmovdqa ymm6, ymm1
	vpgatherdd ymm7, [r14 + ymm5 * 4], ymm6
	vmovups [r15 + 160], ymm7
	vmovdqa ymm6, ymm3
	vpgatherdq ymm8, [r14 + xmm5 * 8 + 16], ymm6
	vmovups [r15 + 192], ymm8
	vmovdqu ymm9, [rip + wide]
	vmovdqa xmm6, xmm1
	vgatherqps xmm10, [r14 + ymm9 * 4], xmm6
	vmovups [r15 + 224], xmm10
	vmovdqa xmm6, xmm1
	vgatherqps xmm10, [r14 + xmm9 * 4], xmm6
	vmovups [r15 + 240], xmm10
	vpbroadcastd ymm11, [r14 + 4]
	vinserti128 ymm11, ymm11, [r14 + 16], 1
	vextracti128 [r15 + 256], ymm11, 1
	bextr rax, [r14 + 8], rdx
	andn rbx, rax, [r14 + 16]
	pdep rsi, rax, [r14]
	mulx r8, r9, [r14 + 8]
	rorx r10, [r14 + 8], 5
	sarx r11, [r14 + 16], rcx
	vzeroupper
	finish

begin	asm_avx512
	mov eax, 0xa5c3
	kmovd k1, eax
	mov rax, 0x8001f00f12345678
	kmovq k2, rax
	kmovw k3, [r14 + 7]
	vmovdqu64 zmm16, [r14 + 1]
	vmovdqu32 [r15]{k1}, zmm16
	vmovdqu8 [r15 + 64]{k2}, zmm16
	vmovdqu8 ymm17{k2}{z}, [r14 + 5]
	vmovdqu8 xmm18{k1}{z}, [r14 + 5]
	vmovdqu16 zmm19{k1}, [r14 + 9]
	vmovupd [r15 + 128]{k1}, ymm16
	vmovupd [r15 + 128]{k1}, xmm16
	vmovaps zmm20{k1}{z}, [r14]
	vmovss [r15 + 192]{k1}, xmm16
	vmovss xmm21{k3}{z}, [r14]
	vpcompressd [r15 + 200]{k1}, zmm16
	vpcompressq [r15 + 300]{k1}, ymm16
	vpcompressb [r15 + 400]{k2}, zmm16
	vpexpandd zmm22{k1}{z}, [r14 + 3]
	vexpandpd zmm23{k1}, [r14 + 5]
	vpmovqb [r15 + 500]{k1}, zmm16
	vpmovdw [r15 + 520]{k1}, zmm16
	vmovdqu64 zmm24, [rip + indices]
	kmovw k4, k1
	vpgatherdd zmm25{k4}, [r14 + zmm24 * 4]
	vmovdqu64 [r15 + 576], zmm25
	vmovdqu64 zmm26, [rip + wide]
	kmovw k4, k1
	vpgatherqq zmm27{k4}, [r14 + zmm26 * 8 - 8]
	kmovw k4, k1
	vpgatherqd ymm28{k4}, [r14 + zmm26 * 2 + 4]
	kmovw k4, k1
	vscatterdps [r15 + zmm24 * 4 + 640]{k4}, zmm16
	kmovw k4, k1
	vpscatterqq [r15 + ymm26 * 8 + 1024]{k4}, ymm16
	vpaddd zmm29, zmm16, dword ptr [r14 + 4]{1to16}
	vpaddd zmm29{k1}, zmm16, [r14 + 64]
	vpcmpub k5, zmm16, [r14], 4
	kmovq [r15 + 1500], k5
	vmovups [r15 + 1600], zmm29
	vzeroupper
	finish

	.section .note.GNU-stack, "", @progbits
