#include "sys/prefault.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>

/* The program's own segments, from the headers the kernel points to (getauxval(3), AT_PHDR). */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

enum { PAGE = 4096, BSS_MAX = 16 * 1024, STACK = 32 * 1024 };

static void populate(uintptr_t from, uintptr_t to, int how)
{
	from &= ~(uintptr_t)(PAGE - 1);
	if (to > from)
		(void)madvise((void *)from, to - from, how);
}

static void data_segment(uintptr_t base, const Elf64_Phdr *p, uintptr_t relro_end)
{
	uintptr_t from = base + p->p_vaddr, to = from + p->p_filesz;
	uint64_t bss = p->p_memsz - p->p_filesz;

	to += bss < BSS_MAX ? bss : BSS_MAX;
	if (relro_end > from)
		from = relro_end;
	populate(from, to, MADV_POPULATE_WRITE);
}

extern const char __executable_start[]; /* the linker's: the first segment's first byte */

static void segments(void)
{
	const Elf64_Phdr *ph = (const Elf64_Phdr *)getauxval(AT_PHDR);
	size_t n = ph == NULL ? 0 : getauxval(AT_PHNUM);
	uintptr_t base = (uintptr_t)__executable_start, relro_end = 0;

	for (size_t i = n; i-- > 0;) {
		if (ph[i].p_type == PT_LOAD && ph[i].p_offset == 0)
			base = (uintptr_t)__executable_start - ph[i].p_vaddr;
		if (ph[i].p_type == PT_GNU_RELRO)
			relro_end = ph[i].p_vaddr + ph[i].p_memsz;
	}
	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type != PT_LOAD)
			continue;
		if ((ph[i].p_flags & PF_W) != 0)
			data_segment(base, &ph[i], base + relro_end);
		else
			populate(base + ph[i].p_vaddr, base + ph[i].p_vaddr + ph[i].p_memsz, MADV_POPULATE_READ);
	}
}

static void stack(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	populate(here - STACK, here, MADV_POPULATE_WRITE);
}

void prefault(void)
{
	segments();
	stack();
}
