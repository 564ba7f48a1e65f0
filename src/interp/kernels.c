/*
 * The table of kernels and their sources, which are part of the program: nothing but the language
 * itself is needed in an image.
 */
#include "interp/interp.h"

#include <string.h>

/* clang-format off */
#define SOURCE(name, ...)                                                                          \
	__asm__(".section .rodata\n.global interp_" #name "\ninterp_" #name ":\n" __VA_ARGS__	   \
		".global interp_" #name "_end\ninterp_" #name "_end:\n.byte 0\n.previous\n");	   \
	extern const char interp_##name[], interp_##name##_end[]
SOURCE(python, ".incbin \"src/interp/charts.py\"\n.incbin \"src/interp/kernel.py\"\n");
SOURCE(node, ".incbin \"src/interp/kernel.js\"\n");
SOURCE(bash, ".incbin \"src/interp/kernel.sh\"\n");
/* clang-format on */

#define KERNEL(id, word, style, told, program, package, source, ...)                               \
	static const char *const argv_##id[] = {program, __VA_ARGS__, NULL};
#include "interp/kernels.def"
#undef KERNEL
#undef BOOT_PYTHON
#undef BOOT_NODE

#define KERNEL(id, word, style, told, program, package, source, ...)                               \
	{word,                                                                                     \
	 STYLE_##style,                                                                            \
	 told,                                                                                     \
	 program,                                                                                  \
	 package,                                                                                  \
	 argv_##id,                                                                                \
	 interp_##source,                                                                          \
	 interp_##source##_end},
static const struct interp_kernel kernels[] = {
#include "interp/kernels.def"
};
#undef KERNEL

const struct interp_kernel *interp_kernel(const char *word)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		if (strcmp(kernels[i].word, word) == 0)
			return &kernels[i];
	return NULL;
}
